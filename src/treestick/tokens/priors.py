"""Slice moves on the two concentrations of latent Dirichlet allocation, given the tokens' topics.

Proportions and topics are integrated out. With A the sum of alpha over topics,

    p(alpha | z) ~ prod_d  Gamma(A) / Gamma(A + N_d) * prod_k Gamma(alpha_k + n_dk) / Gamma(alpha_k)
    p(beta | z)  ~ prod_k  Gamma(V beta) / Gamma(V beta + n_k)
                           * prod_w Gamma(beta + n_wk) / Gamma(beta)

with uniform priors between bounds. Both are products of rising factorials a (a + 1) ...
(a + n - 1), of which only the number of each length n matters, so counts are sorted into a
histogram first. The moves are in the logarithm, which adds log alpha to the target, because bounds
may be decades apart; the first interval of the slice is that between the bounds, and it shrinks
towards the present value.
"""

import math
from typing import NamedTuple

import numpy as np

from treestick._jit import compiled
from treestick.diffusions.dirichlet import log_rising
from treestick.lanes import Floats32
from treestick.random import Key, Purpose, Stream, exponential, key_for, open_stream, uniform
from treestick.tokens.collapsed import TopicCounts
from treestick.tokens.documents import Floats


class Lengths(NamedTuple):
    """The lengths of rising factorials, and how often there is one of each."""

    n: Floats
    times: Floats


@compiled
def _lengths(counts: Floats32) -> Lengths:
    """Sort whole numbers into a histogram; those of 0 are left out."""
    counted = np.zeros(np.int64(counts.max()) + 1, dtype=np.int64)
    for i in range(counts.shape[0]):
        for j in range(counts.shape[1]):
            counted[np.int64(counts[i, j])] += 1
    n_found = 0
    for n in range(1, counted.size):
        n_found += counted[n] > 0
    found = Lengths(np.empty(n_found), np.empty(n_found))
    place = 0
    for n in range(1, counted.size):
        if counted[n] > 0:
            found.n[place] = n
            found.times[place] = counted[n]
            place += 1
    return found


@compiled
def _log_risings(a: float, lengths: Lengths) -> float:
    total = 0.0
    for i in range(lengths.n.size):
        total += lengths.times[i] * log_rising(a, lengths.n[i])
    return total


@compiled
def _log_target(log_a: float, others: float, times: float, inner: Lengths, outer: Lengths) -> float:
    a = math.exp(log_a)
    return log_a + _log_risings(a, inner) - _log_risings(others + times * a, outer)


@compiled
def _slice(
    stream: Stream,
    now: float,
    low: float,
    high: float,
    others: float,
    times: float,
    inner: Lengths,
    outer: Lengths,
) -> float:
    """Return the new value of one concentration a.

    Its target is the sum of log_rising(a, .) over ``inner``, less that of
    log_rising(others + times * a, .) over ``outer``.
    """
    here = math.log(now)
    level = _log_target(here, others, times, inner, outer) - exponential(stream)
    left, right = math.log(low), math.log(high)
    while True:
        candidate = left + (right - left) * uniform(stream)
        if _log_target(candidate, others, times, inner, outer) >= level:
            return min(max(math.exp(candidate), low), high)
        if candidate < here:
            left = candidate
        else:
            right = candidate
        if not left < right:  # the slice is narrower than the floats around here
            return now


@compiled
def _totals(counts: TopicCounts) -> Floats32:
    """Return the numbers of tokens of the documents, a column."""
    totals = np.zeros((counts.of_documents.shape[0], 1), dtype=np.float32)
    for d in range(totals.size):
        for k in range(counts.of_documents.shape[1]):
            totals[d, 0] += counts.of_documents[d, k]
    return totals


@compiled
def move_document_prior(
    key: Key, counts: TopicCounts, alpha: Floats, low: float, high: float
) -> None:
    """Overwrite alpha, topic by topic; it stays if it is fixed (equal bounds)."""
    if low == high:
        return
    outer = _lengths(_totals(counts))
    for k in range(alpha.size):
        inner = _lengths(counts.of_documents[:, k : k + 1].copy())
        move_one_topic(key, k, inner, outer, alpha, low, high)


@compiled
def move_one_topic(
    key: Key, k: int, inner: Lengths, outer: Lengths, alpha: Floats, low: float, high: float
) -> None:
    """Overwrite alpha of a topic, given how often documents have it, and how many tokens."""
    stream = open_stream(key_for(key, Purpose.TOPIC_PRIORS, k))
    others = 0.0
    for j in range(alpha.size):
        if j != k:
            others += alpha[j]
    alpha[k] = _slice(stream, alpha[k], low, high, others, 1.0, inner, outer)


@compiled
def move_word_prior(
    key: Key, counts: TopicCounts, n_topics: int, beta: float, low: float, high: float
) -> float:
    """Return a new beta; the same one if it is fixed (equal bounds)."""
    if low == high:
        return beta
    stream = open_stream(key_for(key, Purpose.TOPIC_PRIORS, n_topics))
    outer = Lengths(counts.of_topics, np.ones(counts.of_topics.size))
    n_words = np.float64(counts.of_words.shape[0])
    return _slice(stream, beta, low, high, 0.0, n_words, _lengths(counts.of_words), outer)


@compiled
def log_words(counts: TopicCounts, n_topics: int, beta: float) -> float:
    """Return log p(words | topics of tokens, beta), topics integrated out."""
    n_words = np.float64(counts.of_words.shape[0])
    total = _log_risings(beta, _lengths(counts.of_words))
    for k in range(n_topics):
        total -= log_rising(n_words * beta, counts.of_topics[k])
    return total


@compiled
def log_joint(counts: TopicCounts, alpha: Floats, beta: float) -> float:
    """Return log p(words, topics of tokens | alpha, beta), proportions and topics integrated out.

    That is of sequences of words: there is no multinomial coefficient.
    """
    total = log_words(counts, alpha.size, beta)
    for k in range(alpha.size):
        total += _log_risings(alpha[k], _lengths(counts.of_documents[:, k : k + 1].copy()))
    return total - _log_risings(alpha.sum(), _lengths(_totals(counts)))
