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
from treestick.moves.structure.choices import (
    choose_below_root,
    choose_node,
    log_choice_of_node,
    pick,
)
from treestick.moves.structure.hull import ALIVE, DATA, FREE, Hull
from treestick.moves.structure.records import Merged, Sides
from treestick.moves.tasks import sum_rows, sum_terms
from treestick.random import (
    Key,
    Purpose,
    Stream,
    exponential,
    key_for,
    key_of_part,
    next_word,
    open_stream,
    reopen,
    uniform,
)
from treestick.tree.table import NULL

SMART_SPLIT, SMART_MERGE = 0, 1
N_LAUNCH_STEPS = 4
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
        of_data = key_of_part(key, number)
        if uniform(stream) < 0.5:
            counts[1] += _split(of_data, stream, model, data, sticks, hull, kind)
        else:
            counts[2] += _merge(of_data, stream, model, data, sticks, hull, kind)
    return counts


@compiled
def _split(
    key: Key, stream: Stream, model: Any, data: Any, sticks: Sticks, hull: Hull, kind: int
) -> bool:
    a, q = choose_split(stream, hull)
    if a == NULL:
        return False
    rows, children = on.data_of(hull, a), on.children_of(hull, a)
    on_b = np.empty(rows.size, dtype=np.bool_)
    adopted = np.empty(children.size, dtype=np.bool_)
    log_c = 0.0
    if kind == SMART_SPLIT:
        picked = rows[pick(stream, rows.size)]
        sides = launch(stream, model, data, hull, a, q, rows.size, picked, children)
        logs = divide_data(key, model, data, 0, rows, hull.counts[DATA], sides, on_b, DRAWN)
        logs += divide_children(stream, model, hull, sides, children, adopted, DRAWN)
        log_c = log_mean(logs)
    else:
        toss_data(key, 0, rows, uniform(stream), on_b)
        log_c = log_toss(int(np.sum(on_b)), rows.size) + toss_children(stream, adopted, DRAWN)
    given = rows[on_b]
    sums = sum_rows(model, data, given, hull.counts[DATA])
    b = finish_split(
        stream, model, sticks, hull, a, q, given.size, sums, children, adopted, log_c, kind
    )
    if b == NULL:
        return False
    on.relabel(hull, given, b)
    return True


@compiled
def choose_split(stream: Stream, hull: Hull) -> tuple[int, int]:
    """Choose A and Q; NULL if there is nothing to split."""
    a = choose_node(stream, hull)
    q = _choose_place(stream, hull, a)
    if q == NULL or hull.nodes[a].n_here + hull.nodes[a].n_children == 0:
        return NULL, NULL
    return a, q


@compiled
def finish_split(
    stream: Stream,
    model: Any,
    sticks: Sticks,
    hull: Hull,
    a: int,
    q: int,
    n_given: int,
    sums: Floats,
    children: Integers,
    adopted: Any,
    log_c: float,
    kind: int,
) -> int:
    """Accept a split or not; return the row of B, or NULL. Labels of data are the caller's.

    B is to get ``n_given`` data with statistics ``sums``, and the adopted children.
    """
    if not _may_give(hull, a, q, n_given, children, adopted):
        return NULL
    log_proposed = log_choice_of_node(hull, a) + _log_choice_of_place(hull, a, q) + log_c
    before = on.log_tree(hull, sticks) + on.fit_rows(stream, model, hull, np.array([a]), GIVEN)
    theta, statistics = hull.theta[a].copy(), hull.statistics[a].copy()
    b = on.add_node(hull, next_word(stream))
    _give(hull, a, b, q, n_given, sums, children, adopted)
    after = on.log_tree(hull, sticks) + on.fit_rows(stream, model, hull, np.array([a, b]), DRAWN)
    log_ratio = after - before - log_proposed
    level = -exponential(stream)
    if log_ratio > level:  # rule 4
        log_ratio += _log_choice_of_pair(model, hull, a, b, kind)
    if log_ratio > level:
        return b
    _absorb(hull, a, b)
    hull.theta[a] = theta
    hull.statistics[a] = statistics
    return NULL


@compiled
def _merge(
    key: Key, stream: Stream, model: Any, data: Any, sticks: Sticks, hull: Hull, kind: int
) -> bool:
    merged = begin_merge(stream, model, sticks, hull, kind)
    if merged.a == NULL:
        return False
    a, b, log_ratio = merged.a, merged.b, merged.log_ratio
    if log_ratio > merged.level and kind == SMART_SPLIT:  # rule 4
        rows, on_b = on.data_of_both(hull, a, b)
        picked = rows[pick(stream, rows.size)]
        sides = launch(stream, model, data, hull, a, merged.q, rows.size, picked, merged.children)
        logs = divide_data(key, model, data, 0, rows, hull.counts[DATA], sides, on_b, GIVEN)
        logs += divide_children(stream, model, hull, sides, merged.children, merged.adopted, GIVEN)
        log_ratio += log_mean(logs)
    elif log_ratio > merged.level:
        log_ratio += log_toss(merged.n_given, hull.nodes[a].n_here)
        log_ratio += toss_children(stream, merged.adopted, GIVEN)
    if log_ratio > merged.level:
        rows, on_b = on.data_of_both(hull, a, b)
        on.relabel(hull, rows[on_b], a)
        return True
    undo_merge(hull, merged)
    return False


@compiled
def begin_merge(stream: Stream, model: Any, sticks: Sticks, hull: Hull, kind: int) -> Merged:
    """Choose two nodes and put them together; labels of data stay. A is NULL if there are none."""
    a, b, log_proposed = _choose_pair(stream, model, hull, kind)
    q = NULL if a == NULL else hull.nodes[b].parent
    if a == NULL or (q != a and hull.nodes[q].n_here == 0 and hull.nodes[q].n_children == 1):
        nothing = np.empty((0, 0))  # rule 3
        return Merged(
            NULL, NULL, NULL, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_), 0,
            np.uint64(0), nothing, nothing, 0.0, 0.0,
        )  # fmt: skip
    pair = np.array([a, b])
    theta, statistics = hull.theta[pair], hull.statistics[pair]
    entity, n_given, of_b = hull.nodes[b].entity, hull.nodes[b].n_here, on.children_of(hull, b)
    before = on.log_tree(hull, sticks) + on.fit_rows(stream, model, hull, pair, GIVEN)
    _absorb(hull, a, b)
    children = on.children_of(hull, a)
    adopted = np.zeros(children.size, dtype=np.bool_)
    for k in range(children.size):
        for child in of_b:
            adopted[k] |= child == children[k]
    after = on.log_tree(hull, sticks) + on.fit_rows(stream, model, hull, np.array([a]), DRAWN)
    log_ratio = after - before - log_proposed
    log_ratio += log_choice_of_node(hull, a) + _log_choice_of_place(hull, a, q)
    level = -exponential(stream)
    return Merged(a, b, q, children, adopted, n_given, entity, theta, statistics, log_ratio, level)


@compiled
def undo_merge(hull: Hull, merged: Merged) -> None:
    """Take the two nodes apart again."""
    a, b = merged.a, on.add_node(hull, merged.entity)  # which has the row it had
    _give(
        hull, a, b, merged.q, merged.n_given, merged.statistics[1], merged.children,
        merged.adopted,
    )  # fmt: skip
    hull.theta[a] = merged.theta[0]
    hull.theta[b] = merged.theta[1]
    hull.statistics[a] = merged.statistics[0]
    hull.statistics[b] = merged.statistics[1]


# -- what changes hands ----------------------------------------------------------------------------


@compiled
def _may_give(hull: Hull, a: int, q: int, n_given: int, children: Integers, adopted: Any) -> bool:
    """Say whether rule 3 allows B to have so many data, and the adopted children."""
    n_adopted = 0
    for k in range(children.size):
        n_adopted += adopted[k]
    if n_given + n_adopted == 0:
        return False
    if q == a:
        return True
    if n_given == hull.nodes[a].n_here and n_adopted == children.size:
        return False
    row = q
    while row != NULL:
        for k in range(children.size):
            if children[k] == row and adopted[k]:
                return False
        row = hull.nodes[row].parent
    return True


@compiled
def _give(
    hull: Hull,
    a: int,
    b: int,
    q: int,
    n_given: int,
    sums: Floats,
    children: Integers,
    adopted: Any,
) -> None:
    """Give some data of A, with these statistics, and some children to B, a child of Q."""
    on.pass_on(hull, a, b, n_given, sums)
    for k in range(children.size):
        if adopted[k]:
            on.take_off(hull, children[k])
            on.hang(hull, children[k], b)
    on.hang(hull, b, q)


@compiled
def _absorb(hull: Hull, a: int, b: int) -> None:
    """Give all that B has to A, and forget B."""
    children = on.children_of(hull, b)
    on.take_off(hull, b)
    for k in range(children.size):
        on.take_off(hull, children[k])
        on.hang(hull, children[k], a)
    on.pass_on(hull, b, a, hull.nodes[b].n_here, hull.statistics[b].copy())
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
def _choose_pair(stream: Stream, model: Any, hull: Hull, kind: int) -> tuple[int, int, float]:
    """Choose B, any node but the root, and A, neither B nor below it; NULL if there is none.

    Return A, B and the log probability of choosing them.
    """
    n_nodes = hull.counts[ALIVE]
    if n_nodes == 1:
        return NULL, NULL, 0.0
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
        if on.is_at_or_above(hull, b, a):
            return NULL, NULL, 0.0
        return a, b, _log_choice_of_pair(model, hull, a, b, kind)
    p = _suitability(model, hull, b)
    dart = uniform(stream)
    a = NULL
    for k in range(n_nodes):
        if p[k] > 0.0:
            a = hull.nodes[k].alive
            dart -= p[k]
            if dart < 0.0:
                break
    return a, b, _log_of_suitable(p[hull.nodes[a].place], n_nodes)


@compiled
def _log_choice_of_pair(model: Any, hull: Hull, a: int, b: int, kind: int) -> float:
    n_nodes = hull.counts[ALIVE]
    if kind == SMART_SPLIT:
        p = 0.25 / n_nodes
        if a == hull.nodes[b].parent:
            p += 0.5
        elif hull.nodes[a].parent == hull.nodes[b].parent:
            p += 0.25 / hull.nodes[hull.nodes[b].parent].n_children
        return math.log(p) - math.log(n_nodes - 1.0)
    return _log_of_suitable(_suitability(model, hull, b)[hull.nodes[a].place], n_nodes)


@compiled
def _log_of_suitable(p: float, n_nodes: int) -> float:
    """Return the log probability of choosing a pair, B being any node and A with probability p."""
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
def log_mean(log_c: Floats) -> float:
    """Return the log of the mean of two probabilities: of sides as they are, and exchanged."""
    larger, smaller = max(log_c[0], log_c[1]), min(log_c[0], log_c[1])
    return larger + math.log1p(math.exp(smaller - larger)) - math.log(2.0)


@compiled
def toss_data(key: Key, first: int, rows: Integers, bias: float, on_b: Any) -> None:
    """Toss a coin of this bias for each datum; ``first`` is the number of that in row 0."""
    stream = open_stream(key)
    for k in range(rows.size):
        reopen(stream, key_for(key, Purpose.SIDE, first + rows[k]))
        on_b[k] = uniform(stream) < bias


@compiled
def toss_children(stream: Stream, adopted: Any, is_drawn: np.int64) -> float:
    """Toss another one for the children; return the log probability."""
    bias = uniform(stream)
    if is_drawn == DRAWN:
        for k in range(adopted.size):
            adopted[k] = uniform(stream) < bias
    return log_toss(np.sum(adopted), adopted.size)


@compiled
def log_toss(n_b: int, n: int) -> float:
    """Return the log probability of ``n_b`` of ``n`` tosses, in their order, on B.

    With the bias uniform, it is n_b! (n - n_b)! / (n + 1)!.
    """
    return math.lgamma(n_b + 1.0) + math.lgamma(n - n_b + 1.0) - math.lgamma(n + 2.0)


@compiled
def launch(
    stream: Stream,
    model: Any,
    data: Any,
    hull: Hull,
    a: int,
    q: int,
    n_rows: int,
    picked: Integers,
    children: Integers,
) -> Sides:
    """Start at an anchor, any of the data (or of the children), and take a few steps of two means.

    The anchor's side starts with parameters estimated from it alone; then data and children go
    where they are likelier and both sides are estimated again, some times. ``picked`` are rows of
    data, of which the last is the anchor.
    """
    width, prepared_width, statistics_width = contract.widths(model)
    n_launched = max(picked.size - 1, 0)
    scale = n_rows / max(n_launched, 1)
    statistics = np.zeros((2, statistics_width))
    counts = np.zeros(2)
    theta = np.empty((2, width))
    prepared = np.empty((2, prepared_width))
    belows = np.empty((2, children.size, width))
    n_belows = np.zeros(2, dtype=np.int64)
    for k in range(n_launched):
        contract.add_statistics(model, data, picked[k], statistics[0])
    counts[0] = n_launched
    for k in range(children.size):
        belows[0, k] = hull.theta[children[k]]
    n_belows[0] = children.size
    is_child = n_rows == 0 or (children.size > 0 and uniform(stream) < 0.5)
    if is_child:
        belows[1, 0] = hull.theta[children[int(uniform(stream) * children.size)]]
        n_belows[1] = 1
    else:
        contract.add_statistics(model, data, picked[n_launched], statistics[1])
        counts[1] = 1.0
    lean = 0.0
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
        for k in range(n_launched):
            difference = contract.log_likelihood(
                model, data, picked[k], prepared[1]
            ) - contract.log_likelihood(model, data, picked[k], prepared[0])
            side = 1 if difference + lean > 0.0 else 0
            contract.add_statistics(model, data, picked[k], statistics[side])
            counts[side] += 1.0
        for k in range(children.size):
            child = hull.theta[children[k]]
            difference = contract.log_transition(model, theta[1], child) - contract.log_transition(
                model, theta[0], child
            )
            side = 1 if difference > 0.0 else 0
            belows[side, n_belows[side]] = child
            n_belows[side] += 1
    return Sides(theta, prepared, lean, uniform(stream) < 0.5)


@compiled
def divide_data(
    key: Key,
    model: Any,
    data: Any,
    first: int,
    rows: Integers,
    n_data: int,
    sides: Sides,
    on_b: Any,
    is_drawn: np.int64,
) -> Floats:
    """Choose the side of each datum, if ``is_drawn``; ``first`` is the number of that in row 0.

    Return the log probability of the sides, and that of the sides exchanged.
    """
    stream = open_stream(key)
    terms = np.empty((rows.size, 2))
    for k in range(rows.size):
        difference = sides.lean + contract.log_likelihood(model, data, rows[k], sides.prepared[1])
        difference -= contract.log_likelihood(model, data, rows[k], sides.prepared[0])
        reopen(stream, key_for(key, Purpose.SIDE, first + rows[k]))
        on_b[k] = _divide(stream, difference, sides.is_swapped, on_b[k], is_drawn, terms[k])
    return sum_terms(terms, rows, n_data)


@compiled
def divide_children(
    stream: Stream,
    model: Any,
    hull: Hull,
    sides: Sides,
    children: Integers,
    adopted: Any,
    is_drawn: np.int64,
) -> Floats:
    """Do the same with the children."""
    total, terms = np.zeros(2), np.empty(2)
    for k in range(children.size):
        child = hull.theta[children[k]]
        difference = contract.log_transition(model, sides.theta[1], child)
        difference -= contract.log_transition(model, sides.theta[0], child)
        adopted[k] = _divide(stream, difference, sides.is_swapped, adopted[k], is_drawn, terms)
        total += terms
    return total


@compiled
def _divide(
    stream: Stream,
    difference: float,
    is_swapped: bool,
    is_on_b: bool,
    is_drawn: np.int64,
    terms: Floats,
) -> bool:
    """Return whether one goes to B; write the log probabilities of both answers to ``terms``."""
    p = LEAST + (1.0 - 2.0 * LEAST) / (1.0 + math.exp(min(-difference, 500.0)))
    if is_drawn == DRAWN:
        is_on_b = (uniform(stream) < p) != is_swapped
    terms[0] = math.log(p if is_on_b else 1.0 - p)
    terms[1] = math.log(1.0 - p if is_on_b else p)
    return is_on_b
