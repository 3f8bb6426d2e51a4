"""The TopicTree estimator: conventions, its phases, tables, new documents, bad input."""

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from test_estimators import ASKS_FOR_CLASSES
from test_lda import Rounded, make_data
from treestick import io
from treestick.analysis import tree_topics
from treestick.analysis.heldout import document_completion, empirical_likelihood
from treestick.analysis.topic_draws import laplace_multinomial
from treestick.engine.progress import Progress
from treestick.estimators import TopicTree
from treestick.inputs import InputError
from treestick.random import make_key
from treestick.tokens.documents import make_documents
from treestick.tokens.inference import by_word

QUICK: dict[str, Any] = {
    "n_topics": 3, "n_draws": 3, "burn_in": 5, "thin": 2, "n_chains": 1, "lda_sweeps": 5,
    "tree_sweeps": 3, "random_state": 0, "verbose": 0,
}  # fmt: skip
TEXTS = ["cats chase mice", "mice fear cats", "stocks and bonds", "bonds beat stocks"]


def make(**changed: Any) -> TopicTree:
    return TopicTree(**QUICK | changed)


class RoundedTopicTree(Rounded, TopicTree):
    """A TopicTree that rounds."""


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [RoundedTopicTree(**QUICK)],
    expected_failed_checks=lambda _: {
        "check_estimator_sparse_array": ASKS_FOR_CLASSES,
        "check_estimator_sparse_matrix": ASKS_FOR_CLASSES,
    },
)
def test_scikit_learns_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        pytest.param({"document_move": "summed_out"}, marks=pytest.mark.long),
        {"sampler": "instantiated"},
        {"n_topics": None},
        {"n_topics": None, "persistence": 0.9},
        {"schedule": "paper"},
    ],
    ids=str,
)
def test_fitted_attributes(changed: dict[str, Any]) -> None:
    X = make_data()
    model = make(**changed)
    before = copy.deepcopy(model.get_params())
    assert model.fit(X) is model
    assert model.get_params() == before
    n_topics = model.components_.shape[0]
    assert model.components_.shape == (n_topics, 6)
    np.testing.assert_allclose(model.components_.sum(axis=1), 1.0)
    if model.n_topics is not None:
        assert n_topics == 3
    assert model.n_iter_ == 3 + 5 + 3 * 2
    assert len(model.draws_) == len(model.topic_draws_) == 3
    mixtures = model.tree_.node_params["topics"]
    np.testing.assert_allclose(mixtures.sum(axis=1), 1.0, rtol=1e-5)
    assert mixtures.shape == (model.tree_.n_nodes, n_topics)
    assert 0.001 <= model.topic_word_prior_ <= 1.0
    assert model.idata_.posterior["topic_word_prior"].shape == (1, 3)
    proportions, nodes = model.transform(X), model.predict_proba(X)
    for rows in (proportions, nodes):
        np.testing.assert_allclose(rows.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.transform(X[7:9]), proportions[7:9])
    np.testing.assert_array_equal(model.predict_proba(X[7:9]), nodes[7:9])
    assert nodes.shape == (30, model.tree_.n_nodes + 1)
    assert np.isfinite(model.score_samples(X)).all()
    drawn = model.sample(20, random_state=1)
    assert drawn.shape == (20, 6)
    assert drawn.sum(axis=1).tolist() == [30] * 20
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X), proportions)


def test_any_number_of_threads_gives_the_same_draws() -> None:
    X = make_data()
    for changed in ({}, {"sampler": "instantiated"}):
        one, two = (clone(make(n_jobs=n, **changed)).fit(X) for n in (1, 2))
        for a, b in zip(one.draws_, two.draws_, strict=True):
            np.testing.assert_array_equal(a.assignments, b.assignments)
            np.testing.assert_array_equal(a.node_params["topics"], b.node_params["topics"])
        np.testing.assert_array_equal(one.components_, two.components_)


@pytest.mark.parametrize("engine", ["threads", pytest.param("processes", marks=pytest.mark.long)])
def test_the_display_says_that_topics_come_first(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[tuple[int, str]] = []
    monkeypatch.setattr(Progress, "note", lambda _, *words: said.append(words))
    n_chains = 1 if engine == "threads" else 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        make(engine=engine, n_chains=n_chains).fit(make_data())
    every = [(chain, f"LDA {k}/5") for chain in range(n_chains) for k in range(1, 6)]
    if engine == "threads":
        assert said == every
    else:  # which tell no more than ten times a second
        assert {chain for chain, _ in said} == {0, 1}
        assert set(said) <= set(every)


def test_two_kinds_of_documents_are_told_apart() -> None:
    """Better than one distribution for all, by both measures, and in predictions."""
    rng = np.random.default_rng(0)
    topics = np.array([[4, 4, 4, 0, 0, 0], [0, 0, 0, 4, 4, 4]]) / 12
    X = np.stack([rng.multinomial(40, topics[k % 2]) for k in range(60)])
    model = make(n_topics=2, burn_in=30, lda_sweeps=30, n_draws=10).fit(X[:40])
    counts, train = io.read_counts(X[40:], "X"), io.read_counts(X[:40], "X")
    baseline = [laplace_multinomial(train)]
    completed = document_completion(model.topic_draws_, counts).perplexity
    assert completed < 0.6 * document_completion(baseline, counts).perplexity
    likely = empirical_likelihood(model.topic_draws_, counts, 2000).perplexity
    assert likely < 0.6 * empirical_likelihood(baseline, counts, 1).perplexity
    shares = model.transform(X[40:])
    assert np.all(shares[::2, 0] > 0.9) or np.all(shares[::2, 0] < 0.1)
    assert np.all((shares[::2, 0] > 0.9) != (shares[1::2, 0] > 0.9))


def small_places() -> tree_topics.Places:
    """Return a node with known proportions, and two with Dirichlet ones."""
    shapes = np.array([[0.2, 0.8], [0.5, 1.5], [3.0, 0.4]])
    return tree_topics.places_of(np.log([0.5, 0.3, 0.2]), np.array([True, False, False]), shapes)


@pytest.mark.parametrize("n_places", [1, 7, 8, 21])
def test_weights_of_places_against_their_formula(n_places: int) -> None:
    """Also with shapes that are all but zero, topics without words, and no words at all."""
    rng = np.random.default_rng(n_places)
    shapes = np.exp(rng.uniform(-12.0, 6.0, (n_places, 5)))
    shapes[rng.random(shapes.shape) < 0.2] = 1e-280
    is_given, log_weight = rng.random(n_places) < 0.4, np.log(rng.random(n_places))
    shapes[is_given] /= shapes[is_given].sum(axis=1, keepdims=True)
    places = tree_topics.places_of(log_weight, is_given, shapes)
    for n_k in np.array([[0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [3, 1, 0, 40, 2000]]):
        dirichlet = special.gammaln(shapes + n_k) - special.gammaln(shapes)
        total = shapes.sum(axis=1)
        rising = special.gammaln(total + n_k.sum()) - special.gammaln(total)
        given = (n_k * np.log(shapes)).sum(axis=1)
        expected = log_weight + np.where(is_given, given, dirichlet.sum(axis=1) - rising)
        p = np.empty(n_places)
        tree_topics._weigh(places, n_k.astype(np.float32), int(n_k.sum()), p)
        assert p == pytest.approx(np.exp(expected - expected.max()), rel=1e-8, abs=1e-300)


def exactly(words: list[int], topics: Any) -> tuple[Any, Any, float]:
    """Return mean proportions, probabilities of the places and of the words, by enumeration."""
    places = small_places()
    n_topics, n = topics.shape[0], len(words)
    mean, of_places, total = np.zeros(n_topics), np.zeros(3), 0.0
    for z in np.ndindex(*[n_topics] * n):
        n_k = np.bincount(np.array(z, dtype=int), minlength=n_topics)
        p_words = np.prod([topics[k, w] for k, w in zip(z, words, strict=True)])
        for c in range(3):
            a = places.shapes[c]
            if places.is_given[c]:
                p, share = np.prod(a**n_k), a
            else:
                log_p = special.gammaln(a + n_k).sum() - special.gammaln(a).sum()
                log_p += special.gammaln(a.sum()) - special.gammaln(a.sum() + n)
                p, share = np.exp(log_p), (a + n_k) / (a.sum() + n)
            weight = np.exp(places.log_weight[c]) * p * p_words
            mean += weight * share
            of_places[c] += weight
            total += weight
    return mean / total, of_places / total, total


def test_new_documents_against_enumeration() -> None:
    topics = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    words = [0, 0, 1, 2]
    expected, of_places, probability = exactly(words, topics)
    documents = make_documents(io.read_counts(np.array([[2, 1, 1]]), "X"))
    places, phi = small_places(), by_word(topics)
    proportions, nodes = np.empty((1, 2)), np.empty((1, 3))
    tree_topics.infer(make_key(1), documents, places, 2, phi, 20, 40_000, 0, 1, proportions, nodes)
    assert proportions[0] == pytest.approx(expected, abs=0.01)
    assert nodes[0] == pytest.approx(of_places, abs=0.02)
    found, out = [], np.empty(1)
    for number in range(4000):
        tree_topics.log_probabilities(make_key(1, 0, number), documents, places, phi, 0, 1, out)
        found.append(np.exp(out[0]))
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - probability) < 5.0 * error + 1e-6 * probability


def test_tables() -> None:
    years = [1990 + k % 3 for k in range(20)]
    authors = [["Ann", "Bob"] if k % 2 else ["Bob"] for k in range(20)]
    corpus = io.read_texts(
        TEXTS * 5, metadata={"year": years, "author": authors}, stop_words=["and"]
    )
    model = make(n_topics=2, lda_sweeps=50, burn_in=20).fit(corpus)
    assert model.ids_ == corpus.ids
    tops = {frozenset(model.top_words(topic=k, n=2).tolist()) for k in range(2)}
    assert tops == {frozenset({"cats", "mice"}), frozenset({"bonds", "stocks"})}
    assert len(model.top_words(node=0, n=3)) == 3
    topics = model.topics_table()
    assert topics["share"].sum() == pytest.approx(1.0)
    nodes = model.nodes_table()
    assert nodes["here"].sum() == 20
    assert len(model.nodes_table(min_documents=21)) == 0
    by_year = model.counts_by("year")
    assert by_year.to_numpy().sum() == 20
    assert by_year.sum().tolist() == [7, 7, 6]
    by_author = model.counts_by("author")
    assert by_author.sum().to_dict() == {"Ann": 10, "Bob": 20}
    with pytest.raises(InputError, match="column='title' is not among the metadata"):
        model.counts_by("title")
    with pytest.raises(InputError, match="either a topic or a node"):
        model.top_words()
    new = io.read_texts(["mice like cats"])
    with pytest.warns(UserWarning, match="1 of 3 tokens were dropped"):
        assert model.predict(new).shape == (1,)


def test_summary_prints_both_tables(capsys: pytest.CaptureFixture[str]) -> None:
    make().fit(make_data()).summary()
    out = capsys.readouterr().out
    assert "share" in out
    assert "parent" in out


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_topics": 0}, "n_topics=0"),
        ({"sampler": "best"}, "sampler='best' is not one of"),
        ({"document_move": "all"}, "document_move='all' is not one of"),
        ({"n_topics": None, "sampler": "instantiated"}, "sampler='instantiated' needs a number"),
        ({"n_topics": None, "document_move": "summed_out"}, "'summed_out' needs a number of topic"),
        ({"concentration": -1.0}, "concentration=-1.0"),
        ({"topic_word_prior": 0.0}, "topic_word_prior=0.0"),
        ({"tree_sweeps": -1}, "tree_sweeps=-1"),
        ({"lda_sweeps": 1.5}, "lda_sweeps=1.5"),
        ({"root_concentration": 0.0}, "root_concentration=0.0"),
    ],
    ids=str,
)
def test_bad_parameters(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(**changed).fit(make_data())


def test_bad_documents() -> None:
    with pytest.raises(InputError, match="all documents are empty"):
        make().fit(np.zeros((3, 2)))
    X = make_data()
    X[3, 2] = 0.5
    with pytest.raises(InputError, match="row 3, column 2"):
        make().fit(X)
    model = make().fit(make_data())
    with pytest.raises(InputError, match="without names"):
        model.transform(io.read_texts(TEXTS))
    X[3, 2] = 0.0
    X[5] = 0.0  # an empty document is one like any other
    assert np.isfinite(model.fit(X).score_samples(X)).all()
