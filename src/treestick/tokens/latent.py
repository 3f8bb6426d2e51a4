"""What the state of a tree of documents holds beside the nodes: the topic of every token.

Given those, a document is a row of counts of topics, drawn with the probabilities of its node, and
all that moves trees of counts moves it (:mod:`treestick.models.multinomial`).
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from treestick._jit import compiled
from treestick.families.multinomial import Counts
from treestick.lanes import Floats32, padded
from treestick.random import make_key
from treestick.tokens import collapsed, gibbs
from treestick.tokens.collapsed import TopicCounts, mean_topics
from treestick.tokens.documents import Documents, Floats, Numbers
from treestick.tokens.priors import log_words

ALPHA = (0.001, 10.0)
"""Between what the proportions' prior of the start is inferred, for each topic."""
FOR_START = 15
"""Part of a chain's randomness: no move of the chain has it."""


class TokenTopics(NamedTuple):
    """Topics of tokens, and the prior of the topics' words; equal bounds if that is fixed."""

    topics: Numbers
    """Of each token; empty where the counts are all that is kept."""
    counts: TopicCounts
    n_topics: int
    beta: float
    beta_low: float
    beta_high: float

    @property
    def seen(self) -> Counts:
        """The documents as nodes see them."""
        return count_by_document(self.counts.of_documents, self.n_topics)

    @property
    def log_data(self) -> float:
        """Log probability of the words given the topics of tokens, topics integrated out."""
        return float(log_words(self.counts, self.n_topics, self.beta))

    @property
    def log_prior(self) -> float:
        """Of what nodes share: nothing, topics are integrated out."""
        return 0.0

    @property
    def scalars(self) -> dict[str, float]:
        """What is kept of a draw beside the topics."""
        return {"topic_word_prior": self.beta, "n_topics": float(self.n_topics)}

    @property
    def shared(self) -> Floats:
        """What nodes share: the mean of the topics given the tokens, a row for each."""
        return mean_topics(self.counts, self.n_topics, self.beta)


def first_topics(
    seed: int,
    chain: int,
    documents: Documents,
    n_topics: int,
    beta: tuple[float, float, float],
    n_sweeps: int,
    mode: str,
    is_measure: bool,
    run: gibbs.Run = map,
    n_tasks: int = 1,
    after_sweep: Callable[[int], None] = lambda _: None,
) -> TokenTopics:
    """Return topics of tokens as latent Dirichlet allocation has them after so many sweeps.

    ``after_sweep`` gets their number so far.
    Where topics are unbounded, those without tokens are left out, and there is room for the rest.
    """
    concentrations = gibbs.Concentrations(np.full(n_topics, 1.0), *ALPHA, *beta)
    state = gibbs.first_state(make_key(seed, chain), documents, concentrations)
    sweeps = gibbs.run_gibbs(
        seed, chain + (FOR_START << 32), documents, concentrations, mode, run, n_tasks
    )
    for state in itertools.islice(sweeps, n_sweeps):
        after_sweep(state.sweep)
    counts, topics = state.counts, state.topics
    if is_measure:
        used = np.flatnonzero(counts.of_topics[:n_topics] > 0.0)
        number = np.zeros(n_topics, dtype=np.int32)
        number[used] = np.arange(used.size)
        topics, n_topics = number[topics], used.size
        counts = collapsed.count_topics(documents, topics, padded(n_topics + 1))
    return TokenTopics(topics, counts, n_topics, state.concentrations.beta, *beta[1:])


@compiled
def count_by_document(of_documents: Floats32, n_topics: int) -> Counts:
    """Return the topics of each document as a row of counts.

    They are sequences of topics, so the coefficient is 1.
    """
    n_documents = of_documents.shape[0]
    rows = Counts(
        np.empty(n_documents, dtype=np.int64),
        np.zeros(n_documents, dtype=np.int64),
        np.empty(n_documents * n_topics, dtype=np.int32),
        np.empty(n_documents * n_topics),
        np.zeros(n_documents, dtype=np.int64),
        np.zeros(n_documents),
    )
    for d in range(n_documents):
        rows.start[d] = d * n_topics
        for k in range(n_topics):
            n = of_documents[d, k]
            if n > 0.0:
                entry = rows.start[d] + rows.n_entries[d]
                rows.outcomes[entry] = k
                rows.counts[entry] = n
                rows.n_entries[d] += 1
                rows.total[d] += np.int64(n)
    return rows


def as_rows(documents: Documents) -> Counts:
    """Return the words of each document as a row of counts; sequences too."""
    return Counts(
        documents.first[:-1],
        np.diff(documents.first),
        documents.words,
        documents.counts.astype(np.float64),
        np.diff(documents.first_token),
        np.zeros(documents.first.size - 1),
    )
