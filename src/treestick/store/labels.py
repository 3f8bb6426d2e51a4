"""Nodes of data that are elsewhere: files of labels, which the workers that have the data write.

For each sweep of a chain there is a folder, and in it a file for each shard, named after the number
of the shard's first datum. A file is there whole or not at all. That all files of a sweep are there
is known from the chain's own file, which is written after them: folders that it does not name do
not count.
"""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treestick.store.arrays import smallest
from treestick.store.errors import CannotWrite, DamagedRun

Integers = npt.NDArray[np.int64]


class LabelFiles(NamedTuple):
    """The labels of one chain."""

    folder: Path

    def write(self, sweep: int, first: int, labels: Integers) -> None:
        """Write the labels of a shard after a sweep."""
        path = self._path(sweep, first)
        aside = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(aside, "wb") as file:
                np.save(file, smallest(labels), allow_pickle=False)
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, path)
        except OSError as error:
            raise CannotWrite(
                f"{path}: cannot be written by the worker that has these data: "
                f"{error.strerror or error}; give a run_dir on storage that all workers reach"
            ) from error

    def read(self, sweep: int, start: int, stop: int) -> Integers:
        """Return the labels of some data after a sweep, whatever shards they were in."""
        labels = np.empty(stop - start, dtype=np.int64)
        n_found = 0
        for first in self._firsts(sweep):
            if first >= stop:
                break
            found = self._load(self._path(sweep, first))
            low, high = max(start, first), min(stop, first + found.size)
            if low < high:
                labels[low - start : high - start] = found[low - first : high - first]
                n_found += high - low
        if n_found != stop - start:
            raise DamagedRun(
                f"{self._of(sweep)}: labels of data from {start} to {stop} are missing"
            )
        return labels

    def read_all(self, sweep: int) -> Integers:
        """Return the labels of all data after a sweep."""
        firsts = self._firsts(sweep)
        if not firsts:
            raise DamagedRun(f"{self._of(sweep)}: there are no labels")
        return self.read(sweep, 0, firsts[-1] + self._load(self._path(sweep, firsts[-1])).size)

    def remove(self, sweep: int) -> None:
        """Remove the labels after a sweep, if there are any."""
        shutil.rmtree(self._of(sweep), ignore_errors=True)

    def _of(self, sweep: int) -> Path:
        return self.folder / f"{sweep:09d}"

    def _path(self, sweep: int, first: int) -> Path:
        return self._of(sweep) / f"{first:012d}.npy"

    def _firsts(self, sweep: int) -> list[int]:
        names = (path.stem for path in self._of(sweep).glob("*.npy"))
        return sorted(int(name) for name in names if name.isdecimal())

    def _load(self, path: Path) -> Integers:
        try:
            found = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise DamagedRun(f"{path}: cannot be read: {error}") from error
        if found.ndim != 1 or found.dtype.kind not in "iu":
            raise DamagedRun(f"{path}: has no labels")
        labels: Integers = found.astype(np.int64)
        return labels
