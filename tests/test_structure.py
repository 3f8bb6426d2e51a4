"""Structural moves leave the joint law of everything invariant, for all models.

The statistics and the alarm are those of ``test_moves.py``. A sharper test, for the Gaussian model
alone, and planted errors are in ``test_hastings.py``.
"""

import functools

import pytest

from joint import (
    N_DATA,
    BernoulliOracle,
    GaussianOracle,
    Move,
    MultinomialOracle,
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

ORACLES: dict[str, Oracle] = {
    "gaussian": GaussianOracle(),
    "bernoulli": BernoulliOracle(),
    "multinomial": MultinomialOracle(),
}
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


def check(name: str, model: str) -> None:
    moved = moved_sample(2, ORACLES[model], move_of(name), N_MOVED, name == "candidates")
    p, statistic = smallest(fresh(model), moved)
    assert p > ALARM, f"{statistic}: p = {p:.2g}"


@pytest.mark.parametrize("name", [*MOVES, "candidates"])
def test_move_leaves_the_joint_law_invariant(name: str) -> None:
    """With the other models too, all moves together are part of the sweep in ``test_moves.py``."""
    check(name, "gaussian")


@pytest.mark.long
@pytest.mark.parametrize("model", ["bernoulli", "multinomial"])
@pytest.mark.parametrize("name", [*MOVES, "candidates"])
def test_move_leaves_the_joint_law_of_other_models_invariant(name: str, model: str) -> None:
    check(name, model)


@pytest.mark.long
@pytest.mark.parametrize("model", ["gaussian", "bernoulli", "multinomial"])
def test_leaves_that_are_not_all_small_leave_the_joint_law_invariant(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = planted(
        "treestick.moves.structure.singles",
        "MOST_AT_LEAF = 32\n",
        "MOST_AT_LEAF = 1\n",
    )
    monkeypatch.setitem(MOVES, "leaf_singles", (module.move_singles, module.SMALL_LEAVES))
    for name in ("move_singles", "move_singles_by"):
        monkeypatch.setattr(f"treestick.moves.structure.plan.{name}", getattr(module, name))
    check("leaf_singles", model)
