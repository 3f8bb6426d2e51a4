"""Metropolis-Hastings move: a new node takes data and children from all around, or gives them up.

A node that is missing from the tree has its data spread over several others, and its children hang
from some of these; none alone has enough to pay for a split. So a **birth** chooses a node P, and
a new child B of P takes data from P, its children and theirs, and adopts some of these children. A
**death** chooses a node B, lets each of its children hang elsewhere, and each of its data go to one
of the same nodes. Parameters of all nodes that give or take (call them M) are drawn anew, together,
because they fit what the nodes had before; with the weights W of
:func:`treestick.contract.fit_group`, a birth is accepted with

    min(1, p(with B) W(M, B) d(B) h(children) g(data) / [p(without B) W(M) s(P) c(takes)])

and a death with the inverse. s(P) and d(B) are the probabilities of choosing P and B, c that of
what B takes, h and g those of where children and data of B go. P is the node of any datum, or the
one above it, or the next: s is in proportion to the number of data at P, its children and theirs.

Rule 1. s and c look at the state without B, and at randomness that is drawn anew both ways: an
anchor, from which a few steps lead to an estimate of B.
Rule 2. d, h and g look at the state with B.
Rule 3. A child of B may go to P, to another child of P, or to another child of B that goes to P. So
the nodes around P, without B, are P, its children and theirs again, and data go to one of them with
probability proportional to (1 + n_here) f(x | theta).
Rule 4. No move leaves a node without data at or below it. M has at most ``MOST_FITTED`` nodes, both
ways.
Rule 5. What takes long is computed last, and not at all where the other factors of the ratio are
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
    draw_index,
    least_of_best,
    log_sum,
)
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

N_LAUNCH_STEPS = 4
MOST_LAUNCHED = 1000
SEED_GROUP = 8
"""Data that join an anchor first."""
LEAST = 1e-5
"""No datum is less likely than this to go to B, or to stay."""
LEAST_CHILD = 0.005
"""No child is less likely than this to be adopted, or to stay."""
MOST_FITTED = 16


@compiled
def move_insert(
    key: Key, model: Any, data: Any, sticks: Sticks, hull: Hull, kind: int, first: int, n: int
) -> Integers:
    """Propose ``n`` births or deaths, numbered from ``first``, or fewer if the hull is full.

    Return how many there were, how many births were accepted, and how many deaths. There is one
    ``kind``.
    """
    counts = np.zeros(3, dtype=np.int64)
    for number in range(first, first + n):
        if hull.counts[FREE] == 0:
            break
        counts[0] += 1
        stream = open_stream(key_for(key, Purpose.STRUCTURE, number))
        if uniform(stream) < 0.5:
            counts[1] += _birth(stream, model, data, sticks, hull)
        else:
            counts[2] += _death(stream, model, data, sticks, hull)
    return counts


@compiled
def _birth(stream: Stream, model: Any, data: Any, sticks: Sticks, hull: Hull) -> bool:
    p = hull.data[int(uniform(stream) * hull.data.size)].node
    for _ in range(int(uniform(stream) * 3.0)):
        p = p if p == NULL else hull.nodes[p].parent
    if p == NULL:
        return False
    around = _around(hull, p)
    pool = _data_of_all(hull, around)
    takes = np.zeros(pool.size, dtype=np.bool_)
    adopts = np.zeros(around.size, dtype=np.bool_)
    log_c = _lead(stream, model, data, hull, around, pool, takes, adopts, DRAWN)
    rows = pool[takes]
    children = around[adopts]
    if rows.size + children.size == 0:
        return False
    back, parents = np.empty_like(rows), np.empty_like(children)
    for k in range(rows.size):
        back[k] = hull.data[rows[k]].node
    for k in range(children.size):
        parents[k] = hull.nodes[children[k]].parent
    fitted = _fitted(hull, p, back, children, parents)
    if fitted.size > MOST_FITTED:
        return False
    log_proposed = log_c + math.log(pool.size / (3.0 * hull.data.size))
    before = on.log_tree(hull, sticks) + on.fit_rows(stream, model, hull, fitted, GIVEN)
    theta, statistics = hull.theta[fitted], hull.statistics[fitted]
    b = on.add_node(hull, next_word(stream))
    _take(hull, model, data, b, p, rows, children)
    if not _has_empty_leaf(hull, fitted):
        both = np.append(fitted, b)
        after = on.log_tree(hull, sticks) + on.fit_rows(stream, model, hull, both, DRAWN)
        log_ratio = after - before - log_proposed - math.log(hull.counts[ALIVE] - 1.0)
        level = -exponential(stream)
        if log_ratio > level:  # rule 5
            log_ratio += _send_children(stream, model, hull, b, children, parents, GIVEN)
            log_ratio += _send_data(stream, model, data, hull, around, rows, back, GIVEN)
        if log_ratio > level:
            return True
    _give_back(hull, model, data, b, rows, back, children, parents)
    on.remove_node(hull, b)
    for k in range(fitted.size):
        hull.theta[fitted[k]] = theta[k]
        hull.statistics[fitted[k]] = statistics[k]
    return False


@compiled
def _death(stream: Stream, model: Any, data: Any, sticks: Sticks, hull: Hull) -> bool:
    n_nodes = hull.counts[ALIVE]
    if n_nodes == 1:
        return False
    b = choose_below_root(stream, hull)
    p = hull.nodes[b].parent
    rows, children = on.data_of(hull, b), on.children_of(hull, b)
    parents, back = np.empty_like(children), np.empty_like(rows)
    log_proposed = -math.log(n_nodes - 1.0)
    log_proposed += _send_children(stream, model, hull, b, children, parents, DRAWN)
    if log_proposed == -math.inf:
        return False
    around = _around_without(hull, b, children, parents)
    log_proposed += _send_data(stream, model, data, hull, around, rows, back, DRAWN)
    fitted = _fitted(hull, p, back, children, parents)
    if fitted.size > MOST_FITTED:
        return False
    both = np.append(fitted, b)
    before = on.log_tree(hull, sticks) + on.fit_rows(stream, model, hull, both, GIVEN)
    theta, statistics = hull.theta[both], hull.statistics[both]
    entity = hull.nodes[b].entity
    _give_back(hull, model, data, b, rows, back, children, parents)
    on.remove_node(hull, b)
    if not _has_empty_leaf(hull, fitted):
        after = on.log_tree(hull, sticks) + on.fit_rows(stream, model, hull, fitted, DRAWN)
        pool = _data_of_all(hull, around)
        log_ratio = -math.inf
        if pool.size > 0:
            log_ratio = after - before - log_proposed
            log_ratio += math.log(pool.size / (3.0 * hull.data.size))
        level = -exponential(stream)
        if log_ratio > level:  # rule 5
            is_of_b = np.zeros(hull.data.size, dtype=np.bool_)
            is_of_b[rows] = True
            takes = is_of_b[pool]
            adopts = np.zeros(around.size, dtype=np.bool_)
            for k in range(around.size):
                for child in children:
                    adopts[k] |= around[k] == child
            log_ratio += _lead(stream, model, data, hull, around, pool, takes, adopts, GIVEN)
        if log_ratio > level:
            return True
    new = on.add_node(hull, entity)
    _take(hull, model, data, new, p, rows, children)
    for k in range(both.size):
        row = new if both[k] == b else both[k]
        hull.theta[row] = theta[k]
        hull.statistics[row] = statistics[k]
    return False


# -- what changes hands ----------------------------------------------------------------------------


@compiled
def _take(
    hull: Hull, model: Any, data: Any, b: int, p: int, rows: Integers, children: Integers
) -> None:
    """Make B a child of P with these data and children."""
    on.hang(hull, b, p)
    for child in children:
        on.take_off(hull, child)
        on.hang(hull, child, b)
    for n in rows:
        on.take_datum(hull, model, data, n)
        on.put_datum(hull, model, data, n, b)


@compiled
def _give_back(
    hull: Hull,
    model: Any,
    data: Any,
    b: int,
    rows: Integers,
    back: Integers,
    children: Integers,
    parents: Integers,
) -> None:
    """Let data and children of B go where they are sent; B hangs nowhere in the end."""
    p = hull.nodes[b].parent
    for turn in range(2):  # first those that go to P, because others may go to these
        for k in range(children.size):
            if (parents[k] == p) == (turn == 0):
                on.take_off(hull, children[k])
                on.hang(hull, children[k], parents[k])
    for k in range(rows.size):
        on.take_datum(hull, model, data, rows[k])
        on.put_datum(hull, model, data, rows[k], back[k])
    on.take_off(hull, b)


@compiled
def _has_empty_leaf(hull: Hull, rows: Integers) -> bool:
    for row in rows:
        if row != 0 and hull.nodes[row].n_here + hull.nodes[row].n_children == 0:
            return True
    return False


@compiled
def _fitted(hull: Hull, p: int, back: Integers, children: Integers, parents: Integers) -> Integers:
    """Return all nodes but B that give or take something."""
    is_in = np.zeros(hull.nodes.size, dtype=np.bool_)
    is_in[p] = True
    is_in[back] = True
    is_in[children] = True
    is_in[parents] = True
    return np.flatnonzero(is_in)


# -- who is around ---------------------------------------------------------------------------------


@compiled
def _around(hull: Hull, p: int) -> Integers:
    """Return P, its children and theirs."""
    rows = np.empty(hull.counts[ALIVE], dtype=np.int64)
    rows[0] = p
    n = 1
    child = hull.nodes[p].first_child
    while child != NULL:
        rows[n] = child
        n = _list_children(hull, child, rows, n + 1)
        child = hull.nodes[child].next_sibling
    return rows[:n]


@compiled
def _around_without(hull: Hull, b: int, children: Integers, parents: Integers) -> Integers:
    """Return P, its children and theirs, once the children of B are sent to these parents."""
    p = hull.nodes[b].parent
    rows = np.empty(hull.counts[ALIVE], dtype=np.int64)
    rows[0] = p
    n = 1
    child = hull.nodes[p].first_child
    while child != NULL:
        if child != b:
            rows[n] = child
            n = _list_children(hull, child, rows, n + 1)
        child = hull.nodes[child].next_sibling
    for k in range(children.size):
        rows[n] = children[k]
        n += 1
        if parents[k] == p:
            n = _list_children(hull, children[k], rows, n)
    return rows[:n]


@compiled
def _list_children(hull: Hull, row: int, rows: Integers, n: int) -> int:
    """Write the children of ``row`` to ``rows`` from place ``n``; return the place after them."""
    child = hull.nodes[row].first_child
    while child != NULL:
        rows[n] = child
        n += 1
        child = hull.nodes[child].next_sibling
    return n


@compiled
def _data_of_all(hull: Hull, rows: Integers) -> Integers:
    """Return the data of some nodes."""
    total = 0
    for row in rows:
        total += hull.nodes[row].n_here
    data = np.empty(total, dtype=np.int64)
    k = 0
    for row in rows:
        n = hull.nodes[row].first_datum
        while n != NULL:
            data[k] = n
            k += 1
            n = hull.data[n].next
    return data


# -- choices with B there --------------------------------------------------------------------------


@compiled
def _send_children(
    stream: Stream,
    model: Any,
    hull: Hull,
    b: int,
    children: Integers,
    parents: Integers,
    is_drawn: np.int64,
) -> float:
    """Choose new ``parents`` of the children of B, if ``is_drawn``; return the log probability.

    One third is for P, one third is shared evenly by all that rule 3 knows, and one third goes by
    the root of T. The choices are independent; return -inf if they break the rule.
    """
    p = hull.nodes[b].parent
    targets = np.empty(hull.nodes[p].n_children + hull.nodes[b].n_children, dtype=np.int64)
    targets[0] = p
    n = 1
    child = hull.nodes[p].first_child
    while child != NULL:
        if child != b:
            targets[n] = child
            n += 1
        child = hull.nodes[child].next_sibling
    n = _list_children(hull, b, targets, n)
    total_log_p = 0.0
    log_t = np.empty(n)
    for k in range(children.size):
        for j in range(n):
            log_t[j] = -math.inf
            if targets[j] != children[k]:
                log_t[j] = 0.5 * contract.log_transition(
                    model, hull.theta[targets[j]], hull.theta[children[k]]
                )
        largest = log_t.max()
        total = 0.0
        for j in range(n):
            total += math.exp(log_t[j] - largest)
        dart = uniform(stream) if is_drawn else 1.0
        log_p = -math.inf
        for j in range(n):
            if targets[j] == children[k]:
                continue
            share = (1.0 / (n - 1.0) + math.exp(log_t[j] - largest) / total) / 3.0
            if j == 0:
                share += 1.0 / 3.0
            dart -= share
            if is_drawn and (dart + share >= 0.0):
                parents[k] = targets[j]
            if parents[k] == targets[j]:
                log_p = math.log(share)
        total_log_p += log_p
    for k in range(children.size):
        for j in range(children.size):
            if parents[k] == children[j] and parents[j] != p:
                return -math.inf
    return total_log_p


@compiled
def _send_data(
    stream: Stream,
    model: Any,
    data: Any,
    hull: Hull,
    around: Integers,
    rows: Integers,
    back: Integers,
    is_drawn: np.int64,
) -> float:
    """Choose where data of B go ``back`` to, if ``is_drawn``; return the log probability."""
    _, prepared_width, _ = contract.widths(model)
    prepared = np.empty((around.size, prepared_width))
    for j in range(around.size):
        contract.prepare(model, hull.theta[around[j]], prepared[j])
    log_g = np.empty(around.size)
    total_log_p = 0.0
    for k in range(rows.size):
        for j in range(around.size):
            log_g[j] = contract.log_likelihood(model, data, rows[k], prepared[j])
            log_g[j] += math.log(hull.nodes[around[j]].n_here + 1.0)
        if is_drawn:
            back[k] = around[draw_index(stream, log_g)]
        for j in range(around.size):
            if around[j] == back[k]:
                total_log_p += log_g[j]
        total_log_p -= log_sum(log_g)
    return total_log_p


# -- what B takes ----------------------------------------------------------------------------------


@compiled
def _lead(
    stream: Stream,
    model: Any,
    data: Any,
    hull: Hull,
    around: Integers,
    pool: Integers,
    takes: Any,
    adopts: Any,
    is_drawn: np.int64,
) -> float:
    """Let an anchor lead; return the log probability of what B takes, drawn if ``is_drawn``.

    The anchor is a datum, or one or two children, large ones more often. Parameters of B are
    estimated from it, then, some times, from data and children that like them better than their own
    node's; those of the nodes that lose data by this are estimated again, too.
    """
    width, prepared_width, statistics_width = contract.widths(model)
    n_around = around.size
    index = np.empty(hull.nodes.size, dtype=np.int64)
    for j in range(n_around):
        index[around[j]] = j
    launched = pool
    if pool.size > MOST_LAUNCHED:
        launched = np.empty(MOST_LAUNCHED, dtype=np.int64)
        for k in range(MOST_LAUNCHED):
            launched[k] = pool[int(uniform(stream) * pool.size)]
    scale = pool.size / launched.size
    # The last row is that of B.
    theta = np.empty((n_around + 1, width))
    prepared = np.empty((n_around + 1, prepared_width))
    for j in range(n_around):
        theta[j] = hull.theta[around[j]]
        contract.prepare(model, theta[j], prepared[j])
    statistics = np.zeros((n_around + 1, statistics_width))
    counts = np.zeros(n_around + 1)
    below = np.empty((n_around, width))
    n_below = 0
    from_datum = n_around == 1 or uniform(stream) < 0.5
    if from_datum:
        contract.add_statistics(
            model, data, pool[int(uniform(stream) * pool.size)], statistics[n_around]
        )
        counts[n_around] = 1.0
    else:
        n_below = 1 + int(uniform(stream) * 2.0)
        for k in range(n_below):
            below[k] = theta[_choose_anchor(stream, hull, around)]
    liking, own = np.empty(launched.size), np.empty(launched.size)
    is_new = np.ones(n_around, dtype=np.bool_)
    for step in range(N_LAUNCH_STEPS + 1):
        contract.estimate(
            model, theta[0], below[:n_below], counts[n_around], statistics[n_around],
            theta[n_around],
        )  # fmt: skip
        contract.prepare(model, theta[n_around], prepared[n_around])
        if step > 0:
            for j in range(n_around):
                is_new[j] = counts[j] > 0.0
                if is_new[j]:
                    row = around[j]
                    for d in range(statistics_width):
                        statistics[j, d] = hull.statistics[row, d] - statistics[j, d]
                    contract.estimate(
                        model, on.above(hull, row), on.below(hull, row, NULL),
                        max(hull.nodes[row].n_here - counts[j], 0.0), statistics[j], theta[j],
                    )  # fmt: skip
                    contract.prepare(model, theta[j], prepared[j])
        if step == N_LAUNCH_STEPS:
            break
        for k in range(launched.size):
            n = launched[k]
            j = index[hull.data[n].node]
            if is_new[j]:
                own[k] = contract.log_likelihood(model, data, n, prepared[j])
            liking[k] = contract.log_likelihood(model, data, n, prepared[n_around]) - own[k]
            if step > 1:
                liking[k] += _lean(hull, around[j], counts, j, n_around)
        threshold = 0.0
        if step == 0 and from_datum:
            threshold = least_of_best(liking, SEED_GROUP)
        statistics[:] = 0.0
        counts[:] = 0.0
        for k in range(launched.size):
            if liking[k] >= threshold:
                j = index[hull.data[launched[k]].node]
                contract.add_statistics(model, data, launched[k], statistics[n_around])
                contract.add_statistics(model, data, launched[k], statistics[j])
                counts[n_around] += 1.0
                counts[j] += 1.0
        if launched.size < pool.size:
            for j in range(n_around + 1):
                counts[j] *= scale
                for d in range(statistics_width):
                    statistics[j, d] *= scale
        n_below = 0
        for j in range(1, n_around):
            if _pull(model, hull, around[j], theta, index, n_around) > 0.0:
                below[n_below] = hull.theta[around[j]]
                n_below += 1

    log_c = 0.0
    for k in range(pool.size):
        n = pool[k]
        j = index[hull.data[n].node]
        difference = contract.log_likelihood(model, data, n, prepared[n_around])
        difference -= contract.log_likelihood(model, data, n, prepared[j])
        difference += _lean(hull, around[j], counts, j, n_around)
        q = LEAST + (1.0 - 2.0 * LEAST) / (1.0 + math.exp(min(-difference, 500.0)))
        if is_drawn:
            takes[k] = uniform(stream) < q
        log_c += math.log(q if takes[k] else 1.0 - q)
    for j in range(1, n_around):
        difference = 0.5 * _pull(model, hull, around[j], theta, index, n_around)
        q = 1.0 / (1.0 + math.exp(min(-difference, 500.0)))
        q = LEAST_CHILD + (1.0 - 2.0 * LEAST_CHILD) * q
        if is_drawn:
            adopts[j] = uniform(stream) < q
        log_c += math.log(q if adopts[j] else 1.0 - q)
    return log_c


@compiled
def _choose_anchor(stream: Stream, hull: Hull, around: Integers) -> int:
    """Choose a child of P or of one of these: any, or by the number of data at and below it."""
    if uniform(stream) < 0.5:
        return 1 + int(uniform(stream) * (around.size - 1))
    total = 0
    for j in range(1, around.size):
        total += hull.nodes[around[j]].n_here + hull.nodes[around[j]].n_below
    left = int(uniform(stream) * total)
    for j in range(1, around.size):
        left -= hull.nodes[around[j]].n_here + hull.nodes[around[j]].n_below
        if left < 0:
            return j
    return around.size - 1  # never


@compiled
def _lean(hull: Hull, row: int, counts: Floats, j: int, b: int) -> float:
    """Return how much likelier B is than a datum's own node, by how many are there."""
    return math.log((counts[b] + 1.0) / (max(hull.nodes[row].n_here - counts[j], 0.0) + 1.0))


@compiled
def _pull(model: Any, hull: Hull, row: int, theta: Floats, index: Integers, b: int) -> float:
    """Return how much likelier a child is below B than below its own parent."""
    own = theta[index[hull.nodes[row].parent]]
    return contract.log_transition(model, theta[b], hull.theta[row]) - contract.log_transition(
        model, own, hull.theta[row]
    )
