"""Counts: held-out log likelihood per token and speed of MultinomialTree, peers beside it.

Each choice prints tables of one run, in which all see the same splits.

reuters  news stories, 395 x 4,258, from the package ``lda``
20news   words in postings, 100 of them, 0 or 1; from a file of the folder that ``--data`` names
speed    20,000 documents of 100 distinct words among 2,000, simulated from a tree: CPU time of a
         sweep, beside LDA by tomotopy
growth   the same with more and fewer entries and nodes: what a sweep of the paper's moves costs

Log likelihoods are those of rows in which the order of tokens is known: the multinomial
coefficient, the same for all models, is left out. Peers are a unigram model, whose probabilities
are smoothed by a number of tokens added to each word, and a mixture of multinomials fitted by EM,
smoothed towards the unigram model. How much they are smoothed, and the number of components, is
what is best for a fifth of the rows to fit, after a fit to the rest; then they are fitted to all.
"""

import argparse
import math
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import gammaln, logsumexp
from sklearn.exceptions import ConvergenceWarning

from treestick import MultinomialTree
from treestick.chain import run_chain
from treestick.estimators.counts import Rows, encode
from treestick.families.multinomial import Counts
from treestick.inputs import check_hyperparameter
from treestick.models.multinomial import Multinomial
from treestick.moves.assignments import Slots, move_assignments
from treestick.moves.prune import move_prune
from treestick.moves.redraw import move_redraw
from treestick.moves.state import State, Sticks
from treestick.moves.sticks import move_sticks
from treestick.moves.tasks import make_tasks, sum_statistics
from treestick.random import make_key
from treestick.start import check_start, first_state
from treestick.tree.table import add_child, count_data, make_table, next_ordinal

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator

ADDED = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Tokens that the unigram model adds to each word."""
PULLS = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
"""Tokens of the unigram model that the mixture adds to each component."""
SIZES = (1, 5, 10, 20, 40, 80, 160)
"""Numbers of components."""


def show(*cells: object) -> None:
    """Print a row of a table."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def head(*cells: str) -> None:
    """Print the head of a table."""
    show(*cells)
    print("|" + "---|" * len(cells), flush=True)


# -- peers -----------------------------------------------------------------------------------------


def unigram(X: sparse.csr_array, added: float) -> Floats:
    """Return smoothed shares of the words."""
    counts = np.asarray(X.sum(axis=0), dtype=float).ravel() + added
    return np.asarray(counts / counts.sum())


class Mixture(NamedTuple):
    """A mixture of multinomials."""

    log_weights: Floats
    log_p: Floats
    """Log probabilities of the words: a row for each component."""
    log_posterior: float
    """Of the fit, but for a constant: what starts are compared by."""

    def log_likelihoods(self, X: sparse.csr_array) -> Floats:
        """Return the log likelihood of each row, without the coefficient."""
        return np.asarray(logsumexp(X @ self.log_p.T + self.log_weights, axis=1))


def fit_em(X: sparse.csr_array, base: Floats, pull: float, size: int, rng: Rng) -> Mixture:
    """Return the mixture of ``size`` components that EM finds, each pulled towards ``base``."""
    shares = rng.dirichlet(np.ones(size), size=X.shape[0])
    before = -math.inf
    for _ in range(300):
        sizes = shares.sum(axis=0)
        log_weights = np.log((sizes + 1.0) / (sizes.sum() + size))
        p = np.asarray((X.T @ shares).T) + pull * base
        log_p = np.log(p / p.sum(axis=1, keepdims=True))
        joint = X @ log_p.T + log_weights
        density = logsumexp(joint, axis=1)
        shares = np.exp(joint - density[:, None])
        total = float(density.sum() + pull * (log_p @ base).sum() + log_weights.sum())
        if total - before < 1e-7 * abs(total):
            break
        before = total
    return Mixture(log_weights, log_p, total)


def best_em(X: sparse.csr_array, base: Floats, pull: float, size: int, n_starts: int) -> Mixture:
    """Return the fit of several starts whose posterior is highest."""
    rng = np.random.default_rng(0)
    fits = [fit_em(X, base, pull, size, rng) for _ in range(n_starts)]
    return max(fits, key=lambda fit: fit.log_posterior)


class Peers(NamedTuple):
    """Peers fitted to one split: log likelihoods of the held-out rows, and what was chosen."""

    unigram: Floats
    added: float
    mixture: Floats
    size: int
    pull: float


def fit_peers(X: sparse.csr_array, test: sparse.csr_array, n_starts: int) -> Peers:
    """Choose by a fifth of the rows to fit, then fit to all of them."""
    order = np.random.default_rng(1).permutation(X.shape[0])
    cut = X.shape[0] // 5
    rest, chosen_by = X[order[cut:]], X[order[:cut]]

    def of_unigram(added: float) -> float:
        return float((chosen_by @ np.log(unigram(rest, added))).sum())

    added = max(ADDED, key=of_unigram)
    base = unigram(rest, added)
    scores = {
        (size, pull): best_em(rest, base, pull, size, n_starts).log_likelihoods(chosen_by).sum()
        for size in SIZES
        for pull in PULLS
    }
    size, pull = max(scores, key=lambda choice: scores[choice])
    base = unigram(X, added)
    mixture = best_em(X, base, pull, size, n_starts)
    return Peers(test @ np.log(base), added, mixture.log_likelihoods(test), size, pull)


# -- held-out likelihood ---------------------------------------------------------------------------


def log_coefficients(X: sparse.csr_array) -> Floats:
    """Return the logarithm of each row's multinomial coefficient."""
    entries = X.copy()
    entries.data = gammaln(X.data + 1.0)
    return np.asarray(gammaln(X.sum(axis=1) + 1.0) - entries.sum(axis=1))


def compare(options: argparse.Namespace, name: str, X: sparse.csr_array, n_fit: int) -> None:
    """Print log likelihoods per token over several splits, and by how much the tree is ahead."""
    found: dict[str, list[Floats]] = {}
    notes: dict[str, list[str]] = {}
    n_tokens: list[float] = []

    def note(row: str, log_likelihoods: Floats, text: str) -> None:
        found.setdefault(row, []).append(log_likelihoods)
        notes.setdefault(row, []).append(text)

    for split in range(options.splits):
        order = np.random.default_rng(split).permutation(X.shape[0])
        train, test = X[order[:n_fit]], X[order[n_fit : n_fit + options.most_held_out]]
        n_tokens.append(float(test.sum()))
        peers = fit_peers(train, test, options.restarts)
        note("unigram", peers.unigram, f"{peers.added:g} added")
        note("mixture by EM", peers.mixture, f"K={peers.size}, {peers.pull:g} added")
        for burn_in, n_draws in options.sweeps or [(500, 500)]:
            start = time.process_time()
            model = MultinomialTree(
                burn_in=burn_in, n_draws=n_draws, n_chains=options.chains, n_jobs=1,
                random_state=split, verbose=0, **options.setting,
            ).fit(train)  # fmt: skip
            taken = time.process_time() - start
            scores = model.score_samples(test) - log_coefficients(test)
            setting = "".join(f", {name}={value}" for name, value in options.setting.items())
            sweeps = f"burn_in={burn_in}, n_draws={n_draws}, n_chains={options.chains}"
            row = f"**MultinomialTree, {sweeps}{setting}**"
            nodes = model.idata_["posterior"]["n_nodes"].values
            note(
                row,
                scores,
                f"{int(nodes.min())} to {int(nodes.max())} nodes, "
                f"concentration {model.concentration_:.0f}, {taken:.0f} CPU s",
            )
    n_held_out = len(found["unigram"][0])
    head(
        f"{name}: {n_fit:,} rows to fit, {n_held_out:,} held out, {options.splits} splits",
        "nats per token",
        "tree ahead by, split by split",
        "what was chosen, or found",
    )
    ours = list(found)[-1]
    for row, scores_of in found.items():
        each = [float(s.sum()) / n for s, n in zip(scores_of, n_tokens, strict=True)]
        ahead = [
            f"{(o.sum() - s.sum()) / n:.4f} ± {error(o - s) / n:.4f}"
            for o, s, n in zip(found[ours], scores_of, n_tokens, strict=True)
        ]
        shown = "" if row == ours else ", ".join(ahead)
        show(row, f"{statistics.fmean(each):.4f}", shown, "; ".join(notes[row]))


def error(differences: Floats) -> float:
    """Return the standard error of a sum over rows."""
    return float(differences.std(ddof=1) * math.sqrt(differences.size))


def reuters(options: argparse.Namespace) -> None:
    """Compare on the stories of the package ``lda``."""
    import lda.datasets

    X = sparse.csr_array(lda.datasets.load_reuters().astype(float))
    compare(options, "reuters, 4,258 words", X, 316)


def news(options: argparse.Namespace) -> None:
    """Compare on postings."""
    if options.data is None:
        raise SystemExit("20news_w100.npz is needed: say with --data in which folder it is")
    X = sparse.csr_array(np.load(Path(options.data) / "20news_w100.npz")["X"].astype(float))
    compare(options, "20news, 100 words", X, 5000)


# -- speed -----------------------------------------------------------------------------------------

N_WORDS = 2000
STICKS = Sticks(25.0, 1.0, 50.0, 0.5, 0.05, 0.8, 2.0, 0.5, 10.0)


def simulate(
    n_data: int, n_nodes: int, n_distinct: int, n_small: int = 0
) -> tuple[sparse.csr_array, State, Counts]:
    """Return documents from a random tree, each of so many distinct words; the state at the truth.

    Tokens are drawn until there are enough distinct words. ``n_small`` more nodes, children of
    random ones, have one document each.
    """
    rng = np.random.default_rng(0)
    table = make_table(n_nodes + n_small)
    p = np.empty((n_nodes + n_small, N_WORDS))
    p[0] = rng.dirichlet(np.ones(N_WORDS))
    for node in range(1, n_nodes + n_small):
        parent = int(rng.integers(min(node, n_nodes)))
        table, _ = add_child(table, parent, next_ordinal(table, parent))
        table.entity[node] = node
        p[node] = np.maximum(rng.dirichlet(1000.0 * p[parent] + 1e-9), 1e-12)
    where = rng.choice(n_nodes, size=n_data, p=rng.dirichlet(np.full(n_nodes, 5.0)))
    where[:n_small] = n_nodes + np.arange(n_small)
    sums = np.cumsum(p, axis=1)
    rows = []
    for node in where:
        tokens = np.searchsorted(sums[node], rng.random(20 * n_distinct) * sums[node, -1])
        _, first = np.unique(tokens, return_index=True)
        last = np.sort(first)[n_distinct - 1]
        rows.append(np.bincount(tokens[: last + 1], minlength=N_WORDS).astype(np.uint16))
    X = sparse.csr_array(np.stack(rows).astype(float))
    data, _ = encode(Rows(X, True))
    count_data(table, where)
    state = State(table, where, np.log(p), np.empty((0, 0)), make_model(), STICKS)
    state = sum_statistics(move_prune(state), data, make_tasks(n_data))
    return X, move_sticks(make_key(0), state), data


def make_model() -> Multinomial:
    """Return the model with the priors of MultinomialTree."""
    chosen = MultinomialTree()
    return Multinomial(
        *check_hyperparameter("concentration", chosen.concentration),
        *check_hyperparameter("persistence", chosen.persistence),
        N_WORDS,
    )


class Cost(NamedTuple):
    """Medians over sweeps of the paper's moves in one thread, CPU seconds."""

    sweep: float
    assignments: float
    tries: float
    """Per datum."""


def cost_of(state: State, data: Counts, n: int) -> Cost:
    """Measure whole sweeps, and the assignments alone, which begin with sticks drawn anew."""
    chain = run_chain(1, 0, state, data, 0, schedule="paper")
    next(chain)
    tasks, spare = make_tasks(state.assignments.size), list[Slots]()
    sweeps, assignments, tries = [], [], []
    for _ in range(n):
        start = time.process_time()
        swept = next(chain)
        between = time.process_time()
        sweeps.append(between - start)
        tries.append(swept.info.tries)
        key = make_key(2, 0, swept.sweep)
        ready = move_redraw(key, swept.state)
        between = time.process_time()
        move_assignments(key, ready, data, tasks, map, spare)
        assignments.append(time.process_time() - between)
    return Cost(statistics.median(sweeps), statistics.median(assignments), statistics.fmean(tries))


def speed(options: argparse.Namespace) -> None:
    """Print seconds per sweep beside tomotopy's."""
    import tomotopy

    X, _, data = simulate(20_000, 40, 100)
    n_tokens = int(X.sum())
    start = first_state(
        make_key(0), make_model(), STICKS, data, check_start("root", len(data.total))
    )
    chain = run_chain(0, 0, start, data, options.burn_in)
    began = time.process_time()
    for _ in range(options.burn_in):
        swept = next(chain)
    burnt = time.process_time() - began
    lda = tomotopy.LDAModel(k=50, seed=0)
    for row in range(X.shape[0]):
        some = slice(X.indptr[row], X.indptr[row + 1])
        words = np.repeat(X.indices[some], X.data[some].astype(int))
        lda.add_doc([str(word) for word in words])
    lda.train(10, workers=1)
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(options.rounds):
        began = time.process_time()
        swept = next(chain)
        between = time.process_time()
        lda.train(1, workers=1)
        ours.append(between - began)
        theirs.append(time.process_time() - between)
    head(
        f"20,000 documents, {X.nnz:,} entries, {n_tokens:,} tokens; medians of {options.rounds}",
        "CPU s per sweep (lowest to highest)",
        "million tokens per CPU s",
    )
    for name, times in (
        (
            f"MultinomialTree, {swept.state.n_nodes} nodes after {options.burn_in} sweeps "
            f"of {burnt:.0f} CPU s from the root",
            ours,
        ),
        ("tomotopy, LDA, K=50, one worker", theirs),
    ):
        median = statistics.median(times)
        spread = f"{min(times):.2f} to {max(times):.2f}"
        show(name, f"{median:.2f} ({spread})", f"{n_tokens / median / 1e6:.2f}")
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    print(f"\nA sweep of LDA takes {statistics.median(ratios):.2f} times as long as ours.")


def growth(options: argparse.Namespace) -> None:
    """Print what sweeps of the paper's moves cost with more entries, and with more nodes."""
    head(
        'schedule="paper", from the truth',
        "entries",
        "nodes",
        "tries per datum",
        "CPU s per sweep",
        "assignments alone",
        "the rest, ms per node",
    )
    for n_data, n_nodes, n_distinct, n_small in (
        (20_000, 40, 50, 0),
        (20_000, 40, 100, 0),
        (20_000, 40, 200, 0),
        (40_000, 40, 100, 0),
        (80_000, 40, 100, 0),
        (20_000, 10, 100, 0),
        (20_000, 160, 100, 0),
        (20_000, 40, 100, 120),
    ):
        X, truth, data = simulate(n_data, n_nodes, n_distinct, n_small)
        cost = cost_of(truth, data, options.rounds)
        small = f", {n_small} of them with one document" if n_small else ""
        show(
            f"{n_data:,} documents of {n_distinct} words",
            f"{X.nnz:,}",
            f"{truth.n_nodes}{small}",
            f"{cost.tries:.2f}",
            f"{cost.sweep:.3f}",
            f"{cost.assignments:.3f}",
            f"{1e3 * (cost.sweep - cost.assignments) / truth.n_nodes:.2f}",
        )


CHOICES: dict[str, Callable[[argparse.Namespace], None]] = {
    "reuters": reuters,
    "20news": news,
    "speed": speed,
    "growth": growth,
}


def pair(text: str) -> tuple[int, int]:
    """Return two whole numbers with a comma between them."""
    first, second = text.split(",")
    return int(first), int(second)


def interval(text: str) -> float | tuple[float, float]:
    """Return a number, or two with a comma between them."""
    numbers = [float(number) for number in text.split(",")]
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])


def main() -> None:
    """Run what was asked for."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("choice", nargs="+", choices=[*CHOICES, "all"])
    parser.add_argument("--data", help="folder with 20news_w100.npz")
    parser.add_argument("--splits", type=int, default=3, help="how many")
    parser.add_argument("--most-held-out", type=int, default=2000, help="rows of a split")
    parser.add_argument("--restarts", type=int, default=2, help="starts of each mixture")
    parser.add_argument(
        "--sweeps", type=pair, action="append", help="burn_in,n_draws; may be repeated"
    )
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--concentration", type=interval, help="instead of the default")
    parser.add_argument("--persistence", type=interval, help="instead of the default")
    parser.add_argument("--burn-in", type=int, default=50, help="speed: sweeps before the clock")
    parser.add_argument("--rounds", type=int, default=9, help="speed, growth: sweeps on the clock")
    options = parser.parse_args()
    options.setting = {
        name: value
        for name in ("concentration", "persistence")
        if (value := getattr(options, name)) is not None
    }
    for name in CHOICES if "all" in options.choice else options.choice:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=ConvergenceWarning)
            CHOICES[name](options)
        print()


if __name__ == "__main__":
    main()
