"""Runs that no chain has made: draws of a GaussianTree written by hand, without compiled code."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick.store import CONSTANTS, DrawRecord, RunFolder

if TYPE_CHECKING:
    from treestick.estimators import GaussianTree

NAMES = ("alpha0", "decay", "gamma", "persistence", "n_nodes", "depth", "log_likelihood",
         "complete_data", "lp", "acceptance_rate", "tries", "n_candidates")  # fmt: skip


class Pair(NamedTuple):
    """A state: something that a chain could go on from."""

    numbers: npt.NDArray[np.int64]
    level: float


def draw(chain: int = 0, sweep: int = 0, n_data: int = 20, n_nodes: int = 5) -> DrawRecord:
    """Return a draw whose content tells its chain and sweep."""
    random = np.random.default_rng([chain, sweep])
    parent = np.r_[-1, random.integers(0, np.arange(1, n_nodes))]
    n_leaves = n_nodes - np.unique(parent[1:]).size
    return DrawRecord(
        parent=parent,
        assignments=random.integers(0, n_nodes, n_data),
        theta=random.normal(size=(n_nodes, 2)).astype(np.float32).astype(np.float64),
        scalars=dict.fromkeys(NAMES, 1.0)
        | {"decay": 0.5, "n_nodes": n_nodes, "complete_data": -100.5 + random.random()},
        vectors={"diffusion": random.random(2) + 0.1, "noise": random.random(2) + 0.1},
        chain=chain,
        sweep=sweep,
        leaf_statistics=random.normal(size=(n_leaves, 4)).astype(np.float32).astype(np.float64),
    )


def make_run(folder: Path, n_chains: int = 2, n_draws: int = 6, X: Any = None) -> GaussianTree:
    """Write a run of a GaussianTree, and return the estimator that would have made it."""
    # Here, so that scripts that need only draws start fast.
    from treestick.estimators import GaussianTree
    from treestick.estimators.configuration import claim, fingerprint
    from treestick.estimators.sampled import Job, Known, ids_of
    from treestick.estimators.states import Constants
    from treestick.moves.state import Sticks

    X = np.random.default_rng(0).normal(size=(20, 2)) if X is None else X
    model = GaussianTree(
        n_draws=n_draws, burn_in=0, n_chains=n_chains, random_state=0, verbose=0, run_dir=folder
    )
    values = model._read(X)
    made, units = model._make_model(model._summarize(values))
    data, n_data = model._encode(units, values)
    sticks = Sticks(1.0, 1.0, 50.0, 0.5, 0.05, 0.8, 1.0, 0.5, 10.0)
    constants = Constants(made, units, sticks)
    run = RunFolder(folder)
    known = Known(X, None, ids_of(X), {})
    claim(
        model, run, Job(known, partial(fingerprint, data), n_data, constants, lambda *_: iter(()))
    )
    for chain in range(n_chains):
        run.chain(chain).save(CONSTANTS, 0, constants)
        for sweep in range(1, n_draws + 1):
            state = Pair(np.arange(sweep), float(sweep))
            run.append(draw(chain, sweep, n_data), float(sweep), state)
    run.close()
    return model
