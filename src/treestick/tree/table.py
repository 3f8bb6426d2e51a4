"""The node table: a tree as a named tuple of columns, and what is done with it.

Row 0 is the root, ``NULL`` (-1) means "none". The rules, all of which :func:`check` asserts:

Rule 1. ``parent[k] < k``: parents come before children. A pass down the tree is a loop over the
rows, a pass up is the same loop backwards; nothing recurses, so depth has no limit.
Rule 2. The children of a node form a list (``first_child``, ``next_sibling``, ``last_child``) in
the order of their ``ordinal``, the number of the psi-stick that they sit on. Ordinals only grow
along the list; they may leave gaps, where sticks without data are not represented.
Rule 3. ``n_below[k]`` is the sum of ``n_here + n_below`` over the children of k.
Rule 4. Rows at and beyond ``size[0]`` are spare room, and blank.

Functions that may need more room return the table, which then lives in new arrays: always write
``table, node = add_child(table, ...)``.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treestick._jit import compiled

NULL = -1

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class NodeTable(NamedTuple):
    """The columns of the node table; see the module for the rules they keep."""

    size: Integers
    """One number: how many rows are in use."""
    parent: Integers
    first_child: Integers
    last_child: Integers
    next_sibling: Integers
    ordinal: Integers
    """Number of the psi-stick among its siblings; 0 at the root."""
    depth: Integers
    n_here: Integers
    """How many data stop at the node."""
    n_below: Integers
    """How many data pass through the node and stop deeper."""
    nu: Floats
    """Share of what reaches the node that stops there; nan while unknown."""
    psi: Floats
    """Share of what its earlier siblings left; 1 at the root, nan while unknown."""
    entity: npt.NDArray[np.uint64]
    """What names the node in a random key."""


@compiled
def _blank(capacity: int) -> NodeTable:
    """Return a table without any row."""
    return NodeTable(
        np.zeros(1, dtype=np.int64),
        np.full(capacity, NULL, dtype=np.int64),
        np.full(capacity, NULL, dtype=np.int64),
        np.full(capacity, NULL, dtype=np.int64),
        np.full(capacity, NULL, dtype=np.int64),
        np.zeros(capacity, dtype=np.int64),
        np.zeros(capacity, dtype=np.int64),
        np.zeros(capacity, dtype=np.int64),
        np.zeros(capacity, dtype=np.int64),
        np.full(capacity, np.nan),
        np.full(capacity, np.nan),
        np.zeros(capacity, dtype=np.uint64),
    )


@compiled
def make_table(capacity: int) -> NodeTable:
    """Return a table that holds a root without data."""
    table = _blank(max(capacity, 1))
    table.size[0] = 1
    table.psi[0] = 1.0
    return table


@compiled
def grow(table: NodeTable, capacity: int) -> NodeTable:
    """Return the same table with room for ``capacity`` rows (never fewer than are in use)."""
    size = table.size[0]
    larger = _blank(max(capacity, size))
    larger.size[0] = size
    for k in range(size):
        _copy_row(table, k, larger, k)
        larger.parent[k] = table.parent[k]
        larger.first_child[k] = table.first_child[k]
        larger.last_child[k] = table.last_child[k]
        larger.next_sibling[k] = table.next_sibling[k]
    return larger


@compiled
def with_room(table: NodeTable) -> NodeTable:
    """Return the table itself if it has room for one more row, else one that is twice as large."""
    if table.size[0] < table.parent.size:
        return table
    return grow(table, 2 * table.parent.size)


@compiled
def _copy_row(source: NodeTable, k: int, target: NodeTable, new: int) -> None:
    """Copy what a row says of its own node; the links to other rows are the caller's."""
    target.ordinal[new] = source.ordinal[k]
    target.depth[new] = source.depth[k]
    target.n_here[new] = source.n_here[k]
    target.n_below[new] = source.n_below[k]
    target.nu[new] = source.nu[k]
    target.psi[new] = source.psi[k]
    target.entity[new] = source.entity[k]


@compiled
def next_ordinal(table: NodeTable, node: int) -> int:
    """Return the ordinal that follows the last represented child of ``node``."""
    last = table.last_child[node]
    return 0 if last == NULL else table.ordinal[last] + 1


@compiled
def add_child(table: NodeTable, parent: int, ordinal: int) -> tuple[NodeTable, int]:
    """Add a child of ``parent`` without data, and return the table and the row of the child.

    Constant time at the end of the list of siblings (amortised over :func:`grow`), else linear in
    the siblings before it.
    """
    table = with_room(table)
    return table, place_child(table, parent, ordinal)


@compiled
def place_child(table: NodeTable, parent: int, ordinal: int) -> int:
    """Add a child within the spare room, in place. For hot loops, where a new table costs time."""
    node = table.size[0]
    if node == table.parent.size:
        raise IndexError("the table is full")
    if parent < 0 or parent >= node:
        raise IndexError("the parent is not in the table")
    if ordinal < 0:
        raise ValueError("an ordinal is 0 or more")
    before = table.last_child[parent]
    if before != NULL and table.ordinal[before] >= ordinal:
        before = NULL
        after = table.first_child[parent]
        while table.ordinal[after] < ordinal:
            before = after
            after = table.next_sibling[after]
        if table.ordinal[after] == ordinal:
            raise ValueError("the parent has a child with this ordinal already")
    table.size[0] = node + 1
    table.parent[node] = parent
    table.ordinal[node] = ordinal
    table.depth[node] = table.depth[parent] + 1
    _link(table, parent, before, node)
    return node


@compiled
def _link(table: NodeTable, parent: int, before: int, node: int) -> None:
    """Put ``node`` into the list of the children of ``parent``, behind ``before``."""
    if before == NULL:
        table.next_sibling[node] = table.first_child[parent]
        table.first_child[parent] = node
    else:
        table.next_sibling[node] = table.next_sibling[before]
        table.next_sibling[before] = node
    if table.next_sibling[node] == NULL:
        table.last_child[parent] = node


@compiled
def add_data(table: NodeTable, node: int, change: int) -> None:
    """Let ``change`` more data (or fewer, if negative) stop at ``node``."""
    if table.n_here[node] + change < 0:
        raise ValueError("fewer data stop here than are to be taken away")
    table.n_here[node] += change
    above = table.parent[node]
    while above != NULL:
        table.n_below[above] += change
        above = table.parent[above]


@compiled
def count_data(table: NodeTable, assignments: Integers) -> None:
    """Overwrite the counts with those of ``assignments``, the row of each datum."""
    table.n_here[:] = 0
    for node in assignments:
        table.n_here[node] += 1
    count_below(table)


@compiled
def count_below(table: NodeTable) -> None:
    """Overwrite the counts of data below nodes with those that the counts at nodes give."""
    table.n_below[:] = 0
    for node in range(table.size[0] - 1, 0, -1):
        table.n_below[table.parent[node]] += table.n_here[node] + table.n_below[node]


@compiled
def precedes(table: NodeTable, a: int, b: int) -> bool:
    """Say whether ``a`` comes strictly before ``b`` in depth-first order.

    A node comes before its descendants, and siblings in the order of their ordinals. This is the
    order of the nodes' intervals within (0, 1). The cost is the depth of the deeper node.
    """
    x, y = a, b
    while table.depth[x] > table.depth[y]:
        x = table.parent[x]
    if x == y:
        return False  # b is a, or above it
    while table.depth[y] > table.depth[x]:
        y = table.parent[y]
    if x == y:
        return True  # a is above b
    while table.parent[x] != table.parent[y]:
        x = table.parent[x]
        y = table.parent[y]
    return table.ordinal[x] < table.ordinal[y]


@compiled
def depth_first_order(table: NodeTable) -> Integers:
    """Return the rows in depth-first order. Linear time, no stack."""
    order = np.empty(table.size[0], dtype=np.int64)
    node = 0
    for position in range(order.size):
        order[position] = node
        following = table.first_child[node]
        while following == NULL and node != NULL:
            following = table.next_sibling[node]
            node = table.parent[node]
        node = following
    return order


@compiled
def breadth_first_order(table: NodeTable) -> Integers:
    """Return the rows level by level, siblings side by side."""
    order = np.empty(table.size[0], dtype=np.int64)
    order[0] = 0
    n_listed = 1
    for position in range(order.size):
        child = table.first_child[order[position]]
        while child != NULL:
            order[n_listed] = child
            n_listed += 1
            child = table.next_sibling[child]
    return order


@compiled
def take(table: NodeTable, rows: Integers) -> tuple[NodeTable, Integers]:
    """Return a table of these rows in this order, and the new row of each old one (or ``NULL``).

    ``rows`` starts with the root and names the parent of each of its nodes before the node.
    """
    if rows.size == 0 or rows[0] != 0:
        raise ValueError("rows must start with the root")
    new_row = np.full(table.size[0], NULL, dtype=np.int64)
    taken = _blank(rows.size)
    taken.size[0] = rows.size
    for new in range(rows.size):
        old = rows[new]
        if new > 0:
            if new_row[old] != NULL or new_row[table.parent[old]] == NULL:
                raise ValueError("rows must name parents first, and no node twice")
            taken.parent[new] = new_row[table.parent[old]]
        new_row[old] = new
        _copy_row(table, old, taken, new)
    for new in range(rows.size):
        child = table.first_child[rows[new]]
        while child != NULL:
            if new_row[child] != NULL:
                _link(taken, new, taken.last_child[new], new_row[child])
            child = table.next_sibling[child]
    return taken, new_row


@compiled
def prune_to_hull(table: NodeTable) -> tuple[NodeTable, Integers]:
    """Keep the root and the nodes with data at or below them; return as :func:`take` does."""
    size = table.size[0]
    in_hull = table.n_here[:size] + table.n_below[:size] > 0
    in_hull[0] = True
    return take(table, np.flatnonzero(in_hull))


def check(table: NodeTable) -> None:
    """Raise AssertionError if the table breaks a rule of this module."""

    def demand(holds: bool | np.bool_, rule: str) -> None:
        if not holds:
            raise AssertionError(f"node table: {rule}")

    size = int(table.size[0])
    capacity = table.parent.size
    demand(1 <= size <= capacity, "at least the root, and no more rows than there is room for")
    demand(all(column.size == capacity for column in table[1:]), "all columns have the same room")
    used = NodeTable._make((table.size, *(column[:size] for column in table[1:])))
    for column, blank in zip(table[1:], _blank(1)[1:], strict=True):
        spare = column[size:]
        demand(np.array_equal(spare, np.repeat(blank, spare.size), equal_nan=True), "room is blank")
    parent, row = used.parent[1:], np.arange(size)
    demand(used.parent[0] == NULL, "the root has no parent")
    demand(used.depth[0] == 0 and used.ordinal[0] == 0, "the root has depth and ordinal 0")
    demand(used.next_sibling[0] == NULL, "the root has no sibling")
    demand(used.psi[0] == 1.0, "all mass enters the root")
    demand(np.all((parent >= 0) & (parent < row[1:])), "parents come before children")
    demand(np.all(used.depth[1:] == used.depth[parent] + 1), "a child is one deeper")
    demand(np.all(used.ordinal >= 0), "ordinals are 0 or more")

    listed = np.zeros(size, dtype=np.int64)
    for node in range(size):
        child, last = int(used.first_child[node]), NULL
        while child != NULL:
            demand(0 < child < size and used.parent[child] == node, "children know their parent")
            demand(listed[child] == 0, "a child is listed once")
            demand(
                last == NULL or used.ordinal[last] < used.ordinal[child],
                "ordinals grow along the siblings",
            )
            listed[child] = 1
            last, child = child, int(used.next_sibling[child])
        demand(used.last_child[node] == last, "last_child ends the list")
    demand(np.all(listed[1:] == 1), "every child is in the list of its parent")

    demand(np.all(used.n_here >= 0), "counts are 0 or more")
    below = np.zeros(size, dtype=np.int64)
    np.add.at(below, parent, used.n_here[1:] + used.n_below[1:])
    demand(np.array_equal(below, used.n_below), "n_below sums over the children")
    for sticks in (used.nu, used.psi):
        known = sticks[~np.isnan(sticks)]
        demand(np.all((known >= 0.0) & (known <= 1.0)), "sticks are shares")
