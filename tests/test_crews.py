"""Shards on workers that come and go: nothing is lost, and nothing is done twice."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treestick.engine import keeping
from treestick.engine.crews import Crew, Lost, NoWorkers
from treestick.engine.keeping import Group, Making, Unknown, carry_out
from treestick.moves.shards import Op, Shard

N_DATA = 60


def make(group: Group, labels: Any) -> list[Shard]:
    """Make shards with labels that were committed."""
    return [Shard(start, list, labels[start:stop].copy(), {}, {}) for start, stop in group.tasks]


def multiply(group: Any, n_data: int, factor: int, own: Any) -> list[int]:
    """Change all labels, by other numbers in each shard; answer with their sums."""
    answers = []
    for shard, more in zip(group, own, strict=True):
        shard.labels[:] = (shard.labels * factor + more + shard.first) % 1009
        answers.append(int(shard.labels.sum()))
    return answers


def count(group: Any, n_data: int, times: int, own: Any) -> list[Any]:
    """Hand on a number that all labels so far have part in, and change them by it."""
    handed = own[0]
    for shard in group:
        handed = (handed * times + int(shard.labels.sum())) % 1013
        shard.labels[:] = (shard.labels + handed) % 1009
    return [*[None] * (len(group) - 1), handed]


def give(group: Any, n_data: int) -> list[Any]:
    return [shard.labels.copy() for shard in group]


class Fickle:
    """Workers in this process that vanish, and lose answers, as ``events`` say."""

    def __init__(self, names: list[str], events: Any) -> None:
        self.alive, self.events = names, events
        self.held: dict[str, dict[Any, Any]] = {name: {} for name in names}
        self.n_carried_out = 0

    def names(self) -> list[str]:
        return sorted(self.alive)

    def n_threads(self) -> int:
        return len(self.alive)

    def submit(self, worker: str, *told: Any) -> Any:
        return worker, told

    def result(self, submitted: Any) -> Any:
        worker, told = submitted
        event = next(self.events, None)
        if worker not in self.alive:
            raise Lost(worker)
        if event == "dies" and len(self.alive) > 1:
            self.alive.remove(worker)
            self.held[worker] = {}
            raise Lost(worker)
        if event == "returns":
            self.alive = sorted(self.held)
        keeping._kept.clear()
        keeping._kept.update(self.held[worker])
        answer = carry_out(*told)
        self.held[worker] = dict(keeping._kept)
        self.n_carried_out += 1
        if event == "silent":
            raise Lost(worker)
        return answer


def crew_of(workers: Fickle, safe: dict[str, Any], n_each: int) -> Crew:
    """Return a crew with some groups for each worker."""
    tasks = [(start, start + 5) for start in range(0, N_DATA, 5)]

    def groups(n_threads: int) -> list[Group]:
        size = -(-len(tasks) // max(n_each * n_threads, 1))
        parts = [tasks[k : k + size] for k in range(0, len(tasks), size)]
        return [Group("chain", k, len(parts), N_DATA, part) for k, part in enumerate(parts)]

    def making(group: Group) -> Making:
        return Making(safe["n_done"], make, safe["labels"])

    return Crew(workers, groups, making, patience=0.0)


def run(workers: Fickle, n_each: int, n_turns: int) -> tuple[Any, list[Any]]:
    """Return the labels in the end and all answers."""
    safe = {"n_done": 0, "labels": np.arange(N_DATA)}
    crew = crew_of(workers, safe, n_each)
    answers = []
    for turn in range(n_turns):
        own = [turn * k for k in range(12)]
        ops = [Op(multiply, (turn + 2,), own), Op(multiply, (3,), [n + 1 for n in own])]
        answers.append(crew.each(ops))
        answers.append([crew.along([ops[0], Op(count, (5,))], turn)])
        if turn % 3 == 2:
            safe["labels"] = np.concatenate(crew.each([Op(give, ())]))
            safe["n_done"] = crew.n_done
            crew.committed()
    return np.concatenate(crew.each([Op(give, ())])), answers


EVENTS = st.lists(st.sampled_from([None, None, "dies", "returns", "silent"]), max_size=60)


@given(EVENTS, st.integers(1, 5), st.integers(1, 4))
def test_workers_that_vanish_change_nothing(events: list[Any], n_each: int, n_workers: int) -> None:
    calm = Fickle(["a"], iter(()))
    expected = run(calm, 1, 8)
    fickle = Fickle([f"w{k}" for k in range(n_workers)], iter(events))
    found = run(fickle, n_each, 8)
    np.testing.assert_array_equal(found[0], expected[0])
    assert found[1] == expected[1]
    assert len(set(found[0])) > 20


@pytest.mark.parametrize("n_each", [1, 4])
def test_a_worker_that_joins_gets_something_to_do(n_each: int) -> None:
    workers = Fickle(["a"], iter(()))
    workers.held["b"] = {}
    safe = {"n_done": 0, "labels": np.arange(N_DATA)}
    crew = crew_of(workers, safe, n_each)
    crew.each([Op(give, ())])
    workers.alive.append("b")
    safe["n_done"] = crew.n_done
    crew.committed()
    np.testing.assert_array_equal(np.concatenate(crew.each([Op(give, ())])), np.arange(N_DATA))
    assert sum(len(kept.shards) for kept in workers.held["b"].values()) == 6


def test_a_worker_gets_groups_of_those_that_have_more() -> None:
    workers = Fickle(["a", "b"], iter(()))
    safe = {"n_done": 0, "labels": np.arange(N_DATA)}
    crew = crew_of(workers, safe, 2)
    workers.alive.remove("b")
    crew.each([Op(give, ())])
    workers.alive.append("b")
    safe["n_done"] = crew.n_done
    crew.committed()
    np.testing.assert_array_equal(np.concatenate(crew.each([Op(give, ())])), np.arange(N_DATA))
    assert len(workers.held["b"]) == 2


def test_no_worker_is_an_error_that_says_how_long() -> None:
    workers = Fickle([], iter(()))
    crew = crew_of(workers, {"n_done": 0, "labels": np.arange(N_DATA)}, 2)
    with pytest.raises(NoWorkers, match=r"no worker for 0 s.*resumed"):
        crew.each([Op(give, ())])


def test_a_group_that_is_not_known_has_to_be_made() -> None:
    group = Group("other chain", 0, 1, N_DATA, [(0, N_DATA)])
    assert isinstance(carry_out(group, 3, [Op(give, ())], None), Unknown)
    with pytest.raises(ValueError, match="labels as of 2"):
        carry_out(group, 3, [Op(give, ())], Making(2, make, np.arange(N_DATA)))
    carry_out(group, 3, [Op(give, ())], Making(3, make, np.arange(N_DATA)))
    assert not isinstance(carry_out(group, 4, [Op(give, ())], None), Unknown)
    keeping.forget("other chain")
    assert isinstance(carry_out(group, 5, [Op(give, ())], None), Unknown)


def test_what_fails_is_thrown_away() -> None:
    group = Group("failing", 0, 1, N_DATA, [(0, N_DATA)])
    carry_out(group, 0, [Op(give, ())], Making(0, make, np.arange(N_DATA)))
    with pytest.raises(TypeError):
        carry_out(group, 1, [Op(multiply, ())], None)
    assert isinstance(carry_out(group, 1, [Op(give, ())], None), Unknown)
