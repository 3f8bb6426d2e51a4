"""Metropolis-Hastings move: cut a node in two, or put two nodes together.

A split takes a node A, with its data and its children, and gives some of both to a new node B,
which becomes a child of a node Q: of A itself, of A's parent, or of any other. A merge takes two
nodes and gives all that B has to A. Parameters of A and B are drawn anew both ways, from the
model's proposal q with weights W = p(theta, data, children | parents) / q(theta), see
:func:`treestick.contract.fit_group`, so a split is accepted with

    min(1, p(split) W(A, B) m(A, B) / [ p(merged) W(A) s(A) r(Q) c(sides) ])

and a merge with the inverse. Here p is the probability of the tree partition; s, r and c are the
probabilities of choosing A, Q, and what goes to which side, all computed in the merged state; m is
the probability of choosing the pair, computed in the split state.

There are two pairs of moves (Wang & Russell 2015), each reversible by itself:

- **smart split, plain merge**: c is led by the data, m is not;
- **plain split, smart merge**: sides are drawn by a coin of unknown bias, and m prefers nodes whose
  parameters suit the data of the other. A clever split alone would never be undone where a node
  was cut at random: to propose just this cut would take a miracle.

Rule 1. What leads c may look at the union of the data, the children, the parents and randomness
that is drawn anew both ways: never at theta of A or B or at their present sides.
Rule 2. m looks at the split state with its parameters: after a split, with those just drawn.
Rule 3. Neither way may leave a node without data at or below it. The new place of B may not lie
below B itself.
Rule 4. Of the ratio, what takes long is computed last, and not at all where the other factors are
too small already: it is a probability, so it makes none of them larger.
"""

import math
from typing import Any

import numpy as np

from treestick import contract
from treestick._jit import compiled
from treestick.contract import DRAWN, GIVEN
from treestick.moves.state import Floats, Integers, Sticks
from treestick.moves.structure import hull as on
from treestick.moves.structure.choices import choose_below_root, choose_node, log_choice_of_node
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

SMART_SPLIT, SMART_MERGE = 0, 1
N_LAUNCH_STEPS = 4
MOST_LAUNCHED = 1000
"""Data that take part in the launch; all are given a side in the end."""
LEAST = 1e-4
"""No side is less likely than this."""


@compiled
def move_split_merge(
    key: Key, model: Any, data: Any, sticks: Sticks, hull: Hull, kind: int, first: int, n: int
) -> Integers:
    """Propose ``n`` splits or merges, numbered from ``first``, or fewer if the hull is full.

    Return how many there were, how many splits were accepted, and how many merges.
    """
    counts = np.zeros(3, dtype=np.int64)
    for number in range(first, first + n):
        if hull.counts[FREE] == 0:
            break
        counts[0] += 1
        stream = open_stream(key_for(key, Purpose.STRUCTURE, number))
        if uniform(stream) < 0.5:
            counts[1] += _split(stream, model, data, sticks, hull, kind)
        else:
            counts[2] += _merge(stream, model, data, sticks, hull, kind)
    return counts


@compiled
def _split(stream: Stream, model: Any, data: Any, sticks: Sticks, hull: Hull, kind: int) -> bool:
    a = choose_node(stream, hull)
    q = _choose_place(stream, hull, a)
    rows, children = on.data_of(hull, a), on.children_of(hull, a)
    if q == NULL or rows.size + children.size == 0:
        return False
    on_b = np.empty(rows.size + children.size, dtype=np.bool_)
    if kind == SMART_SPLIT:
        log_c = _lead_sides(stream, model, data, hull, a, q, rows, children, on_b, DRAWN)
    else:
        log_c = _toss_sides(stream, rows.size, on_b, DRAWN)
    if not _may_give(hull, a, q, children, on_b):
        return False
    log_proposed = log_choice_of_node(hull, a) + _log_choice_of_place(hull, a, q) + log_c
    before = on.log_tree(hull, sticks) + on.fit_rows(stream, model, hull, np.array([a]), GIVEN)
    theta, statistics = hull.theta[a].copy(), hull.statistics[a].copy()
    b = on.add_node(hull, next_word(stream))
    _give(hull, model, data, a, b, q, rows, children, on_b)
    after = on.log_tree(hull, sticks) + on.fit_rows(stream, model, hull, np.array([a, b]), DRAWN)
    log_ratio = after - before - log_proposed
    level = -exponential(stream)
    if log_ratio > level:  # rule 4
        log_ratio += _log_choice_of_pair(model, hull, a, b, kind)
    if log_ratio > level:
        return True
    _absorb(hull, a, b)
    hull.theta[a] = theta
    hull.statistics[a] = statistics
    return False


@compiled
def _merge(stream: Stream, model: Any, data: Any, sticks: Sticks, hull: Hull, kind: int) -> bool:
    a, b = _choose_pair(stream, model, hull, kind)
    if a == NULL:
        return False
    q = hull.nodes[b].parent
    if q != a and hull.nodes[q].n_here == 0 and hull.nodes[q].n_children == 1:
        return False  # rule 3
    log_proposed = _log_choice_of_pair(model, hull, a, b, kind)
    before = on.log_tree(hull, sticks) + on.fit_rows(stream, model, hull, np.array([a, b]), GIVEN)
    theta_a, theta_b = hull.theta[a].copy(), hull.theta[b].copy()
    statistics_a, statistics_b = hull.statistics[a].copy(), hull.statistics[b].copy()
    entity = hull.nodes[b].entity
    n_of_a = hull.nodes[a].n_here
    children_of_b = on.children_of(hull, b)
    _absorb(hull, a, b)
    rows, children = on.data_of(hull, a), on.children_of(hull, a)
    on_b = np.zeros(rows.size + children.size, dtype=np.bool_)
    on_b[n_of_a : rows.size] = True
    for k in range(children.size):
        for child in children_of_b:
            if child == children[k]:
                on_b[rows.size + k] = True
    after = on.log_tree(hull, sticks) + on.fit_rows(stream, model, hull, np.array([a]), DRAWN)
    log_ratio = after - before - log_proposed
    log_ratio += log_choice_of_node(hull, a) + _log_choice_of_place(hull, a, q)
    level = -exponential(stream)
    if log_ratio > level:  # rule 4
        if kind == SMART_SPLIT:
            log_c = _lead_sides(stream, model, data, hull, a, q, rows, children, on_b, GIVEN)
        else:
            log_c = _toss_sides(stream, rows.size, on_b, GIVEN)
        log_ratio += log_c
    if log_ratio > level:
        return True
    b = on.add_node(hull, entity)
    _give(hull, model, data, a, b, q, rows, children, on_b)
    hull.theta[a] = theta_a
    hull.theta[b] = theta_b
    hull.statistics[a] = statistics_a
    hull.statistics[b] = statistics_b
    return False


# -- what changes hands ----------------------------------------------------------------------------


@compiled
def _may_give(hull: Hull, a: int, q: int, children: Integers, on_b: Any) -> bool:
    """Say whether rule 3 allows these sides. ``on_b`` has the data first, then the children."""
    n_rows = on_b.size - children.size
    n_on_b = 0
    for k in range(on_b.size):
        n_on_b += on_b[k]
    if n_on_b == 0:
        return False
    if q == a:
        return True
    if n_on_b == on_b.size:
        return False
    row = q
    while row != NULL:
        for k in range(children.size):
            if children[k] == row and on_b[n_rows + k]:
                return False
        row = hull.nodes[row].parent
    return True


@compiled
def _give(
    hull: Hull,
    model: Any,
    data: Any,
    a: int,
    b: int,
    q: int,
    rows: Integers,
    children: Integers,
    on_b: Any,
) -> None:
    """Give one side of what A has to the new node B, a child of Q."""
    n_b = 0
    for k in range(rows.size):
        n_b += on_b[k]
    rows_a = np.empty(rows.size - n_b, dtype=np.int64)
    rows_b = np.empty(n_b, dtype=np.int64)
    i, j = 0, 0
    for k in range(rows.size):
        if on_b[k]:
            rows_b[j] = rows[k]
            j += 1
        else:
            rows_a[i] = rows[k]
            i += 1
    on.put_data(hull, model, data, a, rows_a)
    on.put_data(hull, model, data, b, rows_b)
    on.count_through(hull, a, -n_b)
    for k in range(children.size):
        if on_b[rows.size + k]:
            on.take_off(hull, children[k])
            on.hang(hull, children[k], b)
    on.hang(hull, b, q)


@compiled
def _absorb(hull: Hull, a: int, b: int) -> None:
    """Give all that B has to A: its data behind those of A; and forget B."""
    rows, children = on.data_of(hull, b), on.children_of(hull, b)
    on.take_off(hull, b)
    for k in range(children.size):
        on.take_off(hull, children[k])
        on.hang(hull, children[k], a)
    last = NULL
    n = hull.nodes[a].first_datum
    while n != NULL:
        last, n = n, hull.data[n].next
    if rows.size > 0:
        hull.data[rows[0]].previous = last
        if last == NULL:
            hull.nodes[a].first_datum = rows[0]
        else:
            hull.data[last].next = rows[0]
    for n in rows:
        hull.data[n].node = a
    hull.nodes[a].n_here += rows.size
    on.count_through(hull, a, rows.size)
    for d in range(hull.statistics.shape[1]):
        hull.statistics[a, d] += hull.statistics[b, d]
    on.remove_node(hull, b)


# -- choices ---------------------------------------------------------------------------------------


@compiled
def _choose_place(stream: Stream, hull: Hull, a: int) -> int:
    """Choose Q: A itself, its parent (NULL if it has none) or any node."""
    dart = uniform(stream)
    if dart < 0.5:
        return a
    if dart < 0.75:
        return hull.nodes[a].parent
    return hull.nodes[int(uniform(stream) * hull.counts[ALIVE])].alive


@compiled
def _log_choice_of_place(hull: Hull, a: int, q: int) -> float:
    p = 0.25 / hull.counts[ALIVE]
    if q == a:
        p += 0.5
    if q == hull.nodes[a].parent:
        p += 0.25
    return math.log(p)


@compiled
def _choose_pair(stream: Stream, model: Any, hull: Hull, kind: int) -> tuple[int, int]:
    """Choose B, any node but the root, and A, neither B nor below it; NULL if there is none."""
    n_nodes = hull.counts[ALIVE]
    if n_nodes == 1:
        return NULL, NULL
    b = choose_below_root(stream, hull)
    if kind == SMART_SPLIT:
        dart = uniform(stream)
        if dart < 0.5:
            a = hull.nodes[b].parent
        elif dart < 0.75:
            a = hull.nodes[hull.nodes[b].parent].first_child
            for _ in range(int(uniform(stream) * hull.nodes[hull.nodes[b].parent].n_children)):
                a = hull.nodes[a].next_sibling
        else:
            a = hull.nodes[int(uniform(stream) * n_nodes)].alive
        return (NULL, NULL) if on.is_at_or_above(hull, b, a) else (a, b)
    p = _suitability(model, hull, b)
    dart = uniform(stream)
    a = NULL
    for k in range(n_nodes):
        if p[k] > 0.0:
            a = hull.nodes[k].alive
            dart -= p[k]
            if dart < 0.0:
                break
    return a, b


@compiled
def _log_choice_of_pair(model: Any, hull: Hull, a: int, b: int, kind: int) -> float:
    n_nodes = hull.counts[ALIVE]
    if kind == SMART_SPLIT:
        p = 0.25 / n_nodes
        if a == hull.nodes[b].parent:
            p += 0.5
        elif hull.nodes[a].parent == hull.nodes[b].parent:
            p += 0.25 / hull.nodes[hull.nodes[b].parent].n_children
    else:
        p = _suitability(model, hull, b)[hull.nodes[a].place]
    return math.log(p) - math.log(n_nodes - 1.0) if p > 0.0 else -math.inf


@compiled
def _suitability(model: Any, hull: Hull, b: int) -> Floats:
    """Return probabilities of each A of ``alive``: how well its parameters suit what B has.

    They are exp of the mean, over data and children of B, of the difference in log likelihood (or
    in log T) between A's parameters and B's, made to sum to one over all nodes not below B.
    """
    n_nodes = hull.counts[ALIVE]
    children = on.children_of(hull, b)
    n_items = hull.nodes[b].n_here + children.size
    p = np.zeros(n_nodes)
    largest = -math.inf
    for k in range(n_nodes):
        a = hull.nodes[k].alive
        if not on.is_at_or_above(hull, b, a):
            p[k] = contract.log_likelihood_of_sums(
                model, hull.theta[a], hull.nodes[b].n_here, hull.statistics[b]
            )
            for child in children:
                p[k] += contract.log_transition(model, hull.theta[a], hull.theta[child])
            p[k] /= n_items
            largest = max(largest, p[k])
    total = 0.0
    for k in range(n_nodes):
        a = hull.nodes[k].alive
        p[k] = 0.0 if on.is_at_or_above(hull, b, a) else math.exp(p[k] - largest)
        total += p[k]
    for k in range(n_nodes):
        p[k] /= total
    return p


# -- sides -----------------------------------------------------------------------------------------


@compiled
def _toss_sides(stream: Stream, n_rows: int, on_b: Any, is_drawn: np.int64) -> float:
    """Toss a coin of unknown bias for the data and another one for the children.

    With the bias uniform, n_b of n on B have the probability n_b! (n - n_b)! / (n + 1)!. Return the
    logarithm for the sides in ``on_b``, which are drawn if ``is_drawn``.
    """
    log_c = 0.0
    for part in range(2):
        start = 0 if part == 0 else n_rows
        stop = n_rows if part == 0 else on_b.size
        if is_drawn == DRAWN:
            bias = uniform(stream)
            for k in range(start, stop):
                on_b[k] = uniform(stream) < bias
        n_b = 0
        for k in range(start, stop):
            n_b += on_b[k]
        n = stop - start
        log_c += math.lgamma(n_b + 1.0) + math.lgamma(n - n_b + 1.0) - math.lgamma(n + 2.0)
    return log_c


@compiled
def _lead_sides(
    stream: Stream,
    model: Any,
    data: Any,
    hull: Hull,
    a: int,
    q: int,
    rows: Integers,
    children: Integers,
    on_b: Any,
    is_drawn: np.int64,
) -> float:
    """Let the data lead: from one of them (or of the children), a few steps of two means.

    An anchor is chosen, and its side starts with parameters estimated from it alone; then data and
    children go where they are likelier and both sides are estimated again, some times. In the end
    each has a probability of its own for B. Which of the two is called B is a coin's choice. Return
    the log probability of the sides in ``on_b``, which are drawn if ``is_drawn``.
    """
    width, prepared_width, statistics_width = contract.widths(model)
    n_launched = min(rows.size, MOST_LAUNCHED)
    launched = rows
    if rows.size > MOST_LAUNCHED:
        launched = np.empty(n_launched, dtype=np.int64)
        for k in range(n_launched):
            launched[k] = rows[int(uniform(stream) * rows.size)]
    scale = rows.size / max(n_launched, 1)
    statistics = np.zeros((2, statistics_width))
    counts = np.zeros(2)
    theta = np.empty((2, width))
    prepared = np.empty((2, prepared_width))
    belows = np.empty((2, children.size, width))
    n_belows = np.zeros(2, dtype=np.int64)
    for n in launched:
        contract.add_statistics(model, data, n, statistics[0])
    counts[0] = n_launched
    for k in range(children.size):
        belows[0, k] = hull.theta[children[k]]
    n_belows[0] = children.size
    is_child = rows.size == 0 or (children.size > 0 and uniform(stream) < 0.5)
    if is_child:
        belows[1, 0] = hull.theta[children[int(uniform(stream) * children.size)]]
        n_belows[1] = 1
    else:
        n = rows[int(uniform(stream) * rows.size)]
        contract.add_statistics(model, data, n, statistics[1])
        counts[1] = 1.0
    lean = 0.0  # towards B, from how many there are
    for step in range(N_LAUNCH_STEPS + 1):
        for side in range(2):
            if side == 1 and q == a:
                over = theta[0]
            elif side == 1:
                over = hull.theta[q]
            else:
                over = on.above(hull, a)
            if step > 0:
                for d in range(statistics_width):
                    statistics[side, d] *= scale
                counts[side] *= scale
            contract.estimate(
                model, over, belows[side, : n_belows[side]], counts[side], statistics[side],
                theta[side],
            )  # fmt: skip
            contract.prepare(model, theta[side], prepared[side])
        if step > 0:
            lean = math.log((counts[1] + 1.0) / (counts[0] + 1.0))
        if step == N_LAUNCH_STEPS:
            break
        statistics[:] = 0.0
        counts[:] = 0.0
        n_belows[:] = 0
        for n in launched:
            difference = contract.log_likelihood(
                model, data, n, prepared[1]
            ) - contract.log_likelihood(model, data, n, prepared[0])
            side = 1 if difference + lean > 0.0 else 0
            contract.add_statistics(model, data, n, statistics[side])
            counts[side] += 1.0
        for k in range(children.size):
            child = hull.theta[children[k]]
            difference = contract.log_transition(model, theta[1], child) - contract.log_transition(
                model, theta[0], child
            )
            side = 1 if difference > 0.0 else 0
            belows[side, n_belows[side]] = child
            n_belows[side] += 1

    is_swapped = is_drawn == DRAWN and uniform(stream) < 0.5
    log_c, log_c_swapped = 0.0, 0.0
    for k in range(on_b.size):
        if k < rows.size:
            n = rows[k]
            difference = lean + contract.log_likelihood(model, data, n, prepared[1])
            difference -= contract.log_likelihood(model, data, n, prepared[0])
        else:
            child = hull.theta[children[k - rows.size]]
            difference = contract.log_transition(model, theta[1], child)
            difference -= contract.log_transition(model, theta[0], child)
        p = LEAST + (1.0 - 2.0 * LEAST) / (1.0 + math.exp(min(-difference, 500.0)))
        if is_drawn == DRAWN:
            on_b[k] = (uniform(stream) < p) != is_swapped
        log_c += math.log(p if on_b[k] else 1.0 - p)
        log_c_swapped += math.log(1.0 - p if on_b[k] else p)
    larger, smaller = max(log_c, log_c_swapped), min(log_c, log_c_swapped)
    return larger + math.log1p(math.exp(smaller - larger)) - math.log(2.0)
