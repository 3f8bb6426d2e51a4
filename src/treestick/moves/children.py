"""Lists of children, rebuilt in another order: what the moves on order share."""

import numpy as np

from treestick._jit import compiled
from treestick.random import Key, child_entity
from treestick.tree.table import NULL, NodeTable, place_child, with_room

REPRESENTED = 1 << 62
"""Keeps the entities of these children apart from those of children that are looked up later in the
same sweep, whatever their ordinals."""


@compiled
def hull_of(table: NodeTable, n_nodes: int) -> NodeTable:
    """Return a copy of the first ``n_nodes`` rows without any lists of children."""
    return NodeTable(
        np.array([n_nodes]),
        table.parent[:n_nodes].copy(),
        np.full(n_nodes, NULL),
        np.full(n_nodes, NULL),
        np.full(n_nodes, NULL),
        table.ordinal[:n_nodes].copy(),
        table.depth[:n_nodes].copy(),
        table.n_here[:n_nodes].copy(),
        table.n_below[:n_nodes].copy(),
        table.nu[:n_nodes].copy(),
        table.psi[:n_nodes].copy(),
        table.entity[:n_nodes].copy(),
    )


@compiled
def append_child(table: NodeTable, node: int, child: int, ordinal: int, psi: float) -> None:
    """Put the row ``child`` at the end of the list of the children of ``node``."""
    before = table.last_child[node]
    if before == NULL:
        table.first_child[node] = child
    else:
        table.next_sibling[before] = child
    table.last_child[node] = child
    table.next_sibling[child] = NULL
    table.ordinal[child] = ordinal
    table.psi[child] = psi


@compiled
def append_stick(key: Key, table: NodeTable, node: int, ordinal: int, psi: float) -> NodeTable:
    """Add a child without data at the end of the list, and return the table."""
    table = with_room(table)
    child = place_child(table, node, ordinal)
    table.entity[child] = child_entity(key, table.entity[node], ordinal + REPRESENTED)
    table.psi[child] = psi
    return table
