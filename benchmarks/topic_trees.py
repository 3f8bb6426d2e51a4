"""Trees of documents: tokens per second, ways to move documents, and where concentration begins.

    python benchmarks/topic_trees.py speed documents sensitivity --data nips12.npz

The file is that of ``benchmarks/topics.py``. All times are CPU seconds of one thread.

speed        tokens per second of whole sweeps, of the move of tokens alone, and of tomotopy's LDA
documents    effective draws per second with documents moved given the topics of their words, and
             with these summed out: on a corpus drawn from the model, and how far both get on the
             given one
sensitivity  what becomes of chains whose concentration begins far from the number of topics
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from topics import head, read, show, tomotopys
from treestick.analysis.convergence import effective_draws
from treestick.chain import TOKEN_TURNS, Swept, run_chain
from treestick.models.multinomial import Multinomial
from treestick.moves import topics as topic_moves
from treestick.moves.state import Sticks
from treestick.moves.topics import TopicMoves
from treestick.prior import draw_urn
from treestick.random import make_key
from treestick.start import check_start, first_state
from treestick.tokens.documents import Documents, make_documents
from treestick.tokens.gibbs import COLLAPSED
from treestick.tokens.latent import first_topics

STICKS = Sticks(10.0, 1.0, 50.0, 0.3, 0.05, 0.8, 2.0, 0.5, 10.0)
BETA = (0.05, 0.001, 1.0)
DOCUMENT_MOVES = {"given": False, "summed out": True}


def make_chain(
    documents: Documents,
    n_topics: int,
    sums_out: bool,
    *,
    concentration: float | None = None,
    lda_sweeps: int = 100,
    n_fixed: int = 50,
    seed: int = 0,
) -> Iterator[Swept]:
    """Return a chain with the default priors."""
    n_documents = documents.first.size - 1
    latent = first_topics(seed, 0, documents, n_topics, BETA, lda_sweeps, COLLAPSED, False)
    begins = float(n_topics if concentration is None else concentration)
    model = Multinomial(begins, 1.0, 1000.0, 1.0, 1.0, 1.0, n_topics, 1.0)
    start = check_start("root", n_documents)
    state = first_state(make_key(seed), model, STICKS, documents, start, latent)
    moves = TopicMoves(COLLAPSED, sums_out, 1)
    return run_chain(
        seed, 0, state, documents, n_fixed + 100, topics=moves, n_fixed=n_fixed
    )  # fmt: skip


def timed(function: Callable[..., Any], *arguments: Any) -> float:
    """Return the CPU seconds of a call."""
    began = time.process_time()
    function(*arguments)
    return time.process_time() - began


def speed(counts: sparse.csr_array, options: argparse.Namespace) -> None:
    """Print millions of tokens per CPU second; sweeps of all take turns."""
    documents, n_tokens = make_documents(counts), float(counts.sum())
    head("topics", "sweep", "tokens alone", "tomotopy, 1 worker", "sweep : tomotopy",
         "tokens : tomotopy", "nodes")  # fmt: skip
    for n_topics in options.topics:
        chain = make_chain(documents, n_topics, False, lda_sweeps=30, n_fixed=20)
        swept = next(chain)
        for _ in range(30):
            swept = next(chain)
        other = tomotopys(counts, n_topics)
        for _ in range(30):
            other()
        rates: list[tuple[float, float, float]] = []
        moves = TopicMoves(COLLAPSED, False, 1)
        for number in range(options.rounds):
            whole = TOKEN_TURNS * n_tokens / timed(next, chain) / 1e6
            keys = [make_key(7, turn, number) for turn in range(TOKEN_TURNS)]
            spent = timed(topic_moves.move_tokens, keys, swept.state, documents, moves)
            alone = TOKEN_TURNS * n_tokens / spent / 1e6
            rates.append((whole, alone, n_tokens / timed(other) / 1e6))
        medians = [statistics.median(column) for column in zip(*rates, strict=True)]
        ratios = [[row[k] / row[2] for row in rates] for k in range(2)]
        show(
            n_topics,
            *(f"{rate:.1f}" for rate in medians),
            *(f"{statistics.median(r):.2f} ({min(r):.2f} to {max(r):.2f})" for r in ratios),
            swept.state.n_nodes,
        )


def simulate(n_documents: int = 300, n_words: int = 100, n_topics: int = 6) -> Documents:
    """Return documents of 60 words, drawn from a tree with few nodes."""
    rng = np.random.default_rng(0)
    tree = draw_urn(n_documents, alpha0=2.0, decay=0.5, gamma=0.5, seed=3)
    p = np.empty((tree.n_nodes, n_topics))
    for node, parent in enumerate(tree.parent):
        p[node] = rng.dirichlet(np.ones(n_topics) if parent < 0 else 10.0 * p[parent] + 1e-3)
    phi = rng.dirichlet(np.full(n_words, 0.1), size=n_topics)
    rows = [rng.multinomial(60, q) for q in p[tree.assignments] @ phi]
    return make_documents(sparse.csr_array(np.array(rows, dtype=float)))


def documents(counts: sparse.csr_array, options: argparse.Namespace) -> None:
    """Compare two ways to move documents."""
    simulated = simulate()
    head("documents move", "lp", "nodes", "concentration", "beta", "CPU s per sweep")
    for name, sums_out in DOCUMENT_MOVES.items():
        scalars: list[list[list[float]]] = []
        spent = 0.0
        for seed in range(2):
            chain = make_chain(simulated, 6, sums_out, seed=seed)
            for _ in range(300):
                next(chain)
            trace = []
            began = time.process_time()
            for _ in range(options.draws):
                swept = next(chain)
                state = swept.state
                trace.append(
                    [swept.scores.joint, state.n_nodes, state.model.concentration,
                     state.latent.beta]
                )  # fmt: skip
            spent += time.process_time() - began
            scalars.append(trace)
        values = np.array(scalars)
        rates = [effective_draws(values[:, :, k]) / spent for k in range(4)]
        show(name, *(f"{rate:.2f}" for rate in rates), f"{spent / 2 / options.draws:.4f}")
    print("\nlog joint per token on the corpus, by CPU seconds of free sweeps\n")
    n_tokens = float(counts.sum())
    corpus = make_documents(counts)
    head("topics", "documents move", *(f"{s:g} s" for s in options.seconds), "sweeps")
    for n_topics in options.topics[:2]:
        for name, sums_out in DOCUMENT_MOVES.items():
            chain = make_chain(corpus, n_topics, sums_out)
            for _ in range(50):
                swept = next(chain)
            spent, cells = 0.0, []
            for seconds in options.seconds:
                while spent < seconds:
                    began = time.process_time()
                    swept = next(chain)
                    spent += time.process_time() - began
                cells.append(f"{swept.scores.complete_data / n_tokens:.4f}")
            show(n_topics, name, *cells, swept.sweep - 50)


def sensitivity(counts: sparse.csr_array, options: argparse.Namespace) -> None:
    """Start the concentration far away."""
    corpus, n_tokens = make_documents(counts), float(counts.sum())
    n_topics = options.topics[0]
    head("concentration begins at", *(f"after {n}" for n in (10, 50, 150)), "nodes", "log joint")
    for begins in (1.0, float(n_topics), 1000.0):
        chain = make_chain(corpus, n_topics, False, concentration=begins)
        cells = []
        for number in range(1, 151):
            swept = next(chain)
            if number in (10, 50, 150):
                cells.append(f"{swept.state.model.concentration:.1f}")
        show(f"{begins:g}", *cells, swept.state.n_nodes,
             f"{swept.scores.complete_data / n_tokens:.4f}")  # fmt: skip


CHOICES = {"speed": speed, "documents": documents, "sensitivity": sensitivity}


def main() -> None:
    """Run the parts that were chosen."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="+", choices=CHOICES)
    parser.add_argument("--data", required=True, help="file with words and doc_ptr")
    parser.add_argument("--topics", type=int, nargs="+", default=[20, 50, 100])
    parser.add_argument("--rounds", type=int, default=9, help="sweeps that speed is taken of")
    parser.add_argument("--draws", type=int, default=1500)
    parser.add_argument("--seconds", type=float, nargs="+", default=[10, 20, 40, 80])
    options = parser.parse_args()
    for part in options.parts:
        print(f"\n{part}\n")
        CHOICES[part](read(options.data), options)


if __name__ == "__main__":
    main()
