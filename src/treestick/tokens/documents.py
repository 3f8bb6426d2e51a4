"""A corpus as the samplers read it: words of documents as cells, and as single tokens."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from treestick._jit import compiled
from treestick.inputs import InvalidValue
from treestick.lanes import Floats32
from treestick.random import Key, Purpose, philox

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

MOST_TOKENS = 2**31 - 1
MOST_OF_ONE = 2**24
"""Tokens of one document, or of one word: sums of ones are exact in float32 up to here."""


class Documents(NamedTuple):
    """Documents as rows of cells: a word, and how often it stands there."""

    first: Integers
    """Of each document: its first cell. One more at the end: the number of cells."""
    words: Numbers
    """Of each cell, ascending within a document."""
    counts: Numbers
    """Of each cell, at least 1."""
    first_token: Integers
    """Of each document: its first token, where tokens are counted cell by cell; one more too."""
    token_words: Numbers
    """Of each token: its word."""
    n_words: int
    """Size of the vocabulary."""


def make_documents(counts: sparse.csr_array) -> Documents:
    """Return a table of counts (see :func:`treestick.io.read_counts`) as documents."""
    n_words = int(counts.shape[1])
    numbers = counts.data.astype(np.int64)
    totals = np.add.reduceat(np.append(numbers, 0), counts.indptr[:-1].astype(np.int64))
    totals[np.diff(counts.indptr) == 0] = 0
    of_words = np.bincount(counts.indices, weights=counts.data, minlength=n_words)
    check_tokens(totals, of_words)
    if totals.sum() > MOST_TOKENS:
        raise InvalidValue(f"there are {int(totals.sum())} tokens; at most {MOST_TOKENS} can be")
    return Documents(
        counts.indptr.astype(np.int64),
        counts.indices.astype(np.int32),
        numbers.astype(np.int32),
        np.concatenate([[0], np.cumsum(totals)]).astype(np.int64),
        np.repeat(counts.indices, numbers).astype(np.int32),
        n_words,
    )


def check_tokens(totals: Any, of_words: Any) -> None:
    """Raise if a document, or a word in all documents, has more tokens than can be counted."""
    for what, sums in (("row", totals), ("column", of_words)):
        if sums.max(initial=0) > MOST_OF_ONE:
            largest = int(np.argmax(sums))
            raise InvalidValue(
                f"{what} {largest} has {int(sums[largest])} tokens; a document, and a word in all "
                f"documents together, may have at most {MOST_OF_ONE}"
            )


_BITS = np.uint64(40)
_MIDDLE = np.uint64(8)
_24 = np.uint64(2**24 - 1)
_ONE = np.uint64(1)
_SHARE = np.float32(2.0**-24)
PER_BLOCK = 8


@compiled
def fill_uniforms(key: Key, purpose: Purpose, entity: int, n: int, out: Floats32) -> None:
    """Write at least ``n`` draws from [0, 1), on a grid of 2**-24, into ``out``.

    They come eight at a time, two from each word of a block of Philox, so ``out`` has room for the
    next multiple of eight. The blocks are those of the stream of this purpose and entity.
    """
    for block in range((n + PER_BLOCK - 1) // PER_BLOCK):
        number = np.uint64(block) + _ONE
        words = philox(
            key.seed, key.chain, number, np.uint64(entity), np.uint64(purpose), key.sweep
        )
        for k in range(4):
            out[PER_BLOCK * block + 2 * k] = np.float32(np.int64(words[k] >> _BITS)) * _SHARE
            out[PER_BLOCK * block + 2 * k + 1] = (
                np.float32(np.int64((words[k] >> _MIDDLE) & _24)) * _SHARE
            )
