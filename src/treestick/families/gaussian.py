"""Gaussian atoms: a mean and a variance for each dimension, independent of each other.

::

    precision ~ Gamma(shape, rate)           (variance: inverse gamma)
    mean      ~ N(centre, 1 / (strength * precision))
    x         ~ N(mean, 1 / precision)

An atom holds means, precisions, and the sum of log(precision / 2 pi) / 2.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treestick._jit import compiled
from treestick.families import Family, register
from treestick.random import Stream, gamma, normal

Floats = npt.NDArray[np.float64]

LOG_2PI = math.log(2.0 * math.pi)


class NormalGamma(NamedTuple):
    """Parameters of the base measure; see the module."""

    centre: Floats
    strength: Floats
    shape: float
    rate: Floats
    log_scale: float
    """The sum of the logarithms of the units that data are measured in."""


@compiled
def sizes(base: NormalGamma) -> tuple[int, int]:
    """Statistics: the number of data, their sums, and the sums of their squares."""
    n_dimensions = base.centre.size
    return 2 * n_dimensions + 1, 2 * n_dimensions + 1


@compiled
def draw_atom(stream: Stream, base: NormalGamma, phi: Floats) -> None:
    """Draw precisions and means."""
    for d in range(base.centre.size):
        _draw(stream, base.centre[d], base.strength[d], base.shape, base.rate[d], d, phi)
    _set_constant(phi)


@compiled
def _draw(
    stream: Stream, centre: float, count: float, shape: float, rate: float, d: int, phi: Floats
) -> None:
    n_dimensions = (phi.size - 1) // 2
    precision = gamma(stream, shape) / rate
    phi[d] = centre + normal(stream) / math.sqrt(count * precision)
    phi[n_dimensions + d] = precision


@compiled
def _set_constant(phi: Floats) -> None:
    n_dimensions = (phi.size - 1) // 2
    total = 0.0
    for d in range(n_dimensions):
        total += math.log(phi[n_dimensions + d])
    phi[2 * n_dimensions] = 0.5 * (total - n_dimensions * LOG_2PI)


@compiled
def log_atom(base: NormalGamma, phi: Floats) -> float:
    """Return the log density of means and precisions."""
    n_dimensions, total = base.centre.size, 0.0
    for d in range(n_dimensions):
        precision, rate = phi[n_dimensions + d], base.rate[d]
        total += base.shape * math.log(rate) - math.lgamma(base.shape)
        total += (base.shape - 1.0) * math.log(precision) - rate * precision
        distance = phi[d] - base.centre[d]
        total += 0.5 * (math.log(base.strength[d] * precision) - LOG_2PI)
        total -= 0.5 * base.strength[d] * precision * distance * distance
    return total


@compiled
def log_density(base: NormalGamma, values: Floats, n: int, phi: Floats) -> float:
    """Return the log density of a point."""
    n_dimensions = base.centre.size
    total = 0.0
    for d in range(n_dimensions):
        distance = values[n, d] - phi[d]
        total += distance * distance * phi[n_dimensions + d]
    return float(phi[2 * n_dimensions]) - 0.5 * total - base.log_scale


@compiled
def log_marginal(base: NormalGamma, values: Floats, n: int) -> float:
    """Return the log density of a product of Student's t."""
    total = base.centre.size * (
        math.lgamma(base.shape + 0.5) - math.lgamma(base.shape) - 0.5 * LOG_2PI
    )
    for d in range(base.centre.size):
        distance = values[n, d] - base.centre[d]
        rate, shrinkage = base.rate[d], base.strength[d] / (base.strength[d] + 1.0)
        more = 0.5 * shrinkage * distance * distance
        total += 0.5 * math.log(shrinkage)
        total += base.shape * math.log(rate) - (base.shape + 0.5) * math.log(rate + more)
    return total - base.log_scale


@compiled
def add_to_atom(base: NormalGamma, values: Floats, n: int, statistics: Floats) -> None:
    """Add a point, measured from the centre."""
    n_dimensions = base.centre.size
    statistics[0] += 1.0
    for d in range(n_dimensions):
        x = values[n, d] - base.centre[d]
        statistics[1 + d] += x
        statistics[1 + n_dimensions + d] += x * x


@compiled
def draw_atom_given(stream: Stream, base: NormalGamma, statistics: Floats, phi: Floats) -> None:
    """Draw precisions and means of an atom with data: their law is of the same form as H."""
    n_dimensions = base.centre.size
    n = statistics[0]
    for d in range(n_dimensions):
        count = base.strength[d] + n
        shift = statistics[1 + d] / count
        more = 0.5 * (statistics[1 + n_dimensions + d] - count * shift * shift)
        rate = base.rate[d] + max(more, 0.0)  # rounding
        _draw(stream, base.centre[d] + shift, count, base.shape + 0.5 * n, rate, d, phi)
    _set_constant(phi)


@compiled
def simulate_at(stream: Stream, base: NormalGamma, phi: Floats, values: Floats, n: int) -> None:
    """Overwrite a point."""
    n_dimensions = base.centre.size
    for d in range(n_dimensions):
        values[n, d] = phi[d] + normal(stream) / math.sqrt(phi[n_dimensions + d])


register(
    NormalGamma,
    Family(
        sizes,
        draw_atom,
        log_atom,
        log_density,
        log_marginal,
        add_to_atom,
        draw_atom_given,
        simulate_at,
    ),
)
