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
    find_mode,
    first_guess,
    given,
    make_desk,
    propose,
    value_and_slope,
)
from treestick.diffusions.logit_trees import (
    CENTRE,
    ONES,
    PRECISION,
    find_modes,
    logits_at,
    make_rows,
    pass_up,
)
from treestick.packs import WIDTH, fill, first_of, load, store, total
from treestick.random import Stream
from treestick.tree.table import NULL

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
    for d in range(0, theta.size, WIDTH):
        logit = _load_logits(theta, precision, statistics, n_here, d)
        store(theta, d, find_mode(logit, first_guess(logit), 0.05)[0])


@compiled
def log_evidence(
    model: Any, above: Floats, below: Floats, n_here: float, statistics: Floats
) -> float:
    """Return the log marginal likelihood by Laplace's approximation in each dimension."""
    mean, precision = np.empty(statistics.size), np.empty(statistics.size)
    constant = _see_neighbours(model, above, below, mean, precision)
    values = fill(0.0)
    for d in range(0, mean.size, WIDTH):
        logit = _load_logits(mean, precision, statistics, n_here, d)
        mode, curvature, _ = find_mode(logit, first_guess(logit), 0.3)
        value, slope = value_and_slope(logit, mode)
        value = value + 0.5 * slope * slope / curvature
        values = values + first_of(value, mean.size - d)
        store(precision, d, curvature)
    return constant + total(values) + gaussian.log_integral(precision)


@compiled
def _load_logits(
    centre: Floats, precision: Floats, ones: Floats, n_here: float, first: int
) -> Logit:
    """Return eight dimensions from ``first`` on; past the last one, N(0, 1)."""
    return Logit(
        load(centre, first, 0.0), load(precision, first, 1.0), load(ones, first, 0.0), 1.0 * n_here
    )


@compiled
def fit_group(stream: Stream, model: Any, group: Any, is_drawn: np.int64) -> float:
    """Draw the logits of a group of nodes together, from the top down.

    In each dimension, the mode of all logits together is found first. About it, what the nodes
    below say of a logit is taken as a normal law
    (:func:`~treestick.diffusions.logit_trees.pass_up`), so that the logit given its parent is again
    a :class:`~treestick.diffusions.logistic.Logit`, which has a proposal. Over 256 dimensions, the
    weight has a standard deviation of 0.06 for one node, and of 0.1 to 0.3 for two to eight, if the
    topmost has data or children outside. If a root with a variance of 3 has neither, or only one
    datum, it is 0.5 to 2.
    """
    n_nodes, n_dimensions = group.theta.shape
    mean, precision = np.zeros((n_nodes, n_dimensions)), np.zeros((n_nodes, n_dimensions))
    weight = 0.0
    first, n_steps = 0, 0
    for k in range(n_nodes):
        if group.over[k] == NULL:
            over = group.above[k][:0] if k == 0 and group.has_root else group.above[k]
            weight += gaussian.see_above(
                over, model.root_mean, model.root_variance, 1.0, model.diffusion, mean[k],
                precision[k],
            )  # fmt: skip
        else:
            n_steps += 1
        below = group.below[first : group.last_below[k]]
        first = group.last_below[k]
        weight += gaussian.see_below(below, 1.0, model.diffusion, mean[k], precision[k])
    logs = n_dimensions * math.log(2.0 * math.pi) + gaussian.sum_of_logs(model.diffusion)
    weight -= 0.5 * n_steps * logs
    curve, polygon = make_desk()
    desk, own = make_rows(n_nodes), make_rows(n_nodes)
    thetas = np.empty((n_nodes, WIDTH))
    weights = fill(0.0)
    for d in range(0, n_dimensions, WIDTH):
        diffusion = load(model.diffusion, d, 1.0)
        for k in range(n_nodes):
            for each in (desk, own):
                store(each[CENTRE, k], 0, load(mean[k], d, 0.0))
                store(each[PRECISION, k], 0, load(precision[k], d, 1.0))
                store(each[ONES, k], 0, load(group.statistics[k], d, 0.0))
        find_modes(group.over, group.n_here, diffusion, desk)
        pass_up(group.over, group.n_here, diffusion, desk)
        for k in range(n_nodes):
            over = group.over[k]
            logit = logits_at(desk, group.n_here, k)
            above = fill(0.0)
            if over != NULL:
                above = load(thetas[over], 0, 0.0)
                logit = given(logit, diffusion, above)
            t = load(group.theta[k], d, 0.0)
            t, log_q = propose(stream, logit, t, is_drawn, curve, polygon)
            weight_here = value_and_slope(logits_at(own, group.n_here, k), t)[0] - log_q
            if over != NULL:
                away = t - above
                weight_here = weight_here - 0.5 * away * away / diffusion
            weights = weights + first_of(weight_here, n_dimensions - d)
            store(thetas[k], 0, t)
            store(group.theta[k], d, t)
    return weight + total(weights)


@compiled
def _see_neighbours(
    model: Any, above: Floats, below: Floats, mean: Floats, precision: Floats
) -> float:
    """Write mean and precision of the logits given the neighbours; return the log constant."""
    constant = gaussian.see_above(
        above, model.root_mean, model.root_variance, 1.0, model.diffusion, mean, precision
    )
    return constant + gaussian.see_below(below, 1.0, model.diffusion, mean, precision)
