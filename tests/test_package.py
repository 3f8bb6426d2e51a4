"""Promises about the package as a whole: imports, layers, examples in docstrings."""

import doctest
import importlib
import json
import os
import pickle
import pkgutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

import treestick
from treestick import prior

ROOT = Path(__file__).parent.parent
HEAVY = ("numba", "scipy", "pandas", "matplotlib", "networkx", "typer", "rich")
MODULES = [
    module.name
    for module in pkgutil.walk_packages(treestick.__path__, "treestick.")
    if module.name != "treestick.__main__"
]


def test_layers() -> None:
    assert lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == 0


@pytest.mark.parametrize("name", ["treestick", *MODULES])
def test_examples_in_docstrings(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_manuals_examples() -> None:
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        assert doctest.testfile(str(path), module_relative=False, encoding="utf-8").failed == 0, (
            path
        )


def test_import_is_light_and_compiles_nothing(tmp_path: Path) -> None:
    script = (
        "import json, sys, treestick; treestick.Tree([-1, 0], [1]).to_newick();"
        f"print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    )
    environment = {**os.environ, "TREESTICK_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
    )
    assert json.loads(done.stdout) == []
    assert not (tmp_path / "cache").exists()


def test_unknown_names_are_unknown() -> None:
    assert dir(treestick) == sorted(treestick.__all__)
    assert all(hasattr(treestick, name) for name in treestick.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        treestick.nonsense  # noqa: B018


def test_trees_travel_between_processes() -> None:
    arguments = (500, 5.0, 0.5, 1.0, 42)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        drawn = list(pool.map(prior.draw_urn, *zip(arguments, arguments, strict=True)))
    here = prior.draw_urn(*arguments)
    assert drawn == [here, here]
    assert pickle.loads(pickle.dumps(here)) == here


def test_the_repository_names_no_place_outside_of_itself() -> None:
    names = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    if not names:
        pytest.skip("not a git checkout")
    outside = "../" + "shared"
    for name in names:
        content = (ROOT / name).read_bytes() if (ROOT / name).exists() else b""
        assert outside.encode() not in content, name
