"""Eight numbers at once: the same as one after the other."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special

from treestick import packs
from treestick._jit import compiled
from treestick.diffusions.logistic import Logit, find_mode, first_guess, value_and_slope

Floats = npt.NDArray[np.float64]

WIDTH = packs.WIDTH
LAST_BITS = 4e-16


@compiled
def exps(x: Floats, result: Floats) -> None:
    for first in range(0, x.size, WIDTH):
        packs.store(result, first, packs.exp(packs.load(x, first, 0.0)))


@compiled
def logs(x: Floats, result: Floats) -> None:
    for first in range(0, x.size, WIDTH):
        packs.store(result, first, packs.log(packs.load(x, first, 1.0)))


@compiled
def roots(x: Floats, result: Floats) -> None:
    for first in range(0, x.size, WIDTH):
        packs.store(result, first, packs.sqrt(packs.load(x, first, 1.0)))


def applied(function: Callable[[Floats, Floats], None], x: Floats) -> Floats:
    result = np.full(x.size, np.nan)
    function(x, result)
    return result


def test_exp_is_right_to_the_last_bits() -> None:
    x = np.concatenate(
        [np.linspace(-708.0, 709.0, 100_003), np.linspace(-1.0, 1.0, 100_003), [0.0]]
    )
    np.testing.assert_allclose(applied(exps, x), np.exp(x), rtol=LAST_BITS)
    assert applied(exps, np.zeros(1))[0] == 1.0


def test_exp_stays_finite_beyond_the_range_of_floats() -> None:
    found = applied(exps, np.array([-math.inf, -1e5, 1e5, math.inf]))
    np.testing.assert_allclose(found, np.exp([-708.0, -708.0, 709.0, 709.0]), rtol=LAST_BITS)


def test_log_is_right_to_the_last_bits() -> None:
    x = np.concatenate([np.geomspace(1e-300, 1e300, 100_003), np.linspace(0.5, 2.0, 100_003)])
    np.testing.assert_allclose(applied(logs, x), np.log(x), rtol=LAST_BITS, atol=LAST_BITS / 2)
    near = 1.0 + np.geomspace(1e-15, 0.4, 1001)
    np.testing.assert_allclose(applied(logs, near), np.log(near), rtol=LAST_BITS)


def test_sqrt_is_exact() -> None:
    x = np.geomspace(1e-300, 1e300, 1003)
    assert np.array_equal(applied(roots, x), np.sqrt(x))


@compiled
def log_gammas(x: Floats, result: Floats) -> None:
    for first in range(0, x.size, WIDTH):
        packs.store(result, first, packs.log_gamma(packs.load(x, first, 1.0)))


def test_log_gamma_is_as_near_as_it_says() -> None:
    x = np.concatenate([np.geomspace(1e-30, 1e30, 10_003), np.linspace(0.01, 50.0, 10_003)])
    expected = special.gammaln(x)
    np.testing.assert_allclose(applied(log_gammas, x), expected, rtol=1e-13, atol=1e-13)


@compiled
def folded(x: Floats, first: int, other: float, n: int) -> tuple[float, float]:
    pack = packs.load(x, first, other)
    return packs.total(packs.first_of(pack, n)), packs.largest_of(pack)


@pytest.mark.parametrize(
    ("first", "other", "n"), [(0, 0.0, 8), (0, 0.0, 3), (7, -1.0, 8), (7, 50.0, 20)]
)
def test_load_fills_up_what_is_missing(first: int, other: float, n: int) -> None:
    x = np.arange(10.0)
    whole = np.append(x[first:], np.full(WIDTH, other))[:WIDTH]
    assert folded(x, first, other, n) == (whole[:n].sum(), whole.max())


@compiled
def stored(result: Floats, first: int) -> None:
    packs.store(result, first, packs.fill(1.0))


@pytest.mark.parametrize("first", [0, 2, 3, 9])
def test_store_ends_where_the_array_does(first: int) -> None:
    around = np.zeros(30)
    stored(around[10:20], first)
    assert np.array_equal(np.flatnonzero(around), np.arange(10 + first, min(18 + first, 20)))


@compiled
def compared(a: Floats, b: Floats, result: Floats) -> tuple[bool, bool]:
    x, y = packs.load(a, 0, 0.0), packs.load(b, 0, 0.0)
    packs.store(result[0], 0, packs.where_less(x, y, 1.0, -x))
    packs.store(result[1], 0, packs.larger(x, y))
    packs.store(result[2], 0, packs.smaller(x, 2.0))
    packs.store(result[3], 0, packs.size(x))
    packs.store(result[4], 0, (1.0 - x) / y + 3.0 * x * y)
    return packs.any_less(x, y), packs.any_less(9.0, x)


def test_lanes_are_compared_one_by_one() -> None:
    rng = np.random.default_rng(1)
    a, b, found = rng.normal(size=WIDTH), rng.normal(size=WIDTH), np.empty((5, WIDTH))
    assert compared(a, b, found) == (True, False)
    rows = [
        np.where(a < b, 1.0, -a), np.maximum(a, b), np.minimum(a, 2.0), np.abs(a),
        (1.0 - a) / b + 3.0 * a * b,
    ]  # fmt: skip
    assert np.array_equal(found, np.array(rows))
    assert compared(b, b, found) == (False, False)


@compiled
def modes(centre: Floats, precision: Floats, ones: Floats, n: float, result: Floats) -> None:
    law = Logit(
        packs.load(centre, 0, 0.0), packs.load(precision, 0, 1.0), packs.load(ones, 0, 0.0), n
    )
    mode = find_mode(law, first_guess(law), 1e-6)[0]
    packs.store(result[0], 0, mode)
    packs.store(result[1], 0, value_and_slope(law, mode)[0])


@compiled
def mode_of_one(centre: float, precision: float, ones: float, n: float) -> tuple[float, float]:
    law = Logit(centre, precision, ones, n)
    mode = find_mode(law, first_guess(law), 1e-6)[0]
    return mode, value_and_slope(law, mode)[0]


def test_a_law_does_not_depend_on_those_beside_it() -> None:
    """Formulas for numbers and for packs are the same; easy laws wait for those that are not."""
    centre = np.array([0.0, 1.0, -30.0, 5.0, 0.1, 400.0, -2.0, 0.0])
    precision = np.array([1.0, 0.01, 0.001, 50.0, 3.0, 0.02, 1e-4, 10.0])
    ones = np.array([0.0, 7.0, 7.0, 0.0, 3.0, 0.0, 1.0, 2.0])
    both, alone = np.empty((2, WIDTH)), np.empty((2, WIDTH))
    modes(centre, precision, ones, 7.0, both)
    for k in range(WIDTH):
        modes(centre[k : k + 1], precision[k : k + 1], ones[k : k + 1], 7.0, alone)
        assert np.array_equal(alone[:, 0], both[:, k])
        one = mode_of_one(centre[k], precision[k], ones[k], 7.0)
        np.testing.assert_allclose(both[:, k], one, rtol=1e-12)
