"""Reports of a run on disk, from the command line."""

import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from treestick import BernoulliTree, cli

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a small run that was fitted from Python."""
    folder = tmp_path_factory.mktemp("report") / "run"
    rng = np.random.default_rng(0)
    X = (rng.random((60, 8)) < np.repeat([[0.1], [0.9]], 30, axis=0)).astype(int)
    options = {"n_draws": 6, "burn_in": 20, "n_chains": 2, "random_state": 0, "verbose": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of twelve draws
        BernoulliTree(run_dir=str(folder), **options).fit(X)
    np.save(folder.parent / "images.npy", rng.integers(0, 255, (60, 8, 8), dtype=np.uint8))
    (folder.parent / "m.csv").write_text("kind\n" + "dark\n" * 30 + "light\n" * 30)
    return folder


@pytest.fixture
def treestick(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["treestick", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        output = capsys.readouterr()
        return int(caught.value.code or 0), output.out, output.err

    return call


def test_a_page_is_written_beside_the_run(treestick: Cli, run: Path) -> None:
    beside = ("--images", run.parent / "images.npy", "--metadata", run.parent / "m.csv")
    code, out, err = treestick("report", run, *beside, "--title", "Bits")
    assert code == 0, err
    assert out.startswith(f"wrote {(run / 'report.html').resolve()} (")
    page = (run / "report.html").read_text()
    assert "<title>Bits</title>" in page
    assert "consensus" in page
    assert "All 12 draws" in page


def test_the_page_says_among_how_many_draws_the_consensus_is(
    treestick: Cli, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treestick.report.runs.MOST_COMPARED", 5)
    target = tmp_path / "page.html"
    assert treestick("report", run, "-o", target)[0] == 0
    assert "looked for among 5 of 12 draws" in target.read_text()


def test_a_consensus_among_fewer_draws_where_trees_are_large(
    treestick: Cli, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "page.html"
    monkeypatch.setattr("treestick.report.runs.MOST_WORK", 2e4)
    assert treestick("report", run, "-o", target)[0] == 0
    found = re.search(r"looked for among (\d+) of 12 draws", target.read_text())
    assert found is not None
    assert 5 <= int(found[1]) < 12
    monkeypatch.setattr("treestick.report.runs.MOST_WORK", 2e2)
    code, _, err = treestick("report", run, "-o", target)
    assert code == 0
    assert "without a consensus: the trees are too large" in err
    assert "looked for among" not in target.read_text()


def test_figures(treestick: Cli, run: Path, tmp_path: Path) -> None:
    target = tmp_path / "a.svg"
    beside = ("--images", run.parent / "images.npy", "--metadata", run.parent / "m.csv")
    code, out, err = treestick("report", run, *beside, "--figure", target, "--show", "kind")
    assert (code, out) == (0, f"wrote {target}\n"), err
    assert target.stat().st_size > 1_000


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--show", "images"], "show has no effect without --figure"),
        (["-o", "a.txt"], "must end in .html"),
        (["--figure", "a.gif"], "must end in .svg, .png or .pdf"),
        (["--figure", "a.svg", "--show", "months"], "is not there to be shown"),
        (["--images", "nowhere"], "there is no such file"),
    ],
)
def test_slips_get_one_line(
    treestick: Cli,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    named: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = treestick("report", run, *arguments)
    assert code in (2, 3)
    assert named in err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []
