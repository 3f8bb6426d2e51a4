"""Choices that several structural moves make, with their probabilities."""

import math

import numpy as np

from treestick._jit import compiled
from treestick.moves.state import Floats, Integers
from treestick.moves.structure.hull import ALIVE, DATA, Hull
from treestick.random import Stream, uniform

MOST_LAUNCHED = 1000
"""Data that take part in a launch. All are decided on in the end."""


@compiled
def choose_node(stream: Stream, hull: Hull) -> int:
    """Choose any node, or the node of any datum."""
    if uniform(stream) < 0.5:
        return hull.nodes[int(uniform(stream) * hull.counts[ALIVE])].alive
    return choose_by_data(stream, hull)


@compiled
def choose_by_data(stream: Stream, hull: Hull) -> int:
    """Choose a node with probability proportional to the number of its data."""
    left = int(uniform(stream) * hull.counts[DATA])
    k = 0
    while True:
        row = hull.nodes[k].alive
        left -= hull.nodes[row].n_here
        if left < 0:
            return row
        k += 1


@compiled
def log_choice_of_node(hull: Hull, row: int) -> float:
    """Return the log probability that :func:`choose_node` has chosen ``row``."""
    return math.log(0.5 / hull.counts[ALIVE] + 0.5 * hull.nodes[row].n_here / hull.counts[DATA])


@compiled
def choose_below_root(stream: Stream, hull: Hull) -> int:
    """Choose any node but the root; there must be one."""
    place = hull.nodes[0].place
    while place == hull.nodes[0].place:
        place = int(uniform(stream) * hull.counts[ALIVE])
    return hull.nodes[place].alive


@compiled
def draw_index(stream: Stream, log_weights: Floats) -> int:
    """Draw an index with probability proportional to exp(log_weights)."""
    largest = log_weights.max()
    total = 0.0
    for k in range(log_weights.size):
        total += math.exp(log_weights[k] - largest)
    dart = uniform(stream) * total
    for k in range(log_weights.size):
        dart -= math.exp(log_weights[k] - largest)
        if dart < 0.0:
            return k
    return int(np.argmax(log_weights))  # by rounding


@compiled
def log_sum(log_values: Floats) -> float:
    """Return the log of the sum of exp(log_values)."""
    largest = log_values.max()
    total = 0.0
    for k in range(log_values.size):
        total += math.exp(log_values[k] - largest)
    return largest + math.log(total)


@compiled
def least_of_best(values: Floats, few: int) -> float:
    """Return the least of the ``few`` largest values; np.partition takes seconds to compile."""
    largest = np.full(min(few, values.size), -math.inf)
    for value in values:
        if value > largest[0]:
            k = 0
            while k + 1 < largest.size and value > largest[k + 1]:
                largest[k] = largest[k + 1]
                k += 1
            largest[k] = value
    return largest[0]


@compiled
def pick(stream: Stream, n_rows: int) -> Integers:
    """Choose places among the data: those that take part in a launch, and an anchor at the end."""
    if n_rows == 0:
        return np.empty(0, dtype=np.int64)
    n_launched = min(n_rows, MOST_LAUNCHED)
    places = np.empty(n_launched + 1, dtype=np.int64)
    for k in range(n_launched):
        places[k] = k if n_rows <= MOST_LAUNCHED else int(uniform(stream) * n_rows)
    places[n_launched] = int(uniform(stream) * n_rows)
    return places
