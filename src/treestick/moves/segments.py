"""The unit interval, cut by the sticks: which node lies under a point, for the represented tree.

In depth-first order a node comes before its descendants, and siblings in the order of their sticks.
In this order the nodes divide the unit interval, and the tree of a table divides it into segments:

- the node itself (``STOP``), for each row of the hull;
- a represented child without data, and all that is below it (``CHILD``);
- the children of a node that have no row, behind those that have one (``TAIL``).

So the node under a point is found by bisection, and to ask which of two nodes comes first is to
compare the numbers of their segments: no paths, no strings.
"""

from typing import NamedTuple

import numpy as np

from treestick._jit import compiled
from treestick.moves.state import Floats, Integers
from treestick.tree.table import NULL, NodeTable

STOP, CHILD, TAIL = 0, 1, 2


class Segments(NamedTuple):
    """The segments in order, from 0 to 1."""

    edges: Floats
    """Where each segment starts; one more than there are segments, the last is 1."""
    row: Integers
    """The node that a segment is about."""
    kind: Integers
    """STOP, CHILD or TAIL."""
    last_child: Integers
    """Of a TAIL: the last child of the node that has a row, or NULL."""
    own: Integers
    """Number of the segment in which each node of the hull has its data."""


@compiled
def cut(table: NodeTable, n_nodes: int) -> Segments:
    """Return the segments of a table whose first ``n_nodes`` rows are the hull."""
    most = table.size[0] + n_nodes
    edges = np.ones(most + 1)
    row = np.empty(most, dtype=np.int64)
    kind = np.empty(most, dtype=np.int64)
    last_child = np.full(most, NULL)
    own = np.empty(n_nodes, dtype=np.int64)
    # Of each node: what its children have not taken yet.
    left_over = np.empty(table.size[0])
    n = 0
    position = 0.0
    node = 0
    span = 1.0
    while True:
        # Going down: ``node`` starts at ``position`` and is ``span`` long.
        edges[n] = position
        row[n] = node
        if node < n_nodes:
            kind[n] = STOP
            own[node] = n
            n += 1
            position = min(position + span * table.nu[node], 1.0)
            left_over[node] = span * (1.0 - table.nu[node])
            following = table.first_child[node]
        else:
            kind[n] = CHILD
            n += 1
            position = min(position + span, 1.0)
            node, following = table.parent[node], table.next_sibling[node]
        # Going up: behind its last child, a node has the tail.
        while following == NULL:
            edges[n] = position
            row[n] = node
            kind[n] = TAIL
            last_child[n] = table.last_child[node]
            n += 1
            position = min(position + left_over[node], 1.0)
            if node == 0:
                edges[n] = 1.0
                return Segments(edges[: n + 1], row[:n], kind[:n], last_child[:n], own)
            node, following = table.parent[node], table.next_sibling[node]
        node, above = following, table.parent[following]
        span = left_over[above] * table.psi[node]
        left_over[above] *= 1.0 - table.psi[node]


@compiled
def find(edges: Floats, u: float) -> int:
    """Return the number of the segment that holds ``u``: the last that starts at or before it."""
    low, high = 0, edges.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        if edges[middle] <= u:
            low = middle
        else:
            high = middle
    return low
