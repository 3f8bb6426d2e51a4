"""A draw of topics, as held-out scores see it.

A topic model mixes the words of a document: word w has the probability sum_k p[k] * phi[k, w] with
proportions p of the document. Models differ in the law of p. What :mod:`treestick.analysis.heldout`
asks of a draw from their posterior is :class:`TopicDraw`.
"""

from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from treestick._jit import compiled, deferred_interrupts
from treestick.inputs import check_positive
from treestick.random import Key, Purpose, dirichlet, key_for, open_stream, reopen
from treestick.tokens import inference
from treestick.tokens.documents import make_documents

Floats = npt.NDArray[np.float64]

INFERENCE_BURN_IN, INFERENCE_SWEEPS = 20, 50
"""Sweeps over the tokens of a new document, before its proportions are averaged, and averaged."""
TOKENS_AT_ONCE = 2**20
"""Documents are worked on until they have so many tokens; then an interrupt can act."""


class TopicDraw(Protocol):
    """One posterior draw of a topic model."""

    @property
    def topics(self) -> Floats:
        """Probabilities of the words, a row for each topic."""

    def draw_proportions(self, key: Key, n: int) -> Floats:
        """Return proportions of ``n`` new documents, a row each, drawn from their law."""

    def infer_proportions(self, key: Key, counts: sparse.csr_array) -> Floats:
        """Return the mean proportions of documents given these counts of words, a row each."""


class DirichletDraw:
    """A draw whose documents have proportions p ~ Dir(doc_topic_prior): that of LDA.

    Parameters
    ----------
    topics : array of shape (n_topics, n_words)
        Probabilities, rows sum to one.
    doc_topic_prior : array of shape (n_topics,)
    topic_word_prior : float
        What ``topics`` were inferred with; nothing here depends on it.
    log_likelihood : float
        log p(words, topics of tokens) of the training data in this draw.
    """

    def __init__(
        self,
        topics: Floats,
        doc_topic_prior: Floats,
        topic_word_prior: float = float("nan"),
        log_likelihood: float = float("nan"),
    ) -> None:
        self.topics = topics
        self.doc_topic_prior = doc_topic_prior
        self.topic_word_prior = topic_word_prior
        self.log_likelihood = log_likelihood
        self._phi: npt.NDArray[np.float32] | None = None

    def draw_proportions(self, key: Key, n: int) -> Floats:
        """Return proportions of ``n`` pseudo-documents."""
        return draw_dirichlets(key, self.doc_topic_prior, n)

    def infer_proportions(self, key: Key, counts: sparse.csr_array) -> Floats:
        """Return posterior means of proportions, by Gibbs sampling with these topics."""
        documents = make_documents(counts)
        out = np.empty((counts.shape[0], self.topics.shape[0]))
        for first, last in ranges(documents.first_token):
            with deferred_interrupts():
                inference.infer_proportions(
                    key,
                    documents,
                    self.doc_topic_prior,
                    self._rows(),
                    INFERENCE_BURN_IN,
                    INFERENCE_SWEEPS,
                    first,
                    last,
                    out,
                )
        return out

    def log_probabilities(self, key: Key, counts: sparse.csr_array) -> Floats:
        """Return unbiased estimates of p(words of a document), as logarithms."""
        documents = make_documents(counts)
        out = np.empty(counts.shape[0])
        for first, last in ranges(documents.first_token):
            with deferred_interrupts():
                inference.log_probabilities(
                    key, documents, self.doc_topic_prior, self._rows(), first, last, out
                )
        return out

    def _rows(self) -> npt.NDArray[np.float32]:
        if self._phi is None:
            self._phi = inference.by_word(self.topics)
        return self._phi


def ranges(first_token: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Cut documents into ranges of not many more than ``TOKENS_AT_ONCE`` tokens."""
    edges = np.searchsorted(first_token, np.arange(0, first_token[-1], TOKENS_AT_ONCE))
    edges = np.unique([0, *edges.tolist(), first_token.size - 1])
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


@compiled
def draw_dirichlets(key: Key, concentrations: Floats, n: int) -> Floats:
    """Return ``n`` draws from one Dirichlet; draw i is a function of the key and i."""
    out = np.empty((n, concentrations.size))
    stream = open_stream(key)
    for i in range(n):
        reopen(stream, key_for(key, Purpose.PSEUDO_DOCUMENT, i))
        dirichlet(stream, concentrations, out[i])
    return out


def laplace_multinomial(counts: sparse.csr_array, smoothing: float = 1.0) -> DirichletDraw:
    """Return the baseline of one topic for all documents: (n_w + smoothing) / (N + V smoothing).

    Parameters
    ----------
    counts : sparse array of shape (n_documents, n_words)
        The training data.
    smoothing : float, default 1
        Laplace's is 1.
    """
    check_positive("smoothing", smoothing)
    shapes = np.asarray(counts.sum(axis=0), dtype=np.float64).ravel() + smoothing
    return DirichletDraw((shapes / shapes.sum())[None], np.ones(1), smoothing)
