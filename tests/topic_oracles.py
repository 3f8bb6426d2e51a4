"""Exact draws for trees of documents, in plain Python: topics of tokens, then words."""

from typing import Any

import numpy as np

from franchise import Franchise, draw_weights
from joint import Oracle, Rng, _between, log_dirichlet
from treestick.lanes import padded
from treestick.models.multinomial import Multinomial
from treestick.moves.state import State
from treestick.tokens.collapsed import count_topics
from treestick.tokens.documents import Documents
from treestick.tokens.latent import TokenTopics
from treestick.tree.table import NodeTable

N_WORDS = 3
BETA = (0.2, 1.5)


def lengths(n_documents: int) -> Any:
    return (3 * np.arange(n_documents) + 3) % 5


def write_documents(words: list[Any]) -> tuple[Documents, Any]:
    """Return documents, and where each of their tokens, sorted by word, was before."""
    n_tokens = np.array([len(row) for row in words])
    first_token = np.concatenate([[0], np.cumsum(n_tokens)]).astype(np.int64)
    order = np.concatenate(
        [
            start + np.argsort(row, kind="stable")
            for start, row in zip(first_token[:-1], words, strict=True)
        ]
    ).astype(np.int64)
    token_words = np.concatenate(words)[order].astype(np.int32)
    cells = [np.unique(row, return_counts=True) for row in words]
    first = np.concatenate([[0], np.cumsum([len(cell[0]) for cell in cells])]).astype(np.int64)
    documents = Documents(
        first,
        np.concatenate([cell[0] for cell in cells]).astype(np.int32),
        np.concatenate([cell[1] for cell in cells]).astype(np.int32),
        first_token,
        token_words,
        N_WORDS,
    )
    return documents, order


class TopicsOracle(Oracle):
    """A given number of topics."""

    n_topics = 2

    def __init__(self, keeps_tokens: bool = True) -> None:
        super().__init__(self.n_topics)
        self.keeps_tokens = keeps_tokens
        """Whether the state has the topics of single tokens, or counts alone."""

    def draw_model(self, rng: Rng) -> Multinomial:
        return Multinomial(
            float(_between(rng, 0.5, 6.0)), 0.5, 6.0,
            float(_between(rng, 0.4, 0.9)), 0.4, 0.9, self.n_topics, 0.8,
        )  # fmt: skip

    def draw_topics(
        self, rng: Rng, model: Multinomial, table: NodeTable, n_nodes: int, assignments: Any
    ) -> tuple[Multinomial, Any, Any]:
        """Draw probabilities of nodes, and the topics of all tokens."""
        theta = np.empty((n_nodes, self.n_topics))
        theta[0] = log_dirichlet(rng, np.full(self.n_topics, 0.8))
        for k in range(1, n_nodes):
            mean = model.persistence * np.exp(theta[table.parent[k]])
            mean += (1.0 - model.persistence) / self.n_topics
            theta[k] = log_dirichlet(rng, model.concentration * mean)
        p = np.exp(theta[assignments])
        topics = np.concatenate(
            [
                rng.choice(self.n_topics, size=n, p=q / q.sum())
                for n, q in zip(lengths(len(assignments)), p, strict=True)
            ]
        )
        return model, theta, topics

    def draw_all(
        self, rng: Rng, model: Multinomial, table: NodeTable, n_nodes: int, assignments: Any
    ) -> tuple[Multinomial, Any, Any]:
        model, theta, topics = self.draw_topics(rng, model, table, n_nodes, assignments)
        n_topics = theta.shape[1] - model.is_measure
        nothing: Any = None
        beta = float(_between(rng, *BETA))
        return model, theta, TokenTopics(topics, nothing, n_topics, beta, *BETA)

    def topics_of(self, rng: Rng, latent: TokenTopics) -> Any:
        """Return a topic for each token, in any order within a document."""
        if latent.topics.size:
            return latent.topics
        rows = latent.counts.of_documents[:, : latent.n_topics].astype(int)
        return np.concatenate([np.repeat(np.arange(latent.n_topics), row) for row in rows])

    def redraw_data(self, rng: Rng, state: State) -> tuple[State, Documents]:
        latent: TokenTopics = state.latent
        topics = self.topics_of(rng, latent)
        phi = rng.dirichlet(np.full(N_WORDS, latent.beta), size=latent.n_topics)
        n_tokens = lengths(state.assignments.size)
        ends = np.cumsum(n_tokens)
        words = [
            np.array([rng.choice(N_WORDS, p=phi[k]) for k in topics[end - n : end]], dtype=int)
            for n, end in zip(n_tokens, ends, strict=True)
        ]
        documents, order = write_documents(words)
        topics = topics[order].astype(np.int32)
        width = padded(latent.n_topics + state.model.is_measure)
        counts = count_topics(documents, topics, width)
        if not self.keeps_tokens:
            topics = topics[:0]
        return state._replace(latent=latent._replace(topics=topics, counts=counts)), documents

    def values(self, data: Documents) -> Any:
        """Return the counts of the first two words."""
        rows = np.zeros((data.first.size - 1, N_WORDS))
        for d in range(len(rows)):
            cells = slice(data.first[d], data.first[d + 1])
            rows[d, data.words[cells]] = data.counts[cells]
        return rows[:, :2]

    def compared(self, state: State) -> Any:
        """Return probabilities of the topics that the first two words of all have most of.

        Topics have no names: the first is that of the first document's first token, as counts know
        it (the lowest number), the second is the largest of the others at the root.
        """
        p = np.exp(state.theta)
        counts = state.latent.counts
        first = int(np.flatnonzero(counts.of_documents[0] > 0.0)[0])
        by_words = counts.of_words[0, : p.shape[1]]
        second = int(np.argmax(by_words))
        return np.round(p[:, [first, second]], 9)

    def more(self, state: State) -> dict[str, float]:
        latent: TokenTopics = state.latent
        of_documents, of_words, of_topics = latent.counts
        n = latent.n_topics
        p = np.exp(state.theta[state.assignments])
        return {
            "topics_as_at_node": float(np.sum(of_documents[:, :n] * p[:, :n])),
            "topics_as_at_root": float(np.sum(of_documents[:, :n] * np.exp(state.theta[0, :n]))),
            "concentration": state.model.concentration,
            "persistence": state.model.persistence,
            "beta": latent.beta,
            "largest": float(of_topics[:n].max()),
            "topics_used": int(np.count_nonzero(of_topics[:n])),
            "together": float(np.sum(of_documents[0, :n] * of_documents[1, :n])),
            "of_first": int(np.count_nonzero(of_documents[0, :n])),
            "pairs": float(np.sum(of_words[:, :n] ** 2)),
            "beta_pairs": latent.beta * float(np.sum(of_words[:, :n] ** 2)),
        }


class UnboundedOracle(TopicsOracle):
    """Measures on infinitely many topics: the franchise, a guest for each token."""

    def __init__(self, persistence: tuple[float, float] = (0.4, 0.9)) -> None:
        super().__init__()
        self.persistence = persistence

    def draw_model(self, rng: Rng) -> Multinomial:
        return Multinomial(
            float(_between(rng, 0.3, 3.0)), 0.3, 3.0,
            float(_between(rng, *self.persistence)), *self.persistence, 0, 0.0, True,
        )  # fmt: skip

    def draw_topics(
        self, rng: Rng, model: Multinomial, table: NodeTable, n_nodes: int, assignments: Any
    ) -> tuple[Multinomial, Any, Any]:
        parent = table.parent[:n_nodes]
        franchise = Franchise(rng, model.concentration, model.persistence, parent)
        topics = np.array(
            [
                franchise.seat(int(node))
                for node, n in zip(assignments, lengths(len(assignments)), strict=True)
                for _ in range(n)
            ]
        )
        theta = draw_weights(
            rng, model.concentration, model.persistence, parent, franchise.guests()
        )
        return model._replace(n_outcomes=theta.shape[1]), theta, topics

    def compared(self, state: State) -> Any:
        """Return probabilities of the first token's topic, and of the rest."""
        p = np.exp(state.theta)
        return np.round(p[:, [int(state.latent.topics[0]), -1]], 9)

    def more(self, state: State) -> dict[str, float]:
        result = super().more(state)
        alive = state.theta[:, :-1] > -1000.0
        result["alive_at_root"] = int(alive[0].sum())
        result["nodes_alive"] = int(alive[:, int(state.latent.topics[0])].sum())
        if state.model.persistence_low == state.model.persistence_high:
            del result["persistence"]
        return result
