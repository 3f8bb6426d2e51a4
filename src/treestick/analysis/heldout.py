"""How well topic models predict held-out documents: perplexity, and coherence of topics.

Perplexity is exp(-log probability of all words / their number), lower is better; words are taken as
sequences, without a multinomial coefficient. Two estimates, of different things:

*Empirical likelihood* (Li & McCallum 2006; Wallach et al. 2009). The probability of a whole
document is the mean of that under many pseudo-documents of infinite length: mixtures q_i of the
topics with proportions drawn from the model::

    p(document d) ~ mean over i of prod_w q_i[w] ** n_dw

Hardly any pseudo-document resembles a given long document, so the mean hangs on a few of them:
the estimate is too high on average and goes on falling as they grow in number. How many they are
in effect stands beside it; where that is about 1, the figure says little.

*Document completion*. Half of a document's tokens, chosen at random, are seen; proportions are
inferred from them, and the other half is predicted, token by token.

Both average probabilities over posterior draws. Errors are jackknife estimates: how much the figure
would vary with other pseudo-documents and draws, the held-out documents and the chain being the
same. Draws of one chain are not independent, so they are too low where it mixes slowly.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from treestick._jit import compiled, deferred_interrupts
from treestick.analysis.topic_draws import TopicDraw
from treestick.inputs import InvalidValue, check_whole_number
from treestick.random import make_key

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

AT_ONCE = 512
"""Pseudo-documents whose words are mixed at a time: with 50,000 words, 100 MB."""
DRAWN_AT_ONCE = 4096
"""Pseudo-documents whose proportions are drawn at a time: part of what a seed means."""
FEWEST_BATCHES = 20
"""Parts that the jackknife leaves out one by one."""


class EmpiricalLikelihood(NamedTuple):
    """Perplexity by empirical likelihood, and how far it can be trusted."""

    perplexity: float
    error: float
    """Monte Carlo standard error of the perplexity."""
    n_effective: Floats
    """Of each document: the effective number of pseudo-documents, 1 / sum of squared shares; 0 if
    none can have it."""
    log_probabilities: Floats
    """Of each document."""
    n_pseudo: int


class Completion(NamedTuple):
    """Perplexity by document completion."""

    perplexity: float
    error: float
    """Monte Carlo standard error of the perplexity; nan for a single draw."""
    log_probabilities: Floats
    """Of the predicted half of each document."""
    n_predicted: int


def empirical_likelihood(
    draws: Sequence[TopicDraw], counts: sparse.csr_array, n_pseudo: int = 100_000, seed: int = 0
) -> EmpiricalLikelihood:
    """Return the perplexity of documents by empirical likelihood.

    Memory is bounded whatever ``n_pseudo`` is. Time goes with ``n_pseudo`` times the number of
    different words in each document, plus that times the size of the vocabulary and of the topics.

    Parameters
    ----------
    draws : sequence of TopicDraw
        Posterior draws. Pseudo-documents are shared out among them evenly.
    counts : sparse array of shape (n_documents, n_words)
    n_pseudo : int, default 100,000
        How many pseudo-documents; rounded up to a multiple of the number of batches.
    seed : int
    """
    counts = _check(draws, counts)
    check_whole_number("n_pseudo", n_pseudo, 1)
    per_draw = -(-min(FEWEST_BATCHES, n_pseudo) // len(draws))
    n_batches = len(draws) * per_draw
    n_each = -(-n_pseudo // n_batches)
    words, within = np.unique(counts.indices, return_inverse=True)
    first, numbers = counts.indptr.astype(np.int64), counts.data.astype(np.float64)
    within = within.astype(np.int64)
    log_sums = np.full((n_batches, counts.shape[0]), -np.inf)
    log_squares = np.full(counts.shape[0], -np.inf)
    for number, draw in enumerate(draws):
        topics = draw.topics[:, words].astype(np.float32)
        chunk = 0
        for sums in log_sums[number * per_draw : (number + 1) * per_draw]:
            for start in range(0, n_each, DRAWN_AT_ONCE):
                n = min(DRAWN_AT_ONCE, n_each - start)
                proportions = draw.draw_proportions(make_key(seed, number, chunk), n)
                chunk += 1
                for some in range(0, n, AT_ONCE):
                    mixed = proportions[some : some + AT_ONCE].astype(np.float32) @ topics
                    with np.errstate(divide="ignore"):
                        logs = np.log(mixed, out=mixed).T.copy()
                    with deferred_interrupts():
                        _add_up(first, within, numbers, logs, sums, log_squares)
    n_used = n_batches * n_each
    found = np.logaddexp.reduce(log_sums, axis=0)
    log_p = found - np.log(n_used)
    n_words = float(counts.data.sum())
    others = (np.delete(log_sums, batch, axis=0) for batch in range(n_batches))
    without = np.array([np.logaddexp.reduce(sums, axis=0).sum() for sums in others])
    n_effective = np.zeros(found.size)
    can_be = found > -np.inf
    n_effective[can_be] = np.exp(2.0 * found[can_be] - log_squares[can_be])
    return EmpiricalLikelihood(
        _perplexity(log_p.sum(), n_words),
        _jackknife(without, log_p.sum(), n_words),
        n_effective,
        log_p,
        n_used,
    )


@compiled
def _add_up(
    first: Integers,
    words: Integers,
    numbers: Floats,
    logs: npt.NDArray[np.float32],
    log_sums: Floats,
    log_squares: Floats,
) -> None:
    """Add the probabilities of all documents under some pseudo-documents to sums, in logarithms.

    ``logs`` has a row for each word and a column for each pseudo-document.
    """
    n_pseudo = logs.shape[1]
    found = np.empty(n_pseudo)
    for d in range(first.size - 1):
        found[:] = 0.0
        for cell in range(first[d], first[d + 1]):
            row, n = logs[words[cell]], numbers[cell]
            for i in range(n_pseudo):
                found[i] += n * row[i]
        largest = found.max()
        if largest == -np.inf:
            continue
        total, squares = 0.0, 0.0
        for i in range(n_pseudo):
            share = np.exp(found[i] - largest)
            total += share
            squares += share * share
        log_sums[d] = np.logaddexp(log_sums[d], largest + np.log(total))
        log_squares[d] = np.logaddexp(log_squares[d], 2.0 * largest + np.log(squares))


def document_completion(
    draws: Sequence[TopicDraw], counts: sparse.csr_array, seed: int = 0
) -> Completion:
    """Return the perplexity of half of each document's tokens given the other half.

    Parameters
    ----------
    draws : sequence of TopicDraw
        Posterior draws; each infers proportions by itself, and probabilities are averaged.
    counts : sparse array of shape (n_documents, n_words)
    seed : int
        Which tokens are predicted, and what is drawn in inferring proportions.
    """
    counts = _check(draws, counts)
    seen, hidden = halves(counts, seed)
    rows = np.repeat(np.arange(hidden.shape[0]), np.diff(hidden.indptr))
    by_draw = np.empty((len(draws), hidden.nnz))
    for number, draw in enumerate(draws):
        proportions = draw.infer_proportions(make_key(seed, number), seen)
        topics = np.ascontiguousarray(draw.topics.T)
        for start in range(0, hidden.nnz, 2**16):
            cells = slice(start, start + 2**16)
            by_draw[number, cells] = np.einsum(
                "ik,ik->i", proportions[rows[cells]], topics[hidden.indices[cells]]
            )
    total, numbers = by_draw.sum(axis=0), hidden.data.astype(np.float64)
    n_words = float(numbers.sum())

    def of_documents(sums: Floats, n: int) -> Floats:
        with np.errstate(divide="ignore"):
            logs = numbers * np.log(sums / n)
        return np.asarray(np.bincount(rows, weights=logs, minlength=hidden.shape[0]))

    log_p = of_documents(total, len(draws))
    without = np.array(
        [of_documents(total - row, len(draws) - 1).sum() for row in by_draw]
        if len(draws) > 1
        else [np.nan]
    )
    return Completion(
        _perplexity(log_p.sum(), n_words),
        _jackknife(without, log_p.sum(), n_words),
        log_p,
        int(n_words),
    )


def halves(counts: sparse.csr_array, seed: int) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Return two tables of counts that add up to ``counts``: half of each row's tokens at random.

    Of an odd number of tokens, the second has one more.
    """
    rng = np.random.default_rng(seed)
    kept = np.zeros(counts.nnz, dtype=np.int64)
    whole = counts.data.astype(np.int64)
    for start, stop in zip(counts.indptr[:-1].tolist(), counts.indptr[1:].tolist(), strict=True):
        if stop > start:
            n = int(whole[start:stop].sum())
            tokens = np.repeat(np.arange(stop - start), whole[start:stop])
            chosen = rng.permutation(tokens)[: n // 2]
            kept[start:stop] = np.bincount(chosen, minlength=stop - start)
    parts = []
    for numbers in (kept, whole - kept):
        part = sparse.csr_array(
            (numbers.astype(np.float64), counts.indices.copy(), counts.indptr.copy()),
            shape=counts.shape,
        )
        part.eliminate_zeros()
        parts.append(part)
    return parts[0], parts[1]


def npmi_coherence(words: npt.ArrayLike, counts: sparse.csr_array) -> Floats:
    """Return the coherence of lists of words: their mean normalised pointwise mutual information.

    With P the share of documents that have a word, or both of two, NPMI is log(P(u, v) /
    (P(u) P(v))) / -log P(u, v): 1 if they always come together, 0 if they are independent, -1 if
    they never do (Bouma 2009). A pair of which one is in no document counts -1; one that is in
    all documents, 0.

    Parameters
    ----------
    words : array of shape (n_topics, n_top)
        Numbers of words, those of one topic in a row: at least two.
    counts : sparse array of shape (n_documents, n_words)
        Reference documents.
    """
    lists = np.asarray(words, dtype=np.int64)
    if lists.ndim != 2 or lists.shape[1] < 2:
        raise InvalidValue(f"words has shape {lists.shape}; a topic is a row of two or more")
    wanted, place = np.unique(lists, return_inverse=True)
    has = sparse.csc_array(counts)[:, wanted]
    has = (has > 0).astype(np.float64)
    together = np.asarray((has.T @ has).todense()) / counts.shape[0]
    alone = np.diag(together)
    with np.errstate(divide="ignore", invalid="ignore"):
        npmi = np.log(together / np.outer(alone, alone)) / -np.log(together)
    npmi = np.where(together == 0.0, -1.0, np.where(together == 1.0, 0.0, npmi))
    place = place.reshape(lists.shape)
    upper = np.triu_indices(lists.shape[1], 1)
    return np.array([npmi[np.ix_(row, row)][upper].mean() for row in place])


def make_folds(
    n_documents: int, n_train: int, n_folds: int = 10, seed: int = 0
) -> list[tuple[Integers, Integers]]:
    """Return random partitions of documents into training and test data, each independent.

    Fold i is a function of ``n_documents``, ``n_train``, ``seed`` and i alone.
    """
    check_whole_number("n_documents", n_documents, 2)
    check_whole_number("n_train", n_train, 1, n_documents - 1)
    check_whole_number("n_folds", n_folds, 1)
    folds = []
    for number in range(n_folds):
        shuffled = np.random.default_rng([seed, number]).permutation(n_documents)
        folds.append((np.sort(shuffled[:n_train]), np.sort(shuffled[n_train:])))
    return folds


def _check(draws: Sequence[TopicDraw], counts: sparse.csr_array) -> sparse.csr_array:
    if len(draws) == 0:
        raise InvalidValue("there are no draws to evaluate")
    n_words = draws[0].topics.shape[1]
    if counts.shape[1] != n_words:
        raise InvalidValue(
            f"the documents have {counts.shape[1]} words and the topics {n_words}; "
            "read the documents with the vocabulary of the training data"
        )
    if counts.sum() == 0:
        raise InvalidValue("the documents have no words to be predicted")
    result: sparse.csr_array = sparse.csr_array(counts)
    return result


def _perplexity(log_p: float, n_words: float) -> float:
    return float(np.exp(-log_p / n_words))


def _jackknife(without: Floats, log_p: float, n_words: float) -> float:
    """Return the standard error of the perplexity, from log probabilities with one part left out.

    nan if there is one part only, or something cannot be.
    """
    n = without.size
    if n < 2 or not np.isfinite(without).all():
        return float("nan")
    variance = (n - 1) / n * np.sum((without - without.mean()) ** 2)
    return float(np.sqrt(variance) / n_words * _perplexity(log_p, n_words))
