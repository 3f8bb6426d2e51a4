"""Work over the data, in pieces that do not depend on who does them.

Rows are cut into blocks by their number alone, and blocks are grouped into tasks. Sums run row by
row within a block, and blocks are added over one fixed binary tree: neighbours in pairs, pairs in
pairs, one that is left over passing through. A task is a complete subtree (the last may be ragged),
so sums have the same bits for any number of tasks, threads or shards.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from treestick import contract
from treestick._jit import compiled
from treestick.moves.state import Floats, Integers, State

Task = tuple[int, int]
"""First row, and the one behind the last."""
Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Like ``map``: applies a function to each task, perhaps on several threads, results in order."""

BLOCK = 2048
MOST_TASKS = 16


def make_tasks(n_data: int) -> list[Task]:
    """Return ranges of rows, at most 16, each a power of two of blocks; the last may be shorter."""
    size = BLOCK
    while size * MOST_TASKS < n_data:
        size *= 2
    return [(start, min(start + size, n_data)) for start in range(0, n_data, size)]


def sum_statistics(state: State, data: Any, tasks: Sequence[Task], run: Run = map) -> State:
    """Return the state with the sufficient statistics of its assignments."""

    def add_up(task: Task) -> Floats:
        return _sum_range(state.model, data, state.assignments, *task, state.n_nodes)

    partial: list[tuple[int, Floats]] = []  # subtrees that wait for their neighbour, and their size
    for sums in run(add_up, tasks):
        size = 1
        while partial and partial[-1][0] == size:
            sums = partial.pop()[1] + sums
            size *= 2
        partial.append((size, sums))
    total = partial.pop()[1] if partial else add_up((0, 0))
    while partial:
        total = partial.pop()[1] + total
    return state._replace(statistics=total)


@compiled
def _sum_range(
    model: Any, data: Any, assignments: Integers, start: int, stop: int, n_nodes: int
) -> Floats:
    """Return the statistics of each node over some rows, block by block over the binary tree."""
    _, _, width = contract.widths(model)
    n_levels, n_blocks = 1, (stop - start + BLOCK - 1) // BLOCK
    while 1 << (n_levels - 1) < n_blocks:
        n_levels += 1
    partial = np.zeros((n_levels + 1, n_nodes, width))
    is_waiting = np.zeros(n_levels + 1, dtype=np.bool_)
    for block in range(n_blocks):
        sums = np.zeros((n_nodes, width))
        first = start + block * BLOCK
        for n in range(first, min(first + BLOCK, stop)):
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
