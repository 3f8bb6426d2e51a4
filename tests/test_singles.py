"""What single data are chosen with, and where they go, against the same computed from scratch."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from joint import BernoulliOracle, GaussianOracle, MultinomialOracle, Oracle, draw_joint
from laws import ALARM
from planting import planted_function
from treestick.moves.state import State
from treestick.moves.structure import hull as on
from treestick.moves.structure.chosen import choose_singles, find_chosen
from treestick.moves.structure.hull import ALIVE, Hull, loosen
from treestick.moves.structure.singles import (
    GIVEN_LEAVES,
    LEVELS,
    SMALL_LEAVES,
    _choose,
    _make_logs,
    count_some,
    make_desk,
    move_singles,
)
from treestick.random import Purpose, key_for, make_key, open_stream

N_DATA = 9
ROOM = 16


def draw_hull(seed: int) -> tuple[State, Any, Hull]:
    state, data = draw_joint(np.random.default_rng(seed), GaussianOracle(), n_data=N_DATA)
    return state, data, loosen(state, ROOM)


def log_chances(hull: Hull) -> npt.NDArray[np.float64]:
    """Rule 3, from the labels alone."""
    labels = [int(on.node_of(hull, n)) for n in range(N_DATA)]
    n_nodes = len(set(labels))
    return np.log([0.5 / N_DATA + 0.5 / (n_nodes * labels.count(label)) for label in labels])


def copied(hull: Hull) -> Hull:
    fields: Any = [field.copy() for field in hull]
    return Hull(*fields)


@pytest.mark.parametrize("seed", range(3))
def test_data_are_chosen_as_often_as_their_weights_say(seed: int) -> None:
    hull = draw_hull(seed)[2]
    expected = np.exp(log_chances(hull))
    assert math.isclose(expected.sum(), 1.0)
    found = np.zeros(N_DATA)
    n = 20_000
    chosen = choose_singles(make_key(seed), 0, n, hull)
    np.add.at(found, find_chosen(hull.labels, hull.nodes.size, chosen), 1)
    assert stats.chisquare(found, n * expected).pvalue > ALARM


@pytest.mark.parametrize("most", [0, 2])
def test_weights_of_places_are_those_of_the_trees(most: int) -> None:
    """Of the partition, and of the choices yet to come; likelihoods are any numbers."""
    rng = np.random.default_rng(most)
    n_compared = n_of_empty_nodes = n_of_mates = 0
    for seed in range(200):
        state, data, hull = draw_hull(seed)
        datum = int(rng.integers(N_DATA))
        row = int(on.node_of(hull, datum))
        if row != 0 and hull.nodes[row].n_here == 1 and hull.nodes[row].n_children == 0:
            continue  # it would take nodes away with it
        on.take_datum(hull, state.model, data, datum)
        to_come = rng.integers(N_DATA, size=rng.integers(6))
        n_chosen = np.zeros(hull.nodes.size, dtype=np.int64)
        for other in to_come[to_come != datum]:
            n_chosen[on.node_of(hull, other)] += 1
        choices = np.append(datum, to_come)
        log_f = rng.normal(size=(LEVELS + 1, hull.nodes.size))
        desk = make_desk(LEVELS, hull.nodes.size, 0, 0)
        desk.n_chosen[:] = n_chosen
        desk.n_times[0] = np.sum(choices == datum)
        desk.n_some[0] = count_some(hull)
        logs = _make_logs(state.sticks, hull)
        stream = open_stream(key_for(make_key(seed), Purpose.STRUCTURE, 0))
        _choose(stream, state.sticks, hull, most, choices, log_f, desk, logs)
        expected, weights = [], []
        for k in range(hull.counts[ALIVE]):
            row = int(hull.nodes[k].alive)
            node = hull.nodes[row]
            is_integrated = row != 0 and node.n_children == 0 and node.n_here <= most
            for levels in range(1 if is_integrated else LEVELS + 1):
                there, end = copied(hull), row
                for _ in range(levels):
                    new = int(on.add_node(there, np.uint64(7)))
                    on.hang(there, new, end)
                    end = new
                on.put_datum(there, state.model, data, datum, end)
                log_s = float(log_chances(there)[choices].sum())
                log_p = on.log_tree(there, state.sticks) + log_s + log_f[levels, row]
                expected.append(log_p)
                weights.append(desk.weights[levels, row])
            n_of_empty_nodes += node.n_here == 0
            n_of_mates += n_chosen[row] > 1
            if is_integrated:
                assert np.all(desk.weights[1:, row] == 0.0)
        shares = np.exp(np.array(expected) - max(expected))
        np.testing.assert_allclose(weights, shares / max(shares) * max(weights), rtol=1e-10)
        n_compared += len(weights)
    assert min(n_compared, n_of_empty_nodes, n_of_mates) > 20


ORACLES: dict[str, Oracle] = {
    "gaussian": GaussianOracle(),
    "bernoulli": BernoulliOracle(),
    "multinomial": MultinomialOracle(),
}
CHANGED = "        if most > 0 and row != before:  # rule 2\n"
ANEW = """        _compute(model, data, hull, most, chosen, 0, log_f.shape[2] // ABREAST, log_f)
"""
"""All likelihoods, after each move. Of data that have moved too, which are not asked for again."""


@pytest.mark.parametrize("name", ORACLES)
def test_likelihoods_that_hold_are_those_computed_anew(name: str) -> None:
    """Rule 2: where a datum goes depends on no likelihood of before."""
    n_data, n = 60, 40
    of_module = ("treestick.moves.structure.singles", "move_singles")
    always = planted_function(*of_module, CHANGED, ANEW + CHANGED)
    never = planted_function(*of_module, CHANGED, "        if most > 99 and row != before:\n")
    n_moved = n_wrong = 0
    for seed in range(20):
        state, data = draw_joint(np.random.default_rng(seed), ORACLES[name], n_data=n_data)
        for kind in (GIVEN_LEAVES, SMALL_LEAVES):
            hulls = [loosen(state, LEVELS * n) for _ in range(3)]
            for move, hull in zip((move_singles, always, never), hulls, strict=True):
                moved = move(make_key(seed), state.model, data, state.sticks, hull, kind, 0, n)
                n_moved += int(moved[1])
            kept, anew, wrong = hulls
            np.testing.assert_array_equal(kept.labels, anew.labels)
            np.testing.assert_array_equal(kept.nodes, anew.nodes)
            alive = kept.nodes["alive"][: kept.counts[ALIVE]]
            np.testing.assert_array_equal(kept.theta[alive], anew.theta[alive])
            if kind == SMALL_LEAVES:
                n_wrong += bool((kept.labels != wrong.labels).any())
    assert n_moved > 100
    assert n_wrong > 0  # what has changed does matter
