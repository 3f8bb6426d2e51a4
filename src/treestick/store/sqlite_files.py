"""SQLite files: how they are made, opened for reading, and what is said when the disk is full."""

import contextlib
import os
import shutil
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from treestick.store.errors import CannotWrite

BUSY_SECONDS = 30.0
"""How long to wait for others where readers and the writer exclude each other (no WAL)."""
NETWORKED = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "fuse.sshfs", "lustre", "ceph")
TABLES = """
CREATE TABLE declared (
    position INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, axes TEXT NOT NULL,
    meaning TEXT NOT NULL
);
CREATE TABLE draws (
    draw INTEGER PRIMARY KEY, sweep INTEGER NOT NULL, seconds REAL NOT NULL, scalars BLOB NOT NULL
);
CREATE TABLE arrays (
    draw INTEGER NOT NULL REFERENCES draws, name TEXT NOT NULL, dtype TEXT NOT NULL,
    shape TEXT NOT NULL, content BLOB NOT NULL, UNIQUE (draw, name)
);
CREATE TABLE saved (scope TEXT PRIMARY KEY, sweep INTEGER NOT NULL, structure TEXT NOT NULL);
CREATE TABLE saved_arrays (
    scope TEXT NOT NULL, name TEXT NOT NULL, dtype TEXT NOT NULL, shape TEXT NOT NULL,
    content BLOB NOT NULL, UNIQUE (scope, name)
);
"""


def make_file(path: Path, synchronous: str) -> None:
    """Make a file without draws: aside, so that no reader meets one without tables."""
    aside = path.with_suffix(".new")
    aside.unlink(missing_ok=True)  # of a process that was stopped here
    with closing(sqlite3.connect(aside)) as connection:
        connection.executescript(
            f"PRAGMA synchronous = {synchronous}; BEGIN; {TABLES} COMMIT; PRAGMA user_version = 1"
        )
        has_log = not is_networked(path)
        if has_log:
            has_log = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] == "wal"
        if not has_log:
            connection.execute("PRAGMA journal_mode = TRUNCATE")
            warnings.warn(
                f"{path.parent} is on a file system without write-ahead logs (WAL), such as a "
                "network drive: draws are as safe, but who reads has to wait for who writes. A "
                "local folder is faster",
                RuntimeWarning,
                stacklevel=2,
            )
    os.replace(aside, path)


def is_networked(path: Path) -> bool:
    """Return whether a file lies on a network drive, where Linux tells."""
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return False
    best, kind = "", ""
    for line in mounts.read_text(errors="replace").splitlines():
        _, place, form, *_ = line.split(" ")
        place = place.replace("\\040", " ")
        is_above = place == "/" or f"{path}/".startswith(f"{place}/")
        if is_above and len(place) >= len(best):
            best, kind = place, form
    return kind in NETWORKED


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open a file that another process may be writing."""
    # In a folder that cannot be written, SQLite cannot make the index of a log, and needs none.
    mode = "mode=ro" if os.access(path.parent, os.W_OK) else "mode=ro&immutable=1"
    return sqlite3.connect(f"{path.as_uri()}?{mode}", uri=True, timeout=BUSY_SECONDS)


def is_out_of_reach(error: Exception) -> bool:
    """Return whether a file could not be opened, or is in use, rather than wrong."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN)


@contextlib.contextmanager
def writing(path: Path, n_bytes: int) -> Iterator[None]:
    """Say in one line if the disk does not take so many bytes."""
    try:
        yield
    except (OSError, sqlite3.DatabaseError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        try:
            free = f"{shutil.disk_usage(path.parent).free} are free"
        except OSError:
            free = "the folder is gone"
        raise CannotWrite(
            f"{path}: cannot be written: {reason}; {n_bytes} bytes are needed, {free}. What was "
            "written before is safe: make room, and resume"
        ) from error
