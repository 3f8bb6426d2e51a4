"""Gibbs move on the data's nodes, over many nodes at once.

Given the sticks, the infinite tree is a function of the sweep's key, and so is a set C of its
nodes: always the subtree of largest mass is opened next, its top joins C and its children follow as
sticks are broken, until the next subtree has less than a given mass or C has M nodes. Given that a
datum is at a node of C,

    P(node of n = e) ~ pi[e] f(x_n | theta[e])     over e in C,

independently for all data: this is what the move draws. Data elsewhere stay where they are.

Rule 1. C may not depend on the assignments: Gibbs over the *occupied* nodes would not leave the law
invariant. The least mass depends on the number of data alone, and M is fixed once burn-in is over.
Rule 2. Nodes of C that no datum has visited take part with the parameters that the key gives them,
the same that :mod:`treestick.moves.assignments` would look up.
Rule 3. One product of all data with all of C: each datum is computed by itself in one order, so
nothing depends on blocks, tasks or threads.
Rule 4. Where a model has likelihoods in float32, which take half the time, weights w' are from
these, with |log w' - log w| <= ``margin``, whatever the datum and the node. A node that is drawn in
proportion to w' is accepted with probability

    w / (w' e**margin)        >= e**(-2 margin),

else it is drawn again: what is accepted has chances in proportion to w, exactly. Only if a uniform
number is not below that bound, for one datum in hundreds, is w computed, in float64.
"""

import heapq
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick import contract
from treestick._jit import compiled
from treestick.moves.assignments import (
    FULL,
    ROOM,
    Joining,
    Unseen,
    break_next_stick,
    collect,
    look_up_nu,
    look_up_theta,
)
from treestick.moves.prune import prune_to
from treestick.moves.state import Floats, Integers, State, Sticks
from treestick.moves.tasks import Run, Task
from treestick.packs import (
    WIDTH,
    any_less,
    exp,
    fill,
    larger,
    largest_of,
    load,
    store,
    total,
    where_less,
)
from treestick.random import Key, Purpose, key_for, open_stream, reopen, uniform
from treestick.tree.table import NULL, NodeTable, grow
from treestick.wide import ABREAST, ROUGHLY_ABREAST, ROUNDING, aligned_zeros

BLOCK = 512
"""Data that are computed together, some nodes after the others, which stay in the cache."""
FAR = 40.0
"""A node so much less likely (in nats) than the likeliest has no chance: below rounding."""
MOST_MARGIN = 0.05
"""With a larger one, weights would be computed in float64 for many data."""


def move_candidates(
    key: Key,
    state: State,
    data: Any,
    tasks: Sequence[Task],
    most: int,
    least_mass: float = 0.0,
    run: Run = map,
) -> tuple[State, int]:
    """Move the data that are at one of the candidates; prune to the new hull.

    The state needs sticks in its table. Statistics are left as they are: sum them anew. Return also
    the number of candidates, at most ``most``.
    """
    candidates = open_candidates(key, state, most, least_mass)
    prepared = prepare_choices(state.model, candidates.choices)
    found = np.empty(state.assignments.size, dtype=np.int64)

    def assign(task: Task) -> None:
        choices = candidates.choices
        draw_among(key, state.model, data, 0, state.assignments, choices, prepared, *task, found)

    for _ in run(assign, tasks):
        pass
    counts = np.bincount(found, minlength=candidates.n_rows)
    state, new_row = settle(state, candidates, counts)
    return state._replace(assignments=new_row[found]), candidates.choices.rows.size


class Choices(NamedTuple):
    """What data are drawn among."""

    rows: Integers
    """The candidates: rows of the state's table or, behind it, of what was looked up."""
    log_mass: Floats
    theta: Floats
    is_candidate: npt.NDArray[np.bool_]
    """Of each node of the hull."""


class Candidates(NamedTuple):
    """Choices, and what was looked up of the unseen tree to have them."""

    choices: Choices
    unseen: Unseen

    @property
    def n_rows(self) -> int:
        """Return how many rows there are."""
        return int(self.unseen.table.size[0])


def open_candidates(key: Key, state: State, most: int, least_mass: float) -> Candidates:
    """Return the candidates of a sweep."""
    unseen, rows, log_mass = _open(key, state, most, least_mass)
    is_candidate = np.zeros(state.n_nodes, dtype=np.bool_)
    is_candidate[rows[rows < state.n_nodes]] = True
    theta = np.empty((rows.size, state.theta.shape[1]))
    is_seen = rows < state.n_nodes
    theta[is_seen] = state.theta[rows[is_seen]]
    theta[~is_seen] = unseen.theta[unseen.slot[rows[~is_seen]]]
    return Candidates(Choices(rows, log_mass, theta, is_candidate), unseen)


class Prepared(NamedTuple):
    """What likelihoods need."""

    tables: Any
    """Of some nodes side by side; of the next ones; ... In float64 or float32."""
    margin: float
    """How far logarithms of weights may be from the truth; 0 if float64 is taken for that."""


def prepare_choices(model: Any, choices: Choices) -> Prepared:
    """Return what likelihoods need, in float32 if the model can, and if that is not too rough."""
    _, width, _ = contract.widths(model)
    n_nodes = choices.rows.size
    if contract.registered(type(model)).roughness is not None:
        n_groups = -(-n_nodes // ROUGHLY_ABREAST)
        tables = aligned_zeros((n_groups, width, ROUGHLY_ABREAST), np.float32)
        margin = float(_prepare_roughly(model, choices.theta, choices.log_mass, tables))
        if margin <= MOST_MARGIN:
            return Prepared(tables, margin)
    tables = aligned_zeros((-(-n_nodes // ABREAST), width, ABREAST), np.float64)
    _prepare(model, choices.theta, tables)
    return Prepared(tables, 0.0)


def settle(state: State, candidates: Candidates, counts: Integers) -> tuple[State, Integers]:
    """Return the state, pruned, with so many data at each row, and the new row of each.

    The assignments are left as they are.
    """
    n_nodes, n_before = state.n_nodes, int(state.table.size[0])
    used = np.flatnonzero(counts)
    renumbered, nodes = collect(candidates.unseen, used, n_nodes, n_before)
    joining = Joining(state)
    new_row = joining.join(nodes)
    joined = np.full(counts.size, NULL)
    joined[used] = new_row[renumbered]
    at_rows = np.zeros(joining.table.parent.size, dtype=np.int64)
    at_rows[joined[used]] = counts[used]
    moved = state._replace(table=joining.table, theta=joining.theta)
    state, last_row = prune_to(moved, at_rows)
    joined[used] = last_row[joined[used]]
    return state, joined


def _open(key: Key, state: State, most: int, least_mass: float) -> tuple[Unseen, Integers, Floats]:
    """Return what was looked up, the rows of the candidates and the log mass of each."""
    size = int(state.table.size[0])
    room = ROOM
    while True:
        table = grow(state.table, size + room)
        rows, log_mass, is_full = _best_first(key, state.sticks, table, most, least_mass)
        if not is_full:
            break
        room *= 2
    unseen = Unseen(
        table,
        np.full(size + room, NULL),
        np.zeros(1, dtype=np.int64),
        np.empty((size + room, state.theta.shape[1])),
        np.empty((size + room, 0)),
        np.ones(size + room, dtype=np.bool_),
    )
    _look_up(key, state.model, state.theta, unseen, rows)
    return unseen, rows, log_mass


@compiled
def _look_up(key: Key, model: Any, theta: Floats, unseen: Unseen, rows: Integers) -> None:
    for row in rows:
        if row >= theta.shape[0] and look_up_theta(key, model, theta, unseen, row) == FULL:
            raise IndexError("there is a slot for every row")


@compiled
def _best_first(
    key: Key, sticks: Sticks, table: NodeTable, most: int, least_mass: float
) -> tuple[Integers, Floats, bool]:
    """Return the candidates in best-first order, their log mass, and whether the table is full.

    On the heap are subtrees not yet opened (NULL in the last place) and the children of a node that
    have not had their turn, behind the child named in the last place (or behind the node itself).
    """
    rows = np.empty(most, dtype=np.int64)
    log_mass = np.empty(most)
    stream = open_stream(key)
    heap = [(-1.0, 0, NULL)]
    n = 0
    while n < most:
        negative, row, last = heapq.heappop(heap)
        mass = -negative
        if mass < least_mass:
            break
        if last == NULL:
            nu = look_up_nu(key, sticks, table, row, stream)
            rows[n] = row
            log_mass[n] = math.log(mass * nu) if mass * nu > 0.0 else -math.inf
            n += 1
            heapq.heappush(heap, (-mass * (1.0 - nu), row, row))
            continue
        child = table.first_child[row] if last == row else table.next_sibling[last]
        if child == NULL:
            if table.size[0] == table.parent.size:
                return rows[:n], log_mass[:n], True
            child = break_next_stick(key, sticks, table, row, stream)
        heapq.heappush(heap, (-mass * table.psi[child], child, NULL))
        heapq.heappush(heap, (-mass * (1.0 - table.psi[child]), row, child))
    return rows[:n], log_mass[:n], False


@compiled
def _prepare(model: Any, theta: Floats, tables: Any) -> None:
    one = np.empty(tables.shape[1])
    for k in range(theta.shape[0]):
        contract.prepare(model, theta[k], one)
        _write(one, k, tables)


@compiled
def _prepare_roughly(model: Any, theta: Floats, log_mass: Floats, tables: Any) -> float:
    """Write tables of float32; return how far logarithms of weights may be from the truth.

    To the likelihood's roughness come rounding of the log mass in the sum with it, and of the
    weight.
    """
    one = np.empty(tables.shape[1])
    margin = 0.0
    for k in range(theta.shape[0]):
        contract.prepare(model, theta[k], one)
        _write(one, k, tables)
        if log_mass[k] > -math.inf:
            rough = contract.roughness(model, theta[k], one) + 1.01 * ROUNDING * abs(log_mass[k])
            margin = max(margin, rough + 2.0 * ROUNDING)
    return margin


@compiled
def _write(one: Floats, k: int, tables: Any) -> None:
    group, place = divmod(k, tables.shape[2])
    for j in range(one.size):
        tables[group, j, place] = one[j]


@compiled
def draw_among(
    key: Key,
    model: Any,
    data: Any,
    first_datum: int,
    assignments: Integers,
    choices: Choices,
    prepared: Prepared,
    start: int,
    stop: int,
    found: Integers,
) -> None:
    """Write the new rows of the data from ``start`` to ``stop`` to ``found``.

    ``first_datum`` is the number of datum 0 among all that there are, here and elsewhere.
    """
    stream = open_stream(key)
    n_groups, width, n_abreast = prepared.tables.shape
    log_mass = np.full(n_groups * n_abreast, -math.inf)
    log_mass[: choices.rows.size] = choices.log_mass
    p = np.empty((n_groups, BLOCK, n_abreast), dtype=prepared.tables.dtype)
    largest = np.empty(BLOCK)
    totals = np.empty((BLOCK, n_groups))
    one = np.empty(width)
    surely = math.exp(-2.0 * prepared.margin)
    for first in range(start, stop, BLOCK):
        last = min(first + BLOCK, stop)
        _weigh(model, data, first, last, log_mass, prepared.tables, p, largest, totals)
        for n in range(first, last):
            found[n] = assignments[n]
            if not choices.is_candidate[assignments[n]]:
                continue
            reopen(stream, key_for(key, Purpose.CANDIDATE, first_datum + n))
            while True:
                k = _choose(uniform(stream), totals[n - first], p[:, n - first])
                if k == NULL or prepared.margin == 0.0:
                    break
                u = uniform(stream)
                if u < surely:
                    break
                contract.prepare(model, choices.theta[k], one)
                log_w = log_mass[k] + contract.log_likelihood(model, data, n, one)
                log_w -= largest[n - first]
                weight = np.float64(p[k // n_abreast, n - first, k % n_abreast])
                if math.log(u) < log_w - math.log(weight) - prepared.margin:
                    break
            if k != NULL:
                found[n] = choices.rows[k]


@compiled
def _weigh(
    model: Any,
    data: Any,
    first: int,
    last: int,
    log_mass: Floats,
    tables: Any,
    p: Any,
    largest: Floats,
    totals: Floats,
) -> None:
    """Write the weights of all nodes, the largest being about 1, and their total of each group.

    The data are those from ``first`` to before ``last``; all have their turn with a group of nodes
    before the next one, so that it stays in the cache.
    """
    n_data, n_abreast = last - first, p.shape[2]
    largest[:n_data] = -math.inf
    for group in range(tables.shape[0]):
        contract.log_likelihoods(model, data, first, last, tables[group], p[group])
        for n in range(n_data):
            logs = p[group, n]
            most = fill(largest[n])
            for k in range(0, n_abreast, WIDTH):
                log_p = load(logs, k, 0.0) + load(log_mass, group * n_abreast + k, 0.0)
                store(logs, k, log_p)
                most = larger(most, log_p)
            largest[n] = largest_of(most)
    for group in range(tables.shape[0]):
        for n in range(n_data):
            logs = p[group, n]
            sums = fill(0.0)
            for k in range(0, n_abreast, WIDTH):
                log_p = load(logs, k, 0.0)
                weight = fill(0.0)
                if any_less(largest[n] - FAR, log_p):
                    weight = exp(larger(log_p - largest[n], -FAR))
                    weight = where_less(largest[n] - FAR, log_p, weight, 0.0)
                store(logs, k, weight)
                sums = sums + load(logs, k, 0.0)  # as it is stored
            totals[n, group] = total(sums)


@compiled
def _choose(u: float, totals: Floats, p: Any) -> int:
    """Return a node with a chance proportional to its weight, or NULL if none has any."""
    whole = 0.0
    for group in range(totals.size):
        whole += totals[group]
    dart = u * whole
    for group in range(totals.size):
        if dart >= totals[group]:
            dart -= totals[group]
            continue
        found = NULL
        for k in range(p.shape[1]):
            if p[group, k] > 0.0:
                found = group * p.shape[1] + k
                if dart < p[group, k]:
                    break
                dart -= p[group, k]
        return found
    return NULL
