"""HDPTree: what it has beyond the other estimators (see ``test_estimators.py``)."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import integrate, sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

import laws
from test_estimators import QUICK, assert_same_draws, check_refused
from treestick import HDPTree


def make(**changed: Any) -> HDPTree:
    return HDPTree(**QUICK | changed)


def reals(n: int = 40, n_features: int = 2, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, n_features)) + 6.0 * rng.integers(2, size=(n, 1))


def counts(n: int = 30, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    p = np.where(rng.random((n, 1)) < 0.5, [0.7, 0.2, 0.1], [0.1, 0.1, 0.8])
    return np.array([rng.multinomial(4, q) for q in p])


@parametrize_with_checks([make()])  # type: ignore[untyped-decorator]
def test_scikit_learns_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


ODD = {
    "one datum": reals(1),
    "one dimension": reals(20, 1),
    "a constant column": reals(20) * [1.0, 0.0] + 3.0,
    "duplicates": np.repeat(reals(4), 8, axis=0),
    "all the same": np.full((12, 2), 7.0),
    "columns on all scales": reals(20, 3) * [1e-6, 1.0, 1e6],
    "far from 0": reals(20) + 1e9,
    "an outlier": np.vstack([reals(20), [[1e5, -1e5]]]),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_data(name: str) -> None:
    X = ODD[name]
    model = make(n_draws=5, burn_in=20).fit(X)
    assert np.all((model.labels_ >= 0) & (model.labels_ < model.tree_.n_nodes))
    assert np.isfinite(model.score_samples(X)).all()
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert np.isfinite(model.sample(20, random_state=0)).all()
    assert np.all(model.atoms_["variance"] > 0.0)
    for draw in model.draws_:
        np.testing.assert_allclose(draw.node_params["weight"].sum(axis=1), 1.0, rtol=1e-5)
    for group in ("posterior", "sample_stats"):
        for variable, values in model.idata_[group].data_vars.items():
            assert variable == "ess_per_second" or np.isfinite(values).all()


def test_units_change_nothing_but_the_density() -> None:
    """Powers of two: to the bit."""
    X = reals()
    model, other = make().fit(X), make().fit(X * [4.0, 0.5])
    np.testing.assert_array_equal(model.labels_, other.labels_)
    np.testing.assert_allclose(
        other.score_samples(X * [4.0, 0.5]), model.score_samples(X) - np.log(2.0), rtol=1e-9
    )
    np.testing.assert_allclose(other.atoms_["mean"], model.atoms_["mean"] * [4.0, 0.5], rtol=1e-6)


def test_means_spread_as_the_data_whatever_their_variance() -> None:
    """One variance for two features on different scales: strengths follow, feature by feature."""
    X = reals() * [1.0, 1000.0]
    model = make(base_variance=1.0)
    base = model._make_model(model._summarize(X))[1].base
    spread = base.rate / base.shape / base.strength
    assert spread == pytest.approx(1.0)
    model = make(base_variance=[1.0, 1e6], base_strength=0.1).fit(X)
    assert np.isfinite(model.score(X))


def test_density_integrates_to_one_and_rows_are_drawn_by_it() -> None:
    X = reals(30, 1)
    model = make(n_draws=10, burn_in=30).fit(X)
    grid = np.concatenate([-np.geomspace(1e6, 30, 500), np.linspace(-30, 40, 4001)[1:-1],
                           np.geomspace(40, 1e6, 500)])  # fmt: skip
    density = np.exp(model.score_samples(grid[:, None]))
    assert integrate.trapezoid(density, grid) == pytest.approx(1.0, abs=2e-3)
    below = integrate.cumulative_trapezoid(density, grid, initial=0)
    drawn = model.sample(4000, random_state=0)[:, 0]
    u = np.interp(drawn, grid, below / below[-1])
    counted, _ = np.histogram(u, bins=20, range=(0.0, 1.0))
    assert (
        laws.p_law(np.repeat(np.arange(20), counted), dict.fromkeys(range(20), 0.05)) > laws.ALARM
    )


def test_probabilities_of_counts() -> None:
    """Those of all rows with four tokens sum to one, and rows are drawn by them."""
    model = make(component="multinomial", n_draws=5, burn_in=20).fit(counts())
    rows = np.array([[i, j, 4 - i - j] for i in range(5) for j in range(5 - i)])
    probability = np.exp(model.score_samples(rows))
    assert probability.sum() == pytest.approx(1.0, abs=1e-6)
    drawn = model.sample(4000, random_state=0)
    law = dict(zip((rows @ [25, 5, 1]).tolist(), probability.tolist(), strict=True))
    assert laws.p_law(drawn @ [25, 5, 1], law) > laws.ALARM
    assert model.atoms_["probability"].sum(axis=1) == pytest.approx(1.0)
    np.testing.assert_allclose(model.score_samples(np.zeros((2, 3))), 0.0, atol=1e-6)


def test_sparse_is_dense() -> None:
    X = counts()
    model = make(component="multinomial").fit(sparse.csr_array(X))
    assert_same_draws(model, make(component="multinomial").fit(X))
    assert sparse.issparse(model.sample(2, random_state=0))


def test_threads_and_pickles() -> None:
    X = reals()
    model, other = make(n_jobs=1).fit(X), make(n_jobs=2).fit(X)
    assert_same_draws(model, other)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.score_samples(X), other.score_samples(X))
    np.testing.assert_array_equal(model.score_samples(X)[5:7], model.score_samples(X[5:7]))


def test_with_persistence_one_all_atoms_are_the_roots() -> None:
    model = make(persistence=1.0, n_draws=10, burn_in=20).fit(reals())
    for draw in model.draws_:
        weight = draw.node_params["weight"]
        assert np.all(weight[0, :-1] > 0.0)


def test_the_papers_schedule() -> None:
    model = make(schedule="paper", burn_in=30).fit(reals())
    assert np.isfinite(model.score(reals(seed=1)))


WRONG = {
    "component": "poisson",
    "persistence": 1e-9,
    "concentration": -1.0,
    "base_shape": 0.05,
    "base_variance": [1.0, -1.0],
    "base_strength": float("inf"),
    "base_mean": 1e300,
    "base_concentration": 0.0,
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_parameters(name: str) -> None:
    kind = "multinomial" if name == "base_concentration" else "gaussian"
    model = HDPTree(**QUICK | {"component": kind, name: WRONG[name]})
    check_refused(model, counts(), name)


def test_a_component_that_was_changed_after_the_fit() -> None:
    model = make().fit(reals()).set_params(component="multinomial")
    with pytest.raises(ValueError, match="component"):
        model.predict(counts()[:, :2])


def test_wrong_data() -> None:
    for wrong, pattern in ((-1.0, "row 3"), (0.5, "row 3"), (np.nan, "row 3")):
        X = counts().astype(float)
        X[3, 1] = wrong
        with pytest.raises(ValueError, match=pattern):
            make(component="multinomial").fit(X)
    with pytest.raises(TypeError, match="sparse"):
        make().fit(sparse.csr_array(reals()))
    model = make().fit(reals())
    with pytest.raises(ValueError, match="features"):
        model.predict(reals(n_features=3))
