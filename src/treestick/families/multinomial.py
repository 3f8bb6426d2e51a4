"""Multinomial atoms: log probabilities of V outcomes, with a symmetric Dirichlet base measure.

Rows of counts are :class:`Counts`. Their totals are given; densities include the multinomial
coefficient, and that of an empty row is 1.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treestick._jit import compiled
from treestick.families import Family, register
from treestick.random import Stream, binomial, log_gamma, uniform

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

LEAST = -1000.0
"""Logarithms of probabilities are not smaller: what is smaller is 0 to any precision."""


class Counts(NamedTuple):
    """Rows of counts, of which only those above 0 are kept.

    Rows may have room for more entries than they have.
    """

    start: Integers
    """Of each row: where its entries begin."""
    n_entries: Integers
    """Of each row: how many there are."""
    outcomes: npt.NDArray[np.int32]
    """Of each entry: the column; ascending within a row."""
    counts: Floats
    total: Integers
    """Of each row: the sum of its counts,"""
    log_coefficient: Floats
    """and the logarithm of its multinomial coefficient."""


class SymmetricDirichlet(NamedTuple):
    """The base measure: the same shape for all outcomes."""

    shape: float
    n_outcomes: int


@compiled
def sizes(base: SymmetricDirichlet) -> tuple[int, int]:
    """Statistics: counts."""
    return base.n_outcomes, base.n_outcomes


@compiled
def draw_atom(stream: Stream, base: SymmetricDirichlet, phi: Floats) -> None:
    """Draw log probabilities."""
    draw_atom_given(stream, base, np.zeros(phi.size), phi)


@compiled
def draw_atom_given(
    stream: Stream, base: SymmetricDirichlet, statistics: Floats, phi: Floats
) -> None:
    """Draw log probabilities given counts."""
    largest = -math.inf
    for w in range(phi.size):
        phi[w] = log_gamma(stream, base.shape + statistics[w])
        largest = max(largest, phi[w])
    total = 0.0
    for w in range(phi.size):
        total += math.exp(phi[w] - largest)
    log_total = largest + math.log(total)
    for w in range(phi.size):
        phi[w] = max(phi[w] - log_total, LEAST)


@compiled
def log_atom(base: SymmetricDirichlet, phi: Floats) -> float:
    """Return the log density of log probabilities."""
    total = math.lgamma(base.shape * phi.size) - phi.size * math.lgamma(base.shape)
    for w in range(phi.size):
        total += base.shape * phi[w]
    return total


@compiled
def log_density(base: SymmetricDirichlet, values: Counts, n: int, phi: Floats) -> float:
    """Return the log probability of a row."""
    total = float(values.log_coefficient[n])
    for e in range(values.start[n], values.start[n] + values.n_entries[n]):
        total += values.counts[e] * phi[values.outcomes[e]]
    return total


@compiled
def log_marginal(base: SymmetricDirichlet, values: Counts, n: int) -> float:
    """Return the log probability of a row under the Dirichlet-multinomial law."""
    total = float(values.log_coefficient[n])
    for e in range(values.start[n], values.start[n] + values.n_entries[n]):
        total += math.lgamma(base.shape + values.counts[e]) - math.lgamma(base.shape)
    sum_of_shapes = base.shape * base.n_outcomes
    return total + math.lgamma(sum_of_shapes) - math.lgamma(sum_of_shapes + values.total[n])


@compiled
def add_to_atom(base: SymmetricDirichlet, values: Counts, n: int, statistics: Floats) -> None:
    """Add the counts of a row."""
    for e in range(values.start[n], values.start[n] + values.n_entries[n]):
        statistics[values.outcomes[e]] += values.counts[e]


@compiled
def simulate_at(
    stream: Stream, base: SymmetricDirichlet, phi: Floats, values: Counts, n: int
) -> None:
    """Overwrite a row."""
    simulate_counts(stream, phi, values, n)


@compiled
def simulate_counts(stream: Stream, log_p: Floats, values: Counts, n: int) -> None:
    """Overwrite row ``n`` by as many tokens drawn with these probabilities as its total says."""
    n_outcomes, left = log_p.size, values.total[n]
    counts, sums, sum_so_far = np.zeros(n_outcomes), np.empty(n_outcomes), 0.0
    for w in range(n_outcomes):
        sum_so_far += math.exp(log_p[w])
        sums[w] = sum_so_far
    if left <= 8 * n_outcomes:
        for _ in range(left):
            token = int(np.searchsorted(sums, uniform(stream) * sum_so_far, side="right"))
            counts[min(token, n_outcomes - 1)] += 1.0
    else:
        for w in range(n_outcomes - 1, -1, -1):
            before = sums[w - 1] if w > 0 else 0.0
            here = binomial(stream, left, 1.0 - before / sums[w]) if sums[w] > 0.0 else 0
            counts[w] = here
            left -= here
    entry, log_coefficient = values.start[n], math.lgamma(values.total[n] + 1.0)
    for w in range(n_outcomes):
        if counts[w] > 0.0:
            values.outcomes[entry] = w
            values.counts[entry] = counts[w]
            log_coefficient -= math.lgamma(counts[w] + 1.0)
            entry += 1
    values.n_entries[n] = entry - values.start[n]
    values.log_coefficient[n] = log_coefficient


register(
    SymmetricDirichlet,
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
