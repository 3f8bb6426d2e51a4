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
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick import contract
from treestick._jit import compiled
from treestick.contract import DRAWN, GIVEN
from treestick.moves.state import Floats, Integers, Sticks
from treestick.moves.structure import hull as on
from treestick.moves.structure.choices import (
    choose_below_root,
    choose_by_data,
    draw_index,
    least_of_best,
    log_sum,
    pick,
)
from treestick.moves.structure.hull import ALIVE, DATA, FREE, Hull
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

N_LAUNCH_STEPS = 4
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
        of_data = key_of_part(key, number)
        if uniform(stream) < 0.5:
            counts[1] += _birth(of_data, stream, model, data, sticks, hull)
        else:
            counts[2] += _death(of_data, stream, model, data, sticks, hull)
    return counts


@compiled
def _birth(key: Key, stream: Stream, model: Any, data: Any, sticks: Sticks, hull: Hull) -> bool:
    p = choose_by_data(stream, hull)
    for _ in range(int(uniform(stream) * 3.0)):
        p = p if p == NULL else hull.nodes[p].parent
    if p == NULL:
        return False
    around = _around(hull, p)
    index = _index(hull, around)
    pool = _data_of_all(hull, index, NULL, np.empty(0, dtype=np.int64))
    n_pool = pool.rows.size
    adopts = np.zeros(around.size, dtype=np.bool_)
    picked = pick(stream, n_pool)
    lead = launch(
        stream, model, data, hull, around, index, pool.rows[picked], pool.source[picked], n_pool
    )
    log_c = take_data(key, model, data, pool, hull.counts[DATA], lead, DRAWN)
    log_c += _adopt(stream, model, hull, around, index, lead, adopts, DRAWN)
    rows, back = pool.rows[pool.takes], pool.source[pool.takes]
    children = around[adopts]
    if rows.size + children.size == 0:
        return False
    parents = np.empty_like(children)
    for k in range(children.size):
        parents[k] = hull.nodes[children[k]].parent
    n_taken, sums = sum_by_place(model, data, rows, back, around.size, hull.counts[DATA])
    fitted = _fitted(hull, p, around, n_taken, children, parents)
    if fitted.size > MOST_FITTED:
        return False
    log_proposed = log_c + math.log(n_pool / (3.0 * hull.counts[DATA]))
    before = on.log_tree(hull, sticks) + on.fit_rows(stream, model, hull, fitted, GIVEN)
    theta, statistics = hull.theta[fitted], hull.statistics[fitted]
    b = on.add_node(hull, next_word(stream))
    _take(hull, b, p, around, n_taken, sums, children)
    if not _has_empty_leaf(hull, fitted):
        both = np.append(fitted, b)
        after = on.log_tree(hull, sticks) + on.fit_rows(stream, model, hull, both, DRAWN)
        log_ratio = after - before - log_proposed - math.log(hull.counts[ALIVE] - 1.0)
        level = -exponential(stream)
        if log_ratio > level:  # rule 5
            log_ratio += _send_children(stream, model, hull, b, children, parents, GIVEN)
            targets = _prepare_targets(model, hull, around)
            log_ratio += send_data(key, model, data, rows, hull.counts[DATA], targets, back, GIVEN)
        if log_ratio > level:
            on.relabel(hull, rows, b)
            return True
    _give_back(hull, b, around, n_taken, sums, children, parents)
    on.remove_node(hull, b)
    for k in range(fitted.size):
        hull.theta[fitted[k]] = theta[k]
        hull.statistics[fitted[k]] = statistics[k]
    return False


@compiled
def _death(key: Key, stream: Stream, model: Any, data: Any, sticks: Sticks, hull: Hull) -> bool:
    n_nodes = hull.counts[ALIVE]
    if n_nodes == 1:
        return False
    b = choose_below_root(stream, hull)
    p = hull.nodes[b].parent
    children = on.children_of(hull, b)
    parents = np.empty_like(children)
    log_proposed = -math.log(n_nodes - 1.0)
    log_proposed += _send_children(stream, model, hull, b, children, parents, DRAWN)
    if log_proposed == -math.inf:
        return False
    around = _around_without(hull, b, children, parents)
    rows = on.data_of(hull, b)
    back = np.empty_like(rows)
    targets = _prepare_targets(model, hull, around)
    log_proposed += send_data(key, model, data, rows, hull.counts[DATA], targets, back, DRAWN)
    n_taken, sums = sum_by_place(model, data, rows, back, around.size, hull.counts[DATA])
    fitted = _fitted(hull, p, around, n_taken, children, parents)
    if fitted.size > MOST_FITTED:
        return False
    both = np.append(fitted, b)
    before = on.log_tree(hull, sticks) + on.fit_rows(stream, model, hull, both, GIVEN)
    theta, statistics = hull.theta[both], hull.statistics[both]
    entity = hull.nodes[b].entity
    _give_back(hull, b, around, n_taken, sums, children, parents)
    on.remove_node(hull, b)
    if not _has_empty_leaf(hull, fitted):
        after = on.log_tree(hull, sticks) + on.fit_rows(stream, model, hull, fitted, DRAWN)
        n_pool = 0
        for row in around:
            n_pool += hull.nodes[row].n_here
        log_ratio = -math.inf
        if n_pool > 0:
            log_ratio = after - before - log_proposed
            log_ratio += math.log(n_pool / (3.0 * hull.counts[DATA]))
        level = -exponential(stream)
        if log_ratio > level:  # rule 5
            index = _index(hull, around)
            pool = _data_of_all(hull, index, b, back)
            adopts = np.zeros(around.size, dtype=np.bool_)
            for k in range(around.size):
                for child in children:
                    adopts[k] |= around[k] == child
            picked = pick(stream, n_pool)
            lead = launch(
                stream, model, data, hull, around, index, pool.rows[picked], pool.source[picked],
                n_pool,
            )  # fmt: skip
            log_ratio += take_data(key, model, data, pool, hull.counts[DATA], lead, GIVEN)
            log_ratio += _adopt(stream, model, hull, around, index, lead, adopts, GIVEN)
        if log_ratio > level:
            for k in range(rows.size):
                hull.labels[rows[k]] = hull.nodes[around[back[k]]].label
            return True
    new = on.add_node(hull, entity)
    _take(hull, new, p, around, n_taken, sums, children)
    for k in range(both.size):
        row = new if both[k] == b else both[k]
        hull.theta[row] = theta[k]
        hull.statistics[row] = statistics[k]
    return False


# -- what changes hands ----------------------------------------------------------------------------


@compiled
def _take(
    hull: Hull,
    b: int,
    p: int,
    around: Integers,
    n_taken: Integers,
    sums: Floats,
    children: Integers,
) -> None:
    """Make B a child of P with these data and children."""
    on.hang(hull, b, p)
    for child in children:
        on.take_off(hull, child)
        on.hang(hull, child, b)
    for j in range(around.size):
        on.pass_on(hull, around[j], b, n_taken[j], sums[j])


@compiled
def _give_back(
    hull: Hull,
    b: int,
    around: Integers,
    n_taken: Integers,
    sums: Floats,
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
    for j in range(around.size):
        on.pass_on(hull, b, around[j], n_taken[j], sums[j])
    on.take_off(hull, b)


@compiled
def sum_by_place(
    model: Any, data: Any, rows: Integers, places: Integers, n_places: int, n_data: int
) -> tuple[Integers, Floats]:
    """Return of each place how many data go to it or come from it, and their statistics."""
    _, _, width = contract.widths(model)
    counts, sums = np.zeros(n_places, dtype=np.int64), np.zeros((n_places, width))
    for place in places:
        counts[place] += 1
    for j in range(n_places):
        if counts[j] > 0:
            sums[j] = sum_rows(model, data, rows[places == j], n_data)
    return counts, sums


@compiled
def _has_empty_leaf(hull: Hull, rows: Integers) -> bool:
    for row in rows:
        if row != 0 and hull.nodes[row].n_here + hull.nodes[row].n_children == 0:
            return True
    return False


@compiled
def _fitted(
    hull: Hull,
    p: int,
    around: Integers,
    n_taken: Integers,
    children: Integers,
    parents: Integers,
) -> Integers:
    """Return all nodes but B that give or take something."""
    is_in = np.zeros(hull.nodes.size, dtype=np.bool_)
    is_in[p] = True
    is_in[around[n_taken > 0]] = True
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
def _index(hull: Hull, around: Integers) -> Integers:
    """Return of each row its place in ``around``, or NULL."""
    index = np.full(hull.nodes.size, NULL)
    for j in range(around.size):
        index[around[j]] = j
    return index


class Pool(NamedTuple):
    """The data of some nodes, in ascending order."""

    rows: Integers
    source: Integers
    """Of each: the place of its node,"""
    takes: npt.NDArray[np.bool_]
    """and whether B has it."""


@compiled
def _data_of_all(hull: Hull, index: Integers, b: int, back: Integers) -> Pool:
    """Return the data of the nodes that have a place, and those of B, if it is not NULL.

    The latter have the places that they go ``back`` to.
    """
    place = np.empty(hull.nodes.size, dtype=np.int64)  # of each label
    for label in range(place.size):
        place[label] = index[hull.nodes[label].row_of]
    of_b = NULL if b == NULL else hull.nodes[b].label
    n_rows = 0
    for label in hull.labels:
        n_rows += label == of_b or place[label] != NULL
    pool = Pool(
        np.empty(n_rows, dtype=np.int64),
        np.empty(n_rows, dtype=np.int64),
        np.zeros(n_rows, dtype=np.bool_),
    )
    k, n_back = 0, 0
    for n in range(hull.labels.size):
        label = hull.labels[n]
        if label == of_b:
            pool.source[k] = back[n_back]
            pool.takes[k] = True
            n_back += 1
        elif place[label] != NULL:
            pool.source[k] = place[label]
        else:
            continue
        pool.rows[k] = n
        k += 1
    return pool


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


class Targets(NamedTuple):
    """Nodes that data of B may go to."""

    prepared: Floats
    log_weights: Floats
    """From how many data they have."""


@compiled
def _prepare_targets(model: Any, hull: Hull, around: Integers) -> Targets:
    _, prepared_width, _ = contract.widths(model)
    targets = Targets(np.empty((around.size, prepared_width)), np.empty(around.size))
    for j in range(around.size):
        contract.prepare(model, hull.theta[around[j]], targets.prepared[j])
        targets.log_weights[j] = math.log(hull.nodes[around[j]].n_here + 1.0)
    return targets


@compiled
def send_data(
    key: Key,
    model: Any,
    data: Any,
    rows: Integers,
    n_data: int,
    targets: Targets,
    back: Integers,
    is_drawn: np.int64,
) -> float:
    """Choose places that data of B go ``back`` to, if ``is_drawn``; return the log probability."""
    stream = open_stream(key)
    n_targets = targets.log_weights.size
    log_g, terms = np.empty(n_targets), np.empty((rows.size, 1))
    for k in range(rows.size):
        for j in range(n_targets):
            log_g[j] = contract.log_likelihood(model, data, rows[k], targets.prepared[j])
            log_g[j] += targets.log_weights[j]
        if is_drawn:
            reopen(stream, key_for(key, Purpose.SIDE, rows[k]))
            back[k] = draw_index(stream, log_g)
        terms[k, 0] = log_g[back[k]] - log_sum(log_g)
    return sum_terms(terms, rows, n_data)[0]


# -- what B takes ----------------------------------------------------------------------------------


class Lead(NamedTuple):
    """What a launch has found of the nodes around and, in the last row, of B."""

    theta: Floats
    prepared: Floats
    lean: Floats
    """Of each node: how much likelier B is, from how many there are."""


@compiled
def launch(
    stream: Stream,
    model: Any,
    data: Any,
    hull: Hull,
    around: Integers,
    index: Integers,
    picked: Integers,
    source: Integers,
    n_pool: int,
) -> Lead:
    """Let an anchor lead.

    It is a datum, or one or two children, large ones more often. Parameters of B are estimated from
    it, then, some times, from data and children that like them better than their own node's; those
    of the nodes that lose data by this are estimated again, too. ``picked`` are rows of data, of
    which the last is the anchor, and ``source`` their places.
    """
    width, prepared_width, statistics_width = contract.widths(model)
    n_around, n_launched = around.size, picked.size - 1
    scale = n_pool / n_launched
    # The last row is that of B.
    theta = np.empty((n_around + 1, width))
    prepared = np.empty((n_around + 1, prepared_width))
    for j in range(n_around):
        theta[j] = hull.theta[around[j]]
        contract.prepare(model, theta[j], prepared[j])
    statistics = np.zeros((n_around + 1, statistics_width))
    counts, lean = np.zeros(n_around + 1), np.zeros(n_around)
    below = np.empty((n_around, width))
    n_below = 0
    from_datum = n_around == 1 or uniform(stream) < 0.5
    if from_datum:
        contract.add_statistics(model, data, picked[n_launched], statistics[n_around])
        counts[n_around] = 1.0
    else:
        n_below = 1 + int(uniform(stream) * 2.0)
        for k in range(n_below):
            below[k] = theta[_choose_anchor(stream, hull, around)]
    liking, own = np.empty(n_launched), np.empty(n_launched)
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
                lean[j] = _lean(hull, around[j], counts, j, n_around)
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
        for k in range(n_launched):
            n, j = picked[k], source[k]
            if is_new[j]:
                own[k] = contract.log_likelihood(model, data, n, prepared[j])
            liking[k] = contract.log_likelihood(model, data, n, prepared[n_around]) - own[k]
            if step > 1:
                liking[k] += lean[j]
        threshold = 0.0
        if step == 0 and from_datum:
            threshold = least_of_best(liking, SEED_GROUP)
        statistics[:] = 0.0
        counts[:] = 0.0
        for k in range(n_launched):
            if liking[k] >= threshold:
                j = source[k]
                contract.add_statistics(model, data, picked[k], statistics[n_around])
                contract.add_statistics(model, data, picked[k], statistics[j])
                counts[n_around] += 1.0
                counts[j] += 1.0
        if n_launched < n_pool:
            for j in range(n_around + 1):
                counts[j] *= scale
                for d in range(statistics_width):
                    statistics[j, d] *= scale
        n_below = 0
        for j in range(1, n_around):
            if _pull(model, hull, around[j], theta, index, n_around) > 0.0:
                below[n_below] = hull.theta[around[j]]
                n_below += 1
    return Lead(theta, prepared, lean)


@compiled
def take_data(
    key: Key,
    model: Any,
    data: Any,
    pool: Pool,
    n_data: int,
    lead: Lead,
    is_drawn: np.int64,
) -> float:
    """Choose which data B takes, if ``is_drawn``; return the log probability."""
    stream = open_stream(key)
    takes = pool.takes
    terms, b = np.empty((pool.rows.size, 1)), lead.lean.size
    for k in range(pool.rows.size):
        n, j = pool.rows[k], pool.source[k]
        difference = contract.log_likelihood(model, data, n, lead.prepared[b])
        difference -= contract.log_likelihood(model, data, n, lead.prepared[j])
        difference += lead.lean[j]
        q = LEAST + (1.0 - 2.0 * LEAST) / (1.0 + math.exp(min(-difference, 500.0)))
        if is_drawn:
            reopen(stream, key_for(key, Purpose.SIDE, n))
            takes[k] = uniform(stream) < q
        terms[k, 0] = math.log(q if takes[k] else 1.0 - q)
    return sum_terms(terms, pool.rows, n_data)[0]


@compiled
def _adopt(
    stream: Stream,
    model: Any,
    hull: Hull,
    around: Integers,
    index: Integers,
    lead: Lead,
    adopts: Any,
    is_drawn: np.int64,
) -> float:
    """Choose which of the nodes around B adopts, if ``is_drawn``; return the log probability."""
    log_c = 0.0
    for j in range(1, around.size):
        difference = 0.5 * _pull(model, hull, around[j], lead.theta, index, around.size)
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
