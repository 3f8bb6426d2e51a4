"""Local fits against brute force: what all models share, and those of the Gaussian model.

The weight of a fit is log p(thetas, data, children | parents) - log q(thetas). Whatever q is, the
mean of exp(weight) under q is the marginal likelihood Z, and the mean of exp(weight) / Z times
f(thetas) is the posterior mean of f. Gaussian fits are exact, so their weight is log Z itself, here
computed from the joint covariance of everything. For Bernoulli fits see ``test_logit_fits.py``.

Fewer than 80 comparisons of laws at ``ALARM`` each, with fixed seeds (see ``laws.py``).
"""

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from scipy import integrate, stats

from laws import ALARM
from test_models import (
    N_HERE,
    PARENTS,
    bernoulli_model,
    gaussian_model,
    p_white,
    table_of,
)
from treestick import contract
from treestick._jit import compiled
from treestick.contract import DRAWN, GIVEN, Group
from treestick.random import make_key, open_stream
from treestick.tree.table import NULL

Floats = npt.NDArray[np.float64]
NOTHING = np.empty(0)

SHAPES = [
    (NULL,),
    (NULL, 0),
    (NULL, 0, 1),
    (NULL, 0, 0, 2),
    (NULL, NULL),
    (NULL, NULL, 1, 0, 1, 2),
]
"""Parents within a group: single nodes, chains, trees, and forests with two tops."""


def make_group(
    over: tuple[int, ...],
    above: Floats,
    has_root: bool,
    n_here: Any,
    statistics: Floats,
    below: list[Floats],
) -> Group:
    """Return a group without parameters yet; what is not to be read is nan."""
    top = np.array(over) == NULL
    top[0] &= not has_root
    rows = np.concatenate(below)
    return Group(
        np.array(over), np.where(top[:, np.newaxis], above, np.nan), has_root,
        np.array(n_here, dtype=float), statistics, rows, np.cumsum([len(b) for b in below]),
        np.full(above.shape, np.nan),
    )  # fmt: skip


def parts(group: Group, k: int) -> tuple[Floats, Floats, float, Floats]:
    """Return what there is around node k: above (of a top), below, number of data, statistics."""
    first = group.last_below[k - 1] if k > 0 else 0
    above = NOTHING if k == 0 and group.has_root else group.above[k]
    return above, group.below[first : group.last_below[k]], group.n_here[k], group.statistics[k]


def log_joint(model: Any, group: Group) -> float:
    """Return log p(thetas, data, children | parents), the first part of a weight."""
    total = 0.0
    for k, theta in enumerate(group.theta):
        above, below, n_here, statistics = parts(group, k)
        over = above if group.over[k] == NULL else group.theta[group.over[k]]
        total += contract.log_transition(model, over, theta)
        total += contract.log_likelihood_of_sums(model, theta, n_here, statistics)
        total += sum(contract.log_transition(model, theta, child) for child in below)
    return total


@compiled
def fit_many(
    stream: Any, model: Any, group: Any, theta: Floats, weights: Floats, is_drawn: np.int64
) -> None:
    for k in range(weights.size):
        one = Group(
            group.over, group.above, group.has_root, group.n_here, group.statistics, group.below,
            group.last_below, theta[k],
        )  # fmt: skip
        weights[k] = contract.fit_group(stream, model, one, is_drawn)


def fitted(model: Any, group: Group, n_draws: int) -> tuple[Floats, Floats]:
    """Return draws and their weights; check that nothing changes if they are weighed again."""
    theta, stream = np.full((n_draws, *group.theta.shape), np.nan), open_stream(make_key(1))
    weights, again = np.empty(n_draws), np.empty(n_draws)
    fit_many(stream, model, group, theta, weights, DRAWN)
    kept, untouched = theta.copy(), stream.copy()
    fit_many(stream, model, group, theta, again, GIVEN)
    np.testing.assert_allclose(again, weights, rtol=1e-11, atol=1e-8)
    assert np.array_equal(theta, kept)
    assert np.array_equal(stream, untouched)
    return theta, weights


@pytest.mark.parametrize("n_dimensions", [1, 4, 300])
@pytest.mark.parametrize("make", [gaussian_model, bernoulli_model])
def test_transitions_add_up_to_the_prior(make: Any, n_dimensions: int) -> None:
    """With variances so small and so large that their product leaves the range of floats."""
    rng = np.random.default_rng(n_dimensions)
    model = make(rng, n_dimensions)
    theta = rng.normal(size=(len(PARENTS), n_dimensions))
    for scale in (1.0, 1e-3, 1e3):
        model = model._replace(diffusion=scale * model.diffusion)
        found = contract.log_transition(model, NOTHING, theta[0])
        for k, parent in enumerate(PARENTS[1:], start=1):
            found += contract.log_transition(model, theta[parent], theta[k])
        expected = contract.log_prior(model, table_of(PARENTS, N_HERE), theta)
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-9)


# -- Gaussian --------------------------------------------------------------------------------------


class Known(NamedTuple):
    """A Gaussian vector: nodes of the group, then their children and data, of which values are."""

    mean: Floats
    covariance: Floats
    seen: Floats

    def log_density(self) -> float:
        n = self.mean.size - self.seen.size
        if self.seen.size == 0:
            return 0.0
        law = stats.multivariate_normal(self.mean[n:], self.covariance[n:, n:])
        return float(law.logpdf(self.seen))

    def posterior(self) -> tuple[Floats, Floats]:
        """Return mean and covariance of the nodes."""
        n = self.mean.size - self.seen.size
        gain = np.linalg.solve(self.covariance[n:, n:], self.covariance[n:, :n]).T
        mean = self.mean[:n] + gain @ (self.seen - self.mean[n:])
        return mean, self.covariance[:n, :n] - gain @ self.covariance[n:, :n]


class GaussianCase(NamedTuple):
    """A group and the data that its statistics are of."""

    model: Any
    group: Group
    x: list[Floats]

    def known(self, d: int) -> Known:
        """Everything is a linear function of independent steps: rows hold the coefficients."""
        model, group, eta = self.model, self.group, self.model.persistence
        n_nodes = len(self.x)
        n_all = n_nodes + len(group.below) + sum(map(len, self.x))
        factor, mean, seen = np.zeros((n_all, n_all)), np.zeros(n_all), np.empty(0)
        row = n_nodes
        for k in range(n_nodes):
            above, below = parts(group, k)[:2]
            variance = model.diffusion[d]
            if group.over[k] != NULL:
                factor[k], mean[k] = eta * factor[group.over[k]], eta * mean[group.over[k]]
            elif above.size > 0:
                mean[k] = eta * above[d]
            else:
                variance = model.root_variance[d]
            factor[k, k] = math.sqrt(variance)
            for slope, variance, values in [
                (eta, model.diffusion[d], below[:, d]),
                (1.0, model.noise[d], self.x[k][:, d]),
            ]:
                rows = np.arange(row, row + values.size)
                factor[rows], mean[rows] = slope * factor[k], slope * mean[k]
                factor[rows, rows] = math.sqrt(variance)
                seen = np.append(seen, values)
                row += values.size
        return Known(mean, factor @ factor.T, seen)

    def log_z(self) -> float:
        each = [self.known(d).log_density() for d in range(self.model.noise.size)]
        return math.fsum(each) - sum(map(len, self.x)) * float(self.model.log_scale)


def gaussian_case(
    seed: int, over: tuple[int, ...], n_data: int, n_children: int, eta: float, has_root: bool
) -> GaussianCase:
    """Return a group; each node has none, few or up to so many data and children."""
    rng = np.random.default_rng(seed)
    size = (len(over), 3)
    model = gaussian_model(rng, 3)._replace(persistence=eta)
    below = [2.0 * rng.normal(size=(k, 3)) for k in rng.integers(n_children + 1, size=len(over))]
    counts = rng.integers(n_data + 1, size=len(over)) * rng.integers(2, size=len(over))
    x = [1.0 + rng.normal(size=(n, 3)) for n in counts]
    sums = np.array([[*one.sum(axis=0), *(one**2).sum(axis=0)] for one in x])
    above = 2.0 * rng.normal(size=size)
    return GaussianCase(model, make_group(over, above, has_root, counts, sums, below), x)


GAUSSIAN_CASES = [
    gaussian_case(seed, *case)
    for seed, case in enumerate(
        itertools.product(SHAPES, [0, 1, 30], [0, 3], [1.0, 0.8, 0.0, -0.5], [True, False])
    )
]


def test_gaussian_weights_are_marginal_likelihoods() -> None:
    """They have no spread, whatever theta is; and theta and the stream stay if it is given."""
    rng = np.random.default_rng(1)
    n_data: set[int] = set()
    for case in GAUSSIAN_CASES:
        model, group = case.model, case.group
        stream, expected = open_stream(make_key(1)), pytest.approx(case.log_z(), rel=1e-9, abs=1e-9)
        assert contract.fit_group(stream, model, group, DRAWN) == expected
        assert np.all(np.isfinite(group.theta))
        for theta in (group.theta.copy(), 10.0 * rng.normal(size=group.theta.shape)):
            group.theta[:] = theta
            untouched = stream.copy()
            assert contract.fit_group(stream, model, group, GIVEN) == expected
            assert np.array_equal(group.theta, theta)
            assert np.array_equal(stream, untouched)
        if len(group.over) == 1:
            assert contract.log_evidence(model, *parts(group, 0)) == expected
        n_data.update(map(len, case.x))
    assert {0, 1, 30} <= n_data


@pytest.mark.parametrize("shape", SHAPES)
def test_gaussian_fits_are_drawn_from_the_posterior(shape: tuple[int, ...]) -> None:
    for eta, has_root in [(1.0, False), (0.8, True), (-0.5, False)]:
        case = gaussian_case(7, shape, 5, 2, eta, has_root)
        theta = fitted(case.model, case.group, 3000)[0]
        estimated = np.empty(3)
        contract.estimate(case.model, *parts(case.group, 0), estimated)
        white = np.empty_like(theta)
        for d in range(3):
            mean, covariance = case.known(d).posterior()
            white[:, :, d] = np.linalg.solve(
                np.linalg.cholesky(covariance), (theta[:, :, d] - mean).T
            ).T
            if len(shape) == 1:
                assert estimated[d] == pytest.approx(mean[0], rel=1e-9)
        assert p_white(white.reshape(3000, -1)) > ALARM


def test_gaussian_fits_of_weighted_data() -> None:
    """Numbers of data need not be whole."""
    model = gaussian_model(np.random.default_rng(1), 1)._replace(shared_noise=True)
    around = (np.array([0.4]), np.array([[1.0], [-0.3]]), 1.7, np.array([0.8, 2.0]))
    group = make_group(
        (NULL,), around[0][np.newaxis], False, [1.7], around[3][np.newaxis], [around[1]]
    )

    def density(t: float) -> float:
        group.theta[:] = t
        return math.exp(log_joint(model, group))

    z, _ = integrate.quad(density, -10.0, 10.0, epsabs=0.0, epsrel=1e-10, limit=200)
    expected = pytest.approx(math.log(z), rel=0.0, abs=1e-8)
    assert contract.fit_group(open_stream(make_key(1)), model, group, DRAWN) == expected
    assert contract.log_evidence(model, *around) == expected
