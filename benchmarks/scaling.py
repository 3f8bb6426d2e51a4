"""Sweeps on a Dask cluster: what they cost, and what that says of larger clusters.

Data are bits near a known tree of 40 nodes, and chains start at the truth (:mod:`sweep`).

``measure`` runs sweeps of the default schedule on one thread and on 1, 2 and 4 workers of this
machine, for two numbers of data, and counts questions, bytes and seconds of processors, which other
programs on the machine disturb less than the time on the clock. For W workers, of which the one
that has most has n data, and a tree of K nodes the model is

    seconds = client + worker
    client = own + per_node * K + per_worker * W
    worker = per_sweep + per_datum * n * (1 + crowding, if W > 1)

as if every worker had a core of its own, and the client too; the network comes later. Crowding is
how much longer a core takes while others of the same machine compute as well, and share its memory:
there is none where every worker has a machine of its own. The model is fitted on 1 and 2 workers,
and predicts 4. What Dask does in a worker that is asked nothing, all the time, is measured before,
and is not counted. ``simulate`` puts its numbers into a cluster of up to 1,000
workers, with a network and with workers that are slow now and then, question by question.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import pickle
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
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

N_NODES = 40
N_WORKERS = (0, 1, 2, 4)
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


class Costs(NamedTuple):
    """What a sweep consists of, see the module."""

    own: float
    per_node: float
    per_worker: float
    per_sweep: float
    per_datum: float
    crowding: float
    n_nodes: float
    """Of the larger tree."""
    n_questions: float
    n_sent: float
    """Bytes to each worker,"""
    n_received: float
    """and from it."""


# -- sweeps on this machine ------------------------------------------------------------------------


def write(folder: Path, n_data: int) -> None:
    """Write data, labels and the state of a chain."""
    state, data = simulate_data(n_data, N_NODES)
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


def sweep_when_told(chain: Iterator[Any], of_workers: OfWorkers = dict, idle: float = 0.0) -> float:
    """Make a sweep for each line that comes, and print its times; return the number of nodes."""
    n_nodes: list[float] = []
    print(json.dumps("ready"), flush=True)
    for _ in sys.stdin:
        before = of_workers()
        start, began = time.perf_counter(), time.process_time()
        swept = next(chain)
        client, seconds = time.process_time() - began, time.perf_counter() - start
        worker = max(most_taken(before, of_workers()) - idle * seconds, 0.0)
        print(json.dumps(Times(seconds, client, worker)), flush=True)
        n_nodes.append(swept.state.n_nodes)
    return statistics.mean(n_nodes)


def on_one_thread(folder: Path) -> Measured:
    """Make sweeps on one thread of this process."""
    data = Bits(np.load(folder / "packed.npy"))
    state = pickle.loads((folder / "state").read_bytes())
    labels = LabelFiles(folder / "labels").read_all(1)
    chain = run_chain(1, 0, state._replace(assignments=labels), data, 0)
    for _ in range(N_FIRST):
        next(chain)
    n_nodes = sweep_when_told(chain)
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


def on_workers(n_workers: int, folder: Path, n_sweeps: int) -> Measured:
    """Make sweeps on worker processes of this machine, one thread each."""
    with running_cluster(n_workers) as client:
        cluster = Cluster(client, BernoulliTree(), str(folder / "part-*.npy"), 60.0)
        crew = cluster.crew("measured", N_BITS, LabelFiles(folder / "labels"), lambda: Last(0, 1))
        n_asked = 0

        def each(ops: Any) -> Any:
            nonlocal n_asked
            n_asked += 1
            return crew.each(ops)

        where = Elsewhere(cluster.source.n_rows, each, crew.along)
        chain = run_chain(1, 0, pickle.loads((folder / "state").read_bytes()), where, 0)
        for _ in range(N_FIRST):
            next(chain)

        def of_workers() -> dict[str, float]:
            return dict(client.run(time.process_time))

        idle = measure_idle(of_workers)
        n_asked = cluster.workers.n_sent = cluster.workers.n_received = 0
        n_nodes = sweep_when_told(chain, of_workers, idle)
        groups = cluster.groups("measured", n_workers)
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


def command(what: str, folder: Path, *arguments: int) -> list[str]:
    """Return how to do it in a process of its own, whose memory is its own."""
    return [sys.executable, __file__, what, *map(str, arguments), "--folder", str(folder)]


class Runner:
    """A process that makes sweeps, on one thread or with workers; it waits until it is told."""

    def __init__(self, folder: Path, n_workers: int, n_sweeps: int) -> None:
        self._process = subprocess.Popen(
            command("sweeps", folder, n_workers, n_sweeps),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process ended with {self._process.wait()}")
        return json.loads(line)

    def sweep(self) -> Times:
        """Have a sweep made; return what it took."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Times(*self._read())

    def end(self) -> Measured:
        """Return what was counted."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        counted = Measured(*self._read())
        self._process.wait()
        return counted


def run_in_turn(folder: Path, n_sweeps: int) -> tuple[dict[int, list[Times]], list[Measured]]:
    """Make sweeps with each number of workers, one sweep of each in turn.

    So what else is going on, on this machine and on those that it shares its processors with,
    changes all of them alike.
    """
    runners = {n_workers: Runner(folder, n_workers, n_sweeps) for n_workers in N_WORKERS}
    times: dict[int, list[Times]] = {n_workers: [] for n_workers in N_WORKERS}
    for _ in range(n_sweeps):
        for n_workers, runner in runners.items():
            times[n_workers].append(runner.sweep())
    return times, [runner.end() for runner in runners.values()]


# -- the cost model --------------------------------------------------------------------------------


def critical(one: Measured) -> float:
    """Return the seconds of a sweep if the client and every worker had a core of their own."""
    return one.client + one.worker


def predict(
    costs: Costs, n_workers: int, most: float, n_nodes: float, is_crowded: bool = False
) -> float:
    """Return the same from the model."""
    client = costs.own + costs.per_node * n_nodes + costs.per_worker * n_workers
    per_datum = costs.per_datum * (1.0 + costs.crowding * is_crowded)
    return client + costs.per_sweep + per_datum * most


def fit(measured: list[Measured]) -> Costs:
    """Fit the model by least squares."""
    of_client = np.array([[1.0, one.n_nodes, one.n_workers] for one in measured])
    own, per_node, per_worker = _solve(of_client, np.array([one.client for one in measured]))
    of_worker = np.array([[1.0, one.most, one.most * (one.n_workers > 1)] for one in measured])
    per_sweep, per_datum, more = _solve(of_worker, np.array([one.worker for one in measured]))
    last = measured[-1]
    return Costs(
        own, per_node, per_worker, per_sweep, per_datum, more / per_datum, last.n_nodes,
        statistics.mean(one.n_questions for one in measured),
        last.n_sent / last.n_workers,
        last.n_received / last.n_workers,
    )  # fmt: skip


def _solve(rows: Any, values: Any) -> list[float]:
    """Return coefficients, each >= 0, that err little in proportion."""
    from scipy.optimize import nnls

    found, _ = nnls(rows / values[:, None], np.ones(values.size))
    return [float(coefficient) for coefficient in found]


def measure(n_large: int, n_small: int, n_sweeps: int, n_rounds: int) -> None:
    """Measure, fit, predict, and print it all."""
    measured: dict[tuple[int, int], Measured] = {}
    for n_data in (n_small, n_large):
        rounds: dict[int, list[list[Times]]] = {n_workers: [] for n_workers in N_WORKERS}
        with tempfile.TemporaryDirectory() as name:
            subprocess.run(command("write", Path(name), n_data), check=True)
            for _ in range(n_rounds):
                times, counted = run_in_turn(Path(name), n_sweeps)
                for n_workers in N_WORKERS:
                    rounds[n_workers].append(times[n_workers])
        for one in counted:
            least = Times(*np.min(rounds[one.n_workers], axis=0).mean(axis=0).tolist())
            measured[one.n_workers, n_data] = one._replace(**least._asdict())
            print(json.dumps(measured[one.n_workers, n_data]._asdict()), flush=True)
    costs = fit([one for one in measured.values() if one.n_workers in (1, 2)])
    print(json.dumps(costs._asdict()))
    for n_data in (n_small, n_large):
        four = measured[4, n_data]
        expected = predict(costs, 4, four.most, four.n_nodes, is_crowded=True)
        found = critical(four)
        gain = measured[0, n_data].client / critical(measured[2, n_data])
        print(
            f"{n_data} data: 4 workers {1e3 * expected:.0f} ms predicted, {1e3 * found:.0f} ms "
            f"measured, {expected / found - 1.0:+.0%}; 2 workers {gain:.2f} times as fast as one "
            f"thread by processors, {measured[0, n_data].seconds / measured[2, n_data].seconds:.2f}"
            " times by the clock"
        )


# -- a cluster that is not there -------------------------------------------------------------------


class Network(NamedTuple):
    """What lies between the client and its workers, and how workers differ."""

    latency: float = 2e-4
    """Seconds from one machine to another."""
    bandwidth: float = 1.25e9
    """Bytes per second of the client's connection, which all workers share: 10 Gbit/s."""
    slow_share: float = 0.01
    """Of answers that take longer,"""
    slow_factor: float = 3.0
    """by this factor; all others vary by"""
    spread: float = 0.05


PARTS = ("computing", "waiting for slow workers", "talking", "the client's own moves")


def simulate_sweep(
    rng: np.random.Generator, costs: Costs, network: Network, n_workers: int, n_data: float
) -> dict[str, float]:
    """Return where the seconds of a sweep go, on machines with one core each.

    The client sends a question to one worker after the other; each computes; the client takes up
    the answers one after the other as they come. The next question waits for the last answer.
    """
    n_questions = round(costs.n_questions)
    compute = (costs.per_sweep + costs.per_datum * n_data / n_workers) / n_questions
    handling = 0.5 * costs.per_worker / n_questions
    out = max(costs.n_sent / n_questions / network.bandwidth, handling)
    back = max(costs.n_received / n_questions / network.bandwidth, handling)
    total = waited = 0.0
    for _ in range(n_questions):
        factor = 1.0 + network.spread * np.abs(rng.normal(size=n_workers))
        factor[rng.random(n_workers) < network.slow_share] *= network.slow_factor
        told = np.arange(1, n_workers + 1) * out + network.latency
        ready = np.sort(told + compute * factor) + network.latency
        # From answer k on, the client has at least all that are left to take up.
        total += float(np.max(ready + back * np.arange(n_workers, 0, -1)))
        waited += float(np.max(compute * factor)) - compute
    computing = compute * n_questions
    own = costs.own + costs.per_node * costs.n_nodes
    parts = (computing, waited, total - computing - waited, own)
    return dict(zip(PARTS, parts, strict=True))


def simulate(costs: Costs, n_data: float, network: Network) -> None:
    """Print sweeps on clusters of up to 1,000 workers."""
    rng = np.random.default_rng(0)
    print(f"| workers | s per sweep | the model | efficiency | {' | '.join(PARTS)} |")
    print(f"|---|---|---|---|{'---|' * len(PARTS)}")
    alone = predict(costs, 1, n_data, costs.n_nodes)
    for n_workers in (1, 2, 4, 10, 30, 100, 300, 1000):
        sweeps = [simulate_sweep(rng, costs, network, n_workers, n_data) for _ in range(20)]
        mean = {part: statistics.mean(one[part] for one in sweeps) for part in PARTS}
        seconds = sum(mean.values())
        cells = " | ".join(f"{mean[part]:.2f}" for part in PARTS)
        model = predict(costs, n_workers, n_data / n_workers, costs.n_nodes)
        gain = alone / seconds / n_workers
        print(f"| {n_workers} | {seconds:.2f} | {model:.2f} | {gain:.0%} | {cells} |")


COSTS = Costs(0.0282, 4.48e-4, 4.51e-3, 0.0140, 1.56e-6, 0.031, 107.3, 9.5, 8.61e5, 7.12e5)
"""As fitted on 1 and 2 workers, see docs/scaling.md."""


def main() -> None:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("measure", "simulate", "write", "sweeps"))
    parser.add_argument("numbers", type=int, nargs="*", help="for the processes of measure")
    parser.add_argument("--folder", type=Path, help="for the processes of measure")
    parser.add_argument("--data", type=int, default=500_000, help="the larger number of data")
    parser.add_argument("--few", type=int, default=50_000, help="the smaller one")
    parser.add_argument("--sweeps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--costs", type=Path, help="JSON file with costs, as `measure` prints them")
    parser.add_argument("--large", type=float, default=1e9, help="data of the simulated cluster")
    given = parser.parse_args()
    if given.what == "measure":
        measure(given.data, given.few, given.sweeps, given.rounds)
    elif given.what == "write":
        write(given.folder, *given.numbers)
    elif given.what == "sweeps":
        n_workers, n_sweeps = given.numbers
        if n_workers == 0:
            counted = on_one_thread(given.folder)
        else:
            counted = on_workers(n_workers, given.folder, n_sweeps)
        print(json.dumps(counted))
    else:
        costs = COSTS if given.costs is None else Costs(**json.loads(given.costs.read_text()))
        simulate(costs, given.large, Network())


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
