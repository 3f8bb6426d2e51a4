"""Structural moves leave the joint law of everything invariant, and wrong Hastings terms show.

The statistics and the alarm are those of ``test_moves.py``.
"""

import functools

import pytest

from joint import (
    N_DATA,
    BernoulliOracle,
    GaussianOracle,
    Move,
    Oracle,
    Sample,
    fresh_sample,
    moved_sample,
    smallest,
)
from laws import ALARM
from planting import planted
from treestick.moves.candidates import move_candidates
from treestick.moves.structure.plan import MOVES, move_structure

ORACLES: dict[str, Oracle] = {"gaussian": GaussianOracle(), "bernoulli": BernoulliOracle()}
TASKS = [(0, 3), (3, N_DATA)]
N_MOVED = 1600
N_PROPOSALS = 8


@functools.cache
def fresh(model: str) -> Sample:
    return fresh_sample(1, ORACLES[model], 5000)


def move_of(name: str) -> Move:
    if name == "candidates":
        return lambda key, state, data: move_candidates(key, state, data, TASKS, 6, 0.02)[0]
    return lambda key, state, data: move_structure(key, state, data, {name: N_PROPOSALS})[0]


@pytest.mark.parametrize("model", ORACLES)
@pytest.mark.parametrize("name", [*MOVES, "candidates"])
def test_move_leaves_the_joint_law_invariant(name: str, model: str) -> None:
    moved = moved_sample(2, ORACLES[model], move_of(name), N_MOVED, name == "candidates")
    p, statistic = smallest(fresh(model), moved)
    assert p > ALARM, f"{statistic}: p = {p:.2g}"


ACCEPTS = (
    "if after - before + log_reverse - log_proposed > -exponential(stream):\n"
    "        return True\n"
    "    _absorb(hull, a, b)"
)
TOO_OFTEN = ACCEPTS.replace("if after", "if math.log(1.2) + after")
BUGS = {
    "splits accepted a fifth too often": (
        "smart_split",
        "split_merge",
        ACCEPTS,
        TOO_OFTEN,
    ),
    "plain splits accepted a fifth too often": (
        "smart_merge",
        "split_merge",
        ACCEPTS,
        TOO_OFTEN,
    ),
    "births accepted a fifth too often": (
        "gather",
        "gather",
        "log_reverse = -math.log(_count_leaves(hull))",
        "log_reverse = math.log(1.2) - math.log(_count_leaves(hull))",
    ),
    "nodes of their own a fifth too likely": (
        "singles",
        "singles",
        "log_p -= math.log1p(",
        "log_p += math.log(1.2) - math.log1p(",
    ),
    "deeper parents a fifth too likely": (
        "regraft",
        "regraft",
        "log_p[count] = along[row] + own[depth]",
        "log_p[count] = along[row] + own[depth] + math.log(1.2) * depth",
    ),
    "a swap that forgets what it is worth": (
        "swap",
        "swap",
        "if after - before > -exponential(stream):",
        "if after - before > -1.2 * exponential(stream):",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_is_caught(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, module, correct, wrong = BUGS[bug]
    buggy = planted(f"treestick.moves.structure.{module}", correct, wrong)
    move, kind = MOVES[name]
    monkeypatch.setitem(MOVES, name, (getattr(buggy, move.__name__), kind))
    moved = moved_sample(
        3,
        ORACLES["gaussian"],
        lambda key, state, data: move_structure(key, state, data, {name: 30})[0],
        12000,
        False,
    )
    p, statistic = smallest(fresh_many(), moved)
    assert p < ALARM, f"not caught: {statistic}: p = {p:.2g}"


@functools.cache
def fresh_many() -> Sample:
    return fresh_sample(5, ORACLES["gaussian"], 30000, with_sticks=False)
