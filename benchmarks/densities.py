"""Held-out density, peers beside us: nats per datum, higher is better.

Each choice names a data set and prints a table of one run. All but ``simulated`` read npz files
from the folder that ``--data`` names; nothing is downloaded.

20news     words in postings, bits: BernoulliTree and a Bernoulli mixture fitted by EM
zoo        animals, bits: dendrogram purity of the best tree and of Ward's
glass      reals with many exact zeros: GaussianTree and a variational Gaussian mixture
simulated  reals from a tree of the prior: the same two, and the truth
cifar      50,000 x 256 bits: density and number of nodes against CPU seconds of sampling
"""

import argparse
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import linkage
from scipy.special import logsumexp
from scipy.stats import norm
from scipy.stats import t as student_t
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.model_selection import RepeatedKFold

from mixtures import fit_em, independent
from treestick import BernoulliTree, GaussianTree, Tree
from treestick.analysis.components import log_densities, make_components
from treestick.analysis.purity import dendrogram_purity
from treestick.chain import sweep
from treestick.estimators.vectors import check_variances
from treestick.inputs import check_hyperparameter
from treestick.models.bernoulli import FIRST_STEP, Bernoulli, Bits
from treestick.moves.assignments import Slots
from treestick.moves.state import State, Sticks
from treestick.prior import draw_urn
from treestick.random import make_key
from treestick.start import check_start, first_state

Floats = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]

MOST_EVALUATED = 50
"""Draws of a chain, evenly spaced, whose densities are averaged where draws are many."""


def read(options: argparse.Namespace, name: str) -> Any:
    """Return the arrays of a file."""
    if options.data is None:
        raise SystemExit(f"{name} is needed: say with --data in which folder it is")
    return np.load(Path(options.data) / name)


def to_bits(X: Bytes) -> Bits:
    """Return 0 and 1 as the model keeps them."""
    return Bits(np.packbits(X, axis=1, bitorder="little"))


def show(*cells: object) -> None:
    """Print a row of a table."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def head(*cells: str) -> None:
    """Print the head of a table."""
    show(*cells)
    print("|" + "---|" * len(cells), flush=True)


def average(by_draw: Floats) -> float:
    """Return the mean log density of draws that are averaged."""
    return float(np.mean(logsumexp(by_draw, axis=0) - math.log(len(by_draw))))


def held_out(state: Any, data: Any, n: int) -> Floats:
    """Return the log density of ``n`` data under one draw: a state of a chain, or a mixture."""
    out = np.empty(n)
    made = make_components(
        make_key(0), state.model, state.table, state.theta, state.statistics, state.sticks
    )
    log_densities(state.model, data, made, 0, out)
    return out


# -- 20news ----------------------------------------------------------------------------------------


def news(options: argparse.Namespace) -> None:
    """Compare BernoulliTree with Bernoulli mixtures, and its density by sweeps and draws."""
    X = read(options, "20news_w100.npz")["X"]
    order = np.random.default_rng(0).permutation(len(X))
    X, test = X[order[:5000]], X[order[5000:7000]]
    head("20news: 5,000 to fit, 2,000 held out, 100 bits", "held out", "seconds")
    show("independent bits", f"{independent(X).log_densities(test).mean():.3f}", "")
    for n_components in (20, 40, 80):
        start = time.perf_counter()
        rng = np.random.default_rng(0)
        fits = [fit_em(X.astype(float), n_components, 300, rng) for _ in range(options.restarts)]
        best = max(fits, key=lambda found: found.fit)
        scores = [found.log_densities(test).mean() for found in (best, *fits)]
        show(
            f"Bernoulli mixture, EM, K={n_components}; likeliest of {options.restarts} starts "
            f"(best held out of them)",
            f"{scores[0]:.3f} ({max(scores):.3f})",
            f"{time.perf_counter() - start:.0f}",
        )
    data = to_bits(test)
    for burn_in, n_draws in options.sweeps or ((50, 50), (150, 150), (500, 500)):
        start = time.perf_counter()
        model = fit(BernoulliTree, X, options.seed, options, burn_in=burn_in, n_draws=n_draws)
        taken = time.perf_counter() - start
        draws = model.draws_
        kept = np.arange(0, n_draws, -(-n_draws // MOST_EVALUATED))
        by_draw = np.array(
            [[held_out(draws.mixture(c * n_draws + k), data, 2000) for k in kept] for c in (0, 1)]
        )
        every = by_draw.reshape(-1, 2000)
        singles = every.mean(axis=1)
        name = f"BernoulliTree, burn_in={burn_in}, n_draws={n_draws}, 2 chains"
        show(f"**{name}**", f"**{average(every):.3f}**", f"{taken:.0f}")
        ends = f"{singles.min():.3f} to {singles.max():.3f}"
        show("- one draw, mean (lowest to highest)", f"{singles.mean():.3f} ({ends})", "")
        few = by_draw[:, :: -(-len(kept) // 10)].reshape(-1, 2000)
        show(f"- {len(few)} draws, evenly spaced", f"{average(few):.3f}", "")
        each = ", ".join(f"{average(one):.3f}" for one in by_draw)
        show("- each chain alone", each, "")
        nodes = [[draws[c * n_draws + k].n_nodes for k in (0, n_draws - 1)] for c in (0, 1)]
        shown = "; ".join(f"{first} to {last}" for first, last in nodes)
        show("- nodes, first to last draw of each chain", shown, "")


def fit(kind: Any, X: Any, seed: int, options: argparse.Namespace, **settings: Any) -> Any:
    """Return a fitted estimator; chains that disagree are what the tables show."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return kind(random_state=seed, verbose=0, n_jobs=options.jobs, **settings).fit(X)


# -- zoo -------------------------------------------------------------------------------------------


def ward_tree(X: Floats, method: Any = "ward", metric: Any = "euclidean") -> Tree:
    """Return Ward's dendrogram, or that of another linkage, data at its leaves."""
    merges = linkage(X, method, metric)
    n, last = len(X), 2 * len(X) - 2
    parent = np.full(last + 1, -1)
    for number, (left, right, *_) in enumerate(merges):
        # Scipy counts from the leaves up, a tree from the root down.
        parent[last - int(left)] = parent[last - int(right)] = last - (n + number)
    return Tree(parent, last - np.arange(n))


def zoo(options: argparse.Namespace) -> None:
    """Compare the best trees of several seeds with Ward's by dendrogram purity."""
    file = read(options, "zoo.npz")
    X, y = file["X"], file["y"]
    settings: dict[str, dict[str, Any]] = {
        "defaults": {},
        "4 chains, 2,000 draws each": {"n_chains": 4, "n_draws": 2000},
        "diffusion (0.01, 1)": {"diffusion": (0.01, 1.0)},
    }
    head(
        "zoo: 101 animals, 21 bits, 7 classes",
        f"purity of `tree_`, median of {options.seeds} seeds (lowest to highest)",
        "all draws, mean",
        "nodes of `tree_`",
        "at inner nodes",
        "seconds a fit",
    )
    show("Ward", f"{dendrogram_purity(ward_tree(X), y):.3f}", "", 201, 0, "")
    for name, chosen in settings.items():
        start = time.perf_counter()
        best, mean, nodes, inner = [], [], [], []
        for seed in range(options.seeds):
            model = fit(BernoulliTree, X, seed, options, **chosen)
            tree = model.tree_
            best.append(dendrogram_purity(tree, y))
            mean.append(statistics.fmean(dendrogram_purity(t, y) for t in model.draws_[::10]))
            nodes.append(tree.n_nodes)
            inner.append(int(tree.n_here[tree.n_below > 0].sum()))
        show(
            f"BernoulliTree, {name}",
            f"{statistics.median(best):.3f} ({min(best):.3f} to {max(best):.3f})",
            f"{statistics.fmean(mean):.3f}",
            f"{min(nodes)} to {max(nodes)}",
            f"{min(inner)} to {max(inner)}",
            f"{(time.perf_counter() - start) / options.seeds:.0f}",
        )


# -- reals -----------------------------------------------------------------------------------------


def mixture_densities(mixture: Any, X: Floats) -> dict[str, Floats]:
    """Return the log density of each row: of a variational mixture, three ways.

    Its ``score_samples`` puts expectations of logarithms into the mixture, which is no normalised
    density. The plug-in has the mean of each parameter, the predictive integrates over the
    variational posterior: Student's t in each feature.
    """
    densities = {"`score_samples`": mixture.score_samples(X)}
    if isinstance(mixture, BayesianGaussianMixture):
        log_weights = np.log(np.maximum(mixture.weights_, 1e-300))
        away, variance = X[:, None, :] - mixture.means_, mixture.covariances_
        wider = variance * (1.0 + 1.0 / mixture.mean_precision_[:, None])
        freedom = mixture.degrees_of_freedom_[:, None]
        for way, terms in (
            ("plug-in", norm.logpdf(away, scale=np.sqrt(variance))),
            ("predictive", student_t.logpdf(away, freedom, scale=np.sqrt(wider))),
        ):
            joint = np.asarray(terms).sum(axis=2) + log_weights
            densities[way] = np.asarray(logsumexp(joint, axis=1))
    return densities


def peers_of_reals(options: argparse.Namespace, X: Floats, floor: float) -> Iterator[Any]:
    """Yield names and fits of mixtures; where a choice is left, the name is the same."""
    settings: dict[str, Any] = {
        "covariance_type": "diag",
        "n_init": options.restarts,
        "max_iter": 2000,
        "reg_covar": floor,
        "random_state": 0,
    }
    for n_components in (3, 5, 10, 20, 30):
        yield "GaussianMixture", GaussianMixture(n_components, **settings).fit(X)
    for n_components in (10, 20, 30):
        for prior in (None, np.full(X.shape[1], 0.01)):
            settings["covariance_prior"] = prior
            mixture = BayesianGaussianMixture(n_components=n_components, **settings).fit(X)
            yield (
                "BayesianGaussianMixture" + ", covariance_prior=0.01" * (prior is not None),
                mixture,
            )


def compare_reals(
    options: argparse.Namespace,
    splits: list[tuple[Floats, Floats]],
    floors: tuple[float, ...],
    trees: dict[str, dict[str, Any]],
) -> None:
    """Print held-out densities: of each peer with its best number of components, then ours.

    The number is the best for the held-out data, on average over the splits, which favours peers.
    """
    for floor in floors:
        found: dict[str, dict[int, list[float]]] = {}
        for X, test in splits:
            for name, mixture in peers_of_reals(options, X, floor):
                for way, densities in mixture_densities(mixture, test).items():
                    sizes = found.setdefault(f"{name}, {way}", {})
                    sizes.setdefault(mixture.n_components, []).append(float(densities.mean()))
        for name, sizes in found.items():
            size = max(sizes, key=lambda size: statistics.fmean(sizes[size]))
            show(f"{name}, reg_covar={floor:g}, K={size}", *mean_and_error(sizes[size]), "", "")
    for name, chosen in trees.items():
        scores, nodes, start = [], [], time.perf_counter()
        for number, (X, test) in enumerate(splits):
            model = fit(GaussianTree, X, number, options, **chosen)
            scores.append(model.score(test))
            nodes.append(model.tree_.n_nodes)
        taken = (time.perf_counter() - start) / len(splits)
        shown = f"{min(nodes)} to {max(nodes)}"
        show(f"**GaussianTree, {name}**", *mean_and_error(scores), shown, f"{taken:.0f}")


def mean_and_error(values: list[float]) -> tuple[str, str]:
    """Return a mean and its standard error, as text."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{statistics.fmean(values):.3f}", f"{error:.3f}"


def head_of_reals(title: str) -> None:
    """Print the head of a table of reals."""
    head(
        title,
        "held out",
        "standard error",
        "nodes of `tree_`",
        "seconds to fit and score",
    )


def glass(options: argparse.Namespace) -> None:
    """Compare GaussianTree with variational mixtures on standardised folds."""
    X = read(options, "uci_glass.npz")["X"]
    folds = RepeatedKFold(n_splits=5, n_repeats=options.repeats, random_state=0)
    splits = []
    for train, test in folds.split(X):
        mean, scale = X[train].mean(axis=0), X[train].std(axis=0)
        splits.append(((X[train] - mean) / scale, (X[test] - mean) / scale))
    head_of_reals(f"glass: 214 x 9 reals, 5 folds, {options.repeats} times")
    trees: dict[str, dict[str, Any]] = {
        "defaults: noise (1e-4, 4)": {},
        "noise (1e-6, 4)": {"noise": (1e-6, 4.0)},
        "noise (1e-2, 4)": {"noise": (1e-2, 4.0)},
    }
    compare_reals(options, splits, (1e-6, 1e-4, 1e-2), trees)


class Simulated(NamedTuple):
    """Rows of a tree of the prior."""

    X: Floats
    """1,000 to fit."""
    test: Floats
    """1,000 to predict."""
    truth: Floats
    """Their log densities under the tree itself."""
    nodes: npt.NDArray[np.int64]
    """Of all rows, those to fit first."""


def simulate(seed: int) -> Simulated:
    """Return rows of a tree of the prior, and the truth.

    Trees have 20 to 30 nodes; those of other sizes are drawn again. Rows are exchangeable.
    """
    n, n_dimensions, diffusion, noise = 2000, 10, 0.3, 0.1
    rng = np.random.default_rng(seed)
    while True:
        tree = draw_urn(n, alpha0=3.0, decay=0.5, gamma=0.5, seed=int(rng.integers(2**31)))
        if 20 <= tree.n_nodes <= 30:
            break
    means = rng.normal(size=(tree.n_nodes, n_dimensions))
    for node in range(1, tree.n_nodes):
        means[node] = means[tree.parent[node]] + math.sqrt(diffusion) * means[node]
    X = means[tree.assignments] + math.sqrt(noise) * rng.normal(size=(n, n_dimensions))
    terms = np.asarray(norm.logpdf(X[1000:, None, :], means, math.sqrt(noise))).sum(axis=2)
    truth = np.asarray(logsumexp(terms + np.log(tree.mass), axis=1))
    return Simulated(X[:1000], X[1000:], truth, tree.assignments.astype(np.int64))


def simulated(options: argparse.Namespace) -> None:
    """Compare GaussianTree with variational mixtures on reals from trees of the prior."""
    drawn = [simulate(seed) for seed in range(options.seeds)]
    head_of_reals(f"simulated: 1,000 x 10 reals of a tree, {options.seeds} seeds")
    show("truth", *mean_and_error([float(one.truth.mean()) for one in drawn]), "", "")
    compare_reals(options, [(one.X, one.test) for one in drawn], (1e-6,), {"defaults": {}})


# -- cifar -----------------------------------------------------------------------------------------


def marks(seconds: float) -> Iterator[float]:
    """Yield the CPU seconds at which a row is printed."""
    yield from (second for second in (1, 2, 5, 10, 15, 20, 30, 40) if second < seconds)
    yield from range(60, math.ceil(seconds), 20 if seconds <= 240 else 60)
    yield seconds


SOON = 120.0
"""Seconds until which draws are kept often; later they are rare, to see how the tree goes on."""


def cold_start(data: Bits, n_dimensions: int, seed: int) -> State:
    """Return a first state: the tree prior of BernoulliTree, the paper's prior of the diffusion."""
    chosen = BernoulliTree().get_params()
    sticks = Sticks(
        *check_hyperparameter("alpha0", chosen["alpha0"]),
        *check_hyperparameter("decay", chosen["decay"]),
        *check_hyperparameter("gamma", chosen["gamma"]),
    )
    model = Bernoulli(
        *check_variances("diffusion", (0.01, 1.0), n_dimensions),
        np.zeros(n_dimensions),
        np.full(n_dimensions, 3.0),
        FIRST_STEP,
    )
    return first_state(make_key(seed), model, sticks, data, check_start("root", len(data.packed)))


def compile_all(X: Bytes) -> None:
    """Run everything once on a few rows, so that no compiling is timed."""
    data = to_bits(X[:400])
    state = cold_start(data, X.shape[1], 0)
    for number in range(1, 41):
        state, _ = sweep(make_key(0, 0, number), state, data, adapting=number < 5)
    held_out(state, data, 10)


def cifar(options: argparse.Namespace) -> None:
    """Follow one chain in one thread from a cold start."""
    X = np.unpackbits(read(options, "cifar100_codes.npz")["packed"], axis=1)
    order = np.random.default_rng(0).permutation(len(X))
    train, test = to_bits(X[order[:45_000]]), to_bits(X[order[45_000:]])
    compile_all(X)
    head(
        "cifar: CPU s of sampling",
        "sweeps",
        "nodes",
        "with 10 data or more",
        "depth",
        "accepted births, deaths",
        "held out, one draw",
        f"draws averaged after {options.burn_in:g} s",
        "held out, averaged",
        "components",
        "s to evaluate a draw",
    )
    state = cold_start(train, X.shape[1], options.seed)
    spare: list[Slots] = []
    total, n_draws = np.full(len(test.packed), -np.inf), 0
    spent, number, last_kept = 0.0, 0, options.burn_in
    born, died = 0, 0
    for mark in marks(options.seconds):
        while spent < mark:
            number += 1
            start = time.process_time()
            key = make_key(options.seed, 0, number)
            adapting = spent < options.burn_in
            state, info = sweep(key, state, train, adapting=adapting, spare=spare)
            spent += time.process_time() - start
            for name in ("smart_split", "smart_merge", "insert"):
                born, died = born + info.structure[name][1], died + info.structure[name][2]
            if spent >= last_kept + options.every * (1.0 if spent < SOON else 20.0):
                last_kept = spent
                total, n_draws = np.logaddexp(total, held_out(state, test, 5000)), n_draws + 1
        start = time.process_time()
        single = held_out(state, test, 5000)
        taken = time.process_time() - start
        table, n_nodes = state.table, state.n_nodes
        made = make_components(
            make_key(0), state.model, state.table, state.theta, state.statistics, state.sticks
        )
        show(
            f"{spent:.1f}",
            number,
            n_nodes,
            int((table.n_here[:n_nodes] >= 10).sum()),
            table.depth[:n_nodes].max(),
            f"{born}, {died}",
            f"{single.mean():.3f}",
            n_draws,
            f"{np.mean(total - math.log(n_draws)):.3f}" if n_draws else "",
            f"{made.log_weight.size:,}",
            f"{taken:.1f}",
        )


CHOICES: dict[str, Callable[[argparse.Namespace], None]] = {
    "20news": news,
    "zoo": zoo,
    "glass": glass,
    "simulated": simulated,
    "cifar": cifar,
}


def pair(text: str) -> tuple[int, int]:
    """Return two whole numbers with a comma between them."""
    first, second = text.split(",")
    return int(first), int(second)


def main() -> None:
    """Run what was asked for."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("choice", nargs="+", choices=[*CHOICES, "all"])
    parser.add_argument("--data", help="folder with the npz files")
    parser.add_argument("--jobs", type=int, default=1, help="threads of a fit")
    parser.add_argument("--seed", type=int, default=0, help="20news, cifar: seed of the chains")
    parser.add_argument("--seeds", type=int, default=5, help="zoo, simulated: how many")
    parser.add_argument("--repeats", type=int, default=2, help="glass: times five folds")
    parser.add_argument("--restarts", type=int, default=5, help="starts of each mixture")
    parser.add_argument(
        "--sweeps", type=pair, action="append", help="20news: burn_in,n_draws; may be repeated"
    )
    parser.add_argument("--seconds", type=float, default=120, help="cifar: CPU s of sampling")
    parser.add_argument(
        "--burn-in", type=float, default=60, help="cifar: CPU s before step sizes are fixed"
    )
    parser.add_argument("--every", type=float, default=5, help="cifar: CPU s between kept draws")
    options = parser.parse_args()
    for name in CHOICES if "all" in options.choice else options.choice:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=ConvergenceWarning)
            CHOICES[name](options)
        print()


if __name__ == "__main__":
    main()
