"""Work over the data, in pieces that do not depend on who does them.

Rows are cut into blocks by their number alone, and blocks are grouped into tasks. Sums run row by
row within a block, and blocks are added over one fixed binary tree: neighbours in pairs, pairs in
pairs, one that is left over passing through. A task is a complete subtree (the last may be ragged),
so sums have the same bits for any number of tasks, threads or shards. A block without a row to add
leaves a sum as it is, so sums over some of the rows follow the same tree (:class:`Waiting`).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from treestick import contract
from treestick._jit import compiled
from treestick.moves.state import Floats, Integers, State

Task = tuple[int, int]
"""First row, and the one behind the last."""
Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Like ``map``: applies a function to each task, perhaps on several threads, results in order."""

LARGEST_BLOCK = 2048
FEWEST_BLOCKS = 17
"""So that few data can be cut into several shards, too."""
MOST_TASKS = 16


@compiled
def block_size(n_data: int) -> int:
    """Return the number of rows of a block: a power of two, that of few data a small one."""
    size = 1
    while size < LARGEST_BLOCK and 2 * size * FEWEST_BLOCKS <= n_data:
        size *= 2
    return size


def make_tasks(n_data: int) -> list[Task]:
    """Return ranges of rows, at most 16, each a power of two of blocks; the last may be shorter."""
    size = LARGEST_BLOCK
    while size * MOST_TASKS < n_data:
        size *= 2
    return [(start, min(start + size, n_data)) for start in range(0, n_data, size)]


def sum_statistics(state: State, data: Any, tasks: Sequence[Task], run: Run = map) -> State:
    """Return the state with the sufficient statistics of its assignments."""
    n_data = state.assignments.size

    def sum_task(task: Task) -> Sums:
        return sum_range(state.model, data, state.assignments, *task, state.n_nodes, n_data)

    tasks = tasks or [(0, 0)]
    found = list(run(sum_task, tasks))
    first_rows = np.repeat([start for start, _ in tasks], [sums.nodes.size for sums in found])
    nodes, sums = (np.concatenate(pieces) for pieces in zip(*found, strict=True))
    return state._replace(statistics=_join_sums(first_rows, nodes, sums, state.n_nodes, n_data))


def join_in_pairs(pieces: Iterable[Any], join: Callable[[Any, Any], Any]) -> Any:
    """Join pieces over the binary tree: neighbours, then pairs of these, and so on."""
    partial: list[tuple[int, Any]] = []  # subtrees that wait for their neighbour, and their size
    for piece in pieces:
        size = 1
        while partial and partial[-1][0] == size:
            piece = join(partial.pop()[1], piece)
            size *= 2
        partial.append((size, piece))
    total = partial.pop()[1]
    while partial:
        total = join(partial.pop()[1], total)
    return total


def join_subtrees(
    blocks: Iterable[int], pieces: Iterable[Any], join: Callable[[Any, Any], Any]
) -> Any:
    """Join pieces over the binary tree, each of one or more blocks, of which the first is given."""
    waiting: list[tuple[int, Any]] = []
    for block, piece in zip(blocks, pieces, strict=True):
        while len(waiting) > 1 and _meet_first(waiting[-2][0], waiting[-1][0], block):
            _, last = waiting.pop()
            waiting[-1] = waiting[-1][0], join(waiting[-1][1], last)
        waiting.append((block, piece))
    _, total = waiting.pop()
    while waiting:
        total = join(waiting.pop()[1], total)
    return total


@compiled
def _meet_first(one: int, other: int, last: int) -> bool:
    """Say whether two blocks meet in the binary tree before the second of them meets a third.

    Two blocks meet at the highest bit in which their numbers differ.
    """
    before, now = one ^ other, other ^ last
    return before < now and before < (before ^ now)  # its highest bit is lower


# -- sums over some of the rows --------------------------------------------------------------------


class Waiting(NamedTuple):
    """Sums over blocks, in ascending order, that wait for what they are to be added to."""

    sums: Floats
    block: Integers
    """Of each: a block that is part of it."""
    n: Integers
    """One number: how many there are."""


@compiled
def nothing_waits(n_data: int, width: int) -> Waiting:
    """Return room for the blocks of so many data."""
    n_levels, n_blocks = 2, n_data // block_size(n_data)
    while n_blocks > 0:
        n_levels += 1
        n_blocks //= 2
    return Waiting(
        np.empty((n_levels, width)), np.empty(n_levels, dtype=np.int64), np.zeros(1, dtype=np.int64)
    )


@compiled
def push(waiting: Waiting, block: int, sums: Floats) -> None:
    """Add what a block, or a subtree that begins with it, has to add; it is behind all others."""
    own = _begin(waiting, block)
    for k in range(sums.size):
        own[k] = sums[k]


@compiled
def _begin(waiting: Waiting, block: int) -> Floats:
    """Return zeros, to which a block is to add what it has; it is behind all others.

    Those that meet before the last of them meets the new one are added up first.
    """
    n = waiting.n[0]
    while n > 1 and _meet_first(waiting.block[n - 2], waiting.block[n - 1], block):
        _add_last(waiting, n)
        n -= 1
    own = waiting.sums[n]
    for k in range(own.size):
        own[k] = 0.0
    waiting.block[n] = block
    waiting.n[0] = n + 1
    return own


@compiled
def _add_last(waiting: Waiting, n: int) -> None:
    for k in range(waiting.sums.shape[1]):
        waiting.sums[n - 2, k] += waiting.sums[n - 1, k]


@compiled
def add_up(waiting: Waiting) -> Floats:
    """Return the sum of all that wait; nothing does afterwards."""
    total = np.empty(waiting.sums.shape[1])
    _add_up(waiting, total)
    return total


@compiled
def _add_up(waiting: Waiting, total: Floats) -> None:
    for n in range(waiting.n[0], 1, -1):
        _add_last(waiting, n)
    for k in range(total.size):
        total[k] = waiting.sums[0, k] if waiting.n[0] > 0 else 0.0
    waiting.n[0] = 0


@compiled
def sum_rows(model: Any, data: Any, rows: Integers, n_data: int) -> Floats:
    """Return the statistics of some rows, given in ascending order."""
    _, _, width = contract.widths(model)
    waiting = nothing_waits(n_data, width)
    _push_rows(model, data, rows, block_size(n_data), waiting)
    return add_up(waiting)


@compiled
def _push_rows(model: Any, data: Any, rows: Integers, size: int, waiting: Waiting) -> None:
    k = 0
    while k < rows.size:
        block = rows[k] // size
        behind = (block + 1) * size
        sums = _begin(waiting, block)
        while k < rows.size and rows[k] < behind:
            contract.add_statistics(model, data, rows[k], sums)
            k += 1


@compiled
def sum_terms(terms: Floats, rows: Integers, n_data: int) -> Floats:
    """Return the sums of the columns of ``terms``, of which each row belongs to one of ``rows``."""
    waiting, sums = nothing_waits(n_data, terms.shape[1]), np.empty(terms.shape[1])
    size = block_size(n_data)
    k = 0
    while k < rows.size:
        block = rows[k] // size
        sums[:] = 0.0
        while k < rows.size and rows[k] // size == block:
            for j in range(sums.size):
                sums[j] += terms[k, j]
            k += 1
        push(waiting, block, sums)
    return add_up(waiting)


# -- sums of each node -----------------------------------------------------------------------------


class Sums(NamedTuple):
    """Statistics over some of the rows."""

    nodes: Integers
    """At which there are any of them, ascending: of a tree of thousands, not many."""
    sums: Floats
    """Of each of these nodes."""

    def spread(self, n_nodes: int) -> Floats:
        """Return a row for every node."""
        statistics = np.zeros((n_nodes, self.sums.shape[1]))
        statistics[self.nodes] = self.sums
        return statistics


@compiled
def sum_range(
    model: Any, data: Any, assignments: Integers, start: int, stop: int, n_nodes: int, n_data: int
) -> Sums:
    """Return the statistics over a range of rows, which is a subtree of the binary tree.

    ``n_data`` is the number of all data, here and elsewhere.
    """
    order, edges = _sort(assignments, start, stop, n_nodes)
    _, _, width = contract.widths(model)
    nodes, n_some = np.empty(min(n_nodes, order.size), dtype=np.int64), 0
    for node in range(n_nodes):
        if edges[node + 1] > edges[node]:
            nodes[n_some] = node
            n_some += 1
    sums = np.empty((n_some, width))
    size, waiting = block_size(n_data), nothing_waits(n_data, width)
    for k in range(n_some):
        _push_rows(model, data, order[edges[nodes[k]] : edges[nodes[k] + 1]], size, waiting)
        _add_up(waiting, sums[k])
    return Sums(nodes[:n_some], sums)


@compiled
def _join_sums(
    first_rows: Integers, nodes: Integers, sums: Floats, n_nodes: int, n_data: int
) -> Floats:
    """Return the sum of what ranges have found for each node."""
    order, edges = _sort(nodes, 0, nodes.size, n_nodes)
    width = sums.shape[1]
    statistics = np.empty((n_nodes, width))
    size, waiting = block_size(n_data), nothing_waits(n_data, width)
    for node in range(n_nodes):
        for k in order[edges[node] : edges[node + 1]]:
            push(waiting, first_rows[k] // size, sums[k])
        _add_up(waiting, statistics[node])
    return statistics


@compiled
def _sort(labels: Integers, start: int, stop: int, n_labels: int) -> tuple[Integers, Integers]:
    """Return places with label 0, then with label 1, ..., and where those of each begin and end."""
    edges = np.zeros(n_labels + 1, dtype=np.int64)
    for k in range(start, stop):
        edges[labels[k] + 1] += 1
    for label in range(n_labels):
        edges[label + 1] += edges[label]
    order, free = np.empty(stop - start, dtype=np.int64), edges[:-1].copy()
    for k in range(start, stop):
        order[free[labels[k]]] = k
        free[labels[k]] += 1
    return order, edges
