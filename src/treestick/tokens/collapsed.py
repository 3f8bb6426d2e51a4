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

How it is fast. Counts are float32, exact up to 2**24, a row for each word; a + s n_dk is kept for
the document at hand (:class:`Desk`), 1 / (n_k + V beta) for all of them (:class:`Topics`). The
token's own topic is left out in a register only, and nothing is written unless the topic changes:
then the processor runs ahead into the next token wherever it guesses that it does not. Weights are
float32, so a probability is off by some 1e-7 of the total; sums have one fixed order
(:mod:`treestick.lanes`). Where no topic can be new, :mod:`treestick.tokens.abreast` is faster.
"""

from typing import Any, NamedTuple

import numpy as np

from treestick._jit import compiled, inlined
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

Index = int | np.int64


class TopicCounts(NamedTuple):
    """How many tokens there are, by topic. Widths are padded to whole vectors with zeros."""

    of_documents: Floats32
    """n_dk: a row for each document."""
    of_words: Floats32
    """n_wk: a row for each word."""
    of_topics: Floats
    """n_k."""


class Topics(NamedTuple):
    """What tokens of all documents share while they are moved."""

    of_words: Floats32
    """n_wk, all rows in one."""
    of_topics: Floats
    """n_k."""
    inverse: Floats32
    """1 / (n_k + V beta)."""
    order: Integers
    """In which topics are drawn from."""
    beta: np.float32
    beta_of_all: np.float32
    """V beta."""


class Desk(NamedTuple):
    """A document at hand."""

    share: np.float32
    """s."""
    weights: Floats32
    """a."""
    n_d: Floats32
    """n_dk."""
    both: Floats32
    """a + s n_dk."""
    running: Floats32
    """Room for the sums of a draw."""
    uniforms: Floats32
    """A number for each token."""


class Drawn(NamedTuple):
    """A draw, and what it hung on."""

    place: int
    """Of the topic, in the order."""
    limit: np.float32
    """Where the draw fell: the topic is the first whose cumulative sum is beyond."""
    total: np.float32
    """Of all weights."""
    before: Any
    """What comes before each lane."""


AHEAD = 2
"""So many tokens before its turn, the counts of a word are fetched from memory."""
ONE = np.float32(1.0)
NOWHERE = -1
"""In place of a topic: there is none."""


@compiled
def prepare_topics(counts: TopicCounts, n_words: int, beta: float) -> Topics:
    """Return what tokens share. The counts are those of ``counts``, and change with them."""
    width = counts.of_words.shape[1]
    beta_of_all = np.float32(n_words * beta)
    inverse = np.empty(width, dtype=np.float32)
    for k in range(width):
        inverse[k] = ONE / (np.float32(counts.of_topics[k]) + beta_of_all)
    return Topics(
        counts.of_words.reshape(-1), counts.of_topics, inverse, drawing_order(width),
        np.float32(beta), beta_of_all,
    )  # fmt: skip


@compiled
def make_desk(counts: TopicCounts, weights: Floats32, n_longest: int) -> Desk:
    """Return room for one document after the other, none of them with more tokens."""
    width = counts.of_words.shape[1]
    return Desk(
        ONE, weights[0], counts.of_documents[0], np.empty(width, dtype=np.float32),
        make_running(width), np.empty(n_longest + PER_BLOCK, dtype=np.float32),
    )  # fmt: skip


@compiled
def lay_out(
    key: Key,
    desk: Desk,
    documents: Documents,
    d: int,
    weights: Floats32,
    share: np.float32,
    counts: TopicCounts,
) -> Desk:
    """Return the desk with document ``d`` on it; ``weights`` and ``share`` are those of it."""
    n_d = counts.of_documents[d]
    for k in range(n_d.size):
        desk.both[k] = weights[k] + share * n_d[k]
    n_tokens = documents.first_token[d + 1] - documents.first_token[d]
    fill_uniforms(key, Purpose.TOKENS, d, n_tokens, desk.uniforms)
    return Desk(share, weights, n_d, desk.both, desk.running, desk.uniforms)


@inlined
def weight_without(topics: Topics, desk: Desk, row: int, old: Index) -> np.float32:
    """Return the weight of a token's own topic; its word's counts begin at ``row``."""
    own = np.uint64(old)
    weight = desk.weights[own] + desk.share * (desk.n_d[own] - ONE)
    weight *= (topics.of_words[np.uint64(row + old)] - ONE) + topics.beta
    return weight / (np.float32(topics.of_topics[own] - 1.0) + topics.beta_of_all)


@inlined
def weigh(topics: Topics, desk: Desk, row: int, block: int) -> Any:
    """Return the weights of sixteen topics, the token itself counted."""
    seen = add(load(topics.of_words, row + block), fill(topics.beta))
    return multiply(multiply(load(desk.both, block), load(topics.inverse, block)), seen)


@inlined
def draw_topic(topics: Topics, desk: Desk, row: int, old: Index, u: np.float32) -> Drawn:
    """Draw the topic of a token that has ``old``; its word's counts begin at ``row``."""
    without, width = weight_without(topics, desk, row, old), topics.inverse.size
    sums = fill(np.float32(0.0))
    for block in range(0, width, LANES):
        sums = add(sums, replaced(weigh(topics, desk, row, block), old - block, without))
        store(desk.running, block + LANES, sums)
    before, total = offsets(sums)
    limit = u * total
    return Drawn(draw_place(desk.running, width, before, limit), limit, total, before)


@inlined
def change_topic(topics: Topics, desk: Desk, row: int, old: Index, new: Index) -> None:
    """Count a token with topic ``new`` where it had ``old``."""
    for k, by in ((np.uint64(old), -ONE), (np.uint64(new), ONE)):
        topics.of_words[np.uint64(row) + k] += by
        topics.of_topics[k] += by
        topics.inverse[k] = ONE / (np.float32(topics.of_topics[k]) + topics.beta_of_all)
        desk.n_d[k] += by
        desk.both[k] = desk.weights[k] + desk.share * desk.n_d[k]


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
    """Redraw the topic of each token of the documents from ``first`` to before ``last``, in turn.

    ``topics`` (of each token) and ``counts`` are overwritten. Return the token after the first that
    chose the topic ``rest`` (``NOWHERE`` for none), and stop there, to go on with ``from_token``;
    else the number of tokens.
    """
    shared, width = prepare_topics(counts, documents.n_words, beta), counts.of_words.shape[1]
    desk = make_desk(counts, weights, longest(documents, first, last))
    words = documents.token_words
    for d in range(first, last):
        start = documents.first_token[d]
        desk = lay_out(key, desk, documents, d, weights[row_of[d]], s[d], counts)
        for token in range(max(start, from_token), documents.first_token[d + 1]):
            row, old = np.int64(words[token]) * width, np.int64(topics[token])
            if token + AHEAD < words.size:
                soon = np.int64(words[token + AHEAD]) * width
                for block in range(0, width, LANES):
                    fetch(shared.of_words, soon + block)
            drawn = draw_topic(shared, desk, row, old, desk.uniforms[token - start])
            new = drawn_entry(desk.running, shared.order, drawn.place)
            if new != old:
                topics[token] = new
                change_topic(shared, desk, row, old, new)
                if new == rest:
                    return token + 1
    return words.size


@compiled
def longest(documents: Documents, first: int, last: int) -> int:
    """Return how many tokens the longest of some documents has."""
    n_longest = 0
    for d in range(first, last):
        n_longest = max(n_longest, documents.first_token[d + 1] - documents.first_token[d])
    return n_longest


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
            counts.of_documents[d, k] += ONE
            counts.of_words[documents.token_words[token], k] += ONE
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
