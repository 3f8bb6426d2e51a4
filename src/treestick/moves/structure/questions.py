"""What structural moves ask of shards: what data decide, and what they add up to.

A message has many questions (:func:`answer_all`): a shard answers all of them before the next one
begins, so rows that are not in memory are read once.

Rule 1. What a question has chosen is put aside under the question's ticket, until it is forgotten.
Questions that follow from it, and orders, name this ticket.
Rule 2. But for what is put aside, a question changes nothing; its answer depends on the data with
the labels that it names, and on its arguments. So it may be asked before it is known to be needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick import contract
from treestick.contract import DRAWN, GIVEN
from treestick.moves.assignments import prepare_nodes
from treestick.moves.rows import take_rows
from treestick.moves.shards import Group, Shard, add_neighbours
from treestick.moves.state import Floats, Integers
from treestick.moves.structure import around as nearby
from treestick.moves.structure import insert, split_merge
from treestick.moves.structure.chosen import find_chosen
from treestick.moves.structure.records import Lead, Pool, Sides, Targets
from treestick.moves.tasks import sum_rows
from treestick.random import Key
from treestick.tree.table import NULL

STATISTICS = 1
"""Their place among sums."""


class Question(NamedTuple):
    """What a proposal wants to know."""

    function: Callable[..., Answer]
    """Takes a shard, an :class:`Asker`, the arguments, and those of the shard."""
    arguments: tuple[Any, ...]
    labels: Sequence[int] | Integers
    """Of the data that it looks at."""
    own: Sequence[Any] | None = None
    """Arguments of each shard, if they have such."""


class Asker(NamedTuple):
    """Who asks."""

    ticket: int
    """Of the question: no other one has it."""
    key: Key
    """Of the proposal."""
    model: Any
    n_data: int = 0
    """Of all shards."""


class Answer(NamedTuple):
    """What a shard says, or all of them."""

    own: Any
    """Of the shard itself; of each of them."""
    sums: tuple[Any, ...] = ()
    """What is to be added up: log probabilities and, behind them, statistics; the sums."""


class Aside(NamedTuple):
    """Data that a proposal moves, in numbers that take little memory."""

    rows: npt.NDArray[np.int32]
    back: npt.NDArray[np.int32]
    """Of each: the place that it comes from, or goes to. Empty where there is but one."""


def _put_aside(shard: Shard, asker: Asker, rows: Integers, back: Integers) -> None:
    shard.aside[asker.ticket] = Aside(rows.astype(np.int32), back.astype(np.int32))


Asked = tuple[Callable[..., Answer], int, Key, tuple[Any, ...]]
"""A question, its ticket, the key of the proposal, and the arguments."""


def answer_all(
    group: Group,
    n_data: int,
    model: Any,
    questions: Sequence[Asked],
    own: Sequence[Sequence[Any]],
) -> list[list[Answer]]:
    """Answer questions, each shard all of them; sums of neighbours are added up."""
    questions = [
        (function, ticket, key, tuple(_prepared(model, one) for one in arguments))
        for function, ticket, key, arguments in questions
    ]
    are_whole = contract.registered(type(model)).has_whole_statistics
    answers: list[list[Answer]] = []
    for number, shard in enumerate(group):
        of_shard = []
        for k, (function, ticket, key, arguments) in enumerate(questions):
            more = () if own[number][k] is None else (own[number][k],)
            asker = Asker(ticket, key, model, n_data)
            of_shard.append(function(shard, asker, *arguments, *more))
        answers.append(of_shard)
    for k in range(len(questions)):
        vectors = zip(*(of_shard[k].sums for of_shard in answers), strict=True)
        added = [
            add_neighbours(group, n_data, each, are_whole and place == STATISTICS)
            for place, each in enumerate(vectors)
        ]
        for place, of_shard in enumerate(answers):
            sums = tuple(each[place] for each in added)
            of_shard[k] = of_shard[k]._replace(sums=sums)
    return answers


def _prepared(model: Any, argument: Any) -> Any:
    """Return an argument with what likelihoods need, which is not sent."""
    if isinstance(argument, Sides | Lead | Targets):
        return argument._replace(prepared=prepare_nodes(model, argument.theta))
    return argument


# -- rows ------------------------------------------------------------------------------------------


def fetch(shard: Shard, asker: Asker, wanted: Any, places: Integers) -> Answer:
    """Return data by their places among those with wanted labels."""
    return Answer((take_rows(shard.data, np.flatnonzero(wanted[shard.labels])[places]),))


def fetch_around(
    shard: Shard, asker: Asker, wanted: Any, aside: int | None, places: Integers
) -> Answer:
    """Do the same; return also their labels, and where those go that were put aside."""
    rows = np.flatnonzero(wanted[shard.labels])[places]
    back = np.full(rows.size, NULL)
    if aside is not None and shard.aside[aside].rows.size:
        sent = shard.aside[aside]
        at = np.minimum(np.searchsorted(sent.rows, rows), sent.rows.size - 1)
        back = np.where(sent.rows[at] == rows, sent.back[at].astype(np.int64), NULL)
    return Answer((take_rows(shard.data, rows), shard.labels[rows], back))


def fetch_chosen(shard: Shard, asker: Asker, n_labels: int, wanted: Integers) -> Answer:
    """Return data that were chosen (:mod:`treestick.moves.structure.chosen`), each once.

    With them come their labels, their places in the shard, and which of them each asks for.
    """
    rows, which = np.unique(find_chosen(shard.labels, n_labels, wanted), return_inverse=True)
    return Answer((take_rows(shard.data, rows), shard.labels[rows], rows, which))


# -- split and merge -------------------------------------------------------------------------------


def divide(shard: Shard, asker: Asker, label: int, sides: Sides) -> Answer:
    """Choose sides for the data of a node, B's being put aside.

    Return the number of data on B; log probabilities, and the statistics of these data.
    """
    rows = np.flatnonzero(shard.labels == label)
    on_b = np.empty(rows.size, dtype=np.bool_)
    logs = split_merge.divide_data(
        asker.key, asker.model, shard.data, shard.first, rows, asker.n_data, sides, on_b, DRAWN
    )
    return _on_b(shard, asker, rows[on_b], logs)


def toss(shard: Shard, asker: Asker, label: int, bias: float) -> Answer:
    """Do the same by tossing a coin."""
    rows = np.flatnonzero(shard.labels == label)
    on_b = np.empty(rows.size, dtype=np.bool_)
    split_merge.toss_data(asker.key, shard.first, rows, bias, on_b)
    return _on_b(shard, asker, rows[on_b], np.zeros(2))


def _on_b(shard: Shard, asker: Asker, rows: Integers, logs: Floats) -> Answer:
    _put_aside(shard, asker, rows, np.empty(0, dtype=np.int64))
    return Answer(rows.size, (logs, sum_rows(asker.model, shard.data, rows, asker.n_data)))


def weigh_sides(shard: Shard, asker: Asker, of_a: int, of_b: int, sides: Sides) -> Answer:
    """Return the log probabilities of the sides that the data of two nodes are on."""
    rows = np.flatnonzero((shard.labels == of_a) | (shard.labels == of_b))
    on_b = shard.labels[rows] == of_b
    logs = split_merge.divide_data(
        asker.key, asker.model, shard.data, shard.first, rows, asker.n_data, sides, on_b, GIVEN
    )
    return Answer(None, (logs,))


# -- birth and death -------------------------------------------------------------------------------


def take(shard: Shard, asker: Asker, place: Integers, lead: Lead) -> Answer:
    """Choose which data B takes, and put them aside with the places that they come from.

    Return of each place the number of data; the log probability, and statistics of each place.
    """
    pool = _pool(shard, place, NULL, None)
    log_c = nearby.take_data(
        asker.key, asker.model, shard.data, shard.first, pool, asker.n_data, lead, DRAWN
    )
    rows, back = pool.rows[pool.takes], pool.source[pool.takes]
    return _by_place(shard, asker, rows, back, lead.lean.size, log_c)


def send(shard: Shard, asker: Asker, label: int, targets: Targets) -> Answer:
    """Choose where the data of B go; put them aside. Answers are those of :func:`take`."""
    rows = np.flatnonzero(shard.labels == label)
    back = np.empty_like(rows)
    log_g = nearby.send_data(
        asker.key, asker.model, shard.data, shard.first, rows, asker.n_data, targets, back, DRAWN
    )
    return _by_place(shard, asker, rows, back, targets.log_weights.size, log_g)


def _by_place(
    shard: Shard, asker: Asker, rows: Integers, back: Integers, n_places: int, log_p: float
) -> Answer:
    _put_aside(shard, asker, rows, back)
    counts, sums = insert.sum_by_place(asker.model, shard.data, rows, back, n_places, asker.n_data)
    return Answer(counts, (np.array([log_p]), sums))


def _pool(shard: Shard, place: Integers, label: int, aside: Aside | None) -> Pool:
    """Return the data whose labels have a place, and those of B, which are put aside."""
    takes = shard.labels == label
    source = place[shard.labels]
    if aside is not None:
        source[aside.rows] = aside.back
    rows = np.flatnonzero(takes | (source != NULL))
    return Pool(rows, source[rows], takes[rows])


def weigh_back(shard: Shard, asker: Asker, aside: int, targets: Targets) -> Answer:
    """Return the log probability that data put aside would go back to where they come from."""
    rows, back = (array.astype(np.int64) for array in shard.aside[aside])
    log_g = nearby.send_data(
        asker.key, asker.model, shard.data, shard.first, rows, asker.n_data, targets, back, GIVEN
    )
    return Answer(None, (np.array([log_g]),))


def weigh_take(
    shard: Shard, asker: Asker, aside: int, place: Integers, label: int, lead: Lead
) -> Answer:
    """Return the log probability that B would take the data that it has."""
    pool = _pool(shard, place, label, shard.aside[aside])
    log_c = nearby.take_data(
        asker.key, asker.model, shard.data, shard.first, pool, asker.n_data, lead, GIVEN
    )
    return Answer(None, (np.array([log_c]),))


# -- orders ----------------------------------------------------------------------------------------


def relabel_aside(group: Group, n_data: int, ticket: int, label: int) -> list[None]:
    """Give what is put aside a label."""
    for shard in group:
        shard.labels[shard.aside[ticket].rows] = label
    return [None] * len(group)


def relabel_back(group: Group, n_data: int, ticket: int, labels: Integers) -> list[None]:
    """Give what is put aside the labels of the places that it goes to."""
    for shard in group:
        rows, back = shard.aside[ticket]
        shard.labels[rows] = labels[back]
    return [None] * len(group)


def rename(group: Group, n_data: int, old: int, new: int) -> list[None]:
    """Give all data of one label another one."""
    for shard in group:
        shard.labels[shard.labels == old] = new
    return [None] * len(group)


def forget(group: Group, n_data: int, tickets: Sequence[int]) -> list[None]:
    """Throw away what questions have put aside."""
    for shard in group:
        for ticket in tickets:
            shard.aside.pop(ticket, None)
    return [None] * len(group)


def set_labels(group: Group, n_data: int, own: Sequence[tuple[Integers, Integers]]) -> list[None]:
    """Give some data labels."""
    for shard, (rows, labels) in zip(group, own, strict=True):
        shard.labels[rows] = labels
    return [None] * len(group)
