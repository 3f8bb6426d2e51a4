"""Proposals that are tried while others are, each on the supposition that all before it fail.

Most do. So many proposals can be begun at once, and what they ask of shards be put into one
message; :mod:`treestick.moves.structure.elsewhere` does that. The stages of a proposal are those of
the moves themselves, called in the same order with the same streams.

Rule 1. A trial has nodes of its own. Parameters and statistics are those of all: what a trial
changes of them is set back before it asks, and before it ends.
Rule 2. A proposal that fails leaves everything as it was, but for the order of rows in use and of
children, on which choices and last bits of the next ones depend. ``then`` has the nodes in the
order that is expected while the trial is on its way, and in the one that was left when it has
ended.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from treestick.contract import DRAWN, GIVEN
from treestick.moves.rows import join_rows, take_rows
from treestick.moves.shards import Op
from treestick.moves.state import Floats, Integers, Sticks
from treestick.moves.structure import around as nearby
from treestick.moves.structure import hull as on
from treestick.moves.structure import insert, split_merge
from treestick.moves.structure import questions as about
from treestick.moves.structure.choices import pick
from treestick.moves.structure.hull import ALIVE, Hull
from treestick.moves.structure.questions import Answer, Question
from treestick.moves.structure.records import Lead, Sides
from treestick.moves.structure.split_merge import SMART_SPLIT
from treestick.random import PART, Key, Purpose, Stream, open_stream, uniform
from treestick.tree.table import NULL


class Setting(NamedTuple):
    """What proposals are made in."""

    key: Key
    model: Any
    sticks: Sticks
    hull: Hull
    at: Integers
    """How many data of each label every shard has."""
    nothing: Any
    """Data, but no rows of them."""


class Proposal(NamedTuple):
    """One of those that come in pairs."""

    name: str
    is_insert: bool
    kind: int
    number: int


class Told(NamedTuple):
    """The answer to a question."""

    ticket: int
    answer: Answer


class Accepted(NamedTuple):
    """What becomes of a hull, and of labels."""

    is_back: bool
    """Whether it is a merge or a death."""
    hull: Hull
    """Its nodes are right, not so its other rows:"""
    rows: Integers
    theta: Floats
    statistics: Floats
    """that change."""
    order: Op
    """What shards are told."""
    labels: Integers
    """Of data that may have been moved."""
    change: Integers
    """Of each shard: how many more data have these labels."""


Steps = Generator[Question, Told, Accepted | None]


class Trial:
    """A proposal as far as it has come."""

    def __init__(self, setting: Setting, proposal: Proposal, nodes: Any) -> None:
        self.setting, self.proposal = setting, proposal
        hull = setting.hull
        self.hull = hull._replace(nodes=nodes.copy(), counts=hull.counts.copy())
        self.then = nodes
        self.accepted: Accepted | None = None
        self.question: Question | None = None
        """What it waits for; None when it has ended."""
        self.name = b""
        """Of the question: tells it from all others of the proposal."""
        self.n_rows = 0
        """Data that its questions look at: those of the one that looks at most."""
        self._began, self._order = nodes, order_of(nodes, hull.counts[ALIVE])
        entity = {"purpose": np.uint64(Purpose.STRUCTURE), "entity": np.uint64(proposal.number)}
        self._steps = self._propose(open_stream(setting.key._replace(**entity)))
        self.go_on(None)

    @property
    def key(self) -> Key:
        """The key of what is drawn for data."""
        key = self.setting.key
        return key._replace(chain=key.chain | (np.uint64(self.proposal.number) << PART))

    def begins_with(self, nodes: Any) -> bool:
        """Say whether it was begun with nodes in this order."""
        if nodes is not self._began:
            if order_of(nodes, self.setting.hull.counts[ALIVE]) != self._order:
                return False
            self._began = nodes
        return True

    def go_on(self, told: Any) -> None:
        """Take the answer to the question, and go on to the next one or to the end."""
        try:
            self.question = self._steps.send(told)
            function, arguments, labels, own = self.question
            self.n_rows = max(self.n_rows, int(self.setting.at[:, labels].sum()))
            self.name = pickle.dumps((function.__name__, arguments, own), protocol=5)
        except StopIteration as end:
            self.question, self.accepted = None, end.value
            self.then = self.hull.nodes

    def _propose(self, stream: Stream) -> Steps:
        is_insert, kind = self.proposal.is_insert, self.proposal.kind
        if uniform(stream) < 0.5:
            steps = self._birth(stream) if is_insert else self._split(stream, kind)
        else:
            steps = self._death(stream) if is_insert else self._merge(stream, kind)
        return (yield from steps)

    # -- split and merge ---------------------------------------------------------------------------

    def _split(self, stream: Stream, kind: int) -> Steps:
        model, hull = self.setting.model, self.hull
        a, q = split_merge.choose_split(stream, hull)
        if a == NULL:
            return None
        children = on.children_of(hull, a)
        n_rows, label = int(hull.nodes[a].n_here), int(hull.nodes[a].label)
        adopted = np.empty(children.size, dtype=np.bool_)
        if kind == SMART_SPLIT:
            sides = yield from self._launch(stream, a, q, children, [label])
            of_children = split_merge.divide_children(
                stream, model, hull, sides, children, adopted, DRAWN
            )
            self._expect(children[adopted][::-1])
            ticket, answer = yield Question(about.divide, (label, _sent(sides)), [label])
            log_c = split_merge.log_mean(answer.sums[0] + of_children)
        else:
            bias = uniform(stream)
            log_children = split_merge.toss_children(stream, adopted, DRAWN)
            self._expect(children[adopted][::-1])
            ticket, answer = yield Question(about.toss, (label, bias), [label])
            log_c = split_merge.log_toss(sum(answer.own), n_rows) + log_children
        given, before = np.array(answer.own), self._copy([a])
        b = split_merge.finish_split(
            stream, model, self.setting.sticks, hull, a, q, int(given.sum()), answer.sums[1],
            children, adopted, log_c, kind,
        )  # fmt: skip
        if b == NULL:
            return None
        new = int(hull.nodes[b].label)
        after = self._copy([a, b])
        self._set([a], *before)
        order = Op(about.relabel_aside, (ticket, new))
        change = np.stack([-given, given], axis=1)
        return Accepted(
            False, hull, np.array([a, b]), *after, order, np.array([label, new]), change
        )

    def _merge(self, stream: Stream, kind: int) -> Steps:
        model, hull = self.setting.model, self.hull
        merged = typed(split_merge.begin_merge(stream, model, self.setting.sticks, hull, kind))
        a, b = merged.a, merged.b
        if a == NULL:
            return None
        after = self._copy([a])
        self._set([a, b], merged.theta, merged.statistics)
        self._expect([b], b)
        of_a, of_b = (int(hull.nodes[row].label) for row in (a, b))
        log_ratio = merged.log_ratio
        if log_ratio > merged.level and kind == SMART_SPLIT:
            sides = yield from self._launch(stream, a, merged.q, merged.children, [of_a, of_b])
            of_children = split_merge.divide_children(
                stream, model, hull, sides, merged.children, merged.adopted, GIVEN
            )
            _, answer = yield Question(about.weigh_sides, (of_a, of_b, _sent(sides)), [of_a, of_b])
            log_ratio += split_merge.log_mean(answer.sums[0] + of_children)
        elif log_ratio > merged.level:
            log_ratio += split_merge.log_toss(merged.n_given, hull.nodes[a].n_here)
            log_ratio += split_merge.toss_children(stream, merged.adopted, GIVEN)
        if log_ratio > merged.level:
            given = self.setting.at[:, of_b]
            order = Op(about.rename, (of_b, of_a))
            change = np.stack([-given, given], axis=1)
            return Accepted(
                True, hull, np.array([a]), *after, order, np.array([of_b, of_a]), change
            )
        split_merge.undo_merge(hull, merged)
        return None

    def _launch(
        self, stream: Stream, a: int, q: int, children: Integers, labels: list[int]
    ) -> Generator[Question, Told, Sides]:
        n_rows = int(self.setting.at[:, labels].sum())
        data, *_ = yield from self._fetch(about.fetch, labels, pick(stream, n_rows))
        picked = np.arange(data[0].shape[0])
        return split_merge.launch(
            stream, self.setting.model, data, self.hull, a, q, n_rows, picked, children
        )

    # -- birth and death ---------------------------------------------------------------------------

    def _birth(self, stream: Stream) -> Steps:
        model, hull = self.setting.model, self.hull
        around = insert.choose_birth(stream, hull)
        if around.size == 0:
            return None
        index = nearby.index_of(hull, around)
        place = index[hull.nodes["row_of"]]
        labels = hull.nodes["label"][around]
        n_pool = int(self.setting.at[:, labels].sum())
        data, found, _ = yield from self._fetch(
            about.fetch_around, labels, pick(stream, n_pool), None
        )
        lead = self._lead(stream, data, around, index, place[found], n_pool)
        adopts, log_adopted = insert.choose_adopted(stream, model, hull, around, index, lead)
        self._expect(around[adopts])
        ticket, answer = yield Question(about.take, (place, _sent(lead)), labels)
        n_taken, sums = np.sum(answer.own, axis=0), answer.sums[1]
        changed = typed(
            insert.begin_birth(
                stream, model, self.setting.sticks, hull, around, adopts,
                float(answer.sums[0][0]) + log_adopted, n_taken, sums,
            )
        )  # fmt: skip
        if changed.b == NULL:
            return None
        if changed.log_ratio > changed.level:
            rows = np.append(changed.rows, changed.b)
            targets, after = nearby.prepare_targets(model, hull, around), self._copy(rows)
            self._set(changed.rows, changed.theta, changed.statistics)
            _, back = yield Question(about.weigh_back, (ticket, _sent(targets)), labels)
            if changed.log_ratio + back.sums[0][0] > changed.level:
                new = int(hull.nodes[changed.b].label)
                given = np.array(answer.own)
                order = Op(about.relabel_aside, (ticket, new))
                change = np.column_stack([-given, given.sum(axis=1)])
                return Accepted(False, hull, rows, *after, order, np.append(labels, new), change)
        insert.undo_birth(hull, changed, around, n_taken, sums)
        return None

    def _death(self, stream: Stream) -> Steps:
        model, hull = self.setting.model, self.hull
        going = insert.choose_death(stream, model, hull)
        if going.b == NULL:
            return None
        self._expect([going.b, *going.children], going.b)
        around, label = going.around, int(hull.nodes[going.b].label)
        targets = nearby.prepare_targets(model, hull, around)
        ticket, answer = yield Question(about.send, (label, _sent(targets)), [label])
        n_taken, sums = np.sum(answer.own, axis=0), answer.sums[1]
        changed = typed(
            insert.begin_death(
                stream, model, self.setting.sticks, hull, going, float(answer.sums[0][0]), n_taken,
                sums,
            )
        )  # fmt: skip
        if changed.b == NULL:
            return None
        log_ratio = changed.log_ratio
        if log_ratio > changed.level:
            after = self._copy(changed.rows)
            self._set(changed.rows, changed.theta, changed.statistics)
            index = nearby.index_of(hull, around)
            place = index[hull.nodes["row_of"]]
            labels = hull.nodes["label"][around]
            all_labels = np.append(labels, label)
            n_pool = int(self.setting.at[:, all_labels].sum())
            data, found, back = yield from self._fetch(
                about.fetch_around, all_labels, pick(stream, n_pool), ticket
            )
            source = np.where(found == label, back, place[found])
            self._set(changed.rows, *after)
            lead = self._lead(stream, data, around, index, source, n_pool)
            log_adopted = insert.log_adopted(stream, model, hull, changed, around, index, lead)
            self._set(changed.rows, changed.theta, changed.statistics)
            _, taken = yield Question(
                about.weigh_take, (ticket, place, label, _sent(lead)), all_labels
            )
            log_ratio += taken.sums[0][0]
            log_ratio += log_adopted
            if log_ratio > changed.level:
                given = np.array(answer.own)
                order = Op(about.relabel_back, (ticket, labels))
                change = np.column_stack([given, -given.sum(axis=1)])
                return Accepted(True, hull, changed.rows, *after, order, all_labels, change)
        insert.undo_death(hull, changed, around, n_taken, sums)
        return None

    def _lead(
        self,
        stream: Stream,
        data: Any,
        around: Integers,
        index: Integers,
        source: Integers,
        n_pool: int,
    ) -> Lead:
        picked = np.arange(source.size)
        return nearby.launch(
            stream, self.setting.model, data, self.hull, around, index, picked, source, n_pool
        )

    # -- rows --------------------------------------------------------------------------------------

    def _fetch(
        self,
        function: Callable[..., Answer],
        labels: Sequence[int] | Integers,
        places: Integers,
        *arguments: Any,
    ) -> Generator[Question, Told, list[Any]]:
        """Return some of the data with these labels: those at given places, in ascending order.

        With them comes what else the function gives for each of them.
        """
        if places.size == 0:
            none = np.empty(0, dtype=np.int64)
            return [self.setting.nothing, none, none]
        counts = self.setting.at[:, labels].sum(axis=1)
        ends = np.cumsum(counts)
        shard = np.searchsorted(ends, places, side="right")
        local = places - (ends - counts)[shard]
        own = [local[shard == k] for k in range(counts.size)]
        wanted = np.zeros(self.hull.nodes.size, dtype=np.bool_)
        wanted[labels] = True
        _, answer = yield Question(function, (wanted, *arguments), labels, own)
        order = np.empty(places.size, dtype=np.int64)
        order[np.argsort(shard, kind="stable")] = np.arange(places.size)
        pieces = zip(*answer.own, strict=True)
        return [take_rows(join_rows(piece), order) for piece in pieces]

    def _copy(self, rows: Sequence[int] | Integers) -> tuple[Floats, Floats]:
        return self.hull.theta[rows], self.hull.statistics[rows]

    def _set(self, rows: Sequence[int] | Integers, theta: Floats, statistics: Floats) -> None:
        self.hull.theta[rows] = theta
        self.hull.statistics[rows] = statistics

    def _expect(self, to_front: Iterable[int], to_end: int | None = None) -> None:
        """Say in which order rows will be if the proposal fails; for this, it is left alone."""
        self.then = reorder(self.then, self.setting.hull.counts[ALIVE], to_front, to_end)


def typed(record: Any) -> Any:
    """Return a record with its entity as compiled code has it.

    Python gets a number without sign as an int, which compiled code would take for one with sign.
    """
    return record._replace(entity=np.uint64(record.entity))


def _sent(found: Any) -> Any:
    """Return what data are to look at without what they prepare themselves, which is larger."""
    return found._replace(prepared=np.empty((0, 0)))


# -- the order of nodes ----------------------------------------------------------------------------


def order_of(nodes: Any, n_alive: int) -> bytes:
    """Return the order of rows in use, and of children."""
    rows = nodes["alive"][:n_alive]
    return np.concatenate([rows, nodes["first_child"][rows], nodes["next_sibling"][rows]]).tobytes()


def reorder(nodes: Any, n_alive: int, to_front: Iterable[int], to_end: int | None) -> Any:
    """Return nodes with children brought to the front, one after the other, and a row to the end.

    That is, to the front of their parent's children, and to the end of the rows in use, in exchange
    for the last.
    """
    nodes = nodes.copy()
    first_child, following = nodes["first_child"], nodes["next_sibling"]
    preceding = nodes["previous_sibling"]
    for row in to_front:
        parent, before, after = nodes["parent"][row], preceding[row], following[row]
        if before != NULL:
            following[before] = after
            if after != NULL:
                preceding[after] = before
            preceding[first_child[parent]] = row
            following[row], preceding[row] = first_child[parent], NULL
            first_child[parent] = row
    if to_end is not None:
        alive, place = nodes["alive"], nodes["place"]
        last = alive[n_alive - 1]
        alive[place[to_end]], alive[n_alive - 1] = last, to_end
        place[last], place[to_end] = place[to_end], n_alive - 1
    return nodes
