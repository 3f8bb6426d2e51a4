"""Runs that are killed, full, in use, damaged, forged or of another version."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treestick
from handmade import Pair, draw, make_run
from treestick.inputs import InputError, InvalidValue
from treestick.store import (
    STATE,
    CannotWrite,
    DamagedRun,
    RunFolder,
    RunInUse,
    arrays,
    sqlite_files,
)
from treestick.store.arrays import Packed, Unreadable, unpack
from treestick.store.values import Stored, restore_value, store_value

TESTS = Path(__file__).parent
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals and limits")


def run_script(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{TESTS}:{os.environ.get('PYTHONPATH', '')}"}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip


def assert_whole(folder: Path, least: int) -> int:
    """Check that all draws are there up to some number, and the state of the last; return it."""
    chain = RunFolder(folder).chain(0)
    n_draws = chain.n_draws()
    assert n_draws >= least
    for k in range(n_draws):
        np.testing.assert_equal(chain.read(k)._asdict(), draw(0, k + 1)._asdict())
    assert len(chain.trace()) == n_draws
    found = chain.load(STATE, [Pair])
    if n_draws:
        assert found is not None
        sweep, state = found
        assert sweep == n_draws
        np.testing.assert_array_equal(state.numbers, np.arange(n_draws))
    return n_draws


# -- killed ----------------------------------------------------------------------------------------

APPENDING = """
    import os, signal, sys
    from pathlib import Path
    import numpy as np
    from handmade import Pair, draw
    from treestick.store import RunFolder
    folder, n_before, statement = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    run = RunFolder(folder)
    run.claim()
    def append(sweep):
        run.append(draw(0, sweep), 0.0, Pair(np.arange(sweep), 0.5))
    for sweep in range(1, n_before + 1):
        append(sweep)
    seen = 0
    def count(sql):
        global seen
        if seen == statement:
            os.kill(os.getpid(), signal.SIGKILL)
        seen += 1
    writer = run.chain(0)._writer
    writer.execute("PRAGMA cache_size = 1")  # pages go to the log before the commit
    writer.set_trace_callback(count)
    append(n_before + 1)
    writer.set_trace_callback(None)
    print("survived", seen)
"""


@POSIX
@pytest.mark.parametrize("statement", [0, 1, 2, 5, 8, 11])
def test_killed_inside_a_commit(tmp_path: Path, statement: int) -> None:
    done = run_script(APPENDING, str(tmp_path), "3", str(statement))
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert assert_whole(tmp_path, 3) == 3
    run = RunFolder(tmp_path)
    run.claim()  # the lock of a dead process holds nobody up
    run.append(draw(0, 4), 0.0, Pair(np.arange(4), 0.5))
    assert assert_whole(tmp_path, 4) == 4


def test_a_log_that_was_cut_anywhere(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    run.claim()
    for sweep in range(1, 6):
        run.append(draw(0, sweep), 0.0, Pair(np.arange(sweep), 0.5))
    log = (tmp_path / "run" / "chain-0.sqlite-wal").read_bytes()
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    found = set()
    for size in range(0, len(log), max(len(log) // 25, 1)):
        for path in (tmp_path / "copy").glob("*-shm"):
            path.unlink()
        (tmp_path / "copy" / "chain-0.sqlite-wal").write_bytes(log[:size])
        shutil.copy(tmp_path / "run" / "chain-0.sqlite", tmp_path / "copy" / "chain-0.sqlite")
        found.add(assert_whole(tmp_path / "copy", 0))
    assert {0, 4} <= found
    run.close()


# -- full ------------------------------------------------------------------------------------------

FULL = """
    import resource, sys
    from pathlib import Path
    import numpy as np
    from handmade import Pair, draw
    from treestick.store import CannotWrite, RunFolder
    run = RunFolder(Path(sys.argv[1]))
    run.claim()
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    try:
        for sweep in range(1, 1000):
            run.append(draw(0, sweep), 0.0, Pair(np.arange(sweep), 0.5))
    except CannotWrite as error:
        print(sweep - 1)
        print(error)
"""


@POSIX
def test_a_full_disk(tmp_path: Path) -> None:
    done = run_script(FULL, str(tmp_path))
    assert done.returncode == 0, done.stderr
    n_draws, said = done.stdout.splitlines()
    assert str(tmp_path / "chain-0.sqlite") in said
    assert "bytes are needed" in said
    assert "make room, and resume" in said
    n = assert_whole(tmp_path, int(n_draws))
    assert n == int(n_draws) > 3
    run = RunFolder(tmp_path)
    run.claim()
    run.append(draw(0, n + 1), 0.0, Pair(np.arange(n + 1), 0.5))
    assert_whole(tmp_path, n + 1)


# -- in use ----------------------------------------------------------------------------------------

HOLDING = """
    import sys, time
    from pathlib import Path
    from treestick.store import RunFolder
    run = RunFolder(Path(sys.argv[1]))
    run.claim()
    print("claimed", flush=True)
    time.sleep(600)
"""


def test_a_second_process_is_refused_and_a_dead_one_forgotten(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(HOLDING), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        try:
            assert first.stdout is not None
            assert first.stdout.readline() == "claimed\n"
            second = RunFolder(tmp_path)
            assert second.owner() == first.pid
            with pytest.raises(RunInUse, match=f"in use by process {first.pid}; wait"):
                second.claim()
        finally:
            first.kill()
    assert second.owner() is None
    second.claim()
    assert second.owner() == os.getpid()
    second.close()
    assert second.owner() is None


def test_two_writers_of_one_chain(tmp_path: Path) -> None:
    first, second = RunFolder(tmp_path), RunFolder(tmp_path)
    first.claim()
    first.append(draw(0, 1))
    with pytest.raises(RunInUse, match=f"process {os.getpid()}"):
        second.append(draw(0, 2))
    first.close()
    second.append(draw(0, 2))
    assert second.n_per_chain() == [2]


def test_a_network_drive_has_another_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_files, "is_networked", lambda path: True)
    run = RunFolder(tmp_path)
    run.claim()
    with pytest.warns(RuntimeWarning, match="without write-ahead logs"):
        run.append(draw(0, 1), 0.0, Pair(np.arange(1), 0.5))
    run.append(draw(0, 2), 0.0, Pair(np.arange(2), 0.5))
    assert assert_whole(tmp_path, 2) == 2
    with closing(sqlite3.connect(tmp_path / "chain-0.sqlite")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() != ("wal",)
    run.close()


# -- of another version ----------------------------------------------------------------------------


def set_version(folder: Path, *version: int) -> None:
    path = folder / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": version}))


def test_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path)
    monkeypatch.setattr("treestick.store.run.VERSION", (1, 3))
    for minor in (0, 2, 3):
        set_version(tmp_path, 1, minor)
        assert len(treestick.load_run(tmp_path).draws_) == 12
    for version in ((1, 4), (2, 0), (0, 9)):
        set_version(tmp_path, *version)
        with pytest.raises(InvalidValue, match=r"has format \d\.\d and this treestick reads 1\.3"):
            treestick.load_run(tmp_path)


# -- damaged ---------------------------------------------------------------------------------------


def test_a_loaded_run_is_lazy_and_whole(tmp_path: Path) -> None:
    make_run(tmp_path)
    model = treestick.load_run(tmp_path)
    assert len(model.draws_) == 12
    np.testing.assert_array_equal(model.draws_[7].assignments, draw(1, 2).assignments)
    assert model.idata_["posterior"].sizes == {"chain": 2, "draw": 6, "feature": 2}
    assert model.tree_ == model.draws_[model._best]


def test_a_truncated_file_says_what_is_readable(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(5_000, 2))
    make_run(tmp_path, n_draws=150, X=X)
    path = tmp_path / "chain-1.sqlite"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])
    with pytest.raises(
        DamagedRun, match=r"chain-1.sqlite is damaged: .*readable draws: 0-\d+"
    ) as e:
        treestick.load_run(tmp_path)
    assert "\n" not in str(e.value)
    assert RunFolder(tmp_path).chain(0).n_draws() == 150  # which the damage is not of
    path.unlink()
    assert len(treestick.load_run(tmp_path).draws_) == 150


def test_a_file_in_use_is_not_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_files, "is_networked", lambda path: True)
    monkeypatch.setattr(sqlite_files, "BUSY_SECONDS", 0.0)
    with pytest.warns(RuntimeWarning, match="without write-ahead logs"):
        make_run(tmp_path, n_chains=1)
    with closing(sqlite3.connect(tmp_path / "chain-0.sqlite")) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InvalidValue, match="cannot be read: database is locked") as caught:
            treestick.load_run(tmp_path)
    assert not isinstance(caught.value, DamagedRun)
    (tmp_path / "chain-0.sqlite").unlink()
    (tmp_path / "chain-0.sqlite").mkdir()
    with pytest.raises(InvalidValue, match="chain-0"):
        treestick.load_run(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"[" * 100_000, b"\xff", b'{"format": 1}'])
def test_a_description_that_is_none(tmp_path: Path, content: bytes) -> None:
    make_run(tmp_path)
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(DamagedRun, match=r"run\.json"):
        treestick.load_run(tmp_path)


def forge(folder: Path, sql: str, *values: Any) -> None:
    with closing(sqlite3.connect(folder / "chain-0.sqlite")) as connection, connection:
        assert connection.execute(sql, values).rowcount > 0


FORGED: dict[str, tuple[str, tuple[Any, ...]]] = {
    "a shape of terabytes": (
        "UPDATE arrays SET shape = '[1000000000000, 2]' WHERE name = 'theta'", ()),
    "a shape beside 0": (
        "UPDATE arrays SET shape = '[0, 4611686018427387904]', content = x'' "
        "WHERE name = 'theta'", ()),
    "a negative shape": ("UPDATE arrays SET shape = '[-1, -10]' WHERE name = 'theta'", ()),
    "a shape that is none": ("UPDATE arrays SET shape = '{}' WHERE name = 'theta'", ()),
    "objects": ("UPDATE arrays SET dtype = '|O8' WHERE name = 'theta'", ()),
    "parents beyond the table": (
        "UPDATE arrays SET content = ? WHERE name = 'parent'", (bytes([255, 0, 0, 0, 99]),)),
    "a tree with a loop": (
        "UPDATE arrays SET content = ? WHERE name = 'parent'", (bytes([255, 1, 2, 3, 4]),)),
    "data at no node": (
        "UPDATE arrays SET content = ? WHERE name = 'assignments'", (bytes([77] * 20),)),
    "fewer parameters": (
        "UPDATE arrays SET shape = '[1, 2]', content = substr(content, 1, 8) "
        "WHERE name = 'theta'", ()),
    "no scalars": ("UPDATE draws SET scalars = x'00'", ()),
    "text for scalars": ("UPDATE draws SET scalars = 'text'", ()),
    "vectors of several lengths": (
        "UPDATE arrays SET shape = '[1]', content = substr(content, 1, 8) "
        "WHERE name = 'noise' AND draw = 2", ()),
    "shorter vectors": (
        "UPDATE arrays SET shape = '[1]', content = substr(content, 1, 8) "
        "WHERE name = 'noise'", ()),
    "no parents": ("DELETE FROM arrays WHERE name = 'parent'", ()),
    "a type of another model": (
        "UPDATE saved SET structure = replace(structure, 'Gaussian', 'OSError')", ()),
    "constants of another size": (
        "UPDATE saved_arrays SET shape = '[1]', content = substr(content, 1, 8) "
        "WHERE name LIKE '%noise'", ()),
    "constants that are no JSON": ("UPDATE saved SET structure = '((((' ", ()),
    "deep constants": ("UPDATE saved SET structure = ?", ("[" * 100_000,)),
}  # fmt: skip


@pytest.mark.parametrize("forgery", FORGED)
def test_a_forged_run_is_refused(tmp_path: Path, forgery: str) -> None:
    make_run(tmp_path, n_chains=1)
    sql, values = FORGED[forgery]
    forge(tmp_path, sql, *values)
    with pytest.raises(DamagedRun) as caught:
        list(treestick.load_run(tmp_path).draws_)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("estimator", "os.system"),
        ("estimator", None),
        ("parameters", {"gamma": {"array": [1], "dtype": "O"}}),
        ("parameters", {"gamma": {"nothing": 1}}),
        ("parameters", {"__class__": 1}),
        ("parameters", None),
        ("data", {}),
        ("data", {"n_features": 3}),
        ("data", {"n_features": 2, "feature_names": ["one"]}),
    ],
)
def test_a_forged_description_is_refused(tmp_path: Path, key: str, value: Any) -> None:
    make_run(tmp_path)
    path = tmp_path / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(InputError) as caught:
        treestick.load_run(tmp_path)
    assert "\n" not in str(caught.value)


# -- any bytes -------------------------------------------------------------------------------------

PACKED = st.builds(
    Packed,
    st.sampled_from([*arrays.DTYPES, "|O8", "<M8", ">f8", "", "V8"]),
    st.one_of(
        st.lists(st.integers(-2, 2**62), max_size=5).map(json.dumps),
        st.text(max_size=10),
    ),
    st.binary(max_size=64),
)
STRUCTURES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.fixed_dictionaries({"float": st.text(max_size=5) | st.just("0x1p3")})
    | st.fixed_dictionaries({"array": st.just("a"), "dtype": st.sampled_from(["<i8", "|O", "x"])}),
    lambda inner: st.lists(inner, max_size=3)
    | st.fixed_dictionaries(
        {"type": st.just("Pair"), "fields": st.dictionaries(
            st.sampled_from(["numbers", "level", "x"]), inner, max_size=3)}
    ),
    max_leaves=6,
)  # fmt: skip


def fuzz(check: Callable[..., None], strategy: Any, n: int) -> None:
    limited: Any = settings(max_examples=n)
    limited(given(strategy)(check))()  # type: ignore[no-untyped-call]


def check_unpack(packed: Packed) -> None:
    try:
        array = unpack(packed)
    except Unreadable:
        return
    assert array.nbytes <= len(packed.content)
    again = arrays.pack(array)
    assert (again.dtype, again.content) == (packed.dtype, packed.content)


def check_restore(pair: tuple[Any, Packed]) -> None:
    structure, packed = pair
    try:
        value = restore_value(Stored(json.dumps(structure), {"a": packed}), [Pair])
    except Unreadable:
        return
    assert value is None or isinstance(value, bool | int | float | np.ndarray | Pair)


@pytest.mark.parametrize("n", [300, pytest.param(100_000, marks=pytest.mark.long)])
def test_any_bytes_are_an_array_or_refused(n: int) -> None:
    fuzz(check_unpack, PACKED, n)


@pytest.mark.parametrize("shape", ["[0, 562949953421312]", "[1099511627776, 0, 1099511627776]"])
def test_a_length_of_zero_does_not_let_others_pass(shape: str) -> None:
    with pytest.raises(Unreadable, match="too long"):
        unpack(Packed("<f8", shape, b""))


@pytest.mark.parametrize("n", [300, pytest.param(100_000, marks=pytest.mark.long)])
def test_any_structure_is_a_state_or_refused(n: int) -> None:
    fuzz(check_restore, st.tuples(STRUCTURES, PACKED), n)


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
    st.floats(),
)
def test_states_survive_bit_for_bit(numbers: list[int], level: float) -> None:
    value = Pair(np.array(numbers, dtype=np.int64), level)
    back = restore_value(store_value(Pair(value, level)), [Pair])  # type: ignore[arg-type]
    np.testing.assert_equal(back, Pair(value, level))  # type: ignore[arg-type]
    assert back.numbers.numbers.dtype == np.int64
    assert type(back.level) is float


@given(st.lists(st.floats() | st.sampled_from([0.0, -0.0, 3.0, -7.0, 2.0**53]), max_size=6))
def test_floats_of_states_survive_bit_for_bit(values: list[float]) -> None:
    array = np.array(values, dtype=np.float64)
    back = restore_value(store_value(array), [])
    assert back.dtype == np.float64
    assert back.tobytes() == array.tobytes() or np.isnan(array).any()
    np.testing.assert_array_equal(back, array)


def test_counts_in_states_take_little_room() -> None:
    stored = store_value(Pair(np.arange(5), 0.0)._replace(numbers=np.full(100, 300.0)))
    assert len(stored.arrays["value.numbers"].content) == 200


def test_bytes_that_change_at_random(tmp_path: Path) -> None:
    """Whatever byte of a file is wrong: draws as they were, or one line."""
    make_run(tmp_path, n_chains=1)
    path = tmp_path / "chain-0.sqlite"
    content = path.read_bytes()
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(60):
        wrong = bytearray(content)
        for place in random.integers(len(content), size=8):
            wrong[place] = random.integers(256)
        path.write_bytes(bytes(wrong))
        try:
            chain = RunFolder(tmp_path).chain(0)
            chain.trace()
            for k in range(chain.n_draws()):
                chain.read(k)
        except DamagedRun:
            refused += 1
    assert refused > 10


def test_a_folder_that_cannot_be_locked_is_an_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "run.lock").mkdir()
    with pytest.raises(CannotWrite, match="cannot be written"):
        RunFolder(tmp_path).claim()
