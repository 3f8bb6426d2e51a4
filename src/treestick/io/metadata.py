"""Columns beside the data, from a file: CSV, TSV, JSON or JSON lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from treestick.inputs import InvalidValue

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
    try:
        if name.suffix in (".csv", ".tsv"):
            columns = _read_table(name, encoding)
        elif name.suffix in (".json", ".jsonl"):
            columns = _read_json(name, encoding)
        else:
            raise InvalidValue(f"{path} must end in .csv, .tsv, .json or .jsonl")
    except UnicodeDecodeError as error:
        raise InvalidValue(f"{path} is not {encoding}: {error}") from error
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


def _read_table(name: Path, encoding: str) -> dict[str, list[Any]]:
    import pandas as pd

    separator = "\t" if name.suffix == ".tsv" else ","
    try:
        frame = pd.read_csv(name, sep=separator, encoding=encoding, index_col=False)
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InvalidValue(f"{name}: {' '.join(str(error).split())}") from error
    return {str(column): frame[column].tolist() for column in frame.columns}


def _read_json(name: Path, encoding: str) -> dict[str, list[Any]]:
    text = name.read_text(encoding=encoding)
    try:
        if name.suffix == ".jsonl":
            found: Any = [json.loads(line) for line in text.splitlines() if line.strip()]
        else:
            found = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidValue(f"{name}: {error}") from error
    if isinstance(found, dict) and all(isinstance(values, list) for values in found.values()):
        return found
    if isinstance(found, list) and all(isinstance(row, dict) for row in found):
        names = list(dict.fromkeys(key for row in found for key in row))
        return {key: [row.get(key) for row in found] for key in names}
    raise InvalidValue(f"{name}: a list of objects or an object of lists is needed")
