"""Local fits of node models against brute force: weights, draws, estimates.

The weight of a fit is log p(theta, data, children | parent) - log q(theta). Whatever q is, the mean
of exp(weight) under q is the marginal likelihood Z, and the mean of exp(weight) / Z times f(theta)
is the posterior mean of f. Gaussian fits are exact, so their weight is log Z itself, here computed
from the joint covariance of data and children. Z of Bernoulli fits is computed on fine grids.

Fewer than 150 comparisons of laws at ``ALARM`` each, with fixed seeds (see ``laws.py``).
"""

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from scipy import integrate, special, stats

from laws import ALARM, p_mean
from test_models import N_HERE, PARENTS, bernoulli_model, gaussian_model, table_of
from treestick import contract
from treestick._jit import compiled
from treestick.diffusions import loglinear
from treestick.models.bernoulli import Bernoulli
from treestick.models.gaussian import Gaussian
from treestick.random import make_key, open_stream

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator
NOTHING = np.empty(0)


# -- transitions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_dimensions", [1, 4, 300])
@pytest.mark.parametrize("name", ["gaussian", "bernoulli"])
def test_transitions_add_up_to_the_prior(name: str, n_dimensions: int) -> None:
    """With variances so small and so large that their product leaves the range of floats."""
    rng = np.random.default_rng(n_dimensions)
    make: Any = gaussian_model if name == "gaussian" else bernoulli_model
    model = make(rng, n_dimensions)
    theta = rng.normal(size=(len(PARENTS), n_dimensions))
    for scale in (1.0, 1e-3, 1e3):
        model = model._replace(diffusion=scale * model.diffusion)
        found = contract.log_transition(model, NOTHING, theta[0])
        for k, parent in enumerate(PARENTS[1:], start=1):
            found += contract.log_transition(model, theta[parent], theta[k])
        expected = contract.log_prior(model, table_of(PARENTS, N_HERE), theta)
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-9)


def log_joint(
    model: Any, above: Floats, below: Floats, n: float, statistics: Floats, theta: Floats
) -> float:
    """Return log p(theta, data, children | parent), the first part of a weight."""
    total = contract.log_transition(model, above, theta)
    total += contract.log_likelihood_of_sums(model, theta, n, statistics)
    return float(total + sum(contract.log_transition(model, theta, child) for child in below))


# -- Gaussian --------------------------------------------------------------------------------------


class Known(NamedTuple):
    """A Gaussian vector (upper, lower, children and data of upper, those of lower), one dimension.

    ``seen`` are the values of what is neither upper nor lower.
    """

    mean: Floats
    covariance: Floats
    seen: Floats

    def log_density(self) -> float:
        if self.seen.size == 0:
            return 0.0
        return float(
            stats.multivariate_normal.logpdf(self.seen, self.mean[2:], self.covariance[2:, 2:])
        )

    def posterior(self) -> tuple[Floats, Floats]:
        """Return mean and covariance of (upper, lower)."""
        if self.seen.size == 0:
            return self.mean[:2], self.covariance[:2, :2]
        gain = np.linalg.solve(self.covariance[2:, 2:], self.covariance[2:, :2]).T
        mean = self.mean[:2] + gain @ (self.seen - self.mean[2:])
        return mean, self.covariance[:2, :2] - gain @ self.covariance[2:, :2]


class GaussianCase(NamedTuple):
    """Neighbours and data of a pair of nodes; of a single one if only the upper part is used."""

    model: Gaussian
    above: Floats
    below: tuple[Floats, Floats]
    x: tuple[Floats, Floats]

    def statistics(self, which: int) -> Floats:
        x = self.x[which]
        return np.concatenate([x.sum(axis=0), (x**2).sum(axis=0)])

    def known(self, d: int, n_nodes: int) -> Known:
        model = self.model
        prior = model.root_variance[d] if self.above.size == 0 else model.diffusion[d]
        start = 0.0 if self.above.size == 0 else model.persistence * self.above[d]
        # Everything is a linear function of independent steps: rows hold the coefficients.
        n_seen = sum(len(self.below[i]) + len(self.x[i]) for i in range(n_nodes))
        factor = np.zeros((2 + n_seen, 2 + n_seen))
        factor[0, 0] = math.sqrt(prior)
        factor[1] = model.persistence * factor[0]
        factor[1, 1] = math.sqrt(model.diffusion[d])
        mean = np.array([start, model.persistence * start] + n_seen * [0.0])
        row = 2
        for i in range(n_nodes):
            steps = [(model.persistence, model.diffusion[d])] * len(self.below[i])
            steps += [(1.0, model.noise[d])] * len(self.x[i])
            for slope, variance in steps:
                factor[row] = slope * factor[i]
                factor[row, row] = math.sqrt(variance)
                mean[row] = slope * mean[i]
                row += 1
        parts = [[*self.below[i][:, d], *self.x[i][:, d]] for i in range(n_nodes)]
        return Known(mean, factor @ factor.T, np.concatenate([*parts, []]))

    def log_z(self, n_nodes: int) -> float:
        n_data = sum(len(self.x[i]) for i in range(n_nodes))
        each = [self.known(d, n_nodes).log_density() for d in range(self.model.noise.size)]
        return math.fsum(each) - n_data * self.model.log_scale

    def fit_node(self, stream: Any, theta: Floats, is_drawn: bool = True) -> float:
        return float(
            contract.fit_node(
                stream, self.model, self.above, self.below[0], len(self.x[0]), self.statistics(0),
                theta, is_drawn,
            )
        )  # fmt: skip

    def fit_pair(self, stream: Any, upper: Floats, lower: Floats, is_drawn: bool = True) -> float:
        return float(
            contract.fit_pair(
                stream, self.model, self.above, *self.below, len(self.x[0]), self.statistics(0),
                len(self.x[1]), self.statistics(1), upper, lower, is_drawn,
            )
        )  # fmt: skip


def gaussian_case(
    seed: int, n_children: tuple[int, int], n_data: tuple[int, int], persistence: float, root: bool
) -> GaussianCase:
    n_dimensions = 3
    rng = np.random.default_rng(seed)
    model = gaussian_model(rng, n_dimensions)._replace(persistence=persistence)
    above = NOTHING if root else 2.0 * rng.normal(size=n_dimensions)
    below = [2.0 * rng.normal(size=(k, n_dimensions)) for k in n_children]
    x = [1.0 + rng.normal(size=(n, n_dimensions)) for n in n_data]
    return GaussianCase(model, above, (below[0], below[1]), (x[0], x[1]))


GAUSSIAN_CASES = [
    gaussian_case(k, *case)
    for k, case in enumerate(
        itertools.product([(0, 0), (0, 2), (1, 0), (5, 3)], [(0, 0), (1, 0), (0, 4), (30, 7)],
                          [1.0, 0.8, 0.0, -0.5], [True, False])
    )
]  # fmt: skip


def test_gaussian_weights_are_marginal_likelihoods() -> None:
    stream = open_stream(make_key(1))
    for case in GAUSSIAN_CASES:
        one, two = np.full((2, 3), np.nan)
        expected = case.log_z(1)
        assert case.fit_node(stream, one) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        expected = case.log_z(2)
        assert case.fit_pair(stream, one, two) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert np.all(np.isfinite([one, two]))


def test_gaussian_weights_have_no_spread() -> None:
    """Neither with theta, nor with its being drawn; theta and the stream then stay as they are."""
    rng = np.random.default_rng(1)
    stream = open_stream(make_key(1))
    for case in GAUSSIAN_CASES[::7]:
        drawn = np.empty((2, 3))
        node, pair = case.fit_node(stream, drawn[0]), case.fit_pair(stream, drawn[0], drawn[1])
        for theta in (drawn, 10.0 * rng.normal(size=(2, 3))):
            kept, untouched = theta.copy(), stream.copy()
            again = case.fit_node(stream, theta[0], False)
            assert again == pytest.approx(node, rel=1e-12, abs=1e-12)
            again = case.fit_pair(stream, theta[0], theta[1], False)
            assert again == pytest.approx(pair, rel=1e-12, abs=1e-12)
            assert np.array_equal(theta, kept)
            assert np.array_equal(stream, untouched)


@pytest.mark.parametrize("k", [26, 53, 91, 124])
def test_gaussian_fits_are_drawn_from_the_posterior(k: int) -> None:
    case = GAUSSIAN_CASES[k]
    stream = open_stream(make_key(k))
    nodes, pairs = np.full((3000, 3), np.nan), np.full((3000, 2, 3), np.nan)
    estimated = np.full(3, np.nan)
    statistics = case.statistics(0)
    contract.estimate(case.model, case.above, case.below[0], len(case.x[0]), statistics, estimated)
    for node, pair in zip(nodes, pairs, strict=True):
        case.fit_node(stream, node)
        case.fit_pair(stream, pair[0], pair[1])
    for d in range(3):
        mean, covariance = case.known(d, 1).posterior()
        assert estimated[d] == pytest.approx(mean[0], rel=1e-9)
        z = (nodes[:, d] - mean[0]) / math.sqrt(covariance[0, 0])
        assert stats.kstest(z, "norm").pvalue > ALARM
        mean, covariance = case.known(d, 2).posterior()
        white = np.linalg.solve(np.linalg.cholesky(covariance), (pairs[:, :, d] - mean).T)
        for z in (*white, (white[0] + white[1]) / math.sqrt(2.0)):
            assert stats.kstest(z, "norm").pvalue > ALARM


def test_gaussian_fits_of_weighted_data() -> None:
    """Numbers of data need not be whole."""
    model = gaussian_model(np.random.default_rng(1), 1)._replace(shared_noise=True)
    above, below = np.array([0.4]), np.array([[1.0], [-0.3]])
    statistics = np.array([0.8, 2.0])

    def density(t: float) -> float:
        return math.exp(log_joint(model, above, below, 1.7, statistics, np.array([t])))

    z, _ = integrate.quad(density, -10.0, 10.0, epsabs=0.0, epsrel=1e-10, limit=200)
    theta = np.empty(1)
    found = contract.fit_node(
        open_stream(make_key(1)), model, above, below, 1.7, statistics, theta, True
    )
    assert found == pytest.approx(math.log(z), rel=0.0, abs=1e-8)


# -- polygons --------------------------------------------------------------------------------------


@compiled
def draw_many(stream: Any, polygon: Floats, out: Floats) -> None:
    for k in range(out.shape[0]):
        out[k, 0], out[k, 1] = loglinear.draw(stream, polygon)


@pytest.mark.parametrize(
    ("places", "values", "slopes"),
    [
        ([-3.0, -1.0, 0.0, 1.0, 3.0], [-4.5, -0.5, 0.0, -0.5, -4.5], [3.0, 1.0, 0.0, -1.0, -3.0]),
        ([0.0, 1.0, 2.0], [7.0, 7.0, 7.0], [1.0, 0.0, -2.0]),  # flat
        ([-1.0, 0.0, 5.0, 9.0, 9.5], [-9.0, -1e-9, 0.0, 1e-5, -50.0], [9.0, 0.0, 0.0, 0.0, -300.0]),
        (
            [4.0, 5.0, 6.0],
            [0.0, 0.5, 1.0],
            [0.5, 0.5, 0.5],
        ),  # rises for ever: tails fall in any case
    ],
)
def test_a_polygon_is_drawn_from_and_has_its_density(
    places: list[float], values: list[float], slopes: list[float]
) -> None:
    polygon = loglinear.make_polygon(len(places))
    loglinear.fill_polygon(np.array([places, values, slopes]), polygon)
    corners = polygon[loglinear.CORNERS, :-1]
    assert np.all(np.diff(corners) > 0.0)
    tails = 40.0 / polygon[loglinear.TAILS, :2]
    edges = [corners[0] - tails[0], *corners, corners[-1] + tails[1]]
    grid = np.unique(
        np.concatenate([np.linspace(a, b, 4001) for a, b in itertools.pairwise(edges)])
    )
    density = np.exp([loglinear.log_density(polygon, x) for x in grid])
    cumulated = integrate.cumulative_trapezoid(density, grid, initial=0)
    assert cumulated[-1] == pytest.approx(1.0, rel=1e-4)
    drawn = np.empty((20_000, 2))
    draw_many(open_stream(make_key(1)), polygon, drawn)
    assert stats.kstest(drawn[:, 0], lambda x: np.interp(x, grid, cumulated)).pvalue > ALARM
    again = [loglinear.log_density(polygon, x) for x in drawn[:, 0]]
    np.testing.assert_allclose(drawn[:, 1], again, rtol=0.0, atol=1e-9)


# -- Bernoulli -------------------------------------------------------------------------------------


class BitsCase(NamedTuple):
    """One logit: variance of the step, number of data and of ones, of children, parent's logit."""

    diffusion: float
    n: float
    ones: float
    n_children: int = 0
    above: float | None = 0.5  # None at the root

    def arguments(self) -> tuple[Bernoulli, Floats, Floats]:
        """Return model, parent and children."""
        one = np.ones(1)
        diffusion = self.diffusion * one
        model = Bernoulli(diffusion, diffusion, diffusion, -0.7 * one, 3.0 * one, 0.1)
        rng = np.random.default_rng(self.n_children)
        start = -0.7 if self.above is None else self.above
        below = start + math.sqrt(self.diffusion) * rng.normal(size=(self.n_children, 1))
        return model, NOTHING if self.above is None else np.array([self.above]), below

    def log_density(self, t: Floats) -> Floats:
        """Return log p(t, data, children | parent)."""
        below = self.arguments()[2]
        spread = math.sqrt(self.diffusion)
        if self.above is None:
            result = stats.norm.logpdf(t, -0.7, math.sqrt(3.0))
        else:
            result = stats.norm.logpdf(t, self.above, spread)
        for child in below[:, 0]:
            result = result + stats.norm.logpdf(child, t, spread)
        return np.asarray(result + self.ones * t - self.n * np.logaddexp(0.0, t))


CASES = [
    BitsCase(1.0, 0, 0),
    BitsCase(1.0, 1, 0),
    BitsCase(1.0, 1, 1, 5, None),
    BitsCase(0.1, 20, 4, 1),
    BitsCase(0.3, 2.5, 0.7, 1),
    BitsCase(1.0, 5000, 0),
    BitsCase(0.5, 100_000, 100_000, 1, None),
    BitsCase(1e-4, 5000, 0, 1, 3.0),
    BitsCase(1e-4, 1, 1, 5),
    BitsCase(30.0, 3, 1, 0, -4.0),
    BitsCase(1e4, 1, 0),
    BitsCase(1e4, 5000, 0),
    BitsCase(1e4, 1000, 400, 5),
    BitsCase(2.0, 0, 0, 5, None),
]


def zoomed(log_density: Any, low: float, high: float, n: int) -> Floats:
    """Return a grid where a concave log density is within 40 of its top, and about no farther."""
    grid = np.linspace(low, high, n)
    for _ in range(12):
        values = log_density(grid)
        inside = np.flatnonzero(values > values.max() - 40.0)
        left, right = max(inside[0] - 1, 0), min(inside[-1] + 1, n - 1)
        grid = np.linspace(grid[left], grid[right], n)
    return grid


def p_importance(weights: Floats, draws: Floats, quantiles: Floats) -> float:
    """p-value that weights have the mean 1 and turn draws into the law with these deciles.

    If all weights are equal, as those of exact draws are, only the draws are left to be compared.
    """
    below = (draws[:, np.newaxis] < quantiles).astype(float)
    columns = weights[:, np.newaxis] * np.diff(below, axis=1, prepend=0.0)
    away = columns.mean(axis=0) - 0.1
    covariance = np.cov(columns.T) / len(columns)
    p = float(stats.chi2.sf(away @ np.linalg.solve(covariance, away), away.size))
    if np.ptp(weights) < 1e-7:
        assert weights[0] == pytest.approx(1.0, rel=1e-7)
        return p
    return min(p, p_mean(weights, 1.0))


def deciles(grid: Floats, log_density: Floats) -> tuple[float, Floats]:
    """Return log Z and the deciles of a density on a grid."""
    top = log_density.max()
    cumulated = integrate.cumulative_trapezoid(np.exp(log_density - top), grid, initial=0)
    tenths = cumulated[-1] * np.arange(1, 10) / 10.0
    return top + math.log(cumulated[-1]), np.interp(tenths, cumulated, grid)


@compiled
def fit_many(
    stream: Any,
    model: Any,
    above: Floats,
    below: Floats,
    n: float,
    statistics: Floats,
    theta: Floats,
    weights: Floats,
    is_drawn: bool,
) -> None:
    for k in range(weights.size):
        weights[k] = contract.fit_node(
            stream, model, above, below, n, statistics, theta[k], is_drawn
        )


def fitted_nodes(case: BitsCase, n_draws: int) -> tuple[Floats, Floats]:
    """Return draws and their weights; check that nothing changes if they are weighed again."""
    model, above, below = case.arguments()
    theta, weights, again = np.full((n_draws, 1), np.nan), np.empty(n_draws), np.empty(n_draws)
    stream, ones = open_stream(make_key(1)), np.array([case.ones], dtype=float)
    fit_many(stream, model, above, below, float(case.n), ones, theta, weights, True)
    kept, untouched = theta.copy(), stream.copy()
    fit_many(stream, model, above, below, float(case.n), ones, theta, again, False)
    np.testing.assert_allclose(again, weights, rtol=1e-11, atol=1e-8)
    assert np.array_equal(theta, kept)
    assert np.array_equal(stream, untouched)
    return theta[:, 0], weights


@pytest.mark.parametrize("case", CASES, ids=str)
def test_bernoulli_nodes_are_fitted(case: BitsCase) -> None:
    theta, weights = fitted_nodes(case, 20_000)
    grid = zoomed(case.log_density, -2000.0, 2000.0, 40_001)
    log_z, quantiles = deciles(grid, case.log_density(grid))
    assert p_importance(np.exp(weights - log_z), theta, quantiles) > ALARM
    if case.diffusion < 5.0:
        assert np.std(weights) < 0.01
    assert np.ptp(weights) < 3.0


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_proposal_for_a_node_is_a_density(case: BitsCase) -> None:
    """Its integral is 1, tails included; they reach farther than those of the posterior."""
    model, above, below = case.arguments()
    near = zoomed(case.log_density, -2000.0, 2000.0, 40_001)
    wide = 4.0 * (near[-1] - near[0])
    far = np.linspace(near[0] - wide, near[-1] + wide, 4001)
    grid = np.unique(np.concatenate([near, far]))
    weights = np.empty(grid.size)
    fit_many(
        open_stream(make_key(1)), model, above, below, float(case.n),
        np.array([case.ones], dtype=float), grid[:, np.newaxis].copy(), weights, False,
    )  # fmt: skip
    assert np.all(np.isfinite(weights))
    density = np.exp(case.log_density(grid) - weights)
    assert np.trapezoid(density, grid) == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_bernoulli_estimates_are_modes(case: BitsCase) -> None:
    model, above, below = case.arguments()
    theta = np.full(1, np.nan)
    contract.estimate(model, above, below, float(case.n), np.array([case.ones], dtype=float), theta)
    grid = zoomed(case.log_density, -2000.0, 2000.0, 40_001)
    values = case.log_density(grid)
    assert values.max() - case.log_density(theta)[0] < 0.5 * 0.05**2 + 1e-6


class PairCase(NamedTuple):
    """An upper logit, and data and number of children of the lower one."""

    upper: BitsCase
    n: float
    ones: float
    n_children: int = 0

    def below(self) -> Floats:
        rng = np.random.default_rng(10 + self.n_children)
        start = -0.7 if self.upper.above is None else self.upper.above
        spread = math.sqrt(2.0 * self.upper.diffusion)
        return np.asarray(start + spread * rng.normal(size=(self.n_children, 1)))

    def log_density(self, t: Floats, step: Floats) -> Floats:
        """Return the log joint density of upper = t and lower = t + step."""
        v, spread = t + step, math.sqrt(self.upper.diffusion)
        result = self.upper.log_density(t) + stats.norm.logpdf(step, 0.0, spread)
        for child in self.below()[:, 0]:
            result = result + stats.norm.logpdf(child, v, spread)
        return np.asarray(result + self.ones * v - self.n * np.logaddexp(0.0, v))

    def grid(self, n: int = 1201) -> tuple[Floats, Floats]:
        """Return places of t (a column) and of lower - upper (a row) where the density is."""
        reach = 500.0 + 60.0 * math.sqrt(self.upper.diffusion)
        t, step = np.linspace(-reach, reach, n), np.linspace(-reach, reach, n)
        for _ in range(12):
            values = self.log_density(t[:, np.newaxis], step)
            inside = values > values.max() - 40.0
            for axis in (1, 0):
                found = np.flatnonzero(inside.any(axis=axis))
                left, right = max(found[0] - 1, 0), min(found[-1] + 1, n - 1)
                if axis == 1:
                    t = np.linspace(t[left], t[right], n)
                else:
                    step = np.linspace(step[left], step[right], n)
        return t[:, np.newaxis], step


PAIRS = [
    PairCase(BitsCase(1.0, 0, 0), 0, 0, 2),
    PairCase(BitsCase(1.0, 3, 1), 0, 0, 2),
    PairCase(BitsCase(1.0, 0, 0, 0, None), 1, 0),
    PairCase(BitsCase(0.3, 20, 4, 1), 7, 6, 5),
    PairCase(BitsCase(0.1, 1, 1, 5, None), 2.5, 1.9),
    PairCase(BitsCase(1.0, 5000, 0), 3, 3),
    PairCase(BitsCase(0.5, 2, 1), 5000, 0, 1),
    PairCase(BitsCase(1e-4, 1, 0), 100_000, 100_000),
    PairCase(BitsCase(1e-4, 5000, 0, 1, 3.0), 1, 0, 1),
    PairCase(BitsCase(30.0, 3, 1), 20, 0),
    PairCase(BitsCase(1e4, 5, 2), 9, 3, 1),
]


@compiled
def fit_many_pairs(
    stream: Any,
    model: Any,
    above: Floats,
    below_upper: Floats,
    below_lower: Floats,
    n: Floats,
    ones: Floats,
    theta: Floats,
    weights: Floats,
    is_drawn: bool,
) -> None:
    for k in range(weights.size):
        weights[k] = contract.fit_pair(
            stream, model, above, below_upper, below_lower,
            n[0], ones[0], n[1], ones[1], theta[k, 0], theta[k, 1], is_drawn,
        )  # fmt: skip


@pytest.mark.parametrize("case", PAIRS, ids=str)
def test_bernoulli_pairs_are_fitted(case: PairCase) -> None:
    n_draws = 20_000
    model, above, below = case.upper.arguments()
    n = np.array([case.upper.n, case.n], dtype=float)
    ones = np.array([[case.upper.ones], [case.ones]], dtype=float)
    theta, weights = np.full((n_draws, 2, 1), np.nan), np.empty(n_draws)
    again, stream = np.empty(n_draws), open_stream(make_key(1))
    both = (stream, model, above, below, case.below(), n, ones, theta)
    fit_many_pairs(*both, weights, True)
    kept, untouched = theta.copy(), stream.copy()
    fit_many_pairs(*both, again, False)
    np.testing.assert_allclose(again, weights, rtol=1e-11, atol=1e-8)
    assert np.array_equal(theta, kept)
    assert np.array_equal(stream, untouched)

    t, step = case.grid()
    values = case.log_density(t, step)
    top = values.max()
    density = np.exp(values - top)
    marginal = np.trapezoid(density, step, axis=1)
    log_z, quantiles = deciles(t[:, 0], np.log(np.maximum(marginal, 1e-300)))
    relative = np.exp(weights - log_z - top)
    assert p_importance(relative, theta[:, 0, 0], quantiles) > ALARM
    marginal = np.trapezoid(density, t, axis=0)
    _, quantiles = deciles(step, np.log(np.maximum(marginal, 1e-300)))
    assert p_importance(relative, theta[:, 1, 0] - theta[:, 0, 0], quantiles) > ALARM
    if case.upper.diffusion < 5.0:
        assert np.std(weights) < 0.015
    assert np.ptp(weights) < 3.0


def many_bits(rng: Rng, n: int, n_dimensions: int) -> Floats:
    share = special.expit(2.0 * rng.normal(size=n_dimensions))
    return rng.binomial(n, share).astype(float)


@pytest.mark.parametrize("n", [(1, 1), (5, 30), (0, 20), (300, 20)])
@pytest.mark.parametrize("is_root", [True, False])
def test_weights_of_many_dimensions_have_little_spread(is_root: bool, n: tuple[int, int]) -> None:
    """Over 256 dimensions 0.06 nats for a node and 0.08 for a pair; 0.3 would cost acceptance."""
    rng = np.random.default_rng(1)
    diffusion, one = rng.uniform(0.01, 1.0, 256), np.ones(256)
    model = Bernoulli(diffusion, diffusion, diffusion, 0.0 * one, 3.0 * one, 0.1)
    above = NOTHING if is_root else 2.0 * rng.normal(size=256)
    below = rng.normal(size=(2, 256))
    upper, lower = many_bits(rng, n[0], 256), many_bits(rng, n[1], 256)
    theta, weights = np.empty((300, 2, 256)), np.empty(300)
    stream = open_stream(make_key(1))
    fit_many(stream, model, above, below, float(n[0]), upper, theta[:, 0].copy(), weights, True)
    assert np.std(weights) < 0.12
    fit_many_pairs(
        stream, model, above, below, below[:0], np.array(n, dtype=float), np.array([upper, lower]),
        theta, weights, True,
    )  # fmt: skip
    assert np.std(weights) < 0.15


def test_a_weight_is_the_sum_of_its_parts() -> None:
    """That is log p of the theta drawn, less log q of its dimensions, each fitted alone."""
    rng = np.random.default_rng(1)
    model = bernoulli_model(rng, 5)
    above, below = rng.normal(size=5), rng.normal(size=(3, 5))
    ones = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    stream, theta = open_stream(make_key(1)), np.empty(5)
    weight = contract.fit_node(stream, model, above, below, 4, ones, theta, True)
    log_q = 0.0
    for d in range(5):
        one = model._replace(
            diffusion=model.diffusion[d : d + 1],
            root_mean=model.root_mean[d : d + 1],
            root_variance=model.root_variance[d : d + 1],
        )
        rows = (above[d : d + 1], below[:, d : d + 1].copy(), 4, ones[d : d + 1], theta[d : d + 1])
        log_q += log_joint(one, *rows) - contract.fit_node(stream, one, *rows, False)
    expected = log_joint(model, above, below, 4, ones, theta) - log_q
    assert weight == pytest.approx(expected, rel=0.0, abs=1e-9)


def test_nothing_overflows() -> None:
    """Whatever parent, children and bits demand, draws and weights are finite."""
    settings = [[1e-4, 1.0, 1e4], [0.0, 1.0], [-30.0, 0.0, 30.0], [-30.0, 30.0]]
    diffusion, share, above, child = np.array(list(itertools.product(*settings))).T.copy()
    n_dimensions = share.size
    zero = np.zeros(n_dimensions)
    model = Bernoulli(diffusion, diffusion, diffusion, zero, zero + 1e4, 0.1)
    stream = open_stream(make_key(1))
    for n_here, parent, k in itertools.product((0.0, 1.0, 1e5), (above, NOTHING), (0, 1, 5)):
        node = (parent, np.tile(child, (k, 1)), n_here, n_here * share)
        theta = np.full((4, n_dimensions), np.nan)
        contract.estimate(model, *node, theta[0])
        found = [contract.fit_node(stream, model, *node, theta[1], True)]
        for other in (0.0, 1.0, 1e5):
            pair = (parent, node[1], node[1][:1], *node[2:], other, other * (1.0 - share))
            found.append(contract.fit_pair(stream, model, *pair, theta[2], theta[3], True))
            again = contract.fit_pair(stream, model, *pair, theta[2], theta[3], False)
            assert again == pytest.approx(found[-1], rel=1e-10, abs=1e-6)
        found.append(contract.fit_node(stream, model, *node, zero + 1000.0, False))
        assert np.all(np.isfinite(found))
        assert np.all(np.abs(theta) < 1000.0)


def test_proposals_do_not_look_at_what_they_replace() -> None:
    rng = np.random.default_rng(1)
    model = bernoulli_model(rng, 40)
    above, below, ones = rng.normal(size=40), rng.normal(size=(2, 40)), many_bits(rng, 9, 40)
    results = []
    for start in (0.0, 7.0):
        theta = np.full((4, 40), start)
        stream = open_stream(make_key(1))
        contract.estimate(model, above, below, 9, ones, theta[0])
        weight = contract.fit_node(stream, model, above, below, 9, ones, theta[1], True)
        pair = (above, below, below, 9, ones, 9, ones)
        weight += contract.fit_pair(stream, model, *pair, theta[2], theta[3], True)
        results.append([weight, *theta.ravel()])
    assert results[0] == results[1]


def test_a_weight_that_is_off_by_a_thousandth_is_found_out() -> None:
    case = CASES[3]
    theta, weights = fitted_nodes(case, 20_000)
    grid = zoomed(case.log_density, -2000.0, 2000.0, 40_001)
    log_z, quantiles = deciles(grid, case.log_density(grid))
    assert p_importance(np.exp(weights - log_z + 1e-3), theta, quantiles) < ALARM
    assert p_importance(np.exp(weights - log_z), theta + 0.02, quantiles) < ALARM
