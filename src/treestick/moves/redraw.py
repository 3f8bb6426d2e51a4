"""Gibbs move: sticks and order of the children from scratch, given the partition alone.

Given how many data pass through each child, the weights of the children and of all the rest are
(w_1, ..., w_K, w_rest) ~ Dirichlet(n_1, ..., n_K, gamma), the rest broken by GEM(gamma), and the
order is a size-biased permutation of all of them. Both are drawn at once, child after child:

Rule 1. The next in order is child i with probability n_i / (n + gamma), where n sums over the
children that have no place yet, and one without data with gamma / (n + gamma): this is the mean of
the Dirichlet weight.
Rule 2. Given that choice its concentration is one larger, so that
psi ~ Beta(n_i + 1, gamma + n - n_i), or Beta(1, gamma + n) for one without data.
Rule 3. What is left, scaled to one, is Dirichlet with the others, independent of psi. Go on until
all children with data have their place. Sticks beyond are Beta(1, gamma), looked up when needed.

The lengths nu come from their betas as in :mod:`treestick.moves.sticks`. The law is the one that
the Gibbs moves on lengths and on order leave invariant, but nothing is left of the old sticks.
"""

import numpy as np

from treestick._jit import compiled
from treestick.moves.children import append_child, append_stick, hull_of
from treestick.moves.state import State, Sticks
from treestick.moves.sticks import draw_nu
from treestick.random import Key, Purpose, beta, key_for, open_stream, reopen, uniform
from treestick.tree.table import NULL, NodeTable


def move_redraw(key: Key, state: State) -> State:
    """Draw nu, psi and the order of all children; return the state with a new table."""
    table = _redraw_all(key, state.table, state.sticks, state.n_nodes)
    draw_nu(key, table, state.sticks, state.n_nodes)
    return state._replace(table=table)


@compiled
def _redraw_all(key: Key, table: NodeTable, sticks: Sticks, n_nodes: int) -> NodeTable:
    redrawn = hull_of(table, n_nodes)
    gamma = sticks.gamma
    stream = open_stream(key)
    rows = np.empty(n_nodes, dtype=np.int64)
    for node in range(n_nodes):
        reopen(stream, key_for(key, Purpose.ORDER, table.entity[node]))
        n_waiting = 0
        child = table.first_child[node]
        while child != NULL:
            if table.n_here[child] + table.n_below[child] > 0:
                rows[n_waiting] = child
                n_waiting += 1
            child = table.next_sibling[child]
        n = table.n_below[node]
        ordinal = 0
        while n_waiting > 0:
            dart = uniform(stream) * (n + gamma)
            chosen = 0
            while chosen < n_waiting:
                dart -= table.n_here[rows[chosen]] + table.n_below[rows[chosen]]
                if dart < 0.0:
                    break
                chosen += 1
            if chosen == n_waiting:
                psi = beta(stream, 1.0, gamma + n)
                redrawn = append_stick(key, redrawn, node, ordinal, psi)
            else:
                child = rows[chosen]
                n_through = table.n_here[child] + table.n_below[child]
                n -= n_through
                append_child(
                    redrawn, node, child, ordinal, beta(stream, n_through + 1.0, gamma + n)
                )
                n_waiting -= 1
                rows[chosen] = rows[n_waiting]
            ordinal += 1
    return redrawn
