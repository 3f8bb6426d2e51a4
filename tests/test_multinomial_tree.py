"""MultinomialTree: what it has beyond the other estimators (see ``test_estimators.py``)."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from sklearn.metrics import adjusted_rand_score

import laws
from test_estimators import assert_same_draws, bad, check_refused
from test_estimators import make as make_any
from test_estimators import make_data as make_any_data
from treestick import Tree
from treestick.estimators import MultinomialTree, sampled
from treestick.inputs import InvalidValue


def make(**changed: Any) -> Any:
    return make_any(MultinomialTree, **changed)


def make_data(**changed: Any) -> Any:
    return make_any_data(MultinomialTree, **changed)


FORMS = ["csr_array", "csr_matrix", "csc_array", "coo_matrix", "lil_array", "dok_array"]


@pytest.mark.parametrize("form", FORMS)
def test_sparse_is_dense(form: str) -> None:
    X = make_data()
    X[3] = 0.0
    S = getattr(sparse, form)(X)
    model, dense = make().fit(S), make().fit(X)
    assert_same_draws(model, dense)
    np.testing.assert_array_equal(model.predict_proba(S), dense.predict_proba(X))
    np.testing.assert_array_equal(model.score_samples(X), dense.score_samples(S))
    drawn = model.sample(6, random_state=2)
    assert isinstance(drawn, sparse.csr_array)
    np.testing.assert_array_equal(drawn.toarray(), dense.sample(6, random_state=2))


def test_sparse_input_is_left_alone() -> None:
    """Duplicates are summed, zeros dropped and columns sorted, but in a copy."""
    data = np.array([1.0, 2.0, 0.0, 3.0, 5.0])
    X = np.array([[2.0, 0.0, 1.0], [3.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 6.0, 0.0]])
    double = sparse.csr_array((np.r_[data, 1.0], [2, 0, 1, 0, 1, 1], [0, 3, 4, 4, 6]), shape=(4, 3))
    before = double.data.copy(), double.indices.copy()
    assert_same_draws(make().fit(double), make().fit(X))
    np.testing.assert_array_equal(double.data, before[0])
    np.testing.assert_array_equal(double.indices, before[1])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float32", "object"])
def test_types_of_counts(dtype: str) -> None:
    X = (make_data() > 2.0).astype(float)
    assert_same_draws(make().fit(X.astype(dtype)), make().fit(X))


ODD = {
    "one datum": np.array([[3, 0, 1]]),
    "one token": np.array([[0, 1, 0]]),
    "one column": np.arange(10)[:, None],
    "all zero": np.zeros((10, 3)),
    "empty rows": make_data(n=20) * (np.arange(20) % 3 > 0)[:, None],
    "an empty column": make_data(n=20) * [1, 0, 1],
    "huge": make_data(n=20) * 2.0**30,
    "one huge": np.vstack([make_data(n=20), [[2**40, 0, 0]]]),
    "more features than data": make_data(n=4, n_features=200),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_data(name: str) -> None:
    X = ODD[name]
    model = make(n_draws=5, burn_in=20).fit(X)
    assert np.all((model.labels_ >= 0) & (model.labels_ < model.tree_.n_nodes))
    assert np.isfinite(model.score_samples(X)).all()
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    drawn = model.sample(20, random_state=0)
    assert drawn.dtype.kind == "i"
    assert np.isin(drawn.sum(axis=1), X.sum(axis=1)).all()
    for draw in model.draws_:
        probability = draw.node_params["probability"]
        np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=1e-5)
    for group in ("posterior", "sample_stats"):
        for variable, values in model.idata_[group].data_vars.items():
            assert variable == "ess_per_second" or np.isfinite(values).all()


def test_empty_rows_have_probability_one() -> None:
    model = make().fit(make_data())
    np.testing.assert_allclose(model.score_samples(np.zeros((2, 3))), 0.0, atol=1e-12)


def test_probabilities() -> None:
    """Those of all rows with four tokens sum to one, and rows are drawn by them."""
    X = np.random.default_rng(0).multinomial(4, [0.5, 0.3, 0.2], size=30)
    model = make(alpha0=1.0, decay=0.05).fit(X)
    rows = np.array([[i, j, 4 - i - j] for i in range(5) for j in range(5 - i)])
    probability = np.exp(model.score_samples(rows))
    assert probability.sum() == pytest.approx(1.0, abs=1e-6)
    drawn = model.sample(5000, random_state=0)
    assert np.all(drawn.sum(axis=1) == 4)
    law = dict(zip((rows @ [25, 5, 1]).tolist(), probability.tolist(), strict=True))
    assert laws.p_law(drawn @ [25, 5, 1], law) > laws.ALARM


def test_a_single_node_predicts_a_multinomial() -> None:
    """With so large a concentration that all nodes are alike: the coefficient is included."""
    model = make(concentration=1e6, root_concentration=None).fit(np.ones((5, 3)))
    x = np.array([[3, 1, 0], [0, 0, 7]])
    expected = stats.multinomial.logpmf(x, x.sum(axis=1), np.full(3, 1 / 3))
    np.testing.assert_allclose(model.score_samples(x), expected, atol=0.1)


def test_totals_are_drawn_from_those_of_the_data() -> None:
    X = np.diag([0, 1, 5, 40, 40])
    drawn = make().fit(X).sample(4000, random_state=0).sum(axis=1)
    assert laws.p_law(drawn, {0: 0.2, 1: 0.2, 5: 0.2, 40: 0.4}) > laws.ALARM


def test_clusters_of_documents_are_found() -> None:
    random = np.random.default_rng(0)
    truth = np.arange(120) % 3
    topics = random.dirichlet(np.full(200, 0.05), size=3)
    X = np.array([random.multinomial(60, topics[k]) for k in truth])
    model = make(n_draws=20, burn_in=100).fit(sparse.csr_array(X))
    assert adjusted_rand_score(truth, model.labels_) > 0.8
    assert 1.0 < model.concentration_ < 1000.0
    assert model.persistence_ == 1.0


def test_where_chains_begin() -> None:
    X, groups = make_data(n=200, n_features=12), np.arange(200) % 2
    for init in (groups, Tree([-1, 0, 0, 1], assignments=2 + groups)):
        model = make(init=init, burn_in=0, n_draws=1, schedule="paper")
        assert adjusted_rand_score(groups, model.fit_predict(X)) > 0.6


def test_inferred_persistence() -> None:
    model = make(persistence=(0.2, 0.4), concentration=(2.0, 3.0)).fit(make_data())
    assert 0.2 < model.persistence_ < 0.4
    assert 2.0 < model.concentration_ < 3.0
    assert np.ptp(model.idata_["posterior"]["persistence"].values) > 0.0


# -- bad input -------------------------------------------------------------------------------------


@pytest.fixture
def no_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("sampling has begun")

    monkeypatch.setattr(sampled, "run_chains", fail)


BAD_CELLS = [
    (-3.0, r"-3.0 is not a count \(Negative values in data\)"),
    (0.5, "0.5 is not a count"),
    (1e-300, "1e-300 is not a count"),
    (np.nan, "the value is NaN"),
    (np.inf, "the value is inf"),
    (2.0**41, r"too large for a count \(at most 2\*\*40\)"),
]


@pytest.mark.parametrize(("cell", "said"), BAD_CELLS)
@pytest.mark.usefixtures("no_sampling")
def test_cells_that_are_no_counts(cell: float, said: str) -> None:
    X = make_data()
    X[7, 2] = X[7, 1] = X[9, 0] = cell
    X[7, 1] = 0.0
    needed = f"{said}; MultinomialTree needs whole numbers >= 0"
    for form in (X, X.tolist(), sparse.csr_array(X), sparse.csc_matrix(X), sparse.coo_array(X)):
        with pytest.raises(InvalidValue, match=f"row 7, column 2: .*{needed}"):
            make().fit(form)
    frame = pd.DataFrame(X, columns=["fins", "legs", "wings"])
    with pytest.raises(InvalidValue, match=f"row 7, column 'wings': .*{needed}"):
        make().fit(frame)


@pytest.mark.usefixtures("no_sampling")
def test_complex_sparse_data() -> None:
    with pytest.raises(InvalidValue, match="Complex data not supported"):
        make().fit(sparse.csr_array(make_data().astype(complex)))


def test_sparse_new_data_of_another_width() -> None:
    model = make().fit(sparse.csr_array(make_data()))
    with pytest.raises(ValueError, match=r"has 2 features, but .* expecting 3"):
        model.predict(sparse.csr_array(make_data(n_features=2)))
    with pytest.raises(InvalidValue, match=r"row 1, column 0: -1\.0 is not a count"):
        model.predict(sparse.csr_array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]]))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        bad("concentration", 0, "concentration=0.0 must be above 0"),
        bad("root_concentration", -1.0, "root_concentration=-1.0 must be above 0"),
        bad("concentration", 1e7, r"concentration=10000000\.0 must be .* at most 1e\+06"),
        bad("concentration", [1.0, 2.0], "concentration=.* is not a number"),
        bad("concentration", (3, 1), "concentration=.*: the low end must be below the high end"),
        bad("persistence", 1.5, "persistence=1.5 must be above 0 and at most 1"),
        bad("persistence", -0.1, "persistence=-0.1 must be above 0"),
    ],
)
@pytest.mark.usefixtures("no_sampling")
def test_bad_parameters(changed: dict[str, Any], said: str) -> None:
    check_refused(make(**changed), make_data(), said)
