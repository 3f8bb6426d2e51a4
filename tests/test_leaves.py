"""Nodes without children in predictions: their parameters integrated out, against slow code."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

from joint import counts_of
from laws import ALARM, p_law, p_mean
from treestick import contract
from treestick.diffusions.hdp import Drawn
from treestick.models.bernoulli import Bernoulli, Bits
from treestick.models.gaussian import Gaussian, Reals
from treestick.models.hdp import Measures
from treestick.models.multinomial import Multinomial
from treestick.random import make_key, open_stream

NONE = np.empty(0)
ONE = np.ones(1)


def prepared_leaf(model: Any, above: Any, n_here: float, statistics: Any, width: int) -> Any:
    prepared = np.empty(contract.widths(model)[1])
    theta = np.full(width, np.nan)  # not to be read
    contract.prepare_leaf(model, above, n_here, statistics, theta, prepared)
    return prepared


@pytest.mark.parametrize("has_parent", [True, False])
def test_reals(has_parent: bool) -> None:
    model = Gaussian(0.7, 0.7, 0.7, 0.8 * ONE, ONE, ONE, 0.5 * ONE, ONE, ONE, False, 2.0 * ONE, 0.3)
    above = np.array([1.5]) if has_parent else NONE
    centre, variance = (0.7 * 1.5, 0.8) if has_parent else (0.0, 2.0)
    x = np.array([0.4, -1.0, 2.0])
    prepared = prepared_leaf(model, above, 3.0, np.array([x.sum(), (x**2).sum()]), 1)
    cov = variance * np.ones((4, 4)) + 0.5 * np.eye(4)
    joint = stats.multivariate_normal(np.full(4, centre), cov)
    before = stats.multivariate_normal(np.full(3, centre), cov[:3, :3]).logpdf(x)
    for new in (-3.0, 0.2, 1.7):
        expected = joint.logpdf([*x, new]) - before - 0.3
        found = contract.log_likelihood(model, Reals(np.array([[new]])), 0, prepared)
        assert found == pytest.approx(expected, rel=1e-9)
    stream, theta, drawn = open_stream(make_key(1)), np.empty(1), []
    for _ in range(5000):
        contract.draw_leaf(stream, model, above, 3.0, np.array([x.sum(), 0.0]), theta)
        drawn.append(theta[0])
    mean = (centre / variance + x.sum() / 0.5) / (1.0 / variance + 6.0)
    assert p_mean(drawn, mean) > ALARM
    assert p_mean((np.array(drawn) - mean) ** 2, 1.0 / (1.0 / variance + 6.0)) > ALARM


@pytest.mark.parametrize("above", [-4.0, 0.3, 6.0, None])
@pytest.mark.parametrize("diffusion", [0.01, 1.0, 4.0, 400.0])
@pytest.mark.parametrize(
    ("ones", "n"), [(0, 1), (1, 1), (3, 3), (2, 40), (400, 1000), (1000, 1000)]
)
def test_bits(above: float | None, diffusion: float, ones: int, n: int) -> None:
    model = Bernoulli(diffusion * ONE, ONE, ONE, 0.5 * ONE, 2.0 * ONE, 0.1)
    mean, variance = (0.5, 2.0) if above is None else (above, diffusion)
    parent = NONE if above is None else np.array([above])

    def log_p(t: Any) -> Any:
        data = ones * special.log_expit(t) + (n - ones) * special.log_expit(-t)
        return data - 0.5 * (t - mean) ** 2 / variance

    grid = np.linspace(-400.0, 400.0, 800_001)
    logs = log_p(grid)
    weights = np.exp(logs - logs.max())
    expected = integrate.trapezoid(weights * special.expit(grid)) / integrate.trapezoid(weights)
    prepared = prepared_leaf(model, parent, float(n), np.array([float(ones)]), 1)
    data = Bits(np.array([[1], [0]], dtype=np.uint8))
    one = math.exp(contract.log_likelihood(model, data, 0, prepared))
    zero = math.exp(contract.log_likelihood(model, data, 1, prepared))
    assert one + zero == pytest.approx(1.0, abs=1e-12)
    assert one == pytest.approx(expected, rel=1e-6)
    rare = integrate.trapezoid(weights * special.expit(-grid)) / integrate.trapezoid(weights)
    assert zero == pytest.approx(rare, rel=1e-6)
    theta = np.empty(1)
    contract.draw_leaf(open_stream(make_key(1)), model, parent, float(n), ones * ONE, theta)
    assert special.expit(theta[0]) == pytest.approx(one, rel=1e-9)


@pytest.mark.parametrize(
    ("above", "diffusion", "ones", "n"),
    [
        (-3000.0, 1e6, 0, 1),
        (-1500.0, 1e5, 0, 10),
        (1500.0, 1e5, 10, 10),
        (-610.0, 2400.0, 1, 1),
        (590.0, 2600.0, 3, 4),
        (5.0, 1e6, 0, 3),
    ],
)
def test_bits_whose_logits_are_far_away(above: float, diffusion: float, ones: int, n: int) -> None:
    model = Bernoulli(diffusion * ONE, ONE, ONE, ONE, ONE, 0.1)
    grid = np.linspace(-12_000.0, 12_000.0, 2_400_001)
    logs = ones * special.log_expit(grid) + (n - ones) * special.log_expit(-grid)
    logs -= 0.5 * (grid - above) ** 2 / diffusion
    weights = np.exp(logs - logs.max())
    prepared = prepared_leaf(model, np.array([above]), float(n), np.array([float(ones)]), 1)
    data = Bits(np.array([[1], [0]], dtype=np.uint8))
    for bit, sign in enumerate((1.0, -1.0)):
        expected = np.sum(weights * special.expit(sign * grid)) / np.sum(weights)
        found = math.exp(contract.log_likelihood(model, data, bit, prepared))
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("has_parent", [True, False])
def test_counts(has_parent: bool) -> None:
    model = Multinomial(3.0, 3.0, 3.0, 0.8, 0.8, 0.8, 3, 0.6)
    p = np.array([0.5, 0.3, 0.2])
    shapes = 3.0 * (0.8 * p + 0.2 / 3) if has_parent else np.full(3, 0.6)
    counts = np.array([4.0, 0.0, 1.0])
    above, statistics = np.log(p) if has_parent else NONE, np.append(counts, 9.9)
    prepared = prepared_leaf(model, above, 2.0, statistics, 3)
    rows = np.array([[2, 1, 0], [0, 0, 3], [0, 0, 0]])
    for n, row in enumerate(rows):
        expected = stats.dirichlet_multinomial.logpmf(row, shapes + counts, row.sum())
        found = contract.log_likelihood(model, counts_of(rows), n, prepared)
        assert found == pytest.approx(expected, abs=1e-9)
    stream, theta, drawn = open_stream(make_key(1)), np.empty(3), []
    for _ in range(5000):
        contract.draw_leaf(stream, model, above, 2.0, statistics, theta)
        drawn.append(np.exp(theta[0]))
    total = shapes.sum() + 5.0
    assert (
        stats.kstest(drawn, stats.beta(shapes[0] + 4.0, total - shapes[0] - 4.0).cdf).pvalue > ALARM
    )


def test_measures() -> None:
    model = Measures(1.5, 1.5, 1.5, 0.8, 0.8, 0.8, 2)
    p = np.array([0.3, 0.2, 0.5])
    shapes = 1.5 * (0.8 * p + 0.2 * np.array([0.0, 0.0, 1.0]))
    statistics = np.array([3.0, 1.0, 0.0, -7.0])
    expected = (shapes + statistics[:3]) / 5.5
    prepared = prepared_leaf(model, np.log(p), 4.0, statistics, 3)
    assert prepared[3:] == pytest.approx(expected)
    data = Drawn(np.array([0, 1]), np.zeros(2), np.empty((0, 0)))
    assert contract.log_likelihood(model, data, 1, prepared) == pytest.approx(np.log(expected[1]))
    stream, theta, drawn = open_stream(make_key(1)), np.empty(3), []
    contract.draw_leaf(stream, model, np.log(p), 4.0, statistics, theta)
    for _ in range(5000):
        contract.simulate(stream, model, theta, data, 0)
        drawn.append(int(data.atom[0]))
    assert p_law(drawn, dict(enumerate(expected.tolist()))) > ALARM
