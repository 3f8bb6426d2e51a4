"""Moves: take a subtree off its parent and let it grow elsewhere.

Removing the subtree of C, with n data, leaves a tree partition of the others. To hang it below P
multiplies the probability of the partition by factors of the nodes from the root to P, by gamma
Gamma(n) for a new child, and by the subtree's own factors at its new depth. So all parents can be
compared in one pass over the tree.

- **Gibbs** (``IN_PLACE``): with theta of C as it is, P is drawn with probability proportional to
  p(partition) T(theta[C] <- theta[P]) over all nodes outside the subtree.
- **Refitted** (``REFITTED``): P is proposed with g(P), which is proportional to p(partition) times
  T(e <- theta[P]) to the power 1/2, where e is an estimate of C's parameters from its own data and
  children alone; theta[C] is drawn anew given P; accepted with

      min(1, p(new) W(new) g(old) / [p(old) W(old) g(new)]),

  W the weight of :func:`treestick.contract.fit_node`. g looks at nothing that the move changes.

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
from treestick.moves.structure.hull import ALIVE, Hull
from treestick.random import Key, Purpose, Stream, exponential, key_for, open_stream, uniform
from treestick.tree.table import NULL

IN_PLACE, REFITTED = 0, 1


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
        place = hull.nodes[0].place
        while place == hull.nodes[0].place:
            place = int(uniform(stream) * n_nodes)
        counts[1] += _regraft(stream, model, sticks, hull, hull.nodes[place].alive, kind)
    return counts


@compiled
def _regraft(stream: Stream, model: Any, sticks: Sticks, hull: Hull, c: int, kind: int) -> bool:
    old = hull.nodes[c].parent
    if hull.nodes[old].n_here == 0 and hull.nodes[old].n_children == 1:
        return False
    on.take_off(hull, c)
    outside, log_p = _log_of_parents(sticks, hull, c)
    n_outside = outside.size
    power = 1.0 if kind == IN_PLACE else 0.5
    theta = hull.theta[c].copy()
    if kind == REFITTED:
        contract.estimate(
            model,
            hull.nothing,
            on.below(hull, c, NULL),
            hull.nodes[c].n_here,
            hull.statistics[c],
            theta,
        )
    log_g = np.empty(n_outside)
    for k in range(n_outside):
        log_g[k] = log_p[k] + power * contract.log_transition(model, hull.theta[outside[k]], theta)
    chosen = _choose(stream, log_g)
    new = outside[chosen]
    on.hang(hull, c, new)
    if kind == IN_PLACE or new == old:
        return new != old
    now = 0
    while outside[now] != old:
        now += 1
    theta[:] = hull.theta[c]
    after = log_p[chosen] + _fit(stream, model, hull, c, hull.theta[new], DRAWN)
    fitted = hull.theta[c].copy()
    hull.theta[c] = theta
    before = log_p[now] + _fit(stream, model, hull, c, hull.theta[old], GIVEN)
    if after - before + log_g[now] - log_g[chosen] > -exponential(stream):
        hull.theta[c] = fitted
        return True
    on.take_off(hull, c)
    on.hang(hull, c, old)
    return False


@compiled
def _fit(
    stream: Stream, model: Any, hull: Hull, c: int, above: Floats, is_drawn: np.int64
) -> float:
    return contract.fit_node(
        stream, model, above, on.below(hull, c, NULL), hull.nodes[c].n_here, hull.statistics[c],
        hull.theta[c], is_drawn,
    )  # fmt: skip


@compiled
def _choose(stream: Stream, log_weights: Floats) -> int:
    """Draw an index with probability proportional to exp(log_weights)."""
    largest = log_weights.max()
    total = 0.0
    for k in range(log_weights.size):
        total += math.exp(log_weights[k] - largest)
    dart = uniform(stream) * total
    for k in range(log_weights.size):
        dart -= math.exp(log_weights[k] - largest)
        if dart < 0.0:
            return k
    return int(np.argmax(log_weights))  # by rounding


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
