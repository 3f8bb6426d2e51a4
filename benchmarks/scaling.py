"""Sweeps on a Dask cluster: what they cost, and what that says of larger clusters.

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
and is not counted.

``chains`` measures two chains at once on two workers, by the clock. ``simulate`` puts the model's
numbers into a cluster of up to 1,000 workers, with a network and with workers that are slow now and
then, question by question.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cluster_sweeps import Measured, Runner, Times, command

N_WORKERS = (0, 1, 2, 4)


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


# -- the cost model --------------------------------------------------------------------------------


def run_in_turn(folder: Path, n_sweeps: int) -> tuple[dict[int, list[Times]], list[Measured]]:
    """Make sweeps with each number of workers, one sweep of each in turn."""
    runners = {n_workers: Runner(folder, n_workers) for n_workers in N_WORKERS}
    times: dict[int, list[Times]] = {n_workers: [] for n_workers in N_WORKERS}
    for _ in range(n_sweeps):
        for n_workers, runner in runners.items():
            times[n_workers].append(runner.sweep())
    return times, [runner.end() for runner in runners.values()]


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
    """Fit the model by least squares. Where data cost nothing, as few may, nothing is crowded."""
    of_client = np.array([[1.0, one.n_nodes, one.n_workers] for one in measured])
    own, per_node, per_worker = _solve(of_client, np.array([one.client for one in measured]))
    of_worker = np.array([[1.0, one.most, one.most * (one.n_workers > 1)] for one in measured])
    per_sweep, per_datum, more = _solve(of_worker, np.array([one.worker for one in measured]))
    last, crowding = measured[-1], more / per_datum if per_datum > 0.0 else 0.0
    return Costs(
        own, per_node, per_worker, per_sweep, per_datum, crowding, last.n_nodes,
        statistics.mean(one.n_questions for one in measured),
        last.n_sent / last.n_workers,
        last.n_received / last.n_workers,
    )  # fmt: skip


def _solve(rows: Any, values: Any) -> list[float]:
    """Return coefficients, each >= 0, that err little in proportion."""
    from scipy.optimize import nnls

    found, _ = nnls(rows / values[:, None], np.ones(values.size))
    return [float(coefficient) for coefficient in found]


def measure(n_large: int, n_small: int, n_nodes: int, n_sweeps: int, n_rounds: int) -> None:
    """Measure, fit, predict, and print it all."""
    measured: dict[tuple[int, int], Measured] = {}
    for n_data in (n_small, n_large):
        rounds: dict[int, list[list[Times]]] = {n_workers: [] for n_workers in N_WORKERS}
        with tempfile.TemporaryDirectory() as name:
            subprocess.run(command("write", name, n_data, n_nodes), check=True)
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


def compare_chains(n_data: int, n_nodes: int, n_sweeps: int, n_rounds: int) -> None:
    """Print, by the clock, what a sweep of two chains takes one thread and two workers.

    A worker computes for one chain while the client moves what it moves itself for the other. What
    two processes bring that share nothing but the machine is as much as could be had.
    """
    with tempfile.TemporaryDirectory() as name:
        subprocess.run(command("write", name, n_data, n_nodes), check=True)
        folder = Path(name)
        runners = {
            "one thread": [Runner(folder, 0, 2)],
            "two processes that share nothing": [Runner(folder, 0), Runner(folder, 0)],
            "two workers, one chain": [Runner(folder, 2)],
            "two workers, two chains": [Runner(folder, 2, 2)],
        }
        times: dict[str, list[float]] = {how: [] for how in runners}
        with ThreadPoolExecutor(2) as pool:
            for _ in range(n_rounds):
                for how, group in runners.items():
                    made = list(pool.map(lambda runner: runner.sweep(n_sweeps).seconds, group))
                    times[how].append(max(made) / len(made))
        for group in runners.values():
            for runner in group:
                runner.end()
    alone = np.array(times["one thread"])
    for how, taken in times.items():
        ratios = np.sort(alone / np.array(taken))
        print(
            f"{how}: {1e3 * statistics.median(taken):.0f} ms per sweep, "
            f"{np.median(ratios):.2f} times as fast ({ratios[0]:.2f} to {ratios[-1]:.2f})"
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

    The client sends a question to one worker after the other; each computes; when all have been
    told, the client takes up the answers one after the other as they come. The next question waits
    for the last answer.
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
        ready = np.maximum(np.sort(told + compute * factor) + network.latency, told[-1])
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


COSTS = Costs(0.0596, 3.95e-5, 4.98e-3, 0.0193, 8.09e-7, 0.029, 107.2, 9.2, 8.28e5, 6.91e5)
"""As fitted on 1 and 2 workers, see docs/scaling.md."""


def main() -> None:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("measure", "chains", "simulate"))
    parser.add_argument("--data", type=int, default=500_000, help="the larger number of data")
    parser.add_argument("--few", type=int, default=50_000, help="the smaller one")
    parser.add_argument("--nodes", type=int, default=40, help="of the tree that data are near")
    parser.add_argument("--sweeps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--costs", type=Path, help="JSON file with costs, as `measure` prints them")
    parser.add_argument("--large", type=float, default=1e9, help="data of the simulated cluster")
    given = parser.parse_args()
    if given.what == "measure":
        measure(given.data, given.few, given.nodes, given.sweeps, given.rounds)
    elif given.what == "chains":
        compare_chains(given.data, given.nodes, given.sweeps, given.rounds)
    else:
        costs = COSTS if given.costs is None else Costs(**json.loads(given.costs.read_text()))
        simulate(costs, given.large, Network())


if __name__ == "__main__":
    main()
