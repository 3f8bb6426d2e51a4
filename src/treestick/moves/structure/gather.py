"""Metropolis-Hastings move: a new leaf gathers data from the nodes around it, or scatters them.

A node that is missing has its data spread over several others, none of which alone has enough to
pay for a split. So a **birth** chooses a place P, and a new leaf B below P takes data from the
nodes around: all within two edges of P. A **death** chooses a leaf B, and each of its data goes to
one of these nodes, the likelier the more its parameters suit it. Parameters of other nodes stay as
they are; those of B are drawn anew, with the weight W of :func:`treestick.contract.fit_node`. With
z the nodes of the data without B, a birth is accepted with

    min(1, p(with B) W d(B) prod_{n in B} g(z_n | x_n)
           / [ p(without B) prod_{n in B} f(x_n | theta[z_n]) s(P) c(B) ])

and a death with the inverse. s(P) is the probability of the place, d(B) that of choosing B among
all leaves but the root, c that of the set of data that go to B, and g that of a datum's way back:
proportional to (1 + n_here[k]) f(x | theta[k]) over the nodes k around P.

Rule 1. c is led by an anchor among the data around P and a few steps, in which data join B if they
suit an estimate of its parameters better than those of their own node. This, like all other
choices but d, looks at the state without B only.
Rule 2. A birth may not leave an empty leaf behind.
"""

import math
from typing import Any

import numpy as np

from treestick import contract
from treestick._jit import compiled
from treestick.contract import DRAWN, GIVEN
from treestick.moves.state import Floats, Integers, Sticks
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

N_LAUNCH_STEPS = 4
MOST_LAUNCHED = 1000
SEED_GROUP = 8
"""Data that join the anchor first."""
LEAST = 1e-5
"""No datum is less likely than this to go to B, or to stay."""


@compiled
def move_gather(
    key: Key, model: Any, data: Any, sticks: Sticks, hull: Hull, kind: int, first: int, n: int
) -> Integers:
    """Propose ``n`` births or deaths, numbered from ``first``, or fewer if the hull is full.

    Return how many there were, how many births were accepted, and how many deaths. There is one
    ``kind``.
    """
    counts = np.zeros(3, dtype=np.int64)
    _, prepared_width, _ = contract.widths(model)
    prepared = np.empty((hull.nodes.size, prepared_width))
    for k in range(hull.counts[ALIVE]):
        contract.prepare(model, hull.theta[hull.nodes[k].alive], prepared[hull.nodes[k].alive])
    for number in range(first, first + n):
        if hull.counts[FREE] == 0:
            break
        counts[0] += 1
        stream = open_stream(key_for(key, Purpose.STRUCTURE, number))
        if uniform(stream) < 0.5:
            counts[1] += _birth(stream, model, data, sticks, hull, prepared)
        else:
            counts[2] += _death(stream, model, data, sticks, hull, prepared)
    return counts


@compiled
def _birth(
    stream: Stream, model: Any, data: Any, sticks: Sticks, hull: Hull, prepared: Floats
) -> bool:
    # The place: any node, or the node of any datum.
    if uniform(stream) < 0.5:
        p = hull.nodes[int(uniform(stream) * hull.counts[ALIVE])].alive
    else:
        p = hull.data[int(uniform(stream) * hull.data.size)].node
    around = _nodes_around(hull, p)
    pool = _data_around(hull, around)
    if pool.size == 0:
        return False
    goes = np.empty(pool.size, dtype=np.bool_)
    log_c = _lead(stream, model, data, hull, p, pool, prepared, goes, DRAWN)
    n_b = 0
    for k in range(pool.size):
        n_b += goes[k]
    if n_b == 0:
        return False
    rows, back = np.empty(n_b, dtype=np.int64), np.empty(n_b, dtype=np.int64)
    k = 0
    for j in range(pool.size):
        if goes[j]:
            rows[k], back[k] = pool[j], hull.data[pool[j]].node
            k += 1
    log_proposed = log_c + _log_choice_of_place(hull, p)
    before = on.log_tree(hull, sticks)
    for k in range(n_b):
        before += contract.log_likelihood(model, data, rows[k], prepared[back[k]])
    b = on.add_node(hull, next_word(stream))
    on.link(hull, b, p)
    hull.nodes[b].depth = hull.nodes[p].depth + 1
    for k in range(n_b):
        on.take_datum(hull, model, data, rows[k])
        on.put_datum(hull, model, data, rows[k], b)
    if _count_empty_leaves(hull, back) == 0:
        log_reverse = -math.log(_count_leaves(hull))
        for k in range(n_b):
            log_reverse += _log_way_back(model, data, hull, around, rows[k], back[k], prepared)
        after = on.log_tree(hull, sticks) + _fit(stream, model, hull, b, DRAWN)
        if after - before + log_reverse - log_proposed > -exponential(stream):
            contract.prepare(model, hull.theta[b], prepared[b])
            return True
    for k in range(n_b):
        on.take_datum(hull, model, data, rows[k])
        on.put_datum(hull, model, data, rows[k], back[k])
    on.take_off(hull, b)
    on.remove_node(hull, b)
    return False


@compiled
def _death(
    stream: Stream, model: Any, data: Any, sticks: Sticks, hull: Hull, prepared: Floats
) -> bool:
    n_leaves = _count_leaves(hull)
    if n_leaves == 0:
        return False
    b = NULL
    left = int(uniform(stream) * n_leaves)
    for k in range(hull.counts[ALIVE]):
        row = hull.nodes[k].alive
        if row != 0 and hull.nodes[row].n_children == 0:
            if left == 0:
                b = row
            left -= 1
    p = hull.nodes[b].parent
    before = on.log_tree(hull, sticks) + _fit(stream, model, hull, b, GIVEN)
    log_proposed = -math.log(n_leaves)
    rows = on.data_of(hull, b)
    statistics = hull.statistics[b].copy()
    entity, theta = hull.nodes[b].entity, hull.theta[b].copy()
    for n in rows:
        on.take_datum(hull, model, data, n)
    on.take_off(hull, b)
    on.remove_node(hull, b)
    around = _nodes_around(hull, p)
    back = np.empty(rows.size, dtype=np.int64)
    after = 0.0
    for k in range(rows.size):
        back[k] = _choose_way_back(stream, model, data, hull, around, rows[k], prepared)
        log_proposed += _log_way_back(model, data, hull, around, rows[k], back[k], prepared)
        after += contract.log_likelihood(model, data, rows[k], prepared[back[k]])
    for k in range(rows.size):
        on.put_datum(hull, model, data, rows[k], back[k])
    if p == 0 or hull.nodes[p].n_here + hull.nodes[p].n_children > 0:
        pool = _data_around(hull, around)
        is_of_b = np.zeros(hull.data.size, dtype=np.bool_)
        for n in rows:
            is_of_b[n] = True
        goes = np.empty(pool.size, dtype=np.bool_)
        for k in range(pool.size):
            goes[k] = is_of_b[pool[k]]
        log_reverse = _log_choice_of_place(hull, p)
        log_reverse += _lead(stream, model, data, hull, p, pool, prepared, goes, GIVEN)
        after += on.log_tree(hull, sticks)
        if after - before + log_reverse - log_proposed > -exponential(stream):
            return True
    b = on.add_node(hull, entity)
    on.link(hull, b, p)
    hull.nodes[b].depth = hull.nodes[p].depth + 1
    for n in rows:
        on.take_datum(hull, model, data, n)
        on.put_datum(hull, model, data, n, b)
    hull.theta[b] = theta
    hull.statistics[b] = statistics
    contract.prepare(model, theta, prepared[b])
    return False


@compiled
def _fit(stream: Stream, model: Any, hull: Hull, b: int, is_drawn: np.int64) -> float:
    return contract.fit_node(
        stream, model, on.above(hull, b), hull.theta[:0], hull.nodes[b].n_here, hull.statistics[b],
        hull.theta[b], is_drawn,
    )  # fmt: skip


# -- choices ---------------------------------------------------------------------------------------


@compiled
def _log_choice_of_place(hull: Hull, p: int) -> float:
    return math.log(0.5 / hull.counts[ALIVE] + 0.5 * hull.nodes[p].n_here / hull.data.size)


@compiled
def _count_leaves(hull: Hull) -> int:
    """Return the number of leaves but the root."""
    count = 0
    for k in range(hull.counts[ALIVE]):
        count += hull.nodes[k].alive != 0 and hull.nodes[hull.nodes[k].alive].n_children == 0
    return count


@compiled
def _count_empty_leaves(hull: Hull, rows: Integers) -> int:
    count = 0
    for row in rows:
        count += row != 0 and hull.nodes[row].n_here + hull.nodes[row].n_children == 0
    return count


@compiled
def _nodes_around(hull: Hull, p: int) -> Integers:
    """Return the nodes within two edges of ``p``: itself, those above, siblings, those below."""
    rows = np.empty(hull.counts[ALIVE], dtype=np.int64)
    rows[0] = p
    n = 1
    parent = hull.nodes[p].parent
    if parent != NULL:
        rows[n] = parent
        n += 1
        if hull.nodes[parent].parent != NULL:
            rows[n] = hull.nodes[parent].parent
            n += 1
        sibling = hull.nodes[parent].first_child
        while sibling != NULL:
            if sibling != p:
                rows[n] = sibling
                n += 1
            sibling = hull.nodes[sibling].next_sibling
    child = hull.nodes[p].first_child
    while child != NULL:
        rows[n] = child
        n += 1
        below = hull.nodes[child].first_child
        while below != NULL:
            rows[n] = below
            n += 1
            below = hull.nodes[below].next_sibling
        child = hull.nodes[child].next_sibling
    return rows[:n]


@compiled
def _data_around(hull: Hull, rows: Integers) -> Integers:
    """Return the data of some nodes."""
    total = 0
    for row in rows:
        total += hull.nodes[row].n_here
    pool = np.empty(total, dtype=np.int64)
    k = 0
    for row in rows:
        n = hull.nodes[row].first_datum
        while n != NULL:
            pool[k] = n
            k += 1
            n = hull.data[n].next
    return pool


@compiled
def _log_ways(
    model: Any, data: Any, hull: Hull, around: Integers, n: int, prepared: Floats
) -> Floats:
    """Return log g of each node around; counts must be those without the data of B."""
    log_g = np.empty(around.size)
    largest = -math.inf
    for k in range(around.size):
        row = around[k]
        log_g[k] = math.log(1.0 + hull.nodes[row].n_here) + contract.log_likelihood(
            model, data, n, prepared[row]
        )
        largest = max(largest, log_g[k])
    total = 0.0
    for k in range(around.size):
        total += math.exp(log_g[k] - largest)
    for k in range(around.size):
        log_g[k] -= largest + math.log(total)
    return log_g


@compiled
def _choose_way_back(
    stream: Stream,
    model: Any,
    data: Any,
    hull: Hull,
    around: Integers,
    n: int,
    prepared: Floats,
) -> int:
    log_g = _log_ways(model, data, hull, around, n, prepared)
    dart = uniform(stream)
    for k in range(around.size):
        dart -= math.exp(log_g[k])
        if dart < 0.0:
            return around[k]
    return around[np.argmax(log_g)]  # by rounding


@compiled
def _log_way_back(
    model: Any, data: Any, hull: Hull, around: Integers, n: int, row: int, prepared: Floats
) -> float:
    log_g = _log_ways(model, data, hull, around, n, prepared)
    for k in range(around.size):
        if around[k] == row:
            return log_g[k]
    return -math.inf


@compiled
def _largest(values: Floats, few: int) -> float:
    """Return the least of the ``few`` largest values; np.partition takes seconds to compile."""
    largest = np.full(min(few, values.size), -math.inf)
    for value in values:
        if value > largest[0]:
            k = 0
            while k + 1 < largest.size and value > largest[k + 1]:
                largest[k] = largest[k + 1]
                k += 1
            largest[k] = value
    return largest[0]


@compiled
def _lead(
    stream: Stream,
    model: Any,
    data: Any,
    hull: Hull,
    p: int,
    pool: Integers,
    prepared: Floats,
    goes: Any,
    is_drawn: np.int64,
) -> float:
    """Let an anchor lead: return the log probability of what ``goes``, drawn if ``is_drawn``.

    Parameters of B are estimated from the anchor alone, then from the few data that like them best,
    then, some times, from all that like them better than their own node's.
    """
    width, prepared_width, statistics_width = contract.widths(model)
    n_launched = min(pool.size, MOST_LAUNCHED)
    launched = pool
    if pool.size > MOST_LAUNCHED:
        launched = np.empty(n_launched, dtype=np.int64)
        for k in range(n_launched):
            launched[k] = pool[int(uniform(stream) * pool.size)]
    own = np.empty(n_launched)
    for k in range(n_launched):
        own[k] = contract.log_likelihood(
            model, data, launched[k], prepared[hull.data[launched[k]].node]
        )
    theta, ready = np.empty(width), np.empty(prepared_width)
    statistics = np.zeros(statistics_width)
    contract.add_statistics(model, data, pool[int(uniform(stream) * pool.size)], statistics)
    n_b = 1.0
    scale = pool.size / n_launched
    liking = np.empty(n_launched)
    for step in range(N_LAUNCH_STEPS + 1):
        contract.estimate(model, hull.theta[p], hull.theta[:0], n_b, statistics, theta)
        contract.prepare(model, theta, ready)
        if step == N_LAUNCH_STEPS:
            break
        for k in range(n_launched):
            n = launched[k]
            liking[k] = contract.log_likelihood(model, data, n, ready) - own[k]
            if step > 1:
                liking[k] += math.log((n_b + 1.0) / (hull.nodes[hull.data[n].node].n_here + 1.0))
        threshold = 0.0
        if step == 0:
            threshold = _largest(liking, SEED_GROUP)
        statistics[:] = 0.0
        n_b = 0.0
        for k in range(n_launched):
            if liking[k] >= threshold:
                contract.add_statistics(model, data, launched[k], statistics)
                n_b += 1.0
        if step > 0:
            n_b *= scale
            for d in range(statistics_width):
                statistics[d] *= scale
    log_c = 0.0
    for k in range(pool.size):
        n = pool[k]
        row = hull.data[n].node
        difference = contract.log_likelihood(model, data, n, ready)
        difference -= contract.log_likelihood(model, data, n, prepared[row])
        difference += math.log((n_b + 1.0) / (hull.nodes[row].n_here + 1.0))
        q = LEAST + (1.0 - 2.0 * LEAST) / (1.0 + math.exp(min(-difference, 500.0)))
        if is_drawn == DRAWN:
            goes[k] = uniform(stream) < q
        log_c += math.log(q if goes[k] else 1.0 - q)
    return log_c
