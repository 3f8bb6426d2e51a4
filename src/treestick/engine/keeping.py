"""Groups of shards as a worker keeps them, from one thing it is told to the next.

A chain tells its shards one op after the other (:class:`treestick.moves.shards.Op`), and counts
them. A worker that has carried out all before the present ones carries these out; one that has not,
because the group is new to it, says so, and is then told how to make the group: from its rows, from
labels that were committed, and from all ops since.

Rule 1. What a worker keeps can always be made again, to the same bits. It is thrown away whenever
an op fails.
Rule 2. An answer may be lost on its way. So the last ones are kept, and given again if the same ops
come again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from treestick.moves.shards import Op, Shard
from treestick.moves.tasks import Task


class Group(NamedTuple):
    """Some shards that a worker keeps together."""

    chain: str
    """Names the chain among all that a worker may know."""
    number: int
    n_groups: int
    """Into so many the shards are put together."""
    n_data: int
    """Of all groups."""
    tasks: list[Task]
    """The rows of each shard."""


class Making(NamedTuple):
    """How a group is made."""

    n_done: int
    """Ops of which the labels have the effects."""
    make: Callable[[Group, Any], list[Shard]]
    how: Any
    """What ``make`` is told beside the group."""


class Kept(NamedTuple):
    """A group, and how far it is."""

    shards: list[Shard]
    n_done: int
    answers: list[Any]
    """Of the last op."""


class Unknown(NamedTuple):
    """The answer of a worker that does not have the group as it was before some ops."""


_kept: dict[tuple[str, int, int], Kept] = {}
_mutex = threading.Lock()


def carry_out(
    group: Group, n_before: int, ops: Sequence[Op], making: Making | None
) -> list[Any] | Unknown:
    """Carry out ops, of which there were ``n_before`` before; return the answers of the last."""
    name = (group.chain, group.number, group.n_groups)
    with _mutex:
        kept = _kept.pop(name, None)  # another thread that gets it must not find it half done
    n_after = n_before + len(ops)
    if kept is None or not n_before <= kept.n_done <= n_after:
        if making is None:
            return Unknown()
        if making.n_done != n_before:
            raise ValueError(f"ops from {n_before} on, for labels as of {making.n_done}")
        kept = Kept(making.make(group, making.how), n_before, [])
    answers = kept.answers
    for op in ops[kept.n_done - n_before :]:
        own = () if op.own is None else (op.own,)
        answers = list(op.function(kept.shards, group.n_data, *op.arguments, *own))
    with _mutex:
        _kept[name] = Kept(kept.shards, n_after, answers)
    return answers


def forget(fit: str) -> None:
    """Throw away all groups of chains whose names begin so."""
    with _mutex:
        for name in [name for name in _kept if name[0].startswith(fit)]:
            del _kept[name]
