"""Signals that end a run with its state saved: exit code 130 for SIGINT, 143 for SIGTERM."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED, TERMINATED = 130, 143
_code = INTERRUPTED


def exit_code() -> int:
    """Return the code for the signal that came."""
    return _code


@contextmanager
def terminable() -> Iterator[None]:
    """Have SIGTERM do what SIGINT does: chains finish their sweep, and the draws are kept."""

    def on_terminate(number: int, frame: FrameType | None) -> None:
        global _code
        _code = TERMINATED
        # As an interrupt, which waits for compiled code to come back.
        signal.raise_signal(signal.SIGINT)

    # Shells have background jobs ignore SIGINT.
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.signal(signal.SIGTERM, on_terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, usual)
