"""Simulation-based calibration of the default schedule, from the cold start (Talts et al. 2018).

Hyperparameters, tree, parameters and data are drawn from the prior by the oracles of ``joint.py``.
A chain that knows the data alone starts with all of them at the root and hyperparameters drawn
anew, and is run as users run it: step sizes adapt during the burn-in, draws are thinned. Among its
draws, the true value of any statistic has a rank that is uniform. Chains that are wrong are found
out, and so are chains that have not converged.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from franchise import HdpOracle
from joint import (
    BernoulliOracle,
    GaussianOracle,
    MultinomialOracle,
    Oracle,
    Rng,
    draw_joint,
    draw_sticks_parameters,
)
from laws import ALARM, p_law
from topic_oracles import BETA, TopicsOracle, UnboundedOracle
from treestick.chain import run_chain, scores
from treestick.estimators.draws import inferred
from treestick.estimators.topics import FIRST_TOPICS
from treestick.models.bernoulli import FIRST_STEP, Bernoulli
from treestick.models.gaussian import Gaussian
from treestick.models.multinomial import Multinomial
from treestick.moves.state import State
from treestick.moves.topics import TopicMoves
from treestick.random import make_key
from treestick.start import check_start, first_state
from treestick.tokens.gibbs import COLLAPSED
from treestick.tokens.latent import first_topics

ORACLES: dict[str, Oracle] = {
    "gaussian": GaussianOracle(n_dimensions=3),
    "bernoulli": BernoulliOracle(n_dimensions=6),
    "multinomial": MultinomialOracle(),
    "measures": HdpOracle(),
    "measures on counts": HdpOracle(persistence=(1.0, 1.0), counts=True),
    "topics": TopicsOracle(),
    "unbounded topics": UnboundedOracle(),
}
TOPICS = TopicMoves(COLLAPSED, False, 1)
LDA_SWEEPS = 5
"""How long topics see no tree."""
N_DATA = 15
BURN_IN, EVERY, N_DRAWS = 50, 4, 31
"""Chosen by doubling: with 100 and 8, p-values of the Gaussian model are as good (the smallest of
eleven is 0.03, here 0.04). With 10 and 1, four of them are below ``ALARM``: draws are too much
alike, and the truth is too often at either end."""
N_TRUTHS, N_TRUTHS_OF_BUGS = 800, 400
LENGTHS = {"unbounded topics": (400, 16, 400)}
"""Burn-in, distance of draws and number of truths where they are others. Unbounded topics take
longer to forget their start: over 100 chains, the number of nodes is 4.8 below the truth's in the
first 20 sweeps, 1.9 up to sweep 50 and 0.1 up to 170, then 0.3 and 0.6 above it, with a standard
error of 0.6."""
N_CELLS = 8
"""The 32 ranks in groups of four."""


def describe(state: State) -> dict[str, float]:
    """Return numbers that do not depend on labels."""
    where, parent = state.assignments, state.table.parent
    above = [set[int](), set[int]()]
    for n in range(2):
        node = int(where[n])
        while node != -1:
            above[n].add(node)
            node = int(parent[node])
    is_same = where[0] == where[1]
    model = state.model
    result = {
        "nodes": state.n_nodes,
        "depth": float(state.table.depth[where].mean()),
        "joint": scores(state).joint,
        "same": float(is_same),
        "above": float(not is_same and (int(where[0]) in above[1] or int(where[1]) in above[0])),
        "alpha0": state.sticks.alpha0,
        "decay": state.sticks.decay,
        "gamma": state.sticks.gamma,
    }
    for name in inferred(model):
        result[name] = float(np.mean(getattr(model, name)))
    return result | ({} if state.latent is None else state.latent.scalars)


def cold_start(rng: Rng, oracle: Oracle, seed: int, number: int, data: Any) -> State:
    model = oracle.draw_model(rng)
    if isinstance(model, Bernoulli):
        model = model._replace(step=FIRST_STEP)
    latent = None
    if isinstance(oracle, TopicsOracle):
        beta = (float(rng.uniform(*BETA)), *BETA)
        is_measure = isinstance(oracle, UnboundedOracle)
        n_topics = FIRST_TOPICS if is_measure else oracle.n_topics
        latent = first_topics(seed, number, data, n_topics, beta, LDA_SWEEPS, COLLAPSED, is_measure)
        model = model._replace(n_outcomes=latent.n_topics + is_measure)
    sticks = draw_sticks_parameters(rng)
    start = check_start("root", N_DATA)
    return first_state(make_key(seed, number), model, sticks, data, start, latent)


def ranks(
    seed: int,
    model: str,
    n: int,
    truth: Oracle | None = None,
    burn_in: int = BURN_IN,
    every: int = EVERY,
) -> dict[str, npt.NDArray[np.int64]]:
    """Return the rank of each statistic's true value among the draws, ties broken at random.

    ``truth`` draws the data, if not the model itself.
    """
    rng = np.random.default_rng(seed)
    found: list[dict[str, int]] = []
    for number in range(n):
        true, data = draw_joint(rng, truth or ORACLES[model], N_DATA)
        oracle = ORACLES[model]
        chain = run_chain(
            seed, number, cold_start(rng, oracle, seed, number, data), data, burn_in,
            topics=TOPICS if isinstance(oracle, TopicsOracle) else None,
        )  # fmt: skip
        draws = []
        for swept in chain:
            if swept.sweep > burn_in and (swept.sweep - burn_in) % every == 0:
                draws.append(describe(swept.state))
                if len(draws) == N_DRAWS:
                    break
        of_truth = describe(true)
        rank = {}
        for name, value in of_truth.items():
            values = np.array([draw[name] for draw in draws])
            n_tied = int(np.sum(values == value))
            rank[name] = int(np.sum(values < value)) + int(rng.integers(n_tied + 1))
        found.append(rank)
    return {name: np.array([rank[name] for rank in found]) for name in found[0]}


def p_values(found: dict[str, npt.NDArray[np.int64]]) -> dict[str, float]:
    law = dict.fromkeys(range(N_CELLS), 1.0 / N_CELLS)
    return {name: p_law(rank * N_CELLS // (N_DRAWS + 1), law) for name, rank in found.items()}


def smallest(found: dict[str, npt.NDArray[np.int64]]) -> tuple[float, str]:
    return min((p, name) for name, p in p_values(found).items())


@pytest.mark.long
@pytest.mark.parametrize("model", ORACLES)
def test_ranks_of_the_truth_are_uniform(model: str) -> None:
    burn_in, every, n_truths = LENGTHS.get(model, (BURN_IN, EVERY, N_TRUTHS))
    p, statistic = smallest(ranks(1, model, n_truths, burn_in=burn_in, every=every))
    assert p > ALARM, f"{statistic}: p = {p:.2g}"


class AFifthOfTheConcentration(MultinomialOracle):
    """Children are further from their parents than the model says.

    By a good deal: rows of four tokens or fewer say little. With half, the smallest p is 7e-4.
    """

    def draw_child(self, rng: Rng, model: Multinomial, parent: Any) -> Any:
        wrong = model._replace(concentration=0.2 * model.concentration)
        return super().draw_child(rng, wrong, parent)


@pytest.mark.long
def test_a_wrong_concentration_is_caught() -> None:
    p, statistic = smallest(ranks(2, "multinomial", N_TRUTHS_OF_BUGS, AFifthOfTheConcentration()))
    assert p < ALARM, f"not caught: {statistic}: p = {p:.2g}"


class TwiceTheDiffusion(GaussianOracle):
    """Children are further from their parents than the model says."""

    def draw_child(self, rng: Rng, model: Gaussian, parent: Any) -> Any:
        return super().draw_child(rng, model._replace(diffusion=2.0 * model.diffusion), parent)


@pytest.mark.long
def test_a_wrong_diffusion_is_caught() -> None:
    truth = TwiceTheDiffusion(n_dimensions=3)
    p, statistic = smallest(ranks(2, "gaussian", N_TRUTHS_OF_BUGS, truth))
    assert p < ALARM, f"not caught: {statistic}: p = {p:.2g}"


@pytest.mark.long
def test_a_chain_that_has_not_converged_is_caught() -> None:
    p, statistic = smallest(ranks(3, "gaussian", N_TRUTHS, burn_in=0, every=1))
    assert p < ALARM, f"not caught: {statistic}: p = {p:.2g}"
