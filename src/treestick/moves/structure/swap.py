"""Metropolis-Hastings move: a node and its parent change places.

B is a child of A. Afterwards B has A's place and A is a child of B. Each keeps its data; the other
children of A and those of B either stay with their node or with their place, as a coin says. Both
are their own inverse, and B is chosen uniformly among all nodes but the root, of which there are as
many afterwards. Parameters of both are drawn anew, with the weights W of
:func:`treestick.contract.fit_group`, so it is accepted with

    min(1, p(new) W(new) / [p(old) W(old)]).

A move that would leave an empty leaf is refused.
"""

from typing import Any

import numpy as np

from treestick._jit import compiled
from treestick.contract import DRAWN, GIVEN
from treestick.moves.state import Integers, Sticks
from treestick.moves.structure import hull as on
from treestick.moves.structure.choices import choose_below_root
from treestick.moves.structure.hull import ALIVE, Hull
from treestick.random import Key, Purpose, Stream, exponential, key_for, open_stream, uniform


@compiled
def move_swap(
    key: Key, model: Any, data: Any, sticks: Sticks, hull: Hull, kind: int, first: int, n: int
) -> Integers:
    """Propose ``n`` swaps, numbered from ``first``; return how many, and how many were accepted.

    There is one ``kind``.
    """
    counts = np.zeros(2, dtype=np.int64)
    n_nodes = hull.counts[ALIVE]
    for number in range(first, first + n):
        counts[0] += 1
        if n_nodes == 1:
            continue
        stream = open_stream(key_for(key, Purpose.STRUCTURE, number))
        counts[1] += _swap(stream, model, sticks, hull, choose_below_root(stream, hull))
    return counts


@compiled
def _swap(stream: Stream, model: Any, sticks: Sticks, hull: Hull, b: int) -> bool:
    a = hull.nodes[b].parent
    with_children = uniform(stream) < 0.5
    # Rows stay where they are and contents change, for row 0 is the root.
    n_children_below = hull.nodes[a].n_children - 1 if with_children else hull.nodes[b].n_children
    if hull.nodes[a].n_here == 0 and n_children_below == 0:
        return False
    before = _log_p(stream, model, sticks, hull, a, b, GIVEN)
    theta_a, theta_b = hull.theta[a].copy(), hull.theta[b].copy()
    exchange(hull, a, b, with_children)
    after = _log_p(stream, model, sticks, hull, a, b, DRAWN)
    if after - before > -exponential(stream):
        return True
    exchange(hull, a, b, with_children)
    hull.theta[a] = theta_a
    hull.theta[b] = theta_b
    return False


@compiled
def _log_p(
    stream: Stream, model: Any, sticks: Sticks, hull: Hull, a: int, b: int, is_drawn: np.int64
) -> float:
    """Return log p W, with parameters drawn if ``is_drawn``."""
    rows = np.array([a, b])
    return on.log_tree(hull, sticks) + on.fit_rows(stream, model, hull, rows, is_drawn)


@compiled
def exchange(hull: Hull, a: int, b: int, with_children: bool) -> None:
    """Exchange data, statistics and names of two rows, and perhaps their other children."""
    n_here, entity, label = hull.nodes[a].n_here, hull.nodes[a].entity, hull.nodes[a].label
    hull.nodes[a].n_below += n_here - hull.nodes[b].n_here
    hull.nodes[a].n_here = hull.nodes[b].n_here
    hull.nodes[a].entity = hull.nodes[b].entity
    hull.nodes[a].label = hull.nodes[b].label
    hull.nodes[b].n_here = n_here
    hull.nodes[b].entity = entity
    hull.nodes[b].label = label
    for row in (a, b):
        hull.nodes[hull.nodes[row].label].row_of = row
    for d in range(hull.statistics.shape[1]):
        kept = hull.statistics[a, d]
        hull.statistics[a, d] = hull.statistics[b, d]
        hull.statistics[b, d] = kept
    if with_children:
        of_a, of_b = on.children_of(hull, a), on.children_of(hull, b)
        for child in of_a:
            if child != b:
                on.take_off(hull, child)
                on.hang(hull, child, b)
        for child in of_b:
            on.take_off(hull, child)
            on.hang(hull, child, a)
