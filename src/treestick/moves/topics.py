"""Moves of trees of documents: topics of tokens, and documents with these summed out.

The state holds the topic of each token (:class:`treestick.tokens.latent.TokenTopics`); given those,
all moves of trees of counts apply. The others are here.

**Tokens.** A token of word w in a document at node e has topic k with probability proportional to

    p[e, k] * (n_wk + beta) / (n_k + V * beta),      topics integrated out, one after the other;
    p[e, k] * phi[k, w],                             topics drawn before, all at once.

A document that is alone at a node without children moves with that node's probabilities integrated
out as well, in the first of the two: with the shapes a of their Dirichlet law, (a[k] + n_dk) stands
for p[e, k], as in latent Dirichlet allocation. They are drawn anew afterwards, given the document:
together, its topics and the node's probabilities have their law. Most documents of more than some
hundred tokens are alone, and move much further so.

**Documents.** Given the topics of its tokens a document hardly leaves its node: some thousand
tokens have been drawn with that node's probabilities. So topics phi are drawn given all tokens;
given phi and the nodes' probabilities documents are independent, and the node of each is drawn with
the topics of its tokens summed out (:mod:`treestick.tokens.mixed`), then these given the node: node
and topics together from their conditional. Phi is forgotten afterwards: tokens and nodes have the
law that they have with it integrated out.

Where the number of topics is unbounded, tokens are moved by :mod:`treestick.moves.new_topics`.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick import contract
from treestick._jit import compiled
from treestick.lanes import Floats32
from treestick.moves.candidates import move_candidates
from treestick.moves.new_topics import LEAST_WEIGHT, move_tokens_of_measures, weights_of
from treestick.moves.state import Floats, Integers, State
from treestick.moves.tasks import Run, Task
from treestick.random import PART, Key, Purpose, key_for, open_stream, reopen
from treestick.tokens import abreast, gibbs, priors
from treestick.tokens.collapsed import copy_counts
from treestick.tokens.documents import Documents
from treestick.tokens.latent import TokenTopics, as_rows
from treestick.tokens.mixed import Mixed
from treestick.tree.table import NodeTable

WITH_NODES = np.uint64(1) << PART
"""Part of the randomness of a sweep: topics and tokens that are drawn with documents' nodes."""
FIRST_TURN = 2
"""And from here on: tokens that are moved by themselves, several times."""
MOST_PREPARED = 2**25
"""Words times candidates whose logarithms are kept: 256 MB."""


class TopicMoves(NamedTuple):
    """Which moves a sweep makes."""

    sampler: str
    """One of :data:`treestick.tokens.gibbs.MODES`."""
    sums_out: bool
    """Whether documents are moved with the topics of their tokens summed out."""
    n_tasks: int
    """Ranges of documents that can be worked on at once; draws do not depend on it."""


def move_documents(
    key: Key,
    state: State,
    documents: Documents,
    tasks: Sequence[Task],
    most: int,
    least_mass: float,
    moves: TopicMoves,
    run: Run = map,
) -> tuple[State, int]:
    """Move documents and the topics of their tokens together; prune to the new hull.

    Parameters are those of :func:`treestick.moves.candidates.move_candidates`.
    """
    latent: TokenTopics = state.latent
    n_topics = latent.n_topics
    own_key = key._replace(chain=key.chain | WITH_NODES)
    phi = gibbs.draw_topics(own_key, latent.counts, n_topics, latent.beta, run)
    mixed = Mixed(state.model, np.ascontiguousarray(phi[:, :n_topics].T, dtype=np.float64))
    most = min(most, max(MOST_PREPARED // documents.n_words, 64))
    moved, n_candidates = move_candidates(
        key, state._replace(model=mixed), as_rows(documents), tasks, most, least_mass, run
    )
    topics = latent.topics.copy()
    counts = gibbs.move_all_cells(
        own_key, documents, weights_of(moved.theta, n_topics), moved.assignments, n_topics, 0.0,
        phi, latent.counts, run, moves.n_tasks, topics,
    )  # fmt: skip
    latent = latent._replace(topics=topics, counts=counts)
    return moved._replace(model=state.model, latent=latent), n_candidates


def key_of_turn(key: Key, turn: int) -> Key:
    """Return the key of one of several times that tokens are moved in a sweep."""
    return key._replace(chain=key.chain | (np.uint64(FIRST_TURN + turn) << PART))


def move_tokens(
    keys: Sequence[Key], state: State, documents: Documents, moves: TopicMoves, run: Run = map
) -> State:
    """Move the topics of all tokens, once with each key.

    Statistics are left as they are: sum them anew. Probabilities of nodes with a document alone are
    integrated out all the time, and drawn at the end.
    """
    latent: TokenTopics = state.latent
    if state.model.is_measure:
        for key in keys:
            state = move_tokens_of_measures(key, state, documents)
        return state
    if moves.sums_out and moves.sampler == gibbs.INSTANTIATED:
        return state  # this is what move_documents has just done
    n_topics, counts = latent.n_topics, latent.counts
    weights, theta = weights_of(state.theta, n_topics), state.theta
    if moves.sampler == gibbs.COLLAPSED:
        topics, counts, theta = latent.topics.copy(), copy_counts(counts), theta.copy()
        is_alone = find_alone(state.table, state.assignments)
        write_shapes(state.model, state.table, theta, state.assignments, is_alone, weights)
        for key in keys:
            abreast.move_tokens(
                key, documents, weights, state.assignments, is_alone.astype(np.float32),
                latent.beta, topics, counts,
            )  # fmt: skip
        redraw_alone(
            keys[-1], state.model, state.table, state.assignments, is_alone, counts.of_documents,
            theta,
        )  # fmt: skip
    else:
        topics = gibbs.NONE
        for key in keys:
            phi = gibbs.draw_topics(key, counts, n_topics, latent.beta, run)
            counts = gibbs.move_all_cells(
                key, documents, weights, state.assignments, n_topics, 0.0, phi, counts, run,
                moves.n_tasks,
            )  # fmt: skip
    return state._replace(theta=theta, latent=latent._replace(topics=topics, counts=counts))


# -- documents that are alone at a leaf ------------------------------------------------------------


@compiled
def find_alone(table: NodeTable, assignments: Integers) -> npt.NDArray[np.bool_]:
    """Say of each document whether it is alone at a node without children, not the root."""
    is_alone = np.empty(assignments.size, dtype=np.bool_)
    for d in range(assignments.size):
        node = assignments[d]
        is_alone[d] = node > 0 and table.n_here[node] == 1 and table.n_below[node] == 0
    return is_alone


@compiled
def write_shapes(
    model: Any,
    table: NodeTable,
    theta: Floats,
    assignments: Integers,
    is_alone: npt.NDArray[np.bool_],
    weights: Floats32,
) -> None:
    """Overwrite the weights of their nodes by the shapes of the nodes' Dirichlet law."""
    prepared = np.empty(1 + theta.shape[1])
    for d in range(assignments.size):
        if is_alone[d]:
            node = assignments[d]
            contract.prepare_unseen(model, theta[table.parent[node]], 1, prepared)
            for k in range(theta.shape[1]):
                weights[node, k] = max(math.exp(prepared[1 + k]), LEAST_WEIGHT)


@compiled
def redraw_alone(
    key: Key,
    model: Any,
    table: NodeTable,
    assignments: Integers,
    is_alone: npt.NDArray[np.bool_],
    of_documents: Floats32,
    theta: Floats,
) -> None:
    """Draw the probabilities of their nodes, given the topics of their tokens."""
    statistics = np.zeros(theta.shape[1] + 1)
    stream = open_stream(key)
    for d in range(assignments.size):
        if is_alone[d]:
            node = assignments[d]
            for k in range(theta.shape[1]):
                statistics[k] = of_documents[d, k]
            reopen(stream, key_for(key, Purpose.PROPORTIONS, d))
            above = theta[table.parent[node]]
            contract.draw_leaf(stream, model, above, 1.0, statistics, theta[node])


def move_word_prior(key: Key, state: State) -> State:
    """Slice move on beta given the topics of tokens."""
    latent: TokenTopics = state.latent
    beta = priors.move_word_prior(
        key, latent.counts, latent.n_topics, latent.beta, latent.beta_low, latent.beta_high
    )
    return state._replace(latent=latent._replace(beta=beta))
