"""What holds for all tests."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("treestick", deadline=None, derandomize=True)
settings.load_profile("treestick")
"""The same examples in every run, which take as long as they take: machines are busy."""


@pytest.fixture(autouse=True, scope="session")
def _interrupts_work() -> Iterator[None]:
    """Where SIGINT was ignored, as shells have it for background jobs, Python leaves it so."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


FIRST = ("test_estimators", "test_hdp_tree", "test_hdp", "test_moves", "test_multinomial_tree")
"""These compile different models, each on a worker of its own; what all others need comes then from
the cache. Two workers that compile one model at once take twice the time for nothing."""
LAST = ("test_runs", "test_package", "test_cli", "test_progress")
"""These fit every model that there is."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files in an order in which little is compiled twice."""

    def place(item: pytest.Item) -> int:
        name = item.path.stem
        if name in FIRST:
            return FIRST.index(name)
        return len(FIRST) + 1 + LAST.index(name) if name in LAST else len(FIRST)

    items.sort(key=place)
