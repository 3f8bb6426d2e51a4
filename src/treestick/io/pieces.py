"""Tables that are read piece by piece, where they are needed: rows of files, arrays of Dask.

A piece names rows and can be sent; :func:`load` reads it, and :func:`parts` some rows at a time.
"""

from __future__ import annotations

import contextlib
import glob as globbing
import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from treestick.engine.dask_workers import compute
from treestick.inputs import InvalidType, InvalidValue, shown
from treestick.io.npy import parse_npz, read_npz
from treestick.io.remote import RemoteArray, expand_url, is_url, open_url, read_url, reading

READERS = (".npy", ".npz", ".parquet", ".zarr")


class Source(NamedTuple):
    """A table that is elsewhere, or here."""

    n_rows: int
    n_columns: int
    names: list[str] | None
    """Of the columns."""
    piece: Callable[[int, int], Any]
    """Takes the first row and the one behind the last; returns what :func:`load` understands."""


class FileRows(NamedTuple):
    """Some rows of one file."""

    path: str
    start: int
    stop: int


class Described(NamedTuple):
    """What a file says of its table."""

    n_rows: int
    n_columns: int
    dtype: str
    names: list[str] | None


def open_source(X: Any, ask: Callable[[Callable[[str], Any], list[str]], list[Any]]) -> Source:
    """Return a table as a source: X is one, or names files, in a list or by a pattern.

    ``ask`` is like ``map``, and does it where files can be read.
    """
    if _is_dask(X):
        return _from_dask(X)
    if isinstance(X, str):
        X = ask(expand, [X])[0]
    if isinstance(X, list | tuple) and X and all(isinstance(x, str | os.PathLike) for x in X):
        return _from_files([os.fspath(path) for path in X], ask)
    if getattr(X, "ndim", None) != 2 and not hasattr(X, "iloc"):
        X = np.asarray(X)
    if X.ndim != 2 or X.shape[0] == 0:
        raise InvalidValue(f"X has shape {X.shape}; there must be rows and columns")
    rows = X.iloc if hasattr(X, "iloc") else X.tocsr() if hasattr(X, "tocsr") else X
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    return Source(X.shape[0], X.shape[1], names, lambda start, stop: rows[start:stop])


def expand(pattern: str) -> list[str]:
    """Return the files that a pattern stands for, sorted; raise if there are none."""
    is_far = is_url(pattern)
    found = expand_url(pattern) if is_far else sorted(globbing.glob(pattern, recursive=True))
    if not found:
        raise InvalidValue(f"{pattern}: no file has such a name")
    return found


# -- files -----------------------------------------------------------------------------------------


def _from_files(
    paths: list[str], ask: Callable[[Callable[[str], Any], list[str]], list[Any]]
) -> Source:
    described: list[Described] = ask(describe, paths)
    first = described[0]
    for path, other in zip(paths, described, strict=True):
        for what in ("n_columns", "dtype", "names"):
            if getattr(other, what) != getattr(first, what):
                said = what.removeprefix("n_")
                raise InvalidValue(
                    f"{path} has {said} {shown(getattr(other, what))}, and {paths[0]} has "
                    f"{shown(getattr(first, what))}; all files must be of one table"
                )
    ends = np.cumsum([one.n_rows for one in described])

    def piece(start: int, stop: int) -> list[FileRows]:
        rows = []
        for path, one, end in zip(paths, described, ends.tolist(), strict=True):
            begin = end - one.n_rows
            low, high = max(start, begin), min(stop, end)
            if low < high:
                rows.append(FileRows(path, low - begin, high - begin))
        return rows

    if ends[-1] == 0:
        raise InvalidValue(f"{paths[0]}: there are no rows in {len(paths)} files")
    return Source(int(ends[-1]), first.n_columns, first.names, piece)


def describe(path: str) -> Described:
    """Return what a file says of its table."""
    kind = _kind(path)
    try:
        if kind == ".parquet":
            with _open_parquet(path) as file:
                names = list(file.schema_arrow.names)
                types = ", ".join(sorted({str(t) for t in file.schema_arrow.types}))
                return Described(file.metadata.num_rows, len(names), types, names)
        table = _read_npz(path) if kind == ".npz" else _open_array(path, kind)
    except (OSError, ValueError, KeyError) as error:
        raise InvalidValue(f"{path}: cannot be read: {error}") from error
    if table.ndim != 2:
        raise InvalidValue(f"{path}: is an array of {table.ndim} dimensions, not a table")
    return Described(int(table.shape[0]), int(table.shape[1]), str(table.dtype), None)


def _parquet() -> Any:
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise InvalidValue(
            "Parquet needs pyarrow: python -m pip install 'treestick[export]'"
        ) from error


@contextlib.contextmanager
def _open_parquet(path: str) -> Iterator[Any]:
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open_url(path)) if is_url(path) else path
        yield stack.enter_context(_parquet().ParquetFile(file))


def _read_npz(path: str) -> Any:
    return parse_npz(read_url(path), path) if is_url(path) else read_npz(path)


def _kind(path: str) -> str:
    kind = Path(path.rstrip("/")).suffix
    if kind not in READERS:
        raise InvalidValue(f"{path}: cannot be read in pieces; that is for {', '.join(READERS)}")
    return kind


def _open_array(path: str, kind: str) -> Any:
    if kind == ".zarr":
        import zarr

        with reading(path) if is_url(path) else contextlib.nullcontext():
            return zarr.open_array(path, mode="r")
    if is_url(path):
        return RemoteArray(path)
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _read(rows: FileRows, size: int) -> Iterator[Any]:
    """Yield the rows of a file, at most ``size`` at a time."""
    kind = _kind(rows.path)
    try:
        if kind == ".parquet":
            yield from _read_parquet(rows, size)
        elif kind == ".npz":
            table = _read_npz(rows.path)
            table = table.tocsr() if hasattr(table, "tocsr") else table
            for start in range(rows.start, rows.stop, size):
                yield table[start : min(start + size, rows.stop)]
        else:
            for start in range(rows.start, rows.stop, size):
                stop = min(start + size, rows.stop)
                # Opened anew each time: pages that were read are freed.
                yield np.asarray(_open_array(rows.path, kind)[start:stop])
    except OSError as error:
        raise InvalidValue(f"{rows.path}: cannot be read: {error.strerror or error}") from error


def _read_parquet(rows: FileRows, size: int) -> Iterator[Any]:
    with _open_parquet(rows.path) as file:
        sizes = [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
        ends = np.cumsum(sizes)
        wanted = [
            k for k, end in enumerate(ends) if end > rows.start and end - sizes[k] < rows.stop
        ]
        first = int(ends[wanted[0]] - sizes[wanted[0]])
        for batch in file.iter_batches(batch_size=size, row_groups=wanted):
            low, high = max(rows.start - first, 0), min(rows.stop - first, batch.num_rows)
            first += batch.num_rows
            if low < high:
                yield batch.slice(low, high - low).to_pandas()


# -- Dask ------------------------------------------------------------------------------------------


def _is_dask(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(X, "dask")


def _from_dask(X: Any) -> Source:
    names = None
    if hasattr(X, "columns"):
        names = [str(name) for name in X.columns]
        X = X.to_dask_array(lengths=True)
    if X.ndim != 2:
        raise InvalidValue(f"X is an array of {X.ndim} dimensions, not a table")
    if any(np.isnan(size) for size in X.shape):
        X = X.compute_chunk_sizes()
    n_rows, n_columns = (int(size) for size in X.shape)
    if n_rows == 0:
        raise InvalidValue("X has no rows")

    def piece(start: int, stop: int) -> Any:
        from dask.base import optimize

        (part,) = optimize(X[start:stop])  # type: ignore[no-untyped-call]  # without the rest
        return part

    return Source(n_rows, n_columns, names, piece)


def parts(piece: Any, size: int) -> Iterator[Any]:
    """Read the rows of a piece: of files ``size`` rows at a time, of all else all at once."""
    if not _is_of_files(piece):
        yield load(piece)
        return
    waiting: list[Any] = []
    room = size
    for rows in piece:
        for table in _read(rows, size):
            while table.shape[0] >= room:
                yield _joined([*waiting, table[:room]])
                table, waiting, room = table[room:], [], size
            if table.shape[0]:
                waiting.append(table)
                room -= table.shape[0]
    if waiting:
        yield _joined(waiting)


def _is_of_files(piece: Any) -> bool:
    return isinstance(piece, list) and all(isinstance(rows, FileRows) for rows in piece)


def _joined(tables: list[Any]) -> Any:
    if len(tables) == 1:
        return tables[0]
    if hasattr(tables[0], "iloc"):
        import pandas as pd

        return pd.concat(tables, ignore_index=True)
    if sparse.issparse(tables[0]):
        return sparse.vstack(tables, format="csr")
    return np.concatenate(tables)


def load(piece: Any) -> Any:
    """Read the rows of a piece."""
    if _is_dask(piece):
        return compute(piece)
    if _is_of_files(piece):
        return next(parts(piece, sum(rows.stop - rows.start for rows in piece)))
    if isinstance(piece, str | bytes):
        raise InvalidType(f"{shown(piece)} is not a piece of a table")
    return piece
