"""Whether to believe a sample: R-hat, effective draws and errors of scalars, and a verdict.

Only scalars without labels of nodes are compared, for chains number nodes each in its own way. How
far chains agree on which data belong together is the *pair agreement*: the share of draws in which
a pair of data is in one node, by chain, over pairs drawn at random.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
HIGHEST_RHAT, FEWEST_DRAWS = 1.05, 100
LARGEST_GAP = 0.1
TAILS = (0.05, 0.95)


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

    is_good: bool
    lines: list[str]


def describe(traces: Mapping[str, Floats]) -> list[Row]:
    """Return R-hat, effective draws and the error of the mean of each scalar, by ArviZ.

    Traces have the shape (chain, draw). Numbers that cannot be known (constants, fewer than four
    draws, one chain) are nan. Chains that are constant and differ have an R-hat of inf.
    """
    return [_row(name, np.asarray(trace, dtype=np.float64)) for name, trace in traces.items()]


def _row(name: str, trace: Floats) -> Row:
    from arviz_stats.base.array import array_stats

    nan = float("nan")
    mean, sd = float(trace.mean()), float(trace.std())
    if trace.shape[1] < 4 or np.ptp(trace) == 0.0:
        return Row(name, mean, sd, nan, nan, nan, nan)
    if not (np.ptp(trace, axis=1) > 0.0).any():
        return Row(name, mean, sd, float("inf"), nan, nan, nan)
    axes = {"chain_axis": 0, "draw_axis": 1}
    stats: Any = array_stats
    with np.errstate(divide="ignore", invalid="ignore"):  # halves that stand still
        rhat = float(stats.rhat(trace, **axes)) if trace.shape[0] > 1 else nan
        bulk = float(stats.ess(trace, method="bulk", **axes))
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


def judge(rows: Iterable[Row], n_chains: int, gap: float) -> Verdict:
    """Return what the numbers mean."""
    rows = list(rows)
    lines = []
    apart = [row for row in rows if row.rhat > HIGHEST_RHAT]
    if apart:
        worst = max(apart, key=lambda row: row.rhat)
        lines.append(
            f"The chains disagree on {_listed(apart)} (R-hat up to {worst.rhat:.2f}, 1 is "
            "agreement): run longer, or look at each chain by itself."
        )
    few = [row for row in rows if row.ess_bulk < FEWEST_DRAWS or row.ess_tail < FEWEST_DRAWS]
    if few:
        least = min(min(row.ess_bulk, row.ess_tail) for row in few)
        lines.append(
            f"There are few independent draws of {_listed(few)} (as few as {least:.0f}; "
            f"{FEWEST_DRAWS} are enough): averages are rough. Run longer."
        )
    if gap > LARGEST_GAP:
        lines.append(
            f"The chains put different data together (by {gap:.2f} on average): each has found a "
            "tree of its own."
        )
    if n_chains < 2:
        lines.append("There is one chain: whether others would agree is not known.")
    is_good = not (apart or few or gap > LARGEST_GAP)
    if is_good and n_chains > 1:
        lines.append("The chains agree, and there are draws enough for averages.")
    return Verdict(is_good, lines)


def _listed(rows: list[Row]) -> str:
    names = [row.name for row in rows]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def meets(rows: Iterable[Row], rhat: float, ess: float) -> bool:
    """Return whether all scalars that vary have at most this R-hat and so many effective draws."""
    return all(
        (not row.rhat > rhat) and min(row.ess_bulk, row.ess_tail) >= ess
        for row in rows
        if not (np.isnan(row.ess_bulk) and np.isnan(row.rhat))
    )
