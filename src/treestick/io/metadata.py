"""Columns beside the data, from a file: CSV, TSV, JSON or JSON lines."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from treestick.inputs import InvalidValue
from treestick.io.corpus import decode
from treestick.io.unpacking import read_bytes

SEPARATOR = ";"
"""Between the values of a many-valued column in a table."""


def read_metadata(
    path: str | Path, n_data: int, many: Sequence[str] = (), encoding: str = "utf-8"
) -> dict[str, list[Any]]:
    """Return columns by their names, with an entry for each datum, in the order of the data.

    Parameters
    ----------
    path
        ``.csv`` or ``.tsv`` with names in the first line; ``.jsonl``, an object on each line; or
        ``.json``, a list of objects or an object of lists.
    n_data
        How many rows there have to be.
    many
        Columns of a table with several values in a cell, separated by ``;``. In JSON they are
        lists.
    encoding
        Of the file.
    """
    name = Path(path)
    if not name.is_file():
        raise InvalidValue(f"{path}: there is no such file")
    readers = {".csv": _read_csv, ".tsv": _read_tsv, ".json": _read_json, ".jsonl": _read_jsonl}
    if name.suffix not in readers:
        raise InvalidValue(f"{path} must end in .csv, .tsv, .json or .jsonl")
    text = decode(read_bytes(name), path, encoding).removeprefix("\ufeff")
    try:
        columns = readers[name.suffix](text)
    except (ValueError, RecursionError) as error:  # pandas' and those of JSON are among them
        raise InvalidValue(f"{path}: {' '.join(str(error).split())[:200]}") from error
    for column in many:
        if column not in columns:
            raise InvalidValue(f"{path} has no column {column!r}; it has {', '.join(columns)}")
        columns[column] = [_split(value) for value in columns[column]]
    for column, values in columns.items():
        if len(values) != n_data:
            raise InvalidValue(
                f"{path}: column {column!r} has {len(values)} values for {n_data} data"
            )
    return columns


def _split(value: Any) -> list[str]:
    if isinstance(value, list):
        return value
    return [part.strip() for part in str(value or "").split(SEPARATOR) if part.strip()]


def _read_csv(text: str, separator: str = ",") -> dict[str, list[Any]]:
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # cells that it would drop
        try:
            frame = pd.read_csv(io.StringIO(text), sep=separator, index_col=False)
        except pd.errors.ParserWarning as error:
            raise InvalidValue(str(error)) from error
    return {str(column): frame[column].tolist() for column in frame.columns}


def _read_tsv(text: str) -> dict[str, list[Any]]:
    return _read_csv(text, "\t")


def _read_jsonl(text: str) -> dict[str, list[Any]]:
    return _by_column([json.loads(line) for line in text.splitlines() if line.strip()])


def _read_json(text: str) -> dict[str, list[Any]]:
    return _by_column(json.loads(text))


def _by_column(found: Any) -> dict[str, list[Any]]:
    if isinstance(found, dict) and all(isinstance(values, list) for values in found.values()):
        return found
    if isinstance(found, list) and all(isinstance(row, dict) for row in found):
        names = list(dict.fromkeys(key for row in found for key in row))
        return {key: [row.get(key) for row in found] for key in names}
    raise InvalidValue("a list of objects or an object of lists is needed")
