"""The HDP model: its measures against slow, obvious code, and its moves against exact draws.

Joint-distribution tests as in ``test_moves.py``, with the same alarm for each of some forty
statistics; fewer than a thousand comparisons of laws in all, with fixed seeds (see ``laws.py``).
"""

import functools
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from franchise import Franchise, HdpOracle, draw_weights
from joint import (
    N_DATA,
    Move,
    Oracle,
    Sample,
    counts_of,
    draw_joint,
    fresh_sample,
    moved_sample,
    smallest,
)
from laws import ALARM, p_law, p_mean, p_same
from planting import planted
from test_models import table_of
from treestick import chain, contract, families
from treestick.diffusions import dirichlet, hdp
from treestick.diffusions.hdp import Drawn, Observed
from treestick.families.gaussian import NormalGamma
from treestick.families.multinomial import SymmetricDirichlet
from treestick.models.hdp import Measures
from treestick.moves import atoms, parameters, places
from treestick.moves.assignments import move_assignments
from treestick.moves.candidates import move_candidates
from treestick.moves.redraw import move_redraw
from treestick.moves.state import State
from treestick.moves.structure.plan import MOVES, move_structure
from treestick.random import make_key, open_stream

TASKS = [(0, 3), (3, N_DATA)]
N_MOVED = 1600
NOTHING = np.empty((0, 0))

ORACLES: dict[str, Oracle] = {
    "below one": HdpOracle(),
    "one": HdpOracle(persistence=(1.0, 1.0)),
    "counts": HdpOracle(counts=True),
}
GAUSSIAN = NormalGamma(np.array([0.3, -1.0]), np.array([0.4, 1.3]), 1.5, np.array([0.7, 2.0]), 0.3)
DIRICHLET = SymmetricDirichlet(0.7, 4)


# -- families --------------------------------------------------------------------------------------


def values_of(base: Any, rng: Any, n: int) -> Any:
    if isinstance(base, NormalGamma):
        return rng.normal(size=(n, 2)) * 1.5
    return counts_of(rng.multinomial(5, [0.4, 0.3, 0.2, 0.1], size=n))


@pytest.mark.parametrize("base", [GAUSSIAN, DIRICHLET], ids=["gaussian", "multinomial"])
def test_marginal_is_the_mean_over_atoms(base: Any) -> None:
    """And an atom drawn given data weighs like one from H weighted with their density."""
    rng, stream = np.random.default_rng(0), open_stream(make_key(1))
    values = values_of(base, rng, 3)
    width, statistics_width = families.sizes(base)
    drawn = np.empty((40_000, width))
    for phi in drawn:
        families.draw_atom(stream, base, phi)
    for n in range(3):
        density = np.exp([families.log_density(base, values, n, phi) for phi in drawn])
        assert p_mean(density, math.exp(families.log_marginal(base, values, n))) > ALARM
    statistics = np.zeros(statistics_width)
    for n in range(3):
        families.add_to_atom(base, values, n, statistics)
    given = np.empty((20_000, width))
    for phi in given:
        families.draw_atom_given(stream, base, statistics, phi)
    log_f = np.array(
        [sum(families.log_density(base, values, n, phi) for n in range(3)) for phi in drawn]
    )
    weights = np.exp(log_f - np.max(log_f))
    for k, power in ((0, 1), (1, 1), (2, 2)):
        # The ratio's error by the delta method, next to that of the plain mean.
        x, y = drawn[:, k] ** power, given[:, k] ** power
        mean = weights @ x / weights.sum()
        error = math.hypot(
            math.sqrt(np.mean(weights**2 * (x - mean) ** 2)) / weights.mean() / math.sqrt(x.size),
            y.std() / math.sqrt(y.size),
        )
        assert 2.0 * stats.norm.sf(abs(y.mean() - mean) / max(error, 1e-12)) > ALARM


@pytest.mark.parametrize("base", [GAUSSIAN, DIRICHLET], ids=["gaussian", "multinomial"])
def test_densities_are_scipys(base: Any) -> None:
    stream = open_stream(make_key(1))
    values = values_of(base, np.random.default_rng(1), 4)
    phi = np.empty(families.sizes(base)[0])
    families.draw_atom(stream, base, phi)
    for n in range(4):
        found = families.log_density(base, values, n, phi)
        if isinstance(base, NormalGamma):
            scales = 1.0 / np.sqrt(phi[2:4])
            expected = np.sum(stats.norm.logpdf(values[n], phi[:2], scales)) - base.log_scale
            prior = np.sum(stats.gamma.logpdf(phi[2:4], base.shape, scale=1.0 / base.rate))
            spread = scales / np.sqrt(base.strength)
            prior += np.sum(stats.norm.logpdf(phi[:2], base.centre, spread))
        else:
            row = np.zeros(4)
            entries = slice(values.start[n], values.start[n] + values.n_entries[n])
            row[values.outcomes[entries]] = values.counts[entries]
            expected = stats.multinomial.logpmf(row, 5, np.exp(phi))
            prior = stats.dirichlet.logpdf(np.exp(phi) / np.exp(phi).sum(), np.full(4, 0.7))
            prior += phi.sum()  # the density of logarithms
        assert found == pytest.approx(expected, rel=1e-9)
        assert families.log_atom(base, phi) == pytest.approx(prior, rel=1e-9)


# -- measures --------------------------------------------------------------------------------------


def test_discrete_base_measure_is_a_dirichlet_chain() -> None:
    """With H on M atoms, probabilities of all of them go down as in the multinomial model.

    The root is Dir(concentration / M); a child's shapes are those of the even base measure.
    """
    rng = np.random.default_rng(0)
    n_atoms, concentration, persistence = 3, 2.0, 0.6
    labels = []
    for _ in range(20_000):
        franchise = Franchise(rng, concentration, persistence, [-1, 0])
        dishes = [franchise.seat(1), franchise.seat(0), franchise.seat(1)]
        label = rng.integers(n_atoms, size=3)  # two dishes may be the same atom of H
        labels.append(label[dishes])
    found = np.array(labels) @ [9, 3, 1]
    stream, base = open_stream(make_key(1)), dirichlet.even(n_atoms, 0.0)._replace(root=1.0)
    law = np.zeros(27)
    root, child, shapes = np.empty(3), np.empty(3), np.empty(3)
    for _ in range(40_000):
        dirichlet.write_shapes(concentration, persistence, base, np.empty(0), shapes)
        assert shapes == pytest.approx(concentration / n_atoms)
        dirichlet.draw(stream, shapes, root)
        dirichlet.write_shapes(concentration, persistence, base, root, shapes)
        dirichlet.draw(stream, shapes, child)
        p, q = np.exp(root), np.exp(child)
        law += np.einsum("i,j,k->ijk", q, p, q).ravel() / 40_000
    drawn = np.random.default_rng(1).choice(27, size=20_000, p=law / law.sum())
    assert p_same(found, drawn) > ALARM


def lookups(key: Any, model: Measures, table: Any, theta: Any, node: int, v: float) -> Any:
    """Return the home and stick of the atom under a point of a node's rest."""
    rest = np.exp(theta[:, -1])

    def mass(row: int) -> float:
        above = table.parent[row]
        return hdp.mass_of_rest(
            model.concentration, model.persistence, row == 0, rest[above] if row else 0.0
        )

    ordinal = hdp.find_stick(key, table.entity[node], mass(node), v)
    while node > 0:
        above = int(table.parent[node])
        up = hdp.follow(
            key, model.persistence, table.entity[node], ordinal, rest[above],
            table.entity[above], mass(above),
        )  # fmt: skip
        if up < 0:
            break
        node, ordinal = above, up
    return node, ordinal


@pytest.mark.parametrize("persistence", [0.6, 1.0])
def test_atoms_of_the_rest_are_those_of_a_franchise(persistence: float) -> None:
    """Points thrown at the rests of three nodes in a chain share atoms as guests share dishes.

    No atom is represented, so that the rest is everything.
    """
    table = table_of([-1, 0, 1, 0], [0, 0, 1, 0])
    model = Measures(1.5, 1.5, 1.5, persistence, persistence, persistence, 0)
    theta = np.zeros((4, 1))
    where = [2, 1, 2, 3, 0]
    rng = np.random.default_rng(0)

    def pattern(dishes: Any) -> int:
        first = [list(dishes).index(dish) for dish in dishes]
        return int(np.dot(first, [1, 5, 25, 125, 625]))

    found, expected = [], []
    for k in range(8000):
        key = make_key(3, 0, k)
        found.append(
            pattern([lookups(key, model, table, theta, e, float(rng.random())) for e in where])
        )
        franchise = Franchise(rng, 1.5, persistence, [-1, 0, 1, 0])
        expected.append(pattern([franchise.seat(e) for e in where]))
    assert p_same(found, expected) > ALARM


@pytest.mark.parametrize("persistence", [0.5, 1.0])
def test_one_atom_more_or_less(persistence: float) -> None:
    """An atom that is represented for a datum has weights as a guest would give them."""
    parent, place = [-1, 0, 1, 0], 2
    table = table_of(parent, [0, 0, 1, 0])
    rng, stream = np.random.default_rng(0), open_stream(make_key(1))
    found, expected = [], []
    for _ in range(6000):
        log_weights, log_rest = np.full((4, 1), -1000.0), np.zeros(4)
        hdp.represent_atom(stream, 1.5, persistence, table, place, log_weights, log_rest, 0)
        assert np.exp(log_weights[:, 0]) + np.exp(log_rest) == pytest.approx(1.0)
        found.append(np.exp(log_weights[:, 0]))
        hdp.forget_atom(log_weights, log_rest, 0)
        assert log_rest == pytest.approx(0.0, abs=1e-12)
        franchise = Franchise(rng, 1.5, persistence, parent)
        franchise.seat(place)
        theta = draw_weights(rng, 1.5, persistence, parent, franchise.guests())
        expected.append(np.exp(theta[:, 0]))
    a, b = np.round(found, 9), np.round(expected, 9)
    powers = [1, 2, 4, 8]
    assert p_same((a > 0.0) @ powers, (b > 0.0) @ powers) > ALARM
    for node in range(4):
        assert stats.ks_2samp(a[:, node], b[:, node]).pvalue > ALARM
    assert stats.ks_2samp(a[:, 0] * a[:, 2], b[:, 0] * b[:, 2]).pvalue > ALARM


def test_homes_against_enumeration() -> None:
    """A chain of three nodes; the atom has two guests at the lowest, all else is as it is."""
    table = table_of([-1, 0, 1], [3, 1, 2])
    counts = np.array([[0.0, 3.0, 0.0], [0.0, 1.0, 0.0], [2.0, 0.0, 0.0]])
    concentration, eta = 1.7, 0.7
    weights = [
        1 - eta,
        eta * concentration / (concentration + 1.0) * (1 - eta),
        eta**2 * concentration / (concentration + 1.0) * concentration / (concentration + 4.0),
    ]
    law = dict(enumerate((np.array(weights) / sum(weights)).tolist()))
    customers = counts.copy()
    customers[0, 1] = 4.0  # with the table of the atom's one guest below
    stream, homes = open_stream(make_key(1)), []
    for _ in range(10_000):
        hdp.draw_homes(stream, concentration, eta, table, counts, customers)
        assert np.array_equal(customers[:, 1], [4.0, 1.0, 0.0])
        homes.append(int(customers[:2, 0].sum()))
    assert p_law(homes, law) > ALARM


# -- the model -------------------------------------------------------------------------------------


ATOMS = np.log([[0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7]])


def small(persistence: float = 0.8) -> tuple[Measures, Drawn]:
    model = Measures(1.5, 1.5, 1.5, persistence, persistence, persistence, 2)
    return model, Drawn(np.array([0, 1]), np.zeros(2), NOTHING)


def test_chains_of_unseen_nodes() -> None:
    """Drawn given the datum, they are as those from the prior weighted with its probability."""
    model, data = small()
    theta = np.log([0.3, 0.2, 0.5])
    rng = np.random.default_rng(0)
    prepared = np.empty(6)
    contract.prepare_unseen(model, theta, 3, prepared)
    assert prepared[3:5] == pytest.approx(0.8**3 * np.exp(theta[:2]), rel=1e-9)
    assert prepared[3:].sum() == pytest.approx(1.0)
    given, thetas = [], np.empty((2, 3))
    stream = open_stream(make_key(1))
    for _ in range(20_000):
        contract.draw_chain(stream, model, data, 0, theta, thetas)
        given.append(np.exp(thetas))
    drawn, weights = [], []
    for _ in range(40_000):
        above = np.exp(theta)
        rows = []
        for _ in range(2):
            shapes = 1.5 * (0.8 * above + 0.2 * np.array([0.0, 0.0, 1.0]))
            above = rng.dirichlet(np.maximum(shapes, 1e-9))
            rows.append(above)
        drawn.append(rows)
        weights.append(above[0])
    a, b, w = np.array(given), np.array(drawn), np.array(weights)
    for level in range(2):
        for k in range(3):
            x = b[:, level, k]
            mean = w @ x / w.sum()
            error = math.sqrt(np.mean(w**2 * (x - mean) ** 2)) / w.mean() / math.sqrt(x.size)
            error = math.hypot(error, a[:, level, k].std() / math.sqrt(len(a)))
            assert 2.0 * stats.norm.sf(abs(a[:, level, k].mean() - mean) / error) > ALARM


def test_an_atom_that_is_dead_above_gets_a_home_in_the_chain() -> None:
    """At level j of L with probability proportional to persistence**(L - j)."""
    model, data = small()
    theta, thetas = np.array([-1000.0, math.log(0.2), math.log(0.8)]), np.empty((3, 3))
    prepared = np.empty(6)
    contract.prepare_unseen(model, theta, 3, prepared)
    assert prepared[0] == pytest.approx(math.log((1.0 - 0.8**3) * hdp.NOWHERE))
    stream, homes = open_stream(make_key(1)), []
    for _ in range(10_000):
        contract.draw_chain(stream, model, data, 0, theta, thetas)
        alive = thetas[:, 0] > -1000.0
        assert np.all(np.diff(alive.astype(int)) >= 0)
        homes.append(int(np.argmax(alive)))
    p = 0.8 ** np.array([2.0, 1.0, 0.0])
    assert p_law(homes, dict(enumerate((p / p.sum()).tolist()))) > ALARM


def test_density_of_new_data_sums_over_atoms() -> None:
    model, _ = small()
    values = counts_of([[1, 0, 2, 0], [0, 0, 1, 1]])
    new = hdp.see_without_atoms(Observed(values, DIRICHLET), 2, ATOMS)
    theta = np.log([0.5, 0.2, 0.3])
    prepared = np.empty(6)
    contract.prepare(model, theta, prepared)
    for n in range(2):
        logs = [families.log_density(DIRICHLET, values, n, phi) for phi in ATOMS]
        logs.append(families.log_marginal(DIRICHLET, values, n))
        expected = special.logsumexp(logs, b=np.exp(theta))
        assert contract.log_likelihood(model, new, n, prepared) == pytest.approx(expected)


# -- moves -----------------------------------------------------------------------------------------


@functools.cache
def fresh(model: str) -> Sample:
    return fresh_sample(1, ORACLES[model], 5000)


def move_of(name: str, module: Any = None) -> Move:
    moves: dict[str, Move] = {
        "parameters": lambda key, state, data: parameters.move_parameters(key, state)[0],
        "model": lambda key, state, data: parameters.move_model_hyperparameters(key, state),
        "places": lambda k, state, data: (module or places).move_places(k, state, data, TASKS)[0],
        "atoms of data": lambda k, state, data: (module or atoms).move_atoms_of_data(
            k, state, data
        ),
        "atoms": lambda key, state, data: (module or atoms).move_atoms(key, state, data),
        "assignments": lambda key, state, data: move_assignments(
            key, state, state.latent.seen, TASKS
        )[0],
        "candidates": lambda key, state, data: move_candidates(
            key, state, state.latent.seen, TASKS, 6, 0.02
        )[0],
        "sweep": lambda key, state, data: chain.sweep(key, state, data)[0],
        "paper": lambda key, state, data: chain.sweep(key, state, data, schedule="paper")[0],
    }
    if name in moves:
        return moves[name]
    return lambda key, state, data: move_structure(key, state, state.latent.seen, {name: 8})[0]


WITHOUT_STICKS = ("sweep", *MOVES)
QUICK = [
    *((name, "below one") for name in ("atoms of data", "parameters", "sweep")),
    ("model", "one"),
]
EVERY = [
    (name, model)
    for model in ORACLES
    for name in ("places", "atoms of data", "atoms", "parameters", "model", "assignments",
                 "candidates", "paper", "sweep", *MOVES)
    if (name, model) not in QUICK
]  # fmt: skip


def check(name: str, model: str) -> None:
    moved = moved_sample(2, ORACLES[model], move_of(name), N_MOVED, name not in WITHOUT_STICKS)
    p, statistic = smallest(fresh(model), moved)
    assert p > ALARM, f"{statistic}: p = {p:.2g}"


@pytest.mark.parametrize(("name", "model"), QUICK)
def test_move_leaves_the_joint_law_invariant(name: str, model: str) -> None:
    check(name, model)


@pytest.mark.long
@pytest.mark.parametrize(("name", "model"), EVERY)
def test_every_move_leaves_the_joint_law_invariant(name: str, model: str) -> None:
    check(name, model)


BUGS = {
    "a new atom weighs as if it were known": (
        "atoms of data", "treestick.moves.atoms",
        "largest = log_rest[node] + families.log_marginal(base, data.values, n)",
        "largest = families.log_marginal(base, data.values, n)",
    ),
    "an atom is not forgotten when it is left": (
        "atoms of data", "treestick.moves.atoms",
        "            hdp.forget_atom(log_weights, log_rest, atom[n])\n", "            pass\n",
    ),
    "a place begins where its node does": (
        "places", "treestick.moves.places",
        "first_now = start + span * edges[node, place]", "first_now = start",
    ),
    "the rest is measured from the node's start": (
        "places", "treestick.moves.places",
        "v = (v - own[n_atoms]) / (1.0 - own[n_atoms])", "v = v * 0.01",
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_is_caught(bug: str) -> None:
    name, module, correct, wrong = BUGS[bug]
    move = move_of(name, planted(module, correct, wrong))
    p, _ = smallest(fresh("below one"), moved_sample(2, ORACLES["below one"], move, 4000, True))
    assert p < ALARM


def test_bugs_stand_in_the_source() -> None:
    for _, module, correct, wrong in BUGS.values():
        planted(module, correct, wrong)


# -- the chain -------------------------------------------------------------------------------------


def test_threads_and_tasks_change_nothing() -> None:
    rng = np.random.default_rng(0)
    state, data = draw_joint(rng, ORACLES["below one"], 60)
    with ThreadPoolExecutor(2) as pool:
        results: list[State] = []
        for run in (map, pool.map):
            now = state
            for k in range(1, 4):
                now, _ = chain.sweep(make_key(1, 0, k), now, data, run)
            results.append(now)
    for field in ("assignments", "theta"):
        assert np.array_equal(getattr(results[0], field), getattr(results[1], field))
    assert np.array_equal(results[0].latent.atom, results[1].latent.atom)
    tasks = [(0, 7), (7, 50), (50, 60)]
    redrawn = move_redraw(make_key(1, 0, 9), results[0])
    one, _ = places.move_places(make_key(1, 0, 9), redrawn, data, [(0, 60)])
    three, _ = places.move_places(make_key(1, 0, 9), redrawn, data, tasks)
    assert np.array_equal(one.latent.atom, three.latent.atom)
    assert np.array_equal(one.theta, three.theta)
