"""What estimators of topics share: documents as users have them, and the words of topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import gammaln, logsumexp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from treestick.estimators.sampled import Known, ids_of
from treestick.inputs import InvalidValue, check_whole_number, data_errors
from treestick.io import Corpus, known_counts, read_counts
from treestick.random import make_key
from treestick.tokens.documents import Floats

FEWEST_PARTICLES = 20
"""So many estimates of a document's probability are averaged, or more, all draws together."""


def check_some(n: int) -> None:
    """Raise if there is no token."""
    if n == 0:
        raise InvalidValue("all documents are empty: there is nothing to infer topics from")


class TopicsMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):  # type: ignore[misc]
    """Takes documents, as a corpus or as counts; has topics, ``components_``."""

    if TYPE_CHECKING:
        components_: Floats
        topic_draws_: Any  # the draws as treestick.analysis.heldout takes them

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _known_of(self, X: Any) -> Known:
        """Return what is known of the documents beside their counts."""
        if isinstance(X, Corpus):
            return Known(X.counts, X.vocabulary, X.ids, X.metadata)
        return Known(X, None, ids_of(X), {})

    def _counts_of(self, table: Any) -> sparse.csr_array:
        """Return rows of counts, or raise."""
        return read_counts(table, type(self).__name__)

    def _read_documents(self, X: Any) -> sparse.csr_array:
        """Return counts to fit to, or raise."""
        with data_errors():
            counts = self._counts_of(X.counts if isinstance(X, Corpus) else X)
            check_some(counts.nnz)
        return counts

    def _new_counts(self, X: Any) -> sparse.csr_array:
        """Return counts of new documents, or raise."""
        check_is_fitted(self, "draws_")
        if isinstance(X, Corpus):
            names = getattr(self, "feature_names_in_", None)
            if names is None:
                raise InvalidValue(
                    "a Corpus has words, but the topics were fitted to counts without names; "
                    "give its counts"
                )
            return known_counts(X, names.tolist())
        counts = self._counts_of(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        return counts

    def score_samples(self, X: Any) -> Floats:
        """Return the log posterior predictive probability of each document, over all draws.

        Constants are included (the multinomial coefficient), so that it compares with other models
        of counts. Probabilities are estimated, unbiasedly, by putting words in one by one (see
        :mod:`treestick.tokens.inference`); their logarithms are too low on average, by some nats
        for documents of a thousand words. :mod:`treestick.analysis.heldout` has perplexities.
        """
        counts = self._new_counts(X)
        draws = self.topic_draws_
        n_each = -(-FEWEST_PARTICLES // len(draws))
        found = np.stack(
            [
                draw.log_probabilities(make_key(0, number, particle), counts)
                for number, draw in enumerate(draws)
                for particle in range(n_each)
            ]
        )
        rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        constants = gammaln(np.asarray(counts.sum(axis=1)).ravel() + 1.0)
        constants -= np.bincount(rows, gammaln(counts.data + 1.0), minlength=counts.shape[0])
        return np.asarray(logsumexp(found, axis=0) - np.log(found.shape[0]) + constants)

    def score(self, X: Any, y: object = None) -> float:
        """Return the mean of :meth:`score_samples` over the documents: nats per document."""
        return float(np.mean(self.score_samples(X)))

    def _most_probable(self, p: Floats, n: int) -> npt.NDArray[Any]:
        """Return the names of the words with the highest numbers, or else their columns."""
        n = check_whole_number("n", n, 1)
        found = np.argsort(-p, kind="stable")[:n]
        names = getattr(self, "feature_names_in_", None)
        return np.asarray(found if names is None else names[found])

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])
