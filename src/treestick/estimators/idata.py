"""The scalars of all draws in ArviZ's layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treestick.analysis.convergence import effective_draws
from treestick.moves.state import Floats
from treestick.store import Trace

if TYPE_CHECKING:
    import xarray

BY_DRAW = ("chain", "draw")
SCALARS = ("alpha0", "decay", "gamma", "n_nodes", "depth")
STATISTICS = (
    "lp",
    "log_likelihood",
    "complete_data",
    "acceptance_rate",
    "tries",
    "n_candidates",
)
AGREE_ON = ("n_nodes", "depth", "log_likelihood", "lp")
"""Scalars by which chains of trees are compared: no labels of nodes enter them."""


def stacked(traces: Sequence[Trace], name: str) -> Floats:
    """Return what is traced by chain and draw, as many draws as the shortest chain has."""
    shortest = min(len(trace) for trace in traces)
    return np.stack([trace.values[name][:shortest] for trace in traces])


def attributes(traces: Sequence[Trace], thin: int) -> dict[str, Any]:
    """Return what a group says of its draws."""
    return {
        "inference_library": "treestick",
        "sweep_of_first_draw": int(traces[0].sweep[0]),
        "thin": thin,
    }


def of_trees(
    traces: Sequence[Trace], described: Mapping[str, Floats], features: Any, thin: int
) -> xarray.DataTree:
    """Return the groups ``posterior`` and ``sample_stats`` of draws of trees.

    ``described`` are hyperparameters of the model by chain and draw, in the user's units; vectors
    have a number for each of the ``features``.
    """
    import xarray

    posterior: dict[str, Any] = {name: (BY_DRAW, stacked(traces, name)) for name in SCALARS}
    for name, values in described.items():
        posterior[name] = ((*BY_DRAW, "feature")[: values.ndim], values)
    n_draws = min(len(trace) for trace in traces)
    coords = {"chain": [trace.chain for trace in traces], "draw": np.arange(n_draws)}
    noted = attributes(traces, thin)
    return xarray.DataTree.from_dict(
        {
            "posterior": xarray.Dataset(posterior, {**coords, "feature": features}, noted),
            "sample_stats": _statistics(traces, coords, noted),
        }
    )


def _statistics(
    traces: Sequence[Trace], coords: Mapping[str, Any], noted: Mapping[str, Any]
) -> xarray.Dataset:
    import xarray

    names = [*STATISTICS, *(name for name in traces[0].values if name.endswith("_accepted"))]
    found: dict[str, Any] = {name: (BY_DRAW, stacked(traces, name)) for name in names}
    seconds = np.stack([trace.seconds[: len(coords["draw"])] for trace in traces])
    found["seconds"] = (BY_DRAW, seconds)
    sizes = stacked(traces, "n_nodes").astype(np.int64)
    every_size = np.arange(sizes.min(), sizes.max() + 1)
    visits = [(row[:, None] == every_size).sum(axis=0) for row in sizes]
    found["visits"] = (("chain", "size"), np.stack(visits))
    lasted = float(np.ptp(seconds)) or np.nan
    per_second = [effective_draws(stacked(traces, name)) / lasted for name in AGREE_ON]
    found["ess_per_second"] = ("scalar", per_second)
    return xarray.Dataset(found, {**coords, "size": every_size, "scalar": list(AGREE_ON)}, noted)
