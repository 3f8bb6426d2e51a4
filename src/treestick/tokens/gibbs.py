"""Latent Dirichlet allocation by Gibbs sampling (Blei, Ng & Jordan 2003), one chain.

    phi[k] ~ Dir(beta, ..., beta),   p[d] ~ Dir(alpha),   z ~ p[d],   word ~ phi[z]

A sweep moves all tokens, by one of two exact methods, and then alpha and beta:

- ``collapsed``: one token after the other, p and phi integrated out
  (:mod:`treestick.tokens.abreast`); one thread.
- ``instantiated``: phi, then p and all tokens document by document
  (:mod:`treestick.tokens.cells`); any number of threads, which changes nothing but the time: counts
  are whole numbers, so it does not matter who adds them up.

Between sweeps there is nothing but the counts (and, collapsed, the topics of the tokens): phi and p
are drawn when they are needed.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from treestick._jit import compiled
from treestick.lanes import Floats32, padded
from treestick.random import Key, Purpose, key_for, make_key, open_at, uniform
from treestick.tokens import abreast, cells, collapsed, priors
from treestick.tokens.collapsed import TopicCounts
from treestick.tokens.documents import Documents, Floats, Numbers

COLLAPSED, INSTANTIATED = "collapsed", "instantiated"
MODES = (COLLAPSED, INSTANTIATED)
Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Like ``map``: applies a function to each task, perhaps on several threads, results in order."""


NONE: Numbers = np.empty(0, dtype=np.int32)


class Concentrations(NamedTuple):
    """The two priors: present values, and between what; equal bounds if fixed."""

    alpha: Floats
    alpha_low: float
    alpha_high: float
    beta: float
    beta_low: float
    beta_high: float


class TopicState(NamedTuple):
    """Where a chain is after a sweep."""

    topics: Numbers
    """Of each token. Of the first sweep only, where the mode is ``instantiated``."""
    counts: TopicCounts
    concentrations: Concentrations
    sweep: int


@compiled
def draw_first(key: Key, n_tokens: int, n_topics: int, before: int) -> Numbers:
    """Return topics drawn uniformly for tokens; ``before`` is the number of those elsewhere."""
    stream = open_at(key_for(key, Purpose.FIRST_TOPICS, 0), before)
    topics = np.empty(n_tokens, dtype=np.int32)
    for token in range(n_tokens):
        topics[token] = min(int(uniform(stream) * n_topics), n_topics - 1)
    return topics


def first_state(key: Key, documents: Documents, concentrations: Concentrations) -> TopicState:
    """Return a state in which each token has a topic drawn uniformly."""
    n_topics = concentrations.alpha.size
    topics = draw_first(key, int(documents.first_token[-1]), n_topics, 0)
    counts = collapsed.count_topics(documents, topics, padded(n_topics))
    return TopicState(topics, counts, concentrations, 0)


def as_weights(alpha: Floats) -> Floats32:
    """Return alpha as the one row of weights that all documents have."""
    weights = np.zeros((1, padded(alpha.size)), dtype=np.float32)
    weights[0, : alpha.size] = alpha
    return weights


def draw_topics(
    key: Key, counts: TopicCounts, n_topics: int, beta: float, run: Run = map
) -> Floats32:
    """Return topics drawn given the tokens: a row for each word, padded like the counts."""
    phi = np.zeros_like(counts.of_words)
    starts = range(0, phi.shape[0], cells.WORDS_AT_ONCE)
    sums = np.zeros(n_topics)
    for part in run(
        lambda start: cells.draw_gammas(key, beta, counts.of_words, n_topics, start, phi), starts
    ):
        sums += part
    for _ in run(lambda start: cells.normalise(sums, start, phi), starts):
        pass
    for topic in np.flatnonzero(sums < cells.VANISHES).tolist():
        cells.settle_in_logarithms(key, beta, counts.of_words, topic, phi)
    return phi


def move_all_cells(
    key: Key,
    documents: Documents,
    weights: Floats32,
    row_of: Any,
    n_topics: int,
    s: float,
    phi: Floats32,
    counts: TopicCounts,
    run: Run = map,
    n_tasks: int = 1,
    topics: Numbers = NONE,
) -> TopicCounts:
    """Return the counts after all tokens were redrawn given topics (see ``cells.move_cells``).

    ``n_tasks`` ranges of documents with about equally many tokens are given to ``run``. The topics
    of the tokens are written to ``topics``, unless that is empty.
    """
    of_documents = counts.of_documents.copy()
    edges = np.searchsorted(
        documents.first_token, np.linspace(0, documents.first_token[-1], n_tasks + 1)
    )
    edges[0], edges[-1] = 0, documents.first.size - 1

    def move(task: tuple[int, int]) -> Floats32:
        of_words = np.zeros_like(counts.of_words)
        cells.move_cells(
            key, documents, weights, row_of, n_topics, s, phi, of_documents, of_words, topics,
            *task, 0,
        )  # fmt: skip
        return of_words

    tasks = zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    parts = list(run(move, tasks))
    of_words = parts[0]
    for part in parts[1:]:
        of_words += part
    return TopicCounts(of_documents, of_words, of_words.sum(axis=0, dtype=np.float64))


def move_concentrations(key: Key, state: TopicState) -> TopicState:
    """Move alpha and beta given the tokens' topics."""
    now = state.concentrations
    alpha = now.alpha.copy()
    priors.move_document_prior(key, state.counts, alpha, now.alpha_low, now.alpha_high)
    beta = priors.move_word_prior(
        key, state.counts, alpha.size, now.beta, now.beta_low, now.beta_high
    )
    return state._replace(concentrations=now._replace(alpha=alpha, beta=beta))


def sweep(
    key: Key, state: TopicState, documents: Documents, mode: str, run: Run = map, n_tasks: int = 1
) -> TopicState:
    """Return the state after a sweep. Arrays of the state before are overwritten."""
    alpha, beta = state.concentrations.alpha, state.concentrations.beta
    weights, n_documents = as_weights(alpha), documents.first.size - 1
    row_of = np.zeros(n_documents, dtype=np.int64)
    if mode == COLLAPSED:
        abreast.move_tokens(
            key, documents, weights, row_of, np.ones(n_documents, dtype=np.float32), beta,
            state.topics, state.counts,
        )  # fmt: skip
    else:
        phi = draw_topics(key, state.counts, alpha.size, beta, run)
        counts = move_all_cells(
            key, documents, weights, row_of, alpha.size, 1.0, phi, state.counts, run, n_tasks
        )
        state = state._replace(counts=counts, topics=state.topics[:0])
    state = state._replace(sweep=state.sweep + 1)
    return move_concentrations(key, state)


def run_gibbs(
    seed: int,
    chain: int,
    documents: Documents,
    concentrations: Concentrations,
    mode: str,
    run: Run = map,
    n_tasks: int = 1,
    state: TopicState | None = None,
) -> Iterator[TopicState]:
    """Yield the state after each sweep of a chain; the next sweep overwrites its arrays.

    A chain that goes on from a ``state`` goes on as if it had never stopped.
    """
    if state is None:
        state = first_state(make_key(seed, chain), documents, concentrations)
    while True:
        state = sweep(make_key(seed, chain, state.sweep + 1), state, documents, mode, run, n_tasks)
        yield state
