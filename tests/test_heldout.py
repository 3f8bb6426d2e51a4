"""Held-out scores of topic models against brute force on tiny cases.

Fewer than 20 comparisons of laws at ``ALARM`` each, with fixed seeds (see ``laws.py``).
"""

import math
from typing import Any

import numpy as np
import pytest
from scipy import sparse, special, stats

from laws import ALARM, p_mean
from test_tokens import exact_posterior
from treestick.analysis import heldout
from treestick.analysis.topic_draws import DirichletDraw, draw_dirichlets, laplace_multinomial
from treestick.inputs import InvalidValue
from treestick.random import make_key

RNG = np.random.default_rng(4)
TOPICS = RNG.dirichlet(np.full(4, 0.6), size=2)
DRAW = DirichletDraw(TOPICS, np.array([0.7, 0.4]))
COUNTS = sparse.csr_array(np.array([[2.0, 1, 0, 1], [0, 0, 3, 0], [0, 0, 0, 0]]))
WORDS: list[list[int]] = [[0, 0, 1, 3], [2, 2, 2], []]


def exact_log_p(draw: DirichletDraw) -> list[float]:
    return [math.log(exact_posterior(draw.doc_topic_prior, draw.topics, w)[1]) for w in WORDS]


def test_empirical_likelihood_against_enumeration() -> None:
    exact = exact_log_p(DRAW)
    by_seed = [heldout.empirical_likelihood([DRAW], COUNTS, 2000, seed) for seed in range(60)]
    logs = np.array([found.log_probabilities for found in by_seed])
    for d in range(2):
        assert p_mean(np.exp(logs[:, d]), math.exp(exact[d])) > ALARM
    np.testing.assert_allclose(logs[:, 2], 0.0, atol=1e-12)
    found = np.array([one.perplexity for one in by_seed])
    assert found.mean() == pytest.approx(math.exp(-sum(exact) / 7), rel=0.01)
    # The error is that of a figure with one seed; 60 of them know it to a tenth.
    errors = np.array([one.error for one in by_seed])
    assert 0.6 < errors.mean() / found.std() < 1.6


def test_effective_numbers_of_pseudo_documents() -> None:
    found = heldout.empirical_likelihood([DRAW], COUNTS, 1000, seed=3)
    assert found.n_pseudo == 1000
    drawn = [draw_dirichlets(make_key(3, 0, k), DRAW.doc_topic_prior, 50) for k in range(20)]
    p = np.concatenate(drawn) @ TOPICS
    weights = np.exp(np.log(p) @ COUNTS.toarray().T)
    np.testing.assert_allclose(
        found.n_effective, weights.sum(axis=0) ** 2 / (weights**2).sum(axis=0), rtol=1e-4
    )
    np.testing.assert_allclose(
        found.log_probabilities, np.log(weights.mean(axis=0)), rtol=1e-5, atol=1e-5
    )


def test_batches_and_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = [DRAW, DirichletDraw(TOPICS[::-1].copy(), np.array([0.2, 0.9]))]
    once = heldout.empirical_likelihood(draws, COUNTS, 500, seed=1)
    assert once.n_pseudo == 500
    monkeypatch.setattr(heldout, "AT_ONCE", 7)
    again = heldout.empirical_likelihood(draws, COUNTS, 500, seed=1)
    np.testing.assert_allclose(again.log_probabilities, once.log_probabilities, rtol=1e-6)
    assert again.error == pytest.approx(once.error, rel=1e-4)


def test_probabilities_are_averaged_over_draws() -> None:
    other = DirichletDraw(TOPICS[:, ::-1].copy(), np.array([3.0, 1.0]))
    exact = np.logaddexp(exact_log_p(DRAW), exact_log_p(other)) - math.log(2)
    found = heldout.empirical_likelihood([DRAW, other], COUNTS, 200_000)
    np.testing.assert_allclose(found.log_probabilities[:2], exact[:2], atol=0.02)


def test_completion_against_enumeration() -> None:
    seen, hidden = heldout.halves(COUNTS, seed=5)
    total = 0.0
    for d in range(2):
        words = np.repeat(np.arange(4), seen.toarray()[d].astype(int)).tolist()
        mean, _ = exact_posterior(DRAW.doc_topic_prior, TOPICS, words)
        total += float(hidden.toarray()[d] @ np.log(mean @ TOPICS))
    found = [
        heldout.document_completion([DRAW] * 40, COUNTS, seed=5),
        heldout.document_completion([DRAW], COUNTS, seed=5),
    ]
    assert found[0].n_predicted == 2 + 2
    assert found[0].log_probabilities.sum() == pytest.approx(total, abs=0.02)
    assert found[0].error < 0.05 * found[0].perplexity
    assert math.isnan(found[1].error)


def test_halves_add_up() -> None:
    rng = np.random.default_rng(0)
    counts = sparse.csr_array(rng.poisson(1.5, (30, 20)).astype(float))
    seen, hidden = heldout.halves(counts, seed=1)
    np.testing.assert_array_equal((seen + hidden).toarray(), counts.toarray())
    np.testing.assert_array_equal(np.asarray(seen.sum(axis=1)), np.asarray(counts.sum(axis=1)) // 2)
    again, _ = heldout.halves(counts, seed=1)
    np.testing.assert_array_equal(again.toarray(), seen.toarray())
    # Of one word 4 times and another 2 times, three tokens: hypergeometric.
    two = sparse.csr_array(np.tile([4.0, 2.0], (4000, 1)))
    taken = heldout.halves(two, seed=2)[0].toarray()[:, 0]
    expected = stats.hypergeom(6, 4, 3).pmf([1, 2, 3]) * 4000
    assert stats.chisquare([(taken == k).sum() for k in (1, 2, 3)], expected).pvalue > ALARM


def test_multinomial_baseline_is_exact() -> None:
    model = laplace_multinomial(COUNTS)
    p = (np.array([2.0, 1.0, 3.0, 1.0]) + 1.0) / 11.0
    np.testing.assert_allclose(model.topics[0], p)
    expected = math.exp(-float(COUNTS.toarray().sum(axis=0) @ np.log(p)) / 7.0)
    found = heldout.empirical_likelihood([model], COUNTS, 20)
    assert found.perplexity == pytest.approx(expected, rel=1e-5)
    assert found.error < 1e-4
    np.testing.assert_allclose(found.n_effective, 20)
    hidden = heldout.halves(COUNTS, 0)[1].toarray().sum(axis=0)
    expected = math.exp(-float(hidden @ np.log(p)) / hidden.sum())
    assert heldout.document_completion([model], COUNTS).perplexity == pytest.approx(expected)


def test_dirichlets_have_their_law() -> None:
    drawn = draw_dirichlets(make_key(1), np.array([0.5, 1.5, 3.0]), 20_000)
    np.testing.assert_array_equal(
        drawn[:10], draw_dirichlets(make_key(1), np.array([0.5, 1.5, 3.0]), 10)
    )
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0)
    for k, a in enumerate((0.5, 1.5, 3.0)):
        assert stats.kstest(drawn[:, k], stats.beta(a, 5.0 - a).cdf).pvalue > ALARM


def test_npmi_against_plain_loops() -> None:
    rng = np.random.default_rng(2)
    table = (rng.random((50, 8)) < 0.4) * rng.integers(1, 4, (50, 8))
    table[:, 6], table[:, 7] = 0, 1  # never, and always there
    lists = np.array([[0, 1, 2], [5, 3, 4], [0, 6, 7]])
    found = heldout.npmi_coherence(lists, sparse.csr_array(table.astype(float)))
    for row, value in zip(lists, found, strict=True):
        total = []
        for i in range(3):
            for j in range(i + 1, 3):
                a, b = table[:, row[i]] > 0, table[:, row[j]] > 0
                both = np.mean(a & b)
                total.append(
                    -1.0 if both == 0 else math.log(both / a.mean() / b.mean()) / -math.log(both)
                )
        assert value == pytest.approx(np.mean(total))
    same = np.tile([[1.0], [0.0]], (5, 2))
    np.testing.assert_allclose(heldout.npmi_coherence([[0, 1]], sparse.csr_array(same)), 1.0)


def test_folds() -> None:
    folds = heldout.make_folds(20, 13, 3, seed=4)
    assert len(folds) == 3
    for train, test in folds:
        assert sorted([*train, *test]) == list(range(20))
        assert train.size == 13
    assert not np.array_equal(folds[0][0], folds[1][0])
    for one, other in zip(folds, heldout.make_folds(20, 13, 2, seed=4), strict=False):
        np.testing.assert_array_equal(one[0], other[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], COUNTS), "no draws"),
        (([DRAW], COUNTS[:, :3]), "3 words and the topics 4"),
        (([DRAW], COUNTS[2:]), "no words to be predicted"),
    ],
)
def test_what_cannot_be_evaluated(arguments: Any, message: str) -> None:
    for score in (heldout.empirical_likelihood, heldout.document_completion):
        with pytest.raises(InvalidValue, match=message):
            score(*arguments)
    with pytest.raises(InvalidValue, match="two or more"):
        heldout.npmi_coherence([[1]], COUNTS)
    with pytest.raises(InvalidValue, match="n_train"):
        heldout.make_folds(5, 5)


def test_words_that_cannot_be() -> None:
    """A word without probability makes a perplexity infinite, not an error."""
    draw = DirichletDraw(np.array([[0.5, 0.5, 0.0, 0.0]]), np.ones(1))
    found = heldout.empirical_likelihood([draw], COUNTS, 20)
    assert found.perplexity == math.inf
    assert special.logsumexp(found.log_probabilities[:2]) == -math.inf
