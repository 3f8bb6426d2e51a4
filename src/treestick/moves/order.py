"""Gibbs move: a size-biased permutation of the children of each node (paper, sec. 4).

The psi-sticks of a node cut the unit interval into weights phi, one for each of infinitely many
children, and these weights come in size-biased order: given the set of weights, the first is one of
them chosen with probability phi, the second one of the rest in proportion, and so on (Pitman 1996).
The assignments depend on the weights of the children, not on their order. So to draw the order
afresh from this law, children moving with all that is below them, is a Gibbs move.

Children that are not represented take part: a draw that falls beyond the represented sticks breaks
new ones, psi ~ Beta(1, gamma), until it is decided. The drawing ends when every child with data has
its place. What was not chosen by then is forgotten: given the sticks that were, the rest of
the permuted sequence is again GEM(gamma), independent of everything, and will be drawn when needed.

New psi-sticks are phi / (1 - sum of the weights before it).
"""

import numpy as np

from treestick._jit import compiled
from treestick.moves.children import append_child, append_stick, hull_of
from treestick.moves.state import State, Sticks
from treestick.random import Key, Purpose, beta, key_for, open_stream, reopen, uniform
from treestick.tree.table import NULL, NodeTable

TINY = 1e-300


def move_order(key: Key, state: State) -> State:
    """Permute the children of every node; return the state with a new table."""
    return state._replace(table=_permute_all(key, state.table, state.sticks, state.n_nodes))


@compiled
def _permute_all(key: Key, table: NodeTable, sticks: Sticks, n_nodes: int) -> NodeTable:
    permuted = hull_of(table, n_nodes)
    stream = open_stream(key)
    for node in range(n_nodes):
        n_waiting = 0  # children with data that have no place yet
        n_known = 0
        child = table.first_child[node]
        while child != NULL:
            n_known += 1
            n_waiting += table.n_here[child] + table.n_below[child] > 0
            child = table.next_sibling[child]
        if n_waiting == 0:
            continue
        reopen(stream, key_for(key, Purpose.ORDER, table.entity[node]))
        rows = np.full(2 * n_known, NULL)  # row of each known stick with data
        weights = np.zeros(2 * n_known)
        rest = 1.0  # the weight beyond the known sticks
        n_known = 0
        child = table.first_child[node]
        while child != NULL:
            weights[n_known] = rest * table.psi[child]
            rest *= 1.0 - table.psi[child]
            if table.n_here[child] + table.n_below[child] > 0:
                rows[n_known] = child
            n_known += 1
            child = table.next_sibling[child]
        ordinal = 0
        while n_waiting > 0:
            total = rest
            for j in range(n_known):
                total += weights[j]
            dart = uniform(stream) * total
            chosen, j = NULL, 0
            while True:
                if j == n_known:
                    if rest < TINY:  # nothing lies beyond: rounding has let the dart pass the end
                        break
                    if n_known == weights.size:
                        weights = np.append(weights, np.zeros(n_known))
                        rows = np.append(rows, np.full(n_known, NULL))
                    psi = beta(stream, 1.0, sticks.gamma)
                    weights[j] = rest * psi
                    rest *= 1.0 - psi
                    n_known += 1
                if weights[j] > 0.0:
                    chosen = j
                    dart -= weights[j]
                    if dart < 0.0:
                        break
                j += 1
            if chosen == NULL:
                # An earlier psi was rounded to 1, which leaves nothing to those that still wait.
                # The next redraw of the lengths repairs it.
                chosen = 0
                while rows[chosen] == NULL:
                    chosen += 1
                total = 1.0
            psi = min(weights[chosen] / total, 1.0)
            if rows[chosen] == NULL:
                permuted = append_stick(key, permuted, node, ordinal, psi)
            else:
                append_child(permuted, node, rows[chosen], ordinal, psi)
                rows[chosen] = NULL
                n_waiting -= 1
            weights[chosen] = 0.0
            ordinal += 1
    return permuted
