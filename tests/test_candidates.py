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
    MOST_MARGIN,
    Choices,
    Prepared,
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

    def draw(self, start: int, stop: int, first_datum: int = 0) -> npt.NDArray[np.int64]:
        found = np.full(self.assignments.size, -7)
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

N_SAME = 40_000
ROUGH = 0.3


def rough_draws(draw: Any) -> tuple[npt.NDArray[np.int64], dict[int, float]]:
    """Return where many equal data go, by tables that are off by up to the margin; and the law."""
    among = Among(40, 1, 0.3)
    n_nodes = among.choices.rows.size
    among.choices.log_mass[:] = -math.log(n_nodes)
    among.choices.is_candidate[:] = True
    tables, margin = prepare_choices(among.model, among.choices)
    off = np.resize([ROUGH, -ROUGH, 0.0, -ROUGH], tables.shape[0] * ROUGHLY_ABREAST)
    tables[:, 0] += off.reshape(-1, ROUGHLY_ABREAST)
    data = Bits(np.repeat(among.data.packed, N_SAME, axis=0))
    found, before = np.empty(N_SAME, dtype=np.int64), np.zeros(N_SAME, dtype=np.int64)
    draw(
        KEY, among.model, data, 0, before, among.choices, Prepared(tables, margin + ROUGH), 0,
        N_SAME, found,
    )  # fmt: skip
    logs = among.log_weights(0)
    chances = np.exp(logs - logs.max())
    law = dict(zip(among.choices.rows.tolist(), chances / chances.sum(), strict=True))
    return found, law


def test_rough_weights_lead_to_the_exact_law() -> None:
    found, law = rough_draws(draw_among)
    assert p_law(found, law) > ALARM


@pytest.mark.parametrize(
    ("correct", "wrong"),
    [
        ("k == NULL or prepared.margin == 0.0", "k == NULL or prepared.margin >= 0.0"),
        ("surely = math.exp(-2.0 * prepared.margin)", "surely = math.exp(-prepared.margin)"),
        ("- math.log(weight) - prepared.margin", "- math.log(weight)"),
        ("- largest[n - first] - math.log(weight)", "- largest[n - first]"),
        ("log_w = log_mass[k] + contract", "log_w = contract"),
        ("if u < surely", "if uniform(stream) < surely"),
    ],
)
def test_planted_errors_of_rough_weights_are_caught(correct: str, wrong: str) -> None:
    draw = planted_function("treestick.moves.candidates", "draw_among", correct, wrong)
    found, law = rough_draws(draw)
    assert p_law(found, law) < ALARM


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
    assert (bound <= 1e3 * np.abs(truth).max(axis=0) * 2.0**-24 * max(n_dimensions, 10)).all()


def test_tables_that_would_be_too_rough_are_not_used() -> None:
    among = Among(20, BLOCK, 1.0)
    assert prepare_choices(among.model, among.choices).tables.dtype == np.float32
    among.choices.theta[0] *= 1e6
    tables, margin = prepare_choices(among.model, among.choices)
    assert (tables.dtype, margin) == (np.float64, 0.0)
    assert MOST_MARGIN < 1.0
    expected = [among.expected(n) for n in range(50)]
    assert among.draw(0, BLOCK)[:50].tolist() == expected


def test_draws_do_not_depend_on_blocks() -> None:
    among = Among(40, BLOCK + 50, 1.0)
    whole = among.draw(0, BLOCK + 50)
    part = among.draw(7, BLOCK + 19)
    np.testing.assert_array_equal(part[7 : BLOCK + 19], whole[7 : BLOCK + 19])
    assert (np.delete(part, np.s_[7 : BLOCK + 19]) == -7).all()
    # Another number among all that there are: another draw.
    assert (among.draw(0, BLOCK + 50, first_datum=1) != whole).any()


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
