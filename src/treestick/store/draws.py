"""Posterior draws on disk, so that 1,000 draws of 50,000 data do not sit in memory.

Rule 1. One chain, one SQLite file, ``chain-<number>.sqlite``, and one process that writes it. Draws
are appended, never changed.
Rule 2. One draw, one transaction: it is there whole or not at all.
Rule 3. The files are the truth. Nothing about them is remembered, so a reader sees what other
threads and processes have written until now.
Rule 4. An array is stored as little-endian bytes in C order, beside its dtype and shape; nothing is
pickled. A scalar is an array without dimensions, because SQLite's own numbers have no nan.
Rule 5. Disk space is what counts there: whole numbers take the smallest signed type that fits, and
theta float32, unless a value is too large or too small for that. In memory types must not depend on
values, because compiled code is compiled for each: what is read is int64 and float64.

In each file::

    draws(draw, sweep)                               draw counts from 1
    arrays(draw, field, name, dtype, shape, content)

where ``field`` is a field of :class:`DrawRecord` and ``name`` tells its scalars or vectors apart.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick.inputs import InvalidValue, check_whole_number

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Row = tuple[Any, ...]

TABLES = """
PRAGMA journal_mode = WAL;
CREATE TABLE draws (draw INTEGER PRIMARY KEY, sweep INTEGER NOT NULL);
CREATE TABLE arrays (
    draw INTEGER NOT NULL REFERENCES draws,
    field TEXT NOT NULL,
    name TEXT NOT NULL,
    dtype TEXT NOT NULL,
    shape TEXT NOT NULL,
    content BLOB NOT NULL,
    UNIQUE (draw, field, name)
);
"""


class DrawRecord(NamedTuple):
    """One draw: the state of a chain after a sweep."""

    parent: Integers
    """Parent of each node, shape (n_nodes,); -1 at the root."""
    assignments: npt.NDArray[np.signedinteger[Any]]
    """Node of each datum, shape (n_data,)."""
    theta: Floats
    """Parameters of each node, shape (n_nodes, size of a node's parameters)."""
    scalars: dict[str, float]
    """Hyperparameters, and numbers to be traced."""
    vectors: dict[str, Floats]
    """Hyperparameters with a value for each dimension, and tables that nodes share."""
    chain: int
    sweep: int
    leaf_statistics: Floats = np.empty((0, 0))
    """Sufficient statistics of the data at each node without children, in the order of nodes."""


class DrawStore:
    """The draws of all chains, in a folder.

    Any thread may append and read at any time. Only the process that made the store appends; others
    make their own store for the same folder, with other chains. Copies and pickles carry all draws
    with them, and unpack them into a temporary folder.

    Parameters
    ----------
    folder : Path, optional
        Where the files are; made if needed. Draws that it holds already stay. If not given, a
        temporary folder, which is removed with the store or when the interpreter exits.

    Attributes
    ----------
    folder : Path
        Where the files are.

    Examples
    --------
    >>> store = DrawStore()
    >>> parent, assignments = np.array([-1, 0]), np.array([1, 1, 0])
    >>> theta = np.array([[0.5], [2.0]])
    >>> store.append(DrawRecord(parent, assignments, theta, {"gamma": 0.2}, {}, chain=1, sweep=10))
    >>> store.n_per_chain()
    [0, 1]
    >>> store.read(0).scalars
    {'gamma': 0.2}
    """

    folder: Path

    def __init__(self, folder: Path | None = None) -> None:
        self._start(folder)

    def _start(self, folder: Path | None) -> None:
        with _in_one_line("written", folder or "the temporary folder"):
            if folder is None:
                self.folder = Path(tempfile.mkdtemp(prefix="treestick-")).resolve()
            else:
                self.folder = Path(folder).resolve()
                self.folder.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=self.folder):
                    pass  # to learn now that it cannot be written, not after hours of burn-in
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._writers: dict[int, sqlite3.Connection] = {}
        unneeded = self.folder if folder is None else None
        weakref.finalize(self, _finish, self._writers, unneeded, self._process)

    def append(self, record: DrawRecord) -> None:
        """Write one draw at the end of its chain."""
        chain = check_whole_number("chain", record.chain, 0)
        sweep = check_whole_number("sweep", record.sweep, 0)
        arrays = [_packed(*field) for field in _arrays(record)]
        with self._writing(chain) as connection:
            draw = connection.execute("INSERT INTO draws (sweep) VALUES (?)", (sweep,)).lastrowid
            rows = ((draw, *row) for row in arrays)
            connection.executemany("INSERT INTO arrays VALUES (?, ?, ?, ?, ?, ?)", rows)

    def read(self, position: int) -> DrawRecord:
        """Return one draw. Positions go by chain, and in a chain by the order of appending.

        While chains still run, a position may belong to another draw the next time.
        """
        counts = self.n_per_chain()
        if not any(counts):
            raise InvalidValue(f"position={position}: there are no draws in {self.folder}")
        below = check_whole_number("position", position, 0, sum(counts) - 1)
        chain = 0
        while below >= counts[chain]:
            below -= counts[chain]
            chain += 1
        draw = (below + 1,)
        with self._reading(chain) as connection:
            (sweep,) = connection.execute("SELECT sweep FROM draws WHERE draw = ?", draw).fetchone()
            rows = connection.execute(
                "SELECT field, name, dtype, shape, content FROM arrays WHERE draw = ? "
                "ORDER BY rowid",
                draw,
            ).fetchall()
        fields: dict[str, dict[str, Any]] = {"scalars": {}, "vectors": {}}
        for field, name, *packed in rows:
            fields.setdefault(field, {})[name] = _unpacked(*packed)
        return DrawRecord(
            parent=fields["parent"][""],
            assignments=fields["assignments"][""],
            theta=fields["theta"][""],
            scalars={name: float(value) for name, value in fields["scalars"].items()},
            vectors=fields["vectors"],
            chain=chain,
            sweep=sweep,
            leaf_statistics=fields["leaf_statistics"][""].astype(np.float64),
        )

    def n_per_chain(self) -> list[int]:
        """Return how many draws each chain has; 0 for a chain that has not begun."""
        chains = self._chains()
        counts = [0] * (max(chains, default=-1) + 1)
        for chain in chains:
            with self._reading(chain) as connection:
                (counts[chain],) = connection.execute(
                    "SELECT ifnull(max(draw), 0) FROM draws"
                ).fetchone()
        return counts

    def __len__(self) -> int:
        return sum(self.n_per_chain())

    def close(self) -> None:
        """End writing, so that no file stays open. Reading needs no more; an append opens anew."""
        with self._lock:
            _close(self._writers)

    def __getstate__(self) -> dict[str, Any]:
        return {"chains": {chain: self._content(chain) for chain in self._chains()}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._start(None)
        for chain, (draws, arrays) in state["chains"].items():
            with self._writing(chain) as connection:
                connection.executemany("INSERT INTO draws VALUES (?, ?)", draws)
                connection.executemany("INSERT INTO arrays VALUES (?, ?, ?, ?, ?, ?)", arrays)
        self.close()

    def _content(self, chain: int) -> tuple[list[Row], list[Row]]:
        with self._reading(chain) as connection:
            connection.execute("BEGIN")  # both tables as of one moment
            draws = connection.execute("SELECT * FROM draws").fetchall()
            return draws, connection.execute("SELECT * FROM arrays ORDER BY rowid").fetchall()

    def _path(self, chain: int) -> Path:
        return self.folder / f"chain-{chain}.sqlite"

    def _chains(self) -> list[int]:
        names = (path.stem.removeprefix("chain-") for path in self.folder.glob("chain-*.sqlite"))
        return sorted(int(name) for name in names if name.isdecimal())

    @contextlib.contextmanager
    def _reading(self, chain: int) -> Iterator[sqlite3.Connection]:
        path = self._path(chain)
        with (
            _in_one_line("read", path),
            closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection,
        ):
            yield connection

    @contextlib.contextmanager
    def _writing(self, chain: int) -> Iterator[sqlite3.Connection]:
        """Give a connection for one transaction, with all other writers waiting."""
        if os.getpid() != self._process:
            # SQLite's connections and locks do not survive a fork.
            raise InvalidValue(
                f"{self.folder}: only the process that made a DrawStore appends to it; make "
                "another one for this folder"
            )
        path = self._path(chain)
        with _in_one_line("written", path), self._lock:
            if chain not in self._writers:
                if not path.exists():
                    _make(path)
                connection = sqlite3.connect(path, check_same_thread=False)
                self._writers[chain] = connection
                connection.execute("PRAGMA synchronous = NORMAL")
            with self._writers[chain] as connection:
                yield connection


def _make(path: Path) -> None:
    """Make a file without draws: aside, so that no reader meets one without tables."""
    aside = path.with_suffix(".new")
    aside.unlink(missing_ok=True)  # of a process that was stopped here
    with closing(sqlite3.connect(aside)) as connection:
        connection.executescript(TABLES)
    os.replace(aside, path)


def _close(writers: dict[int, sqlite3.Connection]) -> None:
    while writers:
        writers.popitem()[1].close()


def _finish(writers: dict[int, sqlite3.Connection], unneeded: Path | None, process: int) -> None:
    """Clean up after a store; its copy in a forked process leaves everything to the original."""
    if os.getpid() != process:
        return
    _close(writers)
    if unneeded is not None:
        # A file that a reader removes at the same moment must not keep the others.
        shutil.rmtree(unneeded, ignore_errors=True)


@contextlib.contextmanager
def _in_one_line(done: str, path: Path | str) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.DatabaseError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise InvalidValue(f"draws cannot be {done}: {path}: {reason}") from error


def _arrays(record: DrawRecord) -> Iterator[tuple[str, str, npt.NDArray[Any]]]:
    """Yield field, name and array of all that a draw holds, in the types of the disk (rule 5)."""
    yield "parent", "", _smallest(record.parent)
    yield "assignments", "", _smallest(record.assignments)
    yield "theta", "", _single(record.theta)
    yield "leaf_statistics", "", _whole_or_single(record.leaf_statistics)
    for name, value in record.scalars.items():
        yield "scalars", name, np.asarray(value, dtype=np.float64)
    for name, vector in record.vectors.items():
        yield "vectors", name, np.asarray(vector, dtype=np.float64)


def _smallest(values: npt.NDArray[np.signedinteger[Any]]) -> npt.NDArray[Any]:
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    return values.astype(np.min_scalar_type(min(low, ~high)))  # ~high < 0 fits where high does


def _single(values: Floats) -> npt.NDArray[Any]:
    with np.errstate(over="ignore", under="ignore"):
        rounded = values.astype(np.float32)
    lost = (np.isinf(rounded) != np.isinf(values)) | ((rounded == 0.0) != (values == 0.0))
    return values if lost.any() else rounded


def _whole_or_single(values: Floats) -> npt.NDArray[Any]:
    whole = values.astype(np.int64) if np.abs(values).max(initial=0.0) < 2.0**53 else None
    return _single(values) if whole is None or (whole != values).any() else _smallest(whole)


def _packed(field: str, name: str, array: npt.NDArray[Any]) -> Row:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return field, name, little.dtype.str, json.dumps(little.shape), little.tobytes()


def _unpacked(dtype: str, shape: str, content: bytes) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.ndarray(json.loads(shape), dtype=dtype, buffer=content)
    return array.astype(np.int64 if array.dtype.kind == "i" else np.float64)
