"""The compile policy: one decorator, and a disk cache that is never stale.

Rule 1. Every compiled function of the package is decorated with :func:`compiled`, nothing else.
Rule 2. Nothing is compiled at import: a function compiles when it is first called. What Python
calls and what compiled code calls are compiled apart (:mod:`treestick._linked`).
Rule 3. Cached code carries a digest of all sources that it can depend on, and the versions of Numba
and Python. These sources are the function's module, those of the named tuples that it is called
with, those of the functions that stand for such named tuples (:func:`standing_for`), and whatever
any of them imports (:mod:`treestick._sources`). Numba's own cache looks only at the file of the
function itself, and so serves stale code when a function that it calls, in another file, has
changed. Contents are those of when the package was imported; code of which a source has changed
under a running process is neither read nor written by that process.
Rule 4. One file holds one compiled signature, is named by that signature, written aside and moved
into place, and carries a checksum. Processes that start together may compile the same thing twice,
but never read half of a file or each other's signature. (Numba's own cache numbers its files in an
index that it reads, changes and writes, which two processes can do at once.) A process that writes
its first file removes those that nobody used for a month.
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
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeVar

import numba
import platformdirs
from numba.core import event, types
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.core.types.misc import VarArg
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import lower_builtin

from treestick._linked import Entry
from treestick._sources import PACKAGE, SOURCES, closure, digest, have_changed

DAYS_UNUSED = 30
"""Compiled code is removed when it was not used for so long."""

F = TypeVar("F", bound=Callable[..., Any])

_registries: list[Mapping[type, Any]] = []


def compiled(function: F) -> F:
    """Compile ``function`` on its first call, without the GIL, cached on disk.

    Division by zero gives inf or nan, as in NumPy, and the order of floating-point operations is
    kept as written, because bits decide draws.

    Some functions are compiled but not cached: those from outside the package (a user's own, or one
    that a test makes), because their sources are not in the digest; closures, because what they
    close over is not; and those called with a named tuple whose class, or a function that stands
    for it (see :mod:`treestick.contract`), is from outside; or with a function.
    """
    return _compile(function, False)


def inlined(function: F) -> F:
    """Do what :func:`compiled` does, and put the code where it is called, whatever its size.

    For what hot loops call: LLVM keeps functions apart that look long because they may fail.
    """
    return _compile(function, True)


def _compile(function: F, is_inlined: bool) -> F:
    if numba.config.DISABLE_JIT:
        return function
    options = {"nopython": True, "nogil": True, "error_model": "numpy", "fastmath": False,
               "forceinline": is_inlined}  # fmt: skip
    entry = Entry(function, options)
    is_ours = Path(function.__code__.co_filename).is_relative_to(PACKAGE)
    if is_ours and function.__closure__ is None:
        for dispatcher in (entry, entry.linked):
            dispatcher._cache = SignatureCache(function, dispatcher.rebuild)
    return entry


def standing_for(
    registry: Mapping[type, Any],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator for functions of which the registry has many: one for each named tuple.

    The function calls its namesake in the entry for the class of one of its arguments. Compiled
    code chooses by the *type* while it is compiled, so nothing is called through a pointer, and it
    is served from the disk cache. (Functions passed as arguments would miss it.)
    """
    _registries.append(registry)

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
            _choose_by_type(call, registry)

        return call

    return decorate


def _choose_by_type(call: Callable[..., Any], registry: Mapping[type, Any]) -> None:
    """Let Numba put the function of a registered named tuple in the place of ``call``."""
    chosen: dict[Any, Any] = {}

    class Choice(AbstractTemplate):  # type: ignore[misc]
        key = call

        def generic(self, args: Any, kws: Any) -> Any:
            for argument in args:
                found = registry.get(getattr(argument, "instance_class", None))  # type: ignore[arg-type]
                if found is not None:
                    function = self.context.resolve_value_type(getattr(found, call.__name__))
                    signature = function.get_call_type(self.context, args, kws)
                    chosen[signature.args] = function
                    return signature
            return None

    infer_global(call, types.Function(Choice))

    @lower_builtin(call, VarArg(types.Any))  # type: ignore[untyped-decorator]
    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function = context.get_function(chosen[signature.args], signature)
        context.add_linking_libs(function.libs)
        return function(builder, arguments)


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


@functools.cache
def cache_folder() -> Path | None:
    """Return the folder for these versions, made if needed; None if there is none."""
    name = f"code-numba{numba.__version__}-{sys.implementation.cache_tag}"
    if numba.config.BOUNDSCHECK:
        name += "-boundscheck"
    tried = []
    for base in _candidate_bases():
        folder = base / name
        try:
            _make_private(base)
            folder.mkdir(exist_ok=True, mode=0o700)
            with tempfile.TemporaryFile(dir=folder):
                pass
            os.utime(folder)
        except OSError as error:
            tried.append(f"{base} ({error.strerror or error})")
            continue
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


@functools.cache
def _remove_unused(folder: Path) -> None:
    """Remove what nobody used for a while: code in the folder, and folders of other versions."""
    oldest = time.time() - DAYS_UNUSED * 86400
    others = [path for path in folder.parent.iterdir() if "-numba" in path.name and path != folder]
    for path in [*folder.iterdir(), *others]:
        # What another process removes at the same moment is gone, as wanted.
        with contextlib.suppress(OSError):
            if path.stat().st_mtime >= oldest:
                continue
            if path in others:
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()


def _mark_as_used(path: Path) -> None:
    """Note by the time of the file that it was used, once a day."""
    # It may just have been removed, or be another user's: then that one keeps it.
    with contextlib.suppress(OSError):
        if path.stat().st_mtime < time.time() - 86400:
            os.utime(path)


def _classes_in(argument: Any) -> Iterator[type]:
    """Yield the classes of all named tuples in a Numba type, at any level."""
    if hasattr(argument, "instance_class"):
        yield argument.instance_class
    for part in getattr(argument, "types", ()) or [getattr(argument, "dtype", None)]:
        if part is not None:
            yield from _classes_in(part)


def _dependencies(module: str, arguments: Iterable[Any]) -> tuple[frozenset[str], list[str]] | None:
    """Return on which modules code depends, and which functions stand for named tuples in it.

    ``module`` is that of the function, ``arguments`` the types it is called with. None if something
    is from outside the package, so that its sources are not known.
    """
    if any(isinstance(argument, types.Callable) for argument in arguments):
        return None
    named = {module, *(each.__module__ for argument in arguments for each in _classes_in(argument))}
    while named <= SOURCES.keys():
        modules = closure(frozenset(named))
        standing = [
            (each, function)
            for registry in _registries
            for each, entry in registry.items()
            if each.__module__ in modules
            for function in entry
            if callable(function)
        ]
        wider = named | {function.__module__ for _, function in standing}
        if wider == named:
            # In an order that does not depend on who was imported first.
            return modules, sorted(f"{_name(each)}: {_name(f)}" for each, f in standing)
        named = wider
    return None


def _name(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


class SignatureCache(_Cache):  # type: ignore[misc]
    """Numba's cache interface over one file per compiled signature (rule 4)."""

    def __init__(self, function: Callable[..., Any], rebuild: Callable[..., CompileResult]) -> None:
        self._rebuild = rebuild
        self._module = function.__module__
        self._name = _name(function)
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
        if not self._enabled:
            return None
        found = _dependencies(self._module, getattr(signature, "args", signature))
        if found is None or have_changed(found[0]):
            return None
        folder = cache_folder()
        if folder is None:
            return None
        modules, standing = found
        kind = _name(self._rebuild)
        key = (codegen.magic_tuple(), signature, self._bytecode, digest(modules), standing, kind)
        name = hashlib.sha256(repr(key).encode()).hexdigest()[:32]
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
        _mark_as_used(path)
        return self._rebuild(target_context, result)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the compiled function ``data`` for ``sig``."""
        path = self._path(sig, data.codegen)
        if path is None:
            return
        if data.lifted or data.library.has_dynamic_globals:
            warnings.warn(f"{self._name} cannot be cached", RuntimeWarning, stacklevel=2)
            return
        _remove_unused(path.parent)
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
