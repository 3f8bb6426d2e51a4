"""Moves of trees of documents, where the documents are elsewhere, in shards.

A shard has, of each of its documents, how many tokens have each topic: given the topics themselves
and the nodes' probabilities, documents are independent, and nothing else is needed of the tokens
(the mode ``instantiated``). Here are the counts of topics by word, from which topics are drawn;
they are sums of whole numbers, so it does not matter who adds them up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treestick.lanes import Floats32, padded
from treestick.moves.candidates import Choices
from treestick.moves.new_topics import weights_of
from treestick.moves.shards import Group, Shard, Shards, draw_seen
from treestick.moves.state import Integers, State
from treestick.moves.topics import MOST_PREPARED, WITH_NODES, TopicMoves
from treestick.random import Key, make_key
from treestick.tokens import collapsed, gibbs, priors
from treestick.tokens.cells import move_cells
from treestick.tokens.collapsed import TopicCounts
from treestick.tokens.documents import Documents, Floats
from treestick.tokens.latent import ALPHA, FOR_START, TokenTopics, as_rows, count_by_document
from treestick.tokens.mixed import Mixed
from treestick.tokens.priors import Lengths

Histogram = tuple[Integers, Integers]
"""Numbers above 0, ascending, and how often there is each."""


def first_topics(
    seed: int,
    chain: int,
    shards: Shards,
    n_topics: int,
    beta: tuple[float, float, float],
    n_sweeps: int,
    after_sweep: Callable[[int, TokenTopics], None] = lambda *_: None,
) -> TokenTopics:
    """Do what :func:`treestick.tokens.latent.first_topics` does, in the mode ``instantiated``.

    ``after_sweep`` gets the number of a sweep, and the topics after it.
    """
    own_chain = chain + (FOR_START << 32) if n_sweeps > 0 else chain
    counts = _draw_first(make_key(seed, own_chain), shards, n_topics)
    alpha, latent = np.full(n_topics, 1.0), TokenTopics(gibbs.NONE, counts, n_topics, *beta)
    for sweep in range(1, n_sweeps + 1):
        key = make_key(seed, own_chain, sweep)
        phi = gibbs.draw_topics(key, latent.counts, n_topics, latent.beta)
        counts = _move_cells(key, shards, gibbs.as_weights(alpha), n_topics, 1.0, phi)
        _move_document_prior(key, shards, alpha)
        now = priors.move_word_prior(key, counts, n_topics, latent.beta, *beta[1:])
        latent = latent._replace(counts=counts, beta=now)
        after_sweep(sweep, latent)
    shards.order(see_topics, n_topics)
    return latent


def move_documents(
    key: Key, state: State, shards: Shards, most: int, least_mass: float
) -> tuple[State, int]:
    """Do what :func:`treestick.moves.topics.move_documents` does."""
    latent: TokenTopics = state.latent
    n_topics = latent.n_topics
    own_key = key._replace(chain=key.chain | WITH_NODES)
    phi = gibbs.draw_topics(own_key, latent.counts, n_topics, latent.beta)
    mixed = Mixed(state.model, np.ascontiguousarray(phi[:, :n_topics].T, dtype=np.float64))
    most = min(most, max(MOST_PREPARED // phi.shape[0], 64))
    moved, n_candidates = shards.draw_by(
        draw_by_words, key, state._replace(model=mixed), most, least_mass
    )
    counts = _move_cells(own_key, shards, weights_of(moved.theta, n_topics), n_topics, 0.0, phi)
    shards.order(see_topics, n_topics)
    latent = latent._replace(topics=gibbs.NONE, counts=counts)
    return moved._replace(model=state.model, latent=latent), n_candidates


def move_tokens(keys: Sequence[Key], state: State, shards: Shards, moves: TopicMoves) -> State:
    """Do what :func:`treestick.moves.topics.move_tokens` does, in the mode ``instantiated``.

    Once with each key: nodes need to see the topics after the last time only.
    """
    if moves.sums_out:
        return state  # this is what move_documents has just done
    latent: TokenTopics = state.latent
    n_topics, counts = latent.n_topics, latent.counts
    weights = weights_of(state.theta, n_topics)
    for key in keys:
        phi = gibbs.draw_topics(key, counts, n_topics, latent.beta)
        counts = _move_cells(key, shards, weights, n_topics, 0.0, phi)
    shards.order(see_topics, n_topics)
    return state._replace(latent=latent._replace(topics=gibbs.NONE, counts=counts))


def _draw_first(key: Key, shards: Shards, n_topics: int) -> TopicCounts:
    n_tokens = shards.ask(count_tokens)
    before = [int(n) for n in np.cumsum([0, *n_tokens[:-1]])]
    return _add(shards.ask(draw_first, key, n_topics, own=before))


def _move_cells(
    key: Key, shards: Shards, weights: Floats32, n_topics: int, s: float, phi: Floats32
) -> TopicCounts:
    return _add(shards.ask(move_all_cells, key, weights, n_topics, s, phi))


def _add(answers: Sequence[Floats32 | None]) -> TopicCounts:
    """Return the counts of topics by word, of all groups; those by document stay where they are."""
    parts = [part for part in answers if part is not None]
    of_words = parts[0].copy()
    for part in parts[1:]:
        of_words += part
    nothing = np.empty((0, of_words.shape[1]), dtype=np.float32)
    return TopicCounts(nothing, of_words, of_words.sum(axis=0, dtype=np.float64))


def _move_document_prior(key: Key, shards: Shards, alpha: Floats) -> None:
    """Overwrite alpha, topic by topic."""
    answers = shards.ask(count_lengths, alpha.size)
    outer = _join([totals for totals, _ in answers])
    for k in range(alpha.size):
        inner = _join([by_topic[k] for _, by_topic in answers])
        priors.move_one_topic(key, k, inner, outer, alpha, *ALPHA)


def _join(histograms: Sequence[Histogram]) -> Lengths:
    numbers, place = np.unique(np.concatenate([n for n, _ in histograms]), return_inverse=True)
    times = np.bincount(
        place, np.concatenate([times for _, times in histograms]), minlength=numbers.size
    )
    return Lengths(numbers.astype(np.float64), times.astype(np.float64))


# -- questions -------------------------------------------------------------------------------------


def count_tokens(group: Group, n_data: int) -> list[int]:
    """Return the number of tokens of each shard."""
    return [int(shard.rows().first_token[-1]) for shard in group]


def draw_first(
    group: Group, n_data: int, key: Key, n_topics: int, own: Sequence[int]
) -> list[Floats32 | None]:
    """Draw topics uniformly; ``own`` is how many tokens there are before. Return them by word."""
    of_words: Any = None
    for shard, before in zip(group, own, strict=True):
        documents: Documents = shard.rows()
        topics = gibbs.draw_first(key, int(documents.first_token[-1]), n_topics, before)
        counts = collapsed.count_topics(documents, topics, padded(n_topics))
        shard.latent["numbers"] = counts.of_documents
        of_words = counts.of_words if of_words is None else of_words + counts.of_words
    return [of_words, *[None] * (len(group) - 1)]


def move_all_cells(
    group: Group, n_data: int, key: Key, weights: Floats32, n_topics: int, s: float, phi: Floats32
) -> list[Floats32 | None]:
    """Redraw all tokens given topics, with the weights of the documents' nodes.

    Return the counts of topics by word.
    """
    of_words = np.zeros_like(phi)
    for shard in group:
        move_cells(
            key, shard.rows(), weights, shard.labels, n_topics, s, phi, shard.latent["numbers"],
            of_words, gibbs.NONE, 0, shard.labels.size, shard.first,
        )  # fmt: skip
    return [of_words, *[None] * (len(group) - 1)]


def draw_by_words(
    group: Group, n_data: int, key: Key, model: Mixed, choices: Choices, n_rows: int
) -> list[Integers]:
    """Draw documents among candidates with the topics of their tokens summed out."""
    return draw_seen(group, key, model, choices, n_rows, lambda shard: as_rows(shard.rows()))


def count_lengths(
    group: Group, n_data: int, n_topics: int
) -> list[tuple[Histogram, list[Histogram]]]:
    """Return how many documents have so many tokens, and so many of each topic."""
    answers = []
    for shard in group:
        totals = _counted(np.diff(shard.rows().first_token))
        by_topic = shard.latent["numbers"].T[:n_topics]
        answers.append((totals, [_counted(column) for column in by_topic]))
    return answers


def _counted(numbers: Any) -> Histogram:
    found, times = np.unique(numbers[numbers > 0], return_counts=True)
    return found.astype(np.int64), times


# -- orders ----------------------------------------------------------------------------------------


def see_topics(group: Group, n_data: int, n_topics: int) -> list[None]:
    """Let nodes see the topics that tokens have now."""
    for shard in group:
        see(shard, shard.latent["numbers"], n_topics)
    return [None] * len(group)


def see(shard: Shard, of_documents: Any, n_topics: int) -> None:
    """Let a shard have these numbers of tokens, a row for each document."""
    numbers = np.ascontiguousarray(of_documents, dtype=np.float32)
    shard.latent["numbers"] = numbers
    shard.latent["seen"] = count_by_document(numbers, n_topics)
