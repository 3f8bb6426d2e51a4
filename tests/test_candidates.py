"""Draws among many nodes, against the same computed datum by datum and node by node."""

import math

import numpy as np
import numpy.typing as npt
import pytest

from treestick import contract
from treestick.models.bernoulli import Bernoulli, Bits
from treestick.moves.candidates import BLOCK, FAR, Choices, draw_among, prepare_choices
from treestick.random import Purpose, key_for, make_key, open_stream, uniform

N_DIMENSIONS = 24
KEY = make_key(3, sweep=5)


class Among:
    """Data, and nodes in a table of twice as many."""

    def __init__(self, n_nodes: int, n_data: int, spread: float) -> None:
        rng = np.random.default_rng(n_nodes)
        one = np.ones(N_DIMENSIONS)
        self.model = Bernoulli(one, one, one, one, one, 0.1)
        bits = rng.random((n_data, N_DIMENSIONS)) < 0.4
        self.data = Bits(np.packbits(bits, axis=1, bitorder="little"))
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

    def expected(self, n: int) -> int:
        if not self.choices.is_candidate[self.assignments[n]]:
            return int(self.assignments[n])
        logs, prepared = [], np.empty(contract.widths(self.model)[1])
        for theta, log_mass in zip(self.choices.theta, self.choices.log_mass, strict=True):
            contract.prepare(self.model, theta, prepared)
            logs.append(log_mass + contract.log_likelihood(self.model, self.data, n, prepared))
        sums = np.cumsum(np.exp(np.array(logs) - max(logs)))
        dart = uniform(open_stream(key_for(KEY, Purpose.CANDIDATE, n))) * sums[-1]
        assert np.abs(sums - dart).min() > 1e-12  # so rounding cannot decide
        return int(self.choices.rows[np.searchsorted(sums, dart)])


@pytest.mark.parametrize("n_nodes", [1, 15, 16, 17, 100])
@pytest.mark.parametrize("spread", [0.3, 8.0])
def test_draws_are_those_of_one_datum_at_a_time(n_nodes: int, spread: float) -> None:
    n_data = 2 * BLOCK + 33
    among = Among(n_nodes, n_data, spread)
    found = among.draw(0, n_data)
    for n in [*range(20), *range(BLOCK - 10, BLOCK + 10), *range(n_data - 20, n_data)]:
        assert found[n] == among.expected(n)
    assert n_nodes == 1 or len(np.unique(found)) > n_nodes


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
