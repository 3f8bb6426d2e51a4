"""The model of docs/add_a_model.md: its blocks are run as a user's own file would be.

Fewer than 200 comparisons of laws at ``ALARM`` each, with fixed seeds (see ``laws.py``). A model
from outside the package is compiled in each process anew: a whole default sweep takes minutes, so
what needs one is in the long tier, and CI sweeps by the paper's moves.
"""

import importlib.util
import math
import pickle
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from joint import Move, Oracle, Rng, Sample, fresh_sample, moved_sample, smallest
from laws import ALARM, p_mean
from test_fits import fitted, make_group, parts
from test_models import gathered, p_of_density, prepared_row
from treestick import chain, contract
from treestick.inputs import InvalidValue
from treestick.moves import parameters
from treestick.random import make_key, open_stream
from treestick.tree.table import NULL
from treestick.wide import ABREAST

PAGE = Path(__file__).parents[1] / "docs" / "add_a_model.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
SOURCE, USE = "\n\n".join(BLOCKS[:-1]), BLOCKS[-1]


def imported(folder: Path, name: str, source: str) -> types.ModuleType:
    """Write a file, and import it."""
    path = folder / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def poisson(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield imported(tmp_path_factory.mktemp("outside"), "poisson_tree", SOURCE)
    del sys.modules["poisson_tree"]


def make_model(poisson: Any, concentration: float = 2.5) -> Any:
    return poisson.Poisson(concentration, 1.0, 6.0, 1.5, np.array([0.5, 0.8]))


ROWS = np.array([[3.0, 0.0], [0.0, 0.0], [1.0, 7.0]])


def rows_of(poisson: Any, counts: Any) -> Any:
    counts = np.asarray(counts, dtype=float)
    return poisson.Rows(counts, special.gammaln(counts + 1.0).sum(axis=1))


# -- functions one by one --------------------------------------------------------------------------


def test_all_entries_are_named_on_the_page() -> None:
    for field in contract.NodeModel._fields:
        assert f"{field}=" in SOURCE or field in contract.NodeModel._field_defaults


def test_planted_bugs_have_their_place() -> None:
    for _, correct, _ in BUGS.values():
        assert SOURCE.count(correct) == 1


def test_likelihoods_are_scipys(poisson: Any) -> None:
    model, data, theta = make_model(poisson), rows_of(poisson, ROWS), np.log([2.0, 5.0])
    seen, unseen = prepared_row(model, theta), prepared_row(model, theta, 1)
    c = model.concentration
    of_seen = np.sum(stats.poisson.logpmf(ROWS, np.exp(theta)), axis=1)
    of_unseen = np.sum(stats.nbinom.logpmf(ROWS, c, c / (c + np.exp(theta))), axis=1)
    out, statistics = np.empty((1, ABREAST)), np.zeros(3)
    side_by_side = np.ascontiguousarray(np.array([seen, unseen] * (ABREAST // 2)).T)
    for n in range(3):
        assert contract.log_likelihood(model, data, n, seen) == pytest.approx(of_seen[n])
        assert contract.log_likelihood(model, data, n, unseen) == pytest.approx(of_unseen[n])
        contract.log_likelihoods(model, data, n, n + 1, side_by_side, out)
        np.testing.assert_allclose(out[0], [of_seen[n], of_unseen[n]] * (ABREAST // 2))
        contract.add_statistics(model, data, n, statistics)
    of_sums = contract.log_likelihood_of_sums(model, theta, 3.0, statistics)
    assert of_sums == pytest.approx(of_seen.sum())


def test_laws_of_parameters_and_data(poisson: Any) -> None:
    model, parent = make_model(poisson), np.log([2.0, 5.0])
    c, data = model.concentration, rows_of(poisson, ROWS)

    def draw_chain(stream: Any, row: Any) -> None:
        contract.draw_chain(stream, model, data, 2, parent, row[None])

    roots = gathered(5000, 2, lambda stream, row: contract.draw_root(stream, model, row))
    below = gathered(5000, 2, lambda stream, row: contract.draw_child(stream, model, parent, row))
    given = gathered(5000, 2, draw_chain)
    for d in range(2):
        rate = c / np.exp(parent[d])
        for drawn, shape, scale in (
            (roots, 1.5, 1.0 / model.root_rate[d]),
            (below, c, 1.0 / rate),
            (given, c + ROWS[2, d], 1.0 / (rate + 1.0)),
        ):
            law = stats.gamma(shape, scale=scale)
            assert stats.kstest(np.exp(drawn[:, d]), law.cdf).pvalue > ALARM
    log_law = stats.gamma(c, scale=np.exp(parent) / c).logpdf(np.exp(below[0])) + below[0]
    assert contract.log_transition(model, parent, below[0]) == pytest.approx(log_law.sum())
    many, stream = rows_of(poisson, np.zeros((3000, 2))), open_stream(make_key(1))
    for n in range(3000):
        contract.simulate(stream, model, parent, many, n)
    np.testing.assert_allclose(many.log_factorials, rows_of(poisson, many.counts).log_factorials)
    for d, rate in enumerate((2.0, 5.0)):
        assert p_mean(many.counts[:, d], rate) > ALARM
        assert p_mean(many.counts[:, d] ** 2, rate + rate**2) > ALARM


@pytest.mark.parametrize(
    ("power", "up", "down"), [(2.3, 1.5, 0.0), (2.3, 1.5, 4.0), (-3.0, 1.5, 4.0), (-9.0, 0.01, 2.0)]
)
def test_exact_draws(poisson: Any, power: float, up: float, down: float) -> None:
    stream = open_stream(make_key(1))
    drawn = np.array([poisson.draw_exactly(stream, power, up, down) for _ in range(10_000)])
    grid = np.linspace(-15.0, 12.0, 200_001)
    log_p = power * grid - up * np.exp(grid) - down * np.exp(-grid)
    assert p_of_density(drawn, grid, log_p) > ALARM


GROUPS = [((NULL,), [0], False), ((NULL,), [3], True), ((NULL, 0, 0), [1, 0, 2], True)]
"""Parents within a group, how many children each has outside, whether the first is the root."""


def from_the_prior(model: Any, group: contract.Group, n: int) -> tuple[Any, Any]:
    """Return parameters drawn from the prior, and what the rest of the joint density is."""
    rng = np.random.default_rng(1)
    c, weight = model.concentration, np.zeros(n)
    theta = np.empty((len(group.over), n, 2))
    for k, over in enumerate(group.over):
        above, below, n_here, statistics = parts(group, k)
        scale = 1.0 / model.root_rate
        if over != NULL or above.size:
            scale = np.exp(theta[over] if over != NULL else above) / c
        shape = c if over != NULL or above.size else model.root_shape
        rate = scale * rng.gamma(shape, size=(n, 2))
        theta[k] = np.log(rate)
        weight += theta[k] @ statistics[:2] - n_here * rate.sum(axis=1) - statistics[2]
        for child in below:
            law = stats.gamma(c, scale=rate / c)
            weight += (law.logpdf(np.exp(child)) + child).sum(axis=1)
    return theta, weight


@pytest.mark.parametrize(("over", "n_children", "has_root"), GROUPS)
def test_weights_of_groups(
    poisson: Any, over: tuple[int, ...], n_children: list[int], has_root: bool
) -> None:
    """Means of the weight, and of it times a rate, are integrals: Z, and Z E[rate]."""
    rng = np.random.default_rng(1)
    model, n_nodes = make_model(poisson), len(over)
    counts = rng.poisson(3.0, size=(n_nodes, 2))
    statistics = np.hstack([counts, rng.random((n_nodes, 1))])
    below = [rng.normal(1.0, 0.5, size=(k, 2)) for k in n_children]
    above = rng.normal(1.0, 0.3, size=(n_nodes, 2))
    group = make_group(over, above, has_root, np.ones(n_nodes), statistics, below)
    theta, weight = fitted(model, group, 20_000)
    prior_theta, prior_weight = from_the_prior(model, group, 200_000)
    largest = prior_weight.max()
    z, prior_z = np.exp(weight - largest), np.exp(prior_weight - largest)
    for k in range(n_nodes):
        rate, prior_rate = np.exp(theta[:, k, 0]), np.exp(prior_theta[k, :, 0])
        for f, prior_f in [(1.0, 1.0), (rate, prior_rate)]:
            assert stats.ttest_ind(z * f, prior_z * prior_f, equal_var=False).pvalue > ALARM
    assert z.sum() ** 2 / (z**2).sum() > 0.5 * z.size  # the proposal is near what it stands for
    if n_nodes == 1:
        log_z = largest + math.log(prior_z.mean())
        # It has the highest weight; at its mode, q is less curved by a factor of 2 at most.
        assert -0.05 < contract.log_evidence(model, *parts(group, 0)) - log_z < math.log(2.0)
    if n_children == [0]:
        assert np.ptp(weight) < 1e-9  # a leaf's proposal is exact


# -- the joint-distribution test -------------------------------------------------------------------


class PoissonOracle(Oracle):
    """The model of the page, by NumPy."""

    def __init__(self, module: Any) -> None:
        super().__init__(2)
        self.module = module

    def draw_model(self, rng: Rng) -> Any:
        return make_model(self.module, float(rng.uniform(1.0, 6.0)))

    def draw_root(self, rng: Rng, model: Any) -> Any:
        return np.log(rng.gamma(model.root_shape, size=2) / model.root_rate)

    def draw_child(self, rng: Rng, model: Any, parent: Any) -> Any:
        return parent + np.log(rng.gamma(model.concentration, size=2) / model.concentration)

    def draw_data(self, rng: Rng, model: Any, theta: Any) -> Any:
        return rows_of(self.module, rng.poisson(np.exp(theta)))

    def values(self, data: Any) -> Any:
        return data.counts

    def extras(self, model: Any) -> dict[str, float]:
        return {"concentration": model.concentration}


MOVES: dict[str, Move] = {
    "parameters": lambda key, state, data: parameters.move_parameters(key, state)[0],
    "model": lambda key, state, data: parameters.move_model_hyperparameters(key, state),
    "paper": lambda key, state, data: chain.sweep(key, state, data, schedule="paper")[0],
    "sweep": lambda key, state, data: chain.sweep(key, state, data)[0],
}


@pytest.fixture(scope="module")
def fresh(poisson: Any) -> Sample:
    return fresh_sample(1, PoissonOracle(poisson), 3000)


def long(*names: str) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.long) for name in names]


@pytest.mark.parametrize("name", ["paper", *long("parameters", "model", "sweep")])
def test_move_leaves_the_joint_law_invariant(poisson: Any, fresh: Sample, name: str) -> None:
    """Some thirty statistics, each at ``ALARM``; default sweeps keep no sticks to be compared."""
    moved = moved_sample(2, PoissonOracle(poisson), MOVES[name], 1600, name != "sweep")
    p, statistic = smallest(fresh, moved)
    assert p > ALARM, f"{statistic}: p = {p:.2g}"


BUGS = {
    "the parent's law forgets its shape": (
        "parameters",
        "shape + statistics[node, d] - c * n_children[node],",
        "1.0 + statistics[node, d] - c * n_children[node],",
    ),
    "the change of variables forgotten": (
        "model",
        "return w + n_steps * (c * w",
        "return n_steps * (c * w",
    ),
    "a proposal without its normaliser": (
        "sweep",
        "return shape * scaled - math.exp(scaled) - math.lgamma(shape)",
        "return shape * scaled - math.exp(scaled)",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_is_caught(tmp_path: Path, fresh: Sample, bug: str) -> None:
    name, correct, wrong = BUGS[bug]
    module = imported(tmp_path, f"planted_{name}", SOURCE.replace(correct, wrong))
    moved = moved_sample(3, PoissonOracle(module), MOVES[name], 2000, name != "sweep")
    p, statistic = smallest(fresh, moved)
    assert p < ALARM, f"not caught: {statistic}: p = {p:.2g}"


# -- the estimator ---------------------------------------------------------------------------------


def check_estimator(model: Any, X: Any) -> None:
    """Do what users do with it."""
    n_nodes = model.tree_.n_nodes
    assert 3 <= n_nodes < 60
    assert model.tree_.node_params["rate"].shape == (n_nodes, 4)
    assert 1.0 < model.concentration_ < 1000.0
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert np.isfinite(model.score_samples(X)).all()
    # Groups are told apart, better than by one rate for all data.
    flat = stats.poisson.logpmf(X, X.mean(axis=0)).sum(axis=1).mean()
    assert model.score(X) > flat + 1.0
    labels = model.predict(X)
    groups = [np.bincount(labels[k : k + 40]).argmax() for k in (0, 40, 80)]
    assert len(set(groups)) == 3
    assert model.sample(5, random_state=0).shape == (5, 4)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.score_samples(X[:3]), model.score_samples(X[:3]))
    with pytest.raises(InvalidValue, match=r"row 0, column 0: -1.* PoissonTree needs whole"):
        model.predict(-np.ones((1, 4)))


def test_what_the_page_does_with_it(poisson: Any) -> None:
    """By the paper's moves, that have been compiled above."""
    assert USE.count("verbose=0") == 1
    namespace: dict[str, Any] = {}
    exec(USE.replace("verbose=0", 'verbose=0, schedule="paper"'), namespace)
    check_estimator(namespace["model"], namespace["X"])


@pytest.mark.long
def test_the_page_as_it_stands(poisson: Any) -> None:
    namespace: dict[str, Any] = {}
    exec(USE, namespace)
    check_estimator(namespace["model"], namespace["X"])
    assert namespace["model"].tree_.n_nodes < 10
