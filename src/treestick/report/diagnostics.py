"""How the chains went: traces, R-hat, effective draws, and a verdict in plain words."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick.analysis.convergence import HIGHEST_RHAT, effective_draws, rank_rhat

NAMES = {
    "complete_data": "log likelihood of data and tree",
    "n_nodes": "nodes",
    "depth": "depth",
    "alpha0": "alpha0",
    "decay": "decay",
    "gamma": "gamma",
    "lp": "log joint density",
}
"""What is traced, in this order, and what it is called."""
LEAST_EFFECTIVE = 100.0
"""Effective draws from which a mean is known to a tenth of its standard deviation."""


class Trace(NamedTuple):
    """One scalar by chain and draw."""

    name: str
    values: npt.NDArray[np.float64]
    rhat: float
    """nan where it cannot be computed: one chain, few draws, a constant."""
    ess: float


class Diagnostics(NamedTuple):
    """What is to be seen of the chains."""

    traces: tuple[Trace, ...]
    sweep: npt.NDArray[np.int64]
    """Number of the sweep of each draw."""
    verdict: str
    """good, careful or bad."""
    words: str
    """The verdict in plain words."""


def diagnose(idata: Any) -> Diagnostics:
    """Return the diagnostics of the scalars in ``idata_``."""
    found = {}
    for group in ("posterior", "sample_stats"):
        for name, values in idata[group].data_vars.items():
            if name in NAMES and values.dims == ("chain", "draw"):
                found[name] = np.asarray(values, dtype=np.float64)
    traces = tuple(
        Trace(NAMES[name], found[name], rank_rhat(found[name]), effective_draws(found[name]))
        for name in NAMES
        if name in found
    )
    attributes = idata["posterior"].attrs
    n_draws = traces[0].values.shape[1]
    first, thin = int(attributes.get("sweep_of_first_draw", 1)), int(attributes.get("thin", 1))
    verdict, words = _judge(traces)
    return Diagnostics(traces, first + thin * np.arange(n_draws), verdict, words)


def _judge(traces: tuple[Trace, ...]) -> tuple[str, str]:
    n_chains, n_draws = traces[0].values.shape
    moving = [trace for trace in traces if np.ptp(trace.values) > 0.0]
    apart = [trace.name for trace in moving if trace.rhat > HIGHEST_RHAT]
    slow = [trace.name for trace in moving if trace.ess < LEAST_EFFECTIVE]
    if n_draws < 4:
        return "bad", f"{n_draws} draws per chain say nothing of convergence. Draw more."
    if n_chains < 2:
        return "careful", (
            "There is one chain only: whether another would have found other trees cannot be told. "
            "Run at least two."
        )
    if apart:
        return "bad", (
            f"The chains disagree on {_listed(apart)}: each has found trees of its own. Take a "
            "single tree as one good description among several, look at each chain, and do not "
            "trust averages over draws. Run longer to let them meet."
        )
    if slow:
        return "careful", (
            f"The chains agree, but move slowly: there are fewer than {LEAST_EFFECTIVE:.0f} "
            f"effective draws of {_listed(slow)}. Trees are fine to look at; run longer before "
            "quoting means and intervals."
        )
    return "good", (
        f"The {n_chains} chains agree on everything that is traced, and there are at least "
        f"{min(trace.ess for trace in moving):,.0f} effective draws of each."
        if moving
        else "The chains agree: nothing that is traced changes."
    )


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
