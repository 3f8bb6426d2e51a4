"""What :func:`clusters.run_script` runs: each prints what its test looks at."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clusters import (
    check_same,
    fit,
    has_draws,
    kill_when,
    local_cluster,
    make_data,
    n_committed,
    save,
)
from clusters import wait_until as wait
from treestick.engine.dask_workers import connect
from treestick.engine.holding import the_holder


def main() -> None:
    """Call the function that is named first, with what comes behind."""
    globals()[sys.argv[1]](*sys.argv[2:])


def killed(folder: str, kind: str, n_data: str) -> None:
    """Kill a worker in the middle; go on with another number of workers, from a collection."""
    da: Any = importlib.import_module("dask.array")  # not typed
    X = make_data(kind, int(n_data))
    files, run_dir = save(X, Path(folder), [25]), Path(folder) / "run"
    with local_cluster(2) as (cluster, client):
        pids = list(client.run(os.getpid).values())
        killer = threading.Thread(target=kill_when, args=(lambda: has_draws(run_dir), pids[0]))
        killer.start()
        there = fit(kind, files, engine="dask", run_dir=run_dir)
        killer.join()
        assert pids[0] not in client.run(os.getpid).values()
        check_same(fit(kind, X), there)
        cluster.scale(1)
        wait(lambda: len(client.scheduler_info()["workers"]) == 1)
        X_there = da.from_array(X, chunks=(17, X.shape[1]))
        more = fit(kind, X_there, engine="dask", run_dir=run_dir, n_draws=4)
        check_same(fit(kind, X, n_draws=4), more)
    print("same")


def killed_early(folder: str, n_data: str) -> None:
    """Kill a worker before the first sweep of a tree, when topics have been written."""
    X, run_dir = make_data("topics", int(n_data)), Path(folder) / "run"
    first = run_dir / "chain-0-numbers" / "first"
    with local_cluster(2) as (_, client):
        pids = list(client.run(os.getpid).values())
        killer = threading.Thread(target=kill_when, args=(first.exists, pids[0]))
        killer.start()
        there = fit("topics", X, engine="dask", run_dir=run_dir, lda_sweeps=40)
        killer.join()
        assert pids[0] not in client.run(os.getpid).values()
    assert not list(first.iterdir())
    check_same(fit("topics", X, lda_sweeps=40), there)
    print("same")


def models(folder: str, n_data: str, *kinds: str) -> None:
    """Fit models to files, and to what is here."""
    with local_cluster(2):
        for kind in kinds:
            X = make_data(kind, int(n_data))
            (Path(folder) / kind).mkdir()
            files = save(X, Path(folder) / kind, [25, 26])
            here = fit(kind, X)
            check_same(here, fit(kind, files, engine="dask"))
            check_same(here, fit(kind, X, engine="dask", n_chains=2))
            print(kind)


def sizes(kind: str, n_data: str) -> None:
    """Fit on clusters of several sizes, and in processes."""
    X, how = make_data(kind, int(n_data)), {"n_draws": 2, "burn_in": 1}
    here = fit(kind, X, n_jobs=1, **how)
    check_same(here, fit(kind, X, engine="processes", **how))
    for n_workers, n_threads in ((2, 1), (4, 1), (1, 3), (1, 17)):
        with local_cluster(n_workers, n_threads):
            check_same(here, fit(kind, X, engine="dask", **how))
        print(n_workers, n_threads)


def bad_data(folder: str) -> None:
    """Print what is said of data that cannot be."""
    X = make_data("bernoulli", 60)
    files = save(X, Path(folder), [25])
    np.save(f"{folder}/narrow.npy", X[:5, :5])
    cases = {
        "bit": np.where(np.arange(60)[:, None] == 33, 7, X),
        "width": [*files, f"{folder}/narrow.npy"],
        "glob": f"{folder}/*.zarr",
    }
    with local_cluster(1):
        for what, X_bad in cases.items():
            try:
                fit("bernoulli", X_bad, engine="dask")
            except ValueError as error:
                print(what, error)


def late_and_slow(folder: str, kind: str, n_data: str) -> None:
    """Let a worker join after the first commit, and another one sleep for a while."""
    X, run_dir = make_data(kind, int(n_data)), Path(folder) / "run"
    with local_cluster(1) as (cluster, client):
        slow = next(iter(client.run(os.getpid).values()))
        before: list[int] = []

        def disturb() -> None:
            wait(lambda: has_draws(run_dir))
            before.append(n_committed(run_dir))
            cluster.scale(2)
            os.kill(slow, signal.SIGSTOP)
            time.sleep(3.0)
            os.kill(slow, signal.SIGCONT)

        disturbing = threading.Thread(target=disturb)
        disturbing.start()
        there = fit(kind, X, engine="dask", run_dir=run_dir, n_draws=8, n_chains=1)
        disturbing.join()
        assert before[0] < 8
        print(len(client.run(os.getpid)))
    check_same(fit(kind, X, n_draws=8, n_chains=1), there)
    print("same")


def larger_than_memory(folder: str) -> None:
    """Fit to more data than a worker may have in memory, and say what it had."""
    limit, n_data, width = 700_000_000, 600_000, 150
    rng = np.random.default_rng(0)
    paths = []
    for k in range(10):
        paths.append(f"{folder}/part-{k}.npy")
        rows = rng.normal(size=(n_data // 10, width)).astype(np.float32)
        rows += 3.0 * rng.integers(2, size=(n_data // 10, 1), dtype=np.int32)
        np.save(paths[-1], rows)
    X = np.concatenate([np.load(path) for path in paths])
    how = {"n_chains": 1, "n_draws": 2, "burn_in": 0}
    few = fit("gaussian", X[:2000], **how)
    with local_cluster(1):  # to compile takes more memory
        check_same(few, fit("gaussian", X[:2000], engine="dask", **how))
    with local_cluster(1, memory_limit=limit) as (_, client):
        before, in_files, is_over = client.run(os.getpid), [0], threading.Event()

        def watch() -> None:
            while not is_over.wait(1.0):
                in_files.extend(client.run(bytes_in_files).values())

        watching = threading.Thread(target=watch)
        watching.start()
        there = fit("gaussian", paths, engine="dask", **how)
        is_over.set()
        watching.join()
        assert client.run(os.getpid) == before  # nobody had to be restarted
        most = max(client.run(peak_bytes).values())
    check_same(fit("gaussian", X, **how), there)
    print("same", limit, n_data * width * 8, most, max(in_files), sep="\n")


def bytes_in_files() -> int:
    """Return how many bytes of rows this process has in files."""
    return the_holder().n_bytes()[1]


def peak_bytes() -> int:
    """Return the most memory that this process has had; what it was forked from does not count."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


def restarted(folder: str, kind: str, n_data: str) -> None:
    """Kill the scheduler in the middle, and start another one, with another worker."""
    X, run_dir = make_data(kind, int(n_data)), Path(folder) / "run"
    files = save(X, Path(folder), [25])
    address = f"tcp://127.0.0.1:{free_port()}"
    running, before = start_cluster(address), list[int]()
    try:
        with connect(address, 60.0, is_default=True):

            def restart() -> None:
                wait(lambda: has_draws(run_dir))
                before.append(n_committed(run_dir))
                for process in running:
                    process.kill()
                    process.wait()
                running[:] = start_cluster(address)

            restarting = threading.Thread(target=restart)
            restarting.start()
            there = fit(kind, files, engine="dask", run_dir=run_dir, n_draws=6, n_chains=1)
            restarting.join()
            assert before[0] < 6
    finally:
        for process in running:
            process.kill()
            process.wait()
    check_same(fit(kind, X, n_draws=6, n_chains=1), there)
    print("same")


def command_line(folder: str) -> None:
    """Fit and resume on a cluster, and locally, by commands."""
    from treestick import load_run

    X = make_data("bernoulli", 60)
    save(X, Path(folder), [25])
    np.save(f"{folder}/all.npy", X)
    address = f"tcp://127.0.0.1:{free_port()}"
    fit_it = ["fit", "-o", f"{folder}/there", f"{folder}/part-*.npy", "--scheduler", address]
    how = ["--model", "bernoulli", "--burn-in", "1", "--chains", "1", "--seed", "0", "--draws"]
    resume = ["resume", f"{folder}/there", "--draws", "4"]
    running = start_cluster(address)
    try:
        print(treestick(*fit_it, *how, "2"))
        print(treestick(*resume))
        print(treestick(*resume, "--scheduler", address))
        print(treestick(*fit_it, "--draws", "2", "-o", f"{folder}/other"))
        print(treestick("fit", f"{folder}/none-*.npy", *fit_it[4:], *how, "2", "-o", "other"))
    finally:
        for process in running:
            process.kill()
            process.wait()
    print(treestick("fit", "-o", f"{folder}/here", f"{folder}/all.npy", *how, "4"))
    check_same(load_run(f"{folder}/here"), load_run(f"{folder}/there"))


def treestick(*arguments: str) -> str:
    """Run a command; return its exit code and the last line that it prints."""
    finished = subprocess.run(
        [sys.executable, "-m", "treestick", *arguments], capture_output=True, text=True, check=False
    )
    return f"{finished.returncode} {(finished.stderr or finished.stdout).splitlines()[-1]}"


def free_port() -> int:
    """Return a port that nobody listens on."""
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


def without_treestick(folder: str) -> None:
    """Start a worker whose environment has all packages but one; print what a fit says."""
    distributed: Any = importlib.import_module("distributed")  # not typed
    packages = Path(folder) / "packages"
    packages.mkdir()
    for path in Path(distributed.__file__).parents[1].iterdir():
        if "treestick" not in path.name and path.suffix != ".pth":
            (packages / path.name).symlink_to(path)
    address = f"tcp://127.0.0.1:{free_port()}"
    running = start_cluster(address, python=["-S"], path=str(packages))
    try:
        with connect(address, 60.0, is_default=True) as client:
            client.wait_for_workers(1, timeout=60)
            fit("bernoulli", make_data("bernoulli", 60), engine="dask")
    except ValueError as error:
        print(error)
    finally:
        for process in running:
            process.kill()
            process.wait()


def start_cluster(
    address: str, *options: str, python: Sequence[str] = (), path: str | None = None
) -> list[Any]:
    """Start a scheduler and a worker, as a user does.

    ``python`` are options of the worker's Python, and ``path`` where it looks for packages.
    """
    port = address.rpartition(":")[2]
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1"]
    scheduler = subprocess.Popen(
        [*command, "--port", port, "--no-dashboard"], stderr=subprocess.DEVNULL
    )
    command = [sys.executable, *python, "-m", "distributed.cli.dask_worker", address]
    worker = subprocess.Popen(
        [*command, "--no-dashboard", "--nworkers", "1", "--nthreads", "1", "--no-nanny", *options],
        stderr=subprocess.DEVNULL,
        env=None if path is None else {**os.environ, "PYTHONPATH": path},
    )
    return [worker, scheduler]
