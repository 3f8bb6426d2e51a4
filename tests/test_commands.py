"""Commands in the README and the manual: the programs know them, and what can be run is run.

Every command is parsed by the program that it names. In the long tier, the ``treestick`` commands
and the experiments of each page are run one after the other, as they are printed, on small
stand-ins for the data that they name; benchmarks too, with a few words more that make them short;
and every example of the gallery.
"""

import argparse
import itertools
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer

import follow_readme
from printed import in_blocks
from stand_ins import write_codes, write_papers, write_tables
from treestick import cli

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
GALLERY = sorted((ROOT / "docs" / "gallery").glob("plot_*.py"))
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
TOML = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:treestick|python) [^`]+)`")


SHORTER = {
    "counts.py": "--splits 1 --restarts 1 --sweeps 3,3 --burn-in 1 --rounds 1",
    "densities.py": "--seeds 1 --repeats 1 --restarts 1 --sweeps 3,3 --seconds 6 --burn-in 2 "
    "--every 1",
    "measures.py": "--seeds 1 --draws 20",
    "mixing.py run": "--n 200 --nodes 5 --seconds 3",
    "mixing.py table": "",
    "peers.py": "--seeds 1 --sweeps 3,3 --seconds 1",
    "scaling.py measure": "--data 4000 --few 2000 --nodes 5 --sweeps 2 --rounds 1",
    "scaling.py chains": "--data 2000 --nodes 5 --sweeps 2 --rounds 1",
    "scaling.py simulate": "",
    "startup.py": "",
    "store.py": "--sweeps 2 --draws 5",
    "sweep.py": "--quick",
    "topic_trees.py": "--topics 3 --rounds 1 --draws 5 --seconds 2",
    "topics.py": "--topics 3 --burn-in 1 --rounds 1 --seconds 1 --pseudo 100",
    "urn.py": "-n 10000 --naive 200",
}  # fmt: skip
"""What is added to the commands of benchmarks, which would take hours whatever the data."""
NEEDED = {"counts.py": ["tomotopy", "lda"], "peers.py": ["tomotopy", "lda"],
          "topic_trees.py": ["tomotopy"], "topics.py": ["tomotopy"]}  # fmt: skip
"""What is in no extra but ``bench``."""


class Parsed(Exception):
    """A script has understood its arguments."""


def in_sentences(page: Path) -> list[str]:
    """Return the commands between backticks; one that is only named need not have arguments."""
    found = INLINE.findall(FENCED.sub("", page.read_text("utf-8")))
    commands: Any = typer.main.get_command(cli.app)
    named = {f"treestick {name}" for name in commands.commands}
    return [command.replace("\n", " ") for command in found if command not in named]


def parse_treestick(words: list[str]) -> None:
    """Parse the words after ``treestick``; what is wrong raises."""
    commands: Any = typer.main.get_command(cli.app)
    name, *rest = words
    commands.commands[name].make_context(name, rest)


def parse_script(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a script up to the point where it has parsed its arguments."""
    path = ROOT / words[0]
    if "argparse" not in path.read_text("utf-8"):
        assert len(words) == 1, f"{path} takes no arguments"
        return
    parse = argparse.ArgumentParser.parse_args

    def parse_and_stop(self: argparse.ArgumentParser, *arguments: Any) -> None:
        parse(self, *arguments)
        raise Parsed

    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.syspath_prepend(path.parent)  # as Python does for a script
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_and_stop)
    with pytest.raises(Parsed):
        runpy.run_path(str(path), run_name="__main__")


def check_install(words: list[str]) -> None:
    """Check that the extras of ``pip install`` are there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = re.fullmatch(r"(?:\.|treestick)(?:\[([\w,]+)\])?", words[-1])
    assert extras is not None
    assert set((extras[1] or "").split(",")) - {""} <= set(project["optional-dependencies"])


def check(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(command)
    if words[0] == "treestick":
        parse_treestick(words[1:])
    elif words[0] == "python" and words[1].endswith(".py"):
        parse_script(words[1:], monkeypatch)
    elif words[:4] == ["python", "-m", "pip", "install"]:
        check_install(words[4:])
    else:
        known = (
            "python -m pytest",
            "python -m venv ",
            ". .venv",
            "sphinx-build ",
            "TREESTICK_GALLERY=run sphinx-build ",
        )
        assert command.startswith(known), f"{command!r}: is it tested?"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_programs_know_every_command(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in in_blocks(page) + in_sentences(page):
        with monkeypatch.context() as patch:
            check(command, patch)


def test_commands_are_found_where_they_stand() -> None:
    readme = in_blocks(ROOT / "README.md")
    assert "treestick resume my-run --draws 2000" in readme
    assert "treestick demo" in readme
    assert 'python -m pip install ".[export]"' in in_sentences(ROOT / "README.md")
    assert in_blocks(ROOT / "docs" / "runs.md")[1] == "treestick status zoo-run"


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("treestick fit data.csv -o run --leaves 3", typer.TyperException),
        ("treestick grow data.csv", KeyError),
        ("treestick fit data.csv", typer.TyperException),
        ("python benchmarks/urn.py --leaves 3", SystemExit),
        ("python benchmarks/startup.py --quick", AssertionError),
        ("python benchmarks/nothing.py", FileNotFoundError),
        ('python -m pip install ".[leaves]"', AssertionError),
        ("leaves --grow", AssertionError),
    ],
)
def test_a_wrong_command_is_noticed(
    command: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with pytest.raises(error):
        check(command, monkeypatch)


def write_stand_ins(folder: Path) -> None:
    """Write small files under the names that the manual uses for a reader's own data."""
    from sklearn.datasets import load_iris

    table = load_iris(as_frame=True).data.round(1)
    table.insert(0, "id", [f"iris {k}" for k in range(len(table))])
    table.to_csv(folder / "data.csv", index=False)
    random = np.random.default_rng(0)
    rate = np.repeat([[0.1, 0.9, 0.1, 0.9, 0.5], [0.9, 0.9, 0.1, 0.1, 0.5]], 20, axis=0)
    bits = (random.random((40, 5)) < rate).astype(int)
    head = "hair,wings,legs,fins,tail"
    for name in ("zoo.csv", "new.csv"):
        np.savetxt(folder / name, bits, "%d", ",", header=head, comments="")
    np.save(folder / "codes.npy", np.tile(bits, (13, 2))[:500])
    words = [["tree", "leaf", "root", "bark"], ["wave", "sea", "fish", "salt"]]
    lines = [
        {
            "text": " ".join(random.choice(words[k % 2], 12)),
            "authors": [f"author {k % 5}"],
            "year": 1990 + k % 3,
        }
        for k in range(120)
    ]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    write_papers(folder, 1260)
    write_codes(folder / "cifar100_codes.npz", 500)
    settings = TOML.findall((ROOT / "docs" / "paper.md").read_text("utf-8"))
    (folder / "paper.toml").write_text(settings[0], encoding="utf-8")


def is_run(command: str) -> bool:
    """Say whether a command is run; those on a cluster are in test_dask.py."""
    is_ours = command.startswith(("treestick ", "python experiments/"))
    return is_ours and "--scheduler" not in command


def run_by_shell(commands: list[str], folder: Path) -> None:
    """Run commands as in a checkout, up to the first that fails."""
    for name in ("experiments", "benchmarks", "tests"):
        (folder / name).symlink_to(ROOT / name)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-euxc", "\n".join(commands)],
        cwd=folder,
        check=True,
        env={**os.environ, "PATH": path},
    )


def run_commands(page: Path, folder: Path) -> list[str]:
    """Run the commands of a page."""
    write_stand_ins(folder)
    commands = [command for command in in_blocks(page) if is_run(command)]
    run_by_shell(commands, folder)
    return commands


@pytest.mark.long
def test_the_readme_alone_leads_to_a_tree_and_a_report(tmp_path: Path) -> None:
    run_commands(ROOT / "README.md", tmp_path)
    newick = (tmp_path / "my-run-best.nwk").read_text("utf-8")
    assert newick.endswith(";\n")
    assert all(f"'iris {k}'" in newick for k in range(150))
    page = (tmp_path / "my-run" / "report.html").read_text("utf-8")
    assert "<title>GaussianTree</title>" in page
    run = json.loads((tmp_path / "my-run" / "run.json").read_text("utf-8"))
    assert run["parameters"]["n_draws"] == 2000
    for name in ("treestick-demo/digits.html", "tree.svg", "prior.pdf"):
        assert (tmp_path / name).stat().st_size > 1000


def test_the_readme_has_what_leads_from_a_table_to_a_report() -> None:
    verbs = [command.split()[1] for command in follow_readme.commands()]
    assert verbs == ["fit", "diagnose", "report", "export", "resume"]


def unknown_table(seed: int, kind: str) -> pd.DataFrame:
    """Return a table that nobody has seen: its size, names and numbers are drawn."""
    random = np.random.default_rng(seed)
    n_rows, n_columns = (int(n) for n in random.integers((60, 3), (140, 9)))
    group = random.integers(0, 3, n_rows)
    level = random.normal(0.0, 3.0, (3, n_columns))[group]
    values: Any = random.normal(level, 1.0)
    if kind == "bits":
        values = (values > 0.0).astype(int)
    elif kind == "counts":
        values = random.poisson(np.exp(0.5 * np.clip(level, -3.0, 4.0)))
    letters = list("abcdefghijklmnopqrstuvwxyzäßñ ,'()")
    names = ["".join(random.choice(letters, 7)) + str(k) for k in range(n_columns)]
    ids = ["".join(random.choice(letters, 5)) + str(k) for k in range(n_rows)]
    return pd.DataFrame(values, index=pd.Index(ids, name="id"), columns=names)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["reals", "bits", "counts"])
def test_the_readme_leads_from_an_unknown_table_to_a_tree_and_a_report(
    kind: str, tmp_path: Path
) -> None:
    table = unknown_table(20261117, kind)
    table.to_csv(tmp_path / "unknown.csv")
    tree, report = follow_readme.follow(tmp_path / "unknown.csv", tmp_path / "work")
    newick = tree.read_text("utf-8")
    assert newick.endswith(";\n")
    missing = [name for name in table.index if name.replace("'", "''") not in newick]
    assert not missing
    kinds = {"reals": "GaussianTree", "bits": "BernoulliTree", "counts": "MultinomialTree"}
    assert f"<title>{kinds[kind]}</title>" in report.read_text("utf-8")


@pytest.mark.long
@pytest.mark.parametrize(
    "page", [page for page in PAGES[3:] if any(map(is_run, in_blocks(page)))],
    ids=lambda page: page.stem,
)  # fmt: skip
def test_the_manuals_commands_run_as_printed(page: Path, tmp_path: Path) -> None:
    assert run_commands(page, tmp_path)


def of_benchmarks() -> dict[str, list[str]]:
    """Return what is printed of each benchmark, with the words that make it short."""
    printed = itertools.chain.from_iterable(in_blocks(page) + in_sentences(page) for page in PAGES)
    found: dict[str, list[str]] = {}
    for command in dict.fromkeys(printed):
        if command.startswith("python benchmarks/"):
            name, *rest = shlex.split(command.removeprefix("python benchmarks/"))
            more = SHORTER[name] if name in SHORTER else SHORTER[f"{name} {rest[0]}"]
            found.setdefault(name, []).append(f"{command} {more}".strip())
    return found


BENCHMARKS = of_benchmarks()


def test_every_benchmark_is_printed_and_can_be_made_short() -> None:
    scripts = {
        path.name
        for path in (ROOT / "benchmarks").glob("*.py")
        if 'if __name__ == "__main__":' in path.read_text("utf-8")
    }
    assert set(BENCHMARKS) == scripts - {"cluster_sweeps.py"}  # which scaling.py runs
    assert {name.split()[0] for name in SHORTER} == set(BENCHMARKS)


@pytest.mark.long
@pytest.mark.parametrize("script", BENCHMARKS)
def test_benchmarks_run(script: str, tmp_path: Path) -> None:
    for module in NEEDED.get(script, []):
        pytest.importorskip(module, reason='python -m pip install ".[bench]"')
    write_papers(tmp_path, 1260)
    shutil.copy(tmp_path / "nips12.npz", tmp_path / "FILE")
    (tmp_path / "FOLDER").mkdir()
    write_tables(tmp_path / "FOLDER")
    write_codes(tmp_path / "FOLDER" / "cifar100_codes.npz", 50_000)
    run_by_shell(BENCHMARKS[script], tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("script", GALLERY, ids=lambda script: script.stem)
def test_the_gallery_runs(script: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "MPLBACKEND": "agg"}
    subprocess.run([sys.executable, str(script)], cwd=tmp_path, check=True, env=environment)
