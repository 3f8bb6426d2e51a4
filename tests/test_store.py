"""Draws on disk: what is read is what was appended, and nothing is left behind."""

import copy
import gc
import json
import math
import os
import pickle
import sqlite3
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treestick.inputs import InvalidValue
from treestick.store import CannotWrite, DamagedRun, DrawRecord, RunFolder, arrays

TINY = 1e-300
HUGE = 1e300


def draw(chain: int = 0, sweep: int = 0, n_data: int = 20, n_nodes: int = 5) -> DrawRecord:
    """Return a draw whose content tells its chain and sweep."""
    random = np.random.default_rng([chain, sweep])
    return DrawRecord(
        parent=np.r_[-1, random.integers(0, np.arange(1, n_nodes))],
        assignments=random.integers(0, n_nodes, n_data),
        theta=random.normal(size=(n_nodes, 3)).astype(np.float32).astype(np.float64),
        scalars={"log_likelihood": -100.5 - sweep, "gamma": random.random()},
        vectors={"diffusion": random.random(3), "empty": np.zeros(0)},
        chain=chain,
        sweep=sweep,
    )


def read(store: RunFolder, position: int) -> DrawRecord:
    """Return a draw; positions go by chain, and in a chain by the order of appending."""
    counts = store.n_per_chain()
    chain = 0
    while position >= counts[chain]:
        position -= counts[chain]
        chain += 1
    return store.chain(chain).read(position)


def n_draws(store: RunFolder) -> int:
    return sum(store.n_per_chain())


def assert_same(one: DrawRecord, other: DrawRecord) -> None:
    np.testing.assert_equal(one._asdict(), other._asdict())


def stored_types(store: RunFolder, chain: int = 0) -> dict[str, list[str]]:
    with closing(sqlite3.connect(store.folder / f"chain-{chain}.sqlite")) as connection:
        rows = connection.execute("SELECT name, dtype FROM arrays ORDER BY draw").fetchall()
    return {field: [dtype for name, dtype in rows if name == field] for field, _ in rows}


def run(script: str, *arguments: str) -> Any:
    """Run ``script`` in another interpreter and return what it prints, from JSON."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return json.loads(done.stdout)


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).map(lambda text: f"_{text}")


@given(
    n_nodes=st.integers(1, 5),
    theta=st.lists(st.floats(width=32) | st.sampled_from([TINY, HUGE]), max_size=5),
    scalars=st.dictionaries(NAMES, st.floats(), max_size=3),
    vectors=st.dictionaries(NAMES.map("v".__add__), st.lists(st.floats(), max_size=3), max_size=3),
)
@settings(max_examples=50)
def test_round_trip(
    n_nodes: int,
    theta: list[float],
    scalars: dict[str, float],
    vectors: dict[str, list[float]],
) -> None:
    record = DrawRecord(
        parent=np.arange(n_nodes) - 1,
        assignments=np.arange(n_nodes)[::-1],
        theta=np.tile(theta, (n_nodes, 1)),
        scalars=scalars,
        vectors={name: np.array(values, dtype=float) for name, values in vectors.items()},
        chain=2,
        sweep=7,
        leaf_statistics=np.array([[0.25, 3.0]]),
    )
    store = RunFolder()
    store.append(record)
    back = read(store, 0)
    assert_same(back, record)
    assert list(back.scalars) == list(scalars)
    assert list(back.vectors) == list(vectors)
    assert back.parent.dtype == back.assignments.dtype == np.int64
    assert {a.dtype for a in (back.theta, *back.vectors.values())} == {np.dtype(np.float64)}


def test_nan_and_infinities() -> None:
    store = RunFolder()
    values = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf, "-0": -0.0}
    theta = np.tile(list(values.values()), (5, 1))
    store.append(draw()._replace(scalars=values, theta=theta))
    back = read(store, 0)
    np.testing.assert_equal(back.scalars, values)
    np.testing.assert_equal(back.theta, theta)
    assert math.copysign(1.0, back.scalars["-0"]) == -1.0


def test_positions_go_by_chain_and_order_of_appending() -> None:
    store = RunFolder()
    assert n_draws(store) == 0
    assert store.n_per_chain() == []
    # Numbers of more than one digit, and sweeps that do not grow.
    order = [(10, 3), (2, 5), (0, 9), (10, 1), (2, 4), (0, 9)]
    for chain, sweep in order:
        store.append(draw(chain, sweep))
    assert store.n_per_chain() == [2, 0, 2, 0, 0, 0, 0, 0, 0, 0, 2]
    assert n_draws(store) == 6
    expected = [(0, 9), (0, 9), (2, 5), (2, 4), (10, 3), (10, 1)]
    for position, (chain, sweep) in enumerate(expected):
        assert_same(read(store, position), draw(chain, sweep))


def test_what_is_read_can_be_changed() -> None:
    store = RunFolder()
    store.append(draw())
    read(store, 0).theta[:] = 0.0
    assert_same(read(store, 0), draw())


def test_chain_and_sweep_are_counts() -> None:
    store = RunFolder()
    with pytest.raises(InvalidValue, match="chain=-1 is not a whole number >= 0"):
        store.append(draw()._replace(chain=-1))
    with pytest.raises(InvalidValue, match="sweep=-1 is not a whole number >= 0"):
        store.append(draw()._replace(sweep=-1))
    # NumPy's integers are buffers, which SQLite would take for bytes.
    store.append(draw(1, 3)._replace(chain=np.int64(1), sweep=np.int32(3)))  # type: ignore[arg-type]
    assert_same(read(store, 0), draw(1, 3))


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (-1, 127, "|i1"),
        (-128, 0, "|i1"),
        (-1, 128, "<i2"),
        (-129, -129, "<i2"),
        (0, 2**15 - 1, "<i2"),
        (0, 2**15, "<i4"),
        (-(2**31), 2**31 - 1, "<i4"),
        (0, 2**31, "<i8"),
        (-(2**63), 2**63 - 1, "<i8"),
    ],
)
def test_the_smallest_integers_that_fit(low: int, high: int, dtype: str) -> None:
    values = np.array([low, high])
    packed = arrays.pack(arrays.smallest(values))
    assert packed.dtype == dtype
    np.testing.assert_array_equal(arrays.unpack(packed, np.int64), values)


def test_assignments_take_one_byte_where_nodes_are_few() -> None:
    store = RunFolder()
    store.append(draw(n_nodes=128))
    store.append(draw(n_nodes=129))
    assert stored_types(store)["assignments"] == stored_types(store)["parent"] == ["|i1", "|i1"]
    store.append(draw(n_nodes=300, n_data=3000))
    assert stored_types(store)["assignments"][2] == "<i2"


def test_theta_takes_float32_if_that_has_the_range() -> None:
    store = RunFolder()
    thetas = [[1 / 3, 0.0, np.inf], [1 / 3, HUGE], [1 / 3, -TINY]]
    for theta in thetas:
        store.append(draw(n_nodes=1)._replace(theta=np.array([theta])))
    assert stored_types(store)["theta"] == ["<f4", "<f8", "<f8"]
    assert set(stored_types(store)["diffusion"]) == {"<f8"}
    assert read(store, 0).theta.tolist() == [[float(np.float32(1 / 3)), 0.0, np.inf]]
    assert read(store, 1).theta.tolist() == [thetas[1]]
    assert read(store, 2).theta.tolist() == [thetas[2]]


def test_any_order_of_bytes_and_strides() -> None:
    record = draw()
    odd = record._replace(
        parent=record.parent.astype(">i8"),
        assignments=np.repeat(record.assignments, 2)[::2],
        theta=np.asfortranarray(record.theta).astype(">f8"),
        vectors={name: vector.astype(">f8") for name, vector in record.vectors.items()},
    )
    store = RunFolder()
    store.append(odd)
    assert_same(read(store, 0), record)


def test_chains_in_threads_with_a_reader_beside_them() -> None:
    n_chains, n_each = 4, 50
    store = RunFolder()
    done = threading.Event()

    def run_chain(chain: int) -> None:
        for sweep in range(n_each):
            store.append(draw(chain, sweep))

    def read_all() -> None:
        while not done.is_set():
            for chain, n in enumerate(counts := store.n_per_chain()):
                # Positions may have moved on since, to earlier draws, but there is always a draw.
                if n:
                    found = read(store, sum(counts[: chain + 1]) - 1)
                    assert_same(found, draw(found.chain, found.sweep))

    with ThreadPoolExecutor(n_chains + 1) as pool:
        reader = pool.submit(read_all)
        try:
            list(pool.map(run_chain, range(n_chains)))
        finally:
            done.set()
        reader.result()
    assert store.n_per_chain() == [n_each] * n_chains
    for position in range(n_chains * n_each):
        assert_same(read(store, position), draw(*divmod(position, n_each)))


def test_one_chain_from_many_threads() -> None:
    store = RunFolder()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda sweep: store.append(draw(0, sweep)), range(40)))
    found = [read(store, position) for position in range(40)]
    assert sorted(record.sweep for record in found) == list(range(40))
    for record in found:
        assert_same(record, draw(0, record.sweep))


def test_a_draw_is_there_whole_or_not_at_all() -> None:
    store = RunFolder()
    store.append(draw(0, 0))
    broken = draw(0, 1)
    broken.vectors["\ud800"] = np.ones(1)  # a name that is no text: SQLite finds it after some rows
    with pytest.raises(UnicodeEncodeError):
        store.append(broken)
    broken = draw(0, 1)
    broken.scalars["undeclared"] = 1.0
    with pytest.raises(ValueError, match="undeclared"):
        store.append(broken)
    store.append(draw(0, 2))
    assert n_draws(store) == 2
    assert_same(read(store, 1), draw(0, 2))


def through_joblib(store: RunFolder, folder: Path) -> RunFolder:
    joblib = pytest.importorskip("joblib")
    joblib.dump(store, folder / "store.joblib", compress=3)
    return joblib.load(folder / "store.joblib")  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "copied",
    [
        lambda store, _: pickle.loads(pickle.dumps(store)),
        lambda store, _: copy.deepcopy(store),
        through_joblib,
    ],
    ids=["pickle", "deepcopy", "joblib"],
)
def test_copies_outlive_the_original(
    copied: Callable[[RunFolder, Path], RunFolder], tmp_path: Path
) -> None:
    store = RunFolder()
    for chain, sweep in [(0, 0), (0, 1), (2, 0)]:
        store.append(draw(chain, sweep))
    folder = store.folder
    other = copied(store, tmp_path)
    del store
    gc.collect()
    assert not folder.exists()
    assert other.folder != folder
    assert other.n_per_chain() == [2, 0, 1]
    other.append(draw(0, 2))
    for position, (chain, sweep) in enumerate([(0, 0), (0, 1), (0, 2), (2, 0)]):
        assert_same(read(other, position), draw(chain, sweep))


def test_a_pickle_outlives_its_process(tmp_path: Path) -> None:
    store = RunFolder(tmp_path / "draws")
    store.claim()
    store.append(draw(0, 5))
    store.append(draw(1, 5))
    path = tmp_path / "store.pickle"
    path.write_bytes(pickle.dumps(store))
    for file in store.folder.iterdir():
        file.unlink()
    script = (
        "import json, pathlib, pickle, sys;"
        "store = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes());"
        "print(json.dumps([store.n_per_chain(), store.chain(1).read(0).theta.tolist()]))"
    )
    assert run(script, str(path)) == [[1, 1], draw(1, 5).theta.tolist()]


def test_temporary_files_go_with_the_store() -> None:
    store = RunFolder()
    store.append(draw())
    folder = store.folder
    assert folder.is_dir()
    del store
    gc.collect()
    assert not folder.exists()


def test_temporary_files_go_when_the_interpreter_exits() -> None:
    script = (
        "import json; from treestick.store import RunFolder; store = RunFolder();"
        "print(json.dumps(str(store.folder)))"
    )
    assert not Path(run(script)).exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_leaves_the_files_alone() -> None:
    script = """if True:
        import json, os, pickle
        import numpy as np
        from treestick.inputs import InvalidValue
        from treestick.store import DrawRecord, RunFolder
        store = RunFolder()
        tree = np.array([-1, 0, 0])
        record = DrawRecord(tree, tree + 1, np.ones((3, 1)), {}, {}, 0, 0)
        store.append(record)
        child = os.fork()
        if child == 0:
            assert store.n_per_chain() == [1]
            try:
                store.append(record)
            except InvalidValue:
                raise SystemExit(7)
        _, status = os.waitpid(child, 0)
        store.append(record)
        print(json.dumps([os.waitstatus_to_exitcode(status), sum(store.n_per_chain())]))
    """
    assert run(script) == [7, 2]


def test_a_given_folder_stays_and_is_taken_up_again(tmp_path: Path) -> None:
    folder = tmp_path / "a run?#" / "draws"
    store = RunFolder(folder)
    store.claim()
    store.append(draw(0, 0))
    store.close()
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["chain-0.lock", "chain-0.sqlite", "run.lock"]
    store.append(draw(0, 1))
    other = RunFolder(folder)
    assert n_draws(other) == 2
    store.append(draw(0, 2))
    assert n_draws(other) == 3
    del store
    gc.collect()
    other.append(draw(0, 3))
    assert [read(other, k).sweep for k in range(4)] == [0, 1, 2, 3]


def test_no_pickles_in_the_files() -> None:
    store = RunFolder()
    store.append(draw())
    with closing(sqlite3.connect(store.folder / "chain-0.sqlite")) as connection:
        rows = connection.execute("SELECT name, dtype, shape, content FROM arrays").fetchall()
    contents: dict[str, npt.NDArray[Any]] = {
        field: np.frombuffer(content, dtype).reshape(json.loads(shape))
        for field, dtype, shape, content in rows
    }
    np.testing.assert_array_equal(contents["parent"], draw().parent)
    np.testing.assert_array_equal(contents["theta"], draw().theta)


def test_memory_stays_small() -> None:
    store = RunFolder()
    n_each, record = 300, draw(n_data=50_000, n_nodes=300)
    store.append(record)
    tracemalloc.start()
    try:
        for sweep in range(n_each):
            store.append(record._replace(sweep=sweep))
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    on_disk = sum(path.stat().st_size for path in store.folder.iterdir())
    assert on_disk > 30e6
    assert kept < 0.1e6
    assert peak < 2e6


def test_a_full_disk_gives_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store = RunFolder(tmp_path)
    store.append(draw(0, 0))
    store.close()
    connect = sqlite3.connect

    def connect_to_small_disk(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.execute("PRAGMA max_page_count = 20")
        return connection

    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", connect_to_small_disk)
        with pytest.raises(
            CannotWrite, match=r"disk is full; 200\d\d\d bytes are needed"
        ) as caught:
            store.append(draw(0, 1, n_data=200_000))
    assert str(tmp_path / "chain-0.sqlite") in str(caught.value)
    assert "\n" not in str(caught.value)
    assert n_draws(store) == 1
    store.close()
    store.append(draw(0, 2))
    assert_same(read(store, 1), draw(0, 2))


def test_a_folder_that_cannot_be_written_gives_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("not a folder")
    for folder in (taken, taken / "below"):
        with pytest.raises(CannotWrite, match=r"taken.*: cannot be written: ") as caught:
            RunFolder(folder).claim()
        assert "\n" not in str(caught.value)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(CannotWrite, match="the temporary folder: cannot be written"):
        RunFolder()


def test_a_file_of_something_else_gives_one_line(tmp_path: Path) -> None:
    (tmp_path / "chain-0.sqlite").write_text("a letter to a friend, rather long" * 100)
    (tmp_path / "chain-of-thought.sqlite").write_text("not ours")
    with pytest.raises(DamagedRun, match=r"chain-0.sqlite is damaged: file is not a database"):
        n_draws(RunFolder(tmp_path))
