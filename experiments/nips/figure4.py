"""Figure 4 of the paper: all papers of NIPS 1-12 in a tree, with authors, words and years.

    python experiments/nips/figure4.py nips12.npz nips12_meta.json --out nips-tree

The first file has ``words`` (the word of each token, documents one after the other) and ``doc_ptr``
(where each begins, and the end); the second ``vocab``, ``titles``, ``authors``, ``doc_authors``
(numbers of authors, of each paper) and ``year``. Draws go to ``nips-tree/run``: an interrupted
command goes on where it was. At the end come ``figure4.pdf`` and ``figure4.png``, nodes with at
least fifty papers at or below them, each with its five most frequent authors and words and its
years, and ``tree.html``, the whole tree. ``--schedule paper`` has the paper's moves.
"""

import argparse
import json
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from treestick import TopicTree, Tree
from treestick.io.corpus import Corpus, make_corpus
from treestick.prior import draw_urn
from treestick.report.cards import card_figure
from treestick.report.explorer import write_page
from treestick.report.subject import describe

PAPERS_MOVES = "paper"
START = {"alpha0": 10.0, "decay": 0.425, "gamma": 1.0}
"""Of the draw from the prior."""


def read(tokens: str, about: str) -> Corpus:
    """Return the papers with what is known of them."""
    with np.load(tokens) as file:
        words, first = file["words"], file["doc_ptr"]
    known = json.loads(Path(about).read_text("utf-8"))
    n_papers = first.size - 1
    paper = np.repeat(np.arange(n_papers), np.diff(first))
    shape = (n_papers, len(known["vocab"]))
    counts = sparse.csr_array((np.ones(words.size), (paper, words)), shape=shape)
    counts.sum_duplicates()
    names = [name.replace("_", " ") for name in known["authors"]]
    authors = [[names[k] for k in of_paper] for of_paper in known["doc_authors"]]
    metadata = {"title": known["titles"], "authors": authors, "year": known["year"]}
    return make_corpus(counts, known["vocab"], None, metadata)


def beginning(schedule: str, n_papers: int, seed: int) -> Tree | str:
    """Return where a chain begins: the paper's moves would not leave the root."""
    return draw_urn(n_papers, **START, seed=seed) if schedule == PAPERS_MOVES else "root"


def measure(tree: Tree, least: int) -> str:
    """Return in words how many nodes there are, and how papers are spread over them."""
    alone, inner = int(np.sum(tree.n_here == 1)), tree.n_below > 0
    return (
        f"{tree.n_nodes} nodes, depth {tree.depth.max()}; {alone} have one paper, "
        f"{np.sum(tree.n_here >= least)} at least {least}, "
        f"{np.sum(tree.n_through >= least)} at least {least} at or below them; "
        f"{tree.n_here[inner].sum()} papers are at inner nodes"
    )


def main(words: Sequence[str] | None = None) -> str:
    """Fit, and draw; return what the tree is like."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tokens", help="nips12.npz")
    parser.add_argument("about", help="nips12_meta.json")
    parser.add_argument("--out", type=Path, default=Path("nips-tree"))
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--burn-in", type=int, default=150, help="sweeps of everything")
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--min-papers", type=int, default=50)
    parser.add_argument(
        "--schedule", choices=("default", PAPERS_MOVES), default="default",
        help="the paper's moves of the tree, from a draw of the prior, or with all others",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, help="threads; all cores if not given")
    options = parser.parse_args(words)
    corpus = read(options.tokens, options.about)
    model = TopicTree(
        options.topics,
        burn_in=options.burn_in,
        n_draws=options.draws,
        n_chains=1,
        init=beginning(options.schedule, corpus.counts.shape[0], options.seed),
        schedule=options.schedule,
        n_jobs=options.jobs,
        random_state=options.seed,
        run_dir=options.out / "run",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # one chain has nobody to agree with
        model.fit(corpus)
    if len(model.draws_) < options.draws:
        raise SystemExit(f"stopped after {len(model.draws_)} draws; the same command goes on")
    subject = describe(model, corpus, title=f"{corpus.counts.shape[0]:,} papers of NIPS 1-12")
    show = ["authors:5", "words:5", "year"]
    figure = card_figure(subject, show, options.min_papers, page="a3")
    for ending in ("pdf", "png"):
        figure.savefig(options.out / f"figure4.{ending}", dpi=200)
    write_page(subject, options.out / "tree.html")
    found = measure(model.tree_, options.min_papers)
    print(found)
    return found


if __name__ == "__main__":
    main()
