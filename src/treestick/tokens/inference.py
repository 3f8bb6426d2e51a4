"""New documents, topics given: their proportions, and the probability of their words.

With phi fixed and proportions p ~ Dir(alpha) integrated out, a document's tokens have

    p(z = k | the others) ~ (alpha_k + n_k) * phi[k, w].

:func:`infer_proportions` runs this Gibbs sampler and averages E[p | z] = (alpha + n) / (A + N).
:func:`log_probabilities` puts tokens in one by one, each with its topic drawn given those before::

    p(words) = E prod_i  sum_k (alpha_k + n_k before i) / (A + i) * phi[k, w_i],

which is unbiased for any order of the tokens (left to right: Wallach et al. 2009, without their
resampling of earlier topics). Its logarithm is too low on average, the more so for long documents.

A row's result does not depend on the rows beside it: all documents have the same random numbers.
"""

import math

import numpy as np

from treestick._jit import compiled
from treestick.lanes import (
    LANES,
    Floats32,
    Integers,
    add,
    draw_place,
    drawing_order,
    drawn_entry,
    fill,
    load,
    make_running,
    multiply,
    offsets,
    padded,
    replaced,
    store,
)
from treestick.random import Key, Purpose
from treestick.tokens.collapsed import NOWHERE
from treestick.tokens.documents import PER_BLOCK, Documents, Floats, fill_uniforms

_ONE = np.float32(1.0)


@compiled
def draw_topic(
    factor: Floats32,
    phi: Floats32,
    row: int,
    old: int,
    u: np.float32,
    running: Floats32,
    order: Integers,
) -> tuple[int, np.float32]:
    """Draw a token's topic with weights factor * phi[row]; return it and the total weight.

    ``factor`` counts the token at its present topic ``old``, which is left out (``NOWHERE`` if it
    does not).
    """
    width = factor.size
    without = np.float32(0.0)
    if old >= 0:
        without = (factor[old] - _ONE) * phi[row + old]
    sums = fill(np.float32(0.0))
    for block in range(0, width, LANES):
        weight = multiply(load(factor, block), load(phi, row + block))
        sums = add(sums, replaced(weight, old - block if old >= 0 else -1, without))
        store(running, block + LANES, sums)
    before, total = offsets(sums)
    return drawn_entry(running, order, draw_place(running, width, before, u * total)), total


@compiled
def log_probabilities(
    key: Key, documents: Documents, alpha: Floats, phi: Floats32, first: int, last: int, out: Floats
) -> None:
    """Write an estimate of log p(words) for the documents from ``first`` to before ``last``.

    ``phi`` has a row for each word, padded. Words are sequences: no multinomial coefficient.
    """
    width, rows = phi.shape[1], phi.reshape(-1)
    running, order = make_running(width), drawing_order(width)
    factor = np.zeros(width, dtype=np.float32)
    total_alpha = alpha.sum()
    for d in range(first, last):
        n_tokens = documents.first_token[d + 1] - documents.first_token[d]
        uniforms = np.empty(n_tokens + PER_BLOCK, dtype=np.float32)
        fill_uniforms(key, Purpose.TOKENS, 0, n_tokens, uniforms)
        for k in range(alpha.size):
            factor[k] = alpha[k]
        token, found = 0, 0.0
        for cell in range(documents.first[d], documents.first[d + 1]):
            row = np.int64(documents.words[cell]) * width
            for _ in range(documents.counts[cell]):
                k, total = draw_topic(factor, rows, row, NOWHERE, uniforms[token], running, order)
                found += math.log(np.float64(total) / (total_alpha + token))
                factor[k] += _ONE
                token += 1
        out[d] = found


@compiled
def infer_proportions(
    key: Key,
    documents: Documents,
    alpha: Floats,
    phi: Floats32,
    burn_in: int,
    n_sweeps: int,
    first: int,
    last: int,
    out: Floats,
) -> None:
    """Write the posterior mean of the proportions of the documents from ``first`` to ``last``.

    It is an average over ``n_sweeps`` after ``burn_in`` sweeps. A document without tokens has the
    mean of the prior.
    """
    n_topics, width, rows = alpha.size, phi.shape[1], phi.reshape(-1)
    running, order = make_running(width), drawing_order(width)
    factor, n_d = np.zeros(width, dtype=np.float32), np.zeros(width, dtype=np.float32)
    prior = np.zeros(width, dtype=np.float32)
    total_alpha = 0.0
    for k in range(n_topics):
        prior[k] = alpha[k]
        total_alpha += alpha[k]
    for d in range(first, last):
        n_tokens = documents.first_token[d + 1] - documents.first_token[d]
        uniforms = np.empty(n_tokens + PER_BLOCK, dtype=np.float32)
        topics = np.full(n_tokens, NOWHERE, dtype=np.int64)
        n_d[:] = 0.0
        factor[:] = prior
        out[d] = 0.0
        for sweep in range(burn_in + n_sweeps):
            fill_uniforms(key, Purpose.TOKENS, sweep, n_tokens, uniforms)
            token = 0
            for cell in range(documents.first[d], documents.first[d + 1]):
                row = np.int64(documents.words[cell]) * width
                for _ in range(documents.counts[cell]):
                    old = topics[token]
                    k, _ = draw_topic(factor, rows, row, old, uniforms[token], running, order)
                    if k != old:
                        topics[token] = k
                        n_d[k] += _ONE
                        factor[k] = prior[k] + n_d[k]
                        if old >= 0:
                            n_d[old] -= _ONE
                            factor[old] = prior[old] + n_d[old]
                    token += 1
            if sweep >= burn_in:
                for k in range(n_topics):
                    share = (alpha[k] + n_d[k]) / (total_alpha + n_tokens)
                    out[d, k] += share / n_sweeps


def by_word(topics: Floats) -> Floats32:
    """Return topics, a row for each, as a row for each word, padded with zeros."""
    phi = np.zeros((topics.shape[1], padded(topics.shape[0])), dtype=np.float32)
    phi[:, : topics.shape[0]] = topics.T
    return phi
