"""Rows that a worker holds: in memory as far as there is room, the others in files of its own.

Rule 1. Rows are made once in a process, for all chains of a fit.
Rule 2. What has found room stays. What has not is read from its file each time that it is asked
for: questions go through all shards in the same order, so what was read last would be needed last.
Each thread keeps what it read last, because one question may ask for it several times.
"""

from __future__ import annotations

import math
import pickle
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from treestick.store.errors import CannotWrite
from treestick.store.values import arrays_of


class Name(NamedTuple):
    """What rows are called."""

    fit: str
    first: int
    """Number of the first one among all data."""


class Holder:
    """The rows of one process.

    Parameters
    ----------
    room : float
        Bytes of rows that may stay in memory, beside those that each thread has read last.
    folder : str, optional
        Where files are made, in a folder of their own, which goes with the process.
    """

    def __init__(self, room: float = math.inf, folder: str | None = None) -> None:
        self._room, self._where = room, folder
        self._in_memory: dict[Name, Any] = {}
        self._files: dict[Name, Path] = {}
        self._folder: Path | None = None
        self._mutex = threading.Lock()
        self._last = threading.local()

    def put(self, name: Name, make: Callable[[], Any]) -> None:
        """Have rows made, if they are not there."""
        with self._mutex:
            if name in self._in_memory or name in self._files:
                return
        rows = make()
        with self._mutex:
            n_bytes = _size(rows)
            if n_bytes <= self._room:
                self._room -= n_bytes
                self._in_memory[name] = rows
            else:
                self._files[name] = self._write(name, rows)

    def get(self, name: Name) -> Any:
        """Return rows that were put here."""
        rows = self._in_memory.get(name)
        if rows is not None:
            return rows
        if getattr(self._last, "name", None) != name:
            self._last.name = self._last.rows = None  # before the next ones are in memory, too
            with open(self._files[name], "rb") as file:
                self._last.rows = pickle.load(file)
            self._last.name = name
        return self._last.rows

    def n_bytes(self) -> tuple[int, int]:
        """Return how many bytes of rows are in memory, and in files."""
        with self._mutex:
            in_memory = sum(_size(rows) for rows in self._in_memory.values())
            return in_memory, sum(path.stat().st_size for path in self._files.values())

    def forget(self, fit: str) -> None:
        """Throw away all rows of a fit."""
        with self._mutex:
            for name in [name for name in self._in_memory if name.fit == fit]:
                self._room += _size(self._in_memory.pop(name))
            for name in [name for name in self._files if name.fit == fit]:
                self._files.pop(name).unlink()
        self._last = threading.local()

    def _write(self, name: Name, rows: Any) -> Path:
        try:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="treestick-", dir=self._where))
                weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            path = self._folder / f"{name.fit}-{name.first}"
            with open(path, "wb") as file:
                pickle.dump(rows, file, protocol=5)
        except OSError as error:
            raise CannotWrite(
                f"{self._where or tempfile.gettempdir()}: rows for which the worker has no memory "
                f"cannot be written: {error.strerror or error}"
            ) from error
        return path


def _size(rows: Any) -> int:
    return sum(array.nbytes for array in arrays_of(rows).values())


_holder = Holder()


def the_holder() -> Holder:
    """Return the holder of this process."""
    return _holder


def set_limits(room: float, folder: str) -> None:
    """Say, before there are any rows, how many bytes may be in memory, and where files go."""
    global _holder
    _holder = Holder(room, folder)
