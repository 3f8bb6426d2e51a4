"""The urn: data go down the tree one by one, with the sticks integrated out."""

import math

import numpy as np
import numpy.typing as npt

from treestick._jit import compiled, deferred_interrupts
from treestick.inputs import check_whole_number
from treestick.prior.parameters import AT_ONCE, MOST_DATA, check_stick_parameters
from treestick.random import Key, Purpose, Stream, key_for, make_key, open_stream, uniform
from treestick.tree import Tree
from treestick.tree.table import (
    NULL,
    NodeTable,
    breadth_first_order,
    depth_first_order,
    grow,
    make_table,
    next_ordinal,
    place_child,
    take,
)

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def draw_urn(n: int, alpha0: float, decay: float, gamma: float, seed: int) -> Tree:
    """Draw a tree partition of ``n`` data from the prior, datum by datum, by the urn.

    Parameters
    ----------
    n : int
        Number of data.
    alpha0, decay, gamma : float
        ``alpha(d) = alpha0 * decay**d`` governs how deep data go, ``gamma`` how many children a
        node has. ``alpha0`` and ``gamma`` are above 0, ``decay`` is in (0, 1].
    seed : int
        From 0 to 2**64 - 1. The same seed gives the same tree, and more data with the same seed
        go on with the same draw: the first m of n data share nodes as in a draw of m.

    Returns
    -------
    Tree
        The nodes with data at or below them (and the root), depth first, siblings in the order of
        arrival. ``mass`` is the probability that the next datum stops at the node.

    Examples
    --------
    >>> draw_urn(6, alpha0=1.0, decay=0.5, gamma=0.5, seed=3)
    Tree: 3 nodes, 6 data, depth 2
    0  0 here, 6 below
    └─ 1  5 here, 1 below
       └─ 2  1 here
    """
    n = check_whole_number("n", n, 0, MOST_DATA)
    alpha0, decay, gamma = check_stick_parameters(alpha0, decay, gamma)
    table, entities = fill_urn(make_key(seed), n, alpha0, decay, gamma)
    with deferred_interrupts():
        table, _ = take(table, depth_first_order(table))
        mass = urn_mass(table, alpha0, decay, gamma)
    row_of_entity = np.argsort(table.entity)
    return Tree(table.parent, row_of_entity[entities], mass)


def fill_urn(
    key: Key, n: int, alpha0: float, decay: float, gamma: float
) -> tuple[NodeTable, Integers]:
    """Let ``n`` data go down the urn; return the table, and the entity of each datum's node."""
    entities = np.empty(n, dtype=np.int64)
    table, stream = make_table(64), open_stream(key_for(key, Purpose.URN, 0))
    datum, node = 0, 0
    while datum < n:
        with deferred_interrupts():
            if table.size[0] == table.parent.size:
                table, new_row = take(table, breadth_first_order(table))
                table, node = grow(table, 2 * table.parent.size), new_row[node]
            some = entities[: datum + AT_ONCE]
            datum, node = _fill_while_room(table, stream, some, datum, node, alpha0, decay, gamma)
    return table, entities


@compiled
def _fill_while_room(
    table: NodeTable,
    stream: Stream,
    entities: Integers,
    datum: int,
    node: int,
    alpha0: float,
    decay: float,
    gamma: float,
) -> tuple[int, int]:
    """Let data go down the urn, from ``datum`` on, which has come to ``node`` already.

    Return the datum and node at which the table is full, or the number of data when all are in.
    The table is grown outside, because replacing it inside this loop would double the time, and
    is rearranged then with siblings side by side: looking at children that lie scattered in memory
    takes up to ten times longer. So rows change; ``entities`` gets the entity of each datum's node,
    here the number of the node in the order of arrival.

    One uniform decides a level. ``dart`` is spread over (n_here + 1) + (n_below + alpha): in the
    first part the datum stops; what it exceeds that by is, stretched to n_below + gamma, the dart
    that chooses the child. The cost is the number of children looked at on the way.
    """
    while datum < entities.size:
        alpha = alpha0
        for _ in range(table.depth[node]):
            alpha *= decay
        while True:
            if table.size[0] == table.parent.size:
                return datum, node
            n_here = table.n_here[node]
            n_below = table.n_below[node]
            dart = uniform(stream) * (n_here + n_below + 1.0 + alpha) - (n_here + 1.0)
            if dart < 0.0:
                break
            table.n_below[node] = n_below + 1
            dart *= (n_below + gamma) / (n_below + alpha)
            child = table.first_child[node]
            while child != NULL:
                dart -= table.n_here[child] + table.n_below[child]
                if dart < 0.0:
                    break
                child = table.next_sibling[child]
            if child == NULL:
                child = place_child(table, node, next_ordinal(table, node))
                table.entity[child] = np.uint64(child)
            node = child
            alpha *= decay
        table.n_here[node] += 1
        entities[datum] = np.int64(table.entity[node])
        datum += 1
        node = 0
    return datum, node


@compiled
def urn_mass(table: NodeTable, alpha0: float, decay: float, gamma: float) -> Floats:
    """Return the probability of each node that the next datum stops there; the rest is unseen."""
    size = table.size[0]
    reaches = np.ones(size)
    mass = np.empty(size)
    for node in range(size):
        alpha = alpha0 * math.exp(table.depth[node] * math.log(decay))
        n_here, n_below = table.n_here[node], table.n_below[node]
        if node > 0:
            n_siblings = table.n_below[table.parent[node]]
            reaches[node] *= (n_here + n_below) / (n_siblings + gamma)
        stops = (n_here + 1.0) / (n_here + n_below + alpha + 1.0)
        mass[node] = reaches[node] * stops
        goes_on = reaches[node] * ((n_below + alpha) / (n_here + n_below + alpha + 1.0))
        child = table.first_child[node]
        while child != NULL:
            reaches[child] = goes_on
            child = table.next_sibling[child]
    return mass
