"""The compile policy: cached, never stale, safe among processes, no need of site-packages."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numba
import platformdirs
import pytest

import treestick
from treestick import _jit, _sources, random

PACKAGE = Path(treestick.__file__).parent

SCRIPT = """
from treestick import _jit, random
compiled = []
with _jit.on_first_compile(lambda: compiled.append(1)):
    print(random.uniform(random.open_stream(random.make_key(1))), len(compiled))
"""


def start(
    cache: Path, search_path: Path | None = None, **environment: str
) -> subprocess.Popen[str]:
    """Draw one number in a new process; it prints the number, and whether it had to compile."""
    environment = {**os.environ, "TREESTICK_CACHE_DIR": str(cache), **environment}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    if search_path is not None:
        environment["PYTHONPATH"] = str(search_path)
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[float, bool, str]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    number, compiled = out.split()
    return float(number), compiled == "1", err


def cached(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.nbc"))


LONG_AGO = (1e9, 1e9)


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    first = finish(start(tmp_path))
    files = cached(tmp_path)
    for path in files:
        os.utime(path, LONG_AGO)
    second = finish(start(tmp_path))
    assert first == (second[0], True, "")
    assert second[1:] == (False, "")
    assert cached(tmp_path) == files
    assert len(files) > 3
    assert not list(tmp_path.rglob("*.tmp"))
    # What is called by what was loaded need not be, and goes in the end.
    assert any(path.stat().st_mtime > LONG_AGO[0] for path in files)


def test_processes_that_start_together_do_not_disturb_each_other(tmp_path: Path) -> None:
    together = [finish(process) for process in [start(tmp_path) for _ in range(4)]]
    assert len({number for number, _, _ in together}) == 1
    assert {err for _, _, err in together} == {""}
    assert finish(start(tmp_path))[1] is False


def test_a_change_in_a_helper_of_another_file_is_seen(tmp_path: Path) -> None:
    """What Numba's own cache misses: the function that is called has not changed itself."""
    copy = tmp_path / "site"
    shutil.copytree(PACKAGE, copy / "treestick", ignore=shutil.ignore_patterns("__pycache__"))
    helper = "from treestick._jit import compiled\n@compiled\ndef half(x):\n    return {} * x\n"
    (copy / "treestick" / "helper.py").write_text(helper.format(0.5))
    source = copy / "treestick" / "random.py"
    text = source.read_text(encoding="utf-8")
    line = "    return np.int64(next_word(stream) >> _11) * 2.0**-53\n"
    assert text.count(line) == 1
    text = text.replace(line, line.replace("return ", "return half(").rstrip() + ")\n")
    imported = "from treestick._jit"
    text = text.replace(imported, f"from treestick.helper import half\n{imported}")
    source.write_text(text, encoding="utf-8")

    cache = tmp_path / "cache"
    before = finish(start(cache, copy))
    assert finish(start(cache, copy))[:2] == (before[0], False)
    (copy / "treestick" / "helper.py").write_text(helper.format(0.25))
    after = finish(start(cache, copy))
    assert after[:2] == (before[0] / 2, True)
    (copy / "treestick" / "helper.py").write_text(helper.format(0.5))
    for unrelated in ("cli.py", "models/gaussian.py", "_version.py", "report/new.py"):
        with (copy / "treestick" / unrelated).open("a", encoding="utf-8") as source_file:
            source_file.write("# Nothing that draws a number imports this.\n")
    assert finish(start(cache, copy))[:2] == (before[0], False)


def test_nothing_is_written_beside_the_sources(tmp_path: Path) -> None:
    copy = tmp_path / "site"
    shutil.copytree(PACKAGE, copy / "treestick", ignore=shutil.ignore_patterns("__pycache__"))
    for path in sorted(copy.rglob("*"), reverse=True):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = sorted(copy.rglob("*"))
    assert finish(start(tmp_path / "cache", copy))[1] is True
    assert finish(start(tmp_path / "cache", copy))[1] is False
    assert sorted(copy.rglob("*")) == before
    for path in [copy / "treestick", *copy.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)


def test_without_a_folder_to_write_to_it_says_so_and_works(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    number, compiled, err = finish(start(in_the_way / "cache"))
    assert compiled
    assert err.count("no cache folder can be written") == 1
    assert "Set TREESTICK_CACHE_DIR" in err
    assert number == finish(start(tmp_path / "good"))[0]


def test_a_damaged_file_is_compiled_anew(tmp_path: Path) -> None:
    number, _, _ = finish(start(tmp_path))
    for path in cached(tmp_path):
        path.write_bytes(path.read_bytes()[:1000])
    again, compiled, err = finish(start(tmp_path))
    assert (again, compiled) == (number, True)
    assert "is damaged and compiled anew" in err
    assert finish(start(tmp_path))[1:] == (False, "")


def test_bounds_checks_have_a_cache_of_their_own(tmp_path: Path) -> None:
    finish(start(tmp_path))
    assert finish(start(tmp_path, NUMBA_BOUNDSCHECK="1"))[1] is True


def test_an_entry_that_cannot_be_read_is_compiled_anew(tmp_path: Path) -> None:
    number, _, _ = finish(start(tmp_path))
    for path in cached(tmp_path):
        path.unlink()
        path.mkdir()
    again, compiled, err = finish(start(tmp_path))
    assert (again, compiled) == (number, True)
    assert "cannot be read" in err


def test_sources_in_a_zip_file_are_not_cached(tmp_path: Path) -> None:
    """Nothing tells one zip file's sources from another's."""
    archive = shutil.make_archive(str(tmp_path / "site"), "zip", PACKAGE.parent, "treestick")
    number, compiled, err = finish(start(tmp_path / "cache", Path(archive)))
    assert (compiled, err) == (True, "")
    assert cached(tmp_path / "cache") == []
    assert number == finish(start(tmp_path / "cache"))[0]


# -- inside this process -------------------------------------------------------------------------


@pytest.fixture
def fresh_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the folder be found anew, and again after the test."""
    _jit.cache_folder.cache_clear()
    yield
    monkeypatch.undo()
    _jit.cache_folder.cache_clear()


class Codegen:
    """What the cache asks Numba for the machine with."""

    def magic_tuple(self) -> tuple[str, ...]:
        return ("machine",)


def test_sources_that_changed_under_a_process_are_not_cached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = random.uniform._cache  # type: ignore[attr-defined]

    def touch(module: str) -> None:
        source = _sources.SOURCES[module]
        monkeypatch.setitem(_sources.SOURCES, module, source._replace(stamp=(0, 0)))

    assert cache._path((), Codegen()) is not None
    touch("treestick.models.gaussian")  # nothing that draws a number imports it
    assert cache._path((), Codegen()) is not None
    touch("treestick.inputs")
    assert cache._path((), Codegen()) is None


def test_functions_chosen_by_type_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    class Chosen(NamedTuple):
        x: float

    class Entry(NamedTuple):
        twice: Any

    registry = {Chosen: Entry(random.uniform)}
    monkeypatch.setattr(_jit, "_registries", [registry])
    monkeypatch.setattr(Chosen, "__module__", "treestick.wide")
    argument = numba.typeof((1, [Chosen(1.0)]))

    first = _jit._dependencies("treestick.contract", [argument])
    assert first is not None
    assert {"treestick.contract", "treestick.wide", "treestick.random"} < first[0]
    registry[Chosen] = Entry(random.normal)
    second = _jit._dependencies("treestick.contract", [argument])
    assert second is not None
    assert (first[0], first[1]) == (second[0], [second[1][0].replace("normal", "uniform")])
    assert _jit._dependencies("treestick.lanes", []) == (
        _sources.closure(frozenset(["treestick.lanes"])),
        [],
    )

    registry[Chosen] = Entry(test_functions_chosen_by_type_are_part_of_the_key)
    assert _jit._dependencies("treestick.contract", [argument]) is None
    monkeypatch.setattr(_jit, "_registries", [])
    assert _jit._dependencies("treestick.contract", [numba.typeof(random.uniform)]) is None


@pytest.mark.usefixtures("fresh_folder")
def test_old_code_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREESTICK_CACHE_DIR", str(tmp_path))
    made = _jit.cache_folder()
    assert made is not None
    old, recent, other = tmp_path / "a-numba0.1-x", tmp_path / "b-numba0.1-x", tmp_path / "notes"
    for folder in (old, recent, other):
        folder.mkdir()
        (folder / "file").touch()
    unused, used = made / "unused.nbc", made / "used.nbc"
    for path in (unused, used):
        path.touch()
    for path in (old, other, unused):
        os.utime(path, LONG_AGO)
    _jit._remove_unused(made)
    assert sorted(tmp_path.iterdir()) == sorted([recent, other, made])
    assert list(made.iterdir()) == [used]


@pytest.mark.usefixtures("fresh_folder")
@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs POSIX permissions")
def test_a_temporary_folder_that_others_can_write_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.touch()  # no cache folder can be made below a file
    monkeypatch.delenv("TREESTICK_CACHE_DIR", raising=False)
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda *a, **k: home / "cache")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    private = tmp_path / f"treestick-{os.getuid()}"
    made = _jit.cache_folder()
    assert made is not None
    assert made.parent == private
    assert private.stat().st_mode & 0o777 == 0o700

    for folder in (private, tmp_path / "chosen"):
        _jit.cache_folder.cache_clear()
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)
        if folder != private:
            monkeypatch.setenv("TREESTICK_CACHE_DIR", str(folder))
        with pytest.warns(RuntimeWarning, match="others can write to it"):
            assert _jit.cache_folder() is None


@pytest.mark.usefixtures("fresh_folder")
def test_a_user_without_a_home_has_a_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def homeless(*arguments: object, **options: object) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("TREESTICK_CACHE_DIR", raising=False)
    monkeypatch.setattr(platformdirs, "user_cache_path", homeless)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    found = _jit.cache_folder()
    assert found is not None
    assert found.is_relative_to(tmp_path)


def test_closures_are_not_cached() -> None:
    """Two closures over different numbers have one name, one line and one signature."""
    source = "def make(k):\n    def times(x):\n        return k * x\n    return times\n"
    inside: dict[str, Any] = {"__name__": "treestick.made"}
    exec(compile(source, str(PACKAGE / "made.py"), "exec"), inside)
    twice, thrice = (_jit.compiled(inside["make"](k)) for k in (2.0, 3.0))
    assert (twice(10.0), thrice(10.0)) == (20.0, 30.0)
    assert twice.stats.cache_path is None


def test_interrupts_wait_for_the_end_of_the_block() -> None:
    before = signal.getsignal(signal.SIGINT)
    reached = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        with _jit.deferred_interrupts():
            signal.raise_signal(signal.SIGINT)
            reached.append("end of the block")
        reached.append("beyond")
    assert reached == ["end of the block"]
    assert signal.getsignal(signal.SIGINT) is before
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: _jit.deferred_interrupts().__enter__()).result() is None
    assert signal.getsignal(signal.SIGINT) is before


def test_code_from_outside_is_compiled_but_not_cached() -> None:
    @_jit.compiled
    def outside(x: int) -> int:
        return x + 1

    assert outside(1) == 2
    assert outside.stats.cache_path is None  # type: ignore[attr-defined]
