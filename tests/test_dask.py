"""Fitting on a Dask cluster: real worker processes, real kills, the same draws.

The scripts run in processes of their own, uncompiled in CI and on few data, because the workers
would compile for minutes; the long tier compiles.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from treestick import BernoulliTree, GaussianTree
from treestick.inputs import InvalidValue
from treestick.io.pieces import FileRows, describe, expand, load, open_source
from treestick.store import DamagedRun
from treestick.store.labels import LabelFiles

SETTING = """
import os, signal, sys, threading, time, warnings
import numpy as np
from treestick import BernoulliTree

folder, n_data = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(0)
chance = np.repeat([[0.1], [0.9]], n_data // 2, axis=0)
X = (rng.random((n_data, 8)) < chance).astype(np.uint8)
how = dict(n_draws=3, burn_in=2, n_chains=2, random_state=0, verbose=0)
warnings.simplefilter("ignore")  # so few draws do not agree


def check_same(one, other):
    assert len(one.draws_) == len(other.draws_)
    for a, b in zip(one.draws_, other.draws_, strict=True):
        assert a.parent.tobytes() == b.parent.tobytes()
        np.testing.assert_array_equal(a.assignments, b.assignments)
        np.testing.assert_array_equal(a.node_params["logit"], b.node_params["logit"])


def main():
    from distributed import Client, LocalCluster

    here = BernoulliTree(**how).fit(X)
    np.save(folder + "/a.npy", X[:25])
    np.save(folder + "/b.npy", X[25:])
    files = [folder + "/a.npy", folder + "/b.npy"]
    run_dir = folder + "/run"
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster, Client(cluster) as client:
        {body}


if __name__ == "__main__":
    main()
"""

KILLED = """
        import dask.array as da

        def kill(pids):
            while not os.path.exists(run_dir + "/chain-0-labels"):
                time.sleep(0.01)  # until a draw is committed
            os.kill(pids[0], signal.SIGKILL)

        pids = list(client.run(os.getpid).values())
        killer = threading.Thread(target=kill, args=(pids,))
        killer.start()
        there = BernoulliTree(engine="dask", run_dir=run_dir, **how).fit(files)
        killer.join()
        assert pids[0] not in client.run(os.getpid).values()
        check_same(here, there)
        # With other workers, from the same folder, and from a collection of Dask.
        cluster.scale(1)
        while len(client.scheduler_info(n_workers=-1)["workers"]) > 1:
            time.sleep(0.05)
        longer = dict(how, n_draws=4)
        X_there = da.from_array(X, chunks=(17, 8))
        more = BernoulliTree(engine="dask", run_dir=run_dir, **longer).fit(X_there)
        check_same(BernoulliTree(**longer).fit(X), more)
        print("same")
"""

FAULTS = """
        for what, X_bad in {
            "bit": np.where(np.arange(n_data)[:, None] == 33, 7, X),
            "width": files + [folder + "/narrow.npy"],
        }.items():
            try:
                BernoulliTree(engine="dask", **how).fit(X_bad)
            except ValueError as error:
                print(what, error)
"""


def run_script(body: str, folder: Path, n_data: int, compiled: bool) -> str:
    script = folder / "script.py"
    script.write_text(SETTING.replace("        {body}", body))
    finished = subprocess.run(
        [sys.executable, str(script), str(folder), str(n_data)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "0" if compiled else "1"},
        capture_output=True,
        text=True,
        timeout=1800 if compiled else 300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-4000:]
    return finished.stdout


def test_killed_workers_change_no_draw(tmp_path: Path) -> None:
    assert run_script(KILLED, tmp_path, 60, False).split() == ["same"]


@pytest.mark.long
def test_killed_workers_change_no_draw_compiled(tmp_path: Path) -> None:
    assert run_script(KILLED, tmp_path, 2000, True).split() == ["same"]


@pytest.mark.long
def test_bad_data_are_named(tmp_path: Path) -> None:
    np.save(tmp_path / "narrow.npy", np.zeros((5, 5), dtype=np.uint8))
    bit, width = run_script(FAULTS, tmp_path, 60, False).splitlines()
    assert "rows from 32 to" in bit
    assert "row 1, column 0" in bit
    assert "narrow.npy has columns 5" in width


def test_dask_needs_a_client_and_a_model_that_can() -> None:
    X = np.zeros((4, 2), dtype=int)
    with pytest.raises(InvalidValue, match=r"engine='dask' needs a client"):
        BernoulliTree(engine="dask").fit(X)
    with pytest.raises(InvalidValue, match=r"GaussianTree: engine='dask' is for BernoulliTree"):
        GaussianTree(engine="dask").fit(X)
    with pytest.raises(InvalidValue, match="begin with all data at the root"):
        BernoulliTree(engine="dask", init=[0, 0, 1, 1]).fit(X)


# -- pieces of files -------------------------------------------------------------------------------


def ask(function: Callable[[str], Any], paths: list[str]) -> list[Any]:
    return [function(path) for path in paths]


@pytest.mark.parametrize("kind", ["npy", "parquet", "zarr"])
def test_rows_of_files_are_read_where_they_are_asked_for(kind: str, tmp_path: Path) -> None:
    x: Any = np.arange(70).reshape(35, 2)
    paths = []
    for k, part in enumerate((x[:3], x[3:20], x[20:])):
        path = tmp_path / f"part-{k}.{kind}"
        if kind == "npy":
            np.save(path, part)
        elif kind == "zarr":
            import zarr

            zarr.save_array(str(path), part)
        else:
            import pandas as pd

            pd.DataFrame(part, columns=["a", "b"]).to_parquet(path, row_group_size=4)
        paths.append(str(path))
    assert expand(str(tmp_path / f"*.{kind}")) == paths
    source = open_source(paths, ask)
    assert (source.n_rows, source.n_columns) == (35, 2)
    assert source.names == (["a", "b"] if kind == "parquet" else None)
    for start, stop in ((0, 35), (1, 2), (2, 21), (19, 30)):
        np.testing.assert_array_equal(np.asarray(load(source.piece(start, stop))), x[start:stop])


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


def test_what_is_here_is_a_source_too() -> None:
    x: Any = np.arange(12).reshape(6, 2)
    np.testing.assert_array_equal(load(open_source(x, ask).piece(2, 4)), x[2:4])
    np.testing.assert_array_equal(load(open_source(x.tolist(), ask).piece(2, 4)), x[2:4])
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
