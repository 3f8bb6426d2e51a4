"""Some rows of data, and several pieces together: data are named tuples of arrays.

In most of them every array has a row for each datum. Others are registered here.
"""

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from treestick.families.multinomial import Counts
from treestick.moves.state import Integers


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


def join_rows(pieces: Sequence[Any]) -> Any:
    """Return all rows of some pieces, one piece after the other."""
    kind = type(pieces[0])
    joined = kind(*(np.concatenate(arrays) for arrays in zip(*pieces, strict=True)))
    if kind is Counts:
        offsets = np.cumsum([0, *(piece.outcomes.size for piece in pieces[:-1])])
        starts = [piece.start + at for piece, at in zip(pieces, offsets, strict=True)]
        joined = joined._replace(start=np.concatenate(starts))
    return joined
