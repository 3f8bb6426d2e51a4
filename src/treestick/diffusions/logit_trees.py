"""Logits of several nodes, in one dimension: the mode of all together, and messages to the top.

Each node k has a :class:`~treestick.diffusions.logistic.Logit` of its own, and a node whose parent
is among them has t[k] ~ N(t[parent], diffusion). Nodes come with parents before children; ``over``
is the index of the parent, or NULL. They stand in the columns of one array, the desk, whose rows
are named below; a row each is faster than an array each.
"""

import math

import numpy as np
import numpy.typing as npt

from treestick._jit import compiled
from treestick.diffusions.logistic import Logit, first_guess, given, value_and_slope
from treestick.tree.table import NULL

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

CENTRE, PRECISION, ONES, N = 0, 1, 2, 3
"""What is known of a logit beside its parent."""
MODE, BEND, SLOPE = 4, 5, 6
"""Of the mode of all: the logit; minus its second derivative, with the nodes below eliminated; the
first derivative, likewise."""
N_ROWS = 7

_NEAR = 0.1
"""Newton's steps end when all are shorter than this, in standard deviations."""
_LONGEST = 2.0
_MOST_STEPS = 30
_POINT = math.sqrt(3.0)
_WEIGHT = 0.25 * math.exp(1.5)
"""Gauss and Hermite's rule of three points, relative to the middle one."""


@compiled
def find_modes(over: Integers, diffusion: float, desk: Floats) -> None:
    """Fill ``MODE`` by Newton's steps on all logits at once, and ``BEND`` near it.

    The tree is eliminated from the leaves: a node with second derivative -b adds 1/diffusion -
    1/(diffusion**2 b) to its parent's. Where a step is long it is cut, for curves of data are flat
    far from where they bend; steps that do not end cost a worse proposal, nothing else.
    """
    n_nodes = over.size
    inverse = 1.0 / diffusion
    for k in range(n_nodes):
        logit = Logit(desk[CENTRE, k], desk[PRECISION, k], desk[ONES, k], desk[N, k])
        if over[k] != NULL:
            logit = given(logit, diffusion, desk[MODE, over[k]])
        desk[MODE, k] = first_guess(logit)
    for _ in range(_MOST_STEPS):
        for k in range(n_nodes):
            t = desk[MODE, k]
            small = math.exp(-abs(t))
            large = 1.0 / (1.0 + small)
            share = large if t > 0.0 else small * large
            desk[SLOPE, k] = (
                desk[ONES, k] - desk[N, k] * share - desk[PRECISION, k] * (t - desk[CENTRE, k])
            )
            desk[BEND, k] = desk[PRECISION, k] + desk[N, k] * large * large * small
        for k in range(n_nodes - 1, -1, -1):
            above = over[k]
            if above != NULL:
                step = (desk[MODE, k] - desk[MODE, above]) * inverse
                desk[SLOPE, k] -= step
                desk[BEND, k] += inverse
                follows = inverse / desk[BEND, k]
                desk[SLOPE, above] += step + follows * desk[SLOPE, k]
                desk[BEND, above] += inverse * (1.0 - follows)
        longest = 0.0
        for k in range(n_nodes):
            # SLOPE becomes the step of each node, from the top down.
            step = desk[SLOPE, k] / desk[BEND, k]
            if over[k] != NULL:
                step += inverse / desk[BEND, k] * desk[SLOPE, over[k]]
            step = min(max(step, -_LONGEST), _LONGEST)
            desk[SLOPE, k] = step
            desk[MODE, k] += step
            longest = max(longest, step * step * desk[BEND, k])
        if longest < _NEAR * _NEAR:
            break


@compiled
def pass_up(over: Integers, diffusion: float, desk: Floats) -> None:
    """Let every logit below another say what it knows: add it to ``CENTRE`` and ``PRECISION``.

    Given that the parent is at its mode t, the child v has a mean and a variance, by Gauss and
    Hermite's rule of three points about its own mode. These are the first two derivatives of the
    message m(t) = log INT N(v; t, diffusion) p(v) dv,

        m'(t) = (E[v] - t) / diffusion,    -m''(t) = 1 / diffusion - Var[v] / diffusion**2,

    so m is taken as the normal law that has them.
    """
    inverse = 1.0 / diffusion
    for k in range(over.size - 1, -1, -1):
        if over[k] == NULL or desk[PRECISION, k] + desk[N, k] == 0.0:
            continue
        t, mode = desk[MODE, over[k]], desk[MODE, k]
        logit = given(
            Logit(desk[CENTRE, k], desk[PRECISION, k], desk[ONES, k], desk[N, k]), diffusion, t
        )
        small = math.exp(-abs(mode))
        large = 1.0 / (1.0 + small)
        scale = 1.0 / math.sqrt(logit.precision + logit.n * large * large * small)
        top = value_and_slope(logit, mode)[0]
        left = _WEIGHT * math.exp(value_and_slope(logit, mode - _POINT * scale)[0] - top)
        right = _WEIGHT * math.exp(value_and_slope(logit, mode + _POINT * scale)[0] - top)
        total = 1.0 + left + right
        mean = _POINT * scale * (right - left) / total
        variance = 3.0 * scale * scale * (left + right) / total - mean * mean
        more = max(inverse * (1.0 - inverse * variance), 1e-6 * inverse)
        above = over[k]
        precision = desk[PRECISION, above] + more
        centre = t + (mode + mean - t) * inverse / more
        desk[CENTRE, above] = (
            desk[PRECISION, above] * desk[CENTRE, above] + more * centre
        ) / precision
        desk[PRECISION, above] = precision
