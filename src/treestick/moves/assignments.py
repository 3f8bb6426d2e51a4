"""Slice sampling of the data's nodes, with retrospective instantiation (paper, sec. 4).

SAMP-ASSIGNMENT: a datum at node e has a level below its likelihood, log f(x | theta[e]) minus an
exponential. Points u are thrown at the part of (0, 1) that is still in question; the node under u
is the datum's new node if its likelihood reaches the level. Otherwise that part shrinks towards the
datum's present node. With u uniform and its node a function of u and the sticks, this is the slice
sampler of Neal (2003, sec. 5, figures 3 and 5) for the density f(x | theta[node under u]) of u, and
leaves the conditional law of the node invariant for any sticks.

FIND-NODE: a point in the represented tree is found among its segments. In an unseen part it goes
down, from child to child, as far as it has to: sticks and parameters there are functions of the
sweep's key, looked up when needed, the same for every datum and every thread. There is no limit on
depth or number of children.

Rule 1. When a node of the hull is rejected, its whole segment is: the likelihood does not change
along it. What is left of the segment would lie at the end of the part in question, and to hit it
again would change nothing outside it; so only steps without effect are saved, and the move is
Neal's shrinkage all the same.
Rule 2. When the 53 bits of u are used up, because the part in question or the part of an
unseen node is shorter than they resolve, the datum stays where it is.
Rule 3. Given the tree, data are independent. Threads keep what they look up in tables of their own;
what they found is joined by the nodes' places in the tree, never in the order of discovery.

Deviation from the paper: FIND-NODE's loop prints the opposite test (new sticks are drawn while u
*exceeds* the covered length).
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from treestick import contract
from treestick._jit import compiled
from treestick.moves import segments as unit_interval
from treestick.moves.prune import move_prune
from treestick.moves.segments import STOP, TAIL, Segments
from treestick.moves.state import Floats, Integers, State, Sticks, alpha_at
from treestick.moves.tasks import Run, Task
from treestick.prior.sticks import stick
from treestick.random import (
    Key,
    Purpose,
    Stream,
    child_entity,
    exponential,
    key_for,
    open_stream,
    reopen,
    uniform_open,
)
from treestick.tree.table import NULL, NodeTable, grow, next_ordinal, place_child

RESOLUTION = 2.0**-53
ROOM = 64
FULL, UNRESOLVED = -2, -3
"""Instead of a row: the table has no room; the bits of u do not decide."""
DRAWN, READY = 1, 2


class Unseen(NamedTuple):
    """What one thread has looked up of the unseen tree: a memory, nothing that anyone depends on.

    ``table`` starts with the rows of the state's table. Rows of ``theta`` and ``prepared`` belong
    to its rows from the end of the hull on.
    """

    table: NodeTable
    theta: Floats
    prepared: Floats
    is_known: Integers
    """DRAWN where ``theta`` has been looked up, READY where ``prepared`` has been, too."""


class Found(NamedTuple):
    """Where the data of some rows have gone: rows of ``unseen.table``."""

    start: int
    rows: Integers
    unseen: Unseen
    n_tried: int


def move_assignments(
    key: Key, state: State, data: Any, tasks: Sequence[Task], run: Run = map
) -> tuple[State, float]:
    """Move every datum; return the state, pruned to the new hull, and the mean number of tries.

    Parameters
    ----------
    key : Key
        Of this sweep.
    state : State
        With sticks in its table.
    data : named tuple
        Of the model.
    tasks : sequence of (start, stop)
        Ranges of rows that together are all data.
    run : callable
        Like ``map``: applies a function to each task, perhaps on several threads.
    """
    _, prepared_width, _ = contract.widths(state.model)
    prepared = np.empty((state.n_nodes, prepared_width))
    _prepare_all(state.model, state.theta, prepared)
    cut = unit_interval.cut(state.table, state.n_nodes)

    def assign(task: Task) -> Found:
        start, stop = task
        unseen = _nothing_seen(state, prepared_width)
        rows = np.empty(stop - start, dtype=np.int64)
        n, n_tried = start, 0
        while True:
            n, tried = _assign(
                key, state.model, data, state.sticks, state.assignments, cut, prepared,
                state.theta, unseen, start, n, rows,
            )  # fmt: skip
            n_tried += tried
            if n == stop:
                return Found(start, rows, unseen, n_tried)
            unseen = _enlarged(unseen, state.n_nodes)

    n_nodes, n_before = state.n_nodes, int(state.table.size[0])
    table = grow(state.table, n_before)  # a copy
    theta = np.full((n_before, state.theta.shape[1]), np.nan)
    theta[:n_nodes] = state.theta
    assignments = np.empty_like(state.assignments)
    n_tried = 0
    for found in run(assign, tasks):
        table, theta, new_row = _join(table, theta, found.unseen, found.rows, n_nodes, n_before)
        assignments[found.start : found.start + found.rows.size] = new_row[found.rows]
        n_tried += found.n_tried
    moved = state._replace(table=table, theta=theta, assignments=assignments)
    return move_prune(moved), n_tried / max(assignments.size, 1)


def _nothing_seen(state: State, prepared_width: int) -> Unseen:
    size = int(state.table.size[0])
    n_rows = size - state.n_nodes + ROOM
    return Unseen(
        grow(state.table, size + ROOM),
        np.empty((n_rows, state.theta.shape[1])),
        np.empty((n_rows, prepared_width)),
        np.zeros(n_rows, dtype=np.int64),
    )


def _enlarged(unseen: Unseen, n_nodes: int) -> Unseen:
    """Return the same with more room: half as much again."""
    table = grow(unseen.table, unseen.table.parent.size * 3 // 2)
    n_rows = table.parent.size - n_nodes
    known = unseen.is_known.size
    theta = np.empty((n_rows, unseen.theta.shape[1]))
    prepared = np.empty((n_rows, unseen.prepared.shape[1]))
    is_known = np.zeros(n_rows, dtype=np.int64)
    theta[:known], prepared[:known] = unseen.theta, unseen.prepared
    is_known[:known] = unseen.is_known
    return Unseen(table, theta, prepared, is_known)


@compiled
def _prepare_all(model: Any, theta: Floats, prepared: Floats) -> None:
    for node in range(theta.shape[0]):
        contract.prepare(model, theta[node], prepared[node])


@compiled
def _assign(
    key: Key,
    model: Any,
    data: Any,
    sticks: Sticks,
    assignments: Integers,
    cut: Segments,
    prepared: Floats,
    theta: Floats,
    unseen: Unseen,
    start: int,
    n: int,
    rows: Integers,
) -> tuple[int, int]:
    """Move data from ``n`` on; write their rows to ``rows``, which starts with datum ``start``.

    Return the first datum that finds the table full, or the end, and the number of tries. That
    datum is moved again with the larger table, and goes the same way, for its key is the same.
    """
    n_nodes = theta.shape[0]
    n_tried = 0
    stream = open_stream(key)
    while n < start + rows.size:
        reopen(stream, key_for(key, Purpose.SLICE, n))
        now = assignments[n]
        segment_now = cut.own[now]
        level = contract.log_likelihood(model, data, n, prepared[now]) - exponential(stream)
        low, high = 0.0, 1.0
        node = now
        tries = 0
        while True:
            tries += 1
            u = low + (high - low) * uniform_open(stream)
            if not low < u < high:  # rule 2
                break
            segment = unit_interval.find(cut.edges, u)
            if segment == segment_now:
                break
            if cut.kind[segment] == STOP:
                candidate = cut.row[segment]
                if contract.log_likelihood(model, data, n, prepared[candidate]) >= level:
                    node = candidate
                    break
                if segment < segment_now:  # rule 1
                    low = cut.edges[segment + 1]
                else:
                    high = cut.edges[segment]
            else:
                candidate = _find_unseen(key, sticks, unseen.table, cut, segment, u)
                if candidate == FULL:
                    return n, n_tried
                if candidate == UNRESOLVED:
                    break
                _look_up_theta(key, model, theta, unseen, candidate)
                ready = unseen.prepared[candidate - n_nodes]
                if contract.log_likelihood(model, data, n, ready) >= level:
                    node = candidate
                    break
                if segment < segment_now:
                    low = u
                else:
                    high = u
        rows[n - start] = node
        n_tried += tries
        n += 1
    return n, n_tried


@compiled
def _find_unseen(
    key: Key, sticks: Sticks, table: NodeTable, cut: Segments, segment: int, u: float
) -> int:
    """Return the row of the node under ``u``, which lies in an unseen segment.

    On the way down ``v`` is the place of u within the part in question, from 0 to 1, and ``span``
    the length of that part in the unit interval.
    """
    stream = open_stream(key)
    node = cut.row[segment]
    span = cut.edges[segment + 1] - cut.edges[segment]
    v = (u - cut.edges[segment]) / span
    is_tail = cut.kind[segment] == TAIL
    while True:
        if is_tail:
            is_tail = False
            previous = cut.last_child[segment]
        else:
            if math.isnan(table.nu[node]):
                reopen(stream, key_for(key, Purpose.UNSEEN_NU, table.entity[node]))
                table.nu[node] = stick(stream, alpha_at(sticks, table.depth[node]))
            nu = table.nu[node]
            if v < nu:
                return node
            v = (v - nu) / (1.0 - nu)
            span *= 1.0 - nu
            previous = NULL
        # Measured from the right end, where the sticks not yet broken lie: u lies beyond a child
        # as long as it is no farther from the end than what is left behind the child.
        distance = 1.0 - v
        left_over = 1.0
        while True:
            if span * left_over < RESOLUTION:
                return UNRESOLVED
            child = table.first_child[node] if previous == NULL else table.next_sibling[previous]
            if child == NULL:
                if table.size[0] == table.parent.size:
                    return FULL
                child = _break_next_stick(key, sticks, table, node, stream)
            behind = left_over * (1.0 - table.psi[child])
            if distance > behind:
                break
            left_over = behind
            previous = child
        v = (left_over - distance) / (left_over - behind)
        span *= left_over - behind
        node = child


@compiled
def _break_next_stick(key: Key, sticks: Sticks, table: NodeTable, node: int, stream: Stream) -> int:
    """Add the next child of ``node``, in the spare room; return its row."""
    ordinal = next_ordinal(table, node)
    child = place_child(table, node, ordinal)
    table.entity[child] = child_entity(key, table.entity[node], ordinal)
    reopen(stream, key_for(key, Purpose.UNSEEN_PSI, table.entity[child]))
    table.psi[child] = stick(stream, sticks.gamma)
    return child


@compiled
def _look_up_theta(key: Key, model: Any, theta: Floats, unseen: Unseen, node: int) -> None:
    """Look up the parameters of an unseen node, and those of its ancestors before it."""
    n_nodes = theta.shape[0]
    table = unseen.table
    if unseen.is_known[node - n_nodes] == READY:
        return
    stream = open_stream(key)
    while unseen.is_known[node - n_nodes] == 0:
        top = node
        above = table.parent[top]
        while above >= n_nodes and unseen.is_known[above - n_nodes] == 0:
            top = above
            above = table.parent[top]
        parent = theta[above] if above < n_nodes else unseen.theta[above - n_nodes]
        reopen(stream, key_for(key, Purpose.UNSEEN_THETA, table.entity[top]))
        contract.draw_child(stream, model, parent, unseen.theta[top - n_nodes])
        unseen.is_known[top - n_nodes] = DRAWN
    contract.prepare(model, unseen.theta[node - n_nodes], unseen.prepared[node - n_nodes])
    unseen.is_known[node - n_nodes] = READY


@compiled
def _join(
    table: NodeTable, theta: Floats, unseen: Unseen, rows: Integers, n_nodes: int, n_before: int
) -> tuple[NodeTable, Floats, Integers]:
    """Add to the table what one thread has found; return it, and the row of each of its rows.

    Nodes that data have come to join with their ancestors and parameters; the sticks before them
    join without, because the psi-sticks up to the last represented child are represented. The first
    ``n_before`` rows are the state's, on both sides.
    """
    seen = unseen.table
    size = seen.size[0]
    is_needed = np.zeros(size, dtype=np.bool_)
    last_needed = np.full(size, -1)
    new_row = np.full(size, NULL)
    for row in rows:
        is_needed[row] = True
    n_more = 0
    for row in range(size - 1, n_nodes - 1, -1):
        if is_needed[row]:
            above = seen.parent[row]
            is_needed[above] = True
            last_needed[above] = max(last_needed[above], seen.ordinal[row])
    for row in range(n_before, size):
        n_more += seen.ordinal[row] <= last_needed[seen.parent[row]]
    if table.size[0] + n_more > table.parent.size:
        table = grow(table, 2 * (table.size[0] + n_more))
    if theta.shape[0] < table.parent.size:
        more = np.full((table.parent.size, theta.shape[1]), np.nan)
        more[: theta.shape[0]] = theta
        theta = more
    for row in range(size):
        if row < n_before:
            new_row[row] = row
        elif seen.ordinal[row] <= last_needed[seen.parent[row]]:
            above = new_row[seen.parent[row]]
            joined = table.first_child[above]
            while joined != NULL and table.ordinal[joined] < seen.ordinal[row]:
                joined = table.next_sibling[joined]
            if joined == NULL:
                joined = place_child(table, above, seen.ordinal[row])
                table.entity[joined] = seen.entity[row]
                table.psi[joined] = seen.psi[row]
            new_row[row] = joined
        if row >= n_nodes and is_needed[row]:
            table.nu[new_row[row]] = seen.nu[row]
            theta[new_row[row]] = unseen.theta[row - n_nodes]
    return table, theta, new_row
