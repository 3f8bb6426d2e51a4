"""Topic models: tokens per second beside tomotopy, how fast both samplers get there, held out.

    python benchmarks/topics.py speed likelihood heldout --data nips12.npz

The file has ``words`` (the word of each token, documents one after the other) and ``doc_ptr``
(where each begins, and the end). All times are CPU seconds of one thread.

speed       tokens per second of LDA's two samplers and of tomotopy, in turns
likelihood  log p(words, topics of tokens) against CPU seconds, both samplers
heldout     perplexity of 540 of the documents by empirical likelihood and by completion
"""

import argparse
import itertools
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from treestick import LDA
from treestick.analysis.heldout import document_completion, empirical_likelihood, make_folds
from treestick.analysis.topic_draws import TopicDraw, laplace_multinomial
from treestick.random import make_key
from treestick.tokens import gibbs, priors
from treestick.tokens.documents import Documents, make_documents

ALPHA, BETA = 0.1, 0.01


def read(path: str) -> sparse.csr_array:
    """Return the counts of a corpus."""
    with np.load(path) as content:
        words, edges = content["words"].astype(np.int64), content["doc_ptr"]
    rows = np.repeat(np.arange(edges.size - 1), np.diff(edges))
    shape = (edges.size - 1, int(words.max()) + 1)
    return sparse.csr_array((np.ones(words.size), (rows, words)), shape=shape)


def show(*cells: object) -> None:
    """Print a row of a table."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def head(*cells: str) -> None:
    """Print the head of a table."""
    show(*cells)
    print("|" + "---|" * len(cells), flush=True)


def ours(documents: Documents, n_topics: int, mode: str) -> Callable[[], None]:
    """Return a function that does one sweep with fixed priors, and burn in."""
    fixed = gibbs.Concentrations(np.full(n_topics, ALPHA), ALPHA, ALPHA, BETA, BETA, BETA)
    state = gibbs.first_state(make_key(0), documents, fixed)

    def sweep() -> None:
        nonlocal state
        state = gibbs.sweep(make_key(0, 0, state.sweep + 1), state, documents, mode)

    return sweep


def tomotopys(counts: sparse.csr_array, n_topics: int) -> Callable[[], None]:
    """Return a function that does one of its sweeps, priors fixed as well."""
    import tomotopy

    model = tomotopy.LDAModel(k=n_topics, alpha=ALPHA, eta=BETA, seed=1)
    model.optim_interval = 0
    for d in range(counts.shape[0]):
        cells = slice(counts.indptr[d], counts.indptr[d + 1])
        words = np.repeat(counts.indices[cells], counts.data[cells].astype(int))
        if words.size:
            model.add_doc([str(word) for word in words.tolist()])

    def sweep() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.train(1, workers=1)

    return sweep


def speed(counts: sparse.csr_array, options: argparse.Namespace) -> None:
    """Print millions of tokens per CPU second; sweeps of all take turns."""
    documents, n_tokens = make_documents(counts), float(counts.sum())
    head("topics", *gibbs.MODES, "tomotopy, 1 worker", *(f"{m} : tomotopy" for m in gibbs.MODES))
    for n_topics in options.topics:
        sweeps = [ours(documents, n_topics, mode) for mode in gibbs.MODES]
        sweeps.append(tomotopys(counts, n_topics))
        rates: list[list[float]] = [[] for _ in sweeps]
        for number in range(options.burn_in + options.rounds):
            for found, sweep in zip(rates, sweeps, strict=True):
                began = time.process_time()
                sweep()
                if number >= options.burn_in:
                    found.append(n_tokens / (time.process_time() - began) / 1e6)
        ratios = [[a / b for a, b in zip(found, rates[-1], strict=True)] for found in rates[:-1]]
        show(
            n_topics,
            *(f"{statistics.median(found):.1f}" for found in rates),
            *(f"{statistics.median(r):.2f} ({min(r):.2f} to {max(r):.2f})" for r in ratios),
        )


def likelihood(counts: sparse.csr_array, options: argparse.Namespace) -> None:
    """Print how the log joint per token grows with CPU time, priors inferred."""
    documents, n_tokens = make_documents(counts), float(counts.sum())
    head("topics", "sampler", *(f"{s:g} s" for s in options.seconds), "sweeps")
    for n_topics, mode in itertools.product(options.topics, gibbs.MODES):
        start = gibbs.Concentrations(np.full(n_topics, ALPHA), 1e-3, 10.0, BETA, 1e-3, 1.0)
        chain = gibbs.run_gibbs(0, 0, documents, start, mode)
        next(chain)  # which compiles
        spent, cells = 0.0, []
        for seconds in options.seconds:
            while spent < seconds:
                began = time.process_time()
                state = next(chain)
                spent += time.process_time() - began
            now = state.concentrations
            cells.append(f"{priors.log_joint(state.counts, now.alpha, now.beta) / n_tokens:.4f}")
        show(n_topics, mode, *cells, state.sweep)


def heldout(counts: sparse.csr_array, options: argparse.Namespace) -> None:
    """Print perplexities on the first fold."""
    train, test = make_folds(counts.shape[0], counts.shape[0] - 540, 1)[0]
    head("model", "empirical likelihood", "effective: least, median, most", "completion", "s, fit")

    def row(name: str, draws: Any, seconds: float) -> None:
        n_pseudo = options.pseudo if len(draws[0].topics) > 1 else 20
        whole = empirical_likelihood(draws, counts[test], n_pseudo)
        half = document_completion(draws, counts[test])
        effective = np.percentile(whole.n_effective, [0, 50, 100])
        show(
            name,
            f"{whole.perplexity:.0f} ± {whole.error:.1f}",
            ", ".join(f"{n:.1f}" for n in effective),
            f"{half.perplexity:.0f} ± {half.error:.1f}",
            f"{seconds:.0f}",
        )

    baseline: list[TopicDraw] = [laplace_multinomial(counts[train])]
    row("multinomial", baseline, 0.0)
    for n_topics, mode in itertools.product(options.topics, gibbs.MODES):
        began = time.process_time()
        model = LDA(n_topics, sampler=mode, n_jobs=1, random_state=0, verbose=0, burn_in=500)
        model.fit(counts[train])
        row(f"LDA, {mode}, {n_topics} topics", model.draws_, time.process_time() - began)


CHOICES = {"speed": speed, "likelihood": likelihood, "heldout": heldout}


def main() -> None:
    """Run the parts that were chosen."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="+", choices=CHOICES)
    parser.add_argument("--data", required=True, help="file with words and doc_ptr")
    parser.add_argument("--topics", type=int, nargs="+", default=[20, 50, 100])
    parser.add_argument("--burn-in", type=int, default=30, help="sweeps before speed is taken")
    parser.add_argument("--rounds", type=int, default=15, help="sweeps that speed is taken of")
    parser.add_argument("--seconds", type=float, nargs="+", default=[2, 5, 10, 20, 40, 80])
    parser.add_argument("--pseudo", type=int, default=100_000, help="pseudo-documents")
    options = parser.parse_args()
    for part in options.parts:
        print(f"\n{part}\n")
        CHOICES[part](read(options.data), options)


if __name__ == "__main__":
    main()
