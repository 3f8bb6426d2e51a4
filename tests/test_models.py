"""Node models against slow, obvious code: densities, sums, exact posteriors, dispatch.

Fewer than a hundred comparisons of laws at ``ALARM`` each, with fixed seeds (see ``laws.py``).
"""

import itertools
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core.errors import TypingError
from scipy import linalg, stats
from scipy.special import expit

from laws import ALARM, p_mean
from treestick import Tree, _jit, contract, prior
from treestick._jit import compiled
from treestick.diffusions import expected_bits, logit_moves
from treestick.diffusions import gaussian as diffusions
from treestick.models.bernoulli import (
    FACTORS_AT_ONCE,
    FIRST_STEP,
    N_SLICED,
    SLICE_SHARE,
    Bernoulli,
    Bits,
)
from treestick.models.gaussian import Gaussian, Reals
from treestick.moves import parameters, tasks
from treestick.moves.state import State, Sticks, draw_sticks_prior
from treestick.moves.tasks import (
    LARGEST_BLOCK,
    MOST_TASKS,
    Task,
    make_tasks,
    sum_statistics,
)
from treestick.packs import WIDTH, fill, load, store
from treestick.prior.density import (
    count_kinds,
    log_choices,
    log_partition,
    log_stop,
    log_stops,
)
from treestick.prior.urn import fill_urn
from treestick.random import make_key, open_stream
from treestick.tree.table import NodeTable, count_data, make_table, place_child
from treestick.wide import ABREAST

DIMENSIONS = [1, 2, 4, 5, 8, 9, 13, 17]
"""Below, at and above multiples of what the fast paths take at once."""
PARENTS = [-1, 0, 1, 1, 0, 4, 4]
N_HERE = [2, 0, 5, 1, 0, 3, 0]

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator


def gaussian_model(rng: Rng, n_dimensions: int) -> Gaussian:
    """Return a model in which no two dimensions are alike."""
    diffusion, noise, root = rng.uniform(0.3, 2.0, (3, n_dimensions))
    return Gaussian(
        0.8, 0.1, 1.2,
        diffusion, 0.5 * diffusion, 3.0 * diffusion,
        noise, 0.2 * noise, 5.0 * noise,
        False, root, 0.7,
    )  # fmt: skip


def bernoulli_model(rng: Rng, n_dimensions: int, step: float = 0.12) -> Bernoulli:
    diffusion, root = rng.uniform(0.3, 2.0, (2, n_dimensions))
    mean = rng.normal(size=n_dimensions)
    return Bernoulli(diffusion, 0.5 * diffusion, 3.0 * diffusion, mean, root, step)


def packed(bits: Any) -> Bits:
    return Bits(np.packbits(np.asarray(bits, dtype=np.uint8), axis=1, bitorder="little"))


def table_of(parents: list[int], n_here: list[int]) -> NodeTable:
    table = make_table(len(parents))
    for parent in parents[1:]:
        last = table.last_child[parent]
        place_child(table, parent, 0 if last == -1 else table.ordinal[last] + 1)
    table.entity[:] = np.arange(100, 100 + len(parents))
    count_data(table, np.repeat(np.arange(len(parents)), n_here))
    return table


def p_means(columns: Floats, means: Any = 0.0) -> float:
    """p-value that columns, which are uncorrelated with each other, have these means."""
    error = columns.std(axis=0, ddof=1) / math.sqrt(len(columns))
    z = (columns.mean(axis=0) - means) / error
    return float(stats.chi2.sf(np.sum(z**2), z.size))


def products(columns: Floats) -> Floats:
    """Return the products of all pairs of columns."""
    return np.stack([a * b for a, b in itertools.combinations(columns.T, 2)], axis=1)


def prepared_row(model: Any, theta: Floats, levels: int | None = None) -> Floats:
    prepared = np.full(contract.widths(model)[1], np.nan)
    if levels is None:
        contract.prepare(model, theta, prepared)
    else:
        contract.prepare_unseen(model, theta, levels, prepared)
    return prepared


# -- likelihoods and sums --------------------------------------------------------------------------


def gaussian_log_density(model: Gaussian, theta: Floats, x: Floats) -> Floats:
    each = np.asarray(stats.norm.logpdf(x, theta, np.sqrt(model.noise)))
    return np.asarray(each.sum(axis=1) - model.log_scale)


@pytest.mark.parametrize("n_dimensions", DIMENSIONS)
def test_gaussian_likelihood_is_scipys(n_dimensions: int) -> None:
    rng = np.random.default_rng(n_dimensions)
    model = gaussian_model(rng, n_dimensions)
    theta, x = rng.normal(size=n_dimensions), 3.0 * rng.normal(size=(20, n_dimensions))
    expected = gaussian_log_density(model, theta, x)
    prepared, statistics = prepared_row(model, theta), np.zeros(2 * n_dimensions)
    found = [contract.log_likelihood(model, Reals(x), n, prepared) for n in range(20)]
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-10)
    for n in range(20):
        contract.add_statistics(model, Reals(x), n, statistics)
    sums = np.concatenate([x.sum(axis=0), (x**2).sum(axis=0)])
    np.testing.assert_allclose(statistics, sums, rtol=0.0, atol=1e-10)
    total = contract.log_likelihood_of_sums(model, theta, 20, statistics)
    assert total == pytest.approx(expected.sum(), rel=0.0, abs=1e-10)
    assert contract.log_likelihood_of_sums(model, theta, 0, 0.0 * statistics) == 0.0


def test_bernoulli_likelihood_of_so_many_bits_that_products_would_overflow() -> None:
    n_dimensions = 2 * WIDTH * FACTORS_AT_ONCE + 13
    rng = np.random.default_rng(1)
    theta = 0.01 * rng.normal(size=n_dimensions)
    sums = rng.integers(4, size=n_dimensions).astype(np.float64)
    model = bernoulli_model(rng, n_dimensions)
    expected = sums @ theta - 3.0 * np.logaddexp(0.0, theta).sum()
    found = contract.log_likelihood_of_sums(model, theta, 3, sums)
    assert found == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("n_dimensions", DIMENSIONS)
def test_bernoulli_likelihood_is_scipys(n_dimensions: int) -> None:
    rng = np.random.default_rng(n_dimensions)
    model = bernoulli_model(rng, n_dimensions)
    theta = 2.0 * rng.normal(size=n_dimensions)
    bits = rng.integers(2, size=(20, n_dimensions))
    expected = np.asarray(stats.bernoulli.logpmf(bits, expit(theta))).sum(axis=1)
    prepared, statistics = prepared_row(model, theta), np.zeros(n_dimensions)
    found = [contract.log_likelihood(model, packed(bits), n, prepared) for n in range(20)]
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-10)
    for n in range(20):
        contract.add_statistics(model, packed(bits), n, statistics)
    assert np.array_equal(statistics, bits.sum(axis=0))
    total = contract.log_likelihood_of_sums(model, theta, 20, statistics)
    assert total == pytest.approx(expected.sum(), rel=0.0, abs=1e-10)
    assert contract.log_likelihood_of_sums(model, theta, 0, 0.0 * statistics) == 0.0


def test_bernoulli_likelihood_at_extreme_logits() -> None:
    theta = np.array([800.0, -800.0, 40.0, -40.0, 0.0])
    model = bernoulli_model(np.random.default_rng(1), 5)
    bits = np.array(list(itertools.product([0, 1], repeat=5)))
    found = [
        contract.log_likelihood(model, packed(bits), n, prepared_row(model, theta))
        for n in range(32)
    ]
    expected = (bits * theta - np.logaddexp(0.0, theta)).sum(axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-10)


@pytest.mark.parametrize("n_dimensions", DIMENSIONS)
@pytest.mark.parametrize("name", ["gaussian", "bernoulli"])
def test_log_prior_is_a_sum_of_normal_densities(name: str, n_dimensions: int) -> None:
    rng = np.random.default_rng(n_dimensions)
    model: Any
    if name == "gaussian":
        model = gaussian_model(rng, n_dimensions)
        mean, persistence = np.zeros(n_dimensions), model.persistence
    else:
        model = bernoulli_model(rng, n_dimensions)
        mean, persistence = model.root_mean, 1.0
    theta = rng.normal(size=(len(PARENTS), n_dimensions))
    expected = np.sum(stats.norm.logpdf(theta[0], mean, np.sqrt(model.root_variance)))
    for k, parent in enumerate(PARENTS[1:], start=1):
        above = persistence * theta[parent]
        expected += np.sum(stats.norm.logpdf(theta[k], above, np.sqrt(model.diffusion)))
    found = contract.log_prior(model, table_of(PARENTS, N_HERE), theta)
    assert found == pytest.approx(expected, rel=0.0, abs=1e-10)


@pytest.mark.parametrize("n_dimensions", DIMENSIONS)
@pytest.mark.parametrize("levels", [1, 2, 5])
def test_gaussian_below_the_tree_has_a_closed_form(levels: int, n_dimensions: int) -> None:
    rng = np.random.default_rng(n_dimensions)
    model = gaussian_model(rng, n_dimensions)
    theta, x = rng.normal(size=n_dimensions), rng.normal(size=(5, n_dimensions))
    grown = sum(model.persistence ** (2 * m) for m in range(levels)) * model.diffusion
    marginal = model._replace(noise=model.noise + grown)
    expected = gaussian_log_density(marginal, model.persistence**levels * theta, x)
    prepared = prepared_row(model, theta, levels)
    found = [contract.log_likelihood(model, Reals(x), n, prepared) for n in range(5)]
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-10)


def test_gaussian_no_level_below_is_the_node_itself() -> None:
    rng = np.random.default_rng(1)
    model, theta = gaussian_model(rng, 5), rng.normal(size=5)
    assert np.array_equal(prepared_row(model, theta, 0), prepared_row(model, theta))


def log_expected_logistic(mean: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """Return log E[expit(t)] and log E[expit(-t)], t normal, by the trapezoid rule."""
    z = np.linspace(-16.0, 16.0, 40_001)[:, np.newaxis]
    weight = stats.norm.pdf(z) * (z[1] - z[0])
    t = mean + spread * z
    return np.log((weight * expit(t)).sum(axis=0)), np.log((weight * expit(-t)).sum(axis=0))


@pytest.mark.parametrize("levels", [1, 2, 5])
@pytest.mark.parametrize("spread", [0.01, 0.5, 0.85, 0.95, 1.3, 1.45, 1.99, 2.01, 5.0, 40.0])
def test_bernoulli_below_the_tree_is_an_integral(spread: float, levels: int) -> None:
    """With the spread of one level on both sides of where the way to integrate changes."""
    theta = np.array([-25.0, -8.0, -2.0, -0.3, 0.0, 1.0, 3.0, 12.0, 29.0])
    model = bernoulli_model(np.random.default_rng(1), theta.size)
    factor = np.linspace(0.9, 1.1, theta.size)
    model = model._replace(diffusion=factor * spread**2)
    one, zero = log_expected_logistic(theta, np.sqrt(levels * model.diffusion))
    bits = np.concatenate([np.eye(theta.size), np.ones((1, theta.size)), np.zeros((1, theta.size))])
    expected = (bits * one + (1.0 - bits) * zero).sum(axis=1)
    prepared = prepared_row(model, theta, levels)
    found = [contract.log_likelihood(model, packed(bits), n, prepared) for n in range(len(bits))]
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-6)


@compiled
def expected_logistics(mean: Floats, spread: float, one: Floats, zero: Floats) -> None:
    for first in range(0, mean.size, WIDTH):
        both = expected_bits.expected_logistics(load(mean, first, 0.0), fill(spread))
        store(one, first, both[0])
        store(zero, first, both[1])


@pytest.mark.parametrize(
    "spread",
    [1e-4, 0.05, 0.6, 0.601, 1.25, 1.251, 2.0, 2.001, 2.8, 4.0, 5.6, 8.0, 8.001, 30.0, 100.0],
)
def test_an_expected_logistic_is_as_near_as_it_says(spread: float) -> None:
    """Relative to either outcome; at the ends of all rules, where they are worst."""
    mean = np.concatenate([np.linspace(-30.0, 30.0, 41), [-0.5, 0.5]])
    one, zero = log_expected_logistic(mean, np.full(mean.size, spread))
    found_one, found_zero = np.empty(mean.size), np.empty(mean.size)
    expected_logistics(mean, spread, found_one, found_zero)
    np.testing.assert_allclose(np.log(found_one), one, rtol=0.0, atol=1e-7)
    np.testing.assert_allclose(np.log(found_zero), zero, rtol=0.0, atol=1e-7)


# -- Gaussian parameters ---------------------------------------------------------------------------


def joint_posterior(
    model: Gaussian, parents: list[int], n_here: list[int], sums: Floats, d: int
) -> tuple[Floats, Floats]:
    """Return mean and precision matrix of dimension ``d`` of all nodes together."""
    precision = np.diag(np.array(n_here) / model.noise[d])
    precision[0, 0] += 1.0 / model.root_variance[d]
    for k, parent in enumerate(parents[1:], start=1):
        step = np.zeros(len(parents))
        step[k], step[parent] = 1.0, -model.persistence
        precision += np.outer(step, step) / model.diffusion[d]
    return np.linalg.solve(precision, sums / model.noise[d]), precision


def test_gaussian_parameters_are_drawn_from_their_posterior() -> None:
    rng = np.random.default_rng(1)
    n_draws, n_nodes, n_dimensions = 20_000, len(PARENTS), 3
    model, table = gaussian_model(rng, n_dimensions), table_of(PARENTS, N_HERE)
    statistics = rng.normal(size=(n_nodes, 2 * n_dimensions)) * np.array(N_HERE)[:, np.newaxis]
    draws = np.full((n_draws, n_nodes, n_dimensions), np.nan)
    for k in range(n_draws):
        key = make_key(1, sweep=k)
        counts = contract.update_parameters(key, model, table, statistics, draws[k], 0, True)
        assert counts == (n_dimensions, n_dimensions)
    same = contract.adapt(model, 1.0)
    assert all(np.array_equal(getattr(same, name), getattr(model, name)) for name in model._fields)
    white = np.empty_like(draws)
    for d in range(n_dimensions):
        mean, precision = joint_posterior(model, PARENTS, N_HERE, statistics[:, d], d)
        white[:, :, d] = (draws[:, :, d] - mean) @ np.linalg.cholesky(precision)
    z = white.reshape(n_draws, -1)
    assert p_white(z) > ALARM


@pytest.mark.parametrize("persistence", [1.0, 0.9])
def test_gaussian_parameters_of_a_long_chain(persistence: float) -> None:
    """One draw of 50,000 nodes gives as many standard normals, by a banded factorisation."""
    n_nodes = 50_000
    rng = np.random.default_rng(1)
    model = gaussian_model(rng, 1)._replace(persistence=persistence)
    n_here = rng.integers(3, size=n_nodes)
    table = table_of(list(range(-1, n_nodes - 1)), n_here.tolist())
    statistics = rng.normal(size=(n_nodes, 2)) * n_here[:, np.newaxis]
    theta = np.full((n_nodes, 1), np.nan)
    contract.update_parameters(make_key(1), model, table, statistics, theta, 0, False)
    assert np.all(np.isfinite(theta))
    diagonal = n_here / model.noise + 1.0 / model.diffusion
    diagonal[0] += 1.0 / model.root_variance[0] - 1.0 / model.diffusion[0]
    diagonal[:-1] += persistence**2 / model.diffusion
    above = np.full(n_nodes, -persistence / model.diffusion[0])
    factor = linalg.cholesky_banded(np.stack([above, diagonal]))
    mean = linalg.cho_solve_banded((factor, False), statistics[:, 0] / model.noise)
    away = theta[:, 0] - mean
    white = factor[1] * away
    white[:-1] += factor[0, 1:] * away[1:]
    assert stats.kstest(white, "norm").pvalue > ALARM
    assert p_mean(white[1:] * white[:-1], 0.0) > ALARM


# -- slice moves on variances and persistence ------------------------------------------------------


def thinned(step: Callable[[float], float], start: float, n: int = 5000, every: int = 20) -> Floats:
    """Return draws of a chain far enough apart to pass for independent."""
    draws, now = np.empty(n), start
    for k in range(-10, n):
        for _ in range(every):
            now = step(now)
        if k >= 0:
            draws[k] = now
    correlation = np.corrcoef(draws[1:], draws[:-1])[0, 1]
    assert abs(correlation) < 5.0 / math.sqrt(n)
    return draws


def p_of_density(draws: Floats, grid: Floats, log_density: Floats) -> float:
    """p-value that draws have the density on the grid (Kolmogorov and Smirnov)."""
    density = np.exp(log_density - log_density.max())
    areas = 0.5 * (density[1:] + density[:-1]) * np.diff(grid)
    cumulated = np.concatenate([[0.0], np.cumsum(areas)])
    cumulated /= cumulated[-1]
    return float(stats.kstest(draws, lambda x: np.interp(x, grid, cumulated)).pvalue)


@pytest.mark.parametrize(
    ("n", "squares", "low", "high"),
    [
        (0, 0.0, 0.5, 4.0),  # uniform: no steps at all
        (1, 0.3, 1e-4, 10.0),
        (2, 3.0, 1e-3, 1e3),
        (5, 4.0, 0.1, 20.0),
        (60, 10.0, 0.4, 5.0),  # the mode lies below
        (60, 400.0, 0.1, 3.0),  # and above
    ],
)
def test_variance_has_its_truncated_law(n: int, squares: float, low: float, high: float) -> None:
    stream = open_stream(make_key(1, n))
    draws = thinned(lambda v: diffusions.draw_variance(stream, v, n, squares, low, high), high)
    grid = np.geomspace(low, high, 200_001)
    assert p_of_density(draws, grid, -0.5 * n * np.log(grid) - 0.5 * squares / grid) > ALARM
    assert low <= draws.min()
    assert draws.max() <= high


@pytest.mark.parametrize("start", [1e-3, 1e3])
def test_variance_given_a_million_steps(start: float) -> None:
    stream = open_stream(make_key(1))
    n, squares = 1_000_000, 2e6
    draws = thinned(lambda v: diffusions.draw_variance(stream, v, n, squares, 1e-3, 1e3), start)
    law = stats.invgamma(0.5 * n - 1.0, scale=0.5 * squares)
    assert stats.kstest(draws, law.cdf).pvalue > ALARM


@pytest.mark.parametrize(
    ("precision", "pull", "low", "high"),
    [
        (0.0, 0.0, 0.2, 1.0),  # uniform
        (4.0, 3.0, 0.0, 1.0),
        (50.0, 70.0, 0.0, 1.0),  # the mode lies above
        (50.0, -10.0, -1.0, 0.5),
        (1e6, 0.7e6, 0.0, 1.0),
    ],
)
def test_persistence_has_its_truncated_law(
    precision: float, pull: float, low: float, high: float
) -> None:
    stream = open_stream(make_key(1))
    draws = thinned(
        lambda eta: diffusions.draw_persistence(stream, eta, precision, pull, low, high), low
    )
    grid = np.linspace(low, high, 1_000_001)
    assert p_of_density(draws, grid, grid * (pull - 0.5 * precision * grid)) > ALARM


def test_equal_bounds_fix_a_value() -> None:
    stream = open_stream(make_key(1))
    assert diffusions.draw_variance(stream, 0.3, 7, 2.0, 0.3, 0.3) == 0.3
    assert diffusions.draw_persistence(stream, 0.3, 7.0, 2.0, 0.3, 0.3) == 0.3


def test_slices_narrower_than_floats_end() -> None:
    stream = open_stream(make_key(1))
    for now in (1e-3, 0.7, 1e3):
        v = diffusions.draw_variance(stream, now, 10**15, 0.7e15, 1e-3, 1e3)
        assert 1e-3 <= v <= 1e3
    for now in (0.0, 0.7, 1.0):
        assert 0.0 <= diffusions.draw_persistence(stream, now, 1e300, 0.7e300, 0.0, 1.0) <= 1.0


# -- Bernoulli parameters --------------------------------------------------------------------------


class Logits(NamedTuple):
    """A tree of one node, whose dimensions are replications of one logit and its data."""

    model: Bernoulli
    table: NodeTable
    statistics: Floats
    curvature: Floats
    grid: Floats
    log_density: Floats


def one_logit(n: int, s: int, step: float, n_replications: int) -> Logits:
    full = np.full(n_replications, 1.0)
    mean, variance = -0.5, 2.0
    model = Bernoulli(full, full, full, mean * full, variance * full, step)
    table, statistics = table_of([-1], [n]), s * full[np.newaxis]
    curvature = logit_moves.curvature_of(model, table, statistics, 1)
    middle = math.log((s + 0.5) / (n - s + 0.5))
    width = 12.0 / math.sqrt(curvature[0, 0])
    grid = np.linspace(min(middle, mean) - width, max(middle, mean) + width, 400_001)
    if n >= 1000 and s > 0:
        grid = np.linspace(middle - width, middle + width, 400_001)
    log_density = s * grid - n * np.logaddexp(0.0, grid) - 0.5 * (grid - mean) ** 2 / variance
    return Logits(model, table, statistics, curvature, grid, log_density)


def exact_logits(rng: Rng, logits: Logits) -> Floats:
    """Draw from the posterior by the inverse of its distribution function."""
    cumulated = np.cumsum(np.exp(logits.log_density - logits.log_density.max()))
    u = rng.random((1, logits.model.diffusion.size))
    return np.asarray(np.interp(u, cumulated / cumulated[-1], logits.grid))


DATA_OF_A_LOGIT = [(0, 0), (3, 1), (10, 0), (10, 9), (1000, 700)]


@pytest.mark.parametrize(("n", "s"), DATA_OF_A_LOGIT)
def test_hamiltonian_move_leaves_the_posterior_of_a_logit(n: int, s: int) -> None:
    """With long steps, so that some are rejected."""
    logits = one_logit(n, s, 1.0, 20_000)
    model, table, statistics, curvature = logits[:4]
    theta = exact_logits(np.random.default_rng(1), logits)
    for sweep in range(8):
        before, key = theta.copy(), make_key(1, sweep=sweep)
        accepted = logit_moves.hamiltonian_move(key, model, table, statistics, theta, curvature)
        assert accepted == np.sum(theta != before)
        assert 0.5 < accepted / theta.size < 0.999
    assert p_of_density(theta[0], logits.grid, logits.log_density) > ALARM


@pytest.mark.parametrize(("n", "s"), DATA_OF_A_LOGIT)
def test_slice_move_leaves_the_posterior_of_a_logit(n: int, s: int) -> None:
    logits = one_logit(n, s, 0.12, 20_000)
    model, table, statistics, curvature = logits[:4]
    theta = exact_logits(np.random.default_rng(1), logits)
    for sweep in range(8):
        before, key = theta.copy(), make_key(1, sweep=sweep)
        logit_moves.slice_move(key, model, table, statistics, theta, curvature)
        assert np.all(theta != before)
    assert p_of_density(theta[0], logits.grid, logits.log_density) > ALARM


def test_slice_move_comes_from_far_away() -> None:
    logits = one_logit(10, 9, 0.12, 20_000)
    theta = np.linspace(-40.0, 40.0, 20_000)[np.newaxis]
    for sweep in range(30):
        key = make_key(1, sweep=sweep)
        logit_moves.slice_move(key, *logits[:3], theta, logits.curvature)
    assert p_of_density(theta[0], logits.grid, logits.log_density) > ALARM


def test_slices_follow_in_the_first_sweeps_of_a_burn_in_and_then_now_and_then() -> None:
    """With steps so long that no Hamiltonian proposal is accepted, what moves is sliced."""
    model, table, statistics = one_logit(10, 9, 1e6, 8)[:3]

    def share_sliced(adapting: bool, sweeps: range) -> float:
        moved = []
        for sweep in sweeps:
            theta = np.zeros((1, 8))
            key = make_key(1, sweep=sweep)
            parameters._update_parameters(key, model, table, statistics, theta, 0, adapting)
            assert (theta != 0.0).all() == (theta != 0.0).any()
            moved.append(theta.any())
        return float(np.mean(moved))

    begin, later = range(1, N_SLICED + 1), range(N_SLICED + 1, N_SLICED + 401)
    assert share_sliced(True, begin) == 1.0
    for adapting, sweeps in ((True, later), (False, begin)):
        assert stats.binomtest(
            round(share_sliced(adapting, sweeps) * len(sweeps)), len(sweeps), SLICE_SHARE
        ).pvalue > ALARM  # fmt: skip


@pytest.mark.parametrize("n", [10, 1000, 100_000, 1_000_000])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.97])
def test_acceptance_does_not_fall_as_data_grow(share: float, n: int) -> None:
    logits = one_logit(n, round(share * n), FIRST_STEP, 2000)
    theta = exact_logits(np.random.default_rng(1), logits)
    moved = theta.copy()
    accepted = logit_moves.hamiltonian_move(
        make_key(1), *logits[:3], moved, curvature=logits.curvature
    )
    assert accepted > 0.8 * theta.size
    # The proposals are far ones, not short steps that are always accepted.
    assert np.corrcoef(theta[0], moved[0])[0, 1] < 0.5


def test_curvature_is_that_of_prior_and_shares() -> None:
    """The logits are not among its arguments: moves that scaled by them would not be reversible."""
    rng = np.random.default_rng(1)
    model, table = bernoulli_model(rng, 3), table_of(PARENTS, N_HERE)
    n_here = np.array(N_HERE)[:, np.newaxis]
    statistics = rng.integers(n_here + 1, size=(len(PARENTS), 3)).astype(float)
    p = (statistics + 0.5) / (n_here + 1.0)
    expected = n_here * p * (1.0 - p)
    expected[0] += 1.0 / model.root_variance
    for k, parent in enumerate(PARENTS[1:], start=1):
        expected[[k, parent]] += 1.0 / model.diffusion
    found = logit_moves.curvature_of(model, table, statistics, len(PARENTS))
    np.testing.assert_allclose(found, expected, rtol=1e-14)


# -- draws from priors and likelihoods -------------------------------------------------------------


def p_standard_normal(z: Floats) -> float:
    """Smallest p-value: columns are standard normal, and uncorrelated."""
    each = [float(stats.kstest(column, "norm").pvalue) for column in z.T]
    return min(p_means(products(z)), *each)


def p_white(z: Floats) -> float:
    """Smallest of four p-values: all entries are standard normal, and columns uncorrelated."""
    all_normal = float(stats.kstest(z.ravel(), "norm").pvalue)
    return min(p_means(z), p_means(z**2, 1.0), p_means(products(z)), all_normal)


def gathered(n: int, shape: int, draw: Callable[[Any, Floats], None]) -> Floats:
    """Call ``draw(stream, row)`` for each row of a new array, one stream for all."""
    rows, stream = np.full((n, shape), np.nan), open_stream(make_key(1))
    for row in rows:
        draw(stream, row)
    return rows


@pytest.mark.parametrize("make", [gaussian_model, bernoulli_model])
def test_parameters_are_drawn_from_the_diffusion(make: Callable[..., Any]) -> None:
    rng = np.random.default_rng(1)
    model, parent = make(rng, 3), 5.0 * rng.normal(size=3)
    mean, persistence = getattr(model, "root_mean", 0.0), getattr(model, "persistence", 1.0)
    roots = gathered(5000, 3, lambda s, row: contract.draw_root(s, model, row))
    assert p_standard_normal((roots - mean) / np.sqrt(model.root_variance)) > ALARM
    below = gathered(5000, 3, lambda s, row: contract.draw_child(s, model, parent, row))
    assert p_standard_normal((below - persistence * parent) / np.sqrt(model.diffusion)) > ALARM


def test_gaussian_data_are_drawn_from_the_likelihood() -> None:
    rng = np.random.default_rng(1)
    model, theta = gaussian_model(rng, 3), 5.0 * rng.normal(size=3)
    data, stream = Reals(np.full((5001, 3), np.nan)), open_stream(make_key(1))
    for n in range(5000):
        contract.simulate(stream, model, theta, data, n)
    assert p_standard_normal((data.values[:5000] - theta) / np.sqrt(model.noise)) > ALARM
    assert np.all(np.isnan(data.values[5000]))


@pytest.mark.parametrize("n_dimensions", [1, 8, 13])
def test_bernoulli_data_are_drawn_from_the_likelihood(n_dimensions: int) -> None:
    rng = np.random.default_rng(1)
    model, theta = bernoulli_model(rng, n_dimensions), rng.normal(size=n_dimensions)
    width = (n_dimensions + 7) // 8
    data, stream = Bits(np.full((5001, width), 255, np.uint8)), open_stream(make_key(1))
    for n in range(5000):
        contract.simulate(stream, model, theta, data, n)
    bits = np.unpackbits(data.packed, axis=1, bitorder="little")
    assert not bits[:5000, n_dimensions:].any()  # spare bits are 0
    assert bits[5000].all()
    away = bits[:5000, :n_dimensions] - expit(theta)
    assert p_means(away) > ALARM
    if n_dimensions > 1:
        assert p_means(products(away)) > ALARM


def p_uniform(draws: Floats, low: Floats, high: Floats) -> float:
    """Smallest p-value: columns are uniform between the bounds, and uncorrelated."""
    u = (draws - low) / (high - low)
    each = [float(stats.kstest(column, "uniform").pvalue) for column in u.T]
    return min(p_means(products(u - 0.5)), *each)


INFERRED = {"persistence", "concentration", "diffusion", "noise", "alpha0", "decay", "gamma"}


def drawn_from_prior(draw: Callable[[Any, Any], Any], model: Any) -> tuple[Floats, Floats, Floats]:
    """Return draws of all inferred hyperparameters and their bounds, side by side."""
    names = [name for name in model._fields if name in INFERRED]
    stream, rows = open_stream(make_key(1)), []
    for _ in range(5000):
        drawn = draw(stream, model)
        rows.append(np.hstack([getattr(drawn, name) for name in names]))
        for name in set(model._fields) - INFERRED:
            assert np.array_equal(getattr(drawn, name), getattr(model, name))
    low, high = (
        np.hstack([getattr(model, f"{name}_{bound}") for name in names])
        for bound in ("low", "high")
    )
    return np.array(rows), low, high


@pytest.mark.parametrize("make", [gaussian_model, bernoulli_model])
def test_hyperparameters_are_uniform_between_bounds(make: Callable[..., Any]) -> None:
    model = make(np.random.default_rng(1), 3)
    assert p_uniform(*drawn_from_prior(contract.draw_hyperparameters, model)) > ALARM


def test_sticks_prior_is_uniform_between_bounds() -> None:
    sticks = Sticks(1.0, 0.5, 9.0, 0.5, 0.05, 0.8, 1.0, 1.0, 1.5)
    assert p_uniform(*drawn_from_prior(draw_sticks_prior, sticks)) > ALARM
    fixed = Sticks(2.0, 2.0, 2.0, 0.3, 0.3, 0.3, 0.7, 0.7, 0.7)
    assert draw_sticks_prior(open_stream(make_key(1)), fixed) == fixed


def test_shared_noise_is_drawn_once() -> None:
    model = gaussian_model(np.random.default_rng(1), 3)
    model = model._replace(shared_noise=True, noise_low=np.full(3, 0.2), noise_high=np.full(3, 3.0))
    draws, low, high = drawn_from_prior(contract.draw_hyperparameters, model)
    assert np.all(draws[:, 4:] == draws[:, 4:5])
    assert p_uniform(draws[:, :5], low[:5], high[:5]) > ALARM


# -- the contract ----------------------------------------------------------------------------------


FLAGS = contract.NodeModel._field_defaults
FUNCTIONS = [name for name in contract.NodeModel._fields[2:] if name not in FLAGS]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_of_a_model_is_described(name: str) -> None:
    described = getattr(contract, name)
    assert described.__name__ == name
    assert len(described.__doc__) > 30


def toy_model(answer: float) -> contract.NodeModel:
    """Return a model that says ``answer`` to everything; the classes of all toys have one name."""

    class Toy(NamedTuple):
        x: float

    @_jit.compiled
    def say(*arguments: Any) -> float:
        return answer

    return contract.NodeModel("toy", Toy, **dict.fromkeys(FUNCTIONS, say))  # type: ignore[arg-type]


class Stranger(NamedTuple):
    """The named tuple of no model."""

    x: float


@pytest.fixture
def two_toys() -> Iterator[list[Any]]:
    before = dict(contract._models)
    toys = [toy_model(1.0), toy_model(2.0)]
    for toy in toys:
        contract.register(toy)
    yield toys
    contract._models.clear()
    contract._models.update(before)


@_jit.compiled
def asked(model: Any) -> Any:
    return contract.log_likelihood(model, 0, 0, 0)


def test_models_whose_classes_have_one_name_keep_apart(two_toys: list[Any]) -> None:
    first, second = (toy.parameters for toy in two_toys)
    assert (first.__name__, second.__name__) == ("Toy", "Toy_2")
    for _ in range(2):
        assert asked(first(0.0)) == contract.log_likelihood(first(0.0), 0, 0, 0) == 1.0
        assert asked(second(0.0)) == contract.log_likelihood(second(0.0), 0, 0, 0) == 2.0
    contract.register(two_toys[1])  # the same class again: the name is its own
    assert second.__name__ == "Toy_2"
    third = toy_model(3.0)
    contract.register(third)
    assert third.parameters.__name__ == "Toy_3"
    assert asked(third.parameters(0.0)) == 3.0
    assert contract.registered(second) is two_toys[1]


def test_a_tuple_that_no_model_has_registered_is_refused() -> None:
    with pytest.raises(TypeError, match="log_likelihood: no argument is the named tuple of a"):
        contract.log_likelihood(Stranger(1.0), 0, 0, 0)
    with pytest.raises(TypingError, match="log_likelihood"):
        asked(Stranger(1.0))


@pytest.fixture
def empty_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    _jit.cache_folder.cache_clear()
    monkeypatch.setenv("TREESTICK_CACHE_DIR", str(tmp_path))
    # A source that somebody edits while the tests run would switch the cache off.
    monkeypatch.setattr(_jit, "have_changed", lambda modules: False)
    yield tmp_path
    monkeypatch.undo()
    _jit.cache_folder.cache_clear()


def test_only_models_of_the_package_are_cached(empty_cache: Any, two_toys: list[Any]) -> None:
    function = parameters._update_hyperparameters.py_func  # type: ignore[attr-defined]
    update = _jit.compiled(function)  # nothing in memory yet
    rng = np.random.default_rng(1)
    model, table = gaussian_model(rng, 1), table_of([-1], [1])
    statistics, theta = np.ones((1, 2)), np.ones((1, 1))

    def cached() -> int:
        return len(list(empty_cache.rglob(f"{function.__module__}.{function.__name__}-*.nbc")))

    for toy, answer in zip(two_toys, (1.0, 2.0), strict=True):
        found = update(make_key(1), toy.parameters(0.0), table, statistics, theta)
        assert found == answer
        nested = numba.typeof((1, (toy.parameters(0.0), 2)))
        assert _jit._dependencies(function.__module__, [nested]) is None
    assert cached() == 0
    update(make_key(1), model, table, statistics, theta)
    assert cached() == 1
    found = _jit._dependencies(function.__module__, [numba.typeof((1, (model, table)))])
    assert found is not None
    assert {function.__module__, "treestick.models.gaussian"} < found[0]
    assert "treestick.models.bernoulli" not in found[0]


# -- the probability of the tree -------------------------------------------------------------------


SETTINGS = [(1.0, 0.5, 0.2), (5.0, 1.0, 0.5), (25.0, 0.5, 1.0)]
OTHER_SETTINGS = [
    *SETTINGS,
    (1e-9, 1e-3, 1e-9),
    (1e-3, 1e-300, 5e-324),
    (1e4, 1.0, 1e4),
    (0.3, 0.9, 1e-250),
]


@pytest.mark.parametrize("setting", SETTINGS)
def test_compiled_partition_probability_is_the_public_one(
    setting: tuple[float, float, float],
) -> None:
    for seed in range(60):
        n = seed * seed // 4
        tree = prior.draw_urn(n, *setting, seed)
        table, _ = fill_urn(make_key(seed), n, *setting)
        for other in OTHER_SETTINGS:
            expected = prior.log_probability(tree, *other)
            assert log_partition(table, *other) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_compiled_partition_probability_where_alpha_underflows() -> None:
    depth = 5000
    parents, n_here = list(range(-1, depth)), [1] + (depth - 1) * [0] + [3]
    tree = Tree(parents, np.repeat(np.arange(depth + 1), n_here))
    found = log_partition(table_of(parents, n_here), 1.0, 0.5, 1.0)
    assert found == pytest.approx(prior.log_probability(tree, 1.0, 0.5, 1.0), rel=1e-12)


def test_compiled_partition_probability_counts_the_hull_only() -> None:
    full = log_partition(table_of([*PARENTS, 2, 7, 0], [*N_HERE, 0, 0, 0]), 2.0, 0.5, 0.7)
    assert full == log_partition(table_of(PARENTS, N_HERE), 2.0, 0.5, 0.7)


@pytest.mark.parametrize("setting", SETTINGS)
def test_kinds_of_nodes_have_the_factors_of_all_nodes(setting: tuple[float, float, float]) -> None:
    for seed in range(0, 60, 3):
        table, _ = fill_urn(make_key(seed), seed * seed // 4, *setting)
        kinds = count_kinds(table)
        size = int(table.size[0])
        rows = [k for k in range(size) if table.n_here[k] + table.n_below[k] > 0]
        assert kinds.n_nodes.sum() == len(rows)
        columns = list(zip(*kinds[:3], strict=True))
        assert columns == sorted(set(columns))
        for alpha0, decay, gamma in OTHER_SETTINGS:
            stops = sum(
                log_stop(table.n_here[k], table.n_below[k], table.depth[k], alpha0, decay)
                for k in rows
            )
            assert log_stops(kinds, alpha0, decay) == pytest.approx(stops, rel=1e-12, abs=1e-9)
            choices = sum(
                math.log(gamma) * (k > 0)
                + math.lgamma(gamma) - math.lgamma(gamma + table.n_below[k])
                for k in rows
            )  # fmt: skip
            assert log_choices(kinds, gamma) == pytest.approx(choices, rel=1e-12, abs=1e-9)


# -- sums over data --------------------------------------------------------------------------------


@given(st.integers(0, 10**9) | st.integers(0, 40).map(lambda k: k * LARGEST_BLOCK))
def test_tasks_cover_all_rows_once(n_data: int) -> None:
    made = make_tasks(n_data)
    assert len(made) <= MOST_TASKS
    edges = [0, *(stop for _, stop in made)]
    assert [start for start, _ in made] == edges[:-1]
    assert edges[-1] == n_data
    assert all(start % LARGEST_BLOCK == 0 and start < stop for start, stop in made)
    sizes = {stop - start for start, stop in made[:-1]}
    assert len(sizes) <= 1
    assert all(math.log2(size / LARGEST_BLOCK).is_integer() for size in sizes)


@pytest.mark.parametrize(
    "n_data", [17, 5 * LARGEST_BLOCK + 17, 13 * LARGEST_BLOCK, 14 * LARGEST_BLOCK + 1]
)
def test_sums_have_the_same_bits_however_blocks_are_grouped(
    n_data: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    n_nodes, model = 3, gaussian_model(rng, 2)
    x = rng.normal(size=(n_data, 2)) * 10.0 ** rng.integers(-3, 3, size=(n_data, 1))
    where = rng.integers(n_nodes, size=n_data)
    table = table_of([-1, 0, 0], np.bincount(where, minlength=n_nodes).tolist())
    sticks = Sticks(1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 1.0, 1.0, 1.0)
    state = State(table, where, np.zeros((n_nodes, 2)), np.zeros((0, 0)), model, sticks)

    groupings: list[list[Task]] = [make_tasks(n_data)]
    for size in (
        LARGEST_BLOCK,
        2 * LARGEST_BLOCK,
        4 * LARGEST_BLOCK,
        8 * LARGEST_BLOCK,
        16 * LARGEST_BLOCK,
    ):
        monkeypatch.setattr(tasks, "MOST_TASKS", -(-n_data // size))
        groupings.append(make_tasks(n_data))
    assert n_data < LARGEST_BLOCK or len({len(grouping) for grouping in groupings}) > 3
    sums = [sum_statistics(state, Reals(x), grouping).statistics for grouping in groupings]
    with ThreadPoolExecutor(2) as pool:
        sums += [sum_statistics(state, Reals(x), groupings[1], pool.map).statistics]
    assert len({found.tobytes() for found in sums}) == 1

    values = np.hstack([x, x**2])
    exact = [[math.fsum(column) for column in values[where == node].T] for node in range(n_nodes)]
    np.testing.assert_allclose(sums[0], exact, rtol=1e-12, atol=1e-9)
    in_turn = np.array([np.cumsum(values[where == node], axis=0)[-1] for node in range(n_nodes)])
    # Another order does have other bits: the comparison above could have failed.
    assert n_data < LARGEST_BLOCK or in_turn.tobytes() != sums[0].tobytes()


@pytest.mark.parametrize("n_dimensions", [1, 7, 8, 9, 24, 256])
@pytest.mark.parametrize("kind", ["gaussian", "bernoulli"])
def test_likelihoods_side_by_side_are_those_one_by_one(kind: str, n_dimensions: int) -> None:
    rng = np.random.default_rng(4)
    one = np.ones(n_dimensions)
    model: Any
    data: Any
    if kind == "gaussian":
        model = Gaussian(0.9, 0.9, 0.9, one, one, one, 0.5 * one, one, one, False, 2.0 * one, 0.3)
        data = Reals(rng.normal(size=(5, n_dimensions)))
    else:
        model = Bernoulli(one, one, one, one, one, 0.1)
        bits = rng.random((5, n_dimensions)) < 0.5
        data = Bits(np.packbits(bits, axis=1, bitorder="little"))
    width = contract.widths(model)[1]
    prepared = np.empty((ABREAST, width))
    for k in range(ABREAST):
        contract.prepare(model, rng.normal(size=n_dimensions), prepared[k])
    side_by_side = np.ascontiguousarray(prepared.T)
    out, alone = np.empty((4, ABREAST)), np.empty((1, ABREAST))
    contract.log_likelihoods(model, data, 1, 5, side_by_side, out)
    for n in range(1, 5):
        expected = [contract.log_likelihood(model, data, n, row) for row in prepared]
        np.testing.assert_allclose(out[n - 1], expected, rtol=1e-12)
        contract.log_likelihoods(model, data, n, n + 1, side_by_side, alone)
        np.testing.assert_array_equal(out[n - 1], alone[0])
