"""Draws from a density in one dimension whose logarithm is a polygon: eight densities at once.

A log density is known at some places, with its slope there: a curve. Between two places it is taken
as the cubic that has these values and slopes; the cubic is cut into pieces, and each piece replaced
by its chord; beyond the first and the last place it goes on straight. The polygon that comes of it
is a proposal: it is drawn from exactly, by the inverse of its distribution function, and its
density is known exactly, constant included. How near it comes to the curve only decides how good
a proposal it is.

Rule 1. A polygon is a function of the curve alone; each of the eight is by itself.
Rule 2. It lies between the curve's chords and tangents, as a concave curve does, whatever the cubic
says. The curve should rise at its first place and fall at its last; tails fall in any case.
Rule 3. Nothing is allocated but by :func:`make_curve` and :func:`make_polygon`, whose arrays serve
for any number of densities. Each is one array with named rows, and a pack in every place.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from treestick._jit import compiled
from treestick.packs import (
    WIDTH,
    exp,
    fill,
    larger,
    load,
    log,
    size,
    smaller,
    store,
    where_less,
)
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

CORNERS, LOGS, AREAS, TAILS, DRAWS = 0, 1, 2, 3, 4
"""Rows of a polygon: places of its corners; the log density there, up to a constant, about 0 at the
mode; the area to the left of each corner, tail included, and last the whole area; how steeply the
logarithm falls to the left of all corners, and (in the second place) to the right; room for a draw.
"""


@compiled
def make_curve(n_places: int) -> Floats:
    """Return curves to be filled."""
    return np.empty((3, n_places, WIDTH))


@compiled
def make_polygon(n_places: int) -> Floats:
    """Return polygons to be filled from curves with so many places."""
    return np.empty((5, PIECES * (n_places - 1) + 2, WIDTH))


@compiled
def _get(array: Floats, row: int, k: int) -> Any:
    return load(array[row, k], 0, 0.0)


@compiled
def fill_polygon(curve: Floats, polygon: Floats) -> None:
    """Fill the polygons from the curves."""
    last = curve.shape[1] - 1
    top = _get(curve, VALUES, last // 2)
    corner = 0
    for j in range(last):
        start = _get(curve, PLACES, j)
        width = _get(curve, PLACES, j + 1) - start
        left, right = _get(curve, VALUES, j) - top, _get(curve, VALUES, j + 1) - top
        first, second = width * _get(curve, SLOPES, j), width * _get(curve, SLOPES, j + 1)
        rise = right - left
        square, cube = 3.0 * rise - 2.0 * first - second, first + second - 2.0 * rise
        for piece in range(PIECES):
            u = piece * (1.0 / PIECES)
            cubic = left + u * (first + u * (square + u * cube))
            tangents = smaller(left + u * first, right + (u - 1.0) * second)
            store(polygon[CORNERS, corner], 0, start + u * width)
            store(polygon[LOGS, corner], 0, larger(smaller(cubic, tangents), left + u * rise))
            corner += 1
    store(polygon[CORNERS, corner], 0, _get(curve, PLACES, last))
    store(polygon[LOGS, corner], 0, _get(curve, VALUES, last) - top)
    slowest = 1.0 / (_get(curve, PLACES, last) - _get(curve, PLACES, 0))
    store(polygon[TAILS, 0], 0, larger(_get(curve, SLOPES, 0), slowest))
    store(polygon[TAILS, 1], 0, larger(-_get(curve, SLOPES, last), slowest))
    _fill_areas(polygon)


@compiled
def _fill_areas(polygon: Floats) -> None:
    """Fill areas: of a chord, (difference of heights) / (rise of logs) * width."""
    last = polygon.shape[1] - 2
    here = exp(_get(polygon, LOGS, 0))
    area = here / _get(polygon, TAILS, 0)
    store(polygon[AREAS, 0], 0, area)
    for k in range(last):
        there = exp(_get(polygon, LOGS, k + 1))
        rise = _get(polygon, LOGS, k + 1) - _get(polygon, LOGS, k)
        series = here * (1.0 + rise * (0.5 + rise * (1.0 / 6.0 + rise * (1.0 / 24.0))))
        is_flat = where_less(FLAT, size(rise), 0.0, 1.0)
        mean = where_less(0.0, is_flat, series, (there - here) / (rise + is_flat))
        area = area + (_get(polygon, CORNERS, k + 1) - _get(polygon, CORNERS, k)) * mean
        store(polygon[AREAS, k + 1], 0, area)
        here = there
    store(polygon[AREAS, last + 1], 0, area + here / _get(polygon, TAILS, 1))


@compiled
def draw(stream: Stream, polygon: Floats) -> tuple[Any, Any]:
    """Return a draw of each, and the logarithm of the density there. Takes a word for each."""
    last = polygon.shape[1] - 2
    levels, cells, heights = polygon[DRAWS, 0], polygon[DRAWS, 1], polygon[DRAWS, 2]
    for lane in range(WIDTH):
        levels[lane] = uniform_open(stream)
    area = _get(polygon, AREAS, last + 1)
    level = load(levels, 0, 0.0) * area
    store(levels, 0, level)
    cell = fill(0.0)
    for k in range(last + 1):  # no early exit: the processor could not foresee it
        cell = cell + where_less(level, _get(polygon, AREAS, k), 0.0, 1.0)
    store(cells, 0, cell)
    for lane in range(WIDTH):
        levels[lane], heights[lane] = _draw_in_cell(polygon, lane, levels[lane], int(cells[lane]))
    return load(levels, 0, 0.0), load(heights, 0, 0.0) - log(area)


@compiled
def _draw_in_cell(polygon: Floats, lane: int, level: float, cell: int) -> tuple[float, float]:
    """Return where the area to the left is ``level``, and the log height there."""
    last = polygon.shape[1] - 2
    before = polygon[AREAS, cell - 1, lane] if cell > 0 else 0.0
    share = min((level - before) / (polygon[AREAS, cell, lane] - before), BELOW_ONE)
    if cell == 0:
        fall = math.log1p(-share)
        x = polygon[CORNERS, 0, lane] + fall / polygon[TAILS, 0, lane]
        return x, polygon[LOGS, 0, lane] + fall
    if cell == last + 1:
        fall = math.log1p(-share)
        x = polygon[CORNERS, last, lane] - fall / polygon[TAILS, 1, lane]
        return x, polygon[LOGS, last, lane] + fall
    rise = polygon[LOGS, cell, lane] - polygon[LOGS, cell - 1, lane]
    if rise != 0.0:
        share = math.log1p(share * math.expm1(rise)) / rise
    width = polygon[CORNERS, cell, lane] - polygon[CORNERS, cell - 1, lane]
    x = polygon[CORNERS, cell - 1, lane] + share * width
    return x, polygon[LOGS, cell - 1, lane] + share * rise


@compiled
def log_density(polygon: Floats, x: Any) -> Any:
    """Return the logarithm of the density of each at ``x``."""
    last = polygon.shape[1] - 2
    corner, height = _get(polygon, CORNERS, 0), _get(polygon, LOGS, 0)
    log_height = height + (x - corner) * _get(polygon, TAILS, 0)
    for k in range(last):
        there, higher = _get(polygon, CORNERS, k + 1), _get(polygon, LOGS, k + 1)
        chord = height + (x - corner) / (there - corner) * (higher - height)
        log_height = where_less(x, corner, log_height, chord)
        corner, height = there, higher
    beyond = height - (x - corner) * _get(polygon, TAILS, 1)
    log_height = where_less(x, corner, log_height, beyond)
    return log_height - log(_get(polygon, AREAS, last + 1))
