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
def sum_of_logs(values: Floats) -> float:
    """Return the sum of the logarithms of positive numbers: one logarithm for many factors."""
    total, product = 0.0, 1.0
    for d in range(values.size):
        product *= values[d]
        if not 1e-200 < product < 1e200:
            total += math.log(product)
            product = 1.0
    return total + math.log(product)


@compiled
def log_step(
    above: Floats,
    theta: Floats,
    root_mean: Floats,
    root_variance: Floats,
    persistence: float,
    diffusion: Floats,
) -> float:
    """Return the log density of a node's parameters given its parent's.

    Here and below, an ``above`` of size 0 stands for no parent: the node is the root.
    """
    squares = 0.0
    if above.size == 0:
        logs = sum_of_logs(root_variance)
        for d in range(theta.size):
            away = theta[d] - root_mean[d]
            squares += away * away / root_variance[d]
    else:
        logs = sum_of_logs(diffusion)
        for d in range(theta.size):
            away = theta[d] - persistence * above[d]
            squares += away * away / diffusion[d]
    return -0.5 * (theta.size * math.log(2.0 * math.pi) + logs + squares)


# -- normal laws of a node's parameters: products with what its neighbours say ---------------------


@compiled
def see_above(
    above: Floats,
    root_mean: Floats,
    root_variance: Floats,
    persistence: float,
    diffusion: Floats,
    mean: Floats,
    precision: Floats,
) -> float:
    """Write mean and precision of T(. <- above), or of the root's prior; return its log constant.

    The constant is what log T leaves beside -precision (theta - mean)**2 / 2, over all dimensions.
    """
    for d in range(mean.size):
        if above.size == 0:
            mean[d], precision[d] = root_mean[d], 1.0 / root_variance[d]
        else:
            mean[d], precision[d] = persistence * above[d], 1.0 / diffusion[d]
    return -log_integral(precision)


@compiled
def see_below(
    below: Floats, persistence: float, diffusion: Floats, mean: Floats, precision: Floats
) -> float:
    """Multiply a normal law of a node's parameters by that of its children given them.

    ``mean`` and ``precision`` are overwritten by those of the product; a precision of 0 says that
    nothing is known yet. Return the log constant that the product leaves: with mean' the new mean,
    the sum over dimensions of

        -precision (mean - mean')**2 / 2,  and for each child
        -log(2 pi diffusion) / 2 - (child - eta mean')**2 / (2 diffusion).
    """
    n_children = below.shape[0]
    if n_children == 0:
        return 0.0
    total_squares = 0.0
    for d in range(mean.size):
        inverse = 1.0 / diffusion[d]
        pull = 0.0
        for k in range(n_children):
            pull += below[k, d]
        total = precision[d] + n_children * persistence * persistence * inverse
        new = 0.0
        if total > 0.0:
            new = (precision[d] * mean[d] + persistence * pull * inverse) / total
        squares = 0.0
        for k in range(n_children):
            away = below[k, d] - persistence * new
            squares += away * away
        away = mean[d] - new
        total_squares += squares * inverse + precision[d] * away * away
        mean[d], precision[d] = new, total
    logs = mean.size * math.log(2.0 * math.pi) + sum_of_logs(diffusion)
    return -0.5 * (n_children * logs + total_squares)


@compiled
def see_child(
    seen_mean: Floats,
    seen_precision: Floats,
    persistence: float,
    diffusion: Floats,
    mean: Floats,
    precision: Floats,
) -> float:
    """Multiply a normal law of a node's parameters by what is seen of one child, integrated out.

    Of the child, exp(-seen_precision (child - seen_mean)**2 / 2) is known. With r = seen_precision
    / (1 + diffusion * seen_precision), its integral against T(child <- theta) is

        exp(-r (seen_mean - eta theta)**2 / 2) / sqrt(1 + diffusion * seen_precision).

    ``mean`` and ``precision`` are overwritten by those of the product. Return the log constant.
    """
    constant = 0.0
    for d in range(mean.size):
        widened = 1.0 + diffusion[d] * seen_precision[d]
        r = seen_precision[d] / widened
        total = precision[d] + persistence * persistence * r
        away = seen_mean[d] - persistence * mean[d]
        if total > 0.0:
            constant -= 0.5 * (math.log(widened) + away * away * r * precision[d] / total)
            mean[d] += persistence * r * away / total
        else:  # of neither anything is known, or the node says nothing of its child
            constant -= 0.5 * (math.log(widened) + away * away * r)
        precision[d] = total
    return constant


@compiled
def see_parent(
    parent: Floats, persistence: float, diffusion: Floats, mean: Floats, precision: Floats
) -> None:
    """Multiply a normal law of a node's parameters by T(. <- parent)."""
    for d in range(mean.size):
        total = precision[d] + 1.0 / diffusion[d]
        pull = persistence * parent[d] / diffusion[d]
        mean[d] = (precision[d] * mean[d] + pull) / total
        precision[d] = total


@compiled
def draw_normal(stream: Stream, mean: Floats, precision: Floats, theta: Floats) -> None:
    """Write a draw from the normal law with this mean and precision into ``theta``."""
    fill_normals(stream, theta)
    for d in range(theta.size):
        theta[d] = mean[d] + theta[d] / math.sqrt(precision[d])


@compiled
def log_integral(precision: Floats) -> float:
    """Return the log of the integral of exp(-precision * theta**2 / 2) over all dimensions."""
    return 0.5 * (precision.size * math.log(2.0 * math.pi) - sum_of_logs(precision))


# -- what hyperparameters are drawn from -----------------------------------------------------------


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
