"""The hull as structural moves change it: nodes come and go, subtrees and data change hands.

Rule 1. A node keeps its row as long as it lives. Rows are in no order; ``alive`` lists those in
use. Row 0 is the root and always alive.
Rule 2. Children and data of a node are linked lists. Their order carries no meaning.
Rule 3. Between moves, every node but the root has data at or below it, and counts, depths and
statistics are those of the data's nodes. Moves that would leave an empty leaf behind are refused.

A hull is taken from a state by :func:`loosen`, which makes copies of what moves change, and becomes
a state again by :func:`settle`.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick import contract
from treestick._jit import compiled
from treestick.moves.state import Floats, Integers, State, Sticks
from treestick.prior.density import log_choice, log_stop
from treestick.tree.table import NULL, NodeTable, make_table, place_child


class Hull(NamedTuple):
    """A tree partition of the data with the parameters and statistics of its nodes."""

    alive: Integers
    """Rows in use, in the first ``n_alive[0]`` places."""
    place: Integers
    """Where each row stands in ``alive``."""
    n_alive: Integers
    free: Integers
    """Rows not in use, in the first ``n_free[0]`` places."""
    n_free: Integers
    parent: Integers
    first_child: Integers
    next_sibling: Integers
    previous_sibling: Integers
    n_children: Integers
    depth: Integers
    n_here: Integers
    n_below: Integers
    entity: npt.NDArray[np.uint64]
    theta: Floats
    statistics: Floats
    first_datum: Integers
    next_datum: Integers
    """Of each datum: the next one at the same node."""
    previous_datum: Integers
    node: Integers
    """Row of each datum."""
    nothing: Floats
    """An empty row: the parameters above the root."""


def loosen(state: State, n_more: int) -> Hull:
    """Return the hull of a state, with room for ``n_more`` nodes."""
    return _loosen(state.table, state.assignments, state.theta, state.statistics, n_more)


@compiled
def _loosen(
    table: NodeTable, assignments: Integers, theta: Floats, statistics: Floats, n_more: int
) -> Hull:
    n_nodes = theta.shape[0]
    room = n_nodes + n_more
    hull = Hull(
        np.empty(room, dtype=np.int64),
        np.full(room, NULL),
        np.array([n_nodes]),
        np.empty(room, dtype=np.int64),
        np.array([n_more]),
        np.full(room, NULL),
        np.full(room, NULL),
        np.full(room, NULL),
        np.full(room, NULL),
        np.zeros(room, dtype=np.int64),
        np.zeros(room, dtype=np.int64),
        np.zeros(room, dtype=np.int64),
        np.zeros(room, dtype=np.int64),
        np.zeros(room, dtype=np.uint64),
        np.empty((room, theta.shape[1])),
        np.zeros((room, statistics.shape[1])),
        np.full(room, NULL),
        np.full(assignments.size, NULL),
        np.full(assignments.size, NULL),
        assignments.copy(),
        np.empty(0),
    )
    for k in range(n_more):
        hull.free[k] = room - 1 - k
    for row in range(n_nodes - 1, -1, -1):
        hull.alive[row] = row
        hull.place[row] = row
        hull.depth[row] = table.depth[row]
        hull.n_here[row] = table.n_here[row]
        hull.n_below[row] = table.n_below[row]
        hull.entity[row] = table.entity[row]
        if row > 0:
            link(hull, row, table.parent[row])
        for d in range(theta.shape[1]):
            hull.theta[row, d] = theta[row, d]
        for d in range(statistics.shape[1]):
            hull.statistics[row, d] = statistics[row, d]
    for n in range(assignments.size - 1, -1, -1):
        _list_datum(hull, n, assignments[n])
    return hull


def with_room(hull: Hull, n_more: int) -> Hull:
    """Return the same hull with room for ``n_more`` nodes more."""
    room = hull.parent.size
    grown = [
        np.concatenate([column, np.zeros((n_more, *column.shape[1:]), dtype=column.dtype)])
        if column.shape[:1] == (room,) and name not in ("next_datum", "previous_datum", "node")
        else column
        for name, column in hull._asdict().items()
    ]
    larger = Hull(*grown)
    larger.free[: n_more + hull.n_free[0]] = np.append(
        np.arange(room + n_more - 1, room - 1, -1), hull.free[: hull.n_free[0]]
    )
    larger.n_free[0] += n_more
    return larger


def settle(hull: Hull, state: State) -> State:
    """Return the state with the partition and parameters of ``hull``, and no sticks."""
    table, rows, new_row = _settle(hull)
    return state._replace(
        table=table,
        assignments=new_row[hull.node],
        theta=hull.theta[rows],
        statistics=hull.statistics[rows],
    )


@compiled
def _settle(hull: Hull) -> tuple[NodeTable, Integers, Integers]:
    """Return the table, depth first, the old row of each new one, and the other way round."""
    n_nodes = hull.n_alive[0]
    table = make_table(n_nodes)
    rows = np.empty(n_nodes, dtype=np.int64)
    new_row = np.full(hull.parent.size, NULL)
    row = 0
    for new in range(n_nodes):
        rows[new] = row
        new_row[row] = new
        if new > 0:
            above = new_row[hull.parent[row]]
            last = table.last_child[above]
            place_child(table, above, 0 if last == NULL else table.ordinal[last] + 1)
        table.n_here[new] = hull.n_here[row]
        table.n_below[new] = hull.n_below[row]
        table.entity[new] = hull.entity[row]
        row = following(hull, row, 0)
    return table, rows, new_row


# -- walks and links -------------------------------------------------------------------------------


@compiled
def following(hull: Hull, row: int, top: int) -> int:
    """Return the row after ``row`` in depth-first order within the subtree of ``top``, or NULL."""
    if hull.first_child[row] != NULL:
        return hull.first_child[row]
    while row != top:
        if hull.next_sibling[row] != NULL:
            return hull.next_sibling[row]
        row = hull.parent[row]
    return NULL


@compiled
def is_at_or_above(hull: Hull, row: int, other: int) -> bool:
    """Say whether ``row`` is ``other`` or one of its ancestors."""
    while other != NULL:
        if other == row:
            return True
        other = hull.parent[other]
    return False


@compiled
def link(hull: Hull, row: int, parent: int) -> None:
    """Make ``row`` a child of ``parent``; counts and depths are the caller's."""
    first = hull.first_child[parent]
    hull.parent[row] = parent
    hull.previous_sibling[row] = NULL
    hull.next_sibling[row] = first
    if first != NULL:
        hull.previous_sibling[first] = row
    hull.first_child[parent] = row
    hull.n_children[parent] += 1


@compiled
def unlink(hull: Hull, row: int) -> None:
    """Take ``row`` out of the list of its parent's children."""
    before, after = hull.previous_sibling[row], hull.next_sibling[row]
    if before == NULL:
        hull.first_child[hull.parent[row]] = after
    else:
        hull.next_sibling[before] = after
    if after != NULL:
        hull.previous_sibling[after] = before
    hull.n_children[hull.parent[row]] -= 1


@compiled
def count_through(hull: Hull, row: int, change: int) -> None:
    """Let ``change`` more data pass through the ancestors of ``row``."""
    row = hull.parent[row]
    while row != NULL:
        hull.n_below[row] += change
        row = hull.parent[row]


@compiled
def set_depths(hull: Hull, top: int) -> None:
    """Set the depths of a subtree after its top has a new parent."""
    row = top
    while row != NULL:
        above = hull.parent[row]
        hull.depth[row] = 0 if above == NULL else hull.depth[above] + 1
        row = following(hull, row, top)


@compiled
def hang(hull: Hull, row: int, parent: int) -> None:
    """Make the subtree of ``row``, which hangs nowhere, a child of ``parent``."""
    link(hull, row, parent)
    count_through(hull, row, hull.n_here[row] + hull.n_below[row])
    set_depths(hull, row)


@compiled
def take_off(hull: Hull, row: int) -> None:
    """Take the subtree of ``row`` off its parent."""
    count_through(hull, row, -(hull.n_here[row] + hull.n_below[row]))
    unlink(hull, row)
    hull.parent[row] = NULL


@compiled
def add_node(hull: Hull, entity: np.uint64) -> int:
    """Return the row of a new node that hangs nowhere and has nothing."""
    hull.n_free[0] -= 1
    row = hull.free[hull.n_free[0]]
    hull.place[row] = hull.n_alive[0]
    hull.alive[hull.n_alive[0]] = row
    hull.n_alive[0] += 1
    hull.parent[row] = NULL
    hull.first_child[row] = NULL
    hull.next_sibling[row] = NULL
    hull.previous_sibling[row] = NULL
    hull.n_children[row] = 0
    hull.n_here[row] = 0
    hull.n_below[row] = 0
    hull.first_datum[row] = NULL
    hull.entity[row] = entity
    hull.statistics[row] = 0.0
    return row


@compiled
def remove_node(hull: Hull, row: int) -> None:
    """Forget a node that hangs nowhere and has nothing."""
    last = hull.alive[hull.n_alive[0] - 1]
    hull.alive[hull.place[row]] = last
    hull.place[last] = hull.place[row]
    hull.place[row] = NULL
    hull.n_alive[0] -= 1
    hull.free[hull.n_free[0]] = row
    hull.n_free[0] += 1


# -- contents --------------------------------------------------------------------------------------


@compiled
def data_of(hull: Hull, row: int) -> Integers:
    """Return the data of a node."""
    data = np.empty(hull.n_here[row], dtype=np.int64)
    n = hull.first_datum[row]
    for k in range(data.size):
        data[k] = n
        n = hull.next_datum[n]
    return data


@compiled
def children_of(hull: Hull, row: int) -> Integers:
    """Return the rows of the children of a node."""
    rows = np.empty(hull.n_children[row], dtype=np.int64)
    child = hull.first_child[row]
    for k in range(rows.size):
        rows[k] = child
        child = hull.next_sibling[child]
    return rows


@compiled
def put_data(hull: Hull, model: Any, data: Any, row: int, rows: Integers) -> None:
    """Overwrite the data of a node and their statistics; what passes above is the caller's."""
    hull.statistics[row] = 0.0
    hull.first_datum[row] = NULL
    hull.n_here[row] = rows.size
    for k in range(rows.size - 1, -1, -1):
        _list_datum(hull, rows[k], row)
        contract.add_statistics(model, data, rows[k], hull.statistics[row])


@compiled
def _list_datum(hull: Hull, n: int, row: int) -> None:
    first = hull.first_datum[row]
    hull.node[n] = row
    hull.previous_datum[n] = NULL
    hull.next_datum[n] = first
    if first != NULL:
        hull.previous_datum[first] = n
    hull.first_datum[row] = n


@compiled
def put_datum(hull: Hull, model: Any, data: Any, n: int, row: int) -> None:
    """Let a datum that is nowhere stop at ``row``."""
    _list_datum(hull, n, row)
    hull.n_here[row] += 1
    count_through(hull, row, 1)
    contract.add_statistics(model, data, n, hull.statistics[row])


@compiled
def take_datum(hull: Hull, model: Any, data: Any, n: int) -> None:
    """Take a datum off its node."""
    row = hull.node[n]
    before, after = hull.previous_datum[n], hull.next_datum[n]
    if before == NULL:
        hull.first_datum[row] = after
    else:
        hull.next_datum[before] = after
    if after != NULL:
        hull.previous_datum[after] = before
    hull.n_here[row] -= 1
    count_through(hull, row, -1)
    own = np.zeros(hull.statistics.shape[1])
    contract.add_statistics(model, data, n, own)
    for d in range(own.size):
        hull.statistics[row, d] = hull.statistics[row, d] - own[d] if hull.n_here[row] else 0.0


@compiled
def above(hull: Hull, row: int) -> Floats:
    """Return the parameters of the parent, empty for the root."""
    parent = hull.parent[row]
    return hull.nothing if parent == NULL else hull.theta[parent]


@compiled
def below(hull: Hull, row: int, without: int) -> Floats:
    """Return the parameters of the children, one row each, but for the child ``without``."""
    thetas = np.empty((hull.n_children[row], hull.theta.shape[1]))
    k = 0
    child = hull.first_child[row]
    while child != NULL:
        if child != without:
            thetas[k] = hull.theta[child]
            k += 1
        child = hull.next_sibling[child]
    return thetas[:k]


# -- the density of the partition ------------------------------------------------------------------


@compiled
def log_of_node(hull: Hull, sticks: Sticks, row: int) -> float:
    """Return the node's factor of the probability of the tree partition."""
    n_here, n_below = hull.n_here[row], hull.n_below[row]
    total = log_stop(n_here, n_below, hull.depth[row], sticks.alpha0, sticks.decay)
    return total + log_choice(row != 0, n_here + n_below, n_below, sticks.gamma)


@compiled
def log_tree(hull: Hull, sticks: Sticks) -> float:
    """Return the log probability of the tree partition, sticks integrated out."""
    total = 0.0
    for k in range(hull.n_alive[0]):
        total += log_of_node(hull, sticks, hull.alive[k])
    return total
