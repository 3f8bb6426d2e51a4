"""Fits of logits, given bits, against exact posteriors: weights, draws, estimates.

These are computed by messages between fine grids, one for each node. Draws of a proposal, weighed
as ``test_fits.py`` says, have to agree with them, and the mean weight with the evidence.

Fewer than 200 comparisons of laws at ``ALARM`` each, with fixed seeds (see ``laws.py``).
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
from scipy import integrate, special, stats

from laws import ALARM, p_mean
from test_fits import NOTHING, Floats, fit_many, fitted, log_joint, make_group, parts
from test_models import bernoulli_model
from treestick import contract
from treestick.contract import DRAWN, GIVEN, Group
from treestick.models.bernoulli import Bernoulli
from treestick.random import make_key, open_stream
from treestick.tree.table import NULL


class BitsCase(NamedTuple):
    """Logits of a group, in one dimension. The root's law is N(-0.7, 3)."""

    diffusion: float
    n: tuple[float, ...]
    ones: tuple[float, ...]
    n_children: tuple[int, ...]
    above: float | None = 0.5
    """Of every top; None if the first one is the root."""
    over: tuple[int, ...] = (NULL,)

    def group(self) -> tuple[Bernoulli, Group]:
        one = np.ones(1)
        diffusion = self.diffusion * one
        model = Bernoulli(diffusion, diffusion, diffusion, -0.7 * one, 3.0 * one, 0.1)
        rng = np.random.default_rng(sum(self.n_children))
        start, spread = self.above or -0.7, math.sqrt(self.diffusion)
        below = [start + spread * rng.normal(size=(k, 1)) for k in self.n_children]
        above = np.full((len(self.over), 1), start)
        ones = np.array(self.ones, dtype=float)[:, np.newaxis]
        return model, make_group(self.over, above, self.above is None, self.n, ones, below)

    def log_own(self, k: int, t: Floats) -> Floats:
        """Return the log of all factors of node k's logit but the one of a parent in the group."""
        above, below, n, (ones,) = parts(self.group()[1], k)
        spread = math.sqrt(self.diffusion)
        result = ones * t - n * np.logaddexp(0.0, t)
        if above.size == 0:
            result += stats.norm.logpdf(t, -0.7, math.sqrt(3.0))
        elif self.over[k] == NULL:
            result += stats.norm.logpdf(t, above[0], spread)
        for child in below[:, 0]:
            result += stats.norm.logpdf(child, t, spread)
        return np.asarray(result)

    def mode_and_spreads(self) -> tuple[Floats, Floats]:
        """Return the joint mode, and standard deviations without data, which are larger ones."""
        group = self.group()[1]
        n, ones = group.n_here, group.statistics[:, 0]
        precision, pull = np.zeros((n.size, n.size)), np.zeros(n.size)
        for k, over in enumerate(self.over):
            above, below = parts(group, k)[:2]
            precision[k, k] += len(below) / self.diffusion
            pull[k] += below.sum() / self.diffusion
            if over != NULL:
                step = np.eye(n.size)[k] - np.eye(n.size)[over]
                precision += np.outer(step, step) / self.diffusion
            else:
                variance = self.diffusion if above.size > 0 else 3.0
                precision[k, k] += 1.0 / variance
                pull[k] += (above[0] if above.size > 0 else -0.7) / variance
        t = np.zeros(n.size)
        for _ in range(2000):
            p = special.expit(t)
            step = np.linalg.solve(
                precision + np.diag(n * p * (1.0 - p)), pull - precision @ t + ones - n * p
            )
            t += step / max(1.0, np.abs(step).max())
        return t, np.sqrt(np.diag(np.linalg.inv(precision)))


class Exact(NamedTuple):
    """Of each node: places and the log density there; mean and variance of the last step to it."""

    grids: list[Floats]
    log_densities: list[Floats]
    steps: list[tuple[float, float]]
    log_z: float


def messages(case: BitsCase, grids: list[Floats]) -> Exact:
    """Pass messages between grids, up and down."""
    nodes, spread = range(len(grids)), math.sqrt(case.diffusion)
    widths = [math.log(grid[1] - grid[0]) for grid in grids]
    known = [case.log_own(k, grids[k]) for k in nodes]
    said, steps = [NOTHING for _ in nodes], [(0.0, 0.0) for _ in nodes]
    log_z = 0.0
    kernels = {
        k: stats.norm.logpdf(grids[k], grids[over][:, np.newaxis], spread)
        for k, over in enumerate(case.over)
        if over != NULL
    }
    for k in reversed(nodes):
        if k in kernels:
            said[k] = special.logsumexp(kernels[k] + known[k], axis=1) + widths[k]
            known[case.over[k]] += said[k]
        else:
            log_z += special.logsumexp(known[k]) + widths[k]
    for k, kernel in kernels.items():
        over = case.over[k]
        pair = kernel + known[k] + (known[over] - said[k])[:, np.newaxis]
        known[k] = special.logsumexp(pair, axis=0) + widths[over]
        step, p = grids[k] - grids[over][:, np.newaxis], special.softmax(pair)
        mean = float(np.sum(p * step))
        steps[k] = mean, float(np.sum(p * (step - mean) ** 2))
    return Exact(grids, known, steps, float(log_z))


def exact(case: BitsCase) -> Exact:
    """Return the posterior on grids that reach as far as it does, and about no farther."""
    n = 20_001 if len(case.n) == 1 else 1001
    grids = [
        np.linspace(mode - 9.0 * spread, mode + 9.0 * spread, n)
        for mode, spread in zip(*case.mode_and_spreads(), strict=True)
    ]
    for _ in range(3):
        found = messages(case, grids)
        for k, values in enumerate(found.log_densities):
            inside = np.flatnonzero(values > values.max() - 40.0)
            left, right = max(inside[0] - 1, 0), min(inside[-1] + 1, n - 1)
            grids[k] = np.linspace(grids[k][left], grids[k][right], n)
    return messages(case, grids)


def deciles(grid: Floats, log_density: Floats) -> Floats:
    cumulated = integrate.cumulative_trapezoid(
        np.exp(log_density - log_density.max()), grid, initial=0
    )
    return np.asarray(np.interp(cumulated[-1] * np.arange(1, 10) / 10.0, cumulated, grid))


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


NODES = [
    BitsCase(1.0, (0,), (0,), (0,)),
    BitsCase(1.0, (1,), (0,), (0,)),
    BitsCase(1.0, (1,), (1,), (5,), None),
    BitsCase(0.1, (20,), (4,), (1,)),
    BitsCase(0.3, (2.5,), (0.7,), (1,)),
    BitsCase(1.0, (5000,), (0,), (0,)),
    BitsCase(0.5, (100_000,), (100_000,), (1,), None),
    BitsCase(1e-4, (5000,), (0,), (1,), 3.0),
    BitsCase(1e-4, (1,), (1,), (5,)),
    BitsCase(30.0, (3,), (1,), (0,), -4.0),
    BitsCase(1e4, (1,), (0,), (0,)),
    BitsCase(1e4, (5000,), (0,), (0,)),
    BitsCase(1e4, (1000,), (400,), (5,)),
    BitsCase(2.0, (0,), (0,), (5,), None),
]
PAIR, FORK, FOREST = (NULL, 0), (NULL, 0, 0, 2), (NULL, NULL, 0, 1, 1)
GROUPS = [
    BitsCase(1.0, (0, 0), (0, 0), (0, 2), 0.5, PAIR),
    BitsCase(1.0, (3, 0), (1, 0), (0, 2), 0.5, PAIR),
    BitsCase(1.0, (0, 1), (0, 0), (0, 0), None, PAIR),
    BitsCase(0.3, (20, 7), (4, 6), (1, 5), 0.5, PAIR),
    BitsCase(0.1, (1, 2.5), (1, 1.9), (5, 0), None, PAIR),
    BitsCase(1.0, (5000, 3), (0, 3), (0, 0), 0.5, PAIR),
    BitsCase(0.5, (2, 5000), (1, 0), (0, 1), 0.5, PAIR),
    BitsCase(1e-4, (1, 100_000), (0, 100_000), (0, 0), 0.5, PAIR),
    BitsCase(1e-4, (5000, 1), (0, 0), (1, 1), 3.0, PAIR),
    BitsCase(30.0, (3, 20), (1, 0), (0, 0), 0.5, PAIR),
    BitsCase(1e4, (5, 9), (2, 3), (0, 1), 0.5, PAIR),
    BitsCase(1.0, (0, 3, 0), (0, 3, 0), (1, 0, 0), -1.0, (NULL, 0, 1)),  # a node of no use
    BitsCase(0.5, (4, 0, 30), (1, 0, 29), (0, 1, 0), None, (NULL, 0, 1)),
    BitsCase(0.7, (0, 6, 1, 40), (0, 6, 0, 3), (0, 1, 0, 2), -1.0, FORK),
    BitsCase(2.0, (1, 1, 1, 1), (0, 1, 1, 0), (0, 0, 0, 0), None, FORK),
    BitsCase(0.4, (2, 9, 0, 5, 100), (2, 1, 0, 0, 90), (0, 2, 1, 0, 0), 1.5, FOREST),
    BitsCase(0.4, (2, 9, 0, 5, 100), (2, 1, 0, 0, 90), (0, 2, 1, 0, 0), None, FOREST),
]


@pytest.mark.parametrize("case", NODES + GROUPS, ids=str)
def test_bernoulli_groups_are_fitted(case: BitsCase) -> None:
    """Weights spread more below a root, whose law is wide and messages to it are less normal."""
    theta, weights = fitted(*case.group(), 20_000)
    known = exact(case)
    relative = np.exp(weights - known.log_z)
    for k, over in enumerate(case.over):
        t, quantiles = theta[:, k, 0], deciles(known.grids[k], known.log_densities[k])
        assert p_importance(relative, t, quantiles) > ALARM
        if over != NULL:
            mean, variance = known.steps[k]
            assert p_mean(relative * (t - theta[:, over, 0] - mean) ** 2, variance) > ALARM
    if case.diffusion < 5.0:
        assert np.std(weights) < (0.01 if len(case.n) == 1 else 0.02 if case.above else 0.1)
    assert np.ptp(weights) < 3.0


@pytest.mark.parametrize("case", NODES, ids=str)
def test_the_proposal_for_a_node_is_a_density(case: BitsCase) -> None:
    """Its integral is 1, tails included; they reach farther than those of the posterior."""
    model, group = case.group()
    near = exact(case).grids[0]
    wide = 4.0 * (near[-1] - near[0])
    grid = np.union1d(near, np.linspace(near[0] - wide, near[-1] + wide, 4001))
    weights = np.empty(grid.size)
    theta = grid[:, np.newaxis, np.newaxis].copy()
    fit_many(open_stream(make_key(1)), model, group, theta, weights, GIVEN)
    assert np.all(np.isfinite(weights))
    density = np.exp(case.log_own(0, grid) - weights)
    assert np.trapezoid(density, grid) == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize("case", NODES, ids=str)
def test_bernoulli_estimates_and_evidence(case: BitsCase) -> None:
    """Estimates are modes; the evidence is good unless diffusion is so wide that bits are walls."""
    model, group = case.group()
    theta, known = np.full(1, np.nan), exact(case)
    contract.estimate(model, *parts(group, 0), theta)
    top = known.log_densities[0].max()
    assert top - case.log_own(0, theta)[0] < 0.5 * 0.05**2 + 1e-6
    away = contract.log_evidence(model, *parts(group, 0)) - known.log_z
    assert abs(away) < (0.03 if case.diffusion < 5.0 else 3.0)


@pytest.mark.parametrize("is_root", [True, False])
@pytest.mark.parametrize("n_nodes", [1, 2, 4, 8])
@pytest.mark.parametrize("n_here", [0, 1, 20, 300])
def test_weights_of_many_dimensions_have_little_spread(
    n_here: int, n_nodes: int, is_root: bool
) -> None:
    """0.06 nats for a node, 0.12 for two, 0.28 for four and for eight; 1 would cost acceptance."""
    rng = np.random.default_rng(1)
    diffusion, one = rng.uniform(0.01, 1.0, 256), np.ones(256)
    model = Bernoulli(diffusion, diffusion, diffusion, 0.0 * one, 3.0 * one, 0.1)
    over = (NULL, 0, 0, 1, 1, 2, 3, 3)[:n_nodes]
    n = [n_here, 5, 1, 30, 0, 2, 100, 1][:n_nodes]
    share = special.expit(2.0 * rng.normal(size=256))
    ones = np.array([rng.binomial(k, share) for k in n], dtype=float)
    below = [rng.normal(size=(k, 256)) for k in (2, 0, 1, 0, 1, 0, 0, 0)[:n_nodes]]
    above = rng.normal(size=(n_nodes, 256))
    weights = fitted(model, make_group(over, above, is_root, n, ones, below), 300)[1]
    assert np.std(weights) < {1: 0.08, 2: 0.16, 4: 0.36, 8: 0.36}[n_nodes]


def test_a_weight_is_the_sum_of_its_parts() -> None:
    """That is log p of the thetas drawn, less log q of their dimensions, each fitted alone."""
    rng = np.random.default_rng(1)
    model, stream = bernoulli_model(rng, 5), open_stream(make_key(1))
    n = np.array([4, 0, 9, 1])
    ones = rng.integers(n[:, np.newaxis] + 1, size=(4, 5)).astype(float)
    below = [rng.normal(size=(k, 5)) for k in (3, 0, 1, 0)]
    above = rng.normal(size=(4, 5))
    for over, is_root in itertools.product([FORK, FOREST[:4]], [True, False]):
        group = make_group(over, above, is_root, n, ones, below)
        expected = -contract.fit_group(stream, model, group, DRAWN) + log_joint(model, group)
        for d in range(5):
            one = model._replace(
                **{
                    name: getattr(model, name)[d : d + 1]
                    for name in ("diffusion", "root_mean", "root_variance")
                }
            )
            alone = make_group(
                over, above[:, d : d + 1], is_root, n, ones[:, d : d + 1].copy(),
                [rows[:, d : d + 1] for rows in below],
            )  # fmt: skip
            alone.theta[:] = group.theta[:, d : d + 1]
            expected -= log_joint(one, alone)
            expected += contract.fit_group(stream, one, alone, GIVEN)
        assert expected == pytest.approx(0.0, abs=1e-9)


def test_nothing_overflows() -> None:
    """Whatever parents, children and bits demand, draws and weights are finite."""
    settings = [[1e-4, 1.0, 1e4], [0.0, 1.0], [-30.0, 0.0, 30.0], [-30.0, 30.0]]
    diffusion, share, start, child = np.array(list(itertools.product(*settings))).T.copy()
    zero = np.zeros(share.size)
    model = Bernoulli(diffusion, diffusion, diffusion, zero, zero + 1e4, 0.1)
    stream = open_stream(make_key(1))
    counts = itertools.product((0.0, 1.0, 1e6), repeat=2)
    for (first, last), is_root, k in itertools.product(counts, (True, False), (0, 1, 5)):
        below = np.tile(child, (k, 1))
        for over in ((NULL,), (NULL, 0), (NULL, 0, 0, 1), (NULL, NULL, 0, 1)):
            m = len(over)
            n = np.array([first, last, 0.0, first])[:m]
            ones = n[:, np.newaxis] * np.stack([share, 1.0 - share, share, share])[:m]
            children = [below, below[:1], below[:0], below][:m]
            group = make_group(over, np.tile(start, (m, 1)), is_root, n, ones, children)
            weight = contract.fit_group(stream, model, group, DRAWN)
            again = contract.fit_group(stream, model, group, GIVEN)
            assert again == pytest.approx(weight, rel=1e-10, abs=1e-6)
            assert np.all(np.abs(group.theta) < 1000.0)
            group.theta[:] = 1000.0
            found = [weight, contract.fit_group(stream, model, group, GIVEN)]
            contract.estimate(model, *parts(group, 0), group.theta[0])
            found.append(contract.log_evidence(model, *parts(group, 0)))
            assert np.all(np.isfinite([*found, *group.theta[0]]))
            assert np.all(np.abs(group.theta[0]) < 1000.0)


def test_proposals_do_not_look_at_what_they_replace() -> None:
    rng = np.random.default_rng(1)
    model, ones = bernoulli_model(rng, 40), rng.integers(10, size=(5, 40)).astype(float)
    below = [rng.normal(size=(2, 40)) for _ in FOREST]
    group = make_group(FOREST, rng.normal(size=(5, 40)), False, [9] * 5, ones, below)
    results = []
    for start in (0.0, 7.0):
        group.theta[:] = start
        theta, stream = np.full(40, start), open_stream(make_key(1))
        contract.estimate(model, *parts(group, 1), theta)
        weight = contract.fit_group(stream, model, group, DRAWN)
        results.append([weight, *theta, *group.theta.ravel()])
    assert results[0] == results[1]


@pytest.mark.parametrize("case", [NODES[3], GROUPS[3]], ids=str)
def test_a_weight_that_is_off_by_a_thousandth_is_found_out(case: BitsCase) -> None:
    theta, weights = fitted(*case.group(), 20_000)
    known = exact(case)
    quantiles = deciles(known.grids[-1], known.log_densities[-1])
    t, relative = theta[:, -1, 0], np.exp(weights - known.log_z)
    assert p_importance(relative * math.exp(1e-3), t, quantiles) < ALARM
    assert p_importance(relative, t + 0.02, quantiles) < ALARM
