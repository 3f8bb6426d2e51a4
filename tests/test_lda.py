"""The LDA estimator: conventions, both samplers, threads, bad input."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy import sparse, special
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from test_tokens import exact_posterior
from treestick import Uniform, io
from treestick.analysis.diagnosis import diagnose
from treestick.analysis.heldout import document_completion, empirical_likelihood
from treestick.estimators import LDA
from treestick.inputs import InputError

Floats = npt.NDArray[np.float64]

QUICK: dict[str, Any] = {
    "n_topics": 3, "n_draws": 3, "burn_in": 5, "thin": 1, "random_state": 0, "verbose": 0,
}  # fmt: skip
BOTH = pytest.mark.parametrize("sampler", ["collapsed", "instantiated"])


def make_data(n: int = 30, seed: int = 0) -> Floats:
    """Return documents of two kinds, over six words."""
    rng = np.random.default_rng(seed)
    p = np.array([[4, 4, 4, 1, 0, 0], [0, 0, 1, 4, 4, 4]]) / 13
    return np.stack([rng.multinomial(30, p[k % 2]) for k in range(n)]).astype(np.float64)


class Rounded:
    """For scikit-learn's checks, which feed estimators of counts fractions."""

    def _counts_of(self, table: Any) -> Any:
        if sparse.issparse(table):
            return super()._counts_of(table.tocsr().rint())  # type: ignore[misc, attr-defined]
        cells = np.asarray(table)
        if cells.dtype.kind == "f":
            table = np.round(cells)
        elif cells.dtype.kind == "O":
            table = np.frompyfunc(lambda c: np.round(c) if isinstance(c, float) else c, 1, 1)(cells)
        return super()._counts_of(table)  # type: ignore[misc]


class RoundedLDA(Rounded, LDA):
    """An LDA that rounds."""


@parametrize_with_checks([RoundedLDA(**QUICK)])  # type: ignore[untyped-decorator]
def test_scikit_learns_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@BOTH
def test_fitted_attributes(sampler: str) -> None:
    X = make_data()
    model = LDA(**QUICK | {"sampler": sampler, "thin": 2})
    before = copy.deepcopy(model.get_params())
    assert model.fit(X) is model
    assert model.get_params() == before
    assert model.components_.shape == (3, 6)
    np.testing.assert_allclose(model.components_.sum(axis=1), 1.0)
    assert model.n_iter_ == 5 + 3 * 2
    assert len(model.draws_) == 3
    best = max(model.draws_, key=lambda draw: draw.log_likelihood)
    np.testing.assert_array_equal(best.topics, model.components_)
    np.testing.assert_array_equal(best.doc_topic_prior, model.doc_topic_prior_)
    assert model.topic_word_prior_ == np.mean([d.topic_word_prior for d in model.draws_])
    assert model.get_feature_names_out().tolist() == ["lda0", "lda1", "lda2"]
    data = model.idata_
    assert data.posterior["doc_topic_prior"].shape == (1, 3, 3)
    assert data.sample_stats["lp"].values.tolist() == [[d.log_likelihood for d in model.draws_]]
    found = diagnose(model)  # which has no trees to compare
    assert (found.sweep.tolist(), found.verdict.grade) == ([7, 9, 11], "bad")
    proportions = model.transform(X)
    np.testing.assert_allclose(proportions.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.transform(X[7:9]), proportions[7:9])


@BOTH
def test_recovers_two_kinds(sampler: str) -> None:
    X = make_data(60)
    model = LDA(2, burn_in=60, n_draws=5, thin=2, random_state=1, verbose=0, sampler=sampler).fit(X)
    kinds = model.transform(X).argmax(axis=1)
    assert len({(k, n % 2) for n, k in enumerate(kinds.tolist())}) == 2
    tops = {frozenset(model.top_words(k, 3).tolist()) for k in range(2)}
    assert tops == {frozenset({0, 1, 2}), frozenset({3, 4, 5})}


@BOTH
def test_threads_change_nothing(sampler: str) -> None:
    X = make_data()
    fits = [
        LDA(**QUICK | {"n_jobs": n, "n_chains": 2, "sampler": sampler, "n_draws": 2}).fit(X)
        for n in (1, 3)
    ]
    assert len(fits[0].draws_) == 4
    for one, other in zip(fits[0].draws_, fits[1].draws_, strict=True):
        np.testing.assert_array_equal(one.topics, other.topics)
        np.testing.assert_array_equal(one.doc_topic_prior, other.doc_topic_prior)


def test_priors() -> None:
    X = make_data()
    fixed = LDA(**QUICK | {"doc_topic_prior": 0.3, "topic_word_prior": 0.2}).fit(X)
    np.testing.assert_array_equal(fixed.doc_topic_prior_, 0.3)
    assert fixed.topic_word_prior_ == pytest.approx(0.2)
    uneven = LDA(**QUICK | {"doc_topic_prior": np.array([0.1, 2.0, 0.3])}).fit(X)
    np.testing.assert_array_equal(uneven.doc_topic_prior_, [0.1, 2.0, 0.3])
    inferred = LDA(**QUICK | {"doc_topic_prior": Uniform(0.5, 0.6), "topic_word_prior": (2, 3)})
    inferred.fit(X)
    assert np.all((inferred.doc_topic_prior_ > 0.5) & (inferred.doc_topic_prior_ < 0.6))
    assert np.ptp(inferred.doc_topic_prior_) > 0.0
    assert 2.0 < inferred.topic_word_prior_ < 3.0


def test_scores_are_predictive_probabilities() -> None:
    X = make_data()
    model = LDA(**QUICK | {"n_draws": 1, "doc_topic_prior": 0.7, "n_topics": 2}).fit(X)
    new = np.array([[2.0, 0, 1, 0, 0, 1], [0, 0, 0, 0, 0, 0]])
    words = [0, 0, 2, 5]
    _, p = exact_posterior(model.doc_topic_prior_, model.components_, words)
    coefficient = special.gammaln(5) - special.gammaln(3)
    found = model.score_samples(new)
    assert found[0] == pytest.approx(np.log(p) + coefficient, abs=0.3)
    assert found[1] == pytest.approx(0.0, abs=1e-6)
    assert model.score(new) == pytest.approx(found.mean())


def test_evaluation_takes_the_draws() -> None:
    X = sparse.csr_array(make_data(20))
    model = LDA(**QUICK | {"burn_in": 30, "n_topics": 2}).fit(X)
    for found in (
        empirical_likelihood(model.draws_, X, 2000),
        document_completion(model.draws_, X),
    ):
        assert 3.0 < found.perplexity < 5.0
        assert 0.0 < found.error < 0.3


def test_copies_predict_the_same() -> None:
    X = make_data()
    model = LDA(**QUICK).fit(X)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(other.transform(X), model.transform(X))
        np.testing.assert_array_equal(other.score_samples(X), model.score_samples(X))
    with pytest.raises(NotFittedError):
        clone(model).transform(X)


def test_forms_of_data() -> None:
    X, names = make_data(), ["ape", "bee", "cat", "dog", "eel", "fox"]
    plain = LDA(**QUICK).fit(X)
    frame = LDA(**QUICK).fit(pd.DataFrame(X, columns=names))
    corpus = LDA(**QUICK).fit(io.read_matrix(sparse.csr_array(X), names))
    for model in (frame, corpus):
        np.testing.assert_array_equal(model.components_, plain.components_)
        assert model.feature_names_in_.tolist() == names
        top = plain.top_words(0, 2).tolist()
        assert model.top_words(0, 2).tolist() == [names[k] for k in top]
    new = io.read_texts(["cat cat gnu", "fox bee"])
    with pytest.warns(UserWarning, match="1 of 5 tokens were dropped"):
        found = corpus.transform(new)
    expected = corpus.transform(pd.DataFrame([[0, 0, 2, 0, 0, 0], [0, 1, 0, 0, 0, 1]],
                                             columns=names))  # fmt: skip
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(InputError, match="without names"):
        plain.transform(new)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_topics": 0}, "n_topics=0"),
        ({"n_draws": 0}, "n_draws=0"),
        ({"thin": 1.5}, "thin=1.5"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"sampler": "variational"}, r"sampler='variational' is not one of \('collapsed', "),
        ({"doc_topic_prior": -1.0}, "doc_topic_prior=-1.0 must be above 0"),
        ({"doc_topic_prior": (1.0, 0.5)}, "the low end must be below"),
        ({"doc_topic_prior": np.ones(4)}, r"shape \(4,\); give .* each of the 3 topics"),
        ({"doc_topic_prior": [0.1, 0.0, 1.0]}, "doc_topic_prior: topic 1=0.0"),
        ({"doc_topic_prior": "auto"}, "'auto' is not a number"),
        ({"topic_word_prior": [0.1, 0.2]}, "topic_word_prior="),
        ({"topic_word_prior": 1e-12}, "below 1e-09"),
    ],
)
def test_bad_parameters(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        LDA(**QUICK | changed).fit(make_data())
    assert "\n" not in str(caught.value)


def test_bad_data() -> None:
    for X, message in (
        (np.zeros((3, 2)), "all documents are empty"),
        ([[1, 0.5]], "row 0, column 1: 0.5 is not a count"),
        ([[1, -2]], "Negative values"),
    ):
        with pytest.raises(InputError, match=message):
            LDA(**QUICK).fit(X)
    model = LDA(**QUICK).fit(make_data())
    for topic in (3, -1):
        with pytest.raises(InputError, match="topic="):
            model.top_words(topic)
