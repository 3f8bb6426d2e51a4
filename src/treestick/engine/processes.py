"""Chains in processes of their own.

Rule 1. Processes are spawned, never forked: threads and their locks do not survive a fork.
Rule 2. The first process starts alone until it is at work, which is when it tells of its first
sweep, and the others then: what it has compiled is in the cache for them.
Rule 3. Signals are the parent's affair. On an interrupt it asks those at work to stop, and each
ends after its present sweep. The others have nothing to lose and are ended at once, even if that is
in the minutes of a first compilation. A terminal sends Ctrl-C to all of them: processes begin with
signals blocked, for importing takes seconds in which they would die of it, with a traceback. The
parent itself defers them while it starts a process or hears one. To block them would not do: a
signal goes to another thread then, such as one of a numerical library, and interrupts all the same.
Rule 4. A process whose parent is gone ends at once: nobody would stop it, and a run that is resumed
must not have two writers.
Rule 5. A process that dies says why, and the others go on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from treestick._jit import deferred_interrupts

SIGNALS = (signal.SIGINT, signal.SIGTERM)
Tell = Callable[..., None]
"""Takes something to tell the parent."""
Work = Callable[..., None]
"""Takes a ``Tell``, something that says whether to stop, and arguments; in another process."""


class Ended(NamedTuple):
    """How processes ended."""

    interrupted: bool
    died: dict[int, str]
    """Of those that failed: why."""


def run_processes(
    work: Work,
    arguments: Mapping[int, tuple[Any, ...]],
    n_together: int,
    heard: Callable[[int, Any], bool],
) -> Ended:
    """Call ``work`` once for each of some arguments, ``n_together`` at a time.

    ``heard`` gets the number of a process and what it tells; it says whether that shows
    it to be at work.
    """
    context = get_context("spawn")
    waiting, died = list(arguments), dict[int, str]()
    running: dict[int, tuple[Any, Connection]] = {}
    at_work = set[int]()
    is_warm, interrupted = False, False
    while True:
        try:
            while waiting and not interrupted and len(running) < (n_together if is_warm else 1):
                with deferred_interrupts():
                    number = waiting.pop(0)
                    ours, theirs = context.Pipe()
                    process = context.Process(
                        target=_child, args=(theirs, work, arguments[number]), daemon=True
                    )
                    with _begins_with_blocked_signals():
                        process.start()
                    theirs.close()
                    running[number] = process, ours
            if not running:
                return Ended(interrupted, died)
            numbers = {connection: number for number, (_, connection) in running.items()}
            for ready in wait(list(numbers), timeout=0.5):
                assert isinstance(ready, Connection)
                number = numbers[ready]
                with deferred_interrupts():  # what was received is not forgotten
                    try:
                        kind, content = ready.recv()
                    except (EOFError, ConnectionResetError):
                        process, _ = running.pop(number)
                        process.join()
                        was_ended = interrupted and number not in at_work
                        if process.exitcode != 0 and number not in died and not was_ended:
                            died[number] = _reason(process.exitcode)
                        is_warm = True
                        continue
                    if kind == "failed":
                        died[number] = content
                    elif heard(number, content):
                        at_work.add(number)
                        is_warm = True
        except KeyboardInterrupt:
            interrupted = True
            for number, (process, connection) in running.items():
                if number in at_work:
                    _ask_to_stop(connection)
                else:
                    process.kill()


@contextlib.contextmanager
def _begins_with_blocked_signals() -> Iterator[None]:
    """Have a process that begins meanwhile inherit blocked signals, where the system can."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ask_to_stop(connection: Connection) -> None:
    try:
        connection.send("stop")
    except OSError:  # it has ended
        return


def _reason(code: int | None) -> str:
    if code is not None and code < 0:
        return f"killed by signal {-code} ({signal.Signals(-code).name})"
    return f"ended with code {code}"


def _child(connection: Connection, work: Work, arguments: tuple[Any, ...]) -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    stop, sending = threading.Event(), threading.Lock()

    def listen() -> None:
        try:
            while True:
                connection.recv()
                stop.set()
        except (EOFError, OSError):
            os._exit(1)

    def tell(content: Any) -> None:
        with sending:
            connection.send(("told", content))

    threading.Thread(target=listen, daemon=True).start()
    try:
        work(tell, stop.is_set, *arguments)
    except BaseException as error:
        with sending:
            connection.send(("failed", f"{type(error).__name__}: {error}"))
        raise SystemExit(1) from None
