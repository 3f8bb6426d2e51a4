"""Gibbs move: the topic of each token in turn, topics integrated out.

Topics have the prior phi[k] ~ Dir(beta, ..., beta) over V words. With them integrated out, the
topic z of a token of word w in document d has the conditional (Griffiths & Steyvers 2004)

    p(z = k | all others) ~ (a[k] + s * n_dk) * (n_wk + beta) / (n_k + V * beta),

where the counts leave out the token itself: n_dk of topic k in the document, n_wk of the word in
the topic, n_k of the topic. Two kinds of documents share this:

- s = 1 and a = a row of prior weights: proportions are Dir(a), and integrated out too (LDA);
- s = 0 and a = a row of proportions: the tokens of the document draw their topics from it.

Each document has its s, and a row of ``weights``, ``row_of[d]``: all have one in LDA, and in a tree
it is that of the document's node. Tokens are visited one after the other: this is for one thread.

With s = 0 a row may be a measure with infinitely many topics, of which one column, without any
tokens, stands for all those that no token has: its weight is a[rest] * beta / (V * beta), that of a
word under a topic drawn from the prior. A token that chooses it is the first of a new topic, which
the caller has to make room for before the next token can choose.

How it is fast. Counts are float32, exact up to 2**24, a row for each word, and (a + s n_dk) /
(n_k + V beta) is kept for the document at hand. The token's own topic is left out in a register
only, and nothing is written unless the topic changes: then the processor runs ahead into the next
token wherever it guesses that it does not. Weights are float32, so a probability is off by some
1e-7 of the total; sums have one fixed order (:mod:`treestick.lanes`).
"""

from typing import NamedTuple

import numpy as np

from treestick._jit import compiled
from treestick.lanes import (
    LANES,
    Floats32,
    add,
    draw_place,
    drawing_order,
    drawn_entry,
    fetch,
    fill,
    load,
    make_running,
    multiply,
    offsets,
    replaced,
    store,
)
from treestick.random import Key, Purpose
from treestick.tokens.documents import (
    PER_BLOCK,
    Documents,
    Floats,
    Integers,
    Numbers,
    fill_uniforms,
)


class TopicCounts(NamedTuple):
    """How many tokens there are, by topic. Widths are padded to whole vectors with zeros."""

    of_documents: Floats32
    """n_dk: a row for each document."""
    of_words: Floats32
    """n_wk: a row for each word."""
    of_topics: Floats
    """n_k."""


AHEAD = 2
"""So many tokens before its turn, the counts of a word are fetched from memory."""
_ONE = np.float32(1.0)
NOWHERE = -1
"""In place of a topic: there is none."""


@compiled
def move_tokens(
    key: Key,
    documents: Documents,
    weights: Floats32,
    row_of: Integers,
    s: Floats32,
    beta: float,
    topics: Numbers,
    counts: TopicCounts,
    first: int,
    last: int,
    rest: int,
    from_token: int,
) -> int:
    """Redraw the topic of each token of the documents from ``first`` to before ``last``.

    ``topics`` (of each token) and ``counts`` are overwritten. Return the token after the first that
    chose the topic ``rest`` (``NOWHERE`` for none), and stop there, to go on with ``from_token``;
    else the number of tokens.
    """
    of_words = counts.of_words.reshape(-1)
    width = counts.of_words.shape[1]
    prior, prior_total = np.float32(beta), np.float32(documents.n_words * beta)
    prior_vector = fill(prior)
    running, order = make_running(width), drawing_order(width)
    factor = np.empty(width, dtype=np.float32)
    n_longest = 0
    for d in range(first, last):
        n_longest = max(n_longest, documents.first_token[d + 1] - documents.first_token[d])
    uniforms = np.empty(n_longest + PER_BLOCK, dtype=np.float32)
    for d in range(first, last):
        share = s[d]
        a, n_d = weights[row_of[d]], counts.of_documents[d]
        for k in range(width):
            factor[k] = (a[k] + share * n_d[k]) / (np.float32(counts.of_topics[k]) + prior_total)
        start = documents.first_token[d]
        fill_uniforms(key, Purpose.TOKENS, d, documents.first_token[d + 1] - start, uniforms)
        for token in range(max(start, from_token), documents.first_token[d + 1]):
            row = np.int64(documents.token_words[token]) * width
            if token + AHEAD < documents.token_words.size:
                soon = np.int64(documents.token_words[token + AHEAD]) * width
                for block in range(0, width, LANES):
                    fetch(of_words, soon + block)
            old = np.int64(topics[token])
            of_old = np.float32(counts.of_topics[old] - 1.0) + prior_total
            without = (a[old] + share * (n_d[old] - _ONE)) / of_old
            without *= (of_words[row + old] - _ONE) + prior
            sums = fill(np.float32(0.0))
            for block in range(0, width, LANES):
                seen = add(load(of_words, row + block), prior_vector)
                weight = multiply(load(factor, block), seen)
                sums = add(sums, replaced(weight, old - block, without))
                store(running, block + LANES, sums)
            before, total = offsets(sums)
            place = draw_place(running, width, before, uniforms[token - start] * total)
            new = drawn_entry(running, order, place)
            if new != old:
                topics[token] = new
                of_words[row + old] -= _ONE
                of_words[row + new] += _ONE
                n_d[old] -= _ONE
                n_d[new] += _ONE
                counts.of_topics[old] -= 1.0
                counts.of_topics[new] += 1.0
                for moved in (old, new):
                    in_all = np.float32(counts.of_topics[moved]) + prior_total
                    factor[moved] = (a[moved] + share * n_d[moved]) / in_all
                if new == rest:
                    return token + 1
    return documents.token_words.size


@compiled
def count_topics(documents: Documents, topics: Numbers, width: int) -> TopicCounts:
    """Return the counts of these topics of all tokens; ``width`` is a whole number of vectors."""
    n_documents = documents.first.size - 1
    counts = TopicCounts(
        np.zeros((n_documents, width), dtype=np.float32),
        np.zeros((documents.n_words, width), dtype=np.float32),
        np.zeros(width),
    )
    for d in range(n_documents):
        for token in range(documents.first_token[d], documents.first_token[d + 1]):
            k = topics[token]
            counts.of_documents[d, k] += _ONE
            counts.of_words[documents.token_words[token], k] += _ONE
            counts.of_topics[k] += 1.0
    return counts


def copy_counts(counts: TopicCounts) -> TopicCounts:
    """Return counts that can be overwritten."""
    of_documents, of_words, of_topics = counts
    return TopicCounts(of_documents.copy(), of_words.copy(), of_topics.copy())


def mean_topics(counts: TopicCounts, n_topics: int, beta: float) -> Floats:
    """Return the mean of the topics given the tokens, (n_wk + beta) / (n_k + V beta), row k."""
    shapes = counts.of_words[:, :n_topics].T.astype(np.float64) + beta
    return np.asarray(shapes / shapes.sum(axis=1, keepdims=True))
