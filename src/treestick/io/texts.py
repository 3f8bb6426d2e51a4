"""Texts read into a corpus: strings, a folder of files, JSON lines, a table with a column of texts.

Words are found and counted by scikit-learn's CountVectorizer. What it has options for is passed on:
``stop_words="english", min_df=5, ngram_range=(1, 2), token_pattern=...``.
"""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from treestick.inputs import InvalidType, InvalidValue, shown
from treestick.io.corpus import Corpus, decode, listed, make_corpus
from treestick.io.unpacking import read_bytes


def read_texts(
    texts: Sequence[str],
    *,
    ids: Sequence[object] | None = None,
    metadata: Any = None,
    source: str = "the list of texts",
    **options: Any,
) -> Corpus:
    """Return the words of a list of strings, one for each document.

    Parameters
    ----------
    texts
        The documents.
    ids
        Their names; numbers if not given.
    metadata
        A mapping of names to columns, or a data frame, with a row for each document.
    source
        Where the texts are from, for messages.
    options
        Of scikit-learn's ``CountVectorizer``; ``vocabulary=`` that of a corpus counts its words.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    if isinstance(texts, str | bytes):
        raise InvalidType(f"texts={shown(texts)} is one text; give a list of them")
    texts = list(texts)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidType(f"{source}, document {number}: {shown(text)} is not a text")
    if not texts:
        raise InvalidValue(f"{source} is empty: there are no documents")
    try:
        vectorizer = CountVectorizer(**options)
    except TypeError as error:
        raise InvalidValue(f"{str(error).removeprefix('CountVectorizer.__init__() ')}") from error
    try:
        found = vectorizer.fit_transform(texts)
    except ValueError as error:
        line = " ".join(str(error).split())
        raise InvalidValue(f"{source}, {len(texts)} documents: {line}") from error
    counts = sparse.csr_array(found, dtype=np.float64)
    counts.sort_indices()
    return make_corpus(counts, vectorizer.get_feature_names_out().tolist(), ids, metadata, source)


def read_folder(
    folder: str | Path, *, encoding: str = "utf-8", metadata: Any = None, **options: Any
) -> Corpus:
    """Return the words of all .txt files in a folder and those below, in the order of their paths.

    The ids are paths within the folder.
    """
    base = Path(folder)
    if not base.is_dir():
        raise InvalidValue(f"{folder}: there is no such folder")
    paths = sorted(path for path in base.rglob("*.txt") if path.is_file())
    if not paths:
        raise InvalidValue(f"{folder} is empty: there are no .txt files")
    texts = [decode(read_bytes(path), path, encoding) for path in paths]
    ids = [path.relative_to(base).as_posix() for path in paths]
    return read_texts(texts, ids=ids, metadata=metadata, source=str(folder), **options)


def read_jsonl(
    path: str | Path,
    *,
    text: str = "text",
    id: str | None = None,
    encoding: str = "utf-8",
    **options: Any,
) -> Corpus:
    """Return the words of a file with a JSON object on each line.

    Parameters
    ----------
    path
        The file; it may be packed (.gz).
    text
        The field with the text.
    id
        The field with the name of the document; lines are numbered from 1 if not given.
    encoding
        Of the file.
    options
        As for :func:`read_texts`. All other fields become metadata; a document that lacks one has
        None.
    """
    rows, numbers = [], []
    for number, line in enumerate(decode(read_bytes(path), path, encoding).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else error
            raise InvalidValue(f"{path}, line {number}: not JSON: {reason}") from error
        if not isinstance(row, dict):
            raise InvalidValue(f"{path}, line {number}: {shown(row)} is not an object")
        rows.append(row)
        numbers.append(number)
    return _from_rows(path, rows, numbers, text, id, options)


def read_csv(
    path: str | Path,
    *,
    text: str = "text",
    id: str | None = None,
    delimiter: str = ",",
    encoding: str = "utf-8",
    **options: Any,
) -> Corpus:
    """Return the words of a table with a head, in which one column has the texts.

    Parameters are those of :func:`read_jsonl`; other columns become metadata. Cells are texts, or
    whole numbers where all of a column are.
    """
    content = decode(read_bytes(path), path, encoding).removeprefix("\ufeff")
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter, strict=True)
    rows: list[dict[str, Any]] = []
    numbers = []
    csv.field_size_limit(2**31 - 1)
    try:
        head = next(reader, [])
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(head):
                raise InvalidValue(
                    f"{path}, line {reader.line_num}: {len(cells)} cells under {len(head)} names"
                )
            rows.append(dict(zip(head, cells, strict=True)))
            numbers.append(reader.line_num)
    except csv.Error as error:
        raise InvalidValue(f"{path}, line {reader.line_num}: {error}") from error
    if head and text not in head:
        raise InvalidValue(f"{path}: there is no column {text!r}; there are {listed(head)}")
    for name in head:
        if name not in (text, id) and all(_is_whole(row[name]) for row in rows):
            for row in rows:
                row[name] = int(row[name])
    return _from_rows(path, rows, numbers, text, id, options)


def _is_whole(cell: str) -> bool:
    # Leading zeros are those of codes, not of numbers.
    return cell.removeprefix("-").isdecimal() and str(int(cell)) == cell


def _from_rows(
    path: str | Path,
    rows: list[dict[str, Any]],
    numbers: list[int],
    text: str,
    id: str | None,
    options: dict[str, Any],
) -> Corpus:
    if not rows:
        raise InvalidValue(f"{path} is empty: there are no documents")
    for row, number in zip(rows, numbers, strict=True):
        for name in (text, id):
            if name is not None and name not in row:
                raise InvalidValue(
                    f"{path}, line {number}: there is no {name!r}; there are {listed(row)}"
                )
        if not isinstance(row[text], str):
            raise InvalidType(f"{path}, line {number}: {shown(row[text])} is not a text")
    others = dict.fromkeys(name for row in rows for name in row if name not in (text, id))
    return read_texts(
        [row[text] for row in rows],
        ids=numbers if id is None else [row[id] for row in rows],
        metadata={name: [row.get(name) for row in rows] for name in others},
        source=str(path),
        **options,
    )
