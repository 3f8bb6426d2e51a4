"""Files that have a URL, such as ``s3://bucket/part-0.npy``: fsspec opens them, if it knows how.

fsspec comes with Dask, and what it needs for a kind of storage (s3fs for ``s3://``, gcsfs for
``gs://``) is for every worker to have.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from treestick.inputs import InvalidValue
from treestick.io.npy import read_head


def is_url(path: object) -> bool:
    """Say whether a path is one."""
    return isinstance(path, str) and "://" in path


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Say in one line what is wrong with a URL: storages raise what they like."""
    try:
        yield
    except InvalidValue:
        raise
    except FileNotFoundError as error:
        raise InvalidValue(f"{path}: there is no such file") from error
    except Exception as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise InvalidValue(f"{path}: cannot be read: {said[:300]}") from error


def expand_url(pattern: str) -> list[str]:
    """Return the URLs that a pattern stands for, sorted."""
    with reading(pattern):
        fsspec: Any = importlib.import_module("fsspec.core")  # not typed
        storage, inside = fsspec.url_to_fs(pattern)
        return sorted(storage.unstrip_protocol(path) for path in storage.glob(inside))


@contextlib.contextmanager
def open_url(path: str) -> Iterator[IO[bytes]]:
    """Open a file to read from, at any place."""
    with reading(path):
        fsspec: Any = importlib.import_module("fsspec")  # not typed
        with fsspec.open(path, "rb") as file:
            yield file


def read_url(path: str) -> bytes:
    """Return all of a file."""
    with open_url(path) as file:
        return file.read()


class RemoteArray:
    """The array in an .npy file; rows are read when they are asked for."""

    def __init__(self, path: str) -> None:
        with open_url(path) as file:
            self.shape, is_by_columns, self.dtype = read_head(file, path)
            self._start = file.tell()
        if is_by_columns and len(self.shape) > 1:
            raise InvalidValue(
                f"{path}: is stored by columns, so that rows cannot be read by themselves; write "
                "it anew with numpy.ascontiguousarray"
            )
        self._path = path

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return len(self.shape)

    def __getitem__(self, rows: slice) -> Any:
        start, stop, _ = rows.indices(self.shape[0])
        size = int(np.prod(self.shape[1:])) * self.dtype.itemsize
        with open_url(self._path) as file:
            file.seek(self._start + start * size)
            content = file.read((stop - start) * size)
        if len(content) != (stop - start) * size:
            raise InvalidValue(f"{self._path}: ends before row {stop - 1}")
        return np.frombuffer(content, self.dtype).reshape(stop - start, *self.shape[1:])
