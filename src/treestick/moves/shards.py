"""Data that are elsewhere: in shards, of which each holds some rows and the labels of these.

A move that needs data asks all shards a question and joins their answers. A question is a function
of a group of shards and of what the move tells it; it may change the shards. Answers are sums,
counts and a few rows, never labels: these stay where they are, and what changes them is an order
that the shards carry out before the next question.

Rule 1. A shard is a complete subtree of the binary tree of blocks, as a task is
(:mod:`treestick.moves.tasks`); the last one may be ragged. So what they add up is added to the same
bits as in one place.
Rule 2. A datum's randomness is that of its number among all data.
Rule 3. Questions and orders are functions of modules, with arguments that can be sent; what they do
depends on nothing else. So a shard that is lost can be made again from its rows and labels and from
all that it was asked since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from treestick import contract
from treestick.moves import candidates as among
from treestick.moves.assignments import (
    Assign,
    Joining,
    NewNodes,
    Slots,
    Unseen,
    find_places,
    prepare_slicing,
    slicing,
)
from treestick.moves.candidates import Choices
from treestick.moves.prune import prune_to
from treestick.moves.rows import take_rows
from treestick.moves.state import Floats, Integers, State
from treestick.moves.tasks import (
    Task,
    add_up,
    block_size,
    nothing_waits,
    push,
    sum_range,
)
from treestick.random import Key


class Shard(NamedTuple):
    """Some rows of data."""

    first: int
    """Number of the first one among all data."""
    rows: Callable[[], Any]
    """Returns the data, which need not be in memory in between."""
    labels: Integers
    """Of each datum: the row of its node, or what else its node is called."""
    aside: dict[Any, Any]
    """What questions have chosen, by their tickets, until it is decided on."""
    latent: dict[str, Any]
    """What a model adds to each datum: ``numbers``, and ``seen``, the data as nodes see them, which
    follow from the numbers, the rows and what nodes share. Empty where nodes see the rows."""

    @property
    def data(self) -> Any:
        """The data as nodes see them, in the form of the compiled model."""
        return self.latent["seen"] if "seen" in self.latent else self.rows()


class Op(NamedTuple):
    """What shards are told."""

    function: Callable[..., Sequence[Any]]
    """Takes a group of shards, the number of all data, the arguments, and those of each shard."""
    arguments: tuple[Any, ...]
    own: Sequence[Any] | None = None
    """Arguments of each shard, if they have such."""


def cut_rows(n_data: int, n_pieces: int, most_rows: int | None = None) -> list[Task]:
    """Return ranges of rows that can be shards: some eight for each of so many pieces.

    There are more if they would have more rows than they may. Those where one piece ends and the
    next one begins are smaller, so that pieces have about as many rows each.
    """
    rows = int(block_size(n_data))
    n_blocks, size = -(-n_data // rows), 1
    while size * rows * 8 * n_pieces < n_data and (
        most_rows is None or 2 * size * rows <= most_rows
    ):
        size *= 2
    finest = max(size // 4, 1)
    inner = {round(k * n_blocks / n_pieces / finest) * finest for k in range(1, n_pieces)}
    tasks = []
    for start, stop in pairwise(
        sorted({0, *(edge for edge in inner if edge < n_blocks), n_blocks})
    ):
        block = start
        while block < stop:
            own = size
            while block % own > 0 or (block + own > stop and stop < n_blocks):
                own //= 2
            tasks.append((block * rows, min((block + own) * rows, n_data)))
            block += own
    return tasks


class Placed(NamedTuple):
    """What shards that are a subtree of the binary tree add up to."""

    block: int
    """The first of them."""
    sums: Floats


class Shards:
    """All shards of some data, as moves see them.

    Parameters
    ----------
    n_data : int
        Of all shards.
    each : callable
        Takes a list of :class:`Op`, has each of them done on all shards, one after the other, and
        returns what the last of them answered for each shard, in the order of rows.
    along : callable
        Takes the same, but has all done by one group of shards after the other, in the order of
        rows, the last op with what the group before answered; returns what the last group answers.
    base : named tuple, optional
        What is known of the data where they are not: the law of new atoms.
    """

    def __init__(
        self,
        n_data: int,
        each: Callable[[list[Op]], list[Any]],
        along: Callable[[list[Op], Any], Any],
        base: Any = None,
    ) -> None:
        self.n_data, self.base = n_data, base
        self.n_ahead = 16
        """Structural proposals that are tried at once; this changes the time, and no draw."""
        self._each, self._along = each, along
        self._orders: list[Op] = []
        self._described: list[Described] | None = None

    def order(
        self, function: Callable[..., Any], *arguments: Any, own: Sequence[Any] | None = None
    ) -> None:
        """Have something done before the next question."""
        self._orders.append(Op(function, arguments, own))
        self._described = None

    def ask(
        self, function: Callable[..., Any], *arguments: Any, own: Sequence[Any] | None = None
    ) -> list[Any]:
        """Ask a question; return the answer of each shard."""
        ops = [*self._orders, Op(function, arguments, own)]
        self._orders, self._described = [], None
        return self._each(ops)

    def hand_on(self, handed: Any, function: Callable[..., Any], *arguments: Any) -> Any:
        """Ask one group after the other; each gets what the one before it has handed on.

        That is the first of ``own`` in the function, and what it answers for its last shard. It
        must leave what it is given as it is, for it may be given it again.
        """
        ops = [*self._orders, Op(function, arguments)]
        self._orders, self._described = [], None
        return self._along(ops, handed)

    def add(self, answers: Sequence[Placed | None]) -> Floats:
        """Return the sum of what shards answered, over the binary tree.

        None stands where it is in the answer of one before (:func:`add_neighbours`).
        """
        placed = [answer for answer in answers if answer is not None]
        waiting = nothing_waits(self.n_data, placed[0].sums.size)
        for block, sums in placed:
            push(waiting, block, np.ascontiguousarray(sums).reshape(-1))
        total: Floats = add_up(waiting)
        return total.reshape(placed[0].sums.shape)

    # -- moves -------------------------------------------------------------------------------------

    def move_candidates(
        self, key: Key, state: State, most: int, least_mass: float
    ) -> tuple[State, int]:
        """Do what :func:`treestick.moves.candidates.move_candidates` does."""
        return self.draw_by(draw_among, key, state, most, least_mass)

    def draw_by(
        self,
        question: Callable[..., Any],
        key: Key,
        state: State,
        most: int,
        least_mass: float,
    ) -> tuple[State, int]:
        """Do the same with what data are for a question like :func:`draw_among`."""
        found = among.open_candidates(key, state, most, least_mass)
        counts = self.ask(question, key, state.model, found.choices, found.n_rows)
        state, new_row = among.settle(state, found, np.sum(counts, axis=0))
        self.order(renumber, new_row)
        return state, found.choices.rows.size

    def move_assignments(self, key: Key, state: State, task: Task | None) -> tuple[State, float]:
        """Do what :func:`treestick.moves.assignments.move_assignments` does.

        For a range of rows, or for all.
        """
        task = (0, self.n_data) if task is None else task
        none = state.statistics[:0]  # nobody looks at them
        answers = self.ask(find_all, key, state._replace(statistics=none), task)
        state, new_labels = join_found(state, answers)
        self.order(renumber_each, own=new_labels)
        n_tried = sum(found.n_tried for found in answers)
        return state, n_tried / max(task[1] - task[0], 1)

    def sum_statistics(self, state: State) -> State:
        """Do what :func:`treestick.moves.tasks.sum_statistics` does."""
        answers = self.ask(sum_all, state.model, state.n_nodes)
        self._described = [described for _, described in answers]
        return state._replace(statistics=self.add([sums for sums, _ in answers]))

    def describe(self) -> list[Described]:
        """Return what is known of each shard, for which sums have just been asked as a rule."""
        return self.ask(describe) if self._described is None else self._described

    def count(self, n_labels: int) -> Integers:
        """Return how many data have each label, of which there are so many at least."""
        answers = self.ask(count_labels, n_labels)
        counts = np.zeros(max(answer.size for answer in answers), dtype=np.int64)
        for answer in answers:
            counts[: answer.size] += answer
        return counts

    def gather(self) -> Integers:
        """Return the labels of all data: for tests, and for data that fit into one place."""
        return np.concatenate(self.ask(labels_of))


class Described(NamedTuple):
    """What is known of a shard."""

    first: int
    """Number of its first datum."""
    counts: Integers
    """How many of its data have each label."""
    nothing: Any
    """Of the first shard: its data, but no rows of them."""


class FoundThere(NamedTuple):
    """Where data of a shard have gone by slice sampling."""

    nodes: list[NewNodes]
    n_tried: int
    counts: Integers
    """Of each label: rows of the state's table, and behind them the nodes that were found."""


def join_found(state: State, answers: Sequence[FoundThere]) -> tuple[State, list[Integers]]:
    """Return the state with all nodes that were found, pruned, and the row of each shard's labels.

    The assignments are left as they are.
    """
    joining = Joining(state)
    n_before = int(state.table.size[0])
    new_labels = []
    for found in answers:
        own = [np.arange(n_before)]
        own += [joining.join(nodes)[n_before:] for nodes in found.nodes]
        new_labels.append(np.concatenate(own))
    at_rows = np.zeros(joining.table.parent.size, dtype=np.int64)
    for new_label, found in zip(new_labels, answers, strict=True):
        np.add.at(at_rows, new_label, found.counts)
    moved = state._replace(table=joining.table, theta=joining.theta)
    state, last_row = prune_to(moved, at_rows)
    return state, [last_row[new_label] for new_label in new_labels]


# -- orders and questions --------------------------------------------------------------------------

Group = Sequence[Shard]


def renumber(group: Group, n_data: int, new_label: Integers) -> list[None]:
    """Give data new labels."""
    for shard in group:
        shard.labels[:] = new_label[shard.labels]
    return [None] * len(group)


def renumber_each(group: Group, n_data: int, own: Sequence[Integers]) -> list[None]:
    """Give data new labels, other ones in each shard."""
    for shard, new_label in zip(group, own, strict=True):
        shard.labels[:] = new_label[shard.labels]
    return [None] * len(group)


def count_labels(group: Group, n_data: int, n_labels: int) -> list[Integers]:
    """Return how many data of each shard have each label."""
    return [np.bincount(shard.labels, minlength=n_labels) for shard in group]


def labels_of(group: Group, n_data: int) -> list[Integers]:
    """Return the labels."""
    return [shard.labels.copy() for shard in group]


def draw_among(
    group: Group, n_data: int, key: Key, model: Any, choices: Choices, n_rows: int
) -> list[Integers]:
    """Draw data among candidates; return how many are at each."""
    return draw_seen(group, key, model, choices, n_rows, lambda shard: shard.data)


def draw_seen(
    group: Group,
    key: Key,
    model: Any,
    choices: Choices,
    n_rows: int,
    data_of: Callable[[Shard], Any],
) -> list[Integers]:
    """Draw data among candidates, as a model sees them."""
    prepared = among.prepare_choices(model, choices)
    counts = []
    for shard in group:
        found = np.empty_like(shard.labels)
        among.draw_among(
            key, model, data_of(shard), shard.first, shard.labels, choices, prepared, 0,
            found.size, found,
        )  # fmt: skip
        shard.labels[:] = found
        counts.append(np.bincount(found, minlength=n_rows))
    return counts


def find_all(group: Group, n_data: int, key: Key, state: State, task: Task) -> list[FoundThere]:
    """Move the data of a range of rows by slice sampling."""
    prepared, cut = prepare_slicing(state)
    idle: list[Unseen] = []
    spare: list[Slots] = []
    answers = []
    for shard in group:
        n_rows = shard.labels.size
        start, stop = (min(max(edge - shard.first, 0), n_rows) for edge in task)
        assign = slicing(key, state, prepared, cut, shard.data, shard.first, shard.labels)
        answers.append(find_in(shard, state, (start, stop), assign, idle, spare))
    return answers


def find_in(
    shard: Shard,
    state: State,
    task: Task,
    assign: Assign,
    idle: list[Unseen],
    spare: list[Slots],
) -> FoundThere:
    """Move data of a shard, by their places in it, and give them labels."""
    n_before = int(state.table.size[0])
    nodes, n_tried, n_labels = [], 0, n_before
    if task[0] < task[1]:
        for found in find_places(state, shard.labels, task, assign, idle, spare):
            is_new = found.rows >= n_before
            shard.labels[found.data] = found.rows + is_new * (n_labels - n_before)
            n_labels += found.nodes.row.size
            nodes.append(found.nodes)
            n_tried += found.n_tried
    return FoundThere(nodes, n_tried, np.bincount(shard.labels, minlength=n_labels))


def describe(group: Group, n_data: int) -> list[Described]:
    """Return what is to be known of each shard."""
    none = np.empty(0, dtype=np.int64)
    return [
        Described(
            shard.first,
            np.bincount(shard.labels),
            take_rows(shard.data, none) if shard.first == 0 else None,
        )
        for shard in group
    ]


def sum_all(
    group: Group, n_data: int, model: Any, n_nodes: int
) -> list[tuple[Placed | None, Described]]:
    """Return the statistics of each node, those of neighbours together, and what is known."""
    sums = add_neighbours(
        group,
        n_data,
        (
            sum_range(
                model, shard.data, shard.labels, 0, shard.labels.size, n_nodes, n_data
            ).spread(n_nodes)
            for shard in group
        ),
        contract.registered(type(model)).has_whole_statistics,
    )
    return list(zip(sums, describe(group, n_data), strict=True))


def add_neighbours(
    group: Group, n_data: int, vectors: Iterable[Floats], are_whole: bool
) -> list[Placed | None]:
    """Add up what shards found as far as the binary tree has them together.

    Whole numbers are all added up: their sums have no rounding, whatever the order. A sum is in the
    place of its first shard, and None in those of the others.
    """
    rows = int(block_size(n_data))
    joined: list[Placed | None] = []
    waiting: list[tuple[int, int, int, Floats]] = []  # subtrees: place, first block, size, sums
    for place, (shard, sums) in enumerate(zip(group, vectors, strict=True)):
        joined.append(None)
        at, block, size = place, shard.first // rows, 1
        while size * rows < shard.labels.size:
            size *= 2
        while waiting and (
            are_whole or (waiting[-1][2] == size and waiting[-1][1] % (2 * size) == 0)
        ):
            at, block, _, before = waiting.pop()
            sums, size = before + sums, 2 * size
        waiting.append((at, block, size, sums))
    for at, block, _, sums in waiting:
        joined[at] = Placed(block, sums)
    return joined
