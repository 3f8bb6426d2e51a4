"""Which single data are moved: half of them any, half any datum of any node that has some.

See rule 3 of :mod:`treestick.moves.structure.singles`, which has the probability of this.
"""

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

    Return of each the row of its node and its place among the data of this, in ascending order; or
    NULL, and its number.
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
            chosen[k] = row, int(place * hull.nodes[row].n_here)
        else:
            chosen[k] = NULL, int(which * hull.counts[DATA])
    return chosen


@compiled
def find_chosen(hull: Hull, chosen: Integers) -> Integers:
    """Return the numbers of data that were chosen."""
    n = chosen.shape[0]
    numbers = np.empty(n, dtype=np.int64)
    last, before = np.full(hull.nodes.size, NULL), np.full(n, NULL)  # of each label: who waits
    for k in range(n):
        if chosen[k, 0] == NULL:
            numbers[k] = chosen[k, 1]
        else:
            label = hull.nodes[chosen[k, 0]].label
            before[k] = last[label]
            last[label] = k
    passed = np.zeros(hull.nodes.size, dtype=np.int64)
    for number in range(hull.labels.size):
        label = hull.labels[number]
        k = last[label]
        while k != NULL:
            if chosen[k, 1] == passed[label]:
                numbers[k] = number
            k = before[k]
        passed[label] += 1
    return numbers
