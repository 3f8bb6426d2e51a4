"""Gibbs move on the topics of tokens, where nodes hold measures on infinitely many topics.

The topics that some token has are represented, all others are the rest of a node's measure
(:mod:`treestick.diffusions.hdp`). A token of word w in a document at node e has

    topic k            with probability proportional to   p[e, k] (n_wk + beta) / (n_k + V beta)
    one of the rest                                       p[e, rest] / V

topics integrated out, one token after the other.

Rule 1. A topic of the rest has the law Dir(beta, ..., beta), whatever its node, since no token has
it. If it is chosen, its probabilities in all nodes are split off from the rest, given that it has
this token (:func:`treestick.diffusions.hdp.represent_atom`).
Rule 2. A topic whose last token leaves keeps its probabilities until all tokens have moved, and is
forgotten then: they become part of the rest. Until then the state says more of the rest than it has
to, and to forget that leaves the law of all else as it is.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from treestick._jit import compiled
from treestick.diffusions import hdp
from treestick.lanes import Floats32, padded
from treestick.moves.state import Floats, State
from treestick.random import Key, Purpose, key_for, open_stream
from treestick.tokens import collapsed
from treestick.tokens.collapsed import TopicCounts
from treestick.tokens.documents import Documents
from treestick.tree.table import NodeTable

LEAST_WEIGHT = 1e-30
"""A weight below is as good as 0 beside the others, but float32 has no smaller ones."""


def move_tokens_of_measures(key: Key, state: State, documents: Documents) -> State:
    """Move all tokens. Statistics are left as they are: sum them anew."""
    latent, model = state.latent, state.model
    n_topics, n_documents = latent.n_topics, documents.first.size - 1
    log_weights, log_rest = state.theta[:, :n_topics].copy(), state.theta[:, n_topics].copy()
    topics, token = latent.topics.copy(), 0
    counts = _with_columns(latent.counts, np.arange(n_topics), n_topics + 1)
    while True:
        token = collapsed.move_tokens(
            key, documents, weights_of(np.column_stack((log_weights, log_rest)), n_topics + 1),
            state.assignments, np.zeros(n_documents, dtype=np.float32), latent.beta, topics, counts,
            _document_of(documents, token), n_documents, n_topics, token,
        )  # fmt: skip
        if token == 0 or topics[token - 1] != n_topics:
            break
        # The column of the rest becomes that of the new topic, and the next one that of the rest.
        log_weights = np.column_stack((log_weights, np.empty(log_rest.size)))
        _represent(
            key, model.concentration, model.persistence, state.table,
            state.assignments[_document_of(documents, token - 1)], log_weights, log_rest,
            n_topics, token,
        )  # fmt: skip
        n_topics += 1
        counts = _with_columns(counts, np.arange(n_topics), n_topics + 1)
    return _forget_empty(state, topics, counts, log_weights, log_rest)


def _document_of(documents: Documents, token: int) -> int:
    """Return the document of a token; behind the last, the number of documents."""
    return int(np.searchsorted(documents.first_token, token, side="right")) - 1


@compiled
def _represent(
    key: Key,
    concentration: float,
    persistence: float,
    table: NodeTable,
    place: int,
    log_weights: Floats,
    log_rest: Floats,
    k: int,
    token: int,
) -> None:
    stream = open_stream(key_for(key, Purpose.NEW_TOPIC, token))
    hdp.represent_atom(stream, concentration, persistence, table, place, log_weights, log_rest, k)


def weights_of(theta: Floats, n_columns: int) -> Floats32:
    """Return the probabilities of the first columns, a row for each node, padded."""
    weights = np.zeros((theta.shape[0], padded(n_columns)), dtype=np.float32)
    weights[:, :n_columns] = np.maximum(np.exp(theta[:, :n_columns]), LEAST_WEIGHT)
    return weights


def _with_columns(
    counts: TopicCounts, columns: npt.NDArray[np.int64], n_columns: int
) -> TopicCounts:
    """Return a copy of some columns, with zeros behind them up to ``n_columns``, padded."""
    copies: list[Any] = []
    for numbers in counts:
        copy = np.zeros((*numbers.shape[:-1], padded(n_columns)), dtype=numbers.dtype)
        copy[..., : columns.size] = numbers[..., columns]
        copies.append(copy)
    return TopicCounts(*copies)


def _forget_empty(
    state: State,
    topics: npt.NDArray[np.int32],
    counts: TopicCounts,
    log_weights: Floats,
    log_rest: Floats,
) -> State:
    """Return the state with the topics that tokens have; the others become part of the rest."""
    is_used = counts.of_topics[: log_weights.shape[1]] > 0.0
    for k in np.flatnonzero(~is_used):
        log_rest = np.logaddexp(log_rest, log_weights[:, k])
    kept = np.flatnonzero(is_used)
    number = (np.cumsum(is_used) - 1).astype(np.int32)
    return state._replace(
        theta=np.column_stack((log_weights[:, kept], log_rest)),
        model=state.model._replace(n_outcomes=kept.size + 1),
        latent=state.latent._replace(
            topics=number[topics],
            counts=_with_columns(counts, kept, kept.size + 1),
            n_topics=kept.size,
        ),
    )
