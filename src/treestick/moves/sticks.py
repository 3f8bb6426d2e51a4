"""Gibbs move: redraw the stick lengths given the assignments and the order of the children.

Given the counts the sticks are independent betas (paper, sec. 4)::

    nu[k]  | counts ~ Beta(1 + n_here[k], alpha(depth[k]) + n_below[k])
    psi[k] | counts ~ Beta(1 + n_through[k], gamma + n_later[k])

``n_later`` sums ``n_through`` over the later siblings. Children without data that precede one with
data have psi-sticks too, with n_through = 0; later ones are not represented.

Deviation from the paper: its psi update prints ``n_below`` for ``n_through``, which contradicts the
urn of sec. 2; the joint test fails with it.
"""

from treestick._jit import compiled
from treestick.moves.state import State, Sticks, alpha_at
from treestick.random import Key, Purpose, beta, key_for, open_stream, reopen
from treestick.tree.table import NULL, NodeTable


def move_sticks(key: Key, state: State) -> State:
    """Redraw nu of the hull and psi of all represented children, in place; linear time."""
    draw_nu(key, state.table, state.sticks, state.n_nodes)
    draw_psi(key, state.table, state.sticks)
    return state


@compiled
def draw_nu(key: Key, table: NodeTable, sticks: Sticks, n_nodes: int) -> None:
    """Overwrite nu of the first ``n_nodes`` rows, which are the hull."""
    stream = open_stream(key)
    for node in range(n_nodes):
        reopen(stream, key_for(key, Purpose.NU, table.entity[node]))
        alpha = alpha_at(sticks, table.depth[node])
        table.nu[node] = beta(stream, 1.0 + table.n_here[node], alpha + table.n_below[node])


@compiled
def draw_psi(key: Key, table: NodeTable, sticks: Sticks) -> None:
    """Overwrite psi of all children in the table."""
    stream = open_stream(key)
    for node in range(table.size[0]):
        n_later = table.n_below[node]
        child = table.first_child[node]
        while child != NULL:
            n_through = table.n_here[child] + table.n_below[child]
            n_later -= n_through
            reopen(stream, key_for(key, Purpose.PSI, table.entity[child]))
            table.psi[child] = beta(stream, 1.0 + n_through, sticks.gamma + n_later)
            child = table.next_sibling[child]
