"""Gibbs moves: topics, then the topics of all tokens at once, cell by cell.

Given the topics of the tokens, topics and proportions of documents are independent Dirichlets::

    phi[k] | z ~ Dir(n_1k + beta, ..., n_Vk + beta),      p[d] | z ~ Dir(a + n_d)

and given these, so are the tokens: of the n tokens of word w in document d, a cell, each has

    p(z = k) ~ p[d, k] * phi[k, w].

So documents can be shared out to any number of threads. Cells have one sum for all their tokens,
which makes a sweep cheap; but topics and proportions hold the tokens back, so it moves less far
than one of :mod:`treestick.tokens.collapsed`. As there, ``s = 0`` stands for documents that draw
their tokens' topics from a row of proportions ``a`` directly.

Weights are float32. A probability below ``NEGLIGIBLE`` counts as 0, so that no product is too small
for that; what a token's present topic has is never among these (it would take a gamma variate of
shape 1 or more below 1e-9 or so).
"""

import math

import numpy as np

from treestick._jit import compiled
from treestick.lanes import (
    LANES,
    Floats32,
    add,
    draw_place,
    drawing_order,
    drawn_entry,
    fill,
    load,
    make_running,
    multiply,
    offsets,
    store,
)
from treestick.random import (
    Key,
    Purpose,
    Stream,
    key_for,
    log_gamma,
    normal,
    open_stream,
    reopen,
    uniform_open,
)
from treestick.tokens.documents import (
    PER_BLOCK,
    Documents,
    Floats,
    Integers,
    Numbers,
    fill_uniforms,
)

NEGLIGIBLE = 1e-18
VANISHES = 1e-18
"""Sums of variates below this are too small for what float32 can hold of their terms."""
WORDS_AT_ONCE = 1024
"""Words whose gamma variates are summed before the sums are: part of what a seed means."""

_ONE = np.float32(1.0)


@compiled
def gamma_parts(stream: Stream, shape: float) -> tuple[float, float]:
    """Return x and y such that x * exp(y) is a Gamma(shape, 1) variate; shape is above 0.

    The method of :func:`treestick.random.log_gamma`, with the squeeze of Marsaglia & Tsang (2000):
    u < 1 - 0.0331 x**4 implies their test, which then needs no logarithms. Most shapes here are
    below 1, and need just one.
    """
    boost = 0.0
    if shape < 1.0:
        boost = math.log(uniform_open(stream)) / shape
        shape += 1.0
    scale = shape - 1.0 / 3.0
    slope = 1.0 / math.sqrt(9.0 * scale)
    while True:
        x = normal(stream)
        u = uniform_open(stream)
        root = 1.0 + slope * x
        if root <= 0.0:
            continue
        cube, square = root * root * root, x * x
        if u < 1.0 - 0.0331 * square * square:
            return scale * cube, boost
        if math.log(u) < 0.5 * square + scale * (1.0 - cube + math.log(cube)):
            return scale * cube, boost


@compiled
def draw_gammas(
    key: Key, beta: float, of_words: Floats32, n_topics: int, first: int, phi: Floats32
) -> Floats:
    """Write gamma variates of the shapes n_wk + beta for ``WORDS_AT_ONCE`` words from ``first`` on.

    Divided by their sums over all words, they are topics drawn from the conditional. Return the
    sums over these words, whatever they were rounded to.
    """
    sums = np.zeros(n_topics)
    stream = open_stream(key)
    for w in range(first, min(first + WORDS_AT_ONCE, of_words.shape[0])):
        reopen(stream, key_for(key, Purpose.TOPICS, w))
        for k in range(n_topics):
            value, log_factor = gamma_parts(stream, beta + np.float64(of_words[w, k]))
            if log_factor < 0.0:
                value *= math.exp(log_factor)
            sums[k] += value
            phi[w, k] = value
    return sums


@compiled
def normalise(sums: Floats, first: int, phi: Floats32) -> None:
    """Divide the variates of ``WORDS_AT_ONCE`` words by the sums."""
    for w in range(first, min(first + WORDS_AT_ONCE, phi.shape[0])):
        for k in range(sums.size):
            value = np.float64(phi[w, k]) / sums[k]
            phi[w, k] = value if value > NEGLIGIBLE else 0.0


@compiled
def settle_in_logarithms(
    key: Key, beta: float, of_words: Floats32, topic: int, phi: Floats32
) -> None:
    """Write one topic from its variates, the same ones, where all of them vanish.

    That is when all its tokens are gone and V * beta is small.
    """
    logs, stream = np.empty(of_words.shape[0]), open_stream(key)
    largest, total = -math.inf, 0.0
    for w in range(logs.size):
        reopen(stream, key_for(key, Purpose.TOPICS, w))
        for k in range(topic + 1):
            value, log_factor = gamma_parts(stream, beta + np.float64(of_words[w, k]))
        logs[w] = math.log(value) + log_factor
        largest = max(largest, logs[w])
    for w in range(logs.size):
        total += math.exp(logs[w] - largest)
    for w in range(logs.size):
        value = math.exp(logs[w] - largest) / total
        phi[w, topic] = value if value > NEGLIGIBLE else 0.0


@compiled
def draw_proportions(
    stream: Stream, a: Floats32, n_d: Floats32, n_topics: int, p: Floats32
) -> None:
    """Write a draw from Dir(a + n_d) into ``p``, whose padding is left alone."""
    logs = np.empty(n_topics)
    largest, total = -math.inf, 0.0
    for k in range(n_topics):
        logs[k] = log_gamma(stream, np.float64(a[k]) + np.float64(n_d[k]))
        largest = max(largest, logs[k])
    for k in range(n_topics):
        total += math.exp(logs[k] - largest)
    for k in range(n_topics):
        value = math.exp(logs[k] - largest) / total
        p[k] = value if value > NEGLIGIBLE else 0.0


@compiled
def move_cells(
    key: Key,
    documents: Documents,
    weights: Floats32,
    row_of: Integers,
    n_topics: int,
    s: float,
    phi: Floats32,
    of_documents: Floats32,
    of_words: Floats32,
    topics_of_tokens: Numbers,
    first: int,
    last: int,
    n_before: int,
) -> None:
    """Redraw proportions (if s = 1) and tokens of the documents from ``first`` to before ``last``.

    Their rows of ``of_documents`` are overwritten, and the topics of their tokens unless that array
    is empty. The new topics are *added* to ``of_words``, so that threads can count into arrays of
    their own. ``n_before`` is the number of documents that are elsewhere, before these.
    """
    width = of_words.shape[1]
    rows, topics = of_words.reshape(-1), phi.reshape(-1)
    running, order = make_running(width), drawing_order(width)
    p = np.zeros(width, dtype=np.float32)
    n_longest = 0
    for d in range(first, last):
        n_longest = max(n_longest, documents.first_token[d + 1] - documents.first_token[d])
    uniforms = np.empty(n_longest + PER_BLOCK, dtype=np.float32)
    stream = open_stream(key)
    for d in range(first, last):
        a, n_d = weights[row_of[d]], of_documents[d]
        if s == 1.0:
            reopen(stream, key_for(key, Purpose.PROPORTIONS, n_before + d))
            draw_proportions(stream, a, n_d, n_topics, p)
        else:
            p[:] = a
        n_d[:] = 0.0
        n_tokens = documents.first_token[d + 1] - documents.first_token[d]
        fill_uniforms(key, Purpose.TOKENS, n_before + d, n_tokens, uniforms)
        token = 0
        for cell in range(documents.first[d], documents.first[d + 1]):
            row = np.int64(documents.words[cell]) * width
            sums = fill(np.float32(0.0))
            for block in range(0, width, LANES):
                sums = add(sums, multiply(load(p, block), load(topics, row + block)))
                store(running, block + LANES, sums)
            before, total = offsets(sums)
            for _ in range(documents.counts[cell]):
                place = draw_place(running, width, before, uniforms[token] * total)
                k = drawn_entry(running, order, place)
                n_d[k] += _ONE
                rows[row + k] += _ONE
                if topics_of_tokens.size > 0:
                    topics_of_tokens[documents.first_token[d] + token] = k
                token += 1
