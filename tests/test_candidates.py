"""Draws among many nodes, against the same computed datum by datum and node by node.

Weights are rough (rule 4 of the move): laws are compared where the roughness is so large that they
would be far off if it were not set right.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from laws import ALARM, p_law
from planting import planted_function
from treestick import contract
from treestick.models.bernoulli import Bernoulli, Bits
from treestick.moves.candidates import (
    BLOCK,
    FAR,
    Choices,
    Prepared,
    _weigh,
    draw_among,
    prepare_choices,
)
from treestick.random import Purpose, key_for, make_key, open_stream, uniform
from treestick.wide import ROUGHLY_ABREAST

N_DIMENSIONS = 24
KEY = make_key(3, sweep=5)


def model_of(n_dimensions: int) -> Bernoulli:
    one = np.ones(n_dimensions)
    return Bernoulli(one, one, one, one, one, 0.1)


def pack(bits: npt.NDArray[np.bool_]) -> Bits:
    return Bits(np.packbits(bits, axis=1, bitorder="little"))


class Among:
    """Data, and nodes in a table of twice as many."""

    def __init__(self, n_nodes: int, n_data: int, spread: float) -> None:
        rng = np.random.default_rng(n_nodes)
        self.model = model_of(N_DIMENSIONS)
        self.data = pack(rng.random((n_data, N_DIMENSIONS)) < 0.4)
        rows = rng.choice(2 * n_nodes, n_nodes, replace=False)
        log_mass = np.log(rng.dirichlet(np.full(n_nodes, 0.2)))
        log_mass[rng.random(n_nodes) < 0.1] = -math.inf
        log_mass[0] = math.log(0.3)
        is_candidate = np.zeros(2 * n_nodes, dtype=np.bool_)
        is_candidate[rows] = True
        theta = spread * rng.normal(size=(n_nodes, N_DIMENSIONS))
        self.choices = Choices(rows, log_mass, theta, is_candidate)
        self.assignments = rng.integers(2 * n_nodes, size=n_data)

    def draw(
        self, start: int, stop: int, first_datum: int = 0, prepared: Prepared | None = None
    ) -> npt.NDArray[np.int64]:
        found = np.full(self.assignments.size, -7)
        if prepared is None:
            prepared = prepare_choices(self.model, self.choices)
        draw_among(
            KEY, self.model, self.data, first_datum, self.assignments, self.choices, prepared,
            start, stop, found,
        )  # fmt: skip
        return found

    def log_weights(self, n: int) -> npt.NDArray[np.float64]:
        """Return the logarithms of the weights of a datum, in float64."""
        logs, prepared = [], np.empty(contract.widths(self.model)[1])
        for theta, log_mass in zip(self.choices.theta, self.choices.log_mass, strict=True):
            contract.prepare(self.model, theta, prepared)
            logs.append(log_mass + contract.log_likelihood(self.model, self.data, n, prepared))
        return np.array(logs)

    def expected(self, n: int) -> int | None:
        """Return where a datum goes, or None if rough weights may decide otherwise."""
        if not self.choices.is_candidate[self.assignments[n]]:
            return int(self.assignments[n])
        margin = prepare_choices(self.model, self.choices).margin
        logs = self.log_weights(n)
        sums = np.cumsum(np.exp(logs - logs.max()))
        stream = open_stream(key_for(KEY, Purpose.CANDIDATE, n))
        dart = uniform(stream) * sums[-1]
        if np.abs(sums - dart).min() < 2.0 * margin * sums[-1] or (
            uniform(stream) > math.exp(-2.0 * margin)
        ):
            return None
        return int(self.choices.rows[np.searchsorted(sums, dart)])


@pytest.mark.parametrize("n_nodes", [1, 31, 32, 33, 100])
@pytest.mark.parametrize("spread", [0.3, 8.0])
def test_draws_are_those_of_one_datum_at_a_time(n_nodes: int, spread: float) -> None:
    n_data = 2 * BLOCK + 33
    among = Among(n_nodes, n_data, spread)
    assert 0.0 < prepare_choices(among.model, among.choices).margin < 1e-3
    found = among.draw(0, n_data)
    looked_at = [*range(20), *range(BLOCK - 10, BLOCK + 10), *range(n_data - 20, n_data)]
    expected = {n: among.expected(n) for n in looked_at}
    assert sum(row is None for row in expected.values()) <= 3
    assert all(row in (None, found[n]) for n, row in expected.items())
    assert n_nodes == 1 or len(np.unique(found)) > n_nodes


# -- rough weights ---------------------------------------------------------------------------------

N_DRAWN, N_SKIPPED = 60_000, 700
ROUGH = 0.3
SKEWED = np.array([ROUGH, -ROUGH, 0.0, -ROUGH, ROUGH / 2])


def make_rough(among: Among) -> Prepared:
    """Return tables that are off by up to the margin."""
    tables, margin = prepare_choices(among.model, among.choices)
    off = np.resize(SKEWED, tables.shape[0] * ROUGHLY_ABREAST)
    tables[:, 0] += off.reshape(-1, ROUGHLY_ABREAST)
    return Prepared(tables, margin + ROUGH)


def rough_p_values(draw: Any) -> list[float]:
    """Return p-values of where data of three kinds go, in any order, not from the first on."""
    among = Among(70, 3, 0.3)
    among.choices.is_candidate[:] = True
    kind = np.random.default_rng(5).integers(3, size=N_DRAWN + N_SKIPPED)
    data, before = Bits(among.data.packed[kind]), np.zeros(kind.size, dtype=np.int64)
    found = np.full(kind.size, -7)
    draw(
        KEY, among.model, data, 11, before, among.choices, make_rough(among), N_SKIPPED, kind.size,
        found,
    )  # fmt: skip
    assert (found[:N_SKIPPED] == -7).all()
    p_values = []
    for n in range(3):
        logs = among.log_weights(n)
        chances = np.exp(logs - logs.max())
        law = dict(zip(among.choices.rows.tolist(), chances / chances.sum(), strict=True))
        p_values.append(p_law(found[N_SKIPPED:][kind[N_SKIPPED:] == n], law))
    return p_values


def test_rough_weights_lead_to_the_exact_law() -> None:
    assert min(rough_p_values(draw_among)) > ALARM


@pytest.mark.parametrize(
    ("correct", "wrong"),
    [
        ("k == NULL or prepared.margin == 0.0", "k == NULL or prepared.margin >= 0.0"),
        ("surely = math.exp(-2.0 * prepared.margin)", "surely = math.exp(-prepared.margin)"),
        ("log_w - math.log(weight) - prepared.margin", "log_w - math.log(weight)"),
        ("log_w - math.log(weight) - prepared.margin", "log_w - prepared.margin"),
        ("log_w = log_mass[k] + contract", "log_w = contract"),
        ("if u < surely", "if uniform(stream) < surely"),
        ("log_w -= largest[n - first]", "log_w -= largest[0]"),
        ("np.float64(p[k // n_abreast, n - first,", "np.float64(p[k // n_abreast, 0,"),
        ("log_likelihood(model, data, n, one)", "log_likelihood(model, data, n - first, one)"),
        ("log_likelihood(model, data, n, one)", "log_likelihood(model, data, 0, one)"),
        ("contract.prepare(model, choices.theta[k], one)\n                log_w", "log_w"),
    ],
)
def test_planted_errors_of_rough_weights_are_caught(correct: str, wrong: str) -> None:
    draw = planted_function("treestick.moves.candidates", "draw_among", correct, wrong)
    assert min(rough_p_values(draw)) < ALARM


@pytest.mark.parametrize(("n_dimensions", "spread"), [(1, 1e-6), (24, 0.5), (24, 8.0)])
@pytest.mark.parametrize("exponent", [0.0, -300.0])
def test_weights_are_as_near_as_the_margin_says(
    n_dimensions: int, spread: float, exponent: float
) -> None:
    """With masses that all are tiny, too: their rounding counts as well."""
    among = Among(64, BLOCK, spread)
    among.model = model_of(n_dimensions)
    theta = among.choices.theta[:, :n_dimensions]
    log_mass = among.choices.log_mass + exponent * math.log(10.0)
    among.choices = among.choices._replace(theta=np.ascontiguousarray(theta), log_mass=log_mass)
    bits = np.unpackbits(among.data.packed, axis=1, bitorder="little")[:, :n_dimensions]
    among.data = pack(bits.astype(np.bool_))
    tables, margin = prepare_choices(among.model, among.choices)
    p = np.empty((2, BLOCK, ROUGHLY_ABREAST), dtype=np.float32)
    largest, totals = np.empty(BLOCK), np.empty((BLOCK, 2))
    _weigh(among.model, among.data, 0, BLOCK, log_mass, tables, p, largest, totals)
    np.testing.assert_allclose(totals.T, p.sum(axis=2, dtype=np.float64), rtol=1e-14)
    worst = 0.0
    for n in range(0, BLOCK, 7):
        exact, found = among.log_weights(n), p[:, n].ravel().astype(np.float64)
        is_near = found > 0.0
        assert (exact[~is_near] < exact.max() - FAR + 1.0).all()
        error = np.abs(np.log(found[is_near]) + largest[n] - exact[is_near])
        worst = max(worst, error.max())
    assert margin / 50.0 < worst <= margin


@pytest.mark.parametrize("n_dimensions", [1, 7, 8, 9, 24, 100, 256, 1001])
@pytest.mark.parametrize("spread", [0.1, 2.0, 30.0])
def test_float32_is_as_rough_as_it_says(n_dimensions: int, spread: float) -> None:
    rng = np.random.default_rng(n_dimensions)
    model = model_of(n_dimensions)
    theta = spread * rng.normal(size=(ROUGHLY_ABREAST, n_dimensions))
    theta[::3] = np.abs(theta[::3])  # so that nothing cancels
    theta[1::3, ::2] *= 1e-3
    bits = rng.random((200, n_dimensions)) < rng.random((200, 1))
    prepared = np.empty((ROUGHLY_ABREAST, contract.widths(model)[1]))
    for row, one in zip(theta, prepared, strict=True):
        contract.prepare(model, row, one)
    bound = np.array(
        [contract.roughness(model, row, one) for row, one in zip(theta, prepared, strict=True)]
    )
    found = np.empty((200, ROUGHLY_ABREAST), dtype=np.float32)
    tables = np.ascontiguousarray(prepared.T.astype(np.float32))
    contract.log_likelihoods(model, pack(bits), 0, 200, tables, found)
    # The sum of -log(1 + e**t) over all dimensions, and of t over those whose bit is 1.
    truth = bits @ theta.T - np.logaddexp(0.0, theta).sum(axis=1)
    error = np.abs(found - truth).max(axis=0)
    assert (error <= bound).all()
    assert (bound < 100.0 * error.max()).all()


def test_tables_that_would_be_too_rough_are_not_used() -> None:
    among = Among(20, BLOCK, 1.0)
    assert prepare_choices(among.model, among.choices).tables.dtype == np.float32
    among.choices.theta[0] *= 1e6
    tables, margin = prepare_choices(among.model, among.choices)
    assert (tables.dtype, margin) == (np.float64, 0.0)
    expected = [among.expected(n) for n in range(50)]
    assert among.draw(0, BLOCK)[:50].tolist() == expected


@pytest.mark.parametrize("is_rough", [False, True])
def test_draws_do_not_depend_on_blocks(is_rough: bool) -> None:
    among = Among(40, BLOCK + 50, 1.0)
    prepared = make_rough(among) if is_rough else None
    whole = among.draw(0, BLOCK + 50, prepared=prepared)
    part = among.draw(7, BLOCK + 19, prepared=prepared)
    np.testing.assert_array_equal(part[7 : BLOCK + 19], whole[7 : BLOCK + 19])
    assert (np.delete(part, np.s_[7 : BLOCK + 19]) == -7).all()
    # Another number among all that there are: another draw.
    assert (among.draw(0, BLOCK + 50, first_datum=1, prepared=prepared) != whole).any()


def test_nodes_without_mass_get_no_data() -> None:
    among = Among(100, 3 * BLOCK, 0.1)
    stays = ~among.choices.is_candidate[among.assignments]
    moved = among.draw(0, 3 * BLOCK)[~stays]
    masses = dict(zip(among.choices.rows, among.choices.log_mass, strict=True))
    assert -math.inf in masses.values()
    assert min(masses[row] for row in moved) > max(masses.values()) - FAR


def test_data_stay_if_no_node_has_mass() -> None:
    among = Among(20, BLOCK, 1.0)
    among.choices.log_mass[:] = -math.inf
    np.testing.assert_array_equal(among.draw(0, BLOCK), among.assignments)
