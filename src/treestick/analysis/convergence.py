"""Whether chains agree, and how much their draws say."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

HIGHEST_RHAT = 1.05


def disagreements(traces: Mapping[str, npt.NDArray[np.float64]]) -> dict[str, float]:
    """Return the R-hat of each scalar for which it says that the chains disagree.

    Traces have the shape (chain, draw). R-hat is rank-normalised (Vehtari et al. 2021), by ArviZ. A
    trace that is constant over all chains agrees; chains that are constant but differ do not.
    """
    every = {name: rank_rhat(trace) for name, trace in traces.items()}
    return {name: rhat for name, rhat in every.items() if rhat > HIGHEST_RHAT}


def rank_rhat(trace: npt.NDArray[np.float64]) -> float:
    """Return R-hat of one trace; nan for one chain, a constant and fewer than four draws."""
    from arviz_stats.base.array import array_stats

    if trace.shape[0] < 2 or trace.shape[1] < 4 or np.ptp(trace) == 0.0:
        return float("nan")
    if not np.any(np.ptp(trace, axis=1) > 0.0):
        return float("inf")
    with np.errstate(divide="ignore", invalid="ignore"):  # halves that stand still
        rhat = float(array_stats.rhat(trace, chain_axis=0, draw_axis=1))  # type: ignore[no-untyped-call]
    return float("inf") if np.isnan(rhat) else rhat


def effective_draws(trace: npt.NDArray[np.float64]) -> float:
    """Return of how many independent draws a trace of shape (chain, draw) is worth, by ArviZ.

    Bulk effective sample size (Vehtari et al. 2021); nan for constants and fewer than four draws.
    """
    from arviz_stats.base.array import array_stats

    if trace.shape[1] < 4 or np.ptp(trace) == 0.0:
        return float("nan")
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(array_stats.ess(trace, chain_axis=0, draw_axis=1, method="bulk"))  # type: ignore[no-untyped-call]
