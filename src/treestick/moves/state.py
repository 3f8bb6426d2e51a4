"""The state of a chain, as the moves hand it on."""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick._jit import compiled
from treestick.random import Stream, uniform
from treestick.tree.table import NodeTable

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Sticks(NamedTuple):
    """The hyperparameters of the stick prior. Equal bounds mean a fixed value."""

    alpha0: float
    alpha0_low: float
    alpha0_high: float
    decay: float
    decay_low: float
    decay_high: float
    gamma: float
    gamma_low: float
    gamma_high: float


class State(NamedTuple):
    """A tree partition of the data, the parameters of its nodes, and all hyperparameters.

    The table holds the hull (nodes with data at or below them, and the root) in its first rows,
    depth first, and behind them children without data, where psi-sticks are part of the state.
    """

    table: NodeTable
    assignments: Integers
    """Row of each datum."""
    theta: Floats
    """Parameters: a row for each node of the hull."""
    statistics: Floats
    """Sufficient statistics of the data that stop at each node of the hull."""
    model: Any
    """Hyperparameters of the node model: the named tuple that the contract dispatches on."""
    sticks: Sticks
    latent: Any = None
    """What a model adds. It has properties: ``seen``, the data as the nodes see them; ``log_data``,
    the log density of what they do not see; ``shared``, what nodes share, and its ``log_prior``."""

    @property
    def n_nodes(self) -> int:
        """Number of nodes in the hull."""
        return int(self.theta.shape[0])


def seen_by(state: State, data: Any) -> Any:
    """Return the data as the nodes see them."""
    return data if state.latent is None else state.latent.seen


@compiled
def alpha_at(sticks: Sticks, depth: int) -> float:
    """Return alpha(depth) = alpha0 * decay**depth."""
    return sticks.alpha0 * math.exp(depth * math.log(sticks.decay))


@compiled
def draw_sticks_prior(stream: Stream, sticks: Sticks) -> Sticks:
    """Return the hyperparameters drawn from their uniform priors."""
    a = sticks.alpha0_low + uniform(stream) * (sticks.alpha0_high - sticks.alpha0_low)
    d = sticks.decay_low + uniform(stream) * (sticks.decay_high - sticks.decay_low)
    g = sticks.gamma_low + uniform(stream) * (sticks.gamma_high - sticks.gamma_low)
    return replace_sticks(sticks, a, d, g)


@compiled
def replace_sticks(sticks: Sticks, alpha0: float, decay: float, gamma: float) -> Sticks:
    """Return ``sticks`` with other values within the same bounds."""
    return Sticks(
        alpha0,
        sticks.alpha0_low,
        sticks.alpha0_high,
        decay,
        sticks.decay_low,
        sticks.decay_high,
        gamma,
        sticks.gamma_low,
        sticks.gamma_high,
    )
