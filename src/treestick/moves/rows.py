"""Some rows of data, and several pieces together: data are named tuples of arrays.

In most of them every array has a row for each datum. Others are registered here.
"""

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from treestick.diffusions.hdp import Drawn, Observed
from treestick.families.multinomial import Counts
from treestick.moves.state import Integers
from treestick.tokens.documents import Documents


@singledispatch
def take_rows(data: Any, rows: Integers) -> Any:
    """Return a copy of some rows, in this order; a row may come more than once."""
    return type(data)(*(np.ascontiguousarray(array[rows]) for array in data))


@take_rows.register
def _(data: Counts, rows: Integers) -> Counts:
    n_entries = data.n_entries[rows]
    start = np.cumsum(n_entries) - n_entries
    entries = np.arange(n_entries.sum()) + np.repeat(data.start[rows] - start, n_entries)
    return Counts(
        start,
        n_entries,
        data.outcomes[entries],
        data.counts[entries],
        data.total[rows],
        data.log_coefficient[rows],
    )


@take_rows.register
def _(data: Documents, rows: Integers) -> Documents:
    first, cells = _entries(data.first, rows)
    first_token, tokens = _entries(data.first_token, rows)
    return Documents(
        first,
        data.words[cells],
        data.counts[cells],
        first_token,
        data.token_words[tokens],
        data.n_words,
    )


def _entries(first: Integers, rows: Integers) -> tuple[Integers, Integers]:
    """Return where the entries of some rows begin, one behind the other, and which these are."""
    n = first[rows + 1] - first[rows]
    ends = np.cumsum(n)
    entries = np.arange(n.sum()) + np.repeat(first[rows] - (ends - n), n)
    return np.concatenate([np.zeros(1, dtype=np.int64), ends]), entries


@take_rows.register
def _(data: np.ndarray, rows: Integers) -> Any:
    return np.ascontiguousarray(data[rows])


@take_rows.register
def _(data: Observed, rows: Integers) -> Observed:
    return Observed(take_rows(data.values, rows), data.base)


@take_rows.register
def _(data: Drawn, rows: Integers) -> Drawn:
    return Drawn(data.atom[rows], data.log_density[rows], data.densities)


def join_rows(pieces: Sequence[Any]) -> Any:
    """Return all rows of some pieces, one piece after the other."""
    kind = type(pieces[0])
    if kind is np.ndarray:
        return np.concatenate(pieces)
    if kind is Observed:
        return Observed(join_rows([piece.values for piece in pieces]), pieces[0].base)
    if kind is Documents:
        return _join_documents(pieces)
    joined = kind(*(np.concatenate(arrays) for arrays in zip(*pieces, strict=True)))
    if kind is Counts:
        offsets = np.cumsum([0, *(piece.outcomes.size for piece in pieces[:-1])])
        starts = [piece.start + at for piece, at in zip(pieces, offsets, strict=True)]
        joined = joined._replace(start=np.concatenate(starts))
    return joined


def _join_documents(pieces: Sequence[Documents]) -> Documents:
    def behind(firsts: Sequence[Integers]) -> Integers:
        n_each = [np.diff(first) for first in firsts]
        return np.concatenate([[0], np.cumsum(np.concatenate(n_each))]).astype(np.int64)

    return Documents(
        behind([piece.first for piece in pieces]),
        np.concatenate([piece.words for piece in pieces]),
        np.concatenate([piece.counts for piece in pieces]),
        behind([piece.first_token for piece in pieces]),
        np.concatenate([piece.token_words for piece in pieces]),
        pieces[0].n_words,
    )
