"""Structural moves where the data are elsewhere, in shards.

The hull is here, without labels; what a proposal needs of the data it asks for: a few rows for a
launch, and what all data of some nodes add up to once each has decided by itself. A message to all
shards takes about as long as what most proposals ask, and most of them fail. So many are tried at
once, each as if all before it had failed (:mod:`treestick.moves.structure.trials`), and what they
ask goes out together. The tree comes out the same, bit for bit, as if there had been one after the
other: the end of a trial counts only when all before it have failed, and have left the nodes in the
order that it began with. Else it is begun again, and gets answers that hold without asking.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from treestick.moves.rows import join_rows
from treestick.moves.shards import Shards, renumber
from treestick.moves.state import Integers, State
from treestick.moves.structure import insert, singles, split_merge
from treestick.moves.structure import questions as about
from treestick.moves.structure.chosen import choose_singles
from treestick.moves.structure.hull import DATA, FREE, loosen, settle_nodes, with_room
from treestick.moves.structure.plan import MOVES, n_rows_for, room_for
from treestick.moves.structure.questions import Answer, Question
from treestick.moves.structure.trials import Accepted, Proposal, Setting, Told, Trial
from treestick.random import Key
from treestick.tree.table import NULL

FEWEST_AHEAD, MOST_AHEAD = 4, 32
"""Proposals that are tried at once: the more, the fewer of them have been accepted."""
MOST_LOOKS = 4
"""How often all of them together look at all data, or little more: what is done for those behind
one that is accepted is mostly in vain, and shards keep what they have chosen."""


def move_structure(
    key: Key, state: State, shards: Shards, plan: Mapping[str, int]
) -> tuple[State, dict[str, tuple[int, ...]]]:
    """Do what :func:`treestick.moves.structure.plan.move_structure` does."""
    asking = Asking(key, state, shards, plan)
    todo: list[Proposal] = []
    first = 0
    for name, n in plan.items():
        move, kind = MOVES[name]
        is_insert = move is insert.move_insert
        if is_insert or move is split_merge.move_split_merge:
            todo += [Proposal(name, is_insert, kind, first + k) for k in range(n)]
        else:
            asking.try_all(todo)
            todo = []
            asking.move(name, first, n)
        first += n
    asking.try_all(todo)
    return asking.settle(state), {name: asking.counts[name] for name in plan}


class Known(NamedTuple):
    """An answer, and the labels of the data that it holds for."""

    told: Told
    labels: frozenset[int]


class Wanted(NamedTuple):
    """A question, with the key of who asks, and where and under what name the answer is noted."""

    question: Question
    key: Key
    known: dict[bytes, Known]
    name: bytes


class Asking:
    """A hull, and how many data of each label every shard has."""

    def __init__(self, key: Key, state: State, shards: Shards, plan: Mapping[str, int]) -> None:
        self.shards = shards
        hull = loosen(state, room_for(plan))
        hull.counts[DATA] = shards.n_data
        described = shards.describe()
        self.first = np.array([one.first for one in described])
        at = np.zeros((len(described), hull.nodes.size), dtype=np.int64)
        for own, one in zip(at, described, strict=True):
            own[: one.counts.size] = one.counts
        self.setting = Setting(key, state.model, state.sticks, hull, at, described[0].nothing)
        self.counts: dict[str, tuple[int, ...]] = dict.fromkeys(plan, (0,))
        self._known: dict[int, dict[bytes, Known]] = {}
        self._n_asked = 0
        self._over: list[int] = []
        self._n_failed = 0

    def settle(self, state: State) -> State:
        """Return the state, and tell the shards its rows."""
        settled, new_label = settle_nodes(self.setting.hull, state)
        self._clear_away()
        self.shards.order(renumber, new_label)
        return settled

    def move(self, name: str, first: int, n: int) -> None:
        """Make ``n`` proposals of one kind that needs no data, or single ones."""
        move, kind = MOVES[name]
        done = 0
        while done < n:
            self._make_room(name, n - done)
            if move is singles.move_singles:
                counted = self._move_singles(kind, first + done, n - done)
            else:
                key, model, sticks, hull, _, nothing = self.setting
                counted = move(key, model, nothing, sticks, hull, kind, first + done, n - done)
            done += int(counted[0])
            self._count(name, counted)

    def _count(self, name: str, counted: Iterable[int]) -> None:
        new = tuple(int(n) for n in counted)
        before = self.counts[name] + (0,) * (len(new) - len(self.counts[name]))
        self.counts[name] = tuple(n + m for n, m in zip(before, new, strict=True))

    def _make_room(self, name: str, n: int) -> None:
        hull, at = self.setting.hull, self.setting.at
        if hull.counts[FREE] < n_rows_for(name, n):
            n_more = max(n_rows_for(name, n), hull.nodes.size)
            hull, at = with_room(hull, n_more), np.pad(at, ((0, 0), (0, n_more)))
            self.setting = self.setting._replace(hull=hull, at=at)

    # -- proposals that are tried ------------------------------------------------------------------

    def try_all(self, todo: Sequence[Proposal]) -> None:
        """Make proposals, in this order."""
        trials: dict[int, Trial] = {}
        while todo:
            self._make_room(todo[0].name, 1)
            self._go_on(trials, todo)
            while todo and self._has_ended(trials.get(todo[0].number)):
                trial = trials.pop(todo[0].number)
                todo = todo[1:]
                self._end(trial)
                if trial.accepted is not None:
                    trials.clear()

    def _has_ended(self, trial: Trial | None) -> bool:
        if trial is None or trial.question is not None:
            return False
        return trial.begins_with(self.setting.hull.nodes)

    def _go_on(self, trials: dict[int, Trial], todo: Sequence[Proposal]) -> None:
        """Let trials come as far as what is known lets them, and ask what they want to know."""
        nodes, n_ahead = self.setting.hull.nodes, self.shards.n_ahead
        wanted: list[Wanted] = []
        n_rows = 0
        for proposal in todo[:n_ahead]:
            if n_rows > MOST_LOOKS * self.shards.n_data:
                break
            trial = trials.get(proposal.number)
            if trial is None or not trial.begins_with(nodes):
                trial = trials[proposal.number] = Trial(self.setting, proposal, nodes)
            known = self._known.setdefault(proposal.number, {})
            while trial.question is not None:
                if trial.name not in known:
                    wanted.append(Wanted(trial.question, trial.key, known, trial.name))
                    break
                trial.go_on(known[trial.name].told)
            if trial.accepted is not None:
                break
            nodes = trial.then
            n_rows += trial.n_rows
        if wanted:
            self._ask(wanted)

    def _end(self, trial: Trial) -> None:
        """Make the hull what a trial has made of it."""
        accepted, name = trial.accepted, trial.proposal.name
        known = self._known.pop(trial.proposal.number, {})
        if accepted is None:
            hull = self.setting.hull._replace(nodes=trial.then)
            self.setting = self.setting._replace(hull=hull)
            self._count(name, (1, 0, 0))
            self._n_failed += 1
            if self._n_failed >= self.shards.n_ahead:
                self._n_failed = 0
                self.shards.n_ahead = min(2 * self.shards.n_ahead, MOST_AHEAD)
        else:
            self._accept(accepted)
            self._count(name, (1, 0, 1) if accepted.is_back else (1, 1, 0))
            self._n_failed = 0
            self.shards.n_ahead = max(self.shards.n_ahead // 2, FEWEST_AHEAD)
        self._over += [one.told.ticket for one in known.values()]

    def _accept(self, accepted: Accepted) -> None:
        hull = accepted.hull
        hull.theta[accepted.rows] = accepted.theta
        hull.statistics[accepted.rows] = accepted.statistics
        self.setting.at[:, accepted.labels] += accepted.change
        self.setting = self.setting._replace(hull=hull)
        self.shards.order(accepted.order.function, *accepted.order.arguments)
        changed = set(accepted.labels.tolist())
        for known in self._known.values():
            names = [name for name, one in known.items() if changed & one.labels]
            self._over += [known.pop(name).told.ticket for name in names]

    def _ask(self, wanted: Sequence[Wanted]) -> None:
        """Ask questions in one message, and note the answers."""
        self._clear_away()
        asked = []
        for question, key, _, _ in wanted:
            self._n_asked += 1
            asked.append((question.function, self._n_asked, key, question.arguments))
        none = [None] * len(self.first)
        own = zip(*(one.question.own or none for one in wanted), strict=True)
        answers = self.shards.ask(about.answer_all, self.setting.model, asked, own=list(own))
        for k, one in enumerate(wanted):
            pieces: list[Answer] = [of_shard[k] for of_shard in answers]
            vectors = zip(*(piece.sums for piece in pieces), strict=True)
            sums = tuple(self.shards.add(each) for each in vectors)
            told = Told(asked[k][1], Answer([piece.own for piece in pieces], sums))
            one.known[one.name] = Known(told, frozenset(map(int, one.question.labels)))

    def _clear_away(self) -> None:
        """Let shards forget what was put aside for trials that are over."""
        if self._over:
            self.shards.order(about.forget, self._over)
            self._over = []

    # -- single data -------------------------------------------------------------------------------

    def _move_singles(self, kind: int, first: int, n: int) -> Integers:
        key, model, sticks, hull, at, _ = self.setting
        shard, wanted = self._find_chosen(choose_singles(key, first, n, hull))
        known: dict[bytes, Known] = {}
        n_labels = hull.nodes.size
        question = Question(about.fetch_chosen, (n_labels,), range(n_labels), wanted)
        self._ask([Wanted(question, key, known, b"")])
        pieces = known[b""].told.answer.own
        slots, n_before = np.empty(n, dtype=np.int64), 0
        for k, (_, _, rows, which) in enumerate(pieces):
            slots[shard == k] = n_before + which
            n_before += rows.size
        data = join_rows([rows for rows, _, _, _ in pieces])
        before = np.concatenate([labels for _, labels, _, _ in pieces])
        small = hull._replace(labels=before.astype(np.int32))
        counts = singles.move_chosen(key, model, data, sticks, small, kind, first, slots)
        after = small.labels.astype(np.int64)
        own, n_before = [], 0
        for k, (_, _, rows, _) in enumerate(pieces):
            piece = slice(n_before, n_before + rows.size)
            np.subtract.at(at[k], before[piece], 1)
            np.add.at(at[k], after[piece], 1)
            own.append((rows, after[piece]))
            n_before += rows.size
        self.shards.order(about.set_labels, own=own)
        return counts

    def _find_chosen(self, chosen: Integers) -> tuple[Integers, list[Integers]]:
        """Return which shard has each datum that was chosen, and what each shard is asked for."""
        label, place = chosen.T
        ends = np.cumsum(self.setting.at, axis=0)
        by_node = np.sum(ends[:, label] <= place, axis=0)
        by_number = np.searchsorted(self.first, place, side="right") - 1
        shard: Integers = np.where(label == NULL, by_number, by_node)
        before = np.where(label == NULL, self.first[shard], (ends - self.setting.at)[shard, label])
        wanted = np.column_stack([label, place - before])
        return shard, [wanted[shard == k] for k in range(self.first.size)]
