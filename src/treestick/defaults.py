"""Entries of the contract that a model need not write itself: each in terms of others.

They are right for any model. A model that knows something quicker or sharper writes its own.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from treestick import contract
from treestick._jit import compiled
from treestick.tree.table import NULL, NodeTable
from treestick.wide import ABREAST

Floats = npt.NDArray[np.float64]


@compiled
def log_likelihoods(
    model: Any, data: Any, first: int, last: int, prepared: Floats, out: Floats
) -> None:
    """One node after the other, by the model's ``log_likelihood``."""
    row = np.empty(prepared.shape[0])
    for k in range(ABREAST):
        for j in range(row.size):
            row[j] = prepared[j, k]
        for n in range(first, last):
            out[n - first, k] = contract.log_likelihood(model, data, n, row)


@compiled
def log_prior(model: Any, table: NodeTable, theta: Floats) -> float:
    """Sum the model's ``log_transition`` over the nodes."""
    total = contract.log_transition(model, np.empty(0), theta[0])
    for node in range(1, theta.shape[0]):
        total += contract.log_transition(model, theta[table.parent[node]], theta[node])
    return total


@compiled
def log_evidence(
    model: Any, above: Floats, below: Floats, n_here: float, statistics: Floats
) -> float:
    """Return the weight that the model's ``fit_group`` gives to its ``estimate``."""
    theta = np.empty((1, contract.widths(model)[0]))
    contract.estimate(model, above, below, n_here, statistics, theta[0])
    group = contract.Group(
        np.full(1, NULL), above.reshape((1, above.size)), above.size == 0, np.full(1, n_here),
        statistics.reshape((1, statistics.size)), below, np.full(1, below.shape[0]), theta,
    )  # fmt: skip
    stream = np.empty(0, dtype=np.uint64)  # nothing is drawn
    return contract.fit_group(stream, model, group, contract.GIVEN)


@compiled
def n_parts(model: Any) -> int:
    """Return 1: all parameters are updated together."""
    return 1


@compiled
def adapt(model: Any, acceptance: float) -> Any:
    """Return the model as it is: there is no step size."""
    return model


@compiled
def prepare_leaf(
    model: Any, above: Floats, n_here: float, statistics: Floats, theta: Floats, prepared: Floats
) -> None:
    """Take the parameters as they were drawn."""
    contract.prepare(model, theta, prepared)


@compiled
def draw_leaf(
    stream: Any, model: Any, above: Floats, n_here: float, statistics: Floats, theta: Floats
) -> None:
    """Leave the parameters as they were drawn."""
