"""Shards on many workers: who keeps which group, and what is done when one is lost.

Rule 1. A group belongs to one worker at a time. What it is told goes there; it moves only when the
worker is gone, or when labels are committed and another worker has less to do. When labels are
committed and there are more threads than groups, other groups are made of the same shards.
Rule 2. Nothing that a worker tells is needed to go on without it: a group is made again from its
rows, from labels that were committed, and from the ops since.
Rule 3. The chain waits for workers as long as ``patience`` says, and then gives up with a sentence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from treestick.engine.keeping import Group, Making, Unknown
from treestick.inputs import InvalidValue
from treestick.moves.shards import Op


class Lost(Exception):
    """A worker is gone, or what it was doing."""


class NoWorkers(InvalidValue):
    """Nobody is left to do the work."""


class Workers(Protocol):
    """Where work is done."""

    def names(self) -> list[str]:
        """Return the workers that there are now."""

    def n_threads(self) -> int:
        """Return how many groups all of them can work on at once."""

    def submit(
        self, worker: str, group: Group, n_before: int, ops: Sequence[Op], making: Making | None
    ) -> Any:
        """Have :func:`~treestick.engine.keeping.carry_out` done; return something to wait for.

        What all groups are told alike is one object, which is not changed.
        """

    def result(self, submitted: Any) -> Any:
        """Wait for what was submitted and return it; raise :class:`Lost` if nobody does it."""


class Crew:
    """The workers of one chain.

    Parameters
    ----------
    workers : Workers
        Where work is done.
    groups : callable
        Takes a number; returns about so many groups, which together have all rows, in order.
    making : callable
        Takes a group; returns how to make it with the labels that were committed last.
    patience : float
        Seconds to wait for a worker when there is none.
    """

    def __init__(
        self,
        workers: Workers,
        groups: Callable[[int], Sequence[Group]],
        making: Callable[[Group], Making],
        patience: float = 60.0,
    ) -> None:
        self._workers, self._cut, self._making = workers, groups, making
        self._groups = groups(workers.n_threads())
        self._patience = patience
        self._since: list[Op] = []
        self._n_committed = 0
        self._place: dict[int, str] = {}

    @property
    def n_done(self) -> int:
        """Return how many ops there were."""
        return self._n_committed + len(self._since)

    def each(self, ops: list[Op]) -> list[Any]:
        """Have ops carried out by all groups; return the answers of the last, in order of rows."""
        n_before = self.n_done
        self._since += ops
        if len(self._place) < len(self._groups):
            self._settle()
        waiting = {group.number: self._submit(group, n_before, ops, None) for group in self._groups}
        answers: dict[int, list[Any]] = {}
        for group in self._groups:
            answers[group.number] = self._answer(group, waiting[group.number])
        return [answer for group in self._groups for answer in answers[group.number]]

    def along(self, ops: list[Op], handed: Any) -> Any:
        """Have ops carried out by one group after the other; return the answer of the last.

        The last op has ``handed`` in place of arguments of shards, then what the group before has
        answered for its last shard.
        """
        n_before = self.n_done
        own: list[Any] = [None] * sum(len(group.tasks) for group in self._groups)
        ops = [*ops[:-1], ops[-1]._replace(own=own)]
        self._since += ops
        if len(self._place) < len(self._groups):
            self._settle()
        first = 0
        for group in self._groups:
            # What a group was handed stays: it may have to be made again.
            own[first : first + len(group.tasks)] = [handed] * len(group.tasks)
            first += len(group.tasks)
            handed = self._answer(group, self._submit(group, n_before, ops, None))[-1]
        return handed

    def committed(self) -> None:
        """Note that the labels as of now are safe: ops until here are not needed again."""
        self._n_committed, self._since = self.n_done, []
        more = self._cut(self._workers.n_threads())
        if len(more) > len(self._groups):
            self._groups, self._place = more, {}
        else:
            self._share()

    def _answer(self, group: Group, submitted: Any) -> list[Any]:
        while True:
            try:
                answer = self._workers.result(submitted)
            except Lost:
                self._place.pop(group.number, None)
                self._settle()
                answer = Unknown()
            if not isinstance(answer, Unknown):
                return list(answer)
            making = self._making(group)
            submitted = self._submit(group, self._n_committed, list(self._since), making)

    def _submit(self, group: Group, n_before: int, ops: Sequence[Op], making: Making | None) -> Any:
        if any(op.own is not None for op in ops):
            first = sum(len(other.tasks) for other in self._groups[: group.number])
            own = slice(first, first + len(group.tasks))
            ops = [op if op.own is None else op._replace(own=op.own[own]) for op in ops]
        return self._workers.submit(self._place[group.number], group, n_before, ops, making)

    # -- who keeps what ----------------------------------------------------------------------------

    def _settle(self) -> None:
        """Give groups whose worker is gone to those that have least."""
        names = wait_for_workers(self._workers, self._patience)
        self._place = {number: name for number, name in self._place.items() if name in names}
        load = dict.fromkeys(names, 0)
        for name in self._place.values():
            load[name] += 1
        for group in self._groups:
            if group.number not in self._place:
                name = min(names, key=lambda name: (load[name], name))
                self._place[group.number] = name
                load[name] += 1

    def _share(self) -> None:
        """Let workers that have joined take groups from those that have most."""
        names = self._workers.names()
        while len(names) > 1:
            load = {name: [n for n, w in self._place.items() if w == name] for name in names}
            least = min(names, key=lambda name: len(load[name]))
            most = max(names, key=lambda name: len(load[name]))
            if len(load[most]) - len(load[least]) < 2:
                return
            self._place[max(load[most])] = least


def wait_for_workers(workers: Workers, patience: float) -> list[str]:
    """Return the workers that there are, as soon as there is one; raise after some seconds."""
    began = time.monotonic()
    while True:
        names = workers.names()
        if names:
            return names
        if time.monotonic() - began > patience:
            raise NoWorkers(
                f"there has been no worker for {patience:.0f} s; what was committed is kept, and "
                "the run goes on from there when it is resumed"
            )
        time.sleep(0.2)
