"""The nodes around a place in the tree: what a node that is born takes from them, or gives back.

See :mod:`treestick.moves.structure.insert`, whose rules these functions follow.
"""

import math
from typing import Any

import numpy as np

from treestick import contract
from treestick._jit import compiled
from treestick.moves.state import Floats, Integers
from treestick.moves.structure import hull as on
from treestick.moves.structure.choices import draw_index, least_of_best, log_sum
from treestick.moves.structure.hull import ALIVE, Hull
from treestick.moves.structure.records import Lead, Pool, Targets
from treestick.moves.tasks import sum_terms
from treestick.random import Key, Purpose, Stream, key_for, open_stream, reopen, uniform
from treestick.tree.table import NULL

N_LAUNCH_STEPS = 4
SEED_GROUP = 8
"""Data that join an anchor first."""
LEAST = 1e-5
"""No datum is less likely than this to go to B, or to stay."""
LEAST_CHILD = 0.005
"""No child is less likely than this to be adopted, or to stay."""
CLEARLY = 1e-6
"""Differences below are rounding, which is another one in other units: a launch sees none."""
TWO_ANCHORS = 0.75
"""How often a launch from children is one from two of them."""
NEARNESS = 0.1
"""Power of T by which the second of them is chosen: less than 1, or it would be the nearest."""


@compiled
def around_node(hull: Hull, p: int) -> Integers:
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
def around_without(hull: Hull, b: int, children: Integers, parents: Integers) -> Integers:
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
def index_of(hull: Hull, around: Integers) -> Integers:
    """Return of each row its place in ``around``, or NULL."""
    index = np.full(hull.nodes.size, NULL)
    for j in range(around.size):
        index[around[j]] = j
    return index


@compiled
def data_of_all(hull: Hull, index: Integers, b: int, back: Integers) -> Pool:
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
def send_children(
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
def prepare_targets(model: Any, hull: Hull, around: Integers) -> Targets:
    """Return what it takes to send data to these nodes."""
    _, prepared_width, _ = contract.widths(model)
    prepared, log_weights = np.empty((around.size, prepared_width)), np.empty(around.size)
    targets = Targets(hull.theta[around], prepared, log_weights)
    for j in range(around.size):
        contract.prepare(model, hull.theta[around[j]], targets.prepared[j])
        targets.log_weights[j] = math.log(hull.nodes[around[j]].n_here + 1.0)
    return targets


@compiled
def send_data(
    key: Key,
    model: Any,
    data: Any,
    first: int,
    rows: Integers,
    n_data: int,
    targets: Targets,
    back: Integers,
    is_drawn: np.int64,
) -> float:
    """Choose places that data of B go ``back`` to, if ``is_drawn``; return the log probability.

    ``first`` is the number of the datum in row 0.
    """
    stream = open_stream(key)
    n_targets = targets.log_weights.size
    log_g, terms = np.empty(n_targets), np.empty((rows.size, 1))
    for k in range(rows.size):
        for j in range(n_targets):
            log_g[j] = contract.log_likelihood(model, data, rows[k], targets.prepared[j])
            log_g[j] += targets.log_weights[j]
        if is_drawn:
            reopen(stream, key_for(key, Purpose.SIDE, first + rows[k]))
            back[k] = draw_index(stream, log_g)
        terms[k, 0] = log_g[back[k]] - log_sum(log_g)
    return sum_terms(terms, rows, n_data)[0]


# -- what B takes ----------------------------------------------------------------------------------


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

    It is a datum, or a child, a large one more often, perhaps with a sibling. Parameters of B are
    estimated from it, then, some times, from data and children that like them better than their own
    node's; those of the nodes that lose data or children by this are estimated again, too.
    ``picked`` are rows of data, of which the last is the anchor, and ``source`` their places.
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
        anchor = _choose_anchor(stream, hull, around)
        below[0] = theta[anchor]
        n_below = 1
        if uniform(stream) < TWO_ANCHORS:
            other = _choose_sibling(stream, model, hull, around, anchor)
            if other != NULL:
                below[1] = theta[other]
                n_below = 2
    liking, own = np.empty(n_launched), np.empty(n_launched)
    is_sampled, n_stay = n_launched < n_pool, np.zeros(n_around)
    is_new, is_changed = np.ones(n_around, dtype=np.bool_), np.zeros(n_around, dtype=np.bool_)
    goes = np.zeros(n_around, dtype=np.bool_)
    for step in range(N_LAUNCH_STEPS + 1):
        contract.estimate(
            model, theta[0], below[:n_below], counts[n_around], statistics[n_around],
            theta[n_around],
        )  # fmt: skip
        contract.prepare(model, theta[n_around], prepared[n_around])
        if step > 0:
            is_new[:] = is_changed  # what was estimated once is never out of date
            for j in range(n_around):
                is_changed[j] = counts[j] > 0.0
                lean[j] = _lean(hull, around[j], counts, j, n_around)
            for j in range(1, n_around):
                if goes[j]:
                    is_changed[index[hull.nodes[around[j]].parent]] = True
            for j in range(n_around):
                is_new[j] |= is_changed[j]
                if is_new[j]:
                    row = around[j]
                    n_left = n_stay[j]
                    if counts[j] == 0.0 or not is_sampled:
                        n_left = hull.nodes[row].n_here - counts[j]
                        for d in range(statistics_width):
                            gone = statistics[j, d] if counts[j] > 0.0 else 0.0
                            statistics[j, d] = hull.statistics[row, d] - gone
                    contract.estimate(
                        model, on.above(hull, row),
                        _without_goers(hull, row, index, goes, theta[n_around]), n_left,
                        statistics[j], theta[j],
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
        threshold = CLEARLY
        if step == 0 and from_datum:
            threshold = least_of_best(liking, SEED_GROUP) - CLEARLY
        statistics[:] = 0.0
        counts[:] = 0.0
        n_stay[:] = 0.0
        for k in range(n_launched):
            j, is_going = source[k], liking[k] >= threshold
            if is_going:
                contract.add_statistics(model, data, picked[k], statistics[n_around])
                counts[n_around] += 1.0
                counts[j] += 1.0
            else:
                n_stay[j] += 1.0
            # What a node has left is its own less what goes; of a sample, that may be less than
            # nothing, so it is what stays.
            if is_going != is_sampled:
                contract.add_statistics(model, data, picked[k], statistics[j])
        if is_sampled:
            for j in range(n_around + 1):
                counts[j] *= scale
                for d in range(statistics_width):
                    statistics[j, d] *= scale
            for j in range(n_around):
                n_stay[j] *= scale
        n_below = 0
        for j in range(1, n_around):
            goes[j] = _pull(model, hull, around[j], theta, index, n_around) > CLEARLY
            if goes[j]:
                below[n_below] = hull.theta[around[j]]
                n_below += 1
    return Lead(theta, prepared, lean)


@compiled
def take_data(
    key: Key,
    model: Any,
    data: Any,
    first: int,
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
            reopen(stream, key_for(key, Purpose.SIDE, first + n))
            takes[k] = uniform(stream) < q
        terms[k, 0] = math.log(q if takes[k] else 1.0 - q)
    return sum_terms(terms, pool.rows, n_data)[0]


@compiled
def adopt(
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
def _choose_sibling(stream: Stream, model: Any, hull: Hull, around: Integers, anchor: int) -> int:
    """Choose another child of the anchor's parent, any or one that is near; NULL if there is none.

    Nodes that are missing hold together children that are near each other.
    """
    parent, theta = hull.nodes[around[anchor]].parent, hull.theta[around[anchor]]
    by_distance = uniform(stream) < 0.5
    log_weights = np.full(around.size, -math.inf)
    for j in range(1, around.size):
        if j != anchor and hull.nodes[around[j]].parent == parent:
            log_weights[j] = 0.0
            if by_distance:
                log_t = contract.log_transition(model, theta, hull.theta[around[j]])
                log_weights[j] = NEARNESS * log_t
    return NULL if log_weights.max() == -math.inf else draw_index(stream, log_weights)


@compiled
def _without_goers(hull: Hull, row: int, index: Integers, goes: Any, of_b: Floats) -> Floats:
    """Return the parameters of a node's children but for those that go to B; P has B itself."""
    thetas = np.empty((hull.nodes[row].n_children + 1, hull.theta.shape[1]))
    k = 0
    child = hull.nodes[row].first_child
    while child != NULL:
        if index[child] == NULL or not goes[index[child]]:
            thetas[k] = hull.theta[child]
            k += 1
        child = hull.nodes[child].next_sibling
    if index[row] == 0:
        thetas[k] = of_b
        k += 1
    return thetas[:k]


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
