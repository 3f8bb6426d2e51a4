"""Whether to believe a sample: R-hat, effective draws and errors of scalars, and a verdict.

Only scalars without labels of nodes are compared, for chains number nodes each in its own way. How
far chains agree on which data belong together is the *pair agreement*: the share of draws in which
a pair of data is in one node, by chain, over pairs drawn at random.

What ``treestick diagnose`` prints and what a report shows is one :class:`Diagnosis`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick.analysis.convergence import HIGHEST_RHAT, effective_draws, rank_rhat

Floats = npt.NDArray[np.float64]
FEWEST_DRAWS = 100
"""Effective draws from which a mean is known to a tenth of its standard deviation."""
LEAST_KNOWN = 4
"""Draws per chain below which nothing can be computed."""
LARGEST_GAP = 0.1
TAILS = (0.05, 0.95)
MOST_COMPONENTS = 8
"""Of a vector, components are looked at one by one if they are not more; else their mean is."""
MOST_COMPARED = 200
"""Draws by which the pair agreement is estimated."""
IN_WORDS = {
    "complete_data": "log likelihood of data and tree",
    "log_likelihood": "log likelihood",
    "lp": "log joint density",
    "n_nodes": "nodes",
    "n_topics": "topics",
}
"""What scalars are called, where that is not their name."""


class Row(NamedTuple):
    """What is known of one scalar."""

    name: str
    mean: float
    sd: float
    rhat: float
    ess_bulk: float
    ess_tail: float
    mcse: float


class Verdict(NamedTuple):
    """Whether chains have converged, and why in plain words."""

    grade: Literal["good", "careful", "bad"]
    lines: list[str]

    @property
    def is_good(self) -> bool:
        """Whether nothing speaks against trusting the draws."""
        return self.grade == "good"


class Diagnosis(NamedTuple):
    """What there is to know of the chains of a fit."""

    traces: dict[str, Floats]
    """Scalars by chain and draw."""
    rows: list[Row]
    """Numbers on each of them."""
    sweep: npt.NDArray[np.int64]
    """Number of the sweep of each draw."""
    gap: float
    """How far chains differ on pairs of data, see :func:`pair_agreement`."""
    verdict: Verdict


def diagnose(model: Any) -> Diagnosis:
    """Return what there is to know of the chains of a fitted estimator."""
    traces = scalars_of(model.idata_)
    rows = describe(traces)
    draws, gap = model.draws_, float("nan")
    if hasattr(model, "tree_"):
        n_some = min(len(draws), MOST_COMPARED)
        some = np.unique(np.linspace(0, len(draws) - 1, n_some).astype(np.int64)).tolist()
        gap = pair_agreement((int(draws.chain[k]), draws[k].assignments) for k in some)
    n_chains, n_draws = next(iter(traces.values())).shape
    noted = model.idata_["posterior"].attrs
    sweep = noted["sweep_of_first_draw"] + noted["thin"] * np.arange(n_draws)
    return Diagnosis(traces, rows, sweep, gap, judge(rows, n_chains, n_draws, gap))


def scalars_of(idata: Any) -> dict[str, Floats]:
    """Return what chains are compared by: scalars of shape (chain, draw) without labels."""
    statistics = idata["sample_stats"]
    found: dict[str, Any] = {
        IN_WORDS[name]: statistics[name].values
        for name in ("complete_data", "log_likelihood", "lp")
        if name in statistics
    }
    for key, values in idata["posterior"].data_vars.items():
        name, array = IN_WORDS.get(key, key), values.values
        if array.ndim == 2:
            found[name] = array
        elif array.shape[2] <= MOST_COMPONENTS:
            found |= {f"{name}[{k}]": array[:, :, k] for k in range(array.shape[2])}
        else:
            found[f"mean of {name}"] = array.mean(axis=2)
    return {name: np.asarray(trace, dtype=np.float64) for name, trace in found.items()}


def describe(traces: Mapping[str, Floats]) -> list[Row]:
    """Return R-hat, effective draws and the error of the mean of each scalar, by ArviZ.

    Traces have the shape (chain, draw). Numbers that cannot be known (constants, fewer than four
    draws, one chain) are nan. Chains that are constant and differ have an R-hat of inf.
    """
    return [_row(name, np.asarray(trace, dtype=np.float64)) for name, trace in traces.items()]


def _row(name: str, trace: Floats) -> Row:
    from arviz_stats.base.array import array_stats

    nan = float("nan")
    mean, sd, rhat = float(trace.mean()), float(trace.std()), rank_rhat(trace)
    bulk = effective_draws(trace)
    if np.isnan(bulk):
        return Row(name, mean, sd, rhat, nan, nan, nan)
    axes = {"chain_axis": 0, "draw_axis": 1}
    stats: Any = array_stats
    with np.errstate(divide="ignore", invalid="ignore"):  # halves that stand still
        tail = float(stats.ess(trace, method="tail", prob=TAILS, **axes))
        return Row(name, mean, sd, rhat, bulk, tail, float(stats.mcse(trace, **axes)))


def pair_agreement(
    assignments: Iterable[tuple[int, npt.NDArray[Any]]], n_pairs: int = 1000
) -> float:
    """Return how far chains differ on pairs: the mean gap between their shares of draws together.

    ``assignments`` are the chain and the nodes of the data of each draw. 0 is agreement; nan if
    there is one chain. Pairs are drawn from a fixed key, half of them from one node of the first
    draw, for most pairs are apart always.
    """
    together: dict[int, list[Floats]] = {}
    pairs = np.empty((2, 0), dtype=np.int64)
    for chain, nodes in assignments:
        if pairs.size == 0:
            pairs = _draw_pairs(nodes, n_pairs)
        together.setdefault(chain, []).append((nodes[pairs[0]] == nodes[pairs[1]]).astype(float))
    shares = np.stack([np.mean(found, axis=0) for found in together.values()])
    if shares.shape[0] < 2 or shares.shape[1] == 0:
        return float("nan")
    return float(np.mean(np.ptp(shares, axis=0)))


def _draw_pairs(nodes: npt.NDArray[Any], n_pairs: int) -> npt.NDArray[np.int64]:
    random = np.random.default_rng(0)
    n_data = nodes.size
    if n_data < 2:
        return np.empty((2, 0), dtype=np.int64)
    first = random.integers(n_data, size=n_pairs)
    second = (first + random.integers(1, n_data, size=n_pairs)) % n_data
    order = np.argsort(nodes, kind="stable")
    place = np.empty(n_data, dtype=np.int64)
    place[order] = np.arange(n_data)
    beside = order[(place[first] + 1) % n_data]  # mostly of the same node
    second[::2] = beside[::2]
    return np.stack([first, second])


def judge(rows: Iterable[Row], n_chains: int, n_draws: int, gap: float) -> Verdict:
    """Return what the numbers mean, of so many draws per chain."""
    if n_draws < LEAST_KNOWN:
        return Verdict("bad", [f"{n_draws} draws per chain say nothing of convergence. Draw more."])
    rows = list(rows)
    lines = []
    apart = [row for row in rows if row.rhat > HIGHEST_RHAT]
    if apart:
        worst = max(row.rhat for row in apart)
        lines.append(
            f"The chains disagree on {_listed(apart)} (R-hat up to {worst:.2f}, 1 is agreement): "
            "look at each chain by itself, do not trust averages over all draws, and run longer to "
            "let the chains meet."
        )
    if gap > LARGEST_GAP:
        lines.append(
            f"The chains put different data together (by {gap:.2f} on average): each has found a "
            "tree of its own. Take one as a good description among several."
        )
    few = [row for row in rows if row.ess_bulk < FEWEST_DRAWS or row.ess_tail < FEWEST_DRAWS]
    if few:
        least = min(min(row.ess_bulk, row.ess_tail) for row in few)
        lines.append(
            f"There are few independent draws of {_listed(few)} (as few as {least:.0f}; "
            f"{FEWEST_DRAWS} are enough): averages and intervals are rough. Run longer."
        )
    if n_chains < 2:
        lines.append(
            "There is one chain: whether others would agree is not known. Run at least two."
        )
    if apart or gap > LARGEST_GAP:
        return Verdict("bad", lines)
    if lines:
        return Verdict("careful", lines)
    return Verdict("good", ["The chains agree, and there are draws enough for averages."])


def _listed(rows: list[Row]) -> str:
    names = [row.name for row in rows]
    if len(names) > 4:
        return f"{', '.join(names[:4])} and {len(names) - 4} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def meets(rows: Iterable[Row], rhat: float, ess: float) -> bool:
    """Return whether all scalars that vary have at most this R-hat and so many effective draws."""
    return all(
        (not row.rhat > rhat) and min(row.ess_bulk, row.ess_tail) >= ess
        for row in rows
        if not (np.isnan(row.ess_bulk) and np.isnan(row.rhat))
    )
