"""The scikit-learn face: conventions, the posterior sample, densities, bad input, interrupts."""

import copy
import gc
import pickle
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product, repeat
from pathlib import Path
from typing import Any

import joblib  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import laws
from treestick import Tree, Uniform
from treestick.analysis.convergence import disagreements, effective_draws
from treestick.engine.progress import Progress
from treestick.engine.threads import run_chains
from treestick.estimators import BernoulliTree, GaussianTree, MultinomialTree, sampled
from treestick.inputs import InputError, InvalidType, InvalidValue
from treestick.store import DrawRecord, RunFolder

Floats = npt.NDArray[np.float64]
Estimator = GaussianTree | BernoulliTree | MultinomialTree

QUICK: dict[str, Any] = {
    "n_draws": 3, "burn_in": 3, "n_chains": 1, "random_state": 0, "verbose": 0,
}  # fmt: skip
BOTH = pytest.mark.parametrize("kind", [GaussianTree, BernoulliTree])
ALL = pytest.mark.parametrize("kind", [GaussianTree, BernoulliTree, MultinomialTree])


def make(kind: type[Estimator], **changed: Any) -> Any:
    return kind(**QUICK | changed)


def make_data(kind: type[Estimator], n: int = 40, n_features: int = 3, seed: int = 0) -> Floats:
    """Return two clusters of data."""
    random = np.random.default_rng(seed)
    if kind is MultinomialTree:
        often = (np.arange(n)[:, None] + np.arange(n_features)) % 2
        return random.poisson(1.0 + 5.0 * often).astype(np.float64)
    X = random.normal(size=(n, n_features)) + 4.0 * (np.arange(n) % 2)[:, None]
    return X if kind is GaussianTree else (X > 2.0).astype(np.float64)


def assert_same_draws(one: Any, other: Any) -> None:
    """Check that two fits have drawn the same trees, bit for bit."""
    assert len(one.draws_) == len(other.draws_)
    for first, second in zip(one.draws_, other.draws_, strict=True):
        np.testing.assert_equal(first.to_dict(), second.to_dict())


def assert_same_predictions(one: Any, other: Any, X: Any) -> None:
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    np.testing.assert_array_equal(one.score_samples(X), other.score_samples(X))
    np.testing.assert_array_equal(one.sample(5, random_state=1), other.sample(5, random_state=1))
    np.testing.assert_array_equal(one.labels_, other.labels_)


# -- scikit-learn's conventions --------------------------------------------------------------------

ASKS_FOR_CLASSES = "of sparse data, it wants a column of predict_proba for each class of y"


class RoundedTree(MultinomialTree):
    """A MultinomialTree for scikit-learn's checks, which feed it fractions as if they were counts.

    They are rounded; everything else meets the class as it is.
    """

    def _read(self, X: Any) -> Any:
        if sparse.issparse(X):
            return super()._read(X.tocsr().rint())  # type: ignore[attr-defined]
        cells = np.asarray(X)
        if cells.dtype.kind == "f":
            X = np.round(cells)
        elif cells.dtype.kind == "O":
            X = np.frompyfunc(lambda c: np.round(c) if isinstance(c, float) else c, 1, 1)(cells)
        return super()._read(X)


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [make(GaussianTree), make(BernoulliTree, binarize=0.0), RoundedTree(**QUICK)],
    expected_failed_checks=lambda estimator: (
        {}
        if isinstance(estimator, GaussianTree)
        else {
            "check_estimator_sparse_array": ASKS_FOR_CLASSES,
            "check_estimator_sparse_matrix": ASKS_FOR_CLASSES,
        }
    ),
)
def test_scikit_learns_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@ALL
def test_fit_leaves_parameters_alone(kind: type[Estimator]) -> None:
    model = make(kind, alpha0=Uniform(1.0, 5.0), decay=(0.1, 0.5), gamma=1)
    before = copy.deepcopy(model.get_params())
    model.fit(make_data(kind))
    assert model.get_params() == before
    fresh = clone(model)
    assert fresh.get_params() == before
    with pytest.raises(NotFittedError):
        fresh.predict(make_data(kind))


@ALL
@pytest.mark.parametrize(
    "method", ["predict", "predict_proba", "score_samples", "score", "sample", "idata_"]
)
def test_nothing_before_fit(kind: type[Estimator], method: str) -> None:
    arguments = () if method == "sample" else (make_data(kind),)
    with pytest.raises(NotFittedError, match="fit"):
        getattr(make(kind), method)(*arguments)


@ALL
def test_copies_predict_the_same(kind: type[Estimator], tmp_path: Path) -> None:
    X = make_data(kind)
    model = make(kind, n_chains=2).fit(X)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert_same_predictions(other, model, X)
        assert_same_draws(other, model)
    joblib.dump(model, tmp_path / "model.joblib")
    expected = model.predict_proba(X), model.score_samples(X)
    folder = model._store.folder
    del model
    gc.collect()
    assert not folder.exists()
    np.save(tmp_path / "X.npy", X)
    script = (
        "import sys, joblib, numpy as np\n"
        "model, X = joblib.load('model.joblib'), np.load('X.npy')\n"
        "np.savez('predicted.npz', model.predict_proba(X), model.score_samples(X))"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", script], cwd=tmp_path, check=True)
    with np.load(tmp_path / "predicted.npz") as predicted:
        for name, values in zip(predicted.files, expected, strict=True):
            np.testing.assert_array_equal(predicted[name], values)


@ALL
def test_data_frames(kind: type[Estimator]) -> None:
    X = make_data(kind)
    frame = pd.DataFrame(X, columns=["fins", "legs", "wings"], index=np.arange(X.shape[0])[::-1])
    model = make(kind).fit(frame)
    assert model.feature_names_in_.tolist() == ["fins", "legs", "wings"]
    assert model.n_features_in_ == 3
    plain = make(kind).fit(X)
    assert_same_draws(model, plain)
    np.testing.assert_array_equal(model.score_samples(frame), plain.score_samples(X))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["legs", "fins", "wings"]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)


@pytest.mark.parametrize("form", ["csr_array", "csc_matrix", "coo_array", "lil_array"])
def test_sparse_bits(form: str) -> None:
    X = make_data(BernoulliTree)
    model = make(BernoulliTree).fit(getattr(sparse, form)(X))
    assert_same_draws(model, make(BernoulliTree).fit(X))
    np.testing.assert_array_equal(
        model.predict_proba(getattr(sparse, form)(X)), model.predict_proba(X)
    )


def test_gaussian_tree_refuses_sparse_data() -> None:
    with pytest.raises(InvalidType, match=r"sparse .* X\.toarray\(\)"):
        make(GaussianTree).fit(sparse.csr_array(make_data(GaussianTree)))


# -- the posterior sample --------------------------------------------------------------------------


@ALL
def test_tree_and_labels(kind: type[Estimator]) -> None:
    X = make_data(kind)
    model = make(kind, n_draws=8, thin=2)
    labels = model.fit_predict(X)
    assert isinstance(model.tree_, Tree)
    np.testing.assert_array_equal(labels, model.labels_)
    np.testing.assert_array_equal(labels, model.tree_.assignments)
    assert model.tree_.log_likelihood == max(draw.log_likelihood for draw in model.draws_)
    assert model.n_iter_ == 3 + 8 * 2
    for draw in model.draws_:
        assert draw.n_here.sum() == X.shape[0]
        for values in draw.node_params.values():
            assert values.shape == (draw.n_nodes, 3)


@ALL
def test_predictions(kind: type[Estimator]) -> None:
    X = make_data(kind)
    model = make(kind).fit(X)
    new = make_data(kind, n=17, seed=1)
    probability = model.predict_proba(new)
    assert probability.shape == (17, model.tree_.n_nodes + 1)
    assert np.all(probability >= 0.0)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(new), probability[:, :-1].argmax(axis=1))
    assert model.score(new) == np.mean(model.score_samples(new))
    drawn = model.sample(7, random_state=0)
    assert drawn.shape == (7, 3)
    np.testing.assert_array_equal(drawn, model.sample(7, random_state=0))
    assert np.any(drawn != model.sample(7, random_state=1)) or kind is BernoulliTree


def test_clusters_far_apart_are_found() -> None:
    centres = np.array([[0.0, 0.0], [30.0, 0.0], [0.0, 30.0]])
    truth = np.arange(90) % 3
    X = np.random.default_rng(0).normal(size=(90, 2)) + centres[truth]
    model = make(GaussianTree, n_draws=20, burn_in=150).fit(X)
    for cluster in np.unique(model.labels_):
        assert np.unique(truth[model.labels_ == cluster]).size == 1
    assert np.unique(model.predict(centres)).size == 3


def test_draws_are_a_lazy_sequence() -> None:
    X = make_data(GaussianTree)
    model = make(GaussianTree, n_chains=2).fit(X)
    draws = model.draws_
    assert len(draws) == 6
    assert draws.chain.tolist() == [0, 0, 0, 1, 1, 1]
    assert [draw.log_likelihood for draw in draws] == [draws[k].log_likelihood for k in range(6)]
    assert draws[-1].log_likelihood == draws[np.int64(5)].log_likelihood
    assert [draw.log_likelihood for draw in draws[4:1:-2]] == [
        draws[4].log_likelihood,
        draws[2].log_likelihood,
    ]
    assert draws[9:] == []
    for outside in (6, -7):
        with pytest.raises(IndexError, match=f"no draw {outside}: there are 6 draws"):
            draws[outside]
    with pytest.raises(InvalidType, match="numbered"):
        draws["best"]
    assert repr(draws) == "Draws: 6 trees from 2 chains"


def test_draws_outlive_the_fit_that_made_them() -> None:
    X = make_data(GaussianTree)
    model = make(GaussianTree).fit(X)
    draws, means = model.draws_, model.draws_[0].node_params["mean"]
    model.fit(1000.0 * X[:, :2])
    np.testing.assert_array_equal(draws[0].node_params["mean"], means)
    assert draws[0].n_data == X.shape[0]


@ALL
def test_idata(kind: type[Estimator]) -> None:
    frame = pd.DataFrame(make_data(kind), columns=["fins", "legs", "wings"])
    idata = make(kind, n_chains=2, burn_in=4, thin=2).fit(frame).idata_
    posterior, statistics = idata["posterior"], idata["sample_stats"]
    scalars = {"alpha0", "decay", "gamma", "n_nodes", "depth"}
    vectors = set() if kind is MultinomialTree else {"diffusion"}
    if kind is GaussianTree:
        scalars, vectors = scalars | {"persistence"}, vectors | {"noise"}
    elif kind is MultinomialTree:
        scalars = scalars | {"concentration", "persistence"}
    assert set(posterior.data_vars) == scalars | vectors
    for name in scalars:
        assert posterior[name].dims == ("chain", "draw")
        assert posterior[name].shape == (2, 3)
    for name in vectors:
        assert posterior[name].dims == ("chain", "draw", "feature")
        assert posterior[name].shape == (2, 3, 3)
    assert posterior["chain"].values.tolist() == [0, 1]
    assert posterior["draw"].values.tolist() == [0, 1, 2]
    assert posterior["feature"].values.tolist() == ["fins", "legs", "wings"]
    for name in ("lp", "log_likelihood", "complete_data", "acceptance_rate", "tries"):
        assert statistics[name].dims == ("chain", "draw")
        assert np.isfinite(statistics[name]).all()
    assert posterior.attrs["sweep_of_first_draw"] == 6


def test_how_well_chains_mix_is_in_idata() -> None:
    model = make(GaussianTree, n_chains=2, n_draws=40, burn_in=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(make_data(GaussianTree))
    posterior, statistics = model.idata_["posterior"], model.idata_["sample_stats"]
    sizes, visits = posterior["n_nodes"].values, statistics["visits"]
    assert visits.sum("size").values.tolist() == [40, 40]
    for chain, size in product([0, 1], visits["size"].values):
        assert visits.sel(chain=chain, size=size) == np.count_nonzero(sizes[chain] == size)
    seconds = statistics["seconds"].values
    assert np.all(np.diff(seconds, axis=1) > 0.0)
    span = np.ptp(seconds)
    for name in ("n_nodes", "lp"):
        trace = posterior[name] if name == "n_nodes" else statistics[name]
        found = float(statistics["ess_per_second"].sel(scalar=name)) * span
        assert found == pytest.approx(effective_draws(trace.values))
        assert 1.0 < found < 500.0
    assert {"smart_split_accepted", "insert_accepted", "singles_accepted"} < set(statistics)


def test_effective_draws() -> None:
    rng = np.random.default_rng(0)
    independent = rng.normal(size=(2, 1000))
    assert 1500.0 < effective_draws(independent) < 2500.0
    assert effective_draws(np.cumsum(independent, axis=1)) < 50.0
    assert np.isnan(effective_draws(np.zeros((2, 1000))))
    assert np.isnan(effective_draws(independent[:, :3]))


# -- where chains begin ----------------------------------------------------------------------------


@ALL
def test_chains_begin_where_they_are_told(kind: type[Estimator]) -> None:
    """A sweep of the paper's moves finds no clusters, and leaves those alone that are there."""
    X, groups = make_data(kind, n=200, n_features=12), np.arange(200) % 2
    soon = {"burn_in": 0, "n_draws": 1, "schedule": "paper"}
    assert adjusted_rand_score(groups, make(kind, **soon).fit_predict(X)) < 0.3
    for init in (groups, Tree([-1, 0, 0, 1], assignments=2 + groups)):
        model = make(kind, init=init, **soon)
        assert adjusted_rand_score(groups, model.fit_predict(X)) > 0.6
        assert model.init is init


@ALL
def test_idata_agrees_with_the_draws(kind: type[Estimator]) -> None:
    model = make(kind, n_chains=2).fit(make_data(kind))
    posterior, statistics = model.idata_["posterior"], model.idata_["sample_stats"]
    for k, draw in enumerate(model.draws_):
        place = divmod(k, 3)
        assert posterior["n_nodes"].values[place] == draw.n_nodes
        assert posterior["depth"].values[place] == draw.depth.max()
        assert statistics["complete_data"].values[place] == draw.log_likelihood
    assert posterior["feature"].values.tolist() == [0, 1, 2]
    for name in posterior.data_vars:
        if name not in ("n_nodes", "depth"):
            mean = posterior[name].mean(("chain", "draw"))
            np.testing.assert_allclose(getattr(model, f"{name}_"), mean, rtol=1e-12)


def test_fixed_hyperparameters_stay_as_they_are() -> None:
    X = make_data(GaussianTree) * [1.0, 10.0, 100.0]
    fixed = {"alpha0": 3, "decay": 0.5, "gamma": 0.25, "persistence": 0.9, "noise": 2.0}
    model = make(GaussianTree, **fixed, diffusion=np.array([1.0, 2.0, 3.0])).fit(X)
    for name, value in fixed.items():
        np.testing.assert_allclose(getattr(model, f"{name}_"), value, rtol=1e-12)
    np.testing.assert_allclose(model.diffusion_, [1.0, 2.0, 3.0], rtol=1e-12)
    inferred = make(GaussianTree, noise=(0.5, 0.6), gamma=Uniform(2.0, 2.5)).fit(X)
    assert np.all((inferred.noise_ > 0.5) & (inferred.noise_ < 0.6))
    assert 2.0 < inferred.gamma_ < 2.5


# -- the same bits ---------------------------------------------------------------------------------


@ALL
def test_threads_change_nothing(kind: type[Estimator]) -> None:
    X = make_data(kind, n=5000)  # three blocks of rows
    models = [make(kind, n_chains=2, n_jobs=n_jobs).fit(X) for n_jobs in (1, 2, 3)]
    for model in models[1:]:
        assert_same_draws(models[0], model)
        assert_same_predictions(models[0], model, X)
    other = make(kind, random_state=1).fit(X)
    assert other.tree_.log_likelihood != models[0].tree_.log_likelihood


@ALL
def test_random_state_as_in_scikit_learn(kind: type[Estimator]) -> None:
    X = make_data(kind)
    state = np.random.RandomState(5)
    first, second = (make(kind, random_state=state).fit(X) for _ in range(2))
    again = make(kind, random_state=np.random.RandomState(5)).fit(X)
    assert_same_draws(first, again)
    assert first.draws_[0].log_likelihood != second.draws_[0].log_likelihood


FULL = {"diffusion": np.array([[2.0, 1.5, 0.2], [1.5, 3.0, -0.5], [0.2, -0.5, 1.0]])}


@pytest.mark.parametrize(
    ("kind", "changed"),
    [(GaussianTree, {}), (BernoulliTree, {}), (GaussianTree, FULL), (MultinomialTree, {})],
)
def test_rows_are_predicted_each_by_itself(kind: type[Estimator], changed: dict[str, Any]) -> None:
    model = make(kind, **changed).fit(make_data(kind))
    X = make_data(kind, n=5000, seed=1)
    probability, density = model.predict_proba(X), model.score_samples(X)
    for rows in (slice(0, 1), slice(3, 10), slice(4090, 4100), slice(None, None, -1)):
        np.testing.assert_array_equal(model.predict_proba(X[rows]), probability[rows])
        np.testing.assert_array_equal(model.score_samples(X[rows]), density[rows])


# -- chains ----------------------------------------------------------------------------------------


def test_chains_that_disagree() -> None:
    X = make_data(GaussianTree)
    # Which scalars disagree after ten sweeps is another matter for other seeds.
    message = r"the chains disagree \(R-hat: \w+ [\d.]+.*; 1 is agreement\)"
    with pytest.warns(ConvergenceWarning, match=message) as caught:
        model = make(GaussianTree, n_chains=2, n_draws=10, burn_in=0).fit(X)
    assert caught[0].filename == __file__
    traces = model.idata_["sample_stats"]["lp"].values
    assert np.all(traces[0] != traces[1])
    make(GaussianTree, n_draws=10, burn_in=0).fit(X)  # and no warning, which would be an error


def test_disagreement() -> None:
    random = np.random.default_rng(0)
    same = random.normal(size=(2, 500))
    constant = np.ones((2, 500))
    shifted = np.stack([same[0], same[1] + 1.0])
    differ = np.stack([constant[0], constant[1] + 1.0])
    one_is_constant = np.stack([same[0], constant[0]])
    found = disagreements(
        {"same": same, "constant": constant, "shifted": shifted, "differ": differ,
         "one is constant": one_is_constant, "short": shifted[:, :3]}
    )  # fmt: skip
    assert set(found) == {"shifted", "differ", "one is constant"}
    assert found["shifted"] > 1.1
    assert found["differ"] == np.inf


# -- densities -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 30])
def test_gaussian_density(n: int) -> None:
    X = make_data(GaussianTree, n=n, n_features=1)
    model = make(GaussianTree).fit(X)
    unit = X.std() or 1.0
    grid = X.mean() + unit * np.arange(-150.0, 150.0, 0.01)
    mass = np.exp(model.score_samples(grid[:, None])) * 0.01 * unit
    assert mass.sum() == pytest.approx(1.0, abs=1e-6)
    drawn = model.sample(3000, random_state=0)[:, 0]
    assert laws.p_mean(drawn, mass @ grid) > laws.ALARM
    uniform = np.interp(drawn, grid + 0.005 * unit, np.cumsum(mass))
    assert stats.kstest(uniform, "uniform").pvalue > laws.ALARM


@pytest.mark.parametrize("n", [1, 2, 30])
def test_bernoulli_probabilities(n: int) -> None:
    patterns = np.array(list(product([0, 1], repeat=6)))
    model = make(BernoulliTree).fit(make_data(BernoulliTree, n=n, n_features=6))
    probability = np.exp(model.score_samples(patterns))
    assert probability.sum() == pytest.approx(1.0, abs=1e-6)
    drawn = model.sample(5000, random_state=0) @ (1 << np.arange(6)[::-1])
    assert laws.p_law(drawn, dict(enumerate(probability.tolist()))) > laws.ALARM


def test_gaussian_density_with_correlated_diffusion() -> None:
    covariance = np.array([[1.0, 0.9], [0.9, 2.0]])
    X = make_data(GaussianTree, n=2, n_features=2)
    model = make(GaussianTree, diffusion=covariance, noise=0.25, root_variance=1.0, alpha0=2.0,
                 decay=0.3).fit(X)  # fmt: skip
    axis = np.arange(-20.0, 24.0, 0.2)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    mass = np.exp(model.score_samples(grid)) * 0.2**2
    assert mass.sum() == pytest.approx(1.0, abs=1e-6)
    drawn = model.sample(3000, random_state=0)
    for power in ([1, 0], [0, 1], [2, 0], [1, 1], [0, 2]):
        moment = mass @ np.prod(grid**power, axis=1)
        assert laws.p_mean(np.prod(drawn**power, axis=1), moment) > laws.ALARM


def test_a_diagonal_matrix_is_its_diagonal() -> None:
    # Sums of these are exact, so both columns have the same standard deviation, to the last bit.
    X = np.stack([np.arange(32) % 8, np.arange(32) // 4], axis=1) / 4.0
    fixed = {"noise": 0.25, "root_variance": 1.0, "root_mean": 0.5}
    full = make(GaussianTree, diffusion=np.diag([0.5, 2.0]), **fixed).fit(X)
    diagonal = make(GaussianTree, diffusion=np.array([0.5, 2.0]), **fixed).fit(X)
    assert_same_draws(full, diagonal)
    assert_same_predictions(full, diagonal, X)
    assert not hasattr(full, "diffusion_")
    np.testing.assert_allclose(full.noise_, 0.25)


# -- data that no tree has made --------------------------------------------------------------------

ODD_REALS = {
    "one datum": np.array([[3.0, -1.0]]),
    "one number": np.array([[5.0]]),
    "duplicates": np.tile([[0.1, 0.7, -3.3]], (20, 1)),
    "a constant column": np.c_[np.full(20, 1e6 / 3), make_data(GaussianTree, n=20)],
    "all zero": np.zeros((10, 2)),
    "one dimension": make_data(GaussianTree, n_features=1),
    "all scales": make_data(GaussianTree, n_features=5) * 10.0 ** np.arange(-6, 7, 3),
    "far from zero": 1e6 + make_data(GaussianTree),
    "more features than data": make_data(GaussianTree, n=4, n_features=50),
    "outlier": np.r_[make_data(GaussianTree), [[1e12, 0.0, 0.0]]],
    "huge": 1e149 * make_data(GaussianTree),
    "tiny": 1e-200 * make_data(GaussianTree),
    "two values": make_data(BernoulliTree),
}
ODD_BITS = {
    "one datum": np.array([[1, 0, 1]]),
    "one bit": np.array([[1]]),
    "all zero": np.zeros((20, 4)),
    "all one": np.ones((20, 4)),
    "a constant column": np.c_[np.ones(40), make_data(BernoulliTree)],
    "more features than data": make_data(BernoulliTree, n=4, n_features=50),
}


@pytest.mark.parametrize(
    ("kind", "X"),
    [pytest.param(GaussianTree, X, id=f"reals: {name}") for name, X in ODD_REALS.items()]
    + [pytest.param(BernoulliTree, X, id=f"bits: {name}") for name, X in ODD_BITS.items()],
)
def test_odd_data(kind: type[Estimator], X: Floats) -> None:
    model = make(kind, n_draws=5, burn_in=20).fit(X)
    assert np.all((model.labels_ >= 0) & (model.labels_ < model.tree_.n_nodes))
    assert model.labels_.shape == (X.shape[0],)
    assert np.isfinite(model.score_samples(X)).all()
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert np.isfinite(model.sample(20, random_state=0)).all()
    for group in ("posterior", "sample_stats"):
        for name, values in model.idata_[group].data_vars.items():
            # What never changes has no effective draws.
            assert name == "ess_per_second" or np.isfinite(values).all()
    for draw in model.draws_:
        assert all(np.isfinite(values).all() for values in draw.node_params.values())


def test_rows_farther_than_numbers_reach() -> None:
    model = make(GaussianTree).fit(make_data(GaussianTree))
    far = np.array([[1e149, 0.0, 0.0], [np.finfo(float).max ** 0.48, 0.0, 0.0]])
    assert np.all(model.score_samples(far) < -1e200)
    np.testing.assert_allclose(model.predict_proba(far).sum(axis=1), 1.0)


def test_units_do_not_matter() -> None:
    # Multiples of 1/256 and powers of two: all that enters the chain has the same bits.
    X = np.round(256.0 * make_data(GaussianTree, n=32)) / 256.0
    scale, offset = np.array([2.0**-20, 1.0, 2.0**20]), np.array([2.0**-12, -3.0, 2.0**25])
    one, other = make(GaussianTree).fit(X), make(GaussianTree).fit(X * scale + offset)
    for first, second in zip(one.draws_, other.draws_, strict=True):
        np.testing.assert_array_equal(first.assignments, second.assignments)
        np.testing.assert_array_equal(first.parent, second.parent)
        mean, moved = first.node_params["mean"], second.node_params["mean"]
        np.testing.assert_allclose((moved - offset) / scale, mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        other.score_samples(X * scale + offset),
        one.score_samples(X) - np.log(scale).sum(),
        rtol=1e-12,
    )
    np.testing.assert_allclose(other.noise_, one.noise_ * scale**2, rtol=1e-12)


# -- bad input -------------------------------------------------------------------------------------


@pytest.fixture
def no_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("sampling has begun")

    monkeypatch.setattr(sampled, "run_chains", fail)


def with_cell(kind: type[Estimator], cell: object) -> npt.NDArray[Any]:
    X = make_data(kind).astype(object)
    X[7, 2] = cell
    return X


@ALL
@pytest.mark.parametrize("cell", [np.nan, np.inf, -np.inf, None, "text", "1", 1j])
@pytest.mark.usefixtures("no_sampling")
def test_cells_that_are_no_numbers(kind: type[Estimator], cell: object) -> None:
    X = with_cell(kind, cell)
    with pytest.raises(InvalidValue, match=rf"row 7, column 2: .*{kind.__name__} needs"):
        make(kind).fit(X)
    frame = pd.DataFrame(X, columns=["fins", "legs", "wings"])
    with pytest.raises(InvalidValue, match="row 7, column 'wings': "):
        make(kind).fit(frame)


@pytest.mark.parametrize("cell", [-1, 0.5, 2, np.nan])
@pytest.mark.usefixtures("no_sampling")
def test_cells_that_are_no_bits(cell: float) -> None:
    with pytest.raises(InvalidValue, match=r"row 7, column 2: .*BernoulliTree needs 0 or 1"):
        make(BernoulliTree).fit(with_cell(BernoulliTree, cell))


@pytest.mark.usefixtures("no_sampling")
def test_cells_that_are_too_large() -> None:
    frame = pd.DataFrame(with_cell(GaussianTree, -1e151), columns=["fins", "legs", "wings"])
    with pytest.raises(InvalidValue, match="row 7, column 'wings': -1e\\+151 is too large"):
        make(GaussianTree).fit(frame)
    with pytest.raises(InvalidValue, match="row 7, column 2: -1e\\+151 is too large"):
        make(GaussianTree).fit(frame.to_numpy())


@ALL
@pytest.mark.parametrize(
    ("X", "said"),
    [
        (np.empty((0, 3)), "0 sample"),
        (np.empty((3, 0)), "0 feature"),
        (np.ones(3), "Expected 2D array, got 1D"),
        (np.ones((2, 2, 2)), "dim 3"),
        (np.ones((2, 2), dtype=complex), "Complex data not supported"),
        ([[1, 0], [1]], "row 1 has length 1"),
        ("text", "Expected 2D array"),
        (None, "Expected 2D array"),
    ],
)
@pytest.mark.usefixtures("no_sampling")
def test_tables_of_the_wrong_shape(kind: type[Estimator], X: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        make(kind).fit(X)


@ALL
def test_bad_new_data(kind: type[Estimator]) -> None:
    model = make(kind).fit(make_data(kind))
    for method in (model.predict, model.predict_proba, model.score_samples, model.score):
        with pytest.raises(ValueError, match=r"has 2 features, but .* expecting 3"):
            method(make_data(kind, n_features=2))
        with pytest.raises(InvalidValue, match="row 7, column 2: the value is NaN"):
            method(with_cell(kind, np.nan))
        with pytest.raises(InvalidValue, match="0 sample"):
            method(np.empty((0, 3)))
    for n in (0, -1, 1.5, "1"):
        with pytest.raises(InputError, match="n_samples="):
            model.sample(n)


def bad(name: str, value: object, said: str) -> Any:
    return pytest.param({name: value}, said, id=f"{name}={value}".replace("\n", " "))


BAD_FOR_ALL = [
    bad("n_draws", 0, "n_draws=0 is not a whole number >= 1"),
    bad("n_draws", 2.5, "n_draws=2.5 is not a whole number"),
    bad("burn_in", -1, "burn_in=-1 is not a whole number >= 0"),
    bad("thin", 0, "thin=0 is not a whole number >= 1"),
    bad("n_chains", 0, "n_chains=0 is not a whole number"),
    bad("n_jobs", 0, "n_jobs=0 is not a number of threads"),
    bad("n_jobs", "2", "n_jobs='2' is not a whole number"),
    bad("init", "ward", "init='ward' is not 'root', an array of labels or a Tree"),
    bad("init", [0, 1], "init: labels has 2 data, but X has 40 rows"),
    bad("init", [0.5] * 40, "init=.* is not 'root', a Tree or a one-dimensional array of whole"),
    bad("init", [[0, 1]], "init=.* is not 'root', a Tree or a one-dimensional array of whole"),
    bad("init", None, "init=None is not 'root', a Tree or a one-dimensional array of whole"),
    bad("init", Tree([-1], [0, 0]), "init: the Tree has 2 data, but X has 40 rows"),
    bad("schedule", "x", r"schedule='x' is not one of \('default', 'paper'\)"),
    bad("alpha0", -1, "alpha0=-1.0 must be above 0"),
    bad("alpha0", np.nan, "alpha0=nan is not a finite number"),
    bad("alpha0", (1, 2, 3), r"alpha0=\(1, 2, 3\) is not an interval"),
    bad("decay", 2, "decay=2.0 must be above 0 and at most 1"),
    bad("gamma", (3, 1), r"gamma=\(3, 1\): the low end must be below the high end"),
    bad("gamma", [1, 2], r"gamma=\[1, 2\] is not a number"),
]  # fmt: skip
BAD_FOR_BOTH = [
    bad("diffusion", "x", "diffusion='x' is not a number"),
    bad("diffusion", 0.0, "diffusion=0.0 must be above 0"),
    bad("diffusion", [1.0, 2.0], r"diffusion=\[1.0, 2.0\] is not .* each of the 3 features"),
    bad("diffusion", [1.0, -2.0, 3.0], "diffusion: feature 1=-2.0 must be above 0"),
    bad("diffusion", [[1.0, 2.0], [3.0]], "diffusion=.* is not a number, nor an array"),
    bad("diffusion", np.array([1.0, 2.0, 1j]), "diffusion=.* is not a number, nor an array"),
    bad("root_mean", [1.0, np.inf, 0.0], "root_mean=.* is not finite"),
    bad("root_mean", "x", "root_mean='x' is not a number, nor an array"),
    bad("root_variance", (1.0, 2.0), "root_variance=.* cannot be inferred"),
    bad("root_variance", 0, "root_variance=0.0 must be above 0"),
]  # fmt: skip
BAD_FOR_GAUSSIAN = [
    bad("noise", 0, "noise=0.0 must be above 0"),
    bad("noise", np.array([1.0, 0.0, 1.0]), "noise: feature 1=0.0 must be above 0"),
    bad("noise", 1e-30, "noise=1e-30 is .* times the variance of feature 0"),
    bad("root_mean", 1e9, "root_mean is .* standard deviations of feature"),
    bad("root_mean", 1e308, "root_mean is .* standard deviations of feature"),
    bad("persistence", 1.5, "persistence=1.5 must be above 0 and at most 1"),
    bad("diffusion", np.eye(2), r"diffusion has shape \(2, 2\).* 3 features has \(3, 3\)"),
    bad("diffusion", np.triu(np.ones((3, 3))), "diffusion is not a symmetric matrix"),
    bad("diffusion", np.full((3, 3), np.nan), "diffusion is not a symmetric matrix of finite"),
    bad("diffusion", -np.eye(3), "diffusion is not positive definite"),
    bad("diffusion", np.ones((3, 3)), "diffusion is not positive definite"),
]
BAD_FOR_BERNOULLI = [
    bad("binarize", "x", "binarize='x' is not a number"),
    bad("diffusion", np.eye(3), "diffusion=.* is not a number, nor an array"),
    bad("diffusion", (0.1, 1e9), r"diffusion: high end=1000000000\.0 must be .* at most 1e\+06"),
    bad("root_mean", None, "root_mean=None is not a number"),
]


def check_refused(model: Any, X: Floats, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        model.fit(X)
    assert "\n" not in str(caught.value)


@ALL
@pytest.mark.parametrize(("changed", "said"), BAD_FOR_ALL)
@pytest.mark.usefixtures("no_sampling")
def test_bad_parameters(kind: type[Estimator], changed: dict[str, Any], said: str) -> None:
    check_refused(make(kind, **changed), make_data(kind), said)


@BOTH
@pytest.mark.parametrize(("changed", "said"), BAD_FOR_BOTH)
@pytest.mark.usefixtures("no_sampling")
def test_bad_parameters_of_gaussian_diffusion(
    kind: type[Estimator], changed: dict[str, Any], said: str
) -> None:
    check_refused(make(kind, **changed), make_data(kind), said)


@pytest.mark.parametrize(("changed", "said"), BAD_FOR_GAUSSIAN)
@pytest.mark.usefixtures("no_sampling")
def test_bad_parameters_of_gaussian_tree(changed: dict[str, Any], said: str) -> None:
    check_refused(make(GaussianTree, **changed), make_data(GaussianTree), said)


@pytest.mark.parametrize(("changed", "said"), BAD_FOR_BERNOULLI)
@pytest.mark.usefixtures("no_sampling")
def test_bad_parameters_of_bernoulli_tree(changed: dict[str, Any], said: str) -> None:
    check_refused(make(BernoulliTree, **changed), make_data(BernoulliTree), said)


@pytest.mark.parametrize("name", ["noise", "root_variance"])
@pytest.mark.usefixtures("no_sampling")
def test_a_matrix_needs_one_variance_for_all_features(name: str) -> None:
    model = make(GaussianTree, diffusion=np.eye(3), **{name: np.ones(3)})
    check_refused(model, make_data(GaussianTree), f"{name}=.* matrix for diffusion .* one for all")


# -- what ends a fit -------------------------------------------------------------------------------


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Give a function that has Ctrl-C pressed after some sweep of the second chain."""
    usual = Progress.update

    def interrupt_after(n_sweeps: int) -> None:
        def update(self: Progress, chain: int, sweep: int, *rest: Any) -> None:
            usual(self, chain, sweep, *rest)
            if (chain, sweep) == (1, n_sweeps):
                signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(Progress, "update", update)

    yield interrupt_after
    assert not [thread for thread in threading.enumerate() if "treestick" in thread.name]


ENDLESS = {"n_draws": 10_000, "n_chains": 2, "n_jobs": 3}


@ALL
def test_an_interrupt_keeps_the_draws_so_far(
    kind: type[Estimator], interrupt: Callable[[int], None]
) -> None:
    X = make_data(kind)
    whole = make(kind, n_draws=3, n_chains=2).fit(X)
    model = make(kind, **ENDLESS)
    interrupt(3 + 5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X)
    (told,) = [w for w in caught if w.category is RuntimeWarning]
    assert "interrupted: fitted with the draws so far" in str(told.message)
    assert told.filename == __file__
    n_draws = np.bincount(model.draws_.chain)
    assert n_draws[1] >= 5
    assert model.n_iter_ == 3 + n_draws.max()
    assert model.idata_["posterior"].sizes["draw"] == n_draws.min()
    for k in range(3):  # what would have been drawn without the interrupt
        drawn = model.draws_[int(n_draws[0]) + k]
        np.testing.assert_equal(drawn.to_dict(), whole.draws_[3 + k].to_dict())
    assert np.isfinite(model.score(X))


@pytest.mark.filterwarnings("error")
def test_an_interrupt_keeps_the_draws_where_warnings_are_errors(
    interrupt: Callable[[int], None],
) -> None:
    model = make(GaussianTree, **ENDLESS)
    interrupt(8)
    with pytest.raises(RuntimeWarning, match="interrupted"):
        model.fit(make_data(GaussianTree))
    assert len(model.draws_) >= 5
    assert model.predict(make_data(GaussianTree)).shape == (40,)


@BOTH
def test_an_interrupt_before_the_first_draw(
    kind: type[Estimator], interrupt: Callable[[int], None]
) -> None:
    model = make(kind).fit(make_data(kind))
    expected = model.score_samples(make_data(kind))
    interrupt(2)
    model.set_params(**ENDLESS | {"burn_in": 10**9})
    with pytest.raises(KeyboardInterrupt):
        model.fit(make_data(kind, n_features=5))
    assert model.n_features_in_ == 3
    np.testing.assert_array_equal(model.score_samples(make_data(kind)), expected)
    fresh = make(kind, **ENDLESS | {"burn_in": 10**9})
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(make_data(kind))
    assert not hasattr(fresh, "n_features_in_")


def test_an_error_in_a_chain_ends_all(
    monkeypatch: pytest.MonkeyPatch, interrupt: Callable[[int], None]
) -> None:
    usual = RunFolder.append

    def append(self: RunFolder, record: DrawRecord, *rest: Any) -> None:
        if record.chain == 1 and record.sweep == 6:
            raise OSError("the disk is full")
        usual(self, record, *rest)

    monkeypatch.setattr(RunFolder, "append", append)
    with pytest.raises(OSError, match="the disk is full"):
        make(GaussianTree, **ENDLESS).fit(make_data(GaussianTree))


def test_an_interrupt_while_chains_start(
    monkeypatch: pytest.MonkeyPatch, interrupt: Callable[[int], None]
) -> None:
    usual = ThreadPoolExecutor.submit

    def submit(self: ThreadPoolExecutor, *arguments: Any) -> Any:
        job = usual(self, *arguments)
        signal.raise_signal(signal.SIGINT)
        return job

    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit)
    endless: Iterator[Any] = repeat(None)
    n_sweeps = dict.fromkeys(range(3), 10**12)
    assert run_chains(lambda chain, run: endless, n_sweeps, 3, lambda chain, swept: None)
