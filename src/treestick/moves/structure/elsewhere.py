"""Structural moves where the data are elsewhere, in shards.

The hull is here, without labels; what a proposal needs of the data it asks for: a few rows for a
launch, and what all data of some nodes add up to once each has decided by itself. The stages are
those of the moves themselves, called in the same order with the same streams, so the tree comes out
the same, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treestick.contract import DRAWN, GIVEN
from treestick.moves.rows import join_rows, take_rows
from treestick.moves.shards import Group, Shards, renumber
from treestick.moves.state import Floats, Integers, State
from treestick.moves.structure import around as nearby
from treestick.moves.structure import hull as on
from treestick.moves.structure import insert, singles, split_merge
from treestick.moves.structure.choices import pick
from treestick.moves.structure.chosen import choose_singles
from treestick.moves.structure.hull import DATA, FREE, loosen, settle_nodes, with_room
from treestick.moves.structure.plan import MOVES, ROOM, n_rows_for
from treestick.moves.structure.records import Lead, Pool, Sides, Targets
from treestick.moves.structure.split_merge import SMART_SPLIT
from treestick.moves.tasks import sum_rows
from treestick.random import PART, Key, Purpose, Stream, open_stream, uniform
from treestick.tree.table import NULL


def move_structure(
    key: Key, state: State, shards: Shards, plan: Mapping[str, int]
) -> tuple[State, dict[str, tuple[int, ...]]]:
    """Do what :func:`treestick.moves.structure.plan.move_structure` does."""
    asking = Asking(key, state, shards)
    counts: dict[str, tuple[int, ...]] = {}
    first = 0
    for name, n in plan.items():
        counts[name] = asking.move(name, first, n)
        first += n
    return asking.settle(state), counts


class Asking:
    """A hull, and how many data of each label every shard has."""

    def __init__(self, key: Key, state: State, shards: Shards) -> None:
        self.key, self.model, self.sticks, self.shards = key, state.model, state.sticks, shards
        self.hull = loosen(state, ROOM)
        self.hull.counts[DATA] = shards.n_data
        answers = shards.ask(describe, self.hull.nodes.size)
        self.at = np.array([counts for counts, _, _ in answers])
        self.first = np.array([first for _, first, _ in answers])
        self.nothing = answers[0][2]

    def settle(self, state: State) -> State:
        """Return the state, and tell the shards its rows."""
        settled, new_label = settle_nodes(self.hull, state)
        self.shards.order(renumber, new_label)
        return settled

    def move(self, name: str, first: int, n: int) -> tuple[int, ...]:
        """Make ``n`` proposals of one kind; return how many there were and how many accepted."""
        move, kind = MOVES[name]
        total = np.zeros(1, dtype=np.int64)
        done = 0
        while done < n:
            if self.hull.counts[FREE] < n_rows_for(name, n):
                self._grow(n_rows_for(name, n))
            if move is singles.move_singles:
                counted = self._singles(kind, first + done, n - done)
            elif move is split_merge.move_split_merge or move is insert.move_insert:
                counted = self._one(move is insert.move_insert, kind, first + done)
            else:
                counted = move(
                    self.key, self.model, self.nothing, self.sticks, self.hull, kind,
                    first + done, n - done,
                )  # fmt: skip
            done += int(counted[0])
            total = total + counted
        return tuple(int(count) for count in total)

    def _grow(self, least: int) -> None:
        n_more = max(least, self.hull.nodes.size)
        self.hull = with_room(self.hull, n_more)
        self.at = np.pad(self.at, ((0, 0), (0, n_more)))

    def _one(self, is_insert: bool, kind: int, number: int) -> Integers:
        """Make one proposal of those that come in pairs."""
        entity = {"purpose": np.uint64(Purpose.STRUCTURE), "entity": np.uint64(number)}
        stream = open_stream(self.key._replace(**entity))
        of_data = self.key._replace(chain=self.key.chain | (np.uint64(number) << PART))
        counts = np.array([1, 0, 0])
        if uniform(stream) < 0.5:
            born = self._birth(of_data, stream) if is_insert else self._split(of_data, stream, kind)
            counts[1] = born
        else:
            gone = self._death(of_data, stream) if is_insert else self._merge(of_data, stream, kind)
            counts[2] = gone
        return counts

    # -- split and merge ---------------------------------------------------------------------------

    def _split(self, key: Key, stream: Stream, kind: int) -> bool:
        hull = self.hull
        a, q = split_merge.choose_split(stream, hull)
        if a == NULL:
            return False
        children = on.children_of(hull, a)
        n_rows, label = int(hull.nodes[a].n_here), int(hull.nodes[a].label)
        adopted = np.empty(children.size, dtype=np.bool_)
        if kind == SMART_SPLIT:
            sides = self._launch(stream, a, q, children, [label])
            answers = self.shards.ask(divide, key, self.model, label, sides)
            logs = self.shards.add([logs for logs, _, _ in answers])
            logs += split_merge.divide_children(
                stream, self.model, hull, sides, children, adopted, DRAWN
            )
            log_c = split_merge.log_mean(logs)
        else:
            answers = self.shards.ask(toss, key, self.model, label, uniform(stream))
            n_b = sum(int(n) for _, n, _ in answers)
            log_c = split_merge.log_toss(n_b, n_rows)
            log_c += split_merge.toss_children(stream, adopted, DRAWN)
        given = np.array([n for _, n, _ in answers])
        sums = self.shards.add([sums for _, _, sums in answers])
        b = split_merge.finish_split(
            stream, self.model, self.sticks, hull, a, q, int(given.sum()), sums, children,
            adopted, log_c, kind,
        )  # fmt: skip
        if b == NULL:
            return False
        new = int(hull.nodes[b].label)
        self.shards.order(relabel_aside, new)
        self.at[:, label] -= given
        self.at[:, new] += given
        return True

    def _merge(self, key: Key, stream: Stream, kind: int) -> bool:
        hull = self.hull
        merged = _typed(split_merge.begin_merge(stream, self.model, self.sticks, hull, kind))
        if merged.a == NULL:
            return False
        of_a, of_b = int(hull.nodes[merged.a].label), int(hull.nodes[merged.b].label)
        log_ratio = merged.log_ratio
        if log_ratio > merged.level and kind == SMART_SPLIT:
            sides = self._launch(stream, merged.a, merged.q, merged.children, [of_a, of_b])
            answers = self.shards.ask(weigh_sides, key, self.model, of_a, of_b, sides)
            logs = self.shards.add(answers)
            logs += split_merge.divide_children(
                stream, self.model, hull, sides, merged.children, merged.adopted, GIVEN
            )
            log_ratio += split_merge.log_mean(logs)
        elif log_ratio > merged.level:
            log_ratio += split_merge.log_toss(merged.n_given, hull.nodes[merged.a].n_here)
            log_ratio += split_merge.toss_children(stream, merged.adopted, GIVEN)
        if log_ratio > merged.level:
            self.shards.order(rename, of_b, of_a)
            self.at[:, of_a] += self.at[:, of_b]
            self.at[:, of_b] = 0
            return True
        split_merge.undo_merge(hull, merged)
        return False

    def _launch(
        self, stream: Stream, a: int, q: int, children: Integers, labels: list[int]
    ) -> Sides:
        n_rows = int(self.at[:, labels].sum())
        data, _, _ = self._fetch(labels, pick(stream, n_rows))
        picked = np.arange(data[0].shape[0])
        return split_merge.launch(
            stream, self.model, data, self.hull, a, q, n_rows, picked, children
        )

    # -- birth and death ---------------------------------------------------------------------------

    def _birth(self, key: Key, stream: Stream) -> bool:
        hull = self.hull
        around = insert.choose_birth(stream, hull)
        if around.size == 0:
            return False
        index = nearby.index_of(hull, around)
        place = index[hull.nodes["row_of"]]
        lead = self._lead(stream, around, index, place, NULL)
        answers = self.shards.ask(take, key, self.model, place, lead)
        log_c, n_taken, sums = self._added(answers)
        changed = _typed(
            insert.begin_birth(
                stream, self.model, self.sticks, hull, around, index, lead, log_c, n_taken, sums
            )
        )
        if changed.b == NULL:
            return False
        log_ratio = changed.log_ratio
        if log_ratio > changed.level:
            targets = nearby.prepare_targets(self.model, hull, around)
            log_ratio += self.shards.add(self.shards.ask(weigh_back, key, self.model, targets))[0]
            if log_ratio > changed.level:
                label = int(hull.nodes[changed.b].label)
                self.shards.order(relabel_aside, label)
                labels = hull.nodes["label"][around]
                for number, (_, own, _) in enumerate(answers):
                    self.at[number, labels] -= own
                    self.at[number, label] += own.sum()
                return True
        insert.undo_birth(hull, changed, around, n_taken, sums)
        return False

    def _death(self, key: Key, stream: Stream) -> bool:
        hull = self.hull
        going = insert.choose_death(stream, self.model, hull)
        if going.b == NULL:
            return False
        around, label = going.around, int(hull.nodes[going.b].label)
        targets = nearby.prepare_targets(self.model, hull, around)
        answers = self.shards.ask(send, key, self.model, label, targets)
        log_g, n_taken, sums = self._added(answers)
        changed = _typed(
            insert.begin_death(stream, self.model, self.sticks, hull, going, log_g, n_taken, sums)
        )
        if changed.b == NULL:
            return False
        log_ratio = changed.log_ratio
        if log_ratio > changed.level:
            index = nearby.index_of(hull, around)
            place = index[hull.nodes["row_of"]]
            lead = self._lead(stream, around, index, place, label)
            answer = self.shards.ask(weigh_take, key, self.model, place, label, lead)
            log_ratio += self.shards.add(answer)[0]
            log_ratio += insert.log_adopted(stream, self.model, hull, changed, around, index, lead)
            if log_ratio > changed.level:
                labels = hull.nodes["label"][around]
                self.shards.order(relabel_back, labels)
                self.at[:, label] = 0
                for number, (_, own, _) in enumerate(answers):
                    self.at[number, labels] += own
                return True
        insert.undo_death(hull, changed, around, n_taken, sums)
        return False

    def _lead(
        self, stream: Stream, around: Integers, index: Integers, place: Integers, label: int
    ) -> Lead:
        """Launch with data of the nodes around, and with those of B, if its label is not NULL."""
        labels = [int(k) for k in self.hull.nodes["label"][around]]
        labels += [] if label == NULL else [label]
        n_pool = int(self.at[:, labels].sum())
        data, found, back = self._fetch(labels, pick(stream, n_pool))
        source = np.where(found == label, back, place[found])
        picked = np.arange(source.size)
        return nearby.launch(
            stream, self.model, data, self.hull, around, index, picked, source, n_pool
        )

    def _added(self, answers: Sequence[Any]) -> tuple[float, Integers, Floats]:
        log_p = self.shards.add([logs for logs, _, _ in answers])[0]
        counts = np.sum([counts for _, counts, _ in answers], axis=0)
        return float(log_p), counts, self.shards.add([sums for _, _, sums in answers])

    # -- single data -------------------------------------------------------------------------------

    def _singles(self, kind: int, first: int, n: int) -> Integers:
        chosen = choose_singles(self.key, first, n, self.hull)
        shard, labels, places = np.empty(n, dtype=np.int64), np.full(n, NULL), chosen[:, 1].copy()
        for k, (row, place) in enumerate(chosen):
            if row == NULL:
                shard[k] = np.searchsorted(self.first, place, side="right") - 1
                places[k] -= self.first[shard[k]]
            else:
                labels[k] = self.hull.nodes[row].label
                ends = np.cumsum(self.at[:, labels[k]])
                shard[k] = np.searchsorted(ends, place, side="right")
                places[k] -= ends[shard[k]] - self.at[shard[k], labels[k]]
        wanted = [(labels[shard == k], places[shard == k]) for k in range(self.first.size)]
        pieces = self.shards.ask(fetch_chosen, own=wanted)
        own = [rows for _, _, rows, _ in pieces]
        slots, n_rows = np.empty(n, dtype=np.int64), 0
        for k, (_, _, rows, inverse) in enumerate(pieces):
            slots[shard == k] = n_rows + inverse
            n_rows += rows.size
        data = join_rows([rows for rows, _, _, _ in pieces])
        before = np.concatenate([labels for _, labels, _, _ in pieces])
        shard = np.repeat(np.arange(len(own)), [rows.size for rows in own])
        small = self.hull._replace(labels=before.astype(np.int32))
        counts = singles.move_chosen(
            self.key, self.model, data, self.sticks, small, kind, first, slots
        )
        after = small.labels.astype(np.int64)
        np.subtract.at(self.at, (shard, before), 1)
        np.add.at(self.at, (shard, after), 1)
        own_after = [(own[k], after[shard == k]) for k in range(len(own))]
        self.shards.order(set_labels, own=own_after)
        return counts

    # -- rows --------------------------------------------------------------------------------------

    def _fetch(self, labels: list[int], places: Integers) -> tuple[Any, Integers, Integers]:
        """Return some of the data with these labels: those at given places, in ascending order.

        With them come their labels, and where a proposal sends them back to.
        """
        if places.size == 0:
            none = np.empty(0, dtype=np.int64)
            return self.nothing, none, none
        counts = self.at[:, labels].sum(axis=1)
        ends = np.cumsum(counts)
        shard = np.searchsorted(ends, places, side="right")
        local = places - (ends - counts)[shard]
        own = [local[shard == k] for k in range(counts.size)]
        wanted = np.zeros(self.hull.nodes.size, dtype=np.bool_)
        wanted[labels] = True
        pieces = self.shards.ask(fetch_places, wanted, own=own)
        order = np.empty(places.size, dtype=np.int64)
        order[np.argsort(shard, kind="stable")] = np.arange(places.size)
        data = take_rows(join_rows([rows for rows, _, _ in pieces]), order)
        found, back = (np.concatenate([piece[k] for piece in pieces])[order] for k in (1, 2))
        return data, found, back


def _typed(record: Any) -> Any:
    """Return a record with its entity as compiled code has it.

    Python gets a number without sign as an int, which compiled code would take for one with sign.
    """
    return record._replace(entity=np.uint64(record.entity))


# -- questions -------------------------------------------------------------------------------------


def describe(group: Group, n_data: int, n_labels: int) -> list[tuple[Integers, int, Any]]:
    """Return how many data have each label, the number of the first datum, and no rows at all."""
    none = np.empty(0, dtype=np.int64)
    return [
        (np.bincount(shard.labels, minlength=n_labels), shard.first, take_rows(shard.data, none))
        for shard in group
    ]


def fetch_places(
    group: Group, n_data: int, wanted: Any, own: Sequence[Integers]
) -> list[tuple[Any, Integers, Integers]]:
    """Return data by their places among those with wanted labels, and what is known of them."""
    answers = []
    for shard, places in zip(group, own, strict=True):
        rows = np.flatnonzero(wanted[shard.labels])[places]
        back = np.full(rows.size, NULL)
        if "back" in shard.aside and shard.aside["rows"].size:
            sent = shard.aside["rows"]
            at = np.minimum(np.searchsorted(sent, rows), sent.size - 1)
            back = np.where(sent[at] == rows, shard.aside["back"][at], NULL)
        answers.append((take_rows(shard.data, rows), shard.labels[rows], back))
    return answers


def fetch_chosen(
    group: Group, n_data: int, own: Sequence[tuple[Integers, Integers]]
) -> list[tuple[Any, Integers, Integers, Integers]]:
    """Return data by their places: among those of a label, or in the shard where that is NULL.

    With them come their labels, their places in the shard, and which of them each asks for.
    """
    answers = []
    for shard, (labels, places) in zip(group, own, strict=True):
        rows = places.copy()
        for label in np.unique(labels[labels != NULL]):
            rows[labels == label] = np.flatnonzero(shard.labels == label)[places[labels == label]]
        unique, inverse = np.unique(rows, return_inverse=True)
        answers.append((take_rows(shard.data, unique), shard.labels[unique], unique, inverse))
    return answers


def divide(
    group: Group, n_data: int, key: Key, model: Any, label: int, sides: Sides
) -> list[tuple[Floats, int, Floats]]:
    """Choose sides for the data of a node, B's being put aside.

    Return log probabilities, the number of data on B, and their statistics.
    """
    answers = []
    for shard in group:
        rows = np.flatnonzero(shard.labels == label)
        on_b = np.empty(rows.size, dtype=np.bool_)
        logs = split_merge.divide_data(
            key, model, shard.data, shard.first, rows, n_data, sides, on_b, DRAWN
        )
        answers.append((logs, *_put_aside(shard, model, rows[on_b], n_data)))
    return answers


def toss(
    group: Group, n_data: int, key: Key, model: Any, label: int, bias: float
) -> list[tuple[None, int, Floats]]:
    """Do the same by tossing a coin."""
    answers = []
    for shard in group:
        rows = np.flatnonzero(shard.labels == label)
        on_b = np.empty(rows.size, dtype=np.bool_)
        split_merge.toss_data(key, shard.first, rows, bias, on_b)
        answers.append((None, *_put_aside(shard, model, rows[on_b], n_data)))
    return answers


def _put_aside(shard: Any, model: Any, rows: Integers, n_data: int) -> tuple[int, Floats]:
    shard.aside.clear()
    shard.aside["rows"] = rows
    return rows.size, sum_rows(model, shard.data, rows, n_data)


def weigh_sides(
    group: Group, n_data: int, key: Key, model: Any, of_a: int, of_b: int, sides: Sides
) -> list[Floats]:
    """Return the log probabilities of the sides that the data of two nodes are on."""
    answers = []
    for shard in group:
        rows = np.flatnonzero((shard.labels == of_a) | (shard.labels == of_b))
        on_b = shard.labels[rows] == of_b
        answers.append(
            split_merge.divide_data(
                key, model, shard.data, shard.first, rows, n_data, sides, on_b, GIVEN
            )
        )
    return answers


def take(
    group: Group, n_data: int, key: Key, model: Any, place: Integers, lead: Lead
) -> list[tuple[Floats, Integers, Floats]]:
    """Choose which data B takes, and put them aside with the places that they come from.

    Return the log probability and, of each place, the number of data and their statistics.
    """
    answers = []
    for shard in group:
        pool = _pool(shard, place, NULL)
        log_c = nearby.take_data(key, model, shard.data, shard.first, pool, n_data, lead, DRAWN)
        rows, back = pool.rows[pool.takes], pool.source[pool.takes]
        answers.append((np.array([log_c]), *_sum_aside(shard, model, rows, back, lead, n_data)))
    return answers


def _sum_aside(
    shard: Any, model: Any, rows: Integers, back: Integers, lead: Any, n_data: int
) -> tuple[Integers, Floats]:
    shard.aside.update(rows=rows, back=back)
    n_places = lead.prepared.shape[0] - isinstance(lead, Lead)
    counts, sums = insert.sum_by_place(model, shard.data, rows, back, n_places, n_data)
    return counts, sums


def _pool(shard: Any, place: Integers, label: int) -> Pool:
    """Return the data whose labels have a place, and those of B, which are put aside."""
    takes = shard.labels == label
    source = place[shard.labels]
    if label != NULL:
        source[shard.aside["rows"]] = shard.aside["back"]
    rows = np.flatnonzero(takes | (source != NULL))
    return Pool(rows, source[rows], takes[rows])


def weigh_back(group: Group, n_data: int, key: Key, model: Any, targets: Targets) -> list[Floats]:
    """Return the log probability that data put aside would go back to where they come from."""
    return [
        np.array([
            nearby.send_data(
                key, model, shard.data, shard.first, shard.aside["rows"], n_data, targets,
                shard.aside["back"], GIVEN,
            )
        ])
        for shard in group
    ]  # fmt: skip


def send(
    group: Group, n_data: int, key: Key, model: Any, label: int, targets: Targets
) -> list[tuple[Floats, Integers, Floats]]:
    """Choose where the data of B go; put them aside. Answers are those of :func:`take`."""
    answers = []
    for shard in group:
        rows = np.flatnonzero(shard.labels == label)
        back = np.empty_like(rows)
        log_g = nearby.send_data(
            key, model, shard.data, shard.first, rows, n_data, targets, back, DRAWN
        )
        answers.append((np.array([log_g]), *_sum_aside(shard, model, rows, back, targets, n_data)))
    return answers


def weigh_take(
    group: Group, n_data: int, key: Key, model: Any, place: Integers, label: int, lead: Lead
) -> list[Floats]:
    """Return the log probability that B would take the data that it has."""
    return [
        np.array([
            nearby.take_data(
                key, model, shard.data, shard.first, _pool(shard, place, label), n_data, lead,
                GIVEN,
            )
        ])
        for shard in group
    ]  # fmt: skip


# -- orders ----------------------------------------------------------------------------------------


def relabel_aside(group: Group, n_data: int, label: int) -> list[None]:
    """Give what is put aside a label."""
    for shard in group:
        shard.labels[shard.aside["rows"]] = label
    return [None] * len(group)


def relabel_back(group: Group, n_data: int, labels: Integers) -> list[None]:
    """Give what is put aside the labels of the places that it goes to."""
    for shard in group:
        shard.labels[shard.aside["rows"]] = labels[shard.aside["back"]]
    return [None] * len(group)


def rename(group: Group, n_data: int, old: int, new: int) -> list[None]:
    """Give all data of one label another one."""
    for shard in group:
        shard.labels[shard.labels == old] = new
    return [None] * len(group)


def set_labels(group: Group, n_data: int, own: Sequence[tuple[Integers, Integers]]) -> list[None]:
    """Give some data labels."""
    for shard, (rows, labels) in zip(group, own, strict=True):
        shard.labels[rows] = labels
    return [None] * len(group)
