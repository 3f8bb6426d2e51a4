"""The draws of one chain: a SQLite file.

Rule 1. One chain, one file, one process that writes it. Draws are appended, never changed.
Rule 2. One draw, one transaction: the draw, and the state that the chain goes on from, are there
whole or not at all. A process that is killed loses no draw that was appended; where the power
fails, the last ones may be gone, and are drawn again, the same.
Rule 3. The file is the truth. Nothing about it is remembered, so a reader sees what other threads
and processes have written until now.
Rule 4. Every array and scalar is declared once: name, axes, meaning. Scalars of a draw stand in one
row, in the order of their declaration; arrays are stored as :mod:`treestick.store.arrays` has it.

In each file::

    declared(position, name, axes, meaning)
    draws(draw, sweep, seconds, scalars)                draw counts from 1
    arrays(draw, name, dtype, shape, content)
    saved(scope, sweep, structure)                      see treestick.store.values:
    saved_arrays(scope, name, dtype, shape, content)    "state" and "constants" of the chain
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from treestick.inputs import InvalidValue
from treestick.store.arrays import Packed, Unreadable, pack, single, smallest, unpack
from treestick.store.arrays import whole_or_single as compact
from treestick.store.errors import CannotWrite, DamagedRun
from treestick.store.labels import LabelFiles
from treestick.store.lock import Lock
from treestick.store.records import DrawRecord, Trace, declaration_of, find_fault, is_elsewhere
from treestick.store.sqlite_files import (
    BUSY_SECONDS,
    connect_to_read,
    is_out_of_reach,
    make_file,
    writing,
)
from treestick.store.values import Stored, restore_value, store_value

STATE, CONSTANTS = "state", "constants"
PAGES_IN_LOG = 8000
"""Of 4 KB, until the log is moved into the file, which waits for the disk. The state, which every
draw overwrites, is then moved once."""
ASSIGNMENTS = "assignments"
UNREADABLE = (sqlite3.DatabaseError, ValueError, TypeError, OverflowError)
"""What reading raises for a file that is not as it was written; values may have any type."""


class ChainFile:
    """The file of one chain. Any thread may read and write at any time.

    Parameters
    ----------
    path : Path
        The file; made when something is written.
    chain : int
        The number of the chain.
    is_locked : bool
        Whether a lock keeps other processes from writing, from the first write until ``close``.
        False for what is temporary.
    """

    def __init__(self, path: Path, chain: int, is_locked: bool = True) -> None:
        self.path, self.chain, self._is_locked = path, chain, is_locked
        self._mutex = threading.Lock()
        self._process = os.getpid()
        self._writer: sqlite3.Connection | None = None
        self._lock: Lock | None = None
        # What is gone with the process need not wait for the disk.
        self._synchronous = "NORMAL" if is_locked else "OFF"

    @property
    def labels(self) -> LabelFiles:
        """The files with the nodes of data that are elsewhere."""
        return LabelFiles(self.path.with_name(f"{self.path.stem}-labels"))

    @property
    def numbers(self) -> LabelFiles:
        """The files with what else a state has of these data: their atoms, or topics."""
        return LabelFiles(self.path.with_name(f"{self.path.stem}-numbers"))

    # -- writing -----------------------------------------------------------------------------------

    def append(self, record: DrawRecord, seconds: float = 0.0, state: Any = None) -> None:
        """Write a draw, and the state to go on from if there is one, as one transaction."""
        arrays = {
            "parent": pack(smallest(record.parent)),
            **({} if is_elsewhere(record) else {ASSIGNMENTS: pack(smallest(record.assignments))}),
            "theta": pack(single(record.theta)),
            "leaf_statistics": pack(compact(record.leaf_statistics)),
            **{name: pack(_floats(vector)) for name, vector in record.vectors.items()},
        }
        scalars = _floats(list(record.scalars.values())).astype("<f8").tobytes()
        stored = None if state is None else store_value(state)
        n_bytes = len(scalars) + sum(len(packed.content) for packed in arrays.values())
        with self._transaction(n_bytes + _size(stored)) as connection:
            self._declare(connection, record)
            draw = connection.execute(
                "INSERT INTO draws (sweep, seconds, scalars) VALUES (?, ?, ?)",
                (int(record.sweep), seconds, scalars),
            ).lastrowid
            connection.executemany(
                "INSERT INTO arrays VALUES (?, ?, ?, ?, ?)",
                ((draw, name, *packed) for name, packed in arrays.items()),
            )
            if stored is not None:
                _save(connection, STATE, record.sweep, stored)

    def save(self, scope: str, sweep: int, value: Any) -> None:
        """Write a value, in place of an earlier one of that scope."""
        stored = store_value(value)
        with self._transaction(_size(stored)) as connection:
            _save(connection, scope, sweep, stored)

    def _declare(self, connection: sqlite3.Connection, record: DrawRecord) -> None:
        """Declare what a draw holds, the first time; then hold it to that."""
        rows = connection.execute("SELECT name, axes FROM declared ORDER BY position").fetchall()
        if rows:
            names = [name for name, axes in rows if axes == ""]
            if names != list(record.scalars):
                raise ValueError(f"{self.path}: scalars {list(record.scalars)}, not {names}")
            return
        fields = {"parent": 1, "assignments": 1, "theta": 2, "leaf_statistics": 2}
        fields |= {name: np.ndim(vector) for name, vector in record.vectors.items()}
        for name, n_axes in {**fields, **dict.fromkeys(record.scalars, 0)}.items():
            axes, meaning = declaration_of(name, n_axes)
            connection.execute(
                "INSERT INTO declared (name, axes, meaning) VALUES (?, ?, ?)",
                (name, " ".join(axes), meaning),
            )

    @contextlib.contextmanager
    def _transaction(self, n_bytes: int) -> Iterator[sqlite3.Connection]:
        if os.getpid() != self._process:
            # SQLite's connections and locks do not survive a fork.
            raise CannotWrite(f"{self.path}: only the process that opened a run writes to it")
        with self._mutex, writing(self.path, n_bytes):
            if self._writer is None:
                self._open()
            assert self._writer is not None
            with self._writer as connection:
                yield connection

    def _open(self) -> None:
        if self._is_locked and self._lock is None:
            self._lock = Lock(self.path.with_suffix(".lock"))
        if not self.path.exists():
            make_file(self.path, self._synchronous)
        self._writer = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, check_same_thread=False, cached_statements=16
        )
        self._writer.execute(f"PRAGMA synchronous = {self._synchronous}")
        self._writer.execute(f"PRAGMA wal_autocheckpoint = {PAGES_IN_LOG}")

    def close(self) -> None:
        """End writing, so that no file stays open. Reading needs no more; an append opens anew."""
        if os.getpid() != self._process:
            return
        with self._mutex:
            if self._writer is not None:
                self._writer.close()
                self._writer = None
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    # -- reading -----------------------------------------------------------------------------------

    def n_draws(self) -> int:
        """Return how many draws there are; 0 if there is no file."""
        if not self.path.exists():
            return 0
        with self._reading() as connection:
            return _n_draws(connection)

    def read(self, draw: int) -> DrawRecord:
        """Return a draw; they count from 0 here."""
        with self._reading() as connection:
            return self._read(connection, draw)

    def _read(self, connection: sqlite3.Connection, draw: int) -> DrawRecord:
        row = connection.execute(
            "SELECT sweep, scalars FROM draws WHERE draw = ?", (draw + 1,)
        ).fetchone()
        if row is None:
            raise Unreadable(f"there is no draw {draw}")
        rows = connection.execute(
            "SELECT name, dtype, shape, content FROM arrays WHERE draw = ? ORDER BY rowid",
            (draw + 1,),
        ).fetchall()
        arrays = {name: unpack(Packed(*packed)) for name, *packed in rows}
        names = _scalar_names(connection)
        if ASSIGNMENTS not in arrays:
            arrays[ASSIGNMENTS] = self.labels.read_all(row[0])
        try:
            record = DrawRecord(
                parent=_axes(arrays.pop("parent"), 1, np.int64),
                assignments=_axes(arrays.pop(ASSIGNMENTS), 1, np.int64),
                theta=_axes(arrays.pop("theta"), 2, np.float64),
                leaf_statistics=_axes(arrays.pop("leaf_statistics"), 2, np.float64),
                scalars=dict(zip(names, _numbers(row[1], len(names)).tolist(), strict=True)),
                vectors={name: values.astype(np.float64) for name, values in arrays.items()},
                chain=self.chain,
                sweep=row[0],
            )
        except KeyError as error:
            raise Unreadable(f"draw {draw} has no {error}") from error
        fault = find_fault(record)
        if fault is not None:
            raise Unreadable(f"draw {draw}: {fault}")
        return record

    def trace(self) -> Trace:
        """Return the scalars of all draws, and vectors that have one length in all of them."""
        if not self.path.exists():
            return Trace(self.chain, np.empty(0, dtype=np.int64), np.empty(0), {})
        with self._reading() as connection:
            connection.execute("BEGIN")  # all tables as of one moment
            names = _scalar_names(connection)
            rows = connection.execute(
                "SELECT sweep, seconds, scalars FROM draws ORDER BY draw"
            ).fetchall()
            table = np.array([_numbers(row[2], len(names)) for row in rows])
            values = {name: table[:, k] for k, name in enumerate(names)} if rows else {}
            followed = connection.execute(
                "SELECT name FROM declared WHERE axes IN ('feature', 'topic')"
            ).fetchall()
            for (name,) in followed:
                packed = connection.execute(
                    "SELECT dtype, shape, content FROM arrays WHERE name = ? ORDER BY draw", (name,)
                ).fetchall()
                vectors = [unpack(Packed(*row), np.float64) for row in packed]
                if len(vectors) != len(rows) or len({vector.shape for vector in vectors}) > 1:
                    raise Unreadable(f"{name} is not the same vector in all draws")
                values[name] = np.stack(vectors)
        sweeps = np.array([row[0] for row in rows], dtype=np.int64)
        return Trace(self.chain, sweeps, np.array([row[1] for row in rows]), values)

    def load(self, scope: str, types: Iterable[type]) -> tuple[int, Any] | None:
        """Return the sweep and the value that were saved last, or None."""
        if not self.path.exists():
            return None
        with self._reading() as connection:
            connection.execute("BEGIN")
            row = connection.execute(
                "SELECT sweep, structure FROM saved WHERE scope = ?", (scope,)
            ).fetchone()
            if row is None:
                return None
            rows = connection.execute(
                "SELECT name, dtype, shape, content FROM saved_arrays WHERE scope = ?", (scope,)
            ).fetchall()
            arrays = {name: Packed(*packed) for name, *packed in rows}
            return row[0], restore_value(Stored(row[1], arrays), types)

    def progress(self) -> tuple[int, int]:
        """Return how many draws there are, and the last sweep that the chain can go on from."""
        if not self.path.exists():
            return 0, 0
        with self._reading() as connection:
            row = connection.execute("SELECT sweep FROM saved WHERE scope = ?", (STATE,)).fetchone()
            return _n_draws(connection), 0 if row is None else row[0]

    def content(self) -> bytes:
        """Return the whole file as of now, for a copy."""
        with self._reading() as connection:
            return connection.serialize()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(connect_to_read(self.path)) as connection:
                yield connection
        except UNREADABLE as error:
            if is_out_of_reach(error):
                raise InvalidValue(f"{self.path}: cannot be read: {error}") from error
            raise DamagedRun(
                f"{self.path} is damaged: {error}; {self._readable()}. Move the file away and "
                "resume: the same draws are made again"
            ) from error

    def _readable(self) -> str:
        """Say which draws can still be read."""
        found: list[int] = []
        with (
            contextlib.suppress(*UNREADABLE),
            closing(connect_to_read(self.path)) as connection,
        ):
            for draw in _salvaged_numbers(connection):
                with contextlib.suppress(*UNREADABLE):
                    self._read(connection, draw)
                    found.append(draw)
        return f"readable draws: {_ranges(found)}"


def _n_draws(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT ifnull(max(draw), 0) FROM draws").fetchone()[0])


def _salvaged_numbers(connection: sqlite3.Connection) -> list[int]:
    """Return the numbers of draws, as many as a damaged file still tells."""
    found = []
    with contextlib.suppress(*UNREADABLE):
        # By itself SQLite opens no file that is shorter than it was.
        connection.execute("PRAGMA writable_schema = ON")
        for (draw,) in connection.execute("SELECT draw FROM draws ORDER BY draw"):
            found.append(int(draw) - 1)
    return found


def _scalar_names(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("SELECT name FROM declared WHERE axes = '' ORDER BY position")
    return [name for (name,) in rows]


def _save(connection: sqlite3.Connection, scope: str, sweep: int, stored: Stored) -> None:
    connection.execute("DELETE FROM saved_arrays WHERE scope = ?", (scope,))
    connection.execute("REPLACE INTO saved VALUES (?, ?, ?)", (scope, int(sweep), stored.structure))
    connection.executemany(
        "INSERT INTO saved_arrays VALUES (?, ?, ?, ?, ?)",
        ((scope, name, *packed) for name, packed in stored.arrays.items()),
    )


def _size(stored: Stored | None) -> int:
    return 0 if stored is None else sum(len(packed.content) for packed in stored.arrays.values())


def _floats(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64)


def _numbers(content: Any, n: int) -> npt.NDArray[np.float64]:
    if not isinstance(content, bytes) or len(content) != 8 * n:
        raise Unreadable(f"there should be {n} scalars")
    return np.frombuffer(content, "<f8")


def _axes(array: npt.NDArray[Any], n_axes: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    if array.ndim != n_axes or (dtype is np.int64 and array.dtype.kind != "i"):
        raise Unreadable(f"an array of {array.dtype} with {array.ndim} axes is none of a draw's")
    return array.astype(dtype)


def _ranges(numbers: list[int]) -> str:
    """Write numbers in short: ``0-4, 7``."""
    parts: list[str] = []
    start = 0
    for k, number in enumerate(numbers):
        if k + 1 == len(numbers) or numbers[k + 1] != number + 1:
            first = numbers[start]
            parts.append(str(first) if first == number else f"{first}-{number}")
            start = k + 1
    return ", ".join(parts) or "none"
