"""Local fits of a node's logits: for models with bits at the nodes, and logits by diffusion.

Given everything else, the dimensions of a node's logits are independent. In each, parent and
children make a normal law of the logit t, and the data add s t - n log(1 + e**t), with s the sum of
bits in ``statistics``: a :class:`~treestick.diffusions.logistic.Logit`.

These are functions of a node model, described in :mod:`treestick.contract`, for any model that has
the fields ``diffusion``, ``root_mean`` and ``root_variance``. Costs are linear in the dimensions,
and in the number of children.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from treestick._jit import compiled
from treestick.diffusions import gaussian
from treestick.diffusions.logistic import (
    Logit,
    Target,
    find_mode,
    first_guess,
    given,
    log_overlap,
    make_desk,
    propose,
    value_and_slope,
)
from treestick.random import Stream

Floats = npt.NDArray[np.float64]


@compiled
def log_transition(model: Any, above: Floats, theta: Floats) -> float:
    """Return the log density of a node's logits given its parent's."""
    return gaussian.log_step(
        above, theta, model.root_mean, model.root_variance, 1.0, model.diffusion
    )


@compiled
def estimate(
    model: Any,
    above: Floats,
    below: Floats,
    n_here: float,
    statistics: Floats,
    theta: Floats,
) -> None:
    """Write the mode of the conditional, to a twentieth of its standard deviation."""
    precision = np.empty(theta.size)
    _see_neighbours(model, above, below, theta, precision)
    for d in range(theta.size):
        logit = Logit(theta[d], precision[d], statistics[d], 1.0 * n_here)
        theta[d] = find_mode(logit, first_guess(logit), 0.05)[0]


@compiled
def fit_node(
    stream: Stream,
    model: Any,
    above: Floats,
    below: Floats,
    n_here: float,
    statistics: Floats,
    theta: Floats,
    is_drawn: np.int64,
) -> float:
    """Draw each logit from a proposal near its conditional (:mod:`treestick.diffusions.logistic`).

    At a node without data the proposal is exact.
    """
    mean, precision = np.empty(theta.size), np.empty(theta.size)
    weight = _see_neighbours(model, above, below, mean, precision)
    nothing = Logit(0.0, 0.0, 0.0, 0.0)
    curve, polygon = make_desk()
    for d in range(theta.size):
        logit = Logit(mean[d], precision[d], statistics[d], 1.0 * n_here)
        target = Target(logit, nothing, model.diffusion[d])
        t, log_q = propose(stream, target, theta[d], is_drawn, curve, polygon)
        weight += value_and_slope(logit, t)[0] - log_q
        theta[d] = t
    return weight


@compiled
def fit_pair(
    stream: Stream,
    model: Any,
    above: Floats,
    below_upper: Floats,
    below_lower: Floats,
    n_upper: float,
    statistics_upper: Floats,
    n_lower: float,
    statistics_lower: Floats,
    theta_upper: Floats,
    theta_lower: Floats,
    is_drawn: np.int64,
) -> float:
    """Draw each upper logit with the lower one integrated out, about; then the lower one given it.

    In each dimension, T(lower <- upper) and the children of the lower node make a normal law of the
    lower logit given the upper one, times :func:`treestick.diffusions.logistic.log_overlap`.
    """
    n_dimensions = theta_upper.size
    mean, precision = np.empty(n_dimensions), np.empty(n_dimensions)
    seen_mean, seen_precision = np.zeros(n_dimensions), np.zeros(n_dimensions)
    weight = _see_neighbours(model, above, below_upper, mean, precision)
    weight += gaussian.see_below(below_lower, 1.0, model.diffusion, seen_mean, seen_precision)
    logs = n_dimensions * math.log(2.0 * math.pi) + gaussian.sum_of_logs(model.diffusion)
    weight -= 0.5 * logs  # the constant of T(lower <- upper)
    nothing = Logit(0.0, 0.0, 0.0, 0.0)
    curve, polygon = make_desk()
    for d in range(n_dimensions):
        diffusion = model.diffusion[d]
        upper = Logit(mean[d], precision[d], statistics_upper[d], 1.0 * n_upper)
        lower = Logit(seen_mean[d], seen_precision[d], statistics_lower[d], 1.0 * n_lower)
        target = Target(upper, lower, diffusion)
        t, log_q = propose(stream, target, theta_upper[d], is_drawn, curve, polygon)
        weight += value_and_slope(upper, t)[0] - log_q
        theta_upper[d] = t
        weight += log_overlap(lower, diffusion, t)
        lower = given(lower, diffusion, t)
        target = Target(lower, nothing, diffusion)
        t, log_q = propose(stream, target, theta_lower[d], is_drawn, curve, polygon)
        weight += value_and_slope(lower, t)[0] - log_q
        theta_lower[d] = t
    return weight


@compiled
def _see_neighbours(
    model: Any, above: Floats, below: Floats, mean: Floats, precision: Floats
) -> float:
    """Write mean and precision of the logits given the neighbours; return the log constant."""
    constant = gaussian.see_above(
        above, model.root_mean, model.root_variance, 1.0, model.diffusion, mean, precision
    )
    return constant + gaussian.see_below(below, 1.0, model.diffusion, mean, precision)
