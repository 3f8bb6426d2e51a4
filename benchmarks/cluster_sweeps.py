"""Sweeps with one thread and with workers of this machine, in processes that wait to be told.

So they can be made in turn, a few here and a few there, and what else is going on changes all of
them alike. Data are bits near a known tree, and chains start at the truth (:mod:`sweep`).
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import resource
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sweep import N_BITS
from sweep import simulate as simulate_data
from treestick import BernoulliTree
from treestick.chain import run_chain
from treestick.estimators.elsewhere import Cluster, Last
from treestick.models.bernoulli import Bits
from treestick.store.labels import LabelFiles
from treestick.whereabouts import Elsewhere

N_FIRST = 2
"""Sweeps in which workers read their data, and compile; they do not count."""
SECONDS_IDLE = 3.0


class Measured(NamedTuple):
    """A sweep; means over several.

    All runs on the same data make the same draws, so a sweep is the same work in each: of several
    runs, the least that it took counts.
    """

    n_workers: int
    """0 for one thread of this process."""
    n_data: int
    most: int
    """Data of the worker that has most of them."""
    seconds: float
    """On the clock,"""
    client: float
    """of a processor in the client,"""
    worker: float
    """and in the worker that has most to do, without what it takes when it is idle."""
    n_nodes: float = 0.0
    idle: float = 0.0
    """Seconds of a processor that an idle worker takes in a second."""
    n_questions: float = 0.0
    n_sent: float = 0.0
    """Bytes to all workers,"""
    n_received: float = 0.0
    """and from them."""
    peak: int = 0
    """Most memory that the client has had, in bytes."""


def write(folder: Path, n_data: int, n_nodes: int) -> None:
    """Write data near a tree of so many nodes, labels and the state of a chain."""
    state, data = simulate_data(n_data, n_nodes)
    for k, start in enumerate(range(0, n_data, 50_000)):
        rows = data.packed[start : start + 50_000]
        np.save(folder / f"part-{k:03d}.npy", np.unpackbits(rows, axis=1, bitorder="little"))
    np.save(folder / "packed.npy", data.packed)
    LabelFiles(folder / "labels").write(1, 0, state.assignments)
    nowhere = state._replace(assignments=np.empty(0, dtype=np.int64))
    (folder / "state").write_bytes(pickle.dumps(nowhere))


class Times(NamedTuple):
    """Of a sweep: seconds on the clock, and of processors in the client and in a worker."""

    seconds: float
    client: float
    worker: float


OfWorkers = Callable[[], dict[str, float]]
"""Gives seconds of processors so far, of each worker."""


def most_taken(before: dict[str, float], after: dict[str, float]) -> float:
    """Return the seconds of the worker that has taken most."""
    return max((after[name] - before[name] for name in after), default=0.0)


def measure_idle(of_workers: OfWorkers) -> float:
    """Return the seconds of a processor that a worker takes in a second in which it has nothing."""
    before = of_workers()
    time.sleep(SECONDS_IDLE)
    return most_taken(before, of_workers()) / SECONDS_IDLE


def advance(chain: Iterator[Any], n_sweeps: int) -> float:
    """Make sweeps; return the number of nodes after them."""
    for _ in range(n_sweeps - 1):
        next(chain)
    return float(next(chain).state.n_nodes)


def sweep_when_told(
    chains: Sequence[Iterator[Any]],
    n_together: int,
    of_workers: OfWorkers = dict,
    idle: float = 0.0,
) -> tuple[int, float]:
    """Make as many sweeps of each chain as each line that comes says, and print their times.

    Return the number of all sweeps, and the mean number of nodes.
    """
    n_nodes: list[float] = []
    n_made = 0
    with ThreadPoolExecutor(n_together) as pool:
        print(json.dumps("ready"), flush=True)
        for line in sys.stdin:
            n_sweeps = int(line)
            before = of_workers()
            start, began = time.perf_counter(), time.process_time()
            n_nodes += pool.map(advance, chains, [n_sweeps] * len(chains))
            client, seconds = time.process_time() - began, time.perf_counter() - start
            worker = max(most_taken(before, of_workers()) - idle * seconds, 0.0)
            n_now = n_sweeps * len(chains)
            print(json.dumps([taken / n_now for taken in (seconds, client, worker)]), flush=True)
            n_made += n_now
    return n_made, statistics.mean(n_nodes)


def on_one_thread(folder: Path, n_chains: int) -> Measured:
    """Make sweeps on one thread of this process, of one chain after the other."""
    data = Bits(np.load(folder / "packed.npy"))
    state = pickle.loads((folder / "state").read_bytes())
    labels = LabelFiles(folder / "labels").read_all(1)
    chains = [
        run_chain(1, number, state._replace(assignments=labels.copy()), data, 0)
        for number in range(n_chains)
    ]
    for chain in chains:
        advance(chain, N_FIRST)
    _, n_nodes = sweep_when_told(chains, 1)
    return Measured(0, labels.size, labels.size, 0.0, 0.0, 0.0, n_nodes)


@contextlib.contextmanager
def running_cluster(n_workers: int) -> Iterator[Any]:
    """Start scheduler and workers, each a process of its own; give the client."""
    distributed: Any = importlib.import_module("distributed")  # not typed
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    run = [sys.executable, "-m"]
    scheduler = ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--no-dashboard"]
    worker = ["distributed.cli.dask_worker", address, "--no-dashboard", "--nthreads", "1"]
    started = [subprocess.Popen([*run, *scheduler, "--port", address.rpartition(":")[2]])]
    started += [subprocess.Popen([*run, *worker, "--no-nanny"]) for _ in range(n_workers)]
    try:
        with distributed.Client(address, timeout=60) as client:
            client.wait_for_workers(n_workers)
            yield client
    finally:
        for process in started:
            process.kill()
            process.wait()


def on_workers(n_workers: int, folder: Path, n_chains: int) -> Measured:
    """Make sweeps of all chains at once on worker processes of this machine, one thread each."""
    with running_cluster(n_workers) as client:
        cluster = Cluster(client, BernoulliTree(), str(folder / "part-*.npy"), 60.0)
        labels = LabelFiles(folder / "labels")
        state = (folder / "state").read_bytes()
        n_asked = 0

        def start(number: int) -> Iterator[Any]:
            crew = cluster.crew(f"chain {number}", N_BITS, labels, lambda: Last(0, 1))

            def each(ops: Any) -> Any:
                nonlocal n_asked
                n_asked += 1
                return crew.each(ops)

            where = Elsewhere(cluster.source.n_rows, each, crew.along)
            return run_chain(1, number, pickle.loads(state), where, 0)

        def of_workers() -> dict[str, float]:
            return dict(client.run(time.process_time))

        chains = [start(number) for number in range(n_chains)]
        for chain in chains:
            advance(chain, N_FIRST)
        idle = measure_idle(of_workers)
        n_asked = cluster.workers.n_sent = cluster.workers.n_received = 0
        n_sweeps, n_nodes = sweep_when_told(chains, n_chains, of_workers, idle)
        groups = cluster.groups("chain 0", n_workers)
        most = max(group.tasks[-1][1] - group.tasks[0][0] for group in groups)
        cluster.close()
        return Measured(
            n_workers,
            cluster.source.n_rows,
            most,
            0.0,
            0.0,
            0.0,
            n_nodes,
            idle,
            n_asked / n_sweeps,
            cluster.workers.n_sent / n_sweeps,
            cluster.workers.n_received / n_sweeps,
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        )


def command(*what: Any) -> list[str]:
    """Return how to do it in a process of its own, whose memory is its own."""
    return [sys.executable, __file__, *map(str, what)]


class Runner:
    """A process that makes sweeps, on one thread or with workers; it waits until it is told.

    Until then it and its workers are stopped: those that wait would take time from those at work.
    """

    def __init__(self, folder: Path, n_workers: int, n_chains: int = 1) -> None:
        self._process = subprocess.Popen(
            command("sweeps", folder, n_workers, n_chains),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self._read()
        self._signal(signal.SIGSTOP)

    def _signal(self, which: signal.Signals) -> None:
        os.killpg(self._process.pid, which)

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process ended with {self._process.wait()}")
        return json.loads(line)

    def sweep(self, n_sweeps: int = 1) -> Times:
        """Have sweeps made by each chain; return what one took."""
        assert self._process.stdin is not None
        self._signal(signal.SIGCONT)
        self._process.stdin.write(f"{n_sweeps}\n")
        self._process.stdin.flush()
        times = Times(*self._read())
        self._signal(signal.SIGSTOP)
        return times

    def end(self) -> Measured:
        """Return what was counted."""
        assert self._process.stdin is not None
        self._signal(signal.SIGCONT)
        self._process.stdin.close()
        counted = Measured(*self._read())
        self._process.wait()
        return counted


def main() -> None:
    """Do what a process is started for.

    That is ``write FOLDER DATA NODES`` or ``sweeps FOLDER WORKERS CHAINS``.
    """
    what, folder, *given = sys.argv[1:]
    numbers = map(int, given)
    if what == "write":
        write(Path(folder), *numbers)
        return
    n_workers, n_chains = numbers
    if n_workers == 0:
        counted = on_one_thread(Path(folder), n_chains)
    else:
        counted = on_workers(n_workers, Path(folder), n_chains)
    print(json.dumps(counted))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
