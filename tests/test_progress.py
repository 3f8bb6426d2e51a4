"""The progress display: everything is there, or nothing is."""

import io
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from rich.console import Console

from treestick.engine.progress import Progress

SHOW_CURSOR = "\x1b[?25h"
HIDE_CURSOR = "\x1b[?25l"


def terminal() -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, force_terminal=True, width=100), file


def last_lines(file: io.StringIO, n: int) -> list[str]:
    """Return the last ``n`` lines on the screen, without colours."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue())
    return [line for line in re.split(r"[\r\n]+", text) if line.strip()][-n:]


@pytest.mark.parametrize("width", [80, 100, 200])
def test_a_line_for_each_chain(width: int) -> None:
    now, file = 0.0, io.StringIO()
    console = Console(file=file, force_terminal=True, width=width, get_time=lambda: now)
    with Progress(n_chains=2, n_sweeps=1000, console=console) as progress:
        for sweep in range(1, 101):
            progress.update(0, sweep, log_likelihood=-12345.678, n_nodes=37)
            progress.update(1, 10 * sweep, log_likelihood=float("nan"), n_nodes=1)
            now += 0.125
    running, finished = last_lines(file, 2)
    assert re.fullmatch(
        r"chain 1 [━╸╺ ]+ +100/1000 +log likelihood -12345\.7 +37 nodes +8/s +0:01:53 *", running
    )
    assert re.fullmatch(
        r"chain 2 ━+ +1000/1000 +log likelihood nan +1 nodes +80\.0/s +0:00:00 *", finished
    )
    assert max(len(running), len(finished)) <= width


def test_lines_are_there_before_the_first_sweep() -> None:
    console, file = terminal()
    with Progress(2, 10, console=console):
        pass
    assert [line[:7] for line in last_lines(file, 2)] == ["chain 1", "chain 2"]
    assert "0/10" in last_lines(file, 1)[0]


def test_a_chain_says_what_it_does_before_its_first_sweep() -> None:
    console, file = terminal()
    with Progress(2, 10, console=console) as progress:
        progress.note(1, "LDA 40/200")
    assert last_lines(file, 1)[0].startswith("chain 2: LDA 40/200 ")
    assert len(last_lines(file, 1)[0]) <= 100
    console, file = terminal()
    with Progress(1, 10, console=console) as progress:
        progress.note(0, "LDA 200/200")
        progress.update(0, 1, -1.0, 2)
    assert re.match(r"chain 1 +[━╸╺]", last_lines(file, 1)[0])
    progress.note(0, "a thread that has not heard of it yet")


def test_chains_in_threads() -> None:
    console, file = terminal()

    def run_chain(chain: int) -> None:
        for sweep in range(200):
            progress.update(chain, sweep + 1, -1.0, chain)

    with Progress(4, 200, console=console) as progress, ThreadPoolExecutor(4) as pool:
        list(pool.map(run_chain, range(4)))
    for chain, line in enumerate(last_lines(file, 4)):
        assert f"chain {chain + 1} " in line
        assert "200/200" in line
        assert f" {chain} nodes" in line


@pytest.mark.parametrize("kind", [KeyboardInterrupt, ValueError])
def test_exceptions_propagate_and_the_cursor_comes_back(kind: type[BaseException]) -> None:
    console, file = terminal()
    stdout, stderr = sys.stdout, sys.stderr
    with pytest.raises(kind), Progress(1, 10, console=console) as progress:  # noqa: PT012
        progress.update(0, 3, -1.0, 2)
        raise kind
    text = file.getvalue()
    assert text.rindex(SHOW_CURSOR) > text.rindex(HIDE_CURSOR)
    assert "3/10" in last_lines(file, 1)[0]
    assert (sys.stdout, sys.stderr) == (stdout, stderr)
    progress.update(0, 4, -1.0, 2)  # a thread that has not heard of it yet
    assert file.getvalue() == text


def test_quiet_is_silent() -> None:
    console, file = terminal()
    with Progress(1, 10, quiet=True, console=console) as progress:
        progress.update(0, 1, -1.0, 2)
    assert file.getvalue() == ""


def test_no_terminal_is_silent(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = io.StringIO()
    # As many CI services do; by itself, rich takes it for a terminal.
    monkeypatch.setenv("FORCE_COLOR", "1")
    for console in (None, Console(file=file, force_terminal=False)):
        with Progress(1, 10, console=console) as progress:
            progress.update(0, 1, -1.0, 2)
    assert file.getvalue() == ""
    assert capfd.readouterr() == ("", "")


def test_no_standard_error_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with Progress(1, 10) as progress:
        progress.update(0, 1, -1.0, 2)


def test_standard_output_that_goes_to_a_file_stays_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console, file = terminal()
    with Progress(1, 10, console=console):
        print("a result")
    assert capsys.readouterr().out == "a result\n"
    assert "a result" not in file.getvalue()


def test_rich_is_imported_when_it_is_needed() -> None:
    script = (
        "import sys\n"
        "from treestick.engine.progress import Progress\n"
        "with Progress(1, 10, quiet=True) as progress:\n"
        "    progress.update(0, 1, -1.0, 2)\n"
        "print('rich' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("False\n", "")
