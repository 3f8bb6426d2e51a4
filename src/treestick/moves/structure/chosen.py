"""Which single data are moved: half of them any, half any datum of any node that has some.

See rule 3 of :mod:`treestick.moves.structure.singles`, which has the probability of this.
"""

from typing import Any

import numpy as np

from treestick._jit import compiled
from treestick.moves.state import Integers
from treestick.moves.structure.hull import ALIVE, DATA, Hull
from treestick.random import Key, Purpose, key_for, open_stream, uniform
from treestick.tree.table import NULL

N_WORDS = 3
"""Random numbers that a choice takes."""


@compiled
def choose_singles(key: Key, first: int, n: int, hull: Hull) -> Integers:
    """Choose ``n`` data, each by a stream of its own, which goes on in :func:`move_chosen`.

    Return of each its label and its place among the data with this, in ascending order; or NULL,
    and its number.
    """
    chosen = np.empty((n, 2), dtype=np.int64)
    some, n_some = np.empty(hull.counts[ALIVE], dtype=np.int64), 0
    for k in range(hull.counts[ALIVE]):
        if hull.nodes[hull.nodes[k].alive].n_here > 0:
            some[n_some] = hull.nodes[k].alive
            n_some += 1
    for k in range(n):
        stream = open_stream(key_for(key, Purpose.STRUCTURE, first + k))
        by_node, which, place = uniform(stream) < 0.5, uniform(stream), uniform(stream)
        if by_node:
            row = some[int(which * n_some)]
            chosen[k] = hull.nodes[row].label, int(place * hull.nodes[row].n_here)
        else:
            chosen[k] = NULL, int(which * hull.counts[DATA])
    return chosen


@compiled
def find_chosen(labels: Any, n_labels: int, chosen: Integers) -> Integers:
    """Return the numbers of data that were chosen, given the labels of all; one pass over these."""
    n = chosen.shape[0]
    numbers = np.empty(n, dtype=np.int64)
    last, before = np.full(n_labels, NULL), np.full(n, NULL)  # of each label: who waits for it
    for k in range(n):
        label, place = chosen[k]
        if label == NULL:
            numbers[k] = place
        else:
            before[k] = last[label]
            last[label] = k
    passed = np.zeros(n_labels, dtype=np.int64)
    for number in range(labels.size):
        label = labels[number]
        k = last[label]
        while k != NULL:
            if chosen[k, 1] == passed[label]:
                numbers[k] = number
            k = before[k]
        passed[label] += 1
    return numbers
