"""Documents as the estimator of their tree has them: what is known of them, and its draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from treestick.analysis.tree_topics import TreeDraw
from treestick.estimators.draws import Draws
from treestick.estimators.lazy import Lazy
from treestick.moves.state import Integers


class DocumentUnits(NamedTuple):
    """What is kept of the documents that a model was fitted to."""

    totals: Integers
    """Of each document: the number of its tokens."""


class Summary(NamedTuple):
    """What is known of some documents, to make the model from."""

    totals: Integers
    """Of each document: the number of its tokens,"""
    of_words: Integers
    """and of each word, in all of them."""


def summarize(counts: sparse.csr_array) -> Summary:
    """Return what is known of rows of counts."""
    totals, of_words = (np.asarray(counts.sum(axis=axis)).ravel() for axis in (1, 0))
    return Summary(totals.astype(np.int64), of_words.astype(np.int64))


def join_summaries(one: Summary, other: Summary) -> Summary:
    """Return what is known of all documents of two."""
    return Summary(np.concatenate([one.totals, other.totals]), one.of_words + other.of_words)


class TreeDraws(Lazy[TreeDraw]):
    """The posterior sample as held-out scores take it, read from disk when asked for."""

    def __init__(self, draws: Draws) -> None:
        self._draws = draws

    def __len__(self) -> int:
        return len(self._draws)

    def _read(self, number: int) -> TreeDraw:
        return TreeDraw(self._draws.mixture(number), number)
