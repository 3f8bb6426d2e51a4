"""What is known of the data beside the data: columns that nodes are summed up by.

A column is a table of categories. A label has one for each datum, a many-valued column (authors)
any number, and numbers are put into bins of equal width; those few that are whole, such as years,
get a bin each. Then one count does for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick.inputs import InvalidValue

MOST_WHOLE_NUMBERS = 40
"""Whole numbers in a range up to this get a bin each."""
N_BINS = 16

Integers = npt.NDArray[np.int64]


class Column(NamedTuple):
    """One column. Entries of datum n are ``codes[starts[n] : starts[n + 1]]``."""

    name: str
    ordered: bool
    """Whether categories have an order: a histogram; else the most common ones are shown."""
    names: tuple[str, ...]
    """Of the categories."""
    starts: Integers
    codes: Integers
    values: npt.NDArray[np.float64] | None = None
    """The numbers themselves, nan where there is none."""

    def counts(self, data: npt.NDArray[Any]) -> Integers:
        """Return how many of ``data`` (their numbers) are in each category."""
        member = np.zeros(self.starts.size - 1, dtype=np.bool_)
        member[data] = True
        entries = np.repeat(member, np.diff(self.starts))
        return np.bincount(self.codes[entries], minlength=len(self.names))


def read_columns(metadata: Mapping[str, Sequence[Any]] | Any, n_data: int) -> tuple[Column, ...]:
    """Return the columns of a mapping or a data frame; each has an entry for each datum."""
    if metadata is None:
        return ()
    columns = []
    for name in metadata:
        values = list(metadata[name])
        if len(values) != n_data:
            raise InvalidValue(
                f"metadata: column {str(name)!r} has {len(values)} values for {n_data} data"
            )
        columns.append(_read_column(str(name), values))
    return tuple(columns)


def _read_column(name: str, values: list[Any]) -> Column:
    if any(isinstance(value, list | tuple | set | frozenset) for value in values):
        listed = [[] if _is_missing(value) else _as_list(value) for value in values]
        return _categories(name, listed)
    known = [value for value in values if not _is_missing(value)]
    if known and all(isinstance(value, int | float | np.number) for value in known):
        numbers = np.array([np.nan if _is_missing(v) else float(v) for v in values])
        return _bins(name, numbers)
    return _categories(name, [[] if _is_missing(value) else [str(value)] for value in values])


def _as_list(value: Any) -> list[str]:
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return [str(v) for v in value] if isinstance(value, list | tuple) else [str(value)]


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float | np.floating) and not np.isfinite(value))


def _categories(name: str, listed: list[list[str]]) -> Column:
    """Return a column of labels; the most common has the number 0."""
    starts = np.cumsum([0, *map(len, listed)])
    entries = [entry for entry_list in listed for entry in entry_list]
    names, codes = np.unique(np.array(entries, dtype=object), return_inverse=True)
    order = np.argsort(-np.bincount(codes, minlength=names.size), kind="stable")
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size)
    return Column(name, False, tuple(names[order].tolist()), starts, rank[codes])


def _bins(name: str, values: npt.NDArray[np.float64]) -> Column:
    known = np.isfinite(values)
    starts = np.concatenate([[0], np.cumsum(known)])
    low, high = values[known].min(), values[known].max()
    if np.all(values[known] == np.round(values[known])) and high - low < MOST_WHOLE_NUMBERS:
        names = tuple(str(k) for k in range(int(low), int(high) + 1))
        return Column(name, True, names, starts, (values[known] - low).astype(np.int64), values)
    edges = np.linspace(low, high, N_BINS + 1)
    codes = np.clip(np.searchsorted(edges, values[known], side="right") - 1, 0, N_BINS - 1)
    names = tuple(f"{a:.4g} to {b:.4g}" for a, b in pairwise(edges))
    return Column(name, True, names, starts, codes, values)
