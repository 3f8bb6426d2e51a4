"""What holds for all tests."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def _interrupts_work() -> Iterator[None]:
    """Where SIGINT was ignored, as shells have it for background jobs, Python leaves it so."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
