"""The command line: what it writes, and one line for every slip."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from treestick import __version__, cli

Cli = Callable[..., tuple[int, str, str]]
"""Runs the command line with these words: exit code, standard output, standard error."""


def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["treestick", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    output = capsys.readouterr()
    return int(caught.value.code or 0), output.out, output.err


@pytest.fixture
def treestick(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    return lambda *arguments: run(monkeypatch, capsys, *arguments)


def test_prior_prints_a_tree(treestick: Cli) -> None:
    code, out, _ = treestick("prior", "--alpha0", "5", "-n", "30", "--seed", "7")
    assert code == 0
    assert ", 30 data, depth" in out
    assert treestick("prior", "--alpha0", "5", "-n", "30", "--seed", "7")[1] == out


@pytest.mark.parametrize(
    "arguments",
    [
        ("--alpha0", "5", "--decay", "0.5", "--gamma", "0.2", "-n", "50", "--seed", "1001"),
        ("--paper-figure", "1"),
        ("--paper-figure", "2"),
        ("--paper-figure", "1", "--alpha0", "2", "--seed", "5"),
        ("--paper-figure", "2", "-n", "20"),
    ],
)
@pytest.mark.parametrize("ending", ["svg", "pdf"])
def test_prior_writes_a_picture(
    treestick: Cli, tmp_path: Path, arguments: tuple[str, ...], ending: str
) -> None:
    path = tmp_path / f"tree.{ending}"
    code, out, _ = treestick("prior", *arguments, "-o", str(path))
    assert code == 0
    assert out == f"wrote {path}\n"
    assert path.stat().st_size > 1_000


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--alpha0", "-1"], "alpha0=-1.0"),
        (["--alpha0", "nan"], "alpha0=nan"),
        (["--alpha0", "ten"], "'--alpha0': 'ten'"),
        (["--decay", "0"], "decay=0.0"),
        (["--decay", "1.5"], "decay=1.5"),
        (["--gamma", "-2"], "gamma=-2.0"),
        (["-n", "-3"], "n=-3"),
        (["-n", "2.5"], "'-n': '2.5'"),
        (["--seed", "x"], "'--seed': 'x'"),
        (["--seed", "-1"], "seed=-1"),
        (["-o", "tree.gif"], "output='tree.gif'"),
        (["-o", "no-such-folder/tree.svg"], "output='no-such-folder/tree.svg'"),
        (["--paper-figure", "3"], "paper-figure=3"),
        (["--paper-figure", "2"], "paper-figure=2 needs a file"),
        (["--paper-figure", "2", "--gamma", "3", "-o", "a.svg"], "gamma=3.0 has no effect"),
        (["--paper-figure", "1", "-n", "3", "-o", "a.svg"], "n=3 has no effect"),
        (["--paper-figure", "1", "--labels", "-o", "a.svg"], "labels has no effect"),
        (["-n", "1000000000000"], "not enough memory"),
        (["-n", "9" * 30], "n=9999"),
        (["--gama", "3"], "--gama"),
        (["--alpha0"], "--alpha0"),
        (["extra"], "extra"),
    ],
)
def test_every_slip_gives_one_line_and_writes_nothing(
    treestick: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    named: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = treestick("prior", *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("treestick: ")
    assert err.count("\n") == 1
    assert named in err
    assert list(tmp_path.iterdir()) == []


def test_a_bug_keeps_its_traceback(treestick: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**parameters: object) -> None:
        raise ValueError("a bug, not a slip")

    monkeypatch.setattr("treestick.prior.draw_urn", broken)
    with pytest.raises(ValueError, match="a bug, not a slip"):
        treestick("prior")


def test_help_and_version(treestick: Cli) -> None:
    assert treestick("--version")[:2] == (0, f"treestick {__version__}\n")
    assert treestick("--help")[0] == 0
    code, out, _ = treestick()
    assert code == 2
    assert "Usage: treestick" in out
    assert treestick("nonsense")[0] == 2


@pytest.mark.filterwarnings("ignore:the chains disagree")
def test_demo(treestick: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "demo"
    code, out, _ = treestick("demo", "-o", str(folder))
    assert code == 0
    assert "1,797 data" in out
    assert {path.name for path in folder.iterdir()} == {"digits.png", "digits.html"}
    page = folder / "digits.html"
    assert out.endswith(f"All of it, to explore in a browser: {page.resolve()}\n")
    assert 50_000 < page.stat().st_size < 3_000_000
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    code, out, err = treestick("demo", "-o", str(in_the_way))
    assert code == 2
    assert err.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_cannot_be_written_gives_one_line() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "treestick", "prior", "-n", "5"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "treestick: cannot write the output: No space left on device\n"


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX pipes")
def test_a_reader_that_leaves_is_no_error() -> None:
    command = f"{sys.executable} -m treestick prior -n 100000 --alpha0 25 --gamma 1 | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("Tree: ")
    assert done.stderr == ""


def test_signs_that_the_terminal_does_not_have_are_replaced() -> None:
    command = [sys.executable, "-m", "treestick", "prior", "-n", "30"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, check=True, env=environment)
    assert b"?? 1  " in done.stdout


def test_as_a_module() -> None:
    command = [sys.executable, "-m", "treestick", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"treestick {__version__}\n"
