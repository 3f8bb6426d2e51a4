"""Fitting on a Dask cluster: real worker processes, real kills, the same draws."""

import importlib
import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from clusters import KINDS, run_script
from treestick import BernoulliTree, TopicTree
from treestick._version import __version__
from treestick.engine import dask_workers
from treestick.engine.holding import Holder, Name
from treestick.estimators.configuration import check_same
from treestick.estimators.documents import Summary
from treestick.estimators.elsewhere import Numbers, _give_numbers, cut_evenly, write_all_numbers
from treestick.estimators.states import check_nodes_elsewhere
from treestick.inputs import InvalidValue
from treestick.io.pieces import FileRows, describe, expand, load, open_source, parts
from treestick.models.gaussian import Reals
from treestick.moves.shards import Shard, cut_rows
from treestick.moves.state import State, Sticks
from treestick.store import DamagedRun
from treestick.store.labels import LabelFiles
from treestick.tokens.collapsed import TopicCounts
from treestick.tokens.latent import TokenTopics
from treestick.tree.table import make_table

STICKS = Sticks(2.0, 1.0, 5.0, 0.5, 0.2, 0.8, 1.0, 0.5, 5.0)

# -- the same draws --------------------------------------------------------------------------------


def test_killed_workers_change_no_draw(tmp_path: Path) -> None:
    assert run_script("killed", tmp_path, "bernoulli", 60) == ["same"]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["bernoulli", "gaussian", "multinomial", "hdp", "topics"])
def test_killed_workers_change_no_draw_compiled(kind: str, tmp_path: Path) -> None:
    assert run_script("killed", tmp_path, kind, 2000, compiled=True) == ["same"]


@pytest.mark.long
def test_a_worker_that_is_killed_during_lda_changes_no_draw(tmp_path: Path) -> None:
    assert run_script("killed_early", tmp_path, 60) == ["same"]


@pytest.mark.long
def test_all_models_have_the_same_draws(tmp_path: Path) -> None:
    kinds = list(KINDS)
    assert run_script("models", tmp_path, 2001, *kinds, compiled=True) == kinds


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[pytest.mark.long] * (kind != "bernoulli")) for kind in KINDS],
)
def test_the_number_of_workers_and_groups_changes_no_draw(kind: str) -> None:
    assert run_script("sizes", kind, 60) == ["2 1", "4 1", "1 3", "1 17"]


# -- faults ----------------------------------------------------------------------------------------


def test_bad_data_are_named(tmp_path: Path) -> None:
    bit, width, glob = run_script("bad_data", tmp_path)
    assert "rows from 32 to" in bit
    assert "row 1, column 0" in bit
    assert "narrow.npy has columns 5" in width
    assert "*.zarr: no file has such a name" in glob


def test_a_worker_that_is_late_and_one_that_is_slow_change_no_draw(tmp_path: Path) -> None:
    assert run_script("late_and_slow", tmp_path, "bernoulli", 60) == ["2", "same"]


def test_a_scheduler_that_restarts_changes_no_draw(tmp_path: Path) -> None:
    assert run_script("restarted", tmp_path, "bernoulli", 60) == ["same"]


@pytest.mark.long
def test_commands_fit_and_resume_on_a_cluster(tmp_path: Path) -> None:
    fitted, without, resumed, auto, nothing, here = run_script("command_line", tmp_path)
    assert fitted.startswith("0 ")
    assert without.startswith("2 ")
    assert "go on with --scheduler" in without
    assert resumed.startswith("0 ")
    assert auto.startswith("2 ")
    assert "name a model" in auto
    assert nothing.startswith("3 ")
    assert "none-*.npy: no file has such a name" in nothing
    assert here.startswith("0 ")


class Alone(BernoulliTree):  # type: ignore[misc]
    """A model whose author has not thought of shards."""

    _can_be_elsewhere = False


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"sampler": "collapsed"}, "engine='dask' needs sampler='instantiated'"),
        ({"n_topics": None}, "n_topics must be a number"),
    ],
)
def test_topics_on_a_cluster_are_drawn_all_at_once(how: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidValue, match=rf"^TopicTree: .*{said}[^.]*$"):
        TopicTree(engine="dask", **how).fit(np.ones((4, 2), dtype=int))


def test_dask_needs_a_client_and_a_model_that_can() -> None:
    X = np.zeros((4, 2), dtype=int)
    with pytest.raises(InvalidValue, match=r"engine='dask' needs a client"):
        BernoulliTree(engine="dask").fit(X)
    able = "BernoulliTree, .*GaussianTree, .*HDPTree, .*MultinomialTree, .*TopicTree"
    with pytest.raises(InvalidValue, match=rf"Alone: engine='dask' is for {able}"):
        Alone(engine="dask").fit(X)
    with pytest.raises(InvalidValue, match="begin with all data at the root"):
        BernoulliTree(engine="dask", init=[0, 0, 1, 1]).fit(X)


@pytest.mark.parametrize("engines", [("dask", "threads"), ("processes", "dask")])
def test_a_run_stays_where_its_data_are(engines: tuple[str, str]) -> None:
    there, here = ({"parameters": {"engine": engine}} for engine in engines)
    with pytest.raises(InvalidValue, match=rf"run with engine='{engines[0]}', which cannot go on"):
        check_same("folder", there, here)


def test_a_scheduler_that_does_not_answer_is_named() -> None:
    with pytest.raises(InvalidValue, match=r"tcp://127\.0\.0\.1:1: no answer for 0\.2 s"):
        dask_workers.connect("tcp://127.0.0.1:1", 0.2)


@pytest.mark.parametrize(("found", "said"), [(None, "no treestick"), ("0.0.9", "0.0.9, and here")])
def test_workers_with_another_version_are_named(found: str | None, said: str) -> None:
    with pytest.raises(InvalidValue, match=rf"tcp://a:1 has .*{said}") as raised:
        dask_workers.check_version(found, "tcp://a:1", __version__)
    assert __version__ in str(raised.value)


class Client:
    """Runs a function where there is no treestick, as Dask's does on a worker."""

    status = "running"
    scheduler = SimpleNamespace(address="tcp://scheduler:1")

    def run(self, function: Any) -> dict[str, str]:
        script = "import pickle, sys; sys.modules['treestick'] = None; "
        script += "print(pickle.loads(sys.stdin.buffer.read())())"
        sent: bytes = importlib.import_module("distributed.protocol.pickle").dumps(function)
        finished = subprocess.run(
            [sys.executable, "-c", script], input=sent, stdout=subprocess.PIPE, check=True
        )
        return {"tcp://a:1": finished.stdout.decode().strip()}


def test_a_worker_without_treestick_can_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    client: Any = Client()
    monkeypatch.setattr(dask_workers, "__version__", "0.0.9")
    found = importlib.metadata.version("treestick")
    with pytest.raises(InvalidValue, match=rf"tcp://a:1 has treestick {re.escape(found)}, and"):
        dask_workers.DaskWorkers(client)


def test_a_worker_process_without_treestick_is_named(tmp_path: Path) -> None:
    (said,) = run_script("without_treestick", tmp_path)
    assert re.fullmatch(
        rf"the worker tcp://127\.0\.0\.1:\d+ has no treestick; install {__version__} there", said
    )


# -- rows that a worker holds ----------------------------------------------------------------------


@pytest.mark.long
def test_data_larger_than_the_memory_of_a_worker(tmp_path: Path) -> None:
    same, limit, data, most, in_files = run_script("larger_than_memory", tmp_path, compiled=True)
    assert same == "same"
    assert int(data) > int(limit) > int(most)
    assert int(in_files) > 0.5 * int(data)


def test_rows_without_room_are_read_from_disk(tmp_path: Path) -> None:
    rows = [Reals(np.full((10, 3), float(k))) for k in range(4)]
    n_made = 0

    def make(k: int) -> Reals:
        nonlocal n_made
        n_made += 1
        return rows[k]

    holder = Holder(room=500.0, folder=str(tmp_path))  # two of them are 480 bytes
    for _ in range(2):
        for k in range(4):
            holder.put(Name("fit", k), partial(make, k))
    assert n_made == 4
    in_memory, in_files = holder.n_bytes()
    assert in_memory == 480
    assert in_files > 480
    assert len(list(tmp_path.glob("*/*"))) == 2
    for _ in range(2):
        for k in (0, 2, 2, 3, 1):
            np.testing.assert_array_equal(holder.get(Name("fit", k)).values, rows[k].values)
    assert holder.get(Name("fit", 0)) is rows[0]
    assert holder.get(Name("fit", 3)) is not rows[3]
    holder.put(Name("other", 0), lambda: rows[0])
    holder.forget("fit")
    assert len(list(tmp_path.glob("*/*"))) == 1
    with pytest.raises(KeyError):
        holder.get(Name("fit", 3))
    holder.put(Name("fit", 1), lambda: rows[1])
    assert holder.get(Name("fit", 1)) is rows[1]


# -- pieces of files -------------------------------------------------------------------------------


def ask(function: Callable[[str], Any], paths: list[str]) -> list[Any]:
    return [function(path) for path in paths]


@pytest.mark.parametrize("protocol", ["", "file://"])
@pytest.mark.parametrize("kind", ["npy", "npz", "parquet", "zarr"])
def test_rows_of_files_are_read_where_they_are_asked_for(
    kind: str, protocol: str, tmp_path: Path
) -> None:
    x: Any = np.arange(70).reshape(35, 2)
    paths = []
    for k, part in enumerate((x[:3], x[3:20], x[20:])):
        path = tmp_path / f"part-{k}.{kind}"
        if kind == "npy":
            np.save(path, part)
        elif kind == "npz":
            sparse.save_npz(path, sparse.csr_array(part))
        elif kind == "zarr":
            import zarr

            zarr.save_array(str(path), part)
        else:
            import pandas as pd

            pd.DataFrame(part, columns=["a", "b"]).to_parquet(path, row_group_size=4)
        paths.append(f"{protocol}{path}")
    assert expand(f"{protocol}{tmp_path}/*.{kind}") == paths
    source = open_source(f"{protocol}{tmp_path}/*.{kind}", ask)
    assert (source.n_rows, source.n_columns) == (35, 2)
    assert source.names == (["a", "b"] if kind == "parquet" else None)
    for start, stop in ((0, 35), (1, 2), (2, 21), (19, 30)):
        piece = source.piece(start, stop)
        np.testing.assert_array_equal(dense(load(piece)), x[start:stop])
        for size in (1, 4, 40):
            tables = [dense(table) for table in parts(piece, size)]
            assert {len(table) for table in tables[:-1]} <= {size}
            np.testing.assert_array_equal(np.concatenate(tables), x[start:stop])


def dense(table: Any) -> Any:
    return table.toarray() if hasattr(table, "toarray") else np.asarray(table)


def test_files_that_do_not_fit_are_named(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((2, 3)))
    np.save(tmp_path / "b.npy", np.zeros((2, 3), dtype=np.int8))
    np.save(tmp_path / "c.npy", np.zeros((2, 4)))
    np.save(tmp_path / "line.npy", np.zeros(2))
    np.save(tmp_path / "none.npy", np.zeros((0, 3)))
    (tmp_path / "text.npy").write_text("no array")
    a, b, c, line, none, text = (
        str(tmp_path / f"{name}.npy") for name in ("a", "b", "c", "line", "none", "text")
    )
    with pytest.raises(InvalidValue, match=r"b\.npy has dtype 'int8', and .*a\.npy has 'float64'"):
        open_source([a, b], ask)
    with pytest.raises(InvalidValue, match=r"c\.npy has columns 4, and .*a\.npy has 3"):
        open_source([a, c], ask)
    with pytest.raises(InvalidValue, match=r"line\.npy: is an array of 1 dimensions"):
        open_source([line], ask)
    with pytest.raises(InvalidValue, match=r"none\.npy: there are no rows in 1 files"):
        open_source([none], ask)
    with pytest.raises(InvalidValue, match=r"text\.npy: cannot be read"):
        describe(text)
    with pytest.raises(InvalidValue, match=r"a\.csv: cannot be read in pieces"):
        describe("a.csv")
    with pytest.raises(InvalidValue, match=r"\*\.parquet: no file has such a name"):
        expand(str(tmp_path / "*.parquet"))


def test_urls_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"^nowhere://a/\*\.npy: cannot be read: Protocol not "):
        expand("nowhere://a/*.npy")
    with pytest.raises(InvalidValue, match=r"\*\.npy: no file has such a name"):
        expand(f"file://{tmp_path}/*.npy")
    with pytest.raises(InvalidValue, match=r"^file://.*a\.parquet: there is no such file"):
        describe(f"file://{tmp_path}/a.parquet")
    with pytest.raises(InvalidValue, match=r"^file://.*a\.zarr: "):
        describe(f"file://{tmp_path}/a.zarr")
    np.save(tmp_path / "columns.npy", np.asfortranarray(np.zeros((3, 2))))
    with pytest.raises(InvalidValue, match=r"columns\.npy: is stored by columns"):
        describe(f"file://{tmp_path}/columns.npy")
    (tmp_path / "text.npy").write_text("no array")
    with pytest.raises(InvalidValue, match=r"text\.npy: the head is not that of an array"):
        describe(f"file://{tmp_path}/text.npy")
    np.save(tmp_path / "short.npy", np.zeros((30, 2)))
    source = open_source(f"file://{tmp_path}/short.npy", ask)
    with (tmp_path / "short.npy").open("r+b") as file:
        file.truncate(300)
    with pytest.raises(InvalidValue, match=r"short\.npy: ends before row 29"):
        load(source.piece(20, 30))


def test_what_is_here_is_a_source_too() -> None:
    x: Any = np.arange(12).reshape(6, 2)
    np.testing.assert_array_equal(load(open_source(x, ask).piece(2, 4)), x[2:4])
    np.testing.assert_array_equal(load(open_source(x.tolist(), ask).piece(2, 4)), x[2:4])
    rows = load(open_source(sparse.coo_array(x), ask).piece(2, 4))
    np.testing.assert_array_equal(rows.toarray(), x[2:4])
    with pytest.raises(InvalidValue, match=r"shape \(0, 2\)"):
        open_source(x[:0], ask)
    assert load([FileRows]) == [FileRows]


# -- labels ----------------------------------------------------------------------------------------


def test_labels_are_read_across_shards(tmp_path: Path) -> None:
    files = LabelFiles(tmp_path / "labels")
    labels = np.random.default_rng(1).integers(300, size=20)
    for start, stop in ((0, 8), (8, 16), (16, 20)):
        files.write(7, start, labels[start:stop])
    np.testing.assert_array_equal(files.read_all(7), labels)
    np.testing.assert_array_equal(files.read(7, 5, 17), labels[5:17])
    with pytest.raises(DamagedRun, match="from 15 to 25 are missing"):
        files.read(7, 15, 25)
    with pytest.raises(DamagedRun, match="there are no labels"):
        files.read_all(8)
    path = tmp_path / "labels" / "000000007" / "000000000008.npy"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(DamagedRun, match=r"000000000008\.npy: cannot be read"):
        files.read_all(7)
    files.remove(7)
    with pytest.raises(DamagedRun, match="there are no labels"):
        files.read_all(7)


@pytest.mark.parametrize(("width", "first"), [(1, 8), (3, 0)])
def test_numbers_of_data_are_read_across_shards_and_checked(
    width: int, first: int, tmp_path: Path
) -> None:
    files, got = LabelFiles(tmp_path / "numbers"), list[Any]()
    numbers = np.random.default_rng(1).integers(7, size=(20, width))
    labels = np.zeros(20, dtype=np.int64)
    for start, stop in ((0, 8), (8, 20)):
        written = Shard(start, list, labels[start:stop], {}, {"numbers": numbers[start:stop]})
        write_all_numbers([written], 20, files, 7)
    shard = Shard(first, list, labels[first:], {}, {})
    committed = Numbers(files, 7, width, 7, None, lambda shard, found, shared: got.append(found))
    _give_numbers(shard, committed)
    np.testing.assert_array_equal(got[0].reshape(-1, width), numbers[first:])
    with pytest.raises(DamagedRun, match=f"data from {first} on have what is not there"):
        _give_numbers(shard, committed._replace(limit=int(numbers[first:].max())))


def test_a_state_of_documents_elsewhere_is_checked() -> None:
    model, sticks = TopicTree(3)._make_model(Summary(np.array([1]), np.array([1])))[0], STICKS
    counts = TopicCounts(
        np.zeros((0, 16), dtype=np.float32), np.zeros((5, 16), dtype=np.float32), np.zeros(16)
    )
    topics = TokenTopics(np.empty(0, dtype=np.int32), counts, 3, 0.1, 0.1, 0.1)
    none = np.empty(0, dtype=np.int64)
    state = State(make_table(1), none, np.zeros((1, 3)), np.zeros((1, 4)), model, sticks, topics)
    check_nodes_elsewhere(state, model, None, 5)
    for latent, said in (
        (None, "no topics of tokens"),
        (topics._replace(n_topics=4), "not as many as the model has"),
        (topics._replace(counts=counts._replace(of_words=counts.of_words[1:])), "of these words"),
        (topics._replace(topics=np.zeros(2, dtype=np.int32)), "of these words"),
    ):
        with pytest.raises(DamagedRun, match=said):
            check_nodes_elsewhere(state._replace(latent=latent), model, None, 5)
    with pytest.raises(DamagedRun, match="it has atoms where there are none"):
        check_nodes_elsewhere(state, model, None, None)


@settings(max_examples=200)
@given(st.integers(1, 10**6), st.integers(1, 20), st.integers(1, 50))
def test_shards_are_shared_out_evenly(n_rows: int, n_threads: int, n_groups: int) -> None:
    """Also among more groups than they were cut for."""
    tasks = cut_rows(n_rows, n_threads)
    n_groups = min(n_groups, len(tasks))
    edges = cut_evenly(tasks, n_groups)
    assert (edges[0], edges[-1], len(edges)) == (0, len(tasks), n_groups + 1)
    assert np.diff(edges).min() >= 1
    ends = np.array([0, *(stop for _, stop in tasks)])
    largest = np.diff(ends).max()
    assert np.diff(ends[edges]).max() <= n_rows / n_groups + largest


def test_groups_have_about_as_many_rows() -> None:
    assert np.diff(_ends(500_000, 2)).tolist() == [253_952, 246_048]
    assert np.diff(_ends(500_000, 4)).tolist() == [126_976, 122_880, 126_976, 123_168]
    assert np.diff(_ends(50_000, 4)).tolist() == [12_288, 12_288, 12_288, 13_136]


def _ends(n_rows: int, n_groups: int) -> list[int]:
    tasks = cut_rows(n_rows, n_groups)
    return [0, *(tasks[edge - 1][1] for edge in cut_evenly(tasks, n_groups)[1:])]
