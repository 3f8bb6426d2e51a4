"""The compile policy: one decorator, and a disk cache that is never stale.

Rule 1. Every compiled function of the package is decorated with :func:`compiled`, nothing else.
Rule 2. Nothing is compiled at import: a function compiles when it is first called.
Rule 3. The cache folder carries a digest of *all* sources of the package, and the versions of
Numba and Python. Numba's own cache looks only at the file of the function itself, and so serves
stale code when a function that it calls, in another file, has changed. The digest is taken when the
package is imported; once a source has changed under a running process, that process leaves the
cache alone.
Rule 4. One file holds one compiled signature, is named by that signature, written aside and moved
into place, and carries a checksum. Processes that start together may compile the same thing twice,
but never read half of a file or each other's signature. (Numba's own cache numbers its files in an
index that it reads, changes and writes, which two processes can do at once.)
Rule 5. The folder is ``$TREESTICK_CACHE_DIR`` if that is set, else the user's cache folder, else
one of the user's own below the temporary folder; never site-packages, which may be read-only. Where
none can be written, a warning says so once and everything still works, compiled in each process.
Rule 6. Python code calls compiled functions that may take long inside :func:`deferred_interrupts`,
a second or so of work at a time. An interrupt (Ctrl-C) that becomes an exception while Numba hands
its result back to Python ends the process with a segmentation fault.

With ``NUMBA_DISABLE_JIT=1`` the decorator leaves functions as they are: a slow oracle for free.
"""

import contextlib
import functools
import hashlib
import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeVar

import numba
import platformdirs
from numba.core import event
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.extending import overload

PACKAGE = Path(__file__).parent
DAYS_UNUSED = 30
"""Caches of other versions of the sources are removed when they were not used for so long."""

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile ``function`` on its first call, without the GIL, cached on disk.

    Division by zero gives inf or nan, as in NumPy, and the order of floating-point operations is
    kept as written, because bits decide draws.

    Some functions are compiled but not cached: those from outside the package (a user's own, or one
    that a test makes), because their sources are not in the digest; closures, because what they
    close over is not; and those called with a named tuple whose class is from outside, because by
    its type they may have been given functions from there (see :mod:`treestick.contract`).
    """
    dispatcher = numba.njit(nogil=True, error_model="numpy", fastmath=False)(function)
    is_ours = Path(function.__code__.co_filename).is_relative_to(PACKAGE)
    if is_ours and function.__closure__ is None and not numba.config.DISABLE_JIT:
        dispatcher._cache = SignatureCache(function)
    return dispatcher  # type: ignore[no-any-return]


def standing_for(
    registry: Mapping[type, Any],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator for functions of which the registry has many: one for each named tuple.

    The function calls its namesake in the entry for the class of one of its arguments. Compiled
    code chooses by the *type* while it is compiled, so nothing is called through a pointer, and it
    is served from the disk cache. (Functions passed as arguments would miss it.)
    """

    def decorate(stub: Callable[..., Any]) -> Callable[..., Any]:
        name = stub.__name__

        def call(*arguments: Any) -> Any:
            for argument in arguments:
                if type(argument) in registry:
                    return getattr(registry[type(argument)], name)(*arguments)
            raise TypeError(f"{name}: no argument is the named tuple of a registered model")

        call.__name__ = call.__qualname__ = name
        call.__doc__ = stub.__doc__
        if not numba.config.DISABLE_JIT:

            @overload(call, strict=False)  # type: ignore[untyped-decorator]
            def choose(*arguments: Any) -> Any:
                for argument in arguments:
                    found = registry.get(getattr(argument, "instance_class", None))  # type: ignore[arg-type]
                    if found is not None:
                        chosen = getattr(found, name)
                        return lambda *arguments: chosen(*arguments)
                return None

        return call

    return decorate


@contextlib.contextmanager
def on_first_compile(report: Callable[[], None]) -> Iterator[None]:
    """Call ``report`` once if anything has to be compiled within the ``with`` block."""

    class Reporter(event.Listener):  # type: ignore[misc]
        called = False

        def on_start(self, event: object) -> None:
            if not self.called:
                self.called = True
                report()

        def on_end(self, event: object) -> None:
            pass

    with event.install_listener("numba:compile", Reporter()):
        yield


@contextlib.contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Let interrupts wait until the end of the ``with`` block, and act on them then.

    Only the main thread handles signals; elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = signal.getsignal(signal.SIGINT)
    if not callable(usual):  # ignored, or the system's own: no exception can come of it
        yield
        return
    arrived: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: arrived.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if arrived:
            usual(*arrived[-1])


def source_stamps() -> list[tuple[Path, int, int]]:
    """Return path, time of change and size of every source file of the package."""
    stamps = []
    for path in sorted(PACKAGE.rglob("*.py")):
        status = path.stat()
        stamps.append((path, status.st_mtime_ns, status.st_size))
    return stamps


def source_digest() -> str:
    """Digest of every source file of the package: names and contents."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(PACKAGE).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:24]


STAMPS_AT_IMPORT = source_stamps()
DIGEST_AT_IMPORT = source_digest()


@functools.cache
def cache_folder() -> Path | None:
    """Return the folder for this version of everything, made if needed; None if there is none."""
    name = f"{DIGEST_AT_IMPORT}-numba{numba.__version__}-{sys.implementation.cache_tag}"
    if numba.config.BOUNDSCHECK:
        name += "-boundscheck"
    tried = []
    for base in _candidate_bases():
        folder = base / name
        try:
            _make_private(base)
            is_new = not folder.exists()
            folder.mkdir(exist_ok=True, mode=0o700)
            with tempfile.TemporaryFile(dir=folder):
                pass
            os.utime(folder)
        except OSError as error:
            tried.append(f"{base} ({error.strerror or error})")
            continue
        if is_new:
            _remove_unused(base)
        return folder
    warnings.warn(
        "treestick compiles anew in every process, because no cache folder can be written: "
        f"{'; '.join(tried)}. Set TREESTICK_CACHE_DIR to a writable folder.",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def _candidate_bases() -> list[Path]:
    chosen = os.environ.get("TREESTICK_CACHE_DIR")
    if chosen:
        return [Path(chosen)]
    owner = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    bases = [Path(tempfile.gettempdir()) / f"treestick-{owner}"]
    # A user without a home folder has no cache folder either.
    with contextlib.suppress(RuntimeError):
        bases.insert(0, platformdirs.user_cache_path("treestick", appauthor=False))
    return bases


def _make_private(base: Path) -> None:
    """Make ``base``, for this user alone, or check that nobody else can write to it.

    Cached code is executed, so nobody else may put it there.
    """
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    if hasattr(os, "getuid"):
        status = base.stat()
        if status.st_uid not in (os.getuid(), 0) or status.st_mode & 0o022:
            raise PermissionError(None, "others can write to it")


def _remove_unused(base: Path) -> None:
    """Remove the caches of other sources and versions that nobody used for a while."""
    oldest = time.time() - DAYS_UNUSED * 86400
    for folder in base.iterdir():
        # A cache that another process removes at the same moment is gone, as wanted.
        with contextlib.suppress(FileNotFoundError):
            if "-numba" in folder.name and folder.stat().st_mtime < oldest:
                shutil.rmtree(folder, ignore_errors=True)


def _is_ours(argument: Any) -> bool:
    """Say whether all named tuples in a Numba type, at any level, are of classes of the package."""
    made_by = getattr(argument, "instance_class", None)
    if made_by is not None and made_by.__module__.partition(".")[0] != PACKAGE.name:
        return False
    within = argument.types if hasattr(argument, "types") else ()
    return all(_is_ours(part) for part in within)


class SignatureCache(_Cache):  # type: ignore[misc]
    """Numba's cache interface over one file per compiled signature (rule 4)."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = f"{function.__module__}.{function.__qualname__}"
        self._line = function.__code__.co_firstlineno
        # Bytecode that Python itself kept for too long must not pass for that of these sources.
        code = function.__code__
        self._bytecode = (code.co_code, [c for c in code.co_consts if not isinstance(c, CodeType)])
        self._enabled = True

    @property
    def cache_path(self) -> str | None:
        """The folder, as Numba shows it in ``stats``."""
        folder = cache_folder()
        return None if folder is None else str(folder)

    def enable(self) -> None:
        """Use the cache."""
        self._enabled = True

    def disable(self) -> None:
        """Pass the cache by."""
        self._enabled = False

    def flush(self) -> None:
        """Forget what is cached for this function."""
        folder = cache_folder()
        if folder is not None:
            for path in folder.glob(f"{self._name}-{self._line}-*.nbc"):
                path.unlink(missing_ok=True)

    def _path(self, signature: Any, codegen: Any) -> Path | None:
        # No sources are found where the package is inside a zip file.
        if not self._enabled or not STAMPS_AT_IMPORT or source_stamps() != STAMPS_AT_IMPORT:
            return None
        if not all(_is_ours(argument) for argument in getattr(signature, "args", signature)):
            return None
        folder = cache_folder()
        if folder is None:
            return None
        described = repr((codegen.magic_tuple(), signature, self._bytecode))
        name = hashlib.sha256(described.encode()).hexdigest()[:32]
        return folder / f"{self._name}-{self._line}-{name}.nbc"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled function for ``sig``, or None if it has to be compiled."""
        target_context.refresh()
        path = self._path(sig, target_context.codegen())
        if path is None:
            return None
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = f"{path} cannot be read ({error.strerror}) and is compiled anew"
            warnings.warn(reason, RuntimeWarning, stacklevel=2)
            return None
        checksum, payload = content[:32], content[32:]
        if hashlib.sha256(payload).digest() != checksum:
            warnings.warn(f"{path} is damaged and compiled anew", RuntimeWarning, stacklevel=2)
            return None
        saved_for, result = pickle.loads(payload)
        if saved_for != sig:  # two types that print alike
            return None
        return CompileResult._rebuild(target_context, *result)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the compiled function ``data`` for ``sig``."""
        path = self._path(sig, data.codegen)
        if path is None:
            return
        if data.lifted or data.library.has_dynamic_globals:
            warnings.warn(f"{self._name} cannot be cached", RuntimeWarning, stacklevel=2)
            return
        payload = dumps((sig, data._reduce()))
        aside = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
        try:
            aside.write_bytes(hashlib.sha256(payload).digest() + payload)
            os.replace(aside, path)
        except OSError as error:  # a full disk must not stop a run that needs no disk
            with contextlib.suppress(OSError):
                aside.unlink(missing_ok=True)
            warnings.warn(
                f"compiled code was not cached: {path.parent}: {error.strerror}",
                RuntimeWarning,
                stacklevel=2,
            )
