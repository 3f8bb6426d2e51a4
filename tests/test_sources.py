"""Which sources compiled code can depend on, in a package of a few lines."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from treestick import _sources

FILES = {
    "__init__.py": "from importlib import import_module\nfrom pack.face import shown\n",
    "face.py": "from pack.low import number",
    "low.py": "number = 1",
    "plain.py": "import numpy as np\nfrom pack.low import number",
    "inside.py": "def late():\n    try:\n        from pack.low import number\n    finally: pass",
    "checked.py": "if TYPE_CHECKING:\n    from pack.plain import np",
    "by_module.py": "from pack import low",
    "by_alias.py": "import pack.low as low",
    "by_root.py": "import pack.low",
    "from_root.py": "from pack import shown",
    "from_init.py": "from pack.sub import value",
    "with_package.py": "from pack import sub",
    "with_star.py": "from pack.sub import *",
    "sub/__init__.py": "from .first import value",
    "sub/first.py": "from ..low import number as value",
    "sub/second.py": "from . import first",
    "sub/third.py": "from .first import value",
}


@pytest.fixture
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "pack"
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    caches = (_sources.closure, _sources.digest, _sources._imports)
    monkeypatch.setattr(_sources, "PACKAGE", folder)
    monkeypatch.setattr(_sources, "SOURCES", _sources._read())
    for cached in caches:
        cached.cache_clear()
    yield folder
    for cached in caches:
        cached.cache_clear()


def names(module: str) -> str:
    """Return what a module depends on, without the root, in short."""
    found = _sources.closure(frozenset([f"pack.{module}" if module else "pack"]))
    assert "pack" in found
    return " ".join(sorted(name.removeprefix("pack.") for name in found - {"pack"}))


@pytest.mark.usefixtures("pack")
@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("low", "low"),
        ("plain", "low plain"),
        ("inside", "inside low"),
        ("checked", "checked low plain"),
        ("by_module", "by_module low"),
        ("by_alias", "by_alias low"),
        ("from_init", "from_init low sub sub.first"),
        ("with_package", "low sub sub.first sub.second sub.third with_package"),
        ("with_star", "low sub sub.first sub.second sub.third with_star"),
        # The package around them counts with its own contents, not with what it imports.
        ("sub.first", "low sub sub.first"),
        ("sub.second", "low sub sub.first sub.second"),
        ("sub.third", "low sub sub.first sub.third"),
    ],
)
def test_what_a_module_depends_on(module: str, expected: str) -> None:
    assert names(module) == expected


@pytest.mark.usefixtures("pack")
def test_what_can_reach_everything_depends_on_everything() -> None:
    for module in ("", "by_root", "from_root"):
        assert len(names(module).split()) == len(FILES) - 1


def test_a_digest_is_of_contents_and_a_stamp_of_files(pack: Path) -> None:
    some, all_of_it = (_sources.closure(frozenset([name])) for name in ("pack.plain", "pack"))
    before = _sources.digest(some)
    (pack / "low.py").write_text("number = 22", encoding="utf-8")
    (pack / "face.py").unlink()
    assert _sources.have_changed(some)
    assert _sources.have_changed(frozenset(["pack.face"]))
    assert not _sources.have_changed(frozenset(["pack.plain", "pack.sub"]))
    assert _sources.digest(some) == before != _sources.digest(all_of_it)
    _sources.SOURCES.update(_sources._read())
    _sources.digest.cache_clear()
    assert _sources.digest(some) != before


def test_no_package_gives_the_name_of_a_module_to_another_thing() -> None:
    """``from a import b`` counts as the module ``a.b`` if there is one, so it has to be that."""
    for name, source in _sources.SOURCES.items():
        if source.path.name == "__init__.py":
            below = {
                other.rpartition(".")[2]
                for other in _sources.SOURCES
                if other.rpartition(".")[0] == name
            }
            assert not below & _taken(name), name


def _taken(module: str) -> set[str]:
    """Return what ``module`` takes from others by name and is no module."""
    taken = set()
    for statement in _sources._statements(ast.parse(_sources.SOURCES[module].content)):
        if isinstance(statement, ast.ImportFrom):
            start = _sources._start(module, statement)
            for alias in statement.names:
                if f"{start}.{alias.name}" not in _sources.SOURCES:
                    taken.add(alias.asname or alias.name)
    return taken
