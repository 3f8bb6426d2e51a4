"""Structural proposals where data are elsewhere, tried many at once: no bit changes by it.

This runs uncompiled, on few data, as most of ``test_shards.py`` does.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from test_crews import Fickle
from test_shards import check_equal, in_shards
from treestick import chain
from treestick.engine.crews import Crew, Lost
from treestick.engine.keeping import Group, Making
from treestick.moves.rows import take_rows
from treestick.moves.shards import Shard, cut_rows
from treestick.moves.structure import elsewhere
from treestick.moves.structure.elsewhere import Asking
from treestick.moves.structure.questions import answer_all
from treestick.moves.structure.trials import Trial
from treestick.whereabouts import Elsewhere

N_DATA = 60
PLAN = {
    "smart_split": 10, "smart_merge": 10, "regraft": 2, "insert": 10, "swap": 1, "singles": 8,
    "leaf_singles": 8,
}  # fmt: skip
"""Between proposals that ask are some that do not."""
N_PROPOSALS = 30


def patch(owner: Any, name: str, new: Callable[..., Any]) -> None:
    """Have a method call ``new`` with what it was before, and its own arguments."""
    old = getattr(owner, name)
    setattr(owner, name, lambda *given: new(old, *given))


def count_events() -> Counter[str]:
    """Return a counter of what happens from now on."""
    counted: Counter[str] = Counter()

    def note(event: str, old: Any, *given: Any) -> Any:
        counted[event] += 1
        return old(*given)

    def accept(old: Any, *given: Any) -> None:
        counted["accepted"] += 1
        counted["accepted by what was known"] += counted["messages"] == counted["messages then"]
        counted["messages then"] = counted["messages"]
        old(*given)

    def ask(old: Any, asking: Any, wanted: Any) -> None:
        counted["messages"] += 1
        at = asking.setting.at.sum(axis=0)
        n_rows = sum(at[list(one.question.labels)].sum() for one in wanted if one.name)
        counted["rows at once"] = max(counted["rows at once"], int(n_rows))
        old(asking, wanted)

    patch(Trial, "__init__", partial(note, "begun"))
    patch(Asking, "_accept", accept)
    patch(Asking, "_ask", ask)
    return counted


def tried(kind: str, n_groups: int, n_sweeps: int, what: str) -> Counter[str]:
    """Compare a chain over shards with one in one place, with many proposals; count."""
    chain.plan_for = lambda n_data, adapting, sweep: dict(PLAN)
    if what == "one by one":
        elsewhere.FEWEST_AHEAD = elsewhere.MOST_AHEAD = 1
    if what in ("not foreseen", "not checked"):
        patch(Trial, "_expect", lambda old, *given: None)
    if what == "not checked":
        patch(Trial, "begins_with", lambda old, *given: True)
    if what == "never forgotten":
        patch(Asking, "_accept", lambda old, self, accepted: old(self, deaf(accepted)))
    counted = count_events()

    def put(data: Any, labels: Any, n_groups: int) -> Elsewhere:
        if what == "killed":
            return on_fickle_workers(data, labels, n_groups, counted)
        where = in_shards(data, labels, n_groups)
        where.n_ahead = 1 if what == "one by one" else where.n_ahead
        patch(where, "_each", lambda old, ops: counted.update(["asked"]) or old(ops))
        return where

    check_equal(kind, "default", n_groups, N_DATA, n_sweeps, put)
    return counted


def deaf(accepted: Any) -> Any:
    """Return something accepted of which nobody hears whose data it has moved."""

    class Quiet(np.ndarray):
        def tolist(self) -> Any:
            return []

    return accepted._replace(labels=accepted.labels.view(Quiet))


def on_fickle_workers(data: Any, labels: Any, n_groups: int, counted: Counter[str]) -> Elsewhere:
    """Return shards on workers that vanish, or lose an answer, now and then."""

    def events() -> Iterator[str | None]:
        rng = np.random.default_rng(4)
        while True:
            yield rng.choice(["dies", "returns", "silent"]) if rng.random() < 0.1 else None

    class Counting(Fickle):
        def result(self, submitted: Any) -> Any:
            last = submitted[1][2][-1]
            try:
                return super().result(submitted)
            except Lost:
                is_large = last.function is answer_all and len(last.arguments[1]) > 4
                counted["lost while many were tried"] += is_large
                raise

    def make(group: Group, how: None) -> list[Shard]:
        return [
            Shard(a, partial(take_rows, data, np.arange(a, b)), labels[a:b].copy(), {}, {})
            for a, b in group.tasks
        ]

    def groups(n_threads: int) -> list[Group]:
        tasks = cut_rows(N_DATA, n_groups)
        parts = np.array_split(np.arange(len(tasks)), n_groups)
        return [
            Group("chain", k, n_groups, N_DATA, [tasks[number] for number in part])
            for k, part in enumerate(parts)
        ]

    workers = Counting(["a", "b", "c"], events())
    crew = Crew(workers, groups, lambda group: Making(0, make, None), patience=0.0)
    return Elsewhere(N_DATA, crew.each, crew.along)


SCRIPT = """
import json, sys
sys.path.insert(0, {tests!r})
from test_trials import tried
print(json.dumps(tried({kind!r}, {n_groups}, {n_sweeps}, {what!r})))
"""


def run(what: str, kind: str, n_sweeps: int, n_groups: int = 3) -> Any:
    """Do it in a process without compiled code; return what was counted, or the error."""
    script = SCRIPT.format(
        tests=os.path.dirname(__file__), what=what, kind=kind, n_groups=n_groups,
        n_sweeps=n_sweeps,
    )  # fmt: skip
    finished = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return finished.stderr if finished.returncode else json.loads(finished.stdout)


def test_trying_many_at_once_changes_no_bit() -> None:
    """Where proposals are accepted while others behind them are being tried."""
    counted = run("as it is", "multinomial", 8)
    assert counted["accepted"] >= 20
    assert counted["begun"] > 8 * N_PROPOSALS + 50
    assert counted["accepted by what was known"] >= 1
    assert N_DATA < counted["rows at once"] <= (elsewhere.MOST_LOOKS + 1) * N_DATA


def test_few_messages_are_sent() -> None:
    many, one = (run(what, "gaussian", 12) for what in ("as it is", "one by one"))
    assert many["accepted"] == one["accepted"] > 0
    assert one["begun"] == 12 * N_PROPOSALS
    for_singles = 2 * 12  # they ask for themselves, in either way
    assert one["messages"] - for_singles > 3.5 * (many["messages"] - for_singles)
    # Besides, three in a sweep, one that the test asks itself, and one for the first state.
    assert many["asked"] - many["messages"] == 4 * 12 + 1


def test_orders_that_are_not_foreseen_change_no_bit() -> None:
    seen, unseen = (run(what, "bernoulli", 4) for what in ("as it is", "not foreseen"))
    assert unseen["accepted"] == seen["accepted"] > 0
    assert unseen["begun"] > seen["begun"] + 30


def test_what_is_not_checked_is_noticed() -> None:
    assert "AssertionError" in run("not checked", "bernoulli", 12)
    assert "Error" in run("never forgotten", "multinomial", 8)  # where most are accepted


def test_workers_that_vanish_while_many_are_tried_change_no_bit() -> None:
    counted = run("killed", "bernoulli", 6)
    assert counted["accepted"] > 5
    assert counted["lost while many were tried"] >= 3
