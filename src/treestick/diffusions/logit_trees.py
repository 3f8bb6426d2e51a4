"""Logits of several nodes: the mode of all together, and messages to the top.

Each node k has a :class:`~treestick.diffusions.logistic.Logit` of its own, and a node whose parent
is among them has t[k] ~ N(t[parent], diffusion). Nodes come with parents before children; ``over``
is the index of the parent, or NULL. Eight dimensions are computed at once, each by itself: all that
is known of them stands in one array, the desk, with a pack for each node in each of the rows named
below.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from treestick._jit import compiled
from treestick.diffusions.logistic import Logit, first_guess, given, value_and_slope
from treestick.packs import (
    WIDTH,
    any_less,
    exp,
    fill,
    larger,
    load,
    size,
    smaller,
    sqrt,
    store,
    where_less,
)
from treestick.tree.table import NULL

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

CENTRE, PRECISION, ONES = 0, 1, 2
"""What is known of a logit beside its parent, and the number of its data."""
MODE, BEND, SLOPE = 3, 4, 5
"""Of the mode of all: the logit; minus its second derivative, with the nodes below eliminated; the
first derivative, likewise."""
N_ROWS = 6

_NEAR = 0.1
"""Newton's steps end when all are shorter than this, in standard deviations."""
_LONGEST = 2.0
_MOST_STEPS = 30
_POINT = math.sqrt(3.0)
_WEIGHT = 0.25 * math.exp(1.5)
"""Gauss and Hermite's rule of three points, relative to the middle one."""


@compiled
def make_rows(n_nodes: int) -> Floats:
    """Return a desk to be filled."""
    return np.empty((N_ROWS, n_nodes, WIDTH))


@compiled
def at(desk: Floats, row: int, k: int) -> Any:
    """Return what stands in a row, for node k."""
    return load(desk[row, k], 0, 0.0)


@compiled
def logits_at(desk: Floats, n_here: Floats, k: int) -> Logit:
    """Return what is known of the logits of node k."""
    return Logit(at(desk, CENTRE, k), at(desk, PRECISION, k), at(desk, ONES, k), n_here[k])


@compiled
def find_modes(over: Integers, n_here: Floats, diffusion: Any, desk: Floats) -> None:
    """Fill ``MODE`` by Newton's steps on all logits at once, and ``BEND`` near it.

    The tree is eliminated from the leaves: a node with second derivative -b adds 1/diffusion -
    1/(diffusion**2 b) to its parent's. Where a step is long it is cut, for curves of data are flat
    far from where they bend; steps that do not end cost a worse proposal, nothing else. Dimensions
    that are there wait for the others.
    """
    n_nodes = over.size
    inverse = 1.0 / diffusion
    for k in range(n_nodes):
        logit = logits_at(desk, n_here, k)
        if over[k] != NULL:
            logit = given(logit, diffusion, at(desk, MODE, over[k]))
        store(desk[MODE, k], 0, first_guess(logit))
    goes_on = fill(1.0)
    for _ in range(_MOST_STEPS):
        for k in range(n_nodes):
            t = at(desk, MODE, k)
            small = exp(-size(t))
            large = 1.0 / (1.0 + small)
            share = where_less(0.0, t, large, small * large)
            precision = at(desk, PRECISION, k)
            slope = at(desk, ONES, k) - n_here[k] * share - precision * (t - at(desk, CENTRE, k))
            store(desk[SLOPE, k], 0, slope)
            store(desk[BEND, k], 0, precision + n_here[k] * large * large * small)
        for k in range(n_nodes - 1, -1, -1):
            above = over[k]
            if above != NULL:
                step = (at(desk, MODE, k) - at(desk, MODE, above)) * inverse
                slope, bend = at(desk, SLOPE, k) - step, at(desk, BEND, k) + inverse
                follows = inverse / bend
                store(desk[SLOPE, k], 0, slope)
                store(desk[BEND, k], 0, bend)
                store(desk[SLOPE, above], 0, at(desk, SLOPE, above) + (step + follows * slope))
                store(desk[BEND, above], 0, at(desk, BEND, above) + inverse * (1.0 - follows))
        longest = fill(0.0)
        for k in range(n_nodes):
            # SLOPE becomes the step of each node, from the top down.
            bend = at(desk, BEND, k)
            step = at(desk, SLOPE, k) / bend
            if over[k] != NULL:
                step = step + inverse / bend * at(desk, SLOPE, over[k])
            step = smaller(larger(step, -_LONGEST), _LONGEST)
            store(desk[SLOPE, k], 0, step)
            store(desk[MODE, k], 0, at(desk, MODE, k) + goes_on * step)
            longest = larger(longest, step * step * bend)
        goes_on = goes_on * where_less(longest, _NEAR * _NEAR, 0.0, 1.0)
        if not any_less(0.0, goes_on):
            break


@compiled
def pass_up(over: Integers, n_here: Floats, diffusion: Any, desk: Floats) -> None:
    """Let every logit below another say what it knows: add it to ``CENTRE`` and ``PRECISION``.

    Given that the parent is at its mode t, the child v has a mean and a variance, by Gauss and
    Hermite's rule of three points about its own mode. These are the first two derivatives of the
    message m(t) = log INT N(v; t, diffusion) p(v) dv,

        m'(t) = (E[v] - t) / diffusion,    -m''(t) = 1 / diffusion - Var[v] / diffusion**2,

    so m is taken as the normal law that has them. A child that knows nothing says nothing.
    """
    inverse = 1.0 / diffusion
    for k in range(over.size - 1, -1, -1):
        above = over[k]
        if above == NULL:
            continue
        known = logits_at(desk, n_here, k)
        t, mode = at(desk, MODE, above), at(desk, MODE, k)
        logit = given(known, diffusion, t)
        small = exp(-size(mode))
        large = 1.0 / (1.0 + small)
        scale = 1.0 / sqrt(logit.precision + logit.n * large * large * small)
        top = value_and_slope(logit, mode)[0]
        left = _WEIGHT * exp(value_and_slope(logit, mode - _POINT * scale)[0] - top)
        right = _WEIGHT * exp(value_and_slope(logit, mode + _POINT * scale)[0] - top)
        total = 1.0 + left + right
        mean = _POINT * scale * (right - left) / total
        variance = 3.0 * scale * scale * (left + right) / total - mean * mean
        more = larger(inverse * (1.0 - inverse * variance), 1e-6 * inverse)
        centre = t + (mode + mean - t) * inverse / more
        more = where_less(0.0, known.precision + known.n, more, 0.0)
        before = at(desk, PRECISION, above)
        precision = before + more
        pulled = (before * at(desk, CENTRE, above) + more * centre) / precision
        store(desk[CENTRE, above], 0, where_less(0.0, more, pulled, at(desk, CENTRE, above)))
        store(desk[PRECISION, above], 0, precision)
