"""What compiled code calls is made once, into what Python calls, and works as if it were called."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import event

from treestick import _linked
from treestick._jit import compiled


@compiled
def root_of(x: float) -> float:
    if x < 0.0:
        raise ValueError("less than zero", x)
    return np.sqrt(x)  # type: ignore[no-any-return]


@compiled
def roots_of(numbers: Any) -> Any:
    found = np.empty(numbers.size)
    for i in range(numbers.size):
        found[i] = root_of(numbers[i])
    return found


class Listener(event.Listener):  # type: ignore[misc]
    """Collects the kinds of what is compiled."""

    def __init__(self) -> None:
        self.kinds: list[tuple[str, type]] = []

    def on_start(self, event: Any) -> None:
        function = event.data["dispatcher"]
        if function.py_func.__module__ == __name__:
            self.kinds.append((function.py_func.__name__, type(function)))

    def on_end(self, event: Any) -> None:
        pass


def test_each_side_compiles_its_own() -> None:
    numbers = np.array([4.0, 9.0])
    listener = Listener()
    with event.install_listener("numba:compile", listener):
        for _ in range(2):
            assert roots_of(numbers).tolist() == [2.0, 3.0]
        assert listener.kinds == [("roots_of", _linked.Entry), ("root_of", _linked.Linked)]
        for _ in range(2):
            assert root_of(16.0) == 4.0
        assert listener.kinds[2:] == [("root_of", _linked.Entry)]
        # What Python called first is called by compiled code, too.
        assert roots_of(np.array([4.0, 9.0, 16.0])[::2]).tolist() == [2.0, 4.0]
        assert listener.kinds[3:] == [("roots_of", _linked.Entry)]


def test_errors_come_through_with_their_arguments() -> None:
    for call in (lambda: root_of(-2.0), lambda: roots_of(np.array([1.0, -2.0]))):
        with pytest.raises(ValueError, match="less than zero") as caught:
            call()
        assert caught.value.args == ("less than zero", -2.0)


SCRIPT = """
from treestick._jit import compiled
from treestick.random import make_key, open_stream, uniform
stream, another = open_stream(make_key(1)), open_stream(make_key(1))
once = uniform(stream)
@compiled
def twice(stream):
    return 2.0 * uniform(stream)
stats = uniform.linked.stats
is_same = twice(another) == 2.0 * once
print(is_same, sum(stats.cache_misses.values()), sum(stats.cache_hits.values()))
"""


def test_code_from_outside_links_what_is_in_the_cache(tmp_path: Path) -> None:
    """Compiled by a process before, read back, and linked into a function that is never saved."""
    environment = {**os.environ, "TREESTICK_CACHE_DIR": str(tmp_path)}
    misses = []
    for _ in range(2):
        command = [sys.executable, "-c", SCRIPT]
        out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        is_same, n_misses, n_hits = out.stdout.split()
        assert is_same == "True"
        misses.append((int(n_misses), int(n_hits)))
    assert misses == [(1, 0), (0, 1)]
