"""Metropolis-Hastings move: a node and its parent change places.

B is a child of A. Afterwards B has A's place and A is a child of B. Each keeps its data; the other
children of A and those of B either stay with their node or with their place, as a coin says. Both
are their own inverse, and B is chosen uniformly among all nodes but the root, of which there are as
many afterwards. Parameters of both are drawn anew, with the weights W of
:func:`treestick.contract.fit_pair`, so it is accepted with

    min(1, p(new) W(new) / [p(old) W(old)]).

A move that would leave an empty leaf is refused.
"""

from typing import Any

import numpy as np

from treestick import contract
from treestick._jit import compiled
from treestick.moves.state import Integers, Sticks
from treestick.moves.structure import hull as on
from treestick.moves.structure.hull import Hull
from treestick.random import Key, Purpose, Stream, exponential, key_for, open_stream, uniform
from treestick.tree.table import NULL


@compiled
def move_swap(
    key: Key, model: Any, data: Any, sticks: Sticks, hull: Hull, kind: int, first: int, n: int
) -> Integers:
    """Propose ``n`` swaps, numbered from ``first``; return how many, and how many were accepted.

    There is one ``kind``.
    """
    counts = np.zeros(2, dtype=np.int64)
    n_nodes = hull.n_alive[0]
    for number in range(first, first + n):
        counts[0] += 1
        if n_nodes == 1:
            continue
        stream = open_stream(key_for(key, Purpose.STRUCTURE, number))
        place = hull.place[0]
        while place == hull.place[0]:
            place = int(uniform(stream) * n_nodes)
        counts[1] += _swap(stream, model, sticks, hull, hull.alive[place])
    return counts


@compiled
def _swap(stream: Stream, model: Any, sticks: Sticks, hull: Hull, b: int) -> bool:
    a = hull.parent[b]
    with_children = uniform(stream) < 0.5
    # Rows stay where they are and contents change, for row 0 is the root.
    n_children_below = hull.n_children[a] - 1 if with_children else hull.n_children[b]
    if hull.n_here[a] == 0 and n_children_below == 0:
        return False
    before = on.log_tree(hull, sticks) + _fit(stream, model, hull, a, b, False)
    theta_a, theta_b = hull.theta[a].copy(), hull.theta[b].copy()
    _exchange(hull, a, b, with_children)
    after = on.log_tree(hull, sticks) + _fit(stream, model, hull, a, b, True)
    if after - before > -exponential(stream):
        return True
    _exchange(hull, a, b, with_children)
    hull.theta[a] = theta_a
    hull.theta[b] = theta_b
    return False


@compiled
def _fit(stream: Stream, model: Any, hull: Hull, a: int, b: int, is_drawn: bool) -> float:
    return contract.fit_pair(
        stream, model, on.above(hull, a), on.below(hull, a, b), on.below(hull, b, NULL),
        hull.n_here[a], hull.statistics[a], hull.n_here[b], hull.statistics[b],
        hull.theta[a], hull.theta[b], is_drawn,
    )  # fmt: skip


@compiled
def _exchange(hull: Hull, a: int, b: int, with_children: bool) -> None:
    """Exchange data, statistics and names of two rows, and perhaps their other children."""
    hull.first_datum[a], hull.first_datum[b] = hull.first_datum[b], hull.first_datum[a]
    hull.entity[a], hull.entity[b] = hull.entity[b], hull.entity[a]
    for d in range(hull.statistics.shape[1]):
        kept = hull.statistics[a, d]
        hull.statistics[a, d] = hull.statistics[b, d]
        hull.statistics[b, d] = kept
    for row in (a, b):
        n = hull.first_datum[row]
        while n != NULL:
            hull.node[n] = row
            n = hull.next_datum[n]
    change = hull.n_here[a] - hull.n_here[b]
    hull.n_here[a], hull.n_here[b] = hull.n_here[b], hull.n_here[a]
    hull.n_below[a] += change
    if with_children:
        of_a, of_b = on.children_of(hull, a), on.children_of(hull, b)
        for child in of_a:
            if child != b:
                on.take_off(hull, child)
                on.hang(hull, child, b)
        for child in of_b:
            on.take_off(hull, child)
            on.hang(hull, child, a)
