"""Moves: take a subtree off its parent and let it grow elsewhere.

Removing the subtree of C, with n data, leaves a tree partition of the others. To hang it below P
multiplies the probability of the partition by factors of the nodes from the root to P, by gamma
Gamma(n) for a new child, and by the subtree's own factors at its new depth. So all parents can be
compared in one pass over the tree.

- **Gibbs** (``IN_PLACE``): with theta of C as it is, P is drawn with probability proportional to
  p(partition) T(theta[C] <- theta[P]) over all nodes outside the subtree.
- **Refitted** (``REFITTED``): another parent Q than the present P is proposed with g(Q), which is
  proportional to p(partition) times the evidence of what C has, its parameters integrated out given
  Q's, about (:func:`treestick.contract.log_evidence`), over the ``MOST_COMPARED`` parents that a
  quicker estimate finds best. P fits the children it has, and Q those that it has not got yet, so
  theta of C, P and Q is drawn anew, together; accepted with

      min(1, p(new) W(new) g'(P) / [p(old) W(old) g(Q)]),

  W the weight of :func:`treestick.contract.fit_group` for all three, and g' what g is with the new
  parameters and Q as the present parent. If P is not among the parents that g' compares, C stays.
  g' takes as long as all else, and is a probability: it is not computed where the ratio without it
  is too small already.

A parent that would be left without data and children stays as it is: it could not be in the hull
after the move, so no move leads back to it either.
"""

import math
from typing import Any

import numpy as np

from treestick import contract
from treestick._jit import compiled
from treestick.contract import DRAWN, GIVEN
from treestick.moves.state import Floats, Integers, Sticks
from treestick.moves.structure import hull as on
from treestick.moves.structure.choices import (
    choose_below_root,
    choose_node,
    draw_index,
    least_of_best,
    log_sum,
)
from treestick.moves.structure.hull import ALIVE, Hull
from treestick.random import Key, Purpose, Stream, exponential, key_for, open_stream
from treestick.tree.table import NULL

IN_PLACE, REFITTED = 0, 1
MOST_COMPARED = 32


@compiled
def move_regraft(
    key: Key, model: Any, data: Any, sticks: Sticks, hull: Hull, kind: int, first: int, n: int
) -> Integers:
    """Move ``n`` subtrees, numbered from ``first``; return how many there were, and how many moved.

    Each costs one pass over all nodes.
    """
    counts = np.zeros(2, dtype=np.int64)
    n_nodes = hull.counts[ALIVE]
    for number in range(first, first + n):
        counts[0] += 1
        if n_nodes == 1:
            continue
        stream = open_stream(key_for(key, Purpose.STRUCTURE, number))
        if kind == IN_PLACE:
            counts[1] += _regraft(stream, model, sticks, hull, choose_below_root(stream, hull))
        else:
            counts[1] += _regraft_refitted(stream, model, sticks, hull, choose_node(stream, hull))
    return counts


@compiled
def _regraft(stream: Stream, model: Any, sticks: Sticks, hull: Hull, c: int) -> bool:
    old = hull.nodes[c].parent
    if _would_be_empty(hull, old):
        return False
    on.take_off(hull, c)
    parents, log_g = _log_of_parents(sticks, hull, c)
    for k in range(parents.size):
        log_g[k] += contract.log_transition(model, hull.theta[parents[k]], hull.theta[c])
    new = parents[draw_index(stream, log_g)]
    on.hang(hull, c, new)
    return new != old


@compiled
def _would_be_empty(hull: Hull, row: int) -> bool:
    """Say whether a node would be left without data and children if it lost a child."""
    return hull.nodes[row].n_here == 0 and hull.nodes[row].n_children == 1


@compiled
def _regraft_refitted(stream: Stream, model: Any, sticks: Sticks, hull: Hull, c: int) -> bool:
    """Propose a new parent of C, which any node may be that :func:`choose_node` chooses.

    No move of this kind changes the probability of that choice.
    """
    old = hull.nodes[c].parent
    if c == 0 or _would_be_empty(hull, old):
        return False
    on.take_off(hull, c)
    parents, log_p = _log_of_parents(sticks, hull, c)
    log_g = _log_proposal(model, hull, c, parents, log_p, old)
    on.hang(hull, c, old)
    if log_g.max() == -math.inf:
        return False
    chosen = draw_index(stream, log_g)
    new = parents[chosen]
    rows = np.array([c, old, new])
    thetas = hull.theta[rows]
    log_ratio = -log_g[chosen] - on.fit_rows(stream, model, hull, rows.copy(), GIVEN)
    on.take_off(hull, c)
    on.hang(hull, c, new)
    log_ratio += on.fit_rows(stream, model, hull, rows.copy(), DRAWN)
    now = NULL
    for k in range(parents.size):
        if parents[k] == old:
            now = k
    log_ratio += log_p[chosen] - log_p[now]
    level = -exponential(stream)
    if log_ratio > level:
        on.take_off(hull, c)
        log_ratio += _log_proposal(model, hull, c, parents, log_p, new)[now]
        on.hang(hull, c, new)
    if log_ratio > level:
        return True
    on.take_off(hull, c)
    on.hang(hull, c, old)
    for k in range(rows.size):
        hull.theta[rows[k]] = thetas[k]
    return False


@compiled
def _log_proposal(
    model: Any, hull: Hull, c: int, parents: Integers, log_p: Floats, without: int
) -> Floats:
    """Return the log probability g of proposing each of the parents of C, but for one of them."""
    log_g = np.full(parents.size, -math.inf)
    below = on.below(hull, c, NULL)
    for k in _find_best(model, hull, c, parents, log_p):
        if parents[k] != without:
            log_g[k] = log_p[k] + contract.log_evidence(
                model, hull.theta[parents[k]], below, hull.nodes[c].n_here, hull.statistics[c]
            )
    if log_g.max() > -math.inf:
        log_g -= log_sum(log_g)
    return log_g


@compiled
def _find_best(model: Any, hull: Hull, c: int, parents: Integers, log_p: Floats) -> Integers:
    """Return which parents best suit an estimate of C from its own data and children alone.

    They are compared by p(partition) times the root of T.
    """
    theta = np.empty(hull.theta.shape[1])
    contract.estimate(
        model, hull.nothing, on.below(hull, c, NULL), hull.nodes[c].n_here, hull.statistics[c],
        theta,
    )  # fmt: skip
    score = np.empty(parents.size)
    for k in range(parents.size):
        score[k] = log_p[k] + 0.5 * contract.log_transition(model, hull.theta[parents[k]], theta)
    return np.flatnonzero(score >= least_of_best(score, MOST_COMPARED))


@compiled
def _log_of_parents(sticks: Sticks, hull: Hull, c: int) -> tuple[Integers, Floats]:
    """Return the rows outside the subtree of ``c``, which hangs nowhere, depth first.

    With each comes the log probability of the partition with ``c`` below it, up to a constant.
    """
    n = hull.nodes[c].n_here + hull.nodes[c].n_below
    outside = np.empty(hull.counts[ALIVE], dtype=np.int64)
    log_p = np.empty(hull.counts[ALIVE])
    along = np.zeros(hull.nodes.size)  # of each node: change of the factors down to it
    own = np.full(hull.nodes.size, np.nan)  # of each depth: the factors of the subtree
    count = 0
    row = 0
    while row != NULL:
        before = on.log_of_node(hull, sticks, row)
        hull.nodes[row].n_below += n
        along[row] = on.log_of_node(hull, sticks, row) - before
        hull.nodes[row].n_below -= n
        if row != 0:
            along[row] += along[hull.nodes[row].parent]
        depth = hull.nodes[row].depth
        if math.isnan(own[depth]):
            own[depth] = _log_of_subtree(sticks, hull, c, depth + 1)
        outside[count] = row
        log_p[count] = along[row] + own[depth]
        count += 1
        row = on.following(hull, row, 0)
    return outside[:count], log_p[:count]


@compiled
def _log_of_subtree(sticks: Sticks, hull: Hull, c: int, depth: int) -> float:
    """Return the log of the factors of a subtree whose top would have this depth."""
    shift = depth - hull.nodes[c].depth
    total = 0.0
    row = c
    while row != NULL:
        hull.nodes[row].depth += shift
        total += on.log_of_node(hull, sticks, row)
        hull.nodes[row].depth -= shift
        row = on.following(hull, row, c)
    return total
