"""Moves on single data, with the parameters of small nodes integrated out.

A datum is taken out of the tree. If it was alone at a leaf, the leaf is forgotten, and so are the
nodes above that led nowhere else. It then goes to any node, or to the end of a new chain of nodes
below any node, with the probability of the urn (sticks integrated out) times

    f(x | theta[e])                                       at node e
    Z = INT f(x | t[k]) T(t[k] <- t[k-1]) ... T(t[1] <- theta[e]) dt    k levels below e,

and the chain's parameters are drawn given x. Fresh draws from the prior would almost never suit a
datum of many dimensions; this asks for all of them at once.

- **Gibbs** (``GIVEN_LEAVES``): parameters of all nodes that others have are as they are.
- **With small leaves integrated out** (``SMALL_LEAVES``). The parameters of a node with a handful
  of data were drawn given these: each of its data finds them better than they will be without it,
  and any other datum finds them worse than what the node's data say of them. In many dimensions
  both keep data where they are. So a leaf (of the tree without the datum) with up to
  ``MOST_AT_LEAF`` data, X, is weighted with

      m(x) = p(x | X, theta of its parent)          (:func:`treestick.contract.prepare_leaf`)

  in place of f(x | theta). If the datum goes from leaf A or to leaf B, or both, their parameters
  are drawn anew by :func:`treestick.contract.fit_group`, with weights W. Weights of places, and
  their sum, depend on the tree without the datum, the parameters of nodes other than such leaves,
  the data of these, and X (rule 3); so they are the same for the way back. What is left of the
  ratio is

      W(A without x, new) m_A(x)     W(B with x, new)
      -------------------------- * -------------------------- ,
          W(A with x, old)         W(B without x, old) m_B(x)

  which is 1 if m and the draws are exact, and near it if they are about so. All other places are
  drawn exactly, and add nothing. Where the model has no closed form of m, it is the likelihood at
  an estimate, which is a worse proposal.

Rule 1. New chains have at most ``LEVELS`` nodes, or fewer if the model has closed forms for fewer
(:func:`treestick.contract.n_exact_levels`). A datum at the end of a longer one stays there. None
begin below a leaf that is integrated out, and a datum at the end of one that does stays. Which
places take part is a function of the tree without the datum, so this is Gibbs sampling within a
fixed set.
Rule 2. Likelihoods of all data to be moved are computed at the beginning, ``ABREAST`` nodes at
once. They hold to the end but for those of new nodes, and of leaves that lost or got data.
Rule 3. What comes and goes are small nodes, so their data are visited more often than others: with
N data, and M nodes that have some, each of those to be moved is chosen with probability

    1 / (2 N) + 1 / (2 M n),        n data being at its node:

any datum, or any datum of any node. All of them, X[1], ..., X[K], are chosen before the first
moves. So tree and X together have the law
p(tree) s(X | tree), where s is the product of these probabilities; a datum that was chosen twice
counts twice. Once X[k] has moved, it is forgotten: summed over all values of X[1], ..., X[k], the
law is p(tree) times the product over the others, which is all that later moves need to know. So the
weights above, of where X[k] goes, are multiplied by

    s(X[k], ..., X[K] | tree with the datum there),        M and n being those of that tree,

which leaves this law invariant: it is Gibbs sampling, or Metropolis with the ratio above, from
which s cancels, for it is part of the weights of places. One move alone is reversible, several are
not: the first of them know of those to come. K must not depend on the tree; so they do not stop
where the hull is full, and it must have room for ``LEVELS`` nodes for each of them.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from treestick import contract
from treestick._jit import compiled, inlined
from treestick.contract import DRAWN, GIVEN
from treestick.moves.state import Floats, Integers, Sticks, alpha_at
from treestick.moves.structure import hull as on
from treestick.moves.structure.chosen import N_WORDS, choose_singles, find_chosen
from treestick.moves.structure.hull import ALIVE, DATA, FREE, Hull
from treestick.moves.tasks import Run
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
from treestick.wide import ABREAST

GIVEN_LEAVES, SMALL_LEAVES = 0, 1
MOST_AT_LEAF = 32
LEVELS = 3
MOST_LOGS = 2**14
MOST_CHANCES = 64
BLOCKS_AT_ONCE = 128
"""Blocks of nodes whose likelihoods one thread computes at a time."""


class Logs(NamedTuple):
    """Logarithms that are asked for again and again."""

    whole: Floats
    """Of whole numbers from 1, as far as it goes."""
    alpha: Floats
    """Of each depth: alpha itself,"""
    log_alpha: Floats
    """its logarithm,"""
    log_stop: Floats
    """and that of 1 + alpha."""
    log_gamma: float


@compiled
def _make_logs(sticks: Sticks, hull: Hull) -> Logs:
    whole = np.zeros(min(hull.counts[DATA] + 2, MOST_LOGS))
    for n in range(1, whole.size):
        whole[n] = math.log(n)
    n_depths = hull.nodes.size + LEVELS + 1
    alpha, log_alpha, log_stop = np.empty(n_depths), np.empty(n_depths), np.empty(n_depths)
    for depth in range(n_depths):
        alpha[depth] = alpha_at(sticks, depth)
        log_alpha[depth] = math.log(alpha[depth]) if alpha[depth] > 0.0 else -math.inf
        log_stop[depth] = math.log1p(alpha[depth])
    return Logs(whole, alpha, log_alpha, log_stop, math.log(sticks.gamma))


@inlined
def _log(whole: Floats, n: int) -> float:
    return whole[n] if n < whole.size else math.log(n)


@compiled
def move_singles(
    key: Key, model: Any, data: Any, sticks: Sticks, hull: Hull, kind: int, first: int, n: int
) -> Integers:
    """Move ``n`` data, numbered from ``first``; return how many there were, and how many moved.

    The hull must have room for ``LEVELS`` nodes each (rule 3). Each costs O(nodes x dimensions).
    """
    chosen = _choose_and_find(key, hull, first, n)
    return move_chosen(key, model, data, sticks, hull, kind, first, chosen)


@compiled
def move_chosen(
    key: Key,
    model: Any,
    data: Any,
    sticks: Sticks,
    hull: Hull,
    kind: int,
    first: int,
    chosen: Integers,
) -> Integers:
    """Move the data that were chosen: rows of ``data`` and of the hull's labels."""
    most, log_f = _begin(model, hull, kind, chosen.size)
    _compute(model, data, hull, most, chosen, 0, log_f.shape[2] // ABREAST, log_f)
    return _move_all(key, model, data, sticks, hull, most, first, chosen, log_f)


def move_singles_by(
    run: Run, key: Key, model: Any, data: Any, sticks: Sticks, hull: Hull, kind: int, first: int,
    n: int,
) -> Integers:  # fmt: skip
    """Do the same; ``run`` is like ``map``, and may do what rule 2 asks for on several threads."""
    chosen = _choose_and_find(key, hull, first, n)
    most, log_f = _begin(model, hull, kind, n)
    n_blocks = log_f.shape[2] // ABREAST

    def compute(start: int) -> None:
        stop = min(start + BLOCKS_AT_ONCE, n_blocks)
        _compute(model, data, hull, most, chosen, start, stop, log_f)

    for _ in run(compute, range(0, n_blocks, BLOCKS_AT_ONCE)):
        pass
    return _move_all(key, model, data, sticks, hull, most, first, chosen, log_f)


@compiled
def _choose_and_find(key: Key, hull: Hull, first: int, n: int) -> Integers:
    return find_chosen(hull.labels, hull.nodes.size, choose_singles(key, first, n, hull))


@compiled
def _begin(model: Any, hull: Hull, kind: int, n: int) -> tuple[int, Floats]:
    """Return how large leaves are that are integrated out, and room for ``n`` log likelihoods."""
    most = MOST_AT_LEAF if kind == SMALL_LEAVES else 0
    n_levels = min(LEVELS, contract.n_exact_levels(model))
    n_blocks = -(-hull.nodes.size // ABREAST)
    return most, np.empty((n_levels + 1, n, n_blocks * ABREAST))


@compiled
def _move_all(
    key: Key,
    model: Any,
    data: Any,
    sticks: Sticks,
    hull: Hull,
    most: int,
    first: int,
    chosen: Integers,
    log_f: Floats,
) -> Integers:
    """Move data one by one; ``log_f`` are their log likelihoods, which follow what changes."""
    n = chosen.size
    counts = np.zeros(2, dtype=np.int64)
    _, prepared_width, _ = contract.widths(model)
    prepared = np.zeros((log_f.shape[0], prepared_width, ABREAST))
    desk = make_desk(log_f.shape[0] - 1, hull.nodes.size, prepared_width, hull.theta.shape[1])
    desk.n_some[0] = count_some(hull)
    logs = _make_logs(sticks, hull)
    for number in chosen:
        desk.n_chosen[on.node_of(hull, number)] += 1
    for k in range(n):
        stream = open_stream(key_for(key, Purpose.STRUCTURE, first + k))
        for _ in range(N_WORDS):
            uniform(stream)  # they chose the datum
        counts[0] += 1
        before = on.node_of(hull, chosen[k])
        desk.n_times[0] = np.sum(chosen[k:] == chosen[k])
        desk.n_chosen[before] -= desk.n_times[0]
        n_new = _move_one(
            stream, model, data, sticks, hull, most, chosen[k:], log_f[:, k], desk, logs
        )
        row = on.node_of(hull, chosen[k])
        desk.n_chosen[row] += desk.n_times[0] - 1
        counts[1] += row != before or n_new != 0
        if most > 0 and row != before:  # rule 2
            if hull.nodes[before].place != NULL:
                _compute_again(model, data, hull, most, chosen, k + 1, before, prepared, log_f)
            n_new = max(n_new, 1)
        for _ in range(n_new):
            _compute_again(model, data, hull, most, chosen, k + 1, row, prepared, log_f)
            row = hull.nodes[row].parent
    return counts


class Desk(NamedTuple):
    """Room to work in."""

    weights: Floats
    """Of each place: how many levels below which node."""
    reach: Floats
    """Of each node: log probabilities of passing through it, and of a new child of it."""
    prepared: Floats
    theta: Floats
    n_chosen: Integers
    """Of each node: how many of the choices yet to come are of its data, the present one apart."""
    n_times: Integers
    """How often the present one was chosen, now and for later."""
    n_some: Integers
    """How many nodes have data; and for how many ``log_chances`` are."""
    log_chances: Floats
    """Of a datum that is one of so many at its node; nan where nobody has asked yet."""
    places: Integers
    """Those that are possible: node, and levels below it."""


@compiled
def make_desk(n_levels: int, n_rows: int, prepared_width: int, width: int) -> Desk:
    """Return room for so many levels below nodes, and rows; nothing is chosen."""
    none = np.zeros(1, dtype=np.int64)
    return Desk(
        np.empty((n_levels + 1, n_rows)), np.empty(n_rows), np.empty(prepared_width),
        np.empty(width), np.zeros(n_rows, dtype=np.int64), none, np.zeros(2, dtype=np.int64),
        np.full(MOST_CHANCES, math.nan), np.empty(((n_levels + 1) * n_rows, 2), dtype=np.int64),
    )  # fmt: skip


@compiled
def count_some(hull: Hull) -> int:
    """Return how many nodes have data."""
    n_some = 0
    for k in range(hull.counts[ALIVE]):
        n_some += hull.nodes[hull.nodes[k].alive].n_here > 0
    return n_some


@compiled
def _take(hull: Hull, model: Any, data: Any, n: int, desk: Desk) -> None:
    row = on.node_of(hull, n)
    on.take_datum(hull, model, data, n)
    desk.n_some[0] -= hull.nodes[row].n_here == 0


@compiled
def _put(hull: Hull, model: Any, data: Any, n: int, row: int, desk: Desk) -> None:
    on.put_datum(hull, model, data, n, row)
    desk.n_some[0] += hull.nodes[row].n_here == 1


@compiled
def _is_small_leaf(hull: Hull, row: int, most: int) -> bool:
    """Say whether the parameters of a node are integrated out; never if ``most`` is 0."""
    is_leaf = row != 0 and hull.nodes[row].n_children == 0
    return is_leaf and hull.nodes[row].n_here <= most


@compiled
def _prepare_leaf(model: Any, hull: Hull, row: int, theta: Floats, prepared: Floats) -> None:
    """Prepare the likelihood of one datum more, with the parameters of a leaf integrated out."""
    above, none = on.above(hull, row), np.empty((0, theta.size))
    n_here = 1.0 * hull.nodes[row].n_here
    contract.estimate(model, above, none, n_here, hull.statistics[row], theta)
    contract.prepare_leaf(model, above, n_here, hull.statistics[row], theta, prepared)


@compiled
def _prepare(model: Any, hull: Hull, row: int, most: int, prepared: Floats) -> int:
    """Prepare likelihoods at a node, and at the end of chains below it; return how many."""
    one = np.empty(prepared.shape[1])
    is_small = _is_small_leaf(hull, row, most)
    n_prepared = 1 if is_small else prepared.shape[0]  # rule 1
    for levels in range(n_prepared):
        if is_small:
            _prepare_leaf(model, hull, row, np.empty(hull.theta.shape[1]), one)
        elif levels == 0:
            contract.prepare(model, hull.theta[row], one)
        else:
            contract.prepare_unseen(model, hull.theta[row], levels, one)
        for j in range(one.size):
            prepared[levels, j, row % ABREAST] = one[j]
    return n_prepared


@compiled
def _compute(
    model: Any,
    data: Any,
    hull: Hull,
    most: int,
    chosen: Integers,
    first: int,
    last: int,
    log_f: Floats,
) -> None:
    """Write the log likelihoods of all data at the nodes of some blocks, before ``last``.

    What is written for rows that no node has means nothing, and is not read; nor is that of chains
    below a leaf that is integrated out.
    """
    _, prepared_width, _ = contract.widths(model)
    prepared = np.zeros((log_f.shape[0], prepared_width, ABREAST))
    for block in range(first, last):
        start = block * ABREAST
        n_prepared = 0
        for row in range(start, min(start + ABREAST, hull.nodes.size)):
            if hull.nodes[row].place != NULL:
                n_prepared = max(n_prepared, _prepare(model, hull, row, most, prepared))
        for levels in range(n_prepared):
            for k in range(chosen.size):
                contract.log_likelihoods(
                    model, data, chosen[k], chosen[k] + 1, prepared[levels],
                    log_f[levels, k, start : start + ABREAST].reshape((1, ABREAST)),
                )  # fmt: skip


@compiled
def _compute_again(
    model: Any,
    data: Any,
    hull: Hull,
    most: int,
    chosen: Integers,
    first: int,
    row: int,
    prepared: Floats,
    log_f: Floats,
) -> None:
    """Write the log likelihoods of those from ``first`` on at a node that has changed."""
    logs = np.empty((1, ABREAST))
    for levels in range(_prepare(model, hull, row, most, prepared)):
        for k in range(first, chosen.size):
            contract.log_likelihoods(model, data, chosen[k], chosen[k] + 1, prepared[levels], logs)
            log_f[levels, k, row] = logs[0, row % ABREAST]


@compiled
def _move_one(
    stream: Stream,
    model: Any,
    data: Any,
    sticks: Sticks,
    hull: Hull,
    most: int,
    chosen: Integers,
    log_f: Floats,
    desk: Desk,
    logs: Logs,
) -> int:
    """Move the datum that was chosen first, of those whose turn is yet to come.

    Return the length of its new chain, or minus that of the one it had.
    """
    n = chosen[0]
    old = on.node_of(hull, n)
    top, length = _own_chain(hull, old)
    if length >= log_f.shape[0] or (length > 0 and _hangs_from_small_leaf(hull, top, most)):
        return 0  # rule 1
    _take(hull, model, data, n, desk)
    over = old
    if length > 0:
        over = hull.nodes[top].parent
        on.take_off(hull, top)
    for _ in range(length):
        parent = hull.nodes[old].parent
        on.remove_node(hull, old)
        old = parent
    leaves_small = length == 0 and _is_small_leaf(hull, over, most)
    if leaves_small:
        _prepare_leaf(model, hull, over, desk.theta, desk.prepared)
        log_f[0, over] = contract.log_likelihood(model, data, n, desk.prepared)
    row, levels = _choose(stream, sticks, hull, most, chosen, log_f, desk, logs)
    if length == 0 and levels == 0 and row == over:
        _put(hull, model, data, n, over, desk)
        return 0
    joins_small = levels == 0 and _is_small_leaf(hull, row, most)
    if leaves_small or joins_small:
        # The ratio of the module's head. Parameters change only if it is accepted.
        thetas = hull.theta[np.array([over, row])]
        log_ratio = 0.0
        if leaves_small:
            log_ratio += _log_renewed(stream, model, data, hull, n, over, True) + log_f[0, over]
        if joins_small:
            log_ratio += _log_renewed(stream, model, data, hull, n, row, False) - log_f[0, row]
        if not log_ratio > -exponential(stream):
            if leaves_small:
                hull.theta[over] = thetas[0]
            if joins_small:
                hull.theta[row] = thetas[1]
            _put_back(hull, over, length)
            _put(hull, model, data, n, on.node_of(hull, n), desk)
            return 0
    if levels > 0:
        thetas = np.empty((levels, hull.theta.shape[1]))
        contract.draw_chain(stream, model, data, n, hull.theta[row], thetas)
        for k in range(levels):
            new = on.add_node(hull, next_word(stream))
            hull.theta[new] = thetas[k]
            on.hang(hull, new, row)
            row = new
    _put(hull, model, data, n, row, desk)
    return levels if levels > 0 else -length


@compiled
def _log_renewed(
    stream: Stream, model: Any, data: Any, hull: Hull, n: int, row: int, had: bool
) -> float:
    """Draw the parameters of a leaf that has lost a datum, which is nowhere, or will have it.

    Return log W(new) - log W(old). The datum is nowhere in the end.
    """
    label = hull.labels[n]
    one = np.full(1, row)
    log_ratio = 0.0
    for turn in range(2):
        has = had == (turn == 0)
        if has:
            on.put_datum(hull, model, data, n, row)
        if turn == 0:
            log_ratio -= on.fit_rows(stream, model, hull, one, GIVEN)
        else:
            log_ratio += on.fit_rows(stream, model, hull, one, DRAWN)
        if has:
            on.take_datum(hull, model, data, n)
    hull.labels[n] = label
    return log_ratio


@compiled
def _put_back(hull: Hull, over: int, length: int) -> None:
    """Let a datum's own chain be as it was, right after it was removed."""
    for _ in range(length):
        row = on.add_node(hull, hull.nodes[hull.nodes[hull.counts[FREE] - 1].free].entity)
        on.hang(hull, row, over)
        over = row


@compiled
def _hangs_from_small_leaf(hull: Hull, top: int, most: int) -> bool:
    """Say whether the parent of ``top`` would be a leaf that is integrated out without it."""
    over = hull.nodes[hull.nodes[top].parent]
    return hull.nodes[top].parent != 0 and over.n_children == 1 and over.n_here <= most


@compiled
def _own_chain(hull: Hull, row: int) -> tuple[int, int]:
    """Return the top and the length of the chain of nodes that lead to a datum alone at ``row``."""
    top, length = NULL, 0
    if hull.nodes[row].n_here == 1 and hull.nodes[row].n_children == 0:
        while row != 0 and (length == 0 or _leads_on(hull, row)):
            top = row
            length += 1
            row = hull.nodes[row].parent
    return top, length


@compiled
def _leads_on(hull: Hull, row: int) -> bool:
    """Say whether a node has nothing but one child."""
    return hull.nodes[row].n_here == 0 and hull.nodes[row].n_children == 1


@compiled
def _choose(
    stream: Stream,
    sticks: Sticks,
    hull: Hull,
    most: int,
    chosen: Integers,
    log_f: Floats,
    desk: Desk,
    logs: Logs,
) -> tuple[int, int]:
    """Choose a node for the datum that was chosen first, which is nowhere; and how far below it.

    Choices with less than e**-50 of the largest weight are as good as impossible, for they would
    not change the sum.
    """
    for_new = _log_for_new(hull, chosen, desk)
    n_times, n_some, n_data = desk.n_times[0], desk.n_some[0], hull.counts[DATA]
    # Numba hands on each array of a tuple by itself: a call with all of them takes as long as a
    # logarithm, so this loop calls nothing that would need them.
    nodes, weights, reach = hull.nodes, desk.weights, desk.reach
    log_chances, of_nodes = desk.log_chances, desk.n_chosen
    largest = -math.inf
    row = 0
    while row != NULL:
        n_here, n_below = nodes[row].n_here, nodes[row].n_below
        depth = nodes[row].depth
        reached = 0.0
        if row != 0:
            reached = reach[nodes[row].parent] + _log(logs.whole, n_here + n_below)
        alpha = logs.alpha[depth]
        log_all = math.log(n_here + n_below + alpha + 1.0)
        if n_below == 0:
            log_on = logs.log_alpha[depth] - log_all - logs.log_gamma
        else:
            log_on = math.log((n_below + alpha) / (n_below + sticks.gamma)) - log_all
        reach[row] = reached + log_on
        log_p = log_f[0, row] + (reached + _log(logs.whole, n_here + 1) - log_all)
        if n_here == 0:
            log_p += for_new
        else:
            n_chosen = of_nodes[row]
            more = _log_chance(log_chances, n_data, n_some, n_here + 1)
            log_p += (n_chosen + n_times) * more
            if n_chosen > 0:
                log_p -= n_chosen * _log_chance(log_chances, n_data, n_some, n_here)
        weights[0, row] = log_p
        largest = max(largest, log_p)
        log_chain = reach[row] + logs.log_gamma
        has_chains = row == 0 or nodes[row].n_children > 0 or n_here > most  # rule 1
        for levels in range(1, log_f.shape[0]):
            log_p = -math.inf
            if has_chains:
                log_p = log_f[levels, row] + (log_chain - logs.log_stop[depth + levels] + for_new)
            log_chain += logs.log_alpha[depth + levels] - logs.log_stop[depth + levels]
            weights[levels, row] = log_p
            largest = max(largest, log_p)
        row = on.next_row(nodes, row, 0)
    total, n_places = 0.0, 0
    places = desk.places
    for k in range(hull.counts[ALIVE]):
        row = nodes[k].alive
        for levels in range(log_f.shape[0]):
            less = weights[levels, row] - largest
            weights[levels, row] = math.exp(less) if less > -50.0 else 0.0
            if less > -50.0:
                places[n_places] = row, levels
                total += weights[levels, row]
                n_places += 1
    dart = uniform(stream) * total
    last = 0
    for k in range(n_places):
        if dart >= 0.0:
            last = k
            dart -= weights[places[k, 1], places[k, 0]]
    return places[last, 0], places[last, 1]


@compiled
def _log_for_new(hull: Hull, chosen: Integers, desk: Desk) -> float:
    """Return the log of s if the datum that was chosen first is the only one at its node.

    That is less the log of s of the other choices in the tree without the datum (rule 3).
    """
    n_some, n_data = desk.n_some[0], hull.counts[DATA]
    if desk.n_some[1] != n_some:
        desk.n_some[1] = n_some
        desk.log_chances[:] = math.nan
    for_new = desk.n_times[0] * _log_of_chance(n_data, n_some + 1, 1)
    for k in range(1, chosen.size):
        if chosen[k] != chosen[0]:
            n_here = hull.nodes[on.node_of(hull, chosen[k])].n_here
            for_new += _log_of_chance(n_data, n_some + 1, n_here)
            for_new -= _log_chance(desk.log_chances, n_data, n_some, n_here)
    return for_new


@inlined
def _log_chance(log_chances: Floats, n_data: int, n_some: int, n_here: int) -> float:
    """Return the log probability that a datum is chosen, one of so many at its node.

    ``log_chances`` are those that were asked for before, with as many nodes that have data.
    """
    if n_here >= log_chances.size:
        return _log_of_chance(n_data, n_some, n_here)
    if math.isnan(log_chances[n_here]):
        log_chances[n_here] = _log_of_chance(n_data, n_some, n_here)
    return log_chances[n_here]


@compiled
def _log_of_chance(n_data: int, n_some: int, n_here: int) -> float:
    return math.log(0.5 / n_data + 0.5 / (n_some * n_here))
