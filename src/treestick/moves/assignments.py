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
Rule 3. Given the tree, data are independent. Threads keep what they look up in tables of their own,
and may forget it; what they found is joined by the nodes' places in the tree, never in the order of
discovery.

Deviation from the paper: FIND-NODE's loop prints the opposite test (new sticks are drawn while u
*exceeds* the covered length).
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

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
"""Rows and slots for unseen nodes, to begin with."""
FULL, UNRESOLVED = -2, -3
"""Instead of a row: the table has no room; the bits of u do not decide."""
MOST_BYTES = 2**25
"""What one thread keeps of the unseen tree; more is forgotten, and looked up again if needed."""


class Slots(NamedTuple):
    """Memory for the parameters of unseen nodes.

    It is used again in every sweep: to get it from the system, page by page, takes longer than to
    fill it.
    """

    theta: Floats
    prepared: Floats


class Unseen(NamedTuple):
    """What one thread has looked up of the unseen tree: a memory that nobody depends on."""

    table: NodeTable
    """The rows of the state's table, and behind them those of unseen nodes."""
    slot: Integers
    """Where ``theta`` and ``prepared`` of each row are, or NULL if they were not looked up."""
    n_slots: Integers
    """One number: how many slots are in use."""
    theta: Floats
    prepared: Floats
    is_prepared: npt.NDArray[np.bool_]


class NewNodes(NamedTuple):
    """Nodes that data have come to, with the sticks before them: parents first.

    ``parent`` is a row of the state's table or, from its size on, counts these nodes.
    """

    row: Integers
    """Row in the state's table, or NULL where the node is new to it."""
    parent: Integers
    ordinal: Integers
    entity: npt.NDArray[np.uint64]
    psi: Floats
    nu: Floats
    theta: Floats
    """nan where only the psi-stick is needed."""


class Found(NamedTuple):
    """Where some data have gone."""

    data: Integers
    """Their numbers."""
    rows: Integers
    """Rows of the state's table or, from its size on, of ``nodes``."""
    nodes: NewNodes
    n_tried: int


Assign = Callable[[Unseen, Integers, int, Integers], tuple[int, int]]
"""Moves data in an order, from the first that is not done, and writes their rows.

It stops where there is no room, and returns how many are done, and the number of tries."""


def move_assignments(
    key: Key,
    state: State,
    data: Any,
    tasks: Sequence[Task],
    run: Run = map,
    spare: list[Slots] | None = None,
) -> tuple[State, float]:
    """Move the data of some tasks; return the state, pruned, and the mean number of tries.

    Parameters
    ----------
    key : Key
        Of this sweep.
    state : State
        With sticks in its table.
    data : named tuple
        Of the model.
    tasks : sequence of (start, stop)
        Ranges of rows. Data that are in none of them stay where they are.
    run : callable
        Like ``map``: applies a function to each task, perhaps on several threads.
    spare : list of Slots, optional
        Memory of earlier sweeps, to be used again; what is used now is left there.
    """
    prepared, cut = prepare_slicing(state)
    assign = slicing(key, state, prepared, cut, data, 0, state.assignments)
    return search(state, tasks, assign, run, spare)


def prepare_slicing(state: State) -> tuple[Floats, Segments]:
    """Return what all data need: likelihoods prepared, and the unit interval cut."""
    prepared = prepare_nodes(state.model, state.theta)
    return prepared, unit_interval.cut(state.table, state.n_nodes)


def prepare_nodes(model: Any, theta: Floats) -> Floats:
    """Return what likelihoods at nodes with these parameters need."""
    _, prepared_width, _ = contract.widths(model)
    prepared = np.empty((theta.shape[0], prepared_width))
    _prepare_all(model, theta, prepared)
    return prepared


def slicing(
    key: Key,
    state: State,
    prepared: Floats,
    cut: Segments,
    data: Any,
    first: int,
    assignments: Integers,
) -> Assign:
    """Return what moves data that are at these rows; ``first`` is the number of datum 0."""

    def assign(unseen: Unseen, order: Integers, done: int, rows: Integers) -> tuple[int, int]:
        return _assign(
            key, state.model, data, first, state.sticks, assignments, cut, prepared, state.theta,
            unseen, order, done, rows,
        )  # fmt: skip

    return assign


def search(
    state: State, tasks: Sequence[Task], assign: Assign, run: Run, spare: list[Slots] | None
) -> tuple[State, float]:
    """Move the data of some tasks by ``assign``; see :func:`move_assignments`."""
    spare = [] if spare is None else spare
    idle: list[Unseen] = []  # handed on from task to task

    def find(task: Task) -> list[Found]:
        return find_places(state, state.assignments, task, assign, idle, spare)

    assignments = state.assignments.copy()
    joining = Joining(state)
    n_tried = 0
    for found_by_task in run(find, tasks):
        for found in found_by_task:
            assignments[found.data] = joining.join(found.nodes)[found.rows]
            n_tried += found.n_tried
    spare.extend(Slots(unseen.theta, unseen.prepared) for unseen in idle)
    moved = state._replace(table=joining.table, theta=joining.theta, assignments=assignments)
    n_moved = sum(stop - start for start, stop in tasks)
    return move_prune(moved), n_tried / max(n_moved, 1)


def find_places(
    state: State,
    assignments: Integers,
    task: Task,
    assign: Assign,
    idle: list[Unseen],
    spare: list[Slots],
) -> list[Found]:
    """Return where the data of a task go from these rows.

    Memory is taken from ``idle`` and ``spare``, and left there.
    """
    start, stop = task
    _, prepared_width, _ = contract.widths(state.model)
    n_nodes, n_before = state.n_nodes, int(state.table.size[0])
    small = np.min_scalar_type(n_nodes)  # sorts fastest
    # Data of one node one after the other: they ask the same nodes, which stay in the cache.
    order = start + np.argsort(assignments[start:stop].astype(small), kind="stable")
    unseen = idle.pop() if idle else _nothing_seen(state, prepared_width, spare)
    rows = np.empty(order.size, dtype=np.int64)
    found = []
    first = done = 0
    n_tried = 0
    while True:
        done, tried = assign(unseen, order, done, rows)
        n_tried += tried
        # One datum's own way down may take more than what is kept otherwise.
        has_room = unseen.prepared.nbytes < MOST_BYTES or done == first
        if done == order.size or not has_room:
            new_rows, nodes = collect(unseen, rows[first:done], n_nodes, n_before)
            found.append(Found(order[first:done], new_rows, nodes, n_tried))
            first, n_tried = done, 0
        if done == order.size:
            idle.append(unseen)
            return found
        # What was looked up and not needed can be forgotten: it would be looked up the same.
        if has_room:
            unseen = _enlarged(unseen)
        else:
            spare.append(Slots(unseen.theta, unseen.prepared))
            unseen = _nothing_seen(state, prepared_width, spare)


class Joining:
    """A copy of a state's table and parameters that found nodes are added to."""

    def __init__(self, state: State) -> None:
        self._n_before = int(state.table.size[0])
        self.table = grow(state.table, self._n_before)
        self.theta = np.full((self._n_before, state.theta.shape[1]), np.nan)
        self.theta[: state.n_nodes] = state.theta

    def join(self, nodes: NewNodes) -> Integers:
        """Add nodes, and return the row of each number that :func:`collect` gave."""
        self.table, self.theta, new_row = join(self.table, self.theta, nodes, self._n_before)
        return new_row


def _nothing_seen(state: State, prepared_width: int, spare: list[Slots]) -> Unseen:
    theta_width = state.theta.shape[1]
    slots = spare.pop() if spare else None
    if slots is None or slots.theta.shape[1] != theta_width:  # a model may have got wider
        slots = Slots(np.empty((ROOM, theta_width)), np.empty((ROOM, prepared_width)))
    n_slots = slots.theta.shape[0]
    size = int(state.table.size[0]) + ROOM
    return Unseen(
        grow(state.table, size),
        np.full(size, NULL),
        np.zeros(1, dtype=np.int64),
        slots.theta,
        slots.prepared,
        np.zeros(n_slots, dtype=np.bool_),
    )


def _enlarged(unseen: Unseen) -> Unseen:
    """Return the same, with twice the room of what is full."""
    table, slot, theta = unseen.table, unseen.slot, unseen.theta
    prepared, is_prepared = unseen.prepared, unseen.is_prepared
    if table.size[0] == table.parent.size:
        table = grow(table, 2 * table.parent.size)
        slot = np.append(slot, np.full(table.parent.size - slot.size, NULL))
    if unseen.n_slots[0] == theta.shape[0]:
        theta = np.concatenate([theta, np.empty_like(theta)])
        prepared = np.concatenate([prepared, np.empty_like(prepared)])
        is_prepared = np.append(is_prepared, np.zeros_like(is_prepared))
    return Unseen(table, slot, unseen.n_slots, theta, prepared, is_prepared)


@compiled
def _prepare_all(model: Any, theta: Floats, prepared: Floats) -> None:
    for node in range(theta.shape[0]):
        contract.prepare(model, theta[node], prepared[node])


@compiled
def _assign(
    key: Key,
    model: Any,
    data: Any,
    first: int,
    sticks: Sticks,
    assignments: Integers,
    cut: Segments,
    prepared: Floats,
    theta: Floats,
    unseen: Unseen,
    order: Integers,
    done: int,
    rows: Integers,
) -> tuple[int, int]:
    """Move the data of ``order`` from ``done`` on; write their rows to ``rows``.

    Return how many are done when one finds no room, or all, and the number of tries. That datum is
    moved again when there is room, and goes the same way, for its key is the same.
    """
    n_tried = 0
    stream = open_stream(key)
    while done < order.size:
        n = order[done]
        reopen(stream, key_for(key, Purpose.SLICE, first + n))
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
                candidate, _ = find_unseen(key, sticks, unseen.table, cut, segment, u)
                if candidate == FULL:
                    return done, n_tried
                if candidate == UNRESOLVED:
                    break
                slot = look_up_theta(key, model, theta, unseen, candidate)
                if slot == FULL:
                    return done, n_tried
                if contract.log_likelihood(model, data, n, unseen.prepared[slot]) >= level:
                    node = candidate
                    break
                if segment < segment_now:
                    low = u
                else:
                    high = u
        rows[done] = node
        n_tried += tries
        done += 1
    return done, n_tried


@compiled
def find_unseen(
    key: Key, sticks: Sticks, table: NodeTable, cut: Segments, segment: int, u: float
) -> tuple[int, float]:
    """Return the row of the node under ``u``, which lies in an unseen segment.

    And where in the node's own part, from 0 to 1, it lies.

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
            nu = look_up_nu(key, sticks, table, node, stream)
            if v < nu:
                return node, v / nu
            v = (v - nu) / (1.0 - nu)
            span *= 1.0 - nu
            previous = NULL
        # Measured from the right end, where the sticks not yet broken lie: u lies beyond a child
        # as long as it is no farther from the end than what is left behind the child.
        distance = 1.0 - v
        left_over = 1.0
        while True:
            if span * left_over < RESOLUTION:
                return UNRESOLVED, 0.0
            child = table.first_child[node] if previous == NULL else table.next_sibling[previous]
            if child == NULL:
                if table.size[0] == table.parent.size:
                    return FULL, 0.0
                child = break_next_stick(key, sticks, table, node, stream)
            behind = left_over * (1.0 - table.psi[child])
            if distance > behind:
                break
            left_over = behind
            previous = child
        v = (left_over - distance) / (left_over - behind)
        span *= left_over - behind
        node = child


@compiled
def look_up_nu(key: Key, sticks: Sticks, table: NodeTable, node: int, stream: Stream) -> float:
    """Return the nu-stick of a node; where the table has none, the one that the key gives."""
    if math.isnan(table.nu[node]):
        reopen(stream, key_for(key, Purpose.UNSEEN_NU, table.entity[node]))
        table.nu[node] = stick(stream, alpha_at(sticks, table.depth[node]))
    return table.nu[node]


@compiled
def break_next_stick(key: Key, sticks: Sticks, table: NodeTable, node: int, stream: Stream) -> int:
    """Add the next child of ``node``, in the spare room; return its row."""
    ordinal = next_ordinal(table, node)
    child = place_child(table, node, ordinal)
    table.entity[child] = child_entity(key, table.entity[node], ordinal)
    reopen(stream, key_for(key, Purpose.UNSEEN_PSI, table.entity[child]))
    table.psi[child] = stick(stream, sticks.gamma)
    return child


@compiled
def look_up_theta(key: Key, model: Any, theta: Floats, unseen: Unseen, node: int) -> int:
    """Look up the parameters of an unseen node, and those of its ancestors before it.

    Return the node's slot, or FULL.
    """
    n_nodes = theta.shape[0]
    table, slots = unseen.table, unseen.slot
    stream = open_stream(key)
    while slots[node] == NULL:
        top = node
        above = table.parent[top]
        while above >= n_nodes and slots[above] == NULL:
            top = above
            above = table.parent[top]
        slot = unseen.n_slots[0]
        if slot == unseen.theta.shape[0]:
            return FULL
        parent = theta[above] if above < n_nodes else unseen.theta[slots[above]]
        reopen(stream, key_for(key, Purpose.UNSEEN_THETA, table.entity[top]))
        contract.draw_child(stream, model, parent, unseen.theta[slot])
        unseen.n_slots[0] += 1
        slots[top] = slot
    slot = slots[node]
    if not unseen.is_prepared[slot]:
        contract.prepare(model, unseen.theta[slot], unseen.prepared[slot])
        unseen.is_prepared[slot] = True
    return slot


@compiled
def collect(
    unseen: Unseen, rows: Integers, n_nodes: int, n_before: int
) -> tuple[Integers, NewNodes]:
    """Return ``rows`` renumbered, and the nodes that they need beside the hull.

    Needed are nodes that data have come to, and their ancestors, with all they have; the sticks
    before them are needed because psi-sticks are represented up to the last child that is. The
    state has ``n_before`` rows.
    """
    table = unseen.table
    size = table.size[0]
    is_needed = np.zeros(size, dtype=np.bool_)
    last_needed = np.full(size, -1)
    for row in rows:
        is_needed[row] = True
    for row in range(size - 1, n_nodes - 1, -1):
        if is_needed[row]:
            above = table.parent[row]
            is_needed[above] = True
            last_needed[above] = max(last_needed[above], table.ordinal[row])
    kept = np.empty(size, dtype=np.int64)
    new_row = np.arange(size)
    n_kept = 0
    for row in range(n_nodes, size):
        is_new = row >= n_before and table.ordinal[row] <= last_needed[table.parent[row]]
        if is_new or is_needed[row]:
            if is_new:
                new_row[row] = n_before + n_kept
            kept[n_kept] = row
            n_kept += 1
    nodes = NewNodes(
        np.full(n_kept, NULL),
        np.empty(n_kept, dtype=np.int64),
        np.empty(n_kept, dtype=np.int64),
        np.empty(n_kept, dtype=np.uint64),
        np.empty(n_kept),
        np.full(n_kept, np.nan),
        np.full((n_kept, unseen.theta.shape[1]), np.nan),
    )
    for k in range(n_kept):
        row = kept[k]
        if row < n_before:
            nodes.row[k] = row
        nodes.parent[k] = new_row[table.parent[row]]
        nodes.ordinal[k] = table.ordinal[row]
        nodes.entity[k] = table.entity[row]
        nodes.psi[k] = table.psi[row]
        if is_needed[row]:
            nodes.nu[k] = table.nu[row]
            nodes.theta[k] = unseen.theta[unseen.slot[row]]
    new_rows = np.empty(rows.size, dtype=np.int64)
    for k in range(rows.size):
        new_rows[k] = new_row[rows[k]]
    return new_rows, nodes


@compiled
def join(
    table: NodeTable, theta: Floats, nodes: NewNodes, n_before: int
) -> tuple[NodeTable, Floats, Integers]:
    """Add nodes to the table, unless others have found them before.

    Return the table with its parameters, and the row of each number that :func:`collect` gave.
    """
    n_more = nodes.row.size
    if table.size[0] + n_more > table.parent.size:
        table = grow(table, 2 * (table.size[0] + n_more))
    if theta.shape[0] < table.parent.size:
        more = np.full((table.parent.size, theta.shape[1]), np.nan)
        more[: theta.shape[0]] = theta
        theta = more
    new_row = np.arange(n_before + n_more)
    for k in range(n_more):
        joined = nodes.row[k]
        if joined == NULL:
            above = new_row[nodes.parent[k]]
            joined = table.first_child[above]
            while joined != NULL and table.ordinal[joined] < nodes.ordinal[k]:
                joined = table.next_sibling[joined]
            if joined == NULL:
                joined = place_child(table, above, nodes.ordinal[k])
                table.entity[joined] = nodes.entity[k]
                table.psi[joined] = nodes.psi[k]
        new_row[n_before + k] = joined
        if not math.isnan(nodes.nu[k]):
            table.nu[joined] = nodes.nu[k]
            theta[joined] = nodes.theta[k]
    return table, theta, new_row
