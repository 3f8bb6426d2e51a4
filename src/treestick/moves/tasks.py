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

    def sum_task(task: Task) -> Floats:
        return sum_range(state.model, data, state.assignments, *task, state.n_nodes, n_data)

    return state._replace(statistics=add_in_pairs(run(sum_task, tasks or [(0, 0)])))


def add_in_pairs(pieces: Iterable[Floats]) -> Floats:
    """Return the sum of what tasks found, over the binary tree."""
    return join_in_pairs(pieces, np.add)


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


@compiled
def sum_range(
    model: Any, data: Any, assignments: Integers, start: int, stop: int, n_nodes: int, n_data: int
) -> Floats:
    """Return the statistics of each node over some rows, block by block over the binary tree.

    ``n_data`` is the number of all data, here and elsewhere.
    """
    _, _, width = contract.widths(model)
    size = block_size(n_data)
    n_levels, n_blocks = 1, (stop - start + size - 1) // size
    while 1 << (n_levels - 1) < n_blocks:
        n_levels += 1
    partial = np.zeros((n_levels + 1, n_nodes, width))
    is_waiting = np.zeros(n_levels + 1, dtype=np.bool_)
    sums = np.empty((n_nodes, width))  # one for all blocks: memory from the system is slow
    for block in range(n_blocks):
        sums[:] = 0.0
        first = start + block * size
        for n in range(first, min(first + size, stop)):
            contract.add_statistics(model, data, n, sums[assignments[n]])
        level = 0
        while is_waiting[level]:
            _add(partial[level], sums)
            is_waiting[level] = False
            level += 1
        partial[level] = sums
        is_waiting[level] = True
    total = np.zeros((n_nodes, width))
    for level in range(n_levels + 1):
        if is_waiting[level]:
            _add(partial[level], total)
    return total


@compiled
def _add(sums: Floats, total: Floats) -> None:
    # A loop compiles in a tenth of the time that Numba takes for array expressions.
    for node in range(total.shape[0]):
        for k in range(total.shape[1]):
            total[node, k] += sums[node, k]


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
    """Add what a block, or a subtree that begins with it, has to add; it is behind all others.

    Those that meet before the last of them meets the new one are added up first.
    """
    n = waiting.n[0]
    while n > 1 and _meet_first(waiting.block[n - 2], waiting.block[n - 1], block):
        _add_last(waiting, n)
        n -= 1
    for k in range(sums.size):
        waiting.sums[n, k] = sums[k]
    waiting.block[n] = block
    waiting.n[0] = n + 1


@compiled
def _add_last(waiting: Waiting, n: int) -> None:
    for k in range(waiting.sums.shape[1]):
        waiting.sums[n - 2, k] += waiting.sums[n - 1, k]


@compiled
def add_up(waiting: Waiting) -> Floats:
    """Return the sum of all that wait; nothing does afterwards."""
    total = np.zeros(waiting.sums.shape[1])
    for n in range(waiting.n[0], 1, -1):
        _add_last(waiting, n)
    if waiting.n[0] > 0:
        for k in range(total.size):
            total[k] = waiting.sums[0, k]
    waiting.n[0] = 0
    return total


@compiled
def sum_rows(model: Any, data: Any, rows: Integers, n_data: int) -> Floats:
    """Return the statistics of some rows, given in ascending order."""
    _, _, width = contract.widths(model)
    waiting, sums = nothing_waits(n_data, width), np.empty(width)
    size = block_size(n_data)
    k = 0
    while k < rows.size:
        block = rows[k] // size
        sums[:] = 0.0
        while k < rows.size and rows[k] // size == block:
            contract.add_statistics(model, data, rows[k], sums)
            k += 1
        push(waiting, block, sums)
    return add_up(waiting)


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
