"""Counts of words read into a corpus: a matrix, and the files that topic models exchange.

Files may be packed (.gz). A vocabulary is a list of words or a file with a word on each line. A
line that cannot be right is an error with its number; nothing is guessed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from treestick.inputs import InvalidValue, shown
from treestick.io.arrays import MOST_COUNT, read_counts
from treestick.io.corpus import Corpus, make_corpus, read_vocabulary
from treestick.io.tables import read_mtx
from treestick.io.unpacking import check_extent, read_bytes

Vocabulary = Sequence[str] | str | Path | None


def read_matrix(
    X: Any,
    vocabulary: Vocabulary = None,
    *,
    ids: Sequence[object] | None = None,
    metadata: Any = None,
    encoding: str = "utf-8",
) -> Corpus:
    """Return a table of counts, a row for each document: an array, a data frame, a sparse matrix.

    The names of a data frame's columns are its vocabulary, if none is given.
    """
    counts = read_counts(X, "a corpus")
    words = read_vocabulary(vocabulary, encoding)
    if words is None and hasattr(X, "columns"):
        words = [str(name) for name in X.columns]
    return make_corpus(counts, words, ids, metadata, "the matrix")


def read_matrix_market(
    path: str | Path,
    vocabulary: Vocabulary = None,
    *,
    transposed: bool = False,
    ids: Sequence[object] | None = None,
    metadata: Any = None,
    encoding: str = "utf-8",
) -> Corpus:
    """Return a MatrixMarket file of counts, documents in rows (``transposed``: in columns)."""
    found = read_mtx(path)
    table: Any = sparse.csr_array(found.T if transposed else found)
    try:
        counts = read_counts(table, "a corpus")
    except ValueError as error:
        raise InvalidValue(f"{path}: {error}") from error
    return make_corpus(counts, read_vocabulary(vocabulary, encoding), ids, metadata, str(path))


def read_lda_c(
    path: str | Path,
    vocabulary: Vocabulary = None,
    *,
    ids: Sequence[object] | None = None,
    metadata: Any = None,
    encoding: str = "utf-8",
) -> Corpus:
    """Return a file of Blei's lda-c: on each line ``n word:count word:count ...``, words from 0."""
    first, words, counts = [0], [], []
    for number, line in enumerate(_lines(path), start=1):
        where = f"{path}, line {number}"
        parts = line.split()
        if not parts:
            raise InvalidValue(f"{where}: empty; a document without words is the line 0")
        pairs = [part.partition(b":") for part in parts[1:]]
        if _whole(parts[0], where) != len(pairs):
            raise InvalidValue(f"{where}: it says {parts[0].decode()} words and has {len(pairs)}")
        for word, colon, count in pairs:
            if not colon:
                raise InvalidValue(f"{where}: {shown(word.decode('latin-1'))} is not word:count")
            words.append(_whole(word, where))
            counts.append(_whole(count, where))
        first.append(len(words))
    names = read_vocabulary(vocabulary, encoding)
    n_words = len(names) if names is not None else max(words, default=-1) + 1
    if max(words, default=-1) >= n_words:
        raise InvalidValue(
            f"{path} has word {max(words)} (words count from 0) and the vocabulary only {n_words}"
        )
    check_extent(path, len(first) - 1, n_words)
    table: Any = sparse.csr_array(
        (np.array(counts, dtype=np.float64), np.array(words, dtype=np.int64), np.array(first)),
        shape=(len(first) - 1, n_words),
    )
    return _tidy(table, names, ids, metadata, path)


def read_docword(
    path: str | Path,
    vocabulary: Vocabulary = None,
    *,
    ids: Sequence[object] | None = None,
    metadata: Any = None,
    encoding: str = "utf-8",
) -> Corpus:
    """Return a UCI docword file: three lines with the numbers of documents, words and entries.

    Then an entry ``document word count`` on each line, documents and words from 1.
    """
    lines = _lines(path)
    if not lines:
        raise InvalidValue(f"{path} is empty")
    if len(lines) < 3:
        raise InvalidValue(f"{path}: the first three lines must be numbers; there are {len(lines)}")
    n_documents, n_words, n_entries = (
        _whole(line.strip(), f"{path}, line {k + 1}") for k, line in enumerate(lines[:3])
    )
    check_extent(path, n_documents, n_words)
    if n_entries != len(lines) - 3:
        raise InvalidValue(
            f"{path}, line 3: it says {n_entries} entries and the file has {len(lines) - 3}"
        )
    table = np.empty((3, n_entries), dtype=np.int64)
    for k, line in enumerate(lines[3:]):
        parts = line.split()
        where = f"{path}, line {k + 4}"
        if len(parts) != 3:
            raise InvalidValue(f"{where}: {shown(line.decode('latin-1'))} is not three numbers")
        for j, most, what in ((0, n_documents, "document"), (1, n_words, "word"), (2, 0, "count")):
            value = _whole(parts[j], where)
            if what != "count" and not 1 <= value <= most:
                raise InvalidValue(f"{where}: there is no {what} {value}; there are {most}")
            table[j, k] = value
    names = read_vocabulary(vocabulary, encoding)
    entries = (table[2].astype(np.float64), (table[0] - 1, table[1] - 1))
    counts: Any = sparse.csr_array(entries, shape=(n_documents, n_words))
    return _tidy(counts, names, ids, metadata, path)


def _lines(path: str | Path) -> list[bytes]:
    lines = read_bytes(path).replace(b"\r\n", b"\n").split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def _whole(digits: bytes, where: str) -> int:
    if not digits.isdigit():
        raise InvalidValue(f"{where}: {shown(digits.decode('latin-1'))} is not a whole number >= 0")
    value = int(digits) if len(digits) < 20 else MOST_COUNT + 1
    if value > MOST_COUNT:
        raise InvalidValue(f"{where}: {shown(digits.decode())} is too large (at most 2**40)")
    return value


def _tidy(
    counts: Any, vocabulary: Sequence[str] | None, ids: Any, metadata: Any, path: str | Path
) -> Corpus:
    counts.sum_duplicates()
    counts.eliminate_zeros()
    return make_corpus(counts, vocabulary, ids, metadata, str(path))
