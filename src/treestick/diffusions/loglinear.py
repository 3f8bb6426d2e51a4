"""Draws from a density in one dimension whose logarithm is a polygon.

A log density is known at some places, with its slope there: a curve. Between two places it is taken
as the cubic that has these values and slopes; the cubic is cut into pieces, and each piece replaced
by its chord; beyond the first and the last place it goes on straight. The polygon that comes of it
is a proposal: it is drawn from exactly, by the inverse of its distribution function, and its
density is known exactly, constant included. How near it comes to the curve only decides how good
a proposal it is.

Rule 1. A polygon is a function of the curve alone.
Rule 2. It lies between the curve's chords and tangents, as a concave curve does, whatever the cubic
says. The curve should rise at its first place and fall at its last; tails fall in any case.
Rule 3. Nothing is allocated but by :func:`make_curve` and :func:`make_polygon`, whose arrays serve
for any number of densities. Each is one array with named rows: tuples of arrays would cost a third
of the time, to be handed on and counted.
"""

import math

import numpy as np
import numpy.typing as npt

from treestick._jit import compiled
from treestick.random import Stream, uniform_open

Floats = npt.NDArray[np.float64]

PIECES = 4
"""Chords between two places of the curve."""
FLAT = 1e-3
"""A chord that rises less has its area computed by a series, to 1e-14."""
BELOW_ONE = 1.0 - 2.0**-53


PLACES, VALUES, SLOPES = 0, 1, 2
"""Rows of a curve: places in increasing order; the log density there, up to a constant; its slopes.
The place in the middle should be about the mode."""

CORNERS, LOGS, HEIGHTS, AREAS, TAILS = 0, 1, 2, 3, 4
"""Rows of a polygon: places of its corners; the log density there, up to a constant, about 0 at the
mode; its exponential; the area to the left of each corner, tail included, and last the whole area;
how steeply the logarithm falls to the left of all corners, and (in the second place) to the right.
"""


@compiled
def make_curve(n_places: int) -> Floats:
    """Return a curve to be filled."""
    return np.empty((3, n_places))


@compiled
def make_polygon(n_places: int) -> Floats:
    """Return a polygon to be filled from a curve with so many places."""
    return np.empty((5, PIECES * (n_places - 1) + 2))


@compiled
def fill_polygon(curve: Floats, polygon: Floats) -> None:
    """Fill the polygon from the curve."""
    last = curve.shape[1] - 1
    top = curve[VALUES, last // 2]
    corner = 0
    for j in range(last):
        start, width = curve[PLACES, j], curve[PLACES, j + 1] - curve[PLACES, j]
        left, right = curve[VALUES, j] - top, curve[VALUES, j + 1] - top
        first, second = width * curve[SLOPES, j], width * curve[SLOPES, j + 1]
        rise = right - left
        square, cube = 3.0 * rise - 2.0 * first - second, first + second - 2.0 * rise
        for piece in range(PIECES):
            u = piece * (1.0 / PIECES)
            cubic = left + u * (first + u * (square + u * cube))
            tangents = min(left + u * first, right + (u - 1.0) * second)
            polygon[CORNERS, corner] = start + u * width
            polygon[LOGS, corner] = max(min(cubic, tangents), left + u * rise)
            corner += 1
    polygon[CORNERS, corner] = curve[PLACES, last]
    polygon[LOGS, corner] = curve[VALUES, last] - top
    slowest = 1.0 / (curve[PLACES, last] - curve[PLACES, 0])
    polygon[TAILS, 0] = max(curve[SLOPES, 0], slowest)
    polygon[TAILS, 1] = max(-curve[SLOPES, last], slowest)
    _fill_areas(polygon)


@compiled
def _fill_areas(polygon: Floats) -> None:
    """Fill heights and areas: of a chord, (difference of heights) / (rise of logs) * width."""
    last = polygon.shape[1] - 2
    for k in range(last + 1):
        polygon[HEIGHTS, k] = math.exp(polygon[LOGS, k])
    for k in range(last):
        here, there = polygon[HEIGHTS, k], polygon[HEIGHTS, k + 1]
        rise = polygon[LOGS, k + 1] - polygon[LOGS, k]
        series = here * (1.0 + rise * (0.5 + rise * (1.0 / 6.0 + rise * (1.0 / 24.0))))
        mean = (there - here) / rise if abs(rise) > FLAT else series
        polygon[AREAS, k + 1] = (polygon[CORNERS, k + 1] - polygon[CORNERS, k]) * mean
    polygon[AREAS, 0] = polygon[HEIGHTS, 0] / polygon[TAILS, 0]
    polygon[AREAS, last + 1] = polygon[HEIGHTS, last] / polygon[TAILS, 1]
    for k in range(last + 1):
        polygon[AREAS, k + 1] += polygon[AREAS, k]


@compiled
def draw(stream: Stream, polygon: Floats) -> tuple[float, float]:
    """Return a draw, and the logarithm of the density there. Takes one word."""
    last = polygon.shape[1] - 2
    level = uniform_open(stream) * polygon[AREAS, last + 1]
    cell = 0
    for k in range(last + 1):  # no early exit: the processor could not foresee it
        cell += polygon[AREAS, k] <= level
    before = polygon[AREAS, cell - 1] if cell > 0 else 0.0
    share = min((level - before) / (polygon[AREAS, cell] - before), BELOW_ONE)
    if cell == 0:
        fall = math.log1p(-share)
        x = polygon[CORNERS, 0] + fall / polygon[TAILS, 0]
        log_height = polygon[LOGS, 0] + fall
    elif cell == last + 1:
        fall = math.log1p(-share)
        x = polygon[CORNERS, last] - fall / polygon[TAILS, 1]
        log_height = polygon[LOGS, last] + fall
    else:
        rise = polygon[LOGS, cell] - polygon[LOGS, cell - 1]
        if rise != 0.0:
            share = math.log1p(share * math.expm1(rise)) / rise
        width = polygon[CORNERS, cell] - polygon[CORNERS, cell - 1]
        x = polygon[CORNERS, cell - 1] + share * width
        log_height = polygon[LOGS, cell - 1] + share * rise
    return x, log_height - math.log(polygon[AREAS, last + 1])


@compiled
def log_density(polygon: Floats, x: float) -> float:
    """Return the logarithm of the density at ``x``."""
    last = polygon.shape[1] - 2
    if x < polygon[CORNERS, 0]:
        log_height = polygon[LOGS, 0] + (x - polygon[CORNERS, 0]) * polygon[TAILS, 0]
    elif x >= polygon[CORNERS, last]:
        log_height = polygon[LOGS, last] - (x - polygon[CORNERS, last]) * polygon[TAILS, 1]
    else:
        k = -1
        for corner in range(last):
            k += polygon[CORNERS, corner] <= x
        width = polygon[CORNERS, k + 1] - polygon[CORNERS, k]
        rise = polygon[LOGS, k + 1] - polygon[LOGS, k]
        log_height = polygon[LOGS, k] + (x - polygon[CORNERS, k]) / width * rise
    return log_height - math.log(polygon[AREAS, last + 1])
