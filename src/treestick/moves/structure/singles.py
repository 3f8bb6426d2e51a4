"""Gibbs move on single data, with the parameters of a node of its own integrated out.

A datum is taken out of the tree. If it was alone at a leaf, the leaf and its parameters are
forgotten. It then goes to any node, or to a new child of any node, with the probability of the urn
(sticks integrated out) times

    f(x | theta[e])                        at node e
    Z_e = INT f(x | t) T(t <- theta[e]) dt at a new child of e,

and the new child's parameters are drawn given x. A fresh draw from the prior would almost never
suit a datum of many dimensions; this asks for all of them at once.

Rule 1. Where the model's proposal q is not the exact conditional, the weight W(t) of
:func:`treestick.contract.fit_node` varies about Z. Then Z stands for an approximation, nodes are
*proposed* with these probabilities, and the proposal is accepted with min(1, w(new) / w(old)),
w = W(theta) / Z at a node of its own and 1 elsewhere: an independence sampler whose weights are
all near one.
Rule 2. Only first-level new children take part. If taking the datum out leaves an empty leaf that
was its parent too, it stays: longer branches are the other moves' affair. Which places take part
is a function of the tree without the datum, so this is Gibbs within a fixed set.
"""

import math
from typing import Any

import numpy as np

from treestick import contract
from treestick._jit import compiled
from treestick.contract import DRAWN, GIVEN
from treestick.moves.state import Floats, Integers, Sticks, alpha_at
from treestick.moves.structure import hull as on
from treestick.moves.structure.hull import ALIVE, FREE, Hull
from treestick.random import (
    Key,
    Purpose,
    Stream,
    exponential,
    key_for,
    next_word,
    open_stream,
    uniform,
)
from treestick.tree.table import NULL


@compiled
def move_singles(
    key: Key, model: Any, data: Any, sticks: Sticks, hull: Hull, kind: int, first: int, n: int
) -> Integers:
    """Move ``n`` data, drawn uniformly and numbered from ``first``, or fewer if the hull is full.

    Return how many there were, and how many got a node of their own or lost it. Each costs
    O(nodes x dimensions). There is one ``kind``.
    """
    counts = np.zeros(2, dtype=np.int64)
    _, prepared_width, _ = contract.widths(model)
    room = hull.nodes.size
    prepared = np.empty((2, room, prepared_width))  # at a node, at a new child of it
    reach = np.empty((2, room))
    for k in range(hull.counts[ALIVE]):
        _prepare(model, hull, hull.nodes[k].alive, prepared)
    for number in range(first, first + n):
        if hull.counts[FREE] == 0:
            break
        counts[0] += 1
        stream = open_stream(key_for(key, Purpose.STRUCTURE, number))
        datum = int(uniform(stream) * hull.data.size)
        _move_one(stream, model, data, sticks, hull, datum, prepared, reach, counts)
    return counts


@compiled
def _prepare(model: Any, hull: Hull, row: int, prepared: Floats) -> None:
    contract.prepare(model, hull.theta[row], prepared[0, row])
    contract.prepare_unseen(model, hull.theta[row], 1, prepared[1, row])


@compiled
def _move_one(
    stream: Stream,
    model: Any,
    data: Any,
    sticks: Sticks,
    hull: Hull,
    n: int,
    prepared: Floats,
    reach: Floats,
    counts: Integers,
) -> None:
    old = hull.data[n].node
    parent = hull.nodes[old].parent
    was_alone = old != 0 and hull.nodes[old].n_here == 1 and hull.nodes[old].n_children == 0
    if (
        was_alone
        and parent != 0
        and hull.nodes[parent].n_here == 0
        and hull.nodes[parent].n_children == 1
    ):
        return  # rule 2
    log_w = 0.0
    if was_alone:
        log_w = _log_w(stream, model, data, hull, n, old, parent, prepared, GIVEN)
    on.take_datum(hull, model, data, n)
    if was_alone:
        on.take_off(hull, old)

    chosen, is_new = _choose(stream, model, data, sticks, hull, n, prepared, reach)
    row = chosen
    log_w_new = 0.0
    if is_new:
        row = on.add_node(hull, next_word(stream))
        on.link(hull, row, chosen)
        hull.nodes[row].depth = hull.nodes[chosen].depth + 1
    on.put_datum(hull, model, data, n, row)
    if is_new:
        log_w_new = _log_w(stream, model, data, hull, n, row, chosen, prepared, DRAWN)
    if log_w_new - log_w > -exponential(stream):
        if is_new:
            _prepare(model, hull, row, prepared)
        if was_alone:
            on.remove_node(hull, old)
        counts[1] += is_new != was_alone
        return
    on.take_datum(hull, model, data, n)
    if is_new:
        on.take_off(hull, row)
        on.remove_node(hull, row)
    if was_alone:
        on.link(hull, old, parent)
    on.put_datum(hull, model, data, n, old)


@compiled
def _has_one(hull: Hull, row: int, n_here: int, n_children: int) -> bool:
    return hull.nodes[row].n_here == n_here and hull.nodes[row].n_children == n_children


@compiled
def _log_w(
    stream: Stream,
    model: Any,
    data: Any,
    hull: Hull,
    n: int,
    row: int,
    parent: int,
    prepared: Floats,
    is_drawn: np.int64,
) -> float:
    """Return log W(theta) / Z of a node that datum ``n`` has to itself."""
    log_z = contract.log_likelihood(model, data, n, prepared[1, parent])
    return (
        contract.fit_node(
            stream, model, hull.theta[parent], hull.theta[:0], 1, hull.statistics[row],
            hull.theta[row], is_drawn,
        )
        - log_z
    )  # fmt: skip


@compiled
def _choose(
    stream: Stream,
    model: Any,
    data: Any,
    sticks: Sticks,
    hull: Hull,
    n: int,
    prepared: Floats,
    reach: Floats,
) -> tuple[int, bool]:
    """Choose a node for a datum that is nowhere, or the parent of a new one.

    ``reach`` is room for the log probabilities of passing through each node, and of going on below.
    One is chosen among all in one pass: each new one takes the place of the chosen one with its
    share of the total so far.
    """
    largest, total = -math.inf, 0.0
    chosen, is_new = 0, False
    row = 0
    while row != NULL:
        n_here, n_below = hull.nodes[row].n_here, hull.nodes[row].n_below
        alpha = alpha_at(sticks, hull.nodes[row].depth)
        reach[0, row] = 0.0
        if row != 0:
            above = hull.nodes[row].parent
            share = (n_here + n_below) / (hull.nodes[above].n_below + sticks.gamma)
            reach[0, row] = reach[1, above] + math.log(share)
        whole = n_here + n_below + alpha + 1.0
        reach[1, row] = reach[0, row] + math.log((n_below + alpha) / whole)
        for kind in range(2):
            if kind == 0:
                log_p = reach[0, row] + math.log((n_here + 1.0) / whole)
            else:
                log_p = reach[1, row] + math.log(sticks.gamma / (n_below + sticks.gamma))
                log_p -= math.log1p(alpha_at(sticks, hull.nodes[row].depth + 1))  # it stops there
            log_p += contract.log_likelihood(model, data, n, prepared[kind, row])
            if log_p > largest:
                total *= math.exp(largest - log_p)
                largest = log_p
            p = math.exp(log_p - largest)
            total += p
            if uniform(stream) * total < p:
                chosen, is_new = row, kind == 1
        row = on.following(hull, row, 0)
    return chosen, is_new
