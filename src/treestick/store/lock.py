"""Who writes: a lock file with the number of the process that holds it.

The operating system holds the lock and lets go of it when the process ends, however it ends: a
stale lock cannot be. The number in the file is there for the message.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

from treestick.store.errors import RunInUse


class Lock:
    """A lock that is held from when it is made until it is released."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if not _try_lock(self._file) and not _try_later(self._file):
            owner = os.read(self._file, 20).decode("ascii", "replace").strip() or "unknown"
            os.close(self._file)
            raise RunInUse(
                f"{path.parent} is in use by process {owner}; wait for it, or stop it first"
            )
        os.ftruncate(self._file, 0)
        os.write(self._file, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let go of the lock. The file stays, for its removal would race with the next owner."""
        with contextlib.suppress(OSError):  # the folder may be gone
            os.ftruncate(self._file, 0)
        os.close(self._file)


def owner_of(path: Path) -> int | None:
    """Return the process that holds a lock, or None."""
    try:
        file = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        if _try_lock(file):
            return None
        digits = os.read(file, 20).strip()
        return int(digits) if digits.isdigit() else None
    finally:
        os.close(file)


def _try_later(file: int) -> bool:
    """Try for a second: who asks for the owner holds a lock for a moment, who dies takes one."""
    for _ in range(20):
        time.sleep(0.05)
        if _try_lock(file):
            return True
    return False


if sys.platform == "win32":
    import msvcrt

    FAR = 2**30
    """The byte that is locked: Windows keeps others from reading locked bytes."""

    def _try_lock(file: int) -> bool:
        os.lseek(file, FAR, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(file, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def _try_lock(file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
