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
from treestick.moves.structure.around import (
    adopt,
    around_node,
    around_without,
    data_of_all,
    index_of,
    launch,
    prepare_targets,
    send_children,
    send_data,
    take_data,
)
from treestick.moves.structure.choices import choose_below_root, choose_by_data, pick
from treestick.moves.structure.hull import ALIVE, DATA, FREE, Hull
from treestick.moves.structure.records import Changed, Going, Lead, unchanged
from treestick.moves.tasks import sum_rows
from treestick.random import (
    Key,
    Purpose,
    Stream,
    exponential,
    key_for,
    key_of_part,
    next_word,
    open_stream,
    uniform,
)
from treestick.tree.table import NULL

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
    around = choose_birth(stream, hull)
    if around.size == 0:
        return False
    index = index_of(hull, around)
    pool = data_of_all(hull, index, NULL, np.empty(0, dtype=np.int64))
    picked = pick(stream, pool.rows.size)
    lead = launch(
        stream, model, data, hull, around, index, pool.rows[picked], pool.source[picked],
        pool.rows.size,
    )  # fmt: skip
    adopts, log_adopted = choose_adopted(stream, model, hull, around, index, lead)
    log_c = take_data(key, model, data, 0, pool, hull.counts[DATA], lead, DRAWN) + log_adopted
    rows, back = pool.rows[pool.takes], pool.source[pool.takes]
    n_taken, sums = sum_by_place(model, data, rows, back, around.size, hull.counts[DATA])
    changed = begin_birth(stream, model, sticks, hull, around, adopts, log_c, n_taken, sums)
    if changed.b == NULL:
        return False
    log_ratio = changed.log_ratio
    if log_ratio > changed.level:  # rule 5
        targets = prepare_targets(model, hull, around)
        log_ratio += send_data(key, model, data, 0, rows, hull.counts[DATA], targets, back, GIVEN)
        if log_ratio > changed.level:
            on.relabel(hull, rows, changed.b)
            return True
    undo_birth(hull, changed, around, n_taken, sums)
    return False


@compiled
def choose_birth(stream: Stream, hull: Hull) -> Integers:
    """Choose P; return it, its children and theirs, or nothing."""
    p = choose_by_data(stream, hull)
    for _ in range(int(uniform(stream) * 3.0)):
        p = p if p == NULL else hull.nodes[p].parent
    return np.empty(0, dtype=np.int64) if p == NULL else around_node(hull, p)


@compiled
def _log_choice_of_p(hull: Hull, n_pool: int) -> float:
    """Return the log probability of choosing P, with so many data at it and around it."""
    return math.log(n_pool / (3.0 * hull.counts[DATA]))


@compiled
def choose_adopted(
    stream: Stream, model: Any, hull: Hull, around: Integers, index: Integers, lead: Lead
) -> tuple[Any, float]:
    """Choose which of the nodes around B adopts; return this, and the log probability."""
    adopts = np.zeros(around.size, dtype=np.bool_)
    log_c = adopt(stream, model, hull, around, index, lead, adopts, DRAWN)
    return adopts, log_c


@compiled
def begin_birth(
    stream: Stream,
    model: Any,
    sticks: Sticks,
    hull: Hull,
    around: Integers,
    adopts: Any,
    log_c: float,
    n_taken: Integers,
    sums: Floats,
) -> Changed:
    """Let B adopt children and take data, of which sums are given; B is NULL if it is refused."""
    p = around[0]
    n_pool = 0
    for row in around:
        n_pool += hull.nodes[row].n_here
    children = around[adopts]
    parents = np.empty_like(children)
    for k in range(children.size):
        parents[k] = hull.nodes[children[k]].parent
    fitted = _fitted(hull, p, around, n_taken, children, parents)
    if np.sum(n_taken) + children.size == 0 or fitted.size > MOST_FITTED:
        return unchanged()
    log_proposed = log_c + _log_choice_of_p(hull, n_pool)
    before = on.log_tree(hull, sticks) + on.fit_rows(stream, model, hull, fitted, GIVEN)
    theta, statistics = hull.theta[fitted], hull.statistics[fitted]
    b = on.add_node(hull, next_word(stream))
    _take(hull, b, p, around, n_taken, sums, children)
    log_ratio, level = -math.inf, 0.0
    if not _has_empty_leaf(hull, fitted):
        both = np.append(fitted, b)
        after = on.log_tree(hull, sticks) + on.fit_rows(stream, model, hull, both, DRAWN)
        log_ratio = after - before - log_proposed - math.log(hull.counts[ALIVE] - 1.0)
        level = -exponential(stream)
        if log_ratio > level:  # rule 5
            log_ratio += send_children(stream, model, hull, b, children, parents, GIVEN)
    return Changed(
        b, p, np.uint64(0), children, parents, fitted, theta, statistics, log_ratio, level
    )


@compiled
def undo_birth(
    hull: Hull, changed: Changed, around: Integers, n_taken: Integers, sums: Floats
) -> None:
    """Forget B, and let the nodes around it be what they were."""
    _give_back(hull, changed.b, around, n_taken, sums, changed.children, changed.parents)
    on.remove_node(hull, changed.b)
    for k in range(changed.rows.size):
        hull.theta[changed.rows[k]] = changed.theta[k]
        hull.statistics[changed.rows[k]] = changed.statistics[k]


@compiled
def _death(key: Key, stream: Stream, model: Any, data: Any, sticks: Sticks, hull: Hull) -> bool:
    going = choose_death(stream, model, hull)
    if going.b == NULL:
        return False
    around = going.around
    rows = on.data_of(hull, going.b)
    back = np.empty_like(rows)
    targets = prepare_targets(model, hull, around)
    log_g = send_data(key, model, data, 0, rows, hull.counts[DATA], targets, back, DRAWN)
    n_taken, sums = sum_by_place(model, data, rows, back, around.size, hull.counts[DATA])
    changed = begin_death(stream, model, sticks, hull, going, log_g, n_taken, sums)
    if changed.b == NULL:
        return False
    log_ratio = changed.log_ratio
    if log_ratio > changed.level:  # rule 5
        index = index_of(hull, around)
        pool = data_of_all(hull, index, changed.b, back)
        picked = pick(stream, pool.rows.size)
        lead = launch(
            stream, model, data, hull, around, index, pool.rows[picked], pool.source[picked],
            pool.rows.size,
        )  # fmt: skip
        log_ratio += take_data(key, model, data, 0, pool, hull.counts[DATA], lead, GIVEN)
        log_ratio += log_adopted(stream, model, hull, changed, around, index, lead)
        if log_ratio > changed.level:
            for k in range(rows.size):
                hull.labels[rows[k]] = hull.nodes[around[back[k]]].label
            return True
    undo_death(hull, changed, around, n_taken, sums)
    return False


@compiled
def choose_death(stream: Stream, model: Any, hull: Hull) -> Going:
    """Choose B, and where its children go; NULL if there is none that may go."""
    n_nodes = hull.counts[ALIVE]
    none = np.empty(0, dtype=np.int64)
    if n_nodes == 1:
        return Going(NULL, none, none, none, -math.inf)
    b = choose_below_root(stream, hull)
    children = on.children_of(hull, b)
    parents = np.empty_like(children)
    log_proposed = -math.log(n_nodes - 1.0)
    log_proposed += send_children(stream, model, hull, b, children, parents, DRAWN)
    if log_proposed == -math.inf:
        return Going(NULL, none, none, none, -math.inf)
    around = around_without(hull, b, children, parents)
    return Going(b, children, parents, around, log_proposed)


@compiled
def begin_death(
    stream: Stream,
    model: Any,
    sticks: Sticks,
    hull: Hull,
    going: Going,
    log_g: float,
    n_taken: Integers,
    sums: Floats,
) -> Changed:
    """Let B go, its data as sums say; labels of data stay. B is NULL if it is refused."""
    b, around, children, parents = going.b, going.around, going.children, going.parents
    p = hull.nodes[b].parent
    fitted = _fitted(hull, p, around, n_taken, children, parents)
    if fitted.size > MOST_FITTED:
        return unchanged()
    both = np.append(fitted, b)
    theta, statistics = hull.theta[both], hull.statistics[both]
    entity = hull.nodes[b].entity
    rows = both.copy()  # fit_rows puts its own in order
    before = on.log_tree(hull, sticks) + on.fit_rows(stream, model, hull, both, GIVEN)
    _give_back(hull, b, around, n_taken, sums, children, parents)
    on.remove_node(hull, b)
    log_ratio, level = -math.inf, 0.0
    if not _has_empty_leaf(hull, fitted):
        after = on.log_tree(hull, sticks) + on.fit_rows(stream, model, hull, fitted, DRAWN)
        n_pool = 0
        for row in around:
            n_pool += hull.nodes[row].n_here
        if n_pool > 0:
            log_ratio = after - before - going.log_proposed - log_g
            log_ratio += _log_choice_of_p(hull, n_pool)
        level = -exponential(stream)
    return Changed(b, p, entity, children, parents, rows, theta, statistics, log_ratio, level)


@compiled
def undo_death(
    hull: Hull, changed: Changed, around: Integers, n_taken: Integers, sums: Floats
) -> None:
    """Let B come back, and the nodes around it be what they were."""
    b = on.add_node(hull, changed.entity)  # which has the row it had
    _take(hull, b, changed.p, around, n_taken, sums, changed.children)
    for k in range(changed.rows.size):
        hull.theta[changed.rows[k]] = changed.theta[k]
        hull.statistics[changed.rows[k]] = changed.statistics[k]


@compiled
def log_adopted(
    stream: Stream,
    model: Any,
    hull: Hull,
    changed: Changed,
    around: Integers,
    index: Integers,
    lead: Lead,
) -> float:
    """Return the log probability that a birth adopts the children that B had."""
    adopts = np.zeros(around.size, dtype=np.bool_)
    for child in changed.children:
        adopts[index[child]] = True
    return adopt(stream, model, hull, around, index, lead, adopts, GIVEN)


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
