"""Metropolis-Hastings move: another node becomes the root, and the edges on the way turn round.

From the root r[0], a walk of one to ``MOST_STEPS`` steps goes to a child each time, chosen in
proportion to the data at and below it, and ends at r[k]. That node becomes the root; r[k-1] becomes
its child, and so on up to r[0], which is the last. All nodes keep their data and their children but
for those on the way. A tree found from a bad start often is the right one hung up at the wrong
node, and to turn the edges one after the other leads over trees that are worse than both.

The walk back from r[k] to r[0] has as many steps, so with w the probability of a walk of this
length, it is accepted with

    min(1, p(new) W(new) w(back) / [p(old) W(old) w(there)]),

where W is the weight of :func:`treestick.contract.fit_group` for all nodes of the walk, whose
parameters are drawn anew. A move that would leave an empty leaf is refused.
"""

from typing import Any

import numpy as np

from treestick._jit import compiled
from treestick.contract import DRAWN, GIVEN
from treestick.moves.state import Integers, Sticks
from treestick.moves.structure import hull as on
from treestick.moves.structure.hull import Hull
from treestick.moves.structure.swap import exchange
from treestick.random import Key, Purpose, Stream, exponential, key_for, open_stream, uniform
from treestick.tree.table import NULL

MOST_STEPS = 4


@compiled
def move_reroot(
    key: Key, model: Any, data: Any, sticks: Sticks, hull: Hull, kind: int, first: int, n: int
) -> Integers:
    """Propose ``n`` roots, numbered from ``first``; return how many, and how many were accepted.

    There is one ``kind``. Each costs a pass over all nodes.
    """
    counts = np.zeros(2, dtype=np.int64)
    for number in range(first, first + n):
        counts[0] += 1
        stream = open_stream(key_for(key, Purpose.STRUCTURE, number))
        way = np.zeros(2 + int(uniform(stream) * MOST_STEPS), dtype=np.int64)
        if _walk(stream, hull, way) and not _would_be_empty(hull):
            counts[1] += _reroot(stream, model, sticks, hull, way)
    return counts


@compiled
def _walk(stream: Stream, hull: Hull, way: Integers) -> bool:
    """Write the rows of a walk from the root; say whether there is one of this length."""
    for step in range(1, way.size):
        left = int(uniform(stream) * hull.nodes[way[step - 1]].n_below)
        row = hull.nodes[way[step - 1]].first_child
        while row != NULL:
            left -= hull.nodes[row].n_here + hull.nodes[row].n_below
            if left < 0:
                break
            row = hull.nodes[row].next_sibling
        if row == NULL:
            return False
        way[step] = row
    return True


@compiled
def _log_walk(hull: Hull, way: Integers) -> float:
    """Return the log probability of a walk of this length."""
    total = 0.0
    for step in range(1, way.size):
        above, row = hull.nodes[way[step - 1]], hull.nodes[way[step]]
        total += np.log((row.n_here + row.n_below) / above.n_below)
    return total


@compiled
def _would_be_empty(hull: Hull) -> bool:
    """Say whether the root has nothing but one child."""
    return hull.nodes[0].n_here == 0 and hull.nodes[0].n_children == 1


@compiled
def _reroot(stream: Stream, model: Any, sticks: Sticks, hull: Hull, way: Integers) -> bool:
    thetas = hull.theta[way]
    log_ratio = -on.log_tree(hull, sticks) - _log_walk(hull, way)
    log_ratio -= on.fit_rows(stream, model, hull, way.copy(), GIVEN)
    # Rows stay where they are and contents change, for row 0 is the root: each node of the way
    # goes there in turn, and the row that it had gets the one that was there before.
    for row in way[1:]:
        exchange(hull, 0, row, True)
    back = np.append(way[:1], way[:0:-1])
    log_ratio += on.log_tree(hull, sticks) + _log_walk(hull, back)
    log_ratio += on.fit_rows(stream, model, hull, back.copy(), DRAWN)
    if log_ratio > -exponential(stream):
        return True
    for row in way[:0:-1]:
        exchange(hull, 0, row, True)
    for k in range(way.size):
        hull.theta[way[k]] = thetas[k]
    return False
