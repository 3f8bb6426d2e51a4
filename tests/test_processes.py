"""Chains in processes: what Ctrl-C does, which a terminal sends to all of them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = """
import threading
import time
from treestick.engine.processes import run_processes

if __name__ == "__mp_main__":
    time.sleep(1.0)  # importing takes time, in which a process knows nothing of us


def work(tell, is_stopped, kind):
    tell(kind)
    while kind == "compiles" or not is_stopped():
        time.sleep(0.01)
    tell("saved")


def heard(number, told):
    print(number, told, flush=True)
    time.sleep(0.2)  # Ctrl-C comes now
    return told == "sweeps"


if __name__ == "__main__":
    # It takes signals that the main thread blocks.
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    kinds = dict(enumerate({kinds!r}))
    print(run_processes(work, {{k: (kind,) for k, kind in kinds.items()}}, 2, heard), flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize(
    ("kinds", "saved"),
    [
        (["sweeps", "imports"], ["0 saved"]),
        (["sweeps", "sweeps"], ["0 saved", "1 saved"]),
        (["compiles"], []),
    ],
    ids=str,
)
def test_an_interrupt_of_all_processes(kinds: list[str], saved: list[str], tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(kinds=kinds))
    with subprocess.Popen(
        [sys.executable, path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        for number, kind in enumerate(kinds):
            if kind == "imports":
                time.sleep(0.5)
            else:
                assert process.stdout.readline() == f"{number} {kind}\n"
        os.killpg(process.pid, signal.SIGINT)
        out, error = process.communicate(timeout=60)
    *told, ended = out.splitlines()
    assert sorted(told) == saved
    assert ended == "Ended(interrupted=True, died={})"
    assert error == ""
