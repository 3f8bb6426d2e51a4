"""Samplers of tokens' topics: each move alone keeps the joint law, and planted errors are caught.

A replication starts from an exact joint draw by NumPy, applies a move several times with the words
redrawn in between, and is compared with fresh draws. Fewer than 200 comparisons of laws at
``ALARM`` each, with fixed seeds (see ``laws.py``).
"""

import functools
import itertools
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from scipy import sparse, special, stats

from joint import Sample, smallest
from laws import ALARM, p_mean
from planting import planted_function
from treestick.inputs import InvalidValue
from treestick.lanes import LANES, drawing_order, drawn_entry, make_running, padded
from treestick.random import make_key, open_stream
from treestick.tokens import abreast, cells, collapsed, gibbs, inference, priors
from treestick.tokens.documents import Documents, fill_uniforms, make_documents

Rng = np.random.Generator
Floats = npt.NDArray[np.float64]

LENGTHS = (5, 0, 3, 8)
N_TOPICS, N_WORDS = 3, 4
ALPHA, BETA = (0.1, 1.5), (0.05, 0.6)
N = 1000
"""Replications of a test, long ones aside."""


class World(NamedTuple):
    """Everything that the model draws; words and topics of each document's tokens."""

    alpha: Floats
    beta: float
    proportions: Floats
    phi: Floats
    topics: list[Any]
    words: list[Any]


def draw_world(rng: Rng, lengths: tuple[int, ...] = LENGTHS) -> World:
    alpha = rng.uniform(*ALPHA, size=N_TOPICS)
    proportions = rng.dirichlet(alpha, size=len(lengths))
    topics = [pick(rng, np.tile(p, (n, 1))) for p, n in zip(proportions, lengths, strict=True)]
    world = World(alpha, float(rng.uniform(*BETA)), proportions, np.empty(0), topics, [])
    return redraw_words(rng, world)


def redraw_words(rng: Rng, world: World) -> World:
    """Redraw topics' words, and words, given the topics of tokens."""
    phi = rng.dirichlet(np.full(N_WORDS, world.beta), size=N_TOPICS)
    return world._replace(phi=phi, words=[pick(rng, phi[z]) for z in world.topics])


def pick(rng: Rng, p: Floats) -> Any:
    """Draw an entry from each row of probabilities."""
    return (rng.random((len(p), 1)) > np.cumsum(p[:, :-1], axis=1)).sum(axis=1)


class Encoded(NamedTuple):
    """A world as the samplers have it."""

    documents: Documents
    topics: Any
    counts: collapsed.TopicCounts


def encode(world: World) -> Encoded:
    table = np.zeros((len(world.words), N_WORDS))
    by_word = []
    for d, (words, topics) in enumerate(zip(world.words, world.topics, strict=True)):
        np.add.at(table[d], words, 1)
        by_word.append(topics[np.argsort(words, kind="stable")])
    documents = make_documents(sparse.csr_array(table))
    topics = np.concatenate(by_word).astype(np.int32)
    return Encoded(documents, topics, collapsed.count_topics(documents, topics, LANES))


def with_topics(world: World, encoded: Encoded) -> World:
    """Return the world with the topics of tokens, in the order of cells, put back."""
    edges = encoded.documents.first_token[1:-1]
    return world._replace(
        topics=np.split(encoded.topics.astype(int), edges), words=[np.sort(w) for w in world.words]
    )


def summary(world: World) -> dict[str, float]:
    n = np.zeros((N_TOPICS, N_WORDS))
    m = np.zeros((len(world.topics), N_TOPICS))
    for d, (topics, words) in enumerate(zip(world.topics, world.words, strict=True)):
        np.add.at(n, (topics, words), 1)
        np.add.at(m, (d, topics), 1)
    first = np.bincount(world.words[-1], minlength=N_WORDS)
    cells_of_last = np.zeros((N_TOPICS, N_WORDS))
    np.add.at(cells_of_last, (world.topics[-1], world.words[-1]), 1)
    return {
        "topic": n[0].sum(),
        "cell": n[0, 0],
        "last_cell": n[-1, -1],
        "in_document": m[0, 0],
        "squares": (n**2).sum(),
        "squares_of_topics": (n.sum(axis=1) ** 2).sum(),
        "squares_of_documents": (m**2).sum(),
        "words_by_topics": (first**2).sum() * m[-1].max(),
        "squares_of_cells": (cells_of_last**2).sum(),
        "cells_by_topics": (cells_of_last**2).sum() * (m[-1] ** 2).sum() - (m[0] ** 2).sum(),
        "alpha": world.alpha[0],
        "alpha_last": world.alpha[-1],
        "beta": world.beta,
        "alpha_topic": world.alpha[0] * (m[:, 0] + 1).prod(),
        "alpha_others": world.alpha[1] * m[-1, 0],
        "alpha_squares": world.alpha.sum() * (m**2).sum(),
        "beta_squares": world.beta * (n**2).sum(),
        "beta_topics": world.beta * (n.sum(axis=1) ** 2).sum(),
        "phi_cell": world.phi[0, 0] * (n[0, 0] - 0.3),
        "phi_topic": world.phi[-1, 1] * (n[-1].sum() - 0.3),
        "phi_squares": (world.phi[1] ** 2).sum(),
        "share": world.proportions[0, 0] * (m[0, 0] - 0.3),
        "share_empty": world.proportions[1, 1] * world.alpha[1],
        "share_last": world.proportions[-1, -1] * (m[-1, 0] - 0.3),
    }


Move = Callable[[Rng, int, World], World]


def gathered(summaries: list[dict[str, float]]) -> Sample:
    return {name: np.array([s[name] for s in summaries]) for name in summaries[0]}


@functools.cache
def fresh(n: int, seed: int = 1) -> Sample:
    rng = np.random.default_rng(seed)
    return gathered([summary(draw_world(rng)) for _ in range(n)])


def moved(move: Move, n: int, seed: int = 2, n_times: int = 3) -> Sample:
    rng = np.random.default_rng(seed)
    summaries = []
    for replication in range(n):
        world = draw_world(rng)
        for time in range(n_times):
            if time > 0:
                world = redraw_words(rng, world)
            world = move(rng, replication * n_times + time, world)
        summaries.append(summary(world))
    return gathered(summaries)


def compared(
    move: Move, n: int, without: tuple[str, ...] = (), n_times: int = 3
) -> tuple[float, str]:
    """Return the smallest p-value; statistics of what the move has integrated out left out."""
    first = {k: v for k, v in fresh(n).items() if not (without and k.startswith(without))}
    return smallest(first, moved(move, n, n_times=n_times))


# -- the moves, one by one -------------------------------------------------------------------------

ONES = np.ones(len(LENGTHS), dtype=np.float32)
COLLAPSED = ("phi", "share")
"""What the collapsed move does not know of."""


def token_move(function: Any = abreast.move_tokens) -> Move:
    def move(rng: Rng, number: int, world: World) -> World:
        encoded = encode(world)
        weights, row_of = gibbs.as_weights(world.alpha), np.zeros(len(LENGTHS), dtype=np.int64)
        function(
            make_key(3, 0, number), encoded.documents, weights, row_of, ONES, world.beta,
            encoded.topics, encoded.counts,
        )  # fmt: skip
        return with_topics(world, encoded)

    return move


def given_move(function: Any = abreast.move_tokens) -> Move:
    """Tokens that draw their topics from given proportions, a row for two documents each."""

    def move(rng: Rng, number: int, world: World) -> World:
        encoded = encode(world)
        weights = np.zeros((len(LENGTHS), LANES), dtype=np.float32)
        weights[::-1, :N_TOPICS] = world.proportions
        row_of = np.arange(len(LENGTHS))[::-1].copy()
        function(
            make_key(3, 0, number), encoded.documents, weights, row_of, 0.0 * ONES, world.beta,
            encoded.topics, encoded.counts,
        )  # fmt: skip
        return with_topics(world, encoded)

    return move


def in_turn(function: Any = collapsed.move_tokens) -> Any:
    """Return the move of one document after the other, with the arguments of the other one."""

    def move(*arguments: Any) -> Any:
        documents = arguments[1]
        n_documents = documents.first.size - 1
        last = function(*arguments, 0, n_documents, collapsed.NOWHERE, 0)
        assert last == documents.token_words.size
        return last

    return move


def cell_move(function: Any = cells.move_cells, s: float = 1.0) -> Move:
    """All tokens given topics; s = 1 with proportions redrawn, s = 0 with given ones."""

    def move(rng: Rng, number: int, world: World) -> World:
        encoded = encode(world)
        if s == 1.0:
            weights, row_of = gibbs.as_weights(world.alpha), np.zeros(len(LENGTHS), dtype=np.int64)
        else:
            weights = np.zeros((len(LENGTHS), LANES), dtype=np.float32)
            weights[:, :N_TOPICS] = world.proportions
            row_of = np.arange(len(LENGTHS))
        # One document is a corpus here, so that the new topics of its words can be read off.
        topics, words = [], []
        for d in range(len(LENGTHS)):
            of_words = np.zeros((N_WORDS, LANES), dtype=np.float32)
            function(
                make_key(4, 0, number), encoded.documents, weights, row_of, N_TOPICS, s,
                inference.by_word(world.phi), encoded.counts.of_documents, of_words, gibbs.NONE,
                d, d + 1, 0,
            )  # fmt: skip
            found = of_words[:, :N_TOPICS].astype(int)
            pairs = [(w, k) for w, k in np.ndindex(*found.shape) for _ in range(found[w, k])]
            assert len(pairs) == LENGTHS[d]
            words.append(np.array([w for w, _ in pairs], dtype=int))
            topics.append(np.array([k for _, k in pairs], dtype=int))
            np.testing.assert_array_equal(
                encoded.counts.of_documents[d, :N_TOPICS], np.bincount(topics[-1], minlength=3)
            )
            np.testing.assert_array_equal(np.sort(world.words[d]), words[-1])
        return world._replace(topics=topics, words=words)

    return move


def topic_move(function: Any = cells.draw_gammas) -> Move:
    def move(rng: Rng, number: int, world: World) -> World:
        counts = encode(world).counts
        phi = np.zeros_like(counts.of_words)
        key = make_key(5, 0, number)
        sums = function(key, world.beta, counts.of_words, N_TOPICS, 0, phi)
        cells.normalise(sums, 0, phi)
        return world._replace(phi=phi[:, :N_TOPICS].T.astype(float))

    return move


def proportion_move(function: Any = cells.draw_proportions) -> Move:
    def move(rng: Rng, number: int, world: World) -> World:
        counts, a = encode(world).counts, gibbs.as_weights(world.alpha)[0]
        p = np.zeros((len(LENGTHS), LANES), dtype=np.float32)
        stream = open_stream(make_key(6, 0, number))
        for d in range(len(LENGTHS)):
            function(stream, a, counts.of_documents[d], N_TOPICS, p[d])
        return world._replace(proportions=p[:, :N_TOPICS].astype(float))

    return move


def document_prior_move(function: Any = priors.move_document_prior) -> Move:
    def move(rng: Rng, number: int, world: World) -> World:
        alpha = world.alpha.copy()
        function(make_key(7, 0, number), encode(world).counts, alpha, *ALPHA)
        return world._replace(alpha=alpha)

    return move


def word_prior_move(function: Any = priors.move_word_prior) -> Move:
    def move(rng: Rng, number: int, world: World) -> World:
        counts = encode(world).counts
        key = make_key(8, 0, number)
        return world._replace(beta=function(key, counts, N_TOPICS, world.beta, *BETA))

    return move


MOVES: dict[str, tuple[Move, tuple[str, ...], int]] = {
    "tokens": (token_move(), COLLAPSED, 3),
    "tokens, in turn": (token_move(in_turn()), COLLAPSED, 3),
    "tokens, proportions given": (given_move(), ("phi",), 3),
    "tokens, proportions given, in turn": (given_move(in_turn()), ("phi",), 3),
    "cells": (cell_move(), ("share",), 3),
    "cells, proportions given": (cell_move(s=0.0), (), 3),
    # What these draw is not used by the next application: once is enough.
    "topics": (topic_move(), (), 1),
    "proportions": (proportion_move(), (), 1),
    "document prior": (document_prior_move(), COLLAPSED, 3),
    "word prior": (word_prior_move(), COLLAPSED, 3),
}


@pytest.mark.parametrize("name", MOVES)
def test_move_keeps_the_joint_law(name: str) -> None:
    move, without, n_times = MOVES[name]
    p, which = compared(move, N, without, n_times)
    assert p > ALARM, f"{name}: {which} has p = {p:.1g}"


@pytest.mark.long
@pytest.mark.parametrize("name", MOVES)
def test_move_keeps_the_joint_law_closely(name: str) -> None:
    move, without, n_times = MOVES[name]
    p, which = compared(move, 10_000, without, n_times)
    assert p > ALARM, f"{name}: {which} has p = {p:.1g}"


class Bug(NamedTuple):
    """An error to be planted."""

    make: Callable[..., Move]
    module: str
    function: str
    correct: str
    wrong: str


PLANTED = {
    "topics are as large as if there were one word": Bug(
        lambda function: token_move(in_turn(function)), "collapsed", "move_tokens",
        "np.float32(n_words * beta)", "np.float32(beta)",
    ),
    "proportions are drawn from the prior": Bug(
        proportion_move, "cells", "draw_proportions",
        "logs[k] = log_gamma(stream, np.float64(a[k]) + np.float64(n_d[k]))",
        "logs[k] = log_gamma(stream, np.float64(a[k]))",
    ),
    "no Jacobian, words": Bug(
        word_prior_move, "priors", "move_word_prior",
        "return log_a + _log_risings(a, inner)", "return _log_risings(a, inner)",
    ),
    # From here on in the long tier.
    "tokens do not look at proportions": Bug(
        cell_move, "cells", "move_cells",
        "multiply(load(p, block), load(topics, row + block))", "load(topics, row + block)",
    ),
    "words without tokens have one": Bug(
        topic_move, "cells", "draw_gammas",
        "if log_factor < 0.0:", "if log_factor < -1e300:",
    ),
    "no Jacobian, documents": Bug(
        document_prior_move, "priors", "move_document_prior",
        "return log_a + _log_risings(a, inner)", "return _log_risings(a, inner)",
    ),
    "the other topics are forgotten": Bug(
        document_prior_move, "priors", "move_document_prior",
        "_log_risings(others + times * a, outer)", "_log_risings(times * a, outer)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [pytest.param(b, marks=[pytest.mark.long] * (k > 2)) for k, b in enumerate(PLANTED)],
)
def test_planted_errors_are_caught(name: str) -> None:
    bug = PLANTED[name]
    is_last = bug.make in (topic_move, proportion_move)
    without = () if is_last else ("share",) if bug.make is cell_move else COLLAPSED
    changed = planted_function(
        f"treestick.tokens.{bug.module}", bug.function, bug.correct, bug.wrong
    )
    p, _ = compared(bug.make(changed), N, without, 1 if is_last else 3)
    assert p < ALARM


# -- draws against float64 -------------------------------------------------------------------------


def make_counts(rng: Rng, n_documents: int, n_words: int, n_tokens: int) -> sparse.csr_array:
    p = rng.dirichlet(np.full(n_words, 0.3), size=n_documents)
    return sparse.csr_array(np.stack([rng.multinomial(n_tokens, row) for row in p]).astype(float))


def turns_abreast(first_token: Any) -> list[int]:
    """Return the tokens in the order in which two readers visit them: obvious code."""
    middle = max(edge for edge in first_token if edge <= first_token[-1] / 2)
    after = min(edge for edge in first_token if edge >= first_token[-1] / 2)
    if after + middle <= first_token[-1]:  # it is as near to the half, or nearer
        middle = after
    halves = list(range(middle)), list(range(middle, first_token[-1]))
    n = min(len(half) for half in halves)
    pairs = [token for pair in zip(*halves, strict=False) for token in pair]
    return [*pairs, *halves[0][n:], *halves[1][n:]]


EQUAL = (60,) * 12


def draws_as_in_float64(
    n_topics: int,
    function: Any = abreast.move_tokens,
    are_abreast: bool = True,
    lengths: Sequence[int] = EQUAL,
    are_alike: bool = False,
    are_mixed: bool = False,
) -> bool:
    """Compare with obvious code in float64: the same uniform numbers and order of topics.

    If documents are alike, two readers always have the same word: there are 300, equally common.
    If they are mixed, each second one has other weights, each third one s = 0.
    """
    rng = np.random.default_rng(n_topics)
    n, n_words, n_tokens = len(lengths), 300 if are_alike else 30, sum(lengths)
    if are_alike:
        table = np.outer(lengths, np.full(n_words, 1.0 / n_words))
    else:
        table = np.stack([rng.multinomial(k, rng.dirichlet(np.full(30, 0.3))) for k in lengths])
    documents = make_documents(sparse.csr_array(table.astype(float)))
    beta, width = 0.07, padded(n_topics)
    a = np.zeros((2, width), dtype=np.float32)
    a[:, :n_topics] = rng.uniform(0.05, 1.0, (2, n_topics))
    row_of = np.arange(n) % 2 if are_mixed else np.zeros(n, dtype=np.int64)
    s = (np.arange(n) % 3 > 0 if are_mixed else np.ones(n)).astype(np.float32)
    topics = gibbs.draw_first(make_key(0), n_tokens, n_topics, 0)
    counts = collapsed.count_topics(documents, topics, width)
    n_d, n_w, n_k = (np.asarray(c, dtype=float).copy() for c in counts)
    expected, order, key = topics.copy(), drawing_order(width)[:-1], make_key(9, 0, 1)
    uniforms = np.empty((n, max(lengths) + 12), dtype=np.float32)
    for d in range(n):
        fill_uniforms(key, 40, d, lengths[d], uniforms[d])  # type: ignore[arg-type]
    turns = turns_abreast(documents.first_token) if are_abreast else list(range(n_tokens))
    assert sorted(turns) == list(range(n_tokens))
    document_of = np.repeat(np.arange(n), lengths)
    for token in turns:
        d, w, k = document_of[token], documents.token_words[token], expected[token]
        for count in (n_d[d], n_w[w], n_k):
            count[k] -= 1
        weights = (a[row_of[d]].astype(float) + s[d] * n_d[d]) * (n_w[w] + beta)
        sums = np.cumsum((weights / (n_k + n_words * beta))[order])
        u = np.float64(uniforms[d, token - documents.first_token[d]])
        k = order[np.count_nonzero(sums <= u * sums[-1])]
        expected[token] = k
        for count in (n_d[d], n_w[w], n_k):
            count[k] += 1
    before = topics.copy()
    function(key, documents, a, row_of, s, beta, topics, counts)
    if not 0 < np.count_nonzero(topics != before) < n_tokens:
        return False
    pairs: list[Any] = list(zip([topics, *counts], [expected, n_d, n_w, n_k], strict=True))
    return all(np.array_equal(found, wanted) for found, wanted in pairs)


UNEVEN = {
    "one": [40],
    "long first": [200, 0, 30, 1],
    "long last": [0, 1, 30, 200, 0],
    "long in the middle": [5, 0, 0, 150, 7, 3, 2],
    "many": [9, 31, 0, 4, 77, 12, 0, 60, 1, 18, 25],
}


@pytest.mark.parametrize("lengths", UNEVEN.values(), ids=UNEVEN.keys())
def test_tokens_of_uneven_documents_are_drawn_as_in_float64(lengths: list[int]) -> None:
    assert draws_as_in_float64(5, lengths=lengths)
    assert draws_as_in_float64(5, lengths=lengths, are_mixed=True)
    assert draws_as_in_float64(5, in_turn(), are_abreast=False, lengths=lengths, are_mixed=True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("correct", "wrong"),
    [
        ("((d_1, middle, token_1), (d_2, n_documents, token_2))", "((d_1, middle, token_1),)"),
        ("((d_1, middle, token_1), (d_2, n_documents, token_2))", "((d_2, n_documents, token_2),)"),
        ("max(d - 1, 0), last, NOWHERE", "d, last, NOWHERE"),
        ("            token,\n", "            0,\n"),
    ],
)
def test_what_is_left_is_missed(correct: str, wrong: str) -> None:
    function = planted_function("treestick.tokens.abreast", "move_tokens", correct, wrong)
    assert not all(draws_as_in_float64(5, function, lengths=each) for each in UNEVEN.values())


@pytest.mark.parametrize("n_topics", [5, 40])
def test_tokens_are_drawn_as_in_float64(n_topics: int) -> None:
    assert draws_as_in_float64(n_topics)
    assert draws_as_in_float64(n_topics, in_turn(), are_abreast=False)


@pytest.mark.parametrize(("n_topics", "n_each"), [(5, 600), (40, 600), (200, 100)])
def test_tokens_of_long_documents_are_drawn_as_in_float64(n_topics: int, n_each: int) -> None:
    assert draws_as_in_float64(n_topics, lengths=(n_each,) * 12)
    assert draws_as_in_float64(n_topics, lengths=(600,) * 12, are_alike=True)


def test_documents_of_any_length_are_moved() -> None:
    """One alone, empty ones at either end, one as long as all others together."""
    for lengths in ([7], [0, 7], [7, 0], [0, 0, 3, 0, 20, 0], [20, 1, 1, 1], [1, 1, 20]):
        counts = np.zeros((len(lengths), 6))
        counts[:, 2], counts[:, 4] = (
            np.array(lengths) // 2,
            np.array(lengths) - np.array(lengths) // 2,
        )
        documents = make_documents(sparse.csr_array(counts))
        topics = gibbs.draw_first(make_key(0), sum(lengths), 3, 0)
        found, before = collapsed.count_topics(documents, topics, LANES), topics.copy()
        n = len(lengths)
        for sweep in range(20):
            abreast.move_tokens(
                make_key(1, 0, sweep), documents, gibbs.as_weights(np.full(3, 5.0)),
                np.zeros(n, dtype=np.int64), np.ones(n, dtype=np.float32), 1.0, topics, found,
            )  # fmt: skip
        wanted = collapsed.count_topics(documents, topics, LANES)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)
        assert np.count_nonzero(topics != before) > 0


def largest_shift(rng: Rng, n_topics: int, factor: Any) -> float:
    """Return by how much more than they may cumulative sums move against the draw, at the most.

    That is, beside ``reach``; of a token in another document, after one change of a topic.
    """
    n_k = rng.integers(1, rng.choice([3, 30, 3000]), n_topics).astype(float)
    beta_of_all, a = rng.choice([1e-3, 0.3, 20.0]), rng.gamma(0.3, size=n_topics)
    own = rng.integers(n_topics)
    n_k[own] += 1.0  # the token itself

    def sums() -> Any:
        without = n_k - (np.arange(n_topics) == own)
        return np.cumsum(a / (without + beta_of_all))

    before = sums()
    old, new = rng.choice(n_topics, 2, replace=False)
    n_k[old] -= 1.0
    if n_k[old] < (own == old):
        return -np.inf  # there was no such token
    n_k[new] += 1.0
    after = sums()
    inverse = (1.0 / (n_k + beta_of_all)).astype(np.float32)
    nothing = np.empty(0, dtype=np.float32)
    topics = collapsed.Topics(
        nothing, n_k, inverse, np.empty(0, np.int64), np.float32(0), np.float32(beta_of_all)
    )
    allowed = float(factor(topics, old, new)) * before[-1]
    if allowed >= before[-1]:
        return -np.inf  # all are drawn again
    u = rng.uniform(size=(50, 1))
    return float(np.abs((after - u * after[-1]) - (before - u * before[-1])).max() - allowed)


def test_no_draw_can_change_that_is_not_made_again() -> None:
    rng = np.random.default_rng(0)
    shifts = [largest_shift(rng, int(rng.choice([2, 3, 10])), abreast.reach) for _ in range(5000)]
    assert np.isfinite(shifts).sum() > 2000
    assert max(shifts) <= 0.0
    # Such errors are seen: a fifth of it is too little, and one of the two topics alone.
    for wrong in (
        lambda topics, old, new: 0.2 * abreast.reach(topics, old, new),
        lambda topics, old, new: 1.5 * topics.inverse[new],
        lambda topics, old, new: 1.5 * topics.inverse[old],
    ):
        rng = np.random.default_rng(0)
        assert max(largest_shift(rng, 3, wrong) for _ in range(5000)) > 0.0


def test_few_draws_are_made_again() -> None:
    """Where topics have many tokens: so tests of the draws are of those made at once."""
    documents = make_documents(make_counts(np.random.default_rng(0), 12, 2000, 3000))
    topics = gibbs.draw_first(make_key(0), 36_000, 5, 0)
    counts = collapsed.count_topics(documents, topics, LANES)
    n_again = abreast.move_tokens(
        make_key(1), documents, gibbs.as_weights(np.full(5, 0.5)), np.zeros(12, dtype=np.int64),
        np.ones(12, dtype=np.float32), 0.1, topics, counts,
    )  # fmt: skip
    assert 10 < n_again < 1_000


@pytest.mark.parametrize(
    ("correct", "wrong"),
    [
        # Errors that make a token slow to move more than wrong, which laws hardly show: what is
        # left in of its own weight is almost the same for all topics.
        (
            "weight = desk.weights[own] + desk.share * (desk.n_d[own] - ONE)",
            "weight = desk.weights[own] + desk.share * desk.n_d[own]",
        ),
        pytest.param(
            "weight *= (topics.of_words[np.uint64(row + old)] - ONE) + topics.beta",
            "weight *= topics.of_words[np.uint64(row + old)] + topics.beta",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "topics.inverse[k] = ONE / (np.float32(topics.of_topics[k]) + topics.beta_of_all)",
            "pass",
            marks=pytest.mark.long,
        ),
    ],
)
def test_planted_errors_in_counting_are_caught(correct: str, wrong: str) -> None:
    function = planted_function("treestick.tokens.collapsed", "move_tokens", correct, wrong)
    assert not draws_as_in_float64(5, in_turn(function), are_abreast=False)


@pytest.mark.parametrize(
    ("correct", "wrong", "are_alike"),
    [
        ("far <= margin * drawn_2.total or row_1 == row_2", "row_1 == row_2", False),
        pytest.param(
            "far <= margin * drawn_2.total or row_1 == row_2",
            "far <= margin * drawn_2.total",
            True,
            marks=pytest.mark.long,
        ),
        pytest.param("if drawn.place == 0:", "if True:", False, marks=pytest.mark.long),
    ],
)
def test_draws_that_should_be_made_again_are_noticed(
    correct: str, wrong: str, are_alike: bool
) -> None:
    function = planted_function("treestick.tokens.abreast", "move_tokens", correct, wrong)
    assert not draws_as_in_float64(5, function, lengths=(600,) * 12, are_alike=are_alike)


def test_weights_of_zero_are_never_drawn() -> None:
    running, order = make_running(32), drawing_order(32)
    assert sorted(order.tolist()) == list(range(33))
    # Lane 5 has weight in its second block only: entry 21.
    running[LANES + 16 + 5] = 1.0
    assert {drawn_entry(running, order, place) for place in range(33)} == {21}
    running[LANES + 16 + 5] = 0.0
    with pytest.raises(ValueError, match="all weights"):
        drawn_entry(running, order, 3)


@pytest.mark.parametrize("shape", [0.05, 0.9, 1.0, 4.5, 700.0])
def test_gamma_variates_have_their_law(shape: float) -> None:
    stream = open_stream(make_key(1))
    parts = np.array([cells.gamma_parts(stream, shape) for _ in range(20_000)])
    drawn = parts[:, 0] * np.exp(parts[:, 1])
    assert stats.kstest(drawn, stats.gamma(shape).cdf).pvalue > ALARM


def test_topics_without_tokens() -> None:
    """Where all gamma variates vanish, a topic is still one, and all mass is at one word."""
    counts = collapsed.TopicCounts(np.zeros((1, 16), np.float32), np.zeros((4, 16), np.float32),
                                   np.zeros(16))  # fmt: skip
    counts.of_words[0, 0] = 5.0
    found = np.stack([gibbs.draw_topics(make_key(s), counts, 2, 1e-5) for s in range(2000)])
    np.testing.assert_allclose(found[:, :, :2].sum(axis=1), 1.0, rtol=1e-6)
    assert np.all(found[:, 0, 0] > 0.999)
    assert p_mean(found[:, 2, 1], 0.25) > ALARM


# -- the two samplers agree ------------------------------------------------------------------------


def run_both(n_sweeps: int, seed: int, n_documents: int = 3) -> dict[str, npt.NDArray[np.float64]]:
    """Return log joint and priors after each sweep, for both samplers."""
    rng = np.random.default_rng(seed)
    documents = make_documents(make_counts(rng, n_documents, 4, 6))
    start = gibbs.Concentrations(np.full(2, 0.7), 0.2, 2.0, 0.5, 0.1, 1.5)
    traces = {}
    for number, mode in enumerate(gibbs.MODES):
        chain = gibbs.run_gibbs(seed, number, documents, start, mode)
        states = itertools.islice(chain, n_sweeps)
        traces[mode] = np.array(
            [
                (priors.log_joint(s.counts, s.concentrations.alpha, s.concentrations.beta),
                 s.concentrations.alpha[0], s.concentrations.beta, s.counts.of_topics.max())
                for s in states
            ]
        )  # fmt: skip
    return traces


def test_both_samplers_have_the_same_law() -> None:
    """Means of long chains, thinned until draws are as good as independent: 4 comparisons."""
    traces = run_both(12_000, 11)
    one, other = (traces[mode][500::40] for mode in gibbs.MODES)
    for k in range(one.shape[1]):
        assert stats.ks_2samp(one[:, k], other[:, k]).pvalue > ALARM


def test_log_joint_against_enumeration() -> None:
    """Summed over all topics of all tokens, it is the marginal likelihood of the words."""
    counts = sparse.csr_array(np.array([[2.0, 1.0], [0.0, 1.0]]))
    documents = make_documents(counts)
    alpha, beta = np.array([0.4, 1.1]), 0.3
    found = []
    for topics in itertools.product(range(2), repeat=4):
        tables = collapsed.count_topics(documents, np.array(topics, dtype=np.int32), 16)
        found.append(priors.log_joint(tables, alpha, beta))
    # By integration over proportions and topics: a sequence of words w, w, v | v.
    rng = np.random.default_rng(0)
    p, phi = rng.dirichlet(alpha, (200_000, 2)), rng.dirichlet([beta, beta], (200_000, 2))
    mixed = np.einsum("sdk,skw->sdw", p, phi)
    exact = mixed[:, 0, 0] ** 2 * mixed[:, 0, 1] * mixed[:, 1, 1]
    assert p_mean(exact, math.exp(special.logsumexp(found))) > ALARM


# -- threads, and no compiler ----------------------------------------------------------------------


def test_threads_change_nothing() -> None:
    rng = np.random.default_rng(3)
    documents = make_documents(make_counts(rng, 40, 2500, 80))
    start = gibbs.Concentrations(np.full(20, 0.3), 0.01, 2.0, 0.1, 0.01, 1.0)
    one = gibbs.run_gibbs(5, 0, documents, start, "instantiated")
    with ThreadPoolExecutor(3) as pool:
        other = gibbs.run_gibbs(5, 0, documents, start, "instantiated", pool.map, 7)
        for _ in range(3):
            first, second = next(one), next(other)
            for a, b in zip(first.counts, second.counts, strict=True):
                np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(first.concentrations.alpha, second.concentrations.alpha)
            assert first.concentrations.beta == second.concentrations.beta


SCRIPT = """
import numpy as np
from scipy import sparse
from treestick.tokens import gibbs
from treestick.tokens.documents import make_documents
rng = np.random.default_rng(0)
documents = make_documents(sparse.csr_array(rng.poisson(0.5, (5, 12)).astype(float)))
start = gibbs.Concentrations(np.full(18, 0.3), 0.3, 0.3, 0.1, 0.1, 0.1)
for mode in gibbs.MODES:
    chain = gibbs.run_gibbs(5, 0, documents, start, mode)
    for _ in range(2):
        state = next(chain)
    print(state.counts.of_words.astype(int).tolist())
"""


def test_uncompiled_code_draws_the_same() -> None:
    outputs = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", SCRIPT],
            env=os.environ | {"NUMBA_DISABLE_JIT": value},
            check=True, capture_output=True, text=True,
        ).stdout
        for value in ("0", "1")
    ]  # fmt: skip
    assert outputs[0] == outputs[1] != ""


# -- new documents ---------------------------------------------------------------------------------


def exact_posterior(alpha: Floats, phi: Floats, words: list[int]) -> tuple[Floats, float]:
    """Return mean proportions and probability of a document, over all topics of its tokens."""
    total, mean = 0.0, np.zeros(alpha.size)
    for topics in itertools.product(range(alpha.size), repeat=len(words)):
        n = np.bincount(topics, minlength=alpha.size)
        weight = special.poch(alpha, n).prod() / special.poch(alpha.sum(), n.sum())
        weight *= np.prod([phi[k, w] for k, w in zip(topics, words, strict=True)])
        total += weight
        mean += weight * (alpha + n) / (alpha.sum() + n.sum())
    return mean / total, total


def test_new_documents_against_enumeration() -> None:
    rng = np.random.default_rng(8)
    alpha, phi = np.array([0.3, 0.8, 0.5]), rng.dirichlet(np.full(4, 0.4), size=3)
    words = [0, 0, 1, 3, 3, 3]
    counts = sparse.csr_array(np.array([[2.0, 1, 0, 3], [0, 0, 0, 0]]))
    mean, probability = exact_posterior(alpha, phi, words)
    documents, rows = make_documents(counts), inference.by_word(phi)
    means, logs = np.empty((40, 3)), np.empty(4000)
    out, log_p = np.empty((2, 3)), np.empty(2)
    for s in range(40):
        inference.infer_proportions(make_key(s), documents, alpha, rows, 20, 2000, 0, 2, out)
        means[s] = out[0]
        np.testing.assert_allclose(out[1], alpha / alpha.sum())
    for s in range(4000):
        inference.log_probabilities(make_key(s), documents, alpha, rows, 0, 2, log_p)
        logs[s] = log_p[0]
    assert log_p[1] == 0.0
    assert p_mean(np.exp(logs), probability) > ALARM
    for k in range(3):
        assert p_mean(means[:, k], mean[k]) > ALARM


def test_too_many_tokens_are_refused() -> None:
    with pytest.raises(InvalidValue, match=r"row 1 has .* tokens"):
        make_documents(sparse.csr_array(np.array([[1.0], [2.0**25]])))
    with pytest.raises(InvalidValue, match=r"column 1 has .* tokens"):
        make_documents(sparse.csr_array(np.array([[0.0, 2.0**24], [0.0, 1.0]])))
