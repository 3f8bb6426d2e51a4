"""Rows of counts, as users have them and as compiled models do."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import gammaln

from treestick.families.multinomial import Counts
from treestick.io import read_counts
from treestick.moves.state import Floats, Integers


class Rows(NamedTuple):
    """Counts that have been checked."""

    counts: sparse.csr_array
    is_sparse: bool
    """Whether the user gave them so."""


class CountUnits(NamedTuple):
    """What is kept of the data that a model was fitted to."""

    n_outcomes: int
    totals: Integers
    """Sums of the counts of a row, ascending,"""
    n_rows: Integers
    """and how many rows have each of them."""
    is_sparse: bool


def read_rows(X: Any, model: str) -> Rows:
    """Return X as rows of counts, or raise."""
    return Rows(read_counts(X, model), bool(sparse.issparse(X)))


def units_of(rows: Rows) -> CountUnits:
    """Return what is to be kept of some rows."""
    sums = _row_sums(rows.counts, rows.counts.data).astype(np.int64)
    totals, n_rows = np.unique(sums, return_counts=True)
    return CountUnits(int(rows.counts.shape[1]), totals, n_rows, rows.is_sparse)


def join_units(one: CountUnits, other: CountUnits) -> CountUnits:
    """Return what is to be kept of the rows of both."""
    totals, place = np.unique(np.concatenate([one.totals, other.totals]), return_inverse=True)
    n_rows = np.zeros(totals.size, dtype=np.int64)
    np.add.at(n_rows, place, np.concatenate([one.n_rows, other.n_rows]))
    return CountUnits(one.n_outcomes, totals, n_rows, one.is_sparse and other.is_sparse)


def encode(rows: Rows) -> tuple[Counts, int]:
    """Return the data of the compiled model, and their number."""
    counts = rows.counts
    total = _row_sums(counts, counts.data)
    return Counts(
        counts.indptr[:-1].astype(np.int64),
        np.diff(counts.indptr).astype(np.int64),
        counts.indices.astype(np.int32),
        counts.data.astype(np.float64),
        total.astype(np.int64),
        gammaln(total + 1.0) - _row_sums(counts, gammaln(counts.data + 1.0)),
    ), int(counts.shape[0])


def make_room(units: CountUnits, n: int, rng: np.random.RandomState) -> Counts:
    """Return room for rows whose totals are those of rows of the training data."""
    ends = np.cumsum(units.n_rows)
    total = units.totals[np.searchsorted(ends, rng.randint(ends[-1], size=n), side="right")]
    room = np.minimum(total, units.n_outcomes)
    return Counts(
        np.cumsum(room) - room,
        np.zeros(n, dtype=np.int64),
        np.zeros(room.sum(), dtype=np.int32),
        np.zeros(room.sum()),
        total,
        np.zeros(n),
    )


def decode(units: CountUnits, data: Counts) -> npt.NDArray[np.int64] | sparse.csr_array:
    """Return rows as the user knows them."""
    indptr = np.concatenate([[0], np.cumsum(data.n_entries)])
    entries = np.arange(indptr[-1]) + np.repeat(data.start - indptr[:-1], data.n_entries)
    counts = sparse.csr_array(
        (data.counts[entries].astype(np.int64), data.outcomes[entries], indptr),
        shape=(data.total.size, units.n_outcomes),
    )
    return counts if units.is_sparse else counts.toarray()


def _row_sums(counts: sparse.csr_array, values: Floats) -> Floats:
    """Return the sums of values, one for each entry, over the rows."""
    n_rows = counts.shape[0]
    rows = np.repeat(np.arange(n_rows), np.diff(counts.indptr))
    return np.asarray(np.bincount(rows, weights=values, minlength=n_rows), dtype=np.float64)
