"""Draws that claim to be exact: polygons, a logit given one bit, chains of nodes given a datum.

Fewer than 110 comparisons of laws at ``ALARM`` each, with fixed seeds (see ``laws.py``).
"""

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import integrate, stats
from scipy.special import log_expit

from laws import ALARM, p_mean
from test_models import (
    bernoulli_model,
    gaussian_model,
    p_of_density,
    p_white,
    packed,
    prepared_row,
)
from treestick import contract
from treestick._jit import compiled
from treestick.diffusions import loglinear
from treestick.diffusions.logistic import draw_given_bit
from treestick.models.gaussian import Reals
from treestick.packs import WIDTH, load, store
from treestick.random import make_key, open_stream

Floats = npt.NDArray[np.float64]


# -- polygons --------------------------------------------------------------------------------------


@compiled
def draw_many(stream: Any, polygon: Floats, x: Floats, log_densities: Floats) -> None:
    for k in range(x.shape[0]):
        drawn, log_density = loglinear.draw(stream, polygon)
        store(x[k], 0, drawn)
        store(log_densities[k], 0, log_density)


@compiled
def densities_at(polygon: Floats, x: Floats, log_densities: Floats) -> None:
    for k in range(x.shape[0]):
        store(log_densities[k], 0, loglinear.log_density(polygon, load(x[k], 0, 0.0)))


@pytest.mark.parametrize(
    ("places", "values", "slopes"),
    [
        ([-3.0, -1.0, 0.0, 1.0, 3.0], [-4.5, -0.5, 0.0, -0.5, -4.5], [3.0, 1.0, 0.0, -1.0, -3.0]),
        ([0.0, 1.0, 2.0], [7.0, 7.0, 7.0], [1.0, 0.0, -2.0]),  # flat
        ([-1.0, 0.0, 5.0, 9.0, 9.5], [-9.0, -1e-9, 0.0, 1e-5, -50.0], [9.0, 0.0, 0.0, 0.0, -300.0]),
        ([4.0, 5.0, 6.0], [0.0, 0.5, 1.0], [0.5, 0.5, 0.5]),  # rises; tails fall in any case
    ],
)
def test_a_polygon_is_drawn_from_and_has_its_density(
    places: list[float], values: list[float], slopes: list[float]
) -> None:
    """Eight at once, which differ in where they are and in how wide."""
    lanes = np.arange(WIDTH)
    start, scale = 10.0 * lanes, 1.0 + lanes
    curve = np.array([
        start + scale * np.array(places)[:, np.newaxis],
        np.outer(values, np.ones(WIDTH)),
        np.outer(slopes, 1.0 / scale),
    ])  # fmt: skip
    polygon = loglinear.make_polygon(len(places))
    loglinear.fill_polygon(curve, polygon)
    corners = polygon[loglinear.CORNERS, :-1, 0]
    assert np.all(np.diff(corners) > 0.0)
    tails = 40.0 / polygon[loglinear.TAILS, :2, 0]
    edges = [corners[0] - tails[0], *corners, corners[-1] + tails[1]]
    grid = np.unique(
        np.concatenate([np.linspace(a, b, 4001) for a, b in itertools.pairwise(edges)])
    )
    logs = np.empty((grid.size, WIDTH))
    densities_at(polygon, start + scale * grid[:, np.newaxis], logs)
    np.testing.assert_allclose(logs + np.log(scale), logs[:, :1] + 0.0 * lanes, atol=1e-9)
    cumulated = integrate.cumulative_trapezoid(np.exp(logs[:, 0]), grid, initial=0)
    assert cumulated[-1] == pytest.approx(1.0, rel=1e-4)
    drawn, log_densities = np.empty((20_000, WIDTH)), np.empty((20_000, WIDTH))
    draw_many(open_stream(make_key(1)), polygon, drawn, log_densities)
    for lane, shifted in enumerate(((drawn - start) / scale).T):
        law = stats.kstest(shifted, lambda x: np.interp(x, grid, cumulated))
        assert law.pvalue > ALARM, lane
    again = np.empty((20_000, WIDTH))
    densities_at(polygon, drawn, again)
    np.testing.assert_allclose(log_densities, again, rtol=0.0, atol=1e-9)


# -- logits given a bit ----------------------------------------------------------------------------


def law_given_bit(mean: float, variance: float, bit: int) -> tuple[Floats, Floats]:
    """Return places and the log density there of N(mean, variance) times P(bit)."""
    sign, spread = 2 * bit - 1, math.sqrt(variance)
    grid = np.linspace(mean - 12.0 * spread, mean + 12.0 * spread + variance, 200_001)
    if bit == 0:
        grid = (2.0 * mean - grid)[::-1]
    return grid, stats.norm.logpdf(grid, mean, spread) + log_expit(sign * grid)


@pytest.mark.parametrize("bit", [0, 1])
@pytest.mark.parametrize("variance", [0.01, 1.0, 9.0, 400.0])
@pytest.mark.parametrize("mean", [-300.0, -4.6, -0.4, 1.0, 40.0])
def test_a_logit_is_drawn_given_a_bit(mean: float, variance: float, bit: int) -> None:
    """Likely and unlikely bits, and means on both sides of where the proposal changes."""
    stream = open_stream(make_key(1))
    draws = np.array([draw_given_bit(stream, mean, variance, bit == 1) for _ in range(10_000)])
    assert p_of_density(draws, *law_given_bit(mean, variance, bit)) > ALARM


@pytest.mark.parametrize("variance", [64.0, 400.0, 1e4])
def test_a_logit_is_drawn_where_both_sides_are_far(variance: float) -> None:
    """Where neither normal law alone fits; rejection from one of them would not end."""
    stream = open_stream(make_key(1))
    mean = -0.5 * variance
    draws = np.array([draw_given_bit(stream, mean, variance, True) for _ in range(10_000)])
    grid = np.linspace(-40.0, 40.0, 200_001)
    log_density = stats.norm.logpdf(grid, mean, math.sqrt(variance)) + log_expit(grid)
    assert p_of_density(draws, grid, log_density) > ALARM


def test_a_logit_shifted_by_a_tenth_is_found_out() -> None:
    stream = open_stream(make_key(1))
    draws = np.array([draw_given_bit(stream, -1.0, 1.0, True) for _ in range(10_000)])
    assert p_of_density(draws + 0.1, *law_given_bit(-1.0, 1.0, 1)) < ALARM


# -- chains ----------------------------------------------------------------------------------------


def drawn_chains(model: Any, data: Any, above: Floats, levels: int, n_draws: int) -> Floats:
    """Return chains given datum 1, which is not the only one."""
    stream, thetas = open_stream(make_key(1)), np.full((n_draws, levels, above.size), np.nan)
    for one in thetas:
        contract.draw_chain(stream, model, data, 1, above, one)
    return thetas


def log_densities(model: Any, data: Any, above: Floats, chain: Floats) -> tuple[float, float]:
    """Return log T of a chain, and the log likelihood of datum 1 at its end."""
    steps = zip([above, *chain], chain, strict=False)
    log_t = sum(contract.log_transition(model, over, theta) for over, theta in steps)
    return log_t, contract.log_likelihood(model, data, 1, prepared_row(model, chain[-1]))


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("eta", [1.0, 0.7, 0.0, -0.5])
def test_gaussian_chains_are_drawn_given_a_datum(eta: float, levels: int) -> None:
    """Means and data are linear in independent steps; prior times likelihood / law is constant."""
    rng = np.random.default_rng(levels)
    model = gaussian_model(rng, 3)._replace(persistence=eta)
    above, data = 2.0 * rng.normal(size=3), Reals(3.0 * rng.normal(size=(2, 3)))
    thetas = drawn_chains(model, data, above, levels, 5000)
    log_f = contract.log_likelihood(model, data, 1, prepared_row(model, above, levels))
    white, log_law = np.empty_like(thetas), 0.0
    for d in range(3):
        factor = np.zeros((levels + 1, levels + 1))
        for k in range(levels):
            factor[k] = eta * factor[k - 1] if k > 0 else 0.0
            factor[k, k] = math.sqrt(model.diffusion[d])
        factor[levels] = factor[levels - 1]
        factor[levels, levels] = math.sqrt(model.noise[d])
        covariance = factor @ factor.T
        mean = above[d] * eta ** np.array([*range(1, levels + 1), levels])
        gain = covariance[:-1, -1] / covariance[-1, -1]
        mean = mean[:-1] + gain * (data.values[1, d] - mean[-1])
        covariance = covariance[:-1, :-1] - np.outer(gain, covariance[:-1, -1])
        root = np.linalg.cholesky(covariance)
        white[:, :, d] = np.linalg.solve(root, (thetas[:, :, d] - mean).T).T
        log_law += stats.multivariate_normal.logpdf(thetas[0, :, d], mean, covariance)
    assert p_white(white.reshape(5000, -1)) > ALARM
    joint = sum(log_densities(model, data, above, thetas[0]))
    assert joint - log_law == pytest.approx(log_f, rel=0.0, abs=1e-8)


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_bernoulli_chains_are_drawn_given_a_datum(levels: int) -> None:
    """Each ends as a logit given its bit; before, it is a Brownian bridge."""
    model = bernoulli_model(np.random.default_rng(levels), 9)
    above = np.array([-20.0, 12.0, -5.0, 3.0, -2.0, 1.0, 0.3, 0.0, -0.5])
    bits = np.array([0, 0, 1, 0, 1, 1, 0, 1, 0])
    thetas = drawn_chains(model, packed([1 - bits, bits, 1 - bits]), above, levels, 20_000)
    inner = np.arange(1, levels)
    bridge = np.minimum.outer(inner, inner) - np.outer(inner, inner) / levels
    columns = []
    for d in range(above.size):
        last = thetas[:, -1, d]
        grid, log_density = law_given_bit(above[d], levels * model.diffusion[d], bits[d])
        cumulated = integrate.cumulative_trapezoid(
            np.exp(log_density - log_density.max()), grid, initial=0
        )
        columns.append(stats.norm.ppf(np.interp(last, grid, cumulated / cumulated[-1])))
        if levels > 1:
            line = above[d] + np.outer(last - above[d], inner / levels)
            root = np.linalg.cholesky(model.diffusion[d] * bridge)
            columns.extend(np.linalg.solve(root, (thetas[:, :-1, d] - line).T))
    assert p_white(np.stack(columns, axis=1)) > ALARM


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("make", [gaussian_model, bernoulli_model])
def test_chains_have_the_likelihood_of_an_unseen_node(make: Any, levels: int) -> None:
    """Draws given a datum, weighed by 1 / likelihood, have the mean 1 / (likelihood of unseen)."""
    rng = np.random.default_rng(levels)
    model = make(rng, 3)
    model = model._replace(diffusion=0.2 * model.diffusion)
    above = rng.normal(size=3)
    data: Any = packed([[1, 1, 0], [0, 1, 1]])
    if make is gaussian_model:
        data, model = Reals(rng.normal(size=(2, 3))), model._replace(noise=4.0 * model.noise)
    log_f = contract.log_likelihood(model, data, 1, prepared_row(model, above, levels))
    chains = drawn_chains(model, data, above, levels, 20_000)
    inverse = [math.exp(log_f - log_densities(model, data, above, one)[1]) for one in chains]
    assert p_mean(inverse, 1.0) > ALARM
