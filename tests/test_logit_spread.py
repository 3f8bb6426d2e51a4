"""The move on diffusions and logits of small nodes leaves the joint law invariant.

Statistics and alarm are those of ``test_moves.py``, where it is part of the model's move. Here it
is alone, and the limit of what is small is set so that data decide which nodes move along.
"""

import functools
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from joint import BernoulliOracle, Move, Sample, draw_joint, fresh_sample, moved_sample, smallest
from laws import ALARM
from planting import planted
from treestick._jit import compiled
from treestick.diffusions import logit_spread
from treestick.moves.state import State
from treestick.packs import load, store

LIMIT = "MOST_IN_SMALL = 8\n"
LOGS_OFTEN = "MOST_FACTORS = 2\n"
"""Logarithms of products are taken after three factors or more; as a rule after a thousand."""


@functools.cache
def fresh() -> Sample:
    return fresh_sample(1, BernoulliOracle(), 5000)


def move_of(module: ModuleType) -> Move:
    def move(key: Any, state: State, data: Any) -> State:
        theta = state.theta.copy()
        model = state.model._replace(diffusion=state.model.diffusion.copy())
        module.spread_move(key, model, state.table, state.statistics, theta)
        return state._replace(theta=theta, model=model)

    return move


def p_of(module: ModuleType, n: int) -> tuple[float, str]:
    return smallest(fresh(), moved_sample(2, BernoulliOracle(), move_of(module), n, True))


@pytest.mark.parametrize("most", [0, 1, 8])
def test_move_leaves_the_joint_law_invariant(most: int) -> None:
    module = logit_spread
    if most != logit_spread.MOST_IN_SMALL:
        module = planted(module.__name__, LIMIT, f"MOST_IN_SMALL = {most}\n")
    p, statistic = p_of(module, 1600)
    assert p > ALARM, f"{statistic}: p = {p:.2g}"


BUGS = {
    "a prior that is uniform in the logarithm": (
        "    result = candidate\n",
        "    result = 0.0 * candidate\n",
    ),
    "steps of small nodes counted twice": (
        "            store(places[node], 0, place)\n            n_here",
        "            result = result - 0.5 * candidate\n"
        "            store(places[node], 0, place)\n            n_here",
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_is_caught(bug: str) -> None:
    p, _ = p_of(planted(logit_spread.__name__, *BUGS[bug]), 4000)
    assert p < ALARM


@compiled
def write_targets(
    log_target: Any, table: Any, sums: Any, is_small: Any, places: Any, steps: Any,
    now: Any, new: Any, found: Any,
) -> None:  # fmt: skip
    """Write the target at two diffusions; packs exist in compiled code only."""
    at = load(now, 0, 0.0)
    store(found[0], 0, log_target(table, sums, is_small, places, steps, at, at))
    there = load(new, 0, 0.0)
    store(found[1], 0, log_target(table, sums, is_small, places, steps, at, there))


def test_target_is_the_joint_density() -> None:
    """With all diffusions multiplied by r: its change, and that of the variables, for small S."""
    oracle = BernoulliOracle()
    often = planted(logit_spread.__name__, "MOST_FACTORS = 1000 - MOST_IN_SMALL\n", LOGS_OFTEN)
    for seed in range(5):
        state, _ = draw_joint(np.random.default_rng(seed), oracle)
        change = change_of_target(logit_spread, state, 1.7)
        np.testing.assert_allclose(change, change_of_joint(state, 1.7), rtol=1e-10, atol=1e-10)
        same = change_of_target(often, state, 1.7)
        np.testing.assert_allclose(same, change, rtol=1e-10, atol=1e-10)
        forgetful = planted(
            logit_spread.__name__, "            if n_here > 0:\n", "            if n_here > 1:\n"
        )
        wrong = change_of_target(forgetful, state, 1.7)
        assert np.all(np.abs(wrong - change) > 1e-3)  # all five trees have such nodes


def change_of_target(module: ModuleType, state: State, ratio: float) -> Any:
    n_nodes, n_dimensions = state.theta.shape
    is_small = np.arange(n_nodes) > 0
    steps = np.zeros((n_nodes, 8))
    places = np.zeros((n_nodes, 8))
    places[:, :n_dimensions] = state.theta
    sums = np.zeros((n_nodes, 8))
    sums[:, :n_dimensions] = state.statistics
    steps[1:] = places[1:] - places[state.table.parent[1:n_nodes]]
    now, new = np.zeros(8), np.zeros(8)
    now[:n_dimensions] = np.log(state.model.diffusion)
    new[:] = now + np.log(ratio)
    found = np.empty((2, 8))
    write_targets(module._log_target, state.table, sums, is_small, places, steps, now, new, found)
    return (found[1] - found[0])[:n_dimensions]


def change_of_joint(state: State, ratio: float) -> Any:
    """Return the change of log p(diffusion, theta, data), and of the Jacobians, by dimension."""
    parent, n_nodes = state.table.parent[: state.n_nodes], state.n_nodes
    other = state.theta.copy()
    for node in range(1, n_nodes):
        step = state.theta[node] - state.theta[parent[node]]
        other[node] = other[parent[node]] + np.sqrt(ratio) * step
    total = np.log(ratio) + 0.5 * (n_nodes - 1) * np.log(ratio)
    for theta, variance, sign in (
        (other, ratio * state.model.diffusion, 1.0),
        (state.theta, state.model.diffusion, -1.0),
    ):
        for node in range(n_nodes):
            log_p = state.statistics[node] * theta[node]
            log_p = log_p - state.table.n_here[node] * np.logaddexp(0.0, theta[node])
            if node > 0:
                away = theta[node] - theta[parent[node]]
                log_p = log_p - 0.5 * np.log(variance) - 0.5 * away**2 / variance
            total = total + sign * log_p
    return total
