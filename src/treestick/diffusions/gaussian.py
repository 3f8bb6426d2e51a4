"""Gaussian diffusion with independent dimensions (paper, sec. 3, first example).

::

    theta[root]  ~ N(root_mean, diag(root_variance))
    theta[child] ~ N(persistence * theta[parent], diag(diffusion))

``persistence`` is eta in the paper, ``diffusion`` the diagonal of Lambda. Arrays have one entry per
dimension; ``theta`` has a row for each node, in the order of the node table.
"""

import math

import numpy as np
import numpy.typing as npt

from treestick._jit import compiled
from treestick.random import Stream, exponential, fill_normals, uniform
from treestick.tree.table import NodeTable

Floats = npt.NDArray[np.float64]


@compiled
def draw_root(stream: Stream, mean: Floats, variance: Floats, theta: Floats) -> None:
    """Write a draw of the root's parameters into ``theta``."""
    fill_normals(stream, theta)
    for d in range(theta.size):
        theta[d] = mean[d] + math.sqrt(variance[d]) * theta[d]


@compiled
def draw_child(
    stream: Stream, persistence: float, diffusion: Floats, parent: Floats, theta: Floats
) -> None:
    """Write a draw of the parameters of a child of ``parent`` into ``theta``."""
    fill_normals(stream, theta)
    for d in range(theta.size):
        theta[d] = persistence * parent[d] + math.sqrt(diffusion[d]) * theta[d]


@compiled
def log_density(
    table: NodeTable,
    theta: Floats,
    root_mean: Floats,
    root_variance: Floats,
    persistence: float,
    diffusion: Floats,
) -> float:
    """Return the log density of the parameters of all nodes with a row in ``theta``."""
    total = 0.0
    for d in range(root_mean.size):
        away = theta[0, d] - root_mean[d]
        total -= 0.5 * (math.log(2.0 * math.pi * root_variance[d]) + away * away / root_variance[d])
    squares = squared_steps(table, theta, persistence)
    for d in range(root_mean.size):
        n_steps = theta.shape[0] - 1
        total -= 0.5 * (
            n_steps * math.log(2.0 * math.pi * diffusion[d]) + squares[d] / diffusion[d]
        )
    return total


@compiled
def squared_steps(table: NodeTable, theta: Floats, persistence: float) -> Floats:
    """Return, for each dimension, the sum of (theta[child] - persistence * theta[parent])**2."""
    squares = np.zeros(theta.shape[1])
    for node in range(1, theta.shape[0]):
        parent = table.parent[node]
        for d in range(squares.size):
            step = theta[node, d] - persistence * theta[parent, d]
            squares[d] += step * step
    return squares


@compiled
def draw_variance(
    stream: Stream, now: float, n: int, squares: float, low: float, high: float
) -> float:
    """Slice move on a variance with a uniform prior on [low, high]; return its new value.

    Given n steps from N(0, v) with the sum of squares given, the conditional is

        p(v) ~ v**(-n/2) * exp(-squares / (2 v))     on [low, high],

    here in w = log(v), where the change of variables adds w, because bounds may be decades apart.
    The first interval is the whole of [low, high], so no step needs tuning. If low = high, the
    variance is fixed.
    """
    if low == high:
        return now
    slope = 1.0 - 0.5 * n
    w = math.log(now)
    level = slope * w - 0.5 * squares * math.exp(-w) - exponential(stream)
    left, right = math.log(low), math.log(high)
    while True:
        candidate = left + (right - left) * uniform(stream)
        if slope * candidate - 0.5 * squares * math.exp(-candidate) >= level:
            return min(max(math.exp(candidate), low), high)
        if candidate < w:
            left = candidate
        else:
            right = candidate
        if not left < right:  # the slice is narrower than the floats around w
            return now


@compiled
def draw_persistence(
    stream: Stream, now: float, precision: float, pull: float, low: float, high: float
) -> float:
    """Slice move on eta with a uniform prior on [low, high]; return its new value.

    With ``precision`` = sum of theta[parent]**2 / diffusion over all steps and dimensions, and
    ``pull`` = sum of theta[parent] * theta[child] / diffusion, the conditional on [low, high] is

        p(eta) ~ exp(-precision * eta**2 / 2 + pull * eta).
    """
    if low == high:
        return now
    level = now * (pull - 0.5 * precision * now) - exponential(stream)
    left, right = low, high
    while True:
        candidate = left + (right - left) * uniform(stream)
        if candidate * (pull - 0.5 * precision * candidate) >= level:
            return candidate
        if candidate < now:
            left = candidate
        else:
            right = candidate
        if not left < right:
            return now
