"""A corpus: counts of words in documents, and what is known of the documents beside."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from treestick.inputs import InvalidType, InvalidValue, shown
from treestick.io.unpacking import read_bytes


class Corpus(NamedTuple):
    """Documents as bags of words. Rows of ``counts`` go with ``ids`` and with each of ``metadata``.

    Estimators that count words take it in place of ``counts``, with the vocabulary as the names of
    the features.
    """

    counts: sparse.csr_array
    """How often each word stands in each document, shape (n_documents, n_words)."""
    vocabulary: list[str]
    """The words, in the order of the columns."""
    ids: list[str]
    """Names of the documents, that of a file or a row, or their number."""
    metadata: dict[str, list[Any]]
    """Columns with a value for each document, such as title, authors, year, label, ..."""

    def __repr__(self) -> str:
        beside = f"; {', '.join(self.metadata)}" if self.metadata else ""
        return (
            f"Corpus: {self.counts.shape[0]} documents, {len(self.vocabulary)} words, "
            f"{int(self.counts.sum())} tokens{beside}"
        )


def make_corpus(
    counts: sparse.csr_array,
    vocabulary: Sequence[str] | None = None,
    ids: Sequence[object] | None = None,
    metadata: Any = None,
    source: str = "the corpus",
) -> Corpus:
    """Return a corpus, or say what does not fit together.

    Words and documents without a name have their number.
    """
    n_documents, n_words = counts.shape
    if n_documents == 0:
        raise InvalidValue(f"{source} is empty: there are no documents")
    if counts.sum() == 0:
        raise InvalidValue(f"{source} has no words: all {n_documents} documents are empty")
    words = list(map(str, range(n_words))) if vocabulary is None else [str(w) for w in vocabulary]
    if len(words) != n_words:
        raise InvalidValue(
            f"{source} has {n_words} different words and the vocabulary {len(words)}; "
            "give the vocabulary of these documents"
        )
    twice = [word for word, times in Counter(words).items() if times > 1]
    if twice:
        raise InvalidValue(f"the vocabulary has {shown(twice[0])} more than once")
    names = list(map(str, range(n_documents) if ids is None else ids))
    if len(names) != n_documents:
        raise InvalidValue(f"there are {len(names)} ids for {n_documents} documents")
    return Corpus(counts, words, names, check_metadata(metadata, n_documents))


def check_metadata(metadata: Any, n_documents: int) -> dict[str, list[Any]]:
    """Return columns of a mapping or a data frame, if each has a value for each document."""
    if metadata is None:
        return {}
    if not hasattr(metadata, "keys"):
        raise InvalidType(
            f"metadata={shown(metadata)} is neither a mapping of names to columns nor a data frame"
        )
    columns = {}
    for name in metadata:
        values = metadata[name]
        if isinstance(values, str) or not hasattr(values, "__len__"):
            raise InvalidType(f"metadata {shown(name)}: {shown(values)} is not a column of values")
        if len(values) != n_documents:
            raise InvalidValue(
                f"metadata {shown(name)} has {len(values)} rows for {n_documents} documents"
            )
        columns[str(name)] = list(values)
    return columns


def known_counts(corpus: Corpus, vocabulary: Sequence[str]) -> sparse.csr_array:
    """Return the counts of a corpus with the columns of another vocabulary.

    Words that this one does not have are dropped, and a warning says how many.
    """
    column = {word: k for k, word in enumerate(vocabulary)}
    where = np.array([column.get(word, -1) for word in corpus.vocabulary], dtype=np.int64)
    counts = corpus.counts.tocoo()
    columns = where[counts.coords[1]]
    is_known = columns >= 0
    dropped = int(counts.data[~is_known].sum())
    if not is_known.any():
        raise InvalidValue(
            f"none of the {len(corpus.vocabulary)} words is in the vocabulary of the topics "
            f"({len(vocabulary)} words): a vocabulary mismatch"
        )
    if dropped:
        n_different = len(np.unique(counts.coords[1][~is_known]))
        warnings.warn(
            f"{dropped} of {int(counts.data.sum())} tokens were dropped: {n_different} different "
            "words are not in the vocabulary of the topics",
            UserWarning,
            stacklevel=3,
        )
    return sparse.csr_array(
        (counts.data[is_known], (counts.coords[0][is_known], columns[is_known])),
        shape=(corpus.counts.shape[0], len(vocabulary)),
    )


def listed(names: Iterable[object]) -> str:
    """Return names for a message, on one line: those in files may have line breaks in them."""
    some = [" ".join(str(name).split()) for name in names]
    return ", ".join(some[:10]) + (" ..." if len(some) > 10 else "")


def decode(content: bytes, path: str | Path, encoding: str) -> str:
    """Return the text of a file, or say where it cannot be decoded."""
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        wrong = content[error.start : error.start + 1].hex()
        raise InvalidValue(
            f"{path}: byte 0x{wrong} at offset {error.start} is not {encoding}; "
            "give the file's encoding"
        ) from error
    except LookupError as error:
        raise InvalidValue(f"encoding={encoding!r} is not known") from error


def read_vocabulary(
    vocabulary: Sequence[str] | str | Path | None, encoding: str
) -> Sequence[str] | None:
    """Return a vocabulary, read from a file with a word on each line if it is a path."""
    if isinstance(vocabulary, str | Path):
        return decode(read_bytes(vocabulary), vocabulary, encoding).splitlines()
    return vocabulary
