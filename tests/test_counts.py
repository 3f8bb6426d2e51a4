"""The multinomial model and its Dirichlet diffusion against slow, obvious code.

Fewer than 150 comparisons of laws at ``ALARM`` each, with fixed seeds (see ``laws.py``).
"""

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import integrate, special, stats

from joint import counts_of, dense_counts, log_dirichlet
from laws import ALARM, p_law, p_mean
from test_fits import NOTHING, fitted, log_joint, make_group, parts
from test_models import (
    N_HERE,
    PARENTS,
    drawn_from_prior,
    gathered,
    p_of_density,
    p_uniform,
    prepared_row,
    table_of,
    thinned,
)
from treestick import chain, contract
from treestick.contract import DRAWN, GIVEN, Group
from treestick.diffusions import dirichlet, hdp
from treestick.diffusions import dirichlet_fits as fits
from treestick.diffusions.dirichlet import LEAST, SMALLEST
from treestick.families.multinomial import Counts
from treestick.models.multinomial import Multinomial
from treestick.moves.state import State, Sticks
from treestick.moves.tasks import make_tasks, sum_statistics
from treestick.random import binomial, make_key, open_stream
from treestick.tree.table import NULL, NodeTable
from treestick.wide import ABREAST

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator


def make_model(
    n_outcomes: int, concentration: float = 1.7, persistence: float = 0.8
) -> Multinomial:
    return Multinomial(concentration, 0.2, 9.0, persistence, 0.1, 0.95, n_outcomes)


def shapes_of(model: Multinomial, parent: Floats) -> Floats:
    if parent.size == 0:
        return np.full(model.n_outcomes, model.concentration)
    mean = model.persistence * np.exp(parent) + (1.0 - model.persistence) / model.n_outcomes
    return np.asarray(np.maximum(model.concentration * mean, SMALLEST))


def log_density(shapes: Floats, theta: Floats) -> Floats:
    """Return the log density of log probabilities, none of them dead: many rows at once."""
    constant = special.gammaln(shapes.sum(axis=-1)) - special.gammaln(shapes).sum(axis=-1)
    return np.asarray(constant + (shapes * theta).sum(axis=-1))


# -- functions of one shape ------------------------------------------------------------------------


def test_polygammas_are_scipys() -> None:
    for x in [*np.geomspace(1e-30, 1e30, 300), *np.linspace(0.5, 20.0, 300)]:
        first, second = fits.polygammas(x)
        assert first == pytest.approx(special.digamma(x), rel=1e-12, abs=1e-13)
        assert second == pytest.approx(special.polygamma(1, x), rel=1e-12)


SIZES = (1, 2, 7, 8, 9, 17)
"""Outcomes: packs of eight are full, or not."""


def draw_log_p(rng: np.random.Generator, n: int) -> Floats:
    """Return log probabilities: some dead, some next to it, the last one alive."""
    theta = np.log(rng.dirichlet(np.full(n, 0.5)))
    theta[:-1][rng.uniform(size=n - 1) < 0.3] = -rng.choice([300.0, 705.0, 750.0, 990.0])
    theta[:-1][rng.uniform(size=n - 1) < 0.3] = LEAST
    return theta


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("persistence", [1.0, 0.7])
@pytest.mark.parametrize("is_measure", [False, True])
def test_densities_for_any_number_of_outcomes(n: int, persistence: float, is_measure: bool) -> None:
    rng = np.random.default_rng(n)
    base = hdp.base_measure(n - 1) if is_measure else dirichlet.even(n, 1.0)
    measures = np.full(n, base.each)
    if is_measure:
        measures[-1] = 1.0
    for _ in range(20):
        above, theta, concentration = draw_log_p(rng, n), draw_log_p(rng, n), rng.gamma(2.0)
        a = concentration * (persistence * np.exp(above) + (1.0 - persistence) * measures)
        a = np.maximum(a, SMALLEST)
        found = np.empty(n)
        dirichlet.write_shapes(concentration, persistence, base, above, found)
        assert found == pytest.approx(a, rel=1e-12)
        terms = a * theta - special.gammaln(a + 1.0) + np.where(theta > LEAST, np.log(a), 0.0)
        expected = special.gammaln(a.sum()) + terms.sum()
        step = dirichlet.log_step(concentration, persistence, base, above, theta)
        assert step == pytest.approx(expected, rel=1e-11, abs=1e-9)
        dirichlet.normalise(theta)
        assert np.exp(theta).sum() == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("n", SIZES[1:])
@pytest.mark.parametrize("is_measure", [False, True])
def test_modes_of_fits_sum_to_one(n: int, is_measure: bool) -> None:
    """Rule 1, also where an outcome is dead in the node and alive in a child."""
    rng = np.random.default_rng(n)
    base = hdp.base_measure(n - 1) if is_measure else dirichlet.even(n, 1.0)
    for _ in range(40):
        above, below = draw_log_p(rng, n), np.stack([draw_log_p(rng, n) for _ in range(3)])
        statistics = np.append(rng.poisson(rng.choice([0.0, 1.0]), n), 0.0).astype(float)
        concentration, persistence = rng.choice([0.2, 5.0, 50.0]), rng.choice([0.7, 0.9])
        parent = above if rng.uniform() < 0.5 else np.empty(0)
        _, counts, log_rates = fits.fit_one(
            concentration, persistence, base, parent, below, statistics
        )
        shapes = np.empty(n)
        dirichlet.write_shapes(concentration, persistence, base, parent, shapes)
        modes = (shapes + counts[0]) / np.exp(log_rates[0])
        assert modes.sum() == pytest.approx(1.0, rel=1e-6)
        assert np.ptp(log_rates[0]) > 1e-3  # what children say of them is not lost


def test_an_outcome_dead_in_a_node_and_alive_in_a_child() -> None:
    """With rates from code for single numbers."""
    below = np.log([[0.2, 0.3, 0.5], [0.1, 0.3, 0.6]])
    below[1] -= np.log(0.9)
    below[1, 0] = LEAST
    base, root = hdp.base_measure(2), np.empty(0)
    _, _, log_rates = fits.fit_one(5.0, 0.9, base, root, below, np.zeros(4))
    assert log_rates[0] == pytest.approx([-573.010, 3.0599, 3.2194], abs=1e-3)


@pytest.mark.parametrize("a", [SMALLEST, 1e-5, 0.3, 4.0, 1e3])
def test_rising_factorials(a: float) -> None:
    for n in (0.0, 0.3, 1.0, 2.5, 40.0):
        expected = special.gammaln(a + n) - special.gammaln(a)
        assert dirichlet.log_rising(a, n) == pytest.approx(expected, rel=1e-9, abs=1e-11)


def law_of_tables(a: float, n: int) -> dict[int, float]:
    law = np.zeros(n + 1)
    law[0] = 1.0
    for j in range(n):
        opens = a / (a + j)
        law[1:] = law[1:] * (1.0 - opens) + law[:-1] * opens
        law[0] *= 1.0 - opens
    return dict(enumerate(law.tolist()))


@pytest.mark.parametrize(
    ("a", "n"), [(0.4, 1), (0.4, 7), (2.5, 16), (2.5, 17), (0.7, 300), (60.0, 500)]
)
def test_tables_have_their_law(a: float, n: int) -> None:
    stream = open_stream(make_key(1))
    drawn = [dirichlet.draw_tables(stream, a, n) for _ in range(20_000)]
    if n == 1:
        assert set(drawn) == {1}
    else:
        assert p_law(drawn, law_of_tables(a, n)) > ALARM
    assert dirichlet.draw_tables(stream, a, 0) == 0


def test_tables_of_many_customers() -> None:
    stream = open_stream(make_key(1))
    for a, n in [(3.0, 10**6), (0.5, 2**40)]:
        drawn = [dirichlet.draw_tables(stream, a, n) for _ in range(5000)]
        assert p_mean(drawn, a * (special.digamma(a + n) - special.digamma(a))) > ALARM
    assert dirichlet.draw_tables(stream, SMALLEST, 2**40) == 1


def test_tables_pass_to_the_parent_or_to_the_base() -> None:
    assert dirichlet.share_passing(1.0, LEAST, 0.2) == 1.0
    assert dirichlet.share_passing(0.5, LEAST, 0.2) == 0.0
    assert dirichlet.share_passing(0.8, math.log(0.3), 0.2) == pytest.approx(0.24 / (0.24 + 0.04))
    stream = open_stream(make_key(1))
    passed = [dirichlet.draw_passing(stream, 0.8, math.log(0.3), 0.2, 4) for _ in range(5000)]
    assert p_mean(passed, 4 * 0.24 / 0.28) > ALARM
    assert dirichlet.draw_passing(stream, 1.0, LEAST, 0.2, 4) == 4


@pytest.mark.parametrize(("n", "p"), [(5, 0.3), (100, 0.5), (3000, 0.01), (3000, 0.999)])
def test_binomial_has_its_law(n: int, p: float) -> None:
    stream = open_stream(make_key(1))
    drawn = [binomial(stream, n, p) for _ in range(10_000)]
    law = dict(enumerate(stats.binom.pmf(np.arange(n + 1), n, p).tolist()))
    assert p_law(drawn, law) > ALARM
    assert (binomial(stream, n, 0.0), binomial(stream, n, 1.0)) == (0, n)


# -- Dirichlet laws --------------------------------------------------------------------------------


def test_log_probabilities_have_beta_laws() -> None:
    shapes = np.array([0.002, 0.3, 1.0, 4.0])
    theta = gathered(20_000, 4, lambda stream, row: dirichlet.draw(stream, shapes, row))
    np.testing.assert_allclose(special.logsumexp(theta, axis=1), 0.0, atol=1e-12)
    rest = shapes.sum() - shapes
    for w in (1, 2, 3):
        law = stats.beta(shapes[w], rest[w])
        assert stats.kstest(np.exp(theta[:, w]), law.cdf).pvalue > ALARM
    assert p_mean(np.exp(theta[:, 2] + theta[:, 3]), 4.0 / (5.302 * 6.302)) > ALARM
    # Of a small shape: the share of the dead, and the law of the others.
    dead = theta[:, 0] == LEAST
    log_beta = special.betaln(shapes[0], rest[0])
    p_dead = math.exp(shapes[0] * LEAST - log_beta) / shapes[0]
    assert p_law(dead, {1: p_dead, 0: 1.0 - p_dead}) > ALARM
    grid = np.linspace(LEAST, 0.0, 1_000_001)[:-1]
    log_p = shapes[0] * grid + (rest[0] - 1.0) * np.log1p(-np.exp(grid))
    assert p_of_density(theta[~dead, 0], grid, log_p) > ALARM


@pytest.mark.parametrize("parent", [-0.05, -4.0, -7.0])
@pytest.mark.parametrize("persistence", [1.0, 0.9])
def test_a_step_has_a_density(parent: float, persistence: float) -> None:
    """With dead outcomes, it sums to one: over the log odds of two, and where one is dead."""
    model = make_model(2, 0.8, persistence)
    above = np.array([parent, math.log(-math.expm1(parent))])

    def density(log_odds: float) -> float:
        theta = np.array([-np.logaddexp(0.0, -log_odds), -np.logaddexp(0.0, log_odds)])
        return math.exp(contract.log_transition(model, above, theta))

    edges = [-1000.0, -300.0, -60.0, -10.0, 0.0, 10.0, 60.0, 300.0, 1000.0]
    total = math.fsum(
        integrate.quad(density, low + 1e-9, high - 1e-9, limit=200)[0]
        for low, high in itertools.pairwise(edges)
    )
    for dead in ([LEAST, 0.0], [0.0, LEAST]):
        total += math.exp(contract.log_transition(model, above, np.array(dead)))
    assert total == pytest.approx(1.0, abs=1e-6)


def test_transitions_add_up_to_the_prior() -> None:
    rng = np.random.default_rng(1)
    model = make_model(5)
    theta = np.array([log_dirichlet(rng, np.full(5, 2.0)) for _ in PARENTS])
    expected = log_density(shapes_of(model, NOTHING), theta[0])
    for k, parent in enumerate(PARENTS[1:], start=1):
        expected += log_density(shapes_of(model, theta[parent]), theta[k])
        found = contract.log_transition(model, theta[parent], theta[k])
        assert found == pytest.approx(log_density(shapes_of(model, theta[parent]), theta[k]))
    found = contract.log_prior(model, table_of(PARENTS, N_HERE), theta)
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("persistence", [1.0, 0.7])
def test_parameters_are_drawn_from_the_diffusion(persistence: float) -> None:
    model = make_model(3, 2.0, persistence)
    parent = np.log([0.6, 0.3, 0.1])
    roots = np.exp(gathered(5000, 3, lambda s, row: contract.draw_root(s, model, row)))
    assert stats.kstest(roots[:, 1], stats.beta(2.0, 4.0).cdf).pvalue > ALARM
    below = np.exp(gathered(5000, 3, lambda s, row: contract.draw_child(s, model, parent, row)))
    shapes = shapes_of(model, parent)
    for w in range(3):
        law = stats.beta(shapes[w], shapes.sum() - shapes[w])
        assert stats.kstest(below[:, w], law.cdf).pvalue > ALARM


def test_hyperparameters_are_uniform_between_bounds() -> None:
    draws = drawn_from_prior(contract.draw_hyperparameters, make_model(3))
    assert p_uniform(*draws) > ALARM


# -- likelihoods -----------------------------------------------------------------------------------

ROWS = np.array(
    [[3, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1], [0, 40, 2, 0], [9, 8, 0, 10], [1, 0, 0, 0]]
)
P = np.array([0.5, 0.3, 0.15, 0.05])


def test_likelihood_is_scipys() -> None:
    model, data = make_model(4), counts_of(ROWS)
    expected = [stats.multinomial.logpmf(row, row.sum(), P) for row in ROWS]
    prepared, statistics = prepared_row(model, np.log(P)), np.zeros(5)
    found = [contract.log_likelihood(model, data, n, prepared) for n in range(len(ROWS))]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert found[1] == 0.0
    for n in range(len(ROWS)):
        contract.add_statistics(model, data, n, statistics)
    np.testing.assert_array_equal(statistics[:4], ROWS.sum(axis=0))
    total = contract.log_likelihood_of_sums(model, np.log(P), len(ROWS), statistics)
    assert total == pytest.approx(sum(expected), rel=1e-12)
    assert contract.log_likelihood_of_sums(model, np.log(P), 0, 0.0 * statistics) == 0.0


@pytest.mark.parametrize("persistence", [1.0, 0.7])
@pytest.mark.parametrize("concentration", [0.01, 1.5, 300.0])
def test_below_the_tree_is_a_dirichlet_multinomial(
    concentration: float, persistence: float
) -> None:
    model, data = make_model(4, concentration, persistence), counts_of(ROWS)
    assert contract.n_exact_levels(model) == 1
    prepared = prepared_row(model, np.log(P), 1)
    shapes = shapes_of(model, np.log(P))
    for n, row in enumerate(ROWS):
        expected = stats.dirichlet_multinomial.logpmf(row, shapes, row.sum())
        assert contract.log_likelihood(model, data, n, prepared) == pytest.approx(
            expected, rel=1e-10, abs=1e-10
        )


def test_below_the_tree_is_an_integral() -> None:
    model, data = make_model(2, 3.0, 0.9), counts_of(np.array([[3, 1]]))
    a, b = shapes_of(model, np.log([0.6, 0.4]))

    def density(p: float) -> float:
        return float(stats.beta.pdf(p, a, b) * stats.binom.pmf(3, 4, p))

    expected = math.log(integrate.quad(density, 0.0, 1.0)[0])
    prepared = prepared_row(model, np.log([0.6, 0.4]), 1)
    assert contract.log_likelihood(model, data, 0, prepared) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("n_unseen", [0, 1, 9, ABREAST])
def test_likelihoods_side_by_side_are_those_one_by_one(n_unseen: int) -> None:
    """Seen and unseen nodes, and lanes that nobody uses."""
    rng = np.random.default_rng(1)
    data, prepared = counts_of(ROWS), np.zeros((ABREAST, 5))
    for k in range(ABREAST):
        model = make_model(4, [1.5, 0.7][k % 2])
        if k < n_unseen:
            contract.prepare_unseen(model, np.log(rng.dirichlet(P)), 1, prepared[k])
        elif k < 12:
            contract.prepare(model, np.log(rng.dirichlet(P)), prepared[k])
    out = np.empty((len(ROWS), ABREAST))
    contract.log_likelihoods(model, data, 0, len(ROWS), np.ascontiguousarray(prepared.T), out)
    for n in range(len(ROWS)):
        expected = [contract.log_likelihood(model, data, n, row) for row in prepared]
        np.testing.assert_allclose(out[n], expected, rtol=1e-12, atol=1e-12)


def room_for(totals: list[int], n_outcomes: int) -> Counts:
    total = np.array(totals)
    room = np.minimum(total, n_outcomes)
    return Counts(
        np.cumsum(room) - room, np.zeros(total.size, dtype=np.int64),
        np.full(room.sum(), -1, dtype=np.int32), np.full(room.sum(), np.nan), total,
        np.full(total.size, np.nan),
    )  # fmt: skip


@pytest.mark.parametrize("total", [0, 1, 5, 32, 33, 1000])
def test_data_are_drawn_from_the_likelihood(total: int) -> None:
    """Below and above the total from which outcomes are drawn one after the other."""
    model, theta = make_model(4), np.append(np.log([0.2, 0.7, 0.1]), LEAST)
    data, stream = room_for([total] * 4001, 4), open_stream(make_key(1))
    for n in range(4000):
        contract.simulate(stream, model, theta, data, n)
    rows = dense_counts(data, 4)
    assert np.all(rows[:4000].sum(axis=1) == total)
    again = counts_of(rows[:4000].astype(int))
    np.testing.assert_allclose(data.log_coefficient[:4000], again.log_coefficient, atol=1e-9)
    np.testing.assert_array_equal(data.n_entries[:4000], again.n_entries)
    assert np.isnan(data.log_coefficient[4000])
    assert not rows[:, 3].any()
    if total > 0:
        pairs = list(itertools.combinations_with_replacement(range(3), 2))
        p = np.exp(theta)
        for i, j in pairs:
            moment = total * (total - 1) * p[i] * p[j] + total * p[i] * (i == j)
            if moment > 0.0:
                assert p_mean(rows[:4000, i] * rows[:4000, j], moment) > ALARM


def test_a_new_node_is_drawn_given_its_datum() -> None:
    model, data = make_model(3, 2.0), counts_of(np.array([[0, 0, 0], [2, 0, 1]]))
    above, thetas = np.log([0.6, 0.3, 0.1]), np.empty((1, 3))
    stream, draws = open_stream(make_key(1)), []
    for _ in range(5000):
        contract.draw_chain(stream, model, data, 1, above, thetas)
        draws.append(np.exp(thetas[0]))
    shapes = shapes_of(model, above) + np.array([2, 0, 1])
    for w in range(3):
        law = stats.beta(shapes[w], shapes.sum() - shapes[w])
        assert stats.kstest(np.array(draws)[:, w], law.cdf).pvalue > ALARM


# -- parameters of a tree --------------------------------------------------------------------------

CHAIN = [NULL, 0, 1]
CHAIN_COUNTS = np.array([[0, 0], [1, 0], [2, 1]])


def stirling(n: int, t: int) -> float:
    if n == t:
        return 1.0
    if t == 0 or t > n:
        return 0.0
    return stirling(n - 1, t - 1) + (n - 1) * stirling(n - 1, t)


def ways(counts: Any, model: Multinomial) -> list[tuple[tuple[int, ...], int, float]]:
    """Return what passes for each outcome, the number of tables, and the probability of both."""
    c, eta = model.concentration, model.persistence
    per_outcome = [
        [
            (s, t, stirling(n, t) * c**t * math.comb(t, s) * eta**s * ((1.0 - eta) / 2) ** (t - s))
            for t in range(n + 1)
            for s in range(t + 1)
        ]
        for n in counts
    ]
    constant = math.gamma(c) / math.gamma(c + sum(counts))
    return [
        (tuple(s for s, _, _ in way), sum(t for _, t, _ in way),
         constant * math.prod(p for _, _, p in way))
        for way in itertools.product(*per_outcome)
    ]  # fmt: skip


def enumerated(model: Multinomial) -> tuple[Floats, Floats, float]:
    """Return the law of (customers of the root, tables) in the chain, and log p(data)."""
    c, found, p = model.concentration, [], []
    for passed, n_tables, p_lowest in ways(CHAIN_COUNTS[2], model):
        for customers, n_more, p_middle in ways(CHAIN_COUNTS[1] + passed, model):
            p_root = math.gamma(2 * c) / math.gamma(2 * c + sum(customers))
            p_root *= math.prod(math.gamma(c + n) / math.gamma(c) for n in customers)
            found.append([*customers, n_tables + n_more])
            p.append(p_lowest * p_middle * p_root)
    return np.array(found), np.array(p) / sum(p), math.log(sum(p))


def chain_statistics() -> Floats:
    return np.hstack([CHAIN_COUNTS, np.zeros((3, 1))]).astype(float)


@pytest.mark.parametrize(("concentration", "persistence"), [(1.3, 1.0), (0.6, 0.7)])
def test_parameters_against_enumeration(concentration: float, persistence: float) -> None:
    """Three nodes in a chain, four counts: tables and the root's probabilities."""
    model = make_model(2, concentration, persistence)
    table, statistics = table_of(CHAIN, [0, 1, 2]), chain_statistics()
    theta = np.full((3, 2), math.log(0.5))
    n_draws, roots, seated = 5000, [], []
    for sweep in range(8 * n_draws):
        contract.update_parameters(make_key(1, 0, sweep), model, table, statistics, theta, 0, False)
        if sweep % 8 == 7:
            customers = CHAIN_COUNTS.astype(float)
            counted = dirichlet.seat(
                make_key(2, 0, sweep), concentration, persistence, dirichlet.even(2, 0.0), table,
                theta, customers,
            )  # fmt: skip
            seated.append([*customers[0].astype(int), counted[0]])
            roots.append(np.exp(theta[0]))
    found, p, _ = enumerated(model)
    law: dict[int, float] = {}
    for (first, second, tables), weight in zip(found, p, strict=True):
        number = int(first + 10 * second + 100 * tables)
        law[number] = law.get(number, 0.0) + weight
    assert p_law(np.array(seated) @ [1, 10, 100], law) > ALARM
    shapes = found[:, :2] + concentration
    mean = p @ (shapes[:, 0] / shapes.sum(axis=1))
    second = p @ (shapes[:, 0] * (shapes[:, 0] + 1) / shapes.sum(1) / (shapes.sum(1) + 1))
    values = np.array(roots)[:, 0]
    assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 5.0 / math.sqrt(n_draws)
    assert p_mean(values, mean) > ALARM
    assert p_mean(values**2, second) > ALARM


def test_hyperparameters_against_enumeration() -> None:
    """Their posterior, with everything else summed out, on a grid."""
    table, statistics = table_of(CHAIN, [0, 1, 2]), chain_statistics()
    model, theta = make_model(2, 1.0, 0.5), np.full((3, 2), math.log(0.5))
    before = theta.copy()
    draws = np.empty((3000, 2))
    for k in range(-10, 3000):
        for time in range(20):
            key = make_key(1, 0, 20 * (k + 10) + time)
            model = contract.update_hyperparameters(key, model, table, statistics, theta)
        if k >= 0:
            draws[k] = model.concentration, model.persistence
    assert np.all(theta != before)
    assert abs(np.corrcoef(draws[1:, 0], draws[:-1, 0])[0, 1]) < 5.0 / math.sqrt(3000)
    c, eta = np.linspace(0.2, 9.0, 41), np.linspace(0.1, 0.95, 18)
    log_p = np.array([[enumerated(make_model(2, x, y))[2] for y in eta] for x in c])
    p = np.exp(log_p - log_p.max())
    for k, grid in enumerate((c, eta)):
        marginal = integrate.simpson(p, x=(eta, c)[k], axis=1 - k)
        fine = np.linspace(grid[0], grid[-1], 10_001)
        log_marginal = np.interp(fine, grid, np.log(marginal))
        assert p_of_density(draws[:, k], fine, log_marginal) > ALARM


@pytest.mark.parametrize("now", [0.01, 3.0, 1e5])
def test_slices_of_the_concentration(now: float) -> None:
    customers = np.array([[30.0, 5.0, 0.0], [12.0, 3.0, 0.0], [0.0, 0.0, 0.0], [40.0, 1.0, 2.0]])
    stream = open_stream(make_key(1))
    base = dirichlet.even(3, 0.0)
    draws = thinned(
        lambda c: dirichlet.draw_concentration(stream, c, 0.01, 1e5, base, 9, customers),
        now,
        3000,
        10,
    )
    grid = np.geomspace(0.01, 1e5, 200_001)
    log_p = 9 * np.log(grid)
    for row in customers[1:]:
        log_p += special.gammaln(grid) - special.gammaln(grid + row.sum())
    log_p += special.gammaln(3 * grid) - special.gammaln(3 * grid + 35.0)
    for n in customers[0]:
        log_p += special.gammaln(grid + n) - special.gammaln(grid)
    assert p_of_density(draws, grid, log_p) > ALARM
    assert dirichlet.draw_concentration(stream, 0.3, 0.3, 0.3, base, 9, customers) == 0.3


def test_slices_of_the_persistence() -> None:
    stream = open_stream(make_key(1))
    draws = thinned(
        lambda eta: dirichlet.draw_persistence(stream, eta, 0.0, 1.0, 7, 2), 0.5, 3000, 10
    )
    assert stats.kstest(draws, stats.beta(8, 3).cdf).pvalue > ALARM
    assert dirichlet.draw_persistence(stream, 1.0, 1.0, 1.0, 7, 2) == 1.0
    for n_passed, n_others in [(0, 0), (10**9, 0), (0, 10**9)]:
        for now in (0.0, 0.5, 1.0):
            new = dirichlet.draw_persistence(stream, now, 0.0, 1.0, n_passed, n_others)
            assert 0.0 <= new <= 1.0


# -- local fits ------------------------------------------------------------------------------------

FITS = [
    ((NULL,), [1], False),
    ((NULL,), [2], True),
    ((NULL, 0), [0, 0], False),
    ((NULL, 0), [1, 1], True),
    ((NULL, 0, 0), [1, 0, 2], False),
    ((NULL, NULL, 1), [1, 0, 1], True),
]
"""Parents within a group, how many children each has outside, whether the first is the root."""


def fit_case(
    seed: int, over: tuple[int, ...], n_children: list[int], has_root: bool, persistence: float
) -> tuple[Multinomial, Group]:
    rng = np.random.default_rng(seed)
    model = make_model(3, 2.5, persistence)
    above = np.log(rng.dirichlet(np.full(3, 5.0), size=len(over)))
    below = [np.log(rng.dirichlet(np.full(3, 2.0), size=k)).reshape(k, 3) for k in n_children]
    counts = rng.integers(4, size=(len(over), 3))
    statistics = np.hstack([counts, -rng.random((len(over), 1))])
    group = make_group(over, above, has_root, counts.sum(axis=1), statistics, below)
    return model, group


def from_the_prior(model: Multinomial, group: Group, n: int) -> tuple[Floats, Floats]:
    """Return parameters drawn from the prior, and what the rest of the joint density is."""
    rng = np.random.default_rng(1)
    n_nodes, n_outcomes = group.theta.shape
    theta, weight = np.empty((n_nodes, n, n_outcomes)), np.zeros(n)
    for k in range(n_nodes):
        above, below, _, statistics = parts(group, k)
        if group.over[k] == NULL:
            shapes = np.broadcast_to(shapes_of(model, above), (n, n_outcomes))
        else:
            over = np.exp(theta[group.over[k]])
            mean = model.persistence * over + (1.0 - model.persistence) / n_outcomes
            shapes = np.maximum(model.concentration * mean, SMALLEST)
        logs = np.log(rng.gamma(shapes + 1.0)) + np.log(rng.random(shapes.shape)) / shapes
        theta[k] = np.maximum(logs - special.logsumexp(logs, axis=1)[:, None], LEAST)
        weight += theta[k] @ statistics[:-1] + statistics[-1]
        mean = model.persistence * np.exp(theta[k]) + (1.0 - model.persistence) / n_outcomes
        for child in below:
            weight += log_density(np.maximum(model.concentration * mean, SMALLEST), child)
    return theta, weight


@pytest.mark.parametrize("persistence", [1.0, 0.7])
@pytest.mark.parametrize(("over", "n_children", "has_root"), FITS)
def test_fits_weigh_what_the_prior_weighs(
    over: tuple[int, ...], n_children: list[int], has_root: bool, persistence: float
) -> None:
    """Means of the weight, and of it times a probability, are integrals: Z, and Z E[p]."""
    model, group = fit_case(len(over), over, n_children, has_root, persistence)
    theta, weight = fitted(model, group, 20_000)
    prior_theta, prior_weight = from_the_prior(model, group, 200_000)
    largest = prior_weight.max()
    for k in range(len(over)):
        p, prior_p = np.exp(theta[:, k, 1]), np.exp(prior_theta[k, :, 1])
        for f, prior_f in [(1.0, 1.0), (p, prior_p), (p**2, prior_p**2)]:
            a, b = np.exp(weight - largest) * f, np.exp(prior_weight - largest) * prior_f
            assert stats.ttest_ind(a, b, equal_var=False).pvalue > ALARM
    group.theta[:] = theta[0]
    relative = np.exp(weight - weight.max())
    share = relative.sum() ** 2 / (relative**2).sum() / relative.size
    assert share > 0.6  # the proposal is near what it stands for
    assert math.isfinite(log_joint(model, group))
    if len(over) == 1:
        log_z = largest + math.log(np.exp(prior_weight - largest).mean())
        assert contract.log_evidence(model, *parts(group, 0)) == pytest.approx(log_z, abs=0.3)


@pytest.mark.parametrize("concentration", [2.0, 50.0])
def test_weights_of_many_outcomes_have_little_spread(concentration: float) -> None:
    """Most outcomes are dead or nearly so, in the node itself and in its four children."""
    rng = np.random.default_rng(1)
    model = make_model(500, concentration, 1.0)
    above = log_dirichlet(rng, np.ones(500))
    node = log_dirichlet(rng, shapes_of(model, above))
    below = np.array([log_dirichlet(rng, shapes_of(model, node)) for _ in range(4)])
    counts = rng.multinomial(200, np.exp(node) / np.exp(node).sum())
    for over in ((NULL,), (NULL, 0)):
        n = len(over)
        statistics = np.tile(np.append(counts, 0.0), (n, 1))
        aboves = np.tile(above, (n, 1))
        group = make_group(
            over, aboves, False, [200] * n, statistics, [below] + [below[:1]] * (n - 1)
        )
        _, weight = fitted(model, group, 300)
        assert weight.std() < 1.5


def test_weights_of_leaves_are_marginal_likelihoods() -> None:
    """They have no spread, whatever theta is."""
    rng = np.random.default_rng(1)
    for seed, persistence in itertools.product(range(5), [1.0, 0.7]):
        model, group = fit_case(seed, (NULL,), [0], False, persistence)
        above, _, _, statistics = parts(group, 0)
        counts = statistics[:3].astype(int)
        log_z = stats.dirichlet_multinomial.logpmf(counts, shapes_of(model, above), counts.sum())
        log_z += statistics[3] - counts_of(counts[None]).log_coefficient[0]
        expected = pytest.approx(log_z, rel=1e-11, abs=1e-11)
        stream = open_stream(make_key(1))
        assert contract.fit_group(stream, model, group, DRAWN) == expected
        for _ in range(3):
            group.theta[:] = np.log(rng.dirichlet(np.ones(3)))
            assert contract.fit_group(stream, model, group, GIVEN) == expected
        assert contract.log_evidence(model, *parts(group, 0)) == expected


def test_a_weight_is_the_sum_of_its_parts() -> None:
    """With dead outcomes too: joint density less that of the proposal, which is a step as well."""
    model, group = fit_case(1, (NULL,), [0], False, 1.0)
    above, _, _, statistics = parts(group, 0)
    posterior = shapes_of(model, above) + statistics[:3]
    as_parent = np.log(posterior / posterior.sum())
    wider = model._replace(concentration=float(posterior.sum()))
    for theta in (np.log([0.2, 0.5, 0.3]), np.array([math.log(0.4), LEAST, math.log(0.6)])):
        group.theta[:] = theta
        expected = log_joint(model, group) - contract.log_transition(wider, as_parent, theta)
        found = contract.fit_group(open_stream(make_key(1)), model, group, GIVEN)
        assert found == pytest.approx(expected, rel=1e-10)


def test_estimates() -> None:
    rng = np.random.default_rng(1)
    for persistence, size in itertools.product([1.0, 0.7], [0, 6]):
        model = make_model(6, 50.0, persistence)
        truth = rng.dirichlet(np.full(6, 3.0))
        above = np.log(rng.dirichlet(np.full(6, 3.0)))[:size]
        below = np.log(rng.dirichlet(500.0 * truth, size=20))
        statistics, theta = np.append(0.5 * truth, 0.0), np.empty(6)
        contract.estimate(model, above, below, 0.5, statistics, theta)
        assert special.logsumexp(theta) == pytest.approx(0.0, abs=1e-12)
        if persistence == 1.0:
            np.testing.assert_allclose(np.exp(theta), truth, atol=0.05)
        contract.estimate(model, above, below[:0], 1e6, 1e6 * statistics, theta)
        np.testing.assert_allclose(np.exp(theta), truth, atol=0.01)


# -- probabilities too small for floats ------------------------------------------------------------


def long_chain(n_nodes: int) -> tuple[NodeTable, Floats]:
    table = table_of(list(range(-1, n_nodes - 1)), [0] * (n_nodes - 1) + [2])
    return table, np.empty((n_nodes, 3))


def test_nothing_underflows() -> None:
    """A chain of 50 nodes with a concentration of 0.01, at the end of it two different data."""
    model = Multinomial(0.01, 0.001, 1.0, 1.0, 1.0, 1.0, 3)
    data = counts_of(np.array([[3, 0, 0], [0, 2, 0]]))
    table, theta = long_chain(50)
    stream = open_stream(make_key(1))
    contract.draw_root(stream, model, theta[0])
    for k in range(1, 50):
        contract.draw_child(stream, model, theta[k - 1], theta[k])
    assert np.all(np.isfinite(theta))
    assert np.count_nonzero(theta == LEAST) > 50
    assert math.isfinite(contract.log_prior(model, table, theta))
    last = prepared_row(model, theta[-1]), prepared_row(model, theta[-1], 1)
    for prepared, n in itertools.product(last, range(2)):
        assert math.isfinite(contract.log_likelihood(model, data, n, prepared))
    sticks = Sticks(1.0, 0.5, 4.0, 0.5, 0.1, 0.8, 1.0, 0.5, 2.0)
    where = np.full(2, 49)
    state = State(table, where, theta, np.empty((0, 0)), model, sticks)
    state = sum_statistics(state, data, make_tasks(2))
    for sweep in range(1, 21):
        state, _ = chain.sweep(make_key(1, 0, sweep), state, data)
        assert np.all(np.isfinite(state.theta))
        assert all(math.isfinite(score) for score in chain.scores(state))
    # They have found places where they are possible.
    at = state.theta[state.assignments]
    assert min(at[0, 0], at[1, 1]) > -50.0
