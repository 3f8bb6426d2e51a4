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
_NOTHING_LEFT = math.exp(-20.0)
"""A density so low, in proportion to that at its mode, does not count."""
_HUGE = 1e290
"""Odds that grow no more: the density has long been 0."""
_FAR_MODE, _LEAST_PRECISION = 600.0, 1.0 / 2500.0
"""Up to this mode, and from this precision on, products of exponentials are safe."""


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
    # Terms on both sides of the mean have one height h, and odds a and b whose product is the same
    # for all. One division is enough for both:
    # h / (1 + a) + h / (1 + b) = h (2 + a + b) / (1 + a + b + a b).
    above = exp(spread * _STEPS[rule])
    below = 1.0 / above
    odds = exp(-size(mean))
    square = odds * odds
    share = _HEIGHTS[rule, 0] / (1.0 + odds)
    likely, unlikely = share, odds * share
    a, b = odds, odds
    for k in range(1, _N_STEPS[rule] + 1):
        a, b = a * above, b * below
        both = a + b
        share = _HEIGHTS[rule, k] / ((1.0 + square) + both)
        likely = likely + share * (2.0 + both)
        unlikely = unlikely + share * (both + 2.0 * square)
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

    Their number, ``logit.n``, is a whole one. The rule runs over t, from the mode m outwards until
    nothing is left. Steps are half of the standard deviation at the mode, and at most 1/2: with all
    bits alike, the law has a wall on one side, as steep as the logistic, where the error is below
    1e-7. That is relative to the likelier bit; what it leaves out of a bit that is rare, because
    the logit would have to be many standard deviations away, can be most of it. Relative to the
    mode, where slopes add up to 0 (or nearly: d), the density is

        p(t) / p(m) = a**n exp(d (t - m) - precision (t - m)**2 / 2),
        a = exp(s (t - m)) (1 + e**m) / (1 + e**t) <= 1,        s = 1 / (1 + e**-m),

    and from one step to the next all exponentials are multiplied by others, so that none is left
    inside of the loop; with millions of bits, this costs some digits. Where m > 0, bits are taken
    for their opposites.
    """
    mode, curvature, _ = find_mode(logit, first_guess(logit), 0.1)
    if any_less(_FAR_MODE, size(mode)) or any_less(logit.precision, _LEAST_PRECISION):
        return _expected_bits_far(logit, mode, curvature)
    sign = where_less(mode, 0.0, 1.0, -1.0)
    odds = exp(-size(mode))
    common = 1.0 / (1.0 + odds)
    rare = odds * common
    ones = where_less(mode, 0.0, logit.ones, logit.n - logit.ones)
    slope = ones - logit.n * rare - logit.precision * (sign * (mode - logit.centre))
    step = 0.5 * smaller(1.0 / sqrt(curvature), 1.0)
    bend = exp(-logit.precision * step * step)
    half_bend, tilt, lift, grow = sqrt(bend), exp(step * slope), exp(step * rare), exp(step)
    of_rare, of_common = rare, common
    for side in range(2):
        if side == 1:
            tilt, lift, grow = 1.0 / tilt, 1.0 / lift, 1.0 / grow
        far, lifted = odds, 1.0 + odds
        normal, next_normal = fill(1.0), half_bend * tilt
        while True:
            lifted = where_less(far, _HUGE, lifted * lift, lifted)
            far = where_less(far, _HUGE, far * grow, far)
            normal, next_normal = normal * next_normal, next_normal * bend
            zero = 1.0 / (1.0 + far)
            weight = _power(lifted * zero, logit.n) * normal
            if not any_less(_NOTHING_LEFT, weight):
                break
            of_common = of_common + weight * zero
            of_rare = of_rare + weight * (far * zero)
    one = where_less(mode, 0.0, of_rare, of_common)
    zero = where_less(mode, 0.0, of_common, of_rare)
    return larger(one / (one + zero), TINY), larger(zero / (one + zero), TINY)


@compiled
def _expected_bits_far(logit: Logit, mode: Any, curvature: Any) -> tuple[Any, Any]:
    """Return the same where products of exponentials would leave the range of numbers."""
    top, likely, unlikely = _weigh(logit, mode)
    one = where_less(mode, 0.0, unlikely, likely)
    zero = where_less(mode, 0.0, likely, unlikely)
    step = 0.5 * smaller(1.0 / sqrt(curvature), 1.0)
    for side in (-1.0, 1.0):
        t = mode + side * step
        value, likely, unlikely = _weigh(logit, t)
        while any_less(math.log(_NOTHING_LEFT), value - top):
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


@compiled
def _power(a: Any, n: float) -> Any:
    """Return a**n, n whole."""
    left, power = np.int64(n), fill(1.0)
    while left > 0:
        if left & 1:
            power = power * a
        a = a * a
        left >>= 1
    return power
