"""Probabilities of a bit whose logit is not known: normal, or normal times bits that were seen.

Eight at once; sums are by the trapezoid rule, which converges geometrically for these laws.
"""

import math
from typing import Any

import numpy as np

from treestick._jit import compiled
from treestick.diffusions.logistic import Logit, find_mode, first_guess
from treestick.packs import (
    WIDTH,
    any_less,
    exp,
    fill,
    larger,
    largest_of,
    load,
    log,
    size,
    smaller,
    sqrt,
    store,
    where_less,
)

_RULES = [(0.6, 1.0), (1.25, 0.7), *((most, 0.9 / most) for most in (2.0, 2.8, 4.0, 5.6, 8.0))]
"""Trapezoid rules for a normal law: up to which spread, and the step this takes."""
_FAR = 8.4
_SPREADS = np.array([spread for spread, _ in _RULES])
_STEPS = np.array([step for _, step in _RULES])
_N_STEPS = np.ceil(_FAR / _STEPS).astype(np.int64)
_HEIGHTS = _STEPS[:, None] * np.exp(-0.5 * (_STEPS[:, None] * np.arange(_N_STEPS.max() + 1)) ** 2)
_HEIGHTS /= math.sqrt(2.0 * math.pi)
_LOGISTIC_POINTS = np.arange(-60.0, 60.1, 0.5)
_LOGISTIC_WEIGHTS = 0.5 * 0.25 / np.cosh(0.5 * _LOGISTIC_POINTS) ** 2
TINY = 1e-300
_NOTHING_LEFT = 20.0
"""A density so much lower (in nats) than at its mode does not count."""


@compiled
def expected_logistics(mean: Any, spread: Any) -> tuple[Any, Any]:
    """Return E[1 / (1 + exp(-t))] and E[1 / (1 + exp(t))] for eight t ~ N(mean, spread**2).

    Up to a spread of 8 the rule runs over t, where e**-t is a power of one number. Errors are below
    1e-7, relative to the smaller of the two, as long as |mean| < 30.
    """
    widest = largest_of(spread)
    if widest > _SPREADS[-1]:
        return _expected_far(mean, spread)
    rule = 0
    while widest > _SPREADS[rule]:
        rule += 1
    n_steps = _N_STEPS[rule]
    step = spread * _STEPS[rule]
    ratio, odds = exp(step), exp(-size(mean) - n_steps * step)
    likely, unlikely = fill(0.0), fill(0.0)
    for k in range(-n_steps, n_steps + 1):
        share = _HEIGHTS[rule, abs(k)] / (1.0 + odds)
        likely = likely + share
        unlikely = unlikely + odds * share
        odds = odds * ratio
    one = where_less(mean, 0.0, unlikely, likely)
    zero = where_less(mean, 0.0, likely, unlikely)
    return larger(one, TINY), larger(zero, TINY)


@compiled
def _expected_far(mean: Any, spread: Any) -> tuple[Any, Any]:
    """Return the same where the logistic is steep on the scale of t.

    It is P(t > l) for l of the logistic law, so the rule runs over l, with normal tails.
    """
    one, zero, means, spreads = np.zeros(WIDTH), np.zeros(WIDTH), np.empty(WIDTH), np.empty(WIDTH)
    store(means, 0, mean)
    store(spreads, 0, larger(spread, TINY))
    for lane in range(WIDTH):
        for point in range(_LOGISTIC_POINTS.size):
            z = (means[lane] - _LOGISTIC_POINTS[point]) / spreads[lane]
            tail = 0.5 * math.erfc(abs(z) * math.sqrt(0.5))
            one[lane] += _LOGISTIC_WEIGHTS[point] * (1.0 - tail if z > 0.0 else tail)
            zero[lane] += _LOGISTIC_WEIGHTS[point] * (tail if z > 0.0 else 1.0 - tail)
    return larger(load(one, 0, 0.0), TINY), larger(load(zero, 0, 0.0), TINY)


@compiled
def expected_bits(logit: Logit) -> tuple[Any, Any]:
    """Return the probabilities that the next bit is 1, and 0, given those that ``logit`` has.

    The rule runs over the logit, from its mode outwards until nothing is left. Steps are half of
    the standard deviation at the mode, and at most 1/2: with all bits alike, the law has a wall on
    one side, as steep as the logistic, where the error is below 1e-7.
    """
    mode, curvature, _ = find_mode(logit, first_guess(logit), 0.1)
    top, likely, unlikely = _weigh(logit, mode)
    one = where_less(mode, 0.0, unlikely, likely)
    zero = where_less(mode, 0.0, likely, unlikely)
    step = 0.5 * smaller(1.0 / sqrt(curvature), 1.0)
    for side in (-1.0, 1.0):
        t = mode + side * step
        value, likely, unlikely = _weigh(logit, t)
        while any_less(top - _NOTHING_LEFT, value):
            weight = exp(value - top)
            one = one + weight * where_less(t, 0.0, unlikely, likely)
            zero = zero + weight * where_less(t, 0.0, likely, unlikely)
            t = t + side * step
            value, likely, unlikely = _weigh(logit, t)
    return larger(one / (one + zero), TINY), larger(zero / (one + zero), TINY)


@compiled
def _weigh(logit: Logit, t: Any) -> tuple[Any, Any, Any]:
    """Return log p(t) up to its constant, and the probabilities of the likelier bit and the other.

    With one exponential for all of them.
    """
    small = exp(-size(t))
    likely = 1.0 / (1.0 + small)
    away = t - logit.centre
    value = logit.ones * t - logit.n * (larger(t, 0.0) + log(1.0 + small))
    return value - 0.5 * logit.precision * away * away, likely, small * likely
