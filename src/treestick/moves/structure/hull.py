"""The hull as structural moves change it: nodes come and go, subtrees and data change hands.

Rule 1. A node keeps its row as long as it lives, unless it changes places with another (swap,
reroot). Rows are in no order; ``alive`` lists those in use. Row 0 is the root and always alive.
Rule 2. Children of a node are a linked list, whose order carries no meaning. Data know the label of
their node, which a node keeps even where it changes its row; those of a node are always listed in
ascending order. Only a move that is accepted changes the labels of data.
Rule 3. Between moves, every node but the root has data at or below it, and counts, depths and
statistics are those of the data's nodes. Moves that would leave an empty leaf behind are refused.
Rule 4. What many data add up to (statistics, log probabilities) is summed block by block over one
binary tree, as everywhere (:mod:`treestick.moves.tasks`). What is drawn for one of many data is a
function of a key and its number.

A hull is taken from a state by :func:`loosen`, which makes copies of what moves change, and becomes
a state again by :func:`settle`.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick import contract
from treestick._jit import compiled, inlined
from treestick.moves.state import Floats, Integers, State, Sticks
from treestick.prior.density import log_choice, log_stop
from treestick.random import Stream
from treestick.tree.table import NULL, NodeTable, make_table, place_child

ALIVE, FREE, DATA = 0, 1, 2

NODE = np.dtype(
    [
        ("alive", np.int64),  # the k-th row in use: the first counts[ALIVE] entries are such
        ("free", np.int64),  # the k-th row not in use: the first counts[FREE]
        ("place", np.int64),  # where a row in use stands in ``alive``; else NULL
        ("parent", np.int64),
        ("first_child", np.int64),
        ("next_sibling", np.int64),
        ("previous_sibling", np.int64),
        ("n_children", np.int64),
        ("depth", np.int64),
        ("n_here", np.int64),
        ("n_below", np.int64),
        ("label", np.int64),  # what data of this row's node are labelled with
        ("row_of", np.int64),  # the other way round: of a label, its row
        ("entity", np.uint64),
        ("log_factor", np.float64),  # of the tree's probability, as it was when last asked for:
        ("was_here", np.int64),  # with these counts
        ("was_below", np.int64),
        ("was_depth", np.int64),  # at this depth; NULL if it was never asked for
    ]
)


class Hull(NamedTuple):
    """A tree partition of the data with the parameters and statistics of its nodes.

    Few arrays, because Numba hands on every array of a tuple by itself.
    """

    nodes: npt.NDArray[Any]
    """Records ``NODE``, one per row."""
    labels: npt.NDArray[np.int32]
    """Of each datum: the label of its node."""
    counts: Integers
    """How many rows are alive, how many are free, and how many data there are."""
    theta: Floats
    statistics: Floats
    nothing: Floats
    """An empty row: the parameters above the root."""
    known: Floats
    """alpha0, decay and gamma for which nodes have factors of the tree's probability."""


def loosen(state: State, n_more: int) -> Hull:
    """Return the hull of a state, with room for ``n_more`` nodes."""
    room = state.n_nodes + n_more
    hull = Hull(
        np.zeros(room, dtype=NODE).view(np.recarray),
        state.assignments.astype(np.int32),
        np.array([state.n_nodes, n_more, state.assignments.size]),
        np.concatenate([state.theta, np.empty((n_more, state.theta.shape[1]))]),
        np.concatenate([state.statistics, np.zeros((n_more, state.statistics.shape[1]))]),
        np.empty(0),
        np.full(3, np.nan),
    )
    _loosen(state.table, hull)
    return hull


@compiled
def _loosen(table: NodeTable, hull: Hull) -> None:
    n_nodes, room = hull.counts[ALIVE], hull.nodes.size
    for row in range(room):
        hull.nodes[row].label = row
        hull.nodes[row].row_of = row
    for k in range(room - n_nodes):
        hull.nodes[k].free = room - 1 - k
        hull.nodes[room - 1 - k].place = NULL
    for row in range(n_nodes):
        hull.nodes[row].alive = row
        hull.nodes[row].place = row
        hull.nodes[row].depth = table.depth[row]
        hull.nodes[row].n_here = table.n_here[row]
        hull.nodes[row].n_below = table.n_below[row]
        hull.nodes[row].entity = table.entity[row]
        hull.nodes[row].parent = NULL
        hull.nodes[row].first_child = NULL
        hull.nodes[row].next_sibling = NULL
        hull.nodes[row].previous_sibling = NULL
    for row in range(n_nodes - 1, 0, -1):
        link(hull, row, table.parent[row])


def with_room(hull: Hull, n_more: int) -> Hull:
    """Return the same hull with room for ``n_more`` nodes more."""
    room, n_free = hull.nodes.size, hull.counts[FREE]

    def longer(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.concatenate([array, np.zeros((n_more, *array.shape[1:]), dtype=array.dtype)])

    nodes = longer(hull.nodes).view(np.recarray)
    new = np.arange(room + n_more - 1, room - 1, -1)
    nodes["place"][room:] = nodes["was_depth"][room:] = NULL
    nodes["label"][room:] = nodes["row_of"][room:] = np.arange(room, room + n_more)
    nodes["free"][: n_more + n_free] = np.append(new, hull.nodes["free"][:n_free])
    return hull._replace(
        nodes=nodes,
        counts=hull.counts + np.array([0, n_more, 0]),
        theta=longer(hull.theta),
        statistics=longer(hull.statistics),
    )


def settle(hull: Hull, state: State) -> State:
    """Return the state with the partition and parameters of ``hull``, and no sticks."""
    settled, new_label = settle_nodes(hull, state)
    return settled._replace(assignments=new_label[hull.labels])


def settle_nodes(hull: Hull, state: State) -> tuple[State, Integers]:
    """Return the same, with the assignments as they are, and the row of each label."""
    table, rows, new_row = _settle(hull)
    settled = state._replace(table=table, theta=hull.theta[rows], statistics=hull.statistics[rows])
    return settled, new_row[hull.nodes["row_of"]]


@compiled
def _settle(hull: Hull) -> tuple[NodeTable, Integers, Integers]:
    """Return the table, depth first, the old row of each new one, and the other way round."""
    n_nodes = hull.counts[ALIVE]
    table = make_table(n_nodes)
    rows = np.empty(n_nodes, dtype=np.int64)
    new_row = np.full(hull.nodes.size, NULL)
    row = 0
    for new in range(n_nodes):
        rows[new] = row
        new_row[row] = new
        if new > 0:
            above = new_row[hull.nodes[row].parent]
            last = table.last_child[above]
            place_child(table, above, 0 if last == NULL else table.ordinal[last] + 1)
        table.n_here[new] = hull.nodes[row].n_here
        table.n_below[new] = hull.nodes[row].n_below
        table.entity[new] = hull.nodes[row].entity
        row = following(hull, row, 0)
    return table, rows, new_row


# -- walks and links -------------------------------------------------------------------------------


@compiled
def following(hull: Hull, row: int, top: int) -> int:
    """Return the row after ``row`` in depth-first order within the subtree of ``top``, or NULL."""
    return next_row(hull.nodes, row, top)


@inlined
def next_row(nodes: npt.NDArray[Any], row: int, top: int) -> int:
    """Do the same, for hot loops: the nodes are handed on alone."""
    if nodes[row].first_child != NULL:
        return int(nodes[row].first_child)
    while row != top:
        if nodes[row].next_sibling != NULL:
            return int(nodes[row].next_sibling)
        row = nodes[row].parent
    return NULL


@compiled
def is_at_or_above(hull: Hull, row: int, other: int) -> bool:
    """Say whether ``row`` is ``other`` or one of its ancestors."""
    while other != NULL:
        if other == row:
            return True
        other = hull.nodes[other].parent
    return False


@compiled
def link(hull: Hull, row: int, parent: int) -> None:
    """Make ``row`` a child of ``parent``; counts and depths are the caller's."""
    first = hull.nodes[parent].first_child
    hull.nodes[row].parent = parent
    hull.nodes[row].previous_sibling = NULL
    hull.nodes[row].next_sibling = first
    if first != NULL:
        hull.nodes[first].previous_sibling = row
    hull.nodes[parent].first_child = row
    hull.nodes[parent].n_children += 1


@compiled
def unlink(hull: Hull, row: int) -> None:
    """Take ``row`` out of the list of its parent's children."""
    before, after = hull.nodes[row].previous_sibling, hull.nodes[row].next_sibling
    if before == NULL:
        hull.nodes[hull.nodes[row].parent].first_child = after
    else:
        hull.nodes[before].next_sibling = after
    if after != NULL:
        hull.nodes[after].previous_sibling = before
    hull.nodes[hull.nodes[row].parent].n_children -= 1


@compiled
def count_through(hull: Hull, row: int, change: int) -> None:
    """Let ``change`` more data pass through the ancestors of ``row``."""
    row = hull.nodes[row].parent
    while row != NULL:
        hull.nodes[row].n_below += change
        row = hull.nodes[row].parent


@compiled
def set_depths(hull: Hull, top: int) -> None:
    """Set the depths of a subtree after its top has a new parent."""
    row = top
    while row != NULL:
        above = hull.nodes[row].parent
        hull.nodes[row].depth = 0 if above == NULL else hull.nodes[above].depth + 1
        row = following(hull, row, top)


@compiled
def hang(hull: Hull, row: int, parent: int) -> None:
    """Make the subtree of ``row``, which hangs nowhere, a child of ``parent``."""
    link(hull, row, parent)
    count_through(hull, row, hull.nodes[row].n_here + hull.nodes[row].n_below)
    set_depths(hull, row)


@compiled
def take_off(hull: Hull, row: int) -> None:
    """Take the subtree of ``row`` off its parent."""
    count_through(hull, row, -(hull.nodes[row].n_here + hull.nodes[row].n_below))
    unlink(hull, row)
    hull.nodes[row].parent = NULL


@compiled
def add_node(hull: Hull, entity: np.uint64) -> int:
    """Return the row of a new node that hangs nowhere and has nothing."""
    hull.counts[FREE] -= 1
    row = hull.nodes[hull.counts[FREE]].free
    hull.nodes[row].place = hull.counts[ALIVE]
    hull.nodes[hull.counts[ALIVE]].alive = row
    hull.counts[ALIVE] += 1
    hull.nodes[row].parent = NULL
    hull.nodes[row].first_child = NULL
    hull.nodes[row].next_sibling = NULL
    hull.nodes[row].previous_sibling = NULL
    hull.nodes[row].n_children = 0
    hull.nodes[row].n_here = 0
    hull.nodes[row].n_below = 0
    hull.nodes[row].entity = entity
    hull.statistics[row] = 0.0
    return row


@compiled
def remove_node(hull: Hull, row: int) -> None:
    """Forget a node that hangs nowhere and has nothing."""
    last = hull.nodes[hull.counts[ALIVE] - 1].alive
    hull.nodes[hull.nodes[row].place].alive = last
    hull.nodes[last].place = hull.nodes[row].place
    hull.nodes[row].place = NULL
    hull.counts[ALIVE] -= 1
    hull.nodes[hull.counts[FREE]].free = row
    hull.counts[FREE] += 1


# -- contents --------------------------------------------------------------------------------------


@compiled
def node_of(hull: Hull, n: int) -> int:
    """Return the row of the node of datum ``n``."""
    return hull.nodes[hull.labels[n]].row_of


@compiled
def data_of(hull: Hull, row: int) -> Integers:
    """Return the data of a node, in ascending order."""
    label = hull.nodes[row].label
    data = np.empty(hull.nodes[row].n_here, dtype=np.int64)
    k = 0
    for n in range(hull.labels.size):
        if hull.labels[n] == label:
            data[k] = n
            k += 1
    return data


@compiled
def data_of_both(hull: Hull, a: int, b: int) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Return the data that are labelled with one of two rows, and whether it is the second."""
    of_a, of_b = hull.nodes[a].label, hull.nodes[b].label
    n = 0
    for label in hull.labels:
        n += label in (of_a, of_b)
    data, is_of_b = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.bool_)
    k = 0
    for n in range(hull.labels.size):
        if hull.labels[n] in (of_a, of_b):
            data[k] = n
            is_of_b[k] = hull.labels[n] == of_b
            k += 1
    return data, is_of_b


@compiled
def relabel(hull: Hull, data: Integers, row: int) -> None:
    """Label data with their new node; counts and statistics are the caller's."""
    for n in data:
        hull.labels[n] = hull.nodes[row].label


@compiled
def children_of(hull: Hull, row: int) -> Integers:
    """Return the rows of the children of a node."""
    rows = np.empty(hull.nodes[row].n_children, dtype=np.int64)
    child = hull.nodes[row].first_child
    for k in range(rows.size):
        rows[k] = child
        child = hull.nodes[child].next_sibling
    return rows


@compiled
def put_datum(hull: Hull, model: Any, data: Any, n: int, row: int) -> None:
    """Let a datum that is nowhere stop at ``row``."""
    hull.labels[n] = hull.nodes[row].label
    hull.nodes[row].n_here += 1
    count_through(hull, row, 1)
    contract.add_statistics(model, data, n, hull.statistics[row])


@compiled
def take_datum(hull: Hull, model: Any, data: Any, n: int) -> None:
    """Take a datum off its node."""
    row = node_of(hull, n)
    hull.nodes[row].n_here -= 1
    count_through(hull, row, -1)
    own = np.zeros(hull.statistics.shape[1])
    contract.add_statistics(model, data, n, own)
    for d in range(own.size):
        hull.statistics[row, d] = (
            hull.statistics[row, d] - own[d] if hull.nodes[row].n_here else 0.0
        )


@compiled
def pass_on(hull: Hull, row: int, other: int, n: int, sums: Floats) -> None:
    """Let a node give ``n`` data with these statistics to another; labels are the caller's."""
    if n > 0:
        for d in range(sums.size):
            hull.statistics[other, d] += sums[d]
        hull.nodes[row].n_here -= n
        hull.nodes[other].n_here += n
        count_through(hull, row, -n)
        count_through(hull, other, n)
        for d in range(sums.size):
            hull.statistics[row, d] = (
                hull.statistics[row, d] - sums[d] if hull.nodes[row].n_here else 0.0
            )


@compiled
def above(hull: Hull, row: int) -> Floats:
    """Return the parameters of the parent, empty for the root."""
    parent = hull.nodes[row].parent
    return hull.nothing if parent == NULL else hull.theta[parent]


@compiled
def below(hull: Hull, row: int, without: int) -> Floats:
    """Return the parameters of the children, one row each, but for the child ``without``."""
    thetas = np.empty((hull.nodes[row].n_children, hull.theta.shape[1]))
    k = 0
    child = hull.nodes[row].first_child
    while child != NULL:
        if child != without:
            thetas[k] = hull.theta[child]
            k += 1
        child = hull.nodes[child].next_sibling
    return thetas[:k]


@compiled
def _comes_before(hull: Hull, row: int, other: int) -> bool:
    depth, depth_of_other = hull.nodes[row].depth, hull.nodes[other].depth
    return depth < depth_of_other or (depth == depth_of_other and row < other)


@compiled
def fit_rows(stream: Stream, model: Any, hull: Hull, rows: Integers, is_drawn: np.int64) -> float:
    """Draw the parameters of some nodes together; return the log weight of this.

    See :func:`treestick.contract.fit_group`. ``rows`` is put in order, by depth and then by row, so
    that a group is the same group in whatever order a move names its nodes.
    """
    for k in range(1, rows.size):
        row = rows[k]
        j = k
        while j > 0 and _comes_before(hull, row, rows[j - 1]):
            rows[j] = rows[j - 1]
            j -= 1
        rows[j] = row
    n_nodes, width = rows.size, hull.theta.shape[1]
    total = 0
    for row in rows:
        total += hull.nodes[row].n_children
    over = np.full(n_nodes, NULL)
    n_here = np.empty(n_nodes)
    above, theta = np.empty((n_nodes, width)), np.empty((n_nodes, width))
    statistics = np.empty((n_nodes, hull.statistics.shape[1]))
    below, last_below = np.empty((total, width)), np.empty(n_nodes, dtype=np.int64)
    count = 0
    for k in range(n_nodes):
        row = rows[k]
        theta[k] = hull.theta[row]
        statistics[k] = hull.statistics[row]
        n_here[k] = hull.nodes[row].n_here
        for j in range(k):
            if rows[j] == hull.nodes[row].parent:
                over[k] = j
        if over[k] == NULL and row != 0:
            above[k] = hull.theta[hull.nodes[row].parent]
        child = hull.nodes[row].first_child
        while child != NULL:
            is_outside = True
            for j in range(k + 1, n_nodes):
                is_outside &= rows[j] != child
            if is_outside:
                below[count] = hull.theta[child]
                count += 1
            child = hull.nodes[child].next_sibling
        last_below[k] = count
    group = contract.Group(over, above, rows[0] == 0, n_here, statistics, below, last_below, theta)
    weight = contract.fit_group(stream, model, group, is_drawn)
    if is_drawn:
        for k in range(n_nodes):
            hull.theta[rows[k]] = theta[k]
    return weight


# -- the density of the partition ------------------------------------------------------------------


@compiled
def log_of_node(hull: Hull, sticks: Sticks, row: int) -> float:
    """Return the node's factor of the probability of the tree partition."""
    n_here, n_below = hull.nodes[row].n_here, hull.nodes[row].n_below
    total = log_stop(n_here, n_below, hull.nodes[row].depth, sticks.alpha0, sticks.decay)
    return total + log_choice(row != 0, n_here + n_below, n_below, sticks.gamma)


@compiled
def log_tree(hull: Hull, sticks: Sticks) -> float:
    """Return the log probability of the tree partition, sticks integrated out.

    A move changes the counts and depths of few nodes, so factors of the others are as they were.
    """
    known = hull.known
    if known[0] != sticks.alpha0 or known[1] != sticks.decay or known[2] != sticks.gamma:
        known[0], known[1], known[2] = sticks.alpha0, sticks.decay, sticks.gamma
        for row in range(hull.nodes.size):
            hull.nodes[row].was_depth = NULL
    total = 0.0
    for k in range(hull.counts[ALIVE]):
        row = hull.nodes[k].alive
        node = hull.nodes[row]
        if (
            node.n_here != node.was_here
            or node.n_below != node.was_below
            or node.depth != node.was_depth
        ):
            hull.nodes[row].log_factor = log_of_node(hull, sticks, row)
            hull.nodes[row].was_here = node.n_here
            hull.nodes[row].was_below = node.n_below
            hull.nodes[row].was_depth = node.depth
        total += hull.nodes[row].log_factor
    return total
