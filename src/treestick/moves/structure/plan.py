"""Structural moves one after the other: how many of each, on one hull."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from treestick.moves.state import Integers, State
from treestick.moves.structure.hull import FREE, loosen, settle, with_room
from treestick.moves.structure.insert import move_insert
from treestick.moves.structure.regraft import IN_PLACE, REFITTED, move_regraft
from treestick.moves.structure.reroot import move_reroot
from treestick.moves.structure.singles import (
    GIVEN_LEAVES,
    LEVELS,
    SMALL_LEAVES,
    move_singles,
    move_singles_by,
)
from treestick.moves.structure.split_merge import SMART_MERGE, SMART_SPLIT, move_split_merge
from treestick.moves.structure.swap import move_swap
from treestick.moves.tasks import Run
from treestick.random import Key

MOVES = {
    "smart_split": (move_split_merge, SMART_SPLIT),
    "smart_merge": (move_split_merge, SMART_MERGE),
    "insert": (move_insert, 0),
    "regraft": (move_regraft, IN_PLACE),
    "refitted_regraft": (move_regraft, REFITTED),
    "swap": (move_swap, 0),
    "reroot": (move_reroot, 0),
    "singles": (move_singles, GIVEN_LEAVES),
    "leaf_singles": (move_singles, SMALL_LEAVES),
}
"""Each with its kind: what :func:`move_structure` is told to do."""

ROOM = 64


def n_rows_for(name: str, n: int) -> int:
    """Return how many rows a hull must have free for ``n`` proposals to begin.

    Others stop, and go on, where it is full; single data must not.
    """
    return LEVELS * n if MOVES[name][0] is move_singles else LEVELS


def room_for(plan: Mapping[str, int]) -> int:
    """Return how many rows a hull has free at first: as a rule enough for all moves of a plan."""
    return ROOM + max((n_rows_for(name, n) for name, n in plan.items()), default=0)


def move_structure(
    key: Key, state: State, data: Any, plan: Mapping[str, int], run: Run = map
) -> tuple[State, dict[str, tuple[int, ...]]]:
    """Apply each move of ``plan`` as many times as it says, in its order.

    Return the state, without sticks, and of each move the number of proposals and of those accepted
    (of splits and merges apart). Leaves the posterior of the partition and its parameters
    invariant. One move follows the other; ``run`` is like ``map``, and may compute what single data
    need on several threads.
    """
    hull = loosen(state, room_for(plan))
    counts: dict[str, tuple[int, ...]] = {}
    first = 0
    for name, n in plan.items():
        move, kind = MOVES[name]
        done = 0
        total: Integers = np.zeros(1, dtype=np.int64)
        while done < n:
            n_rows = n_rows_for(name, n - done)
            if hull.counts[FREE] < n_rows:
                hull = with_room(hull, max(n_rows, hull.nodes.size))
            given = (key, state.model, data, state.sticks, hull, kind, first + done, n - done)
            counted = move_singles_by(run, *given) if move is move_singles else move(*given)
            done += int(counted[0])
            total = total + counted
        counts[name] = tuple(int(count) for count in total)
        first += n
    return settle(hull, state), counts
