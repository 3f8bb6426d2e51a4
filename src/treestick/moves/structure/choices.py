"""Choices that several structural moves make, with their probabilities."""

import math

import numpy as np

from treestick._jit import compiled
from treestick.moves.state import Floats
from treestick.moves.structure.hull import ALIVE, Hull
from treestick.random import Stream, uniform


@compiled
def choose_node(stream: Stream, hull: Hull) -> int:
    """Choose any node, or the node of any datum."""
    if uniform(stream) < 0.5:
        return hull.nodes[int(uniform(stream) * hull.counts[ALIVE])].alive
    return hull.data[int(uniform(stream) * hull.data.size)].node


@compiled
def log_choice_of_node(hull: Hull, row: int) -> float:
    """Return the log probability that :func:`choose_node` has chosen ``row``."""
    return math.log(0.5 / hull.counts[ALIVE] + 0.5 * hull.nodes[row].n_here / hull.data.size)


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
