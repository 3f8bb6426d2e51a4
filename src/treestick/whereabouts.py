"""Where the data are: here, or elsewhere in shards. A sweep does not need to know.

Both have the moves that ask for data; all others need the state alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from treestick.moves import atoms_elsewhere, topics_elsewhere
from treestick.moves.assignments import Slots, move_assignments
from treestick.moves.atoms import move_atoms, move_atoms_of_data
from treestick.moves.candidates import move_candidates
from treestick.moves.places import move_places
from treestick.moves.shards import Shards
from treestick.moves.state import State, seen_by
from treestick.moves.structure import elsewhere
from treestick.moves.structure.plan import move_structure
from treestick.moves.tasks import Run, Task, make_tasks, sum_statistics
from treestick.moves.topics import TopicMoves, move_documents, move_tokens
from treestick.random import Key

Counted = dict[str, tuple[int, ...]]


class Here:
    """Data in this process, worked on by its threads.

    ``spare`` is memory that sweeps hand on.
    """

    def __init__(self, data: Any, n_data: int, run: Run, spare: list[Slots] | None) -> None:
        self.data, self.n_data, self.run, self.spare = data, n_data, run, spare
        self.tasks = make_tasks(n_data)

    def move_candidates(
        self, key: Key, state: State, most: int, least_mass: float
    ) -> tuple[State, int]:
        """See :mod:`treestick.moves.candidates`."""
        seen = seen_by(state, self.data)
        return move_candidates(key, state, seen, self.tasks, most, least_mass, self.run)

    def move_assignments(self, key: Key, state: State, task: Task | None) -> tuple[State, float]:
        """See :mod:`treestick.moves.assignments`; all data where there is no task."""
        tasks = self.tasks if task is None else [task]
        seen = seen_by(state, self.data)
        return move_assignments(key, state, seen, tasks, self.run, self.spare)

    def move_places(self, key: Key, state: State) -> tuple[State, float]:
        """See :mod:`treestick.moves.places`."""
        return move_places(key, state, self.data, self.tasks, self.run, self.spare)

    def move_atoms_of_data(self, key: Key, state: State) -> State:
        """See :mod:`treestick.moves.atoms`."""
        return move_atoms_of_data(key, state, self.data)

    def move_atoms(self, key: Key, state: State) -> State:
        """See :mod:`treestick.moves.atoms`."""
        return move_atoms(key, state, self.data)

    def move_documents(
        self, key: Key, state: State, most: int, least_mass: float, moves: TopicMoves
    ) -> tuple[State, int]:
        """See :mod:`treestick.moves.topics`."""
        return move_documents(key, state, self.data, self.tasks, most, least_mass, moves, self.run)

    def move_tokens(self, keys: Sequence[Key], state: State, moves: TopicMoves) -> State:
        """See :mod:`treestick.moves.topics`; once with each key."""
        return move_tokens(keys, state, self.data, moves, self.run)

    def sum_statistics(self, state: State) -> State:
        """See :mod:`treestick.moves.tasks`."""
        return sum_statistics(state, seen_by(state, self.data), self.tasks, self.run)

    def move_structure(
        self, key: Key, state: State, plan: Mapping[str, int]
    ) -> tuple[State, Counted]:
        """See :mod:`treestick.moves.structure`."""
        return move_structure(key, state, seen_by(state, self.data), plan, self.run)


class Elsewhere(Shards):
    """Data in shards. States have no assignments: labels are where the data are."""

    def move_places(self, key: Key, state: State) -> tuple[State, float]:
        """See :mod:`treestick.moves.atoms_elsewhere`, also for the next two."""
        return atoms_elsewhere.move_places(key, state, self)

    def move_atoms_of_data(self, key: Key, state: State) -> State:
        """Visit the shards in order."""
        return atoms_elsewhere.move_atoms_of_data(key, state, self)

    def move_atoms(self, key: Key, state: State) -> State:
        """Draw atoms given sums."""
        return atoms_elsewhere.move_atoms(key, state, self)

    def move_documents(
        self, key: Key, state: State, most: int, least_mass: float, moves: TopicMoves
    ) -> tuple[State, int]:
        """See :mod:`treestick.moves.topics_elsewhere`, also for the next."""
        return topics_elsewhere.move_documents(key, state, self, most, least_mass)

    def move_tokens(self, keys: Sequence[Key], state: State, moves: TopicMoves) -> State:
        """Move all tokens given topics, once with each key."""
        return topics_elsewhere.move_tokens(keys, state, self, moves)

    def move_structure(
        self, key: Key, state: State, plan: Mapping[str, int]
    ) -> tuple[State, Counted]:
        """See :mod:`treestick.moves.structure.elsewhere`."""
        return elsewhere.move_structure(key, state, self, plan)
