"""Bytes of files, unpacked within limits: what is small on disk must not fill the memory."""

import gzip
import io
import lzma
import struct
import zipfile
import zlib
from pathlib import Path

from treestick.inputs import InvalidValue

LEAST_LIMIT, MOST_RATIO = 2**26, 200
"""A packed file may hold 64 MB, or 200 times its own size if that is more."""
CHUNK = 2**20
PACKING_ERRORS = (
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
)
"""What Python's archives raise for content that is none."""
MOST_ROWS = 2**25
"""Of a sparse table: rows and columns take memory even where nothing is in them."""


def read_bytes(path: str | Path) -> bytes:
    """Return the content of a file, unpacked if its name ends with .gz."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InvalidValue(f"{path}: cannot be read: {error.strerror or error}") from error
    if not str(path).endswith(".gz"):
        return content
    limit = _limit(len(content))
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
            unpacked = bytearray()
            # To the end, where the checksum is.
            while len(unpacked) <= limit and (part := packed.read(CHUNK)):
                unpacked += part
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidValue(f"{path}: cannot be unpacked: {error}") from error
    if len(unpacked) > limit:
        raise InvalidValue(_too_large(path, limit))
    return bytes(unpacked)


def unpack_archive(content: bytes, path: str | Path) -> list[tuple[str, bytes]]:
    """Return names and contents of the files in a zip archive, which was read from ``path``."""
    limit = _limit(len(content))
    found: list[tuple[str, bytes]] = []
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for entry in archive.infolist():
                with archive.open(entry) as packed:
                    unpacked = packed.read(limit + 1)
                limit -= len(unpacked)
                if limit < 0:
                    break
                found.append((entry.filename, unpacked))
    except PACKING_ERRORS as error:
        raise InvalidValue(f"{path}: is not an archive that can be unpacked: {error}") from error
    if limit < 0:
        raise InvalidValue(_too_large(path, _limit(len(content))))
    return found


def _limit(n_bytes: int) -> int:
    return max(LEAST_LIMIT, MOST_RATIO * n_bytes)


def _too_large(path: str | Path, limit: int) -> str:
    return f"{path}: unpacks to more than {limit} bytes; unpack it yourself if that is right"


def check_extent(path: str | Path, n_rows: int, n_columns: int) -> None:
    """Raise if a sparse table says that it has more rows or columns than can be."""
    if max(n_rows, n_columns) > MOST_ROWS:
        raise InvalidValue(
            f"{path}: {n_rows} rows and {n_columns} columns; there may be at most {MOST_ROWS}"
        )
