"""Pruning: forget what is not represented.

The hull is the root and every node with data at or below it. Of other nodes, only the psi-sticks
that come before a sibling in the hull are kept; all else is a function of the next sweep's key.
Nodes and parameters that no datum has visited are independent of the data, so forgetting them
changes no law.
"""

import numpy as np

from treestick._jit import compiled
from treestick.moves.state import Integers, State
from treestick.tree.table import NodeTable, count_below, depth_first_order, take


def move_prune(state: State) -> State:
    """Return the state with its hull first, depth first, and the sticks of others behind it.

    Counts are taken anew from the assignments. Statistics are left as they are: sum them anew.
    """
    counts = np.bincount(state.assignments, minlength=state.table.parent.size)
    pruned, new_row = prune_to(state, counts)
    return pruned._replace(assignments=new_row[state.assignments])


def prune_to(state: State, counts: Integers) -> tuple[State, Integers]:
    """Do the same for data of which so many are at each row; return also the new row of each.

    The assignments are left as they are.
    """
    state.table.n_here[:] = counts
    count_below(state.table)
    rows, n_nodes = _represented(state.table)
    table, new_row = take(state.table, rows)
    table.nu[n_nodes:] = np.nan  # of nodes that have lost their data: looked up anew
    return state._replace(table=table, theta=state.theta[rows[:n_nodes]]), new_row


@compiled
def _represented(table: NodeTable) -> tuple[Integers, int]:
    """Return the rows to keep, and how many of them are the hull."""
    size = table.size[0]
    last = np.full(size, -1)  # ordinal of the last child in the hull
    hull = np.empty(size, dtype=np.int64)
    others = np.empty(size, dtype=np.int64)
    n_hull, n_others = 0, 0
    for node in range(1, size):
        if table.n_here[node] + table.n_below[node] > 0:
            above = table.parent[node]
            last[above] = max(last[above], table.ordinal[node])
    for node in depth_first_order(table):
        if node == 0 or table.n_here[node] + table.n_below[node] > 0:
            hull[n_hull] = node
            n_hull += 1
        elif table.ordinal[node] < last[table.parent[node]]:
            others[n_others] = node
            n_others += 1
    return np.append(hull[:n_hull], others[:n_others]), n_hull
