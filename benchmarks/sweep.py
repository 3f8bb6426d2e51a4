"""A whole sweep of the paper's moves: time by move, threads, and growth with data and nodes.

Data are bits near a known tree. The chain starts at the truth, as the peers' figures do, and every
figure is the median of rounds that alternate between what is compared. As a yardstick, the same run
times NumPy's product of all data with all nodes: one thread, what a sampler that asks every node
would need for the likelihoods.
"""

import argparse
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from treestick._jit import compiled
from treestick.chain import run_chain, sweep
from treestick.models.bernoulli import FIRST_STEP, Bernoulli, Bits
from treestick.moves.assignments import Slots, move_assignments
from treestick.moves.hyperparameters import move_hyperparameters
from treestick.moves.parameters import move_model_hyperparameters, move_parameters
from treestick.moves.prune import move_prune
from treestick.moves.redraw import move_redraw
from treestick.moves.state import State, Sticks
from treestick.moves.sticks import move_sticks
from treestick.moves.tasks import make_tasks, sum_statistics
from treestick.random import make_key
from treestick.tree.table import add_child, count_data, make_table, next_ordinal

N_BITS = 256
STICKS = Sticks(25.0, 10.0, 50.0, 0.5, 0.05, 0.8, 5.0, 1.0, 10.0)


def simulate(n_data: int, n_nodes: int, seed: int = 0) -> tuple[State, Bits]:
    """Return bits near a random tree, and a state at the truth."""
    rng = np.random.default_rng(seed)
    table = make_table(n_nodes)
    theta = np.empty((n_nodes, N_BITS))
    theta[0] = 1.5 * rng.normal(size=N_BITS)
    for node in range(1, n_nodes):
        parent = int(rng.integers(node))
        table, _ = add_child(table, parent, next_ordinal(table, parent))
        table.entity[node] = node
        theta[node] = theta[parent] + 0.7 * rng.normal(size=N_BITS)
    where = rng.choice(n_nodes, size=n_data, p=rng.dirichlet(np.full(n_nodes, 2.0)))
    packed = np.empty((n_data, N_BITS // 8), dtype=np.uint8)
    for start in range(0, n_data, 10_000):
        p = 1.0 / (1.0 + np.exp(-theta[where[start : start + 10_000]]))
        bits = rng.random(p.shape) < p
        packed[start : start + 10_000] = np.packbits(bits, axis=1, bitorder="little")
    count_data(table, where)
    one = np.ones(N_BITS)
    model = Bernoulli(0.5 * one, 0.01 * one, one, 0.0 * one, 3.0 * one, FIRST_STEP)
    data = Bits(packed)
    state = move_prune(State(table, where, theta, np.empty((0, 0)), model, STICKS))
    state = sum_statistics(state, data, make_tasks(n_data))
    return move_sticks(make_key(seed), state), data


def seconds_per_sweep(state: State, data: Bits, n_sweeps: int, run: Any = map) -> float:
    """Return the median time of a sweep."""
    chain = run_chain(1, 0, state, data, 0, run, "paper")
    times = []
    for _ in range(n_sweeps):
        start = time.perf_counter()
        next(chain)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def by_move(n_sweeps: int) -> None:
    """Print the time of each move at 50,000 data and 40 nodes."""
    state, data = simulate(50_000, 40)
    tasks = make_tasks(50_000)
    spare: list[Slots] = []
    times: dict[str, list[float]] = {}

    def timed(name: str, work: Callable[..., Any], *arguments: Any) -> Any:
        start = time.perf_counter()
        result = work(*arguments)
        times.setdefault(name, []).append(time.perf_counter() - start)
        return result

    bits = np.unpackbits(data.packed, axis=1).astype(np.float32)
    weights = np.random.default_rng(0).normal(size=(N_BITS, 40)).astype(np.float32)
    for number in range(n_sweeps + 2):
        key = make_key(1, 0, number + 1)
        state = timed("sticks and order", move_redraw, key, state)
        state, _ = timed("assignments", move_assignments, key, state, data, tasks, map, spare)
        state = timed("statistics", sum_statistics, state, data, tasks)
        state, _ = timed("parameters", move_parameters, key, state)
        state = timed("diffusion", move_model_hyperparameters, key, state)
        state = timed("alpha0, decay, gamma", move_hyperparameters, key, state)
        timed("NumPy: all data times all nodes", np.matmul, bits, weights)
    print("| move | ms |\n|---|---|")
    total = 0.0
    for name, measured in times.items():
        median = 1e3 * statistics.median(measured[2:])
        if name.startswith("NumPy"):
            print(f"| **whole sweep** | **{total:.1f}** |")
        total += median
        print(f"| {name} | {median:.2f} |")


@compiled
def _nothing_shared(n: int) -> float:
    x = 1.0
    for _ in range(n):
        x = math.exp(-x)
    return x


def speedup_of_machine(pool: ThreadPoolExecutor) -> float:
    """Return what two threads gain here, now, on a loop that shares nothing: the most there is."""
    n, n_loops = 500_000, 8
    _nothing_shared(1)
    start = time.perf_counter()
    for _ in range(n_loops):
        _nothing_shared(n)
    between = time.perf_counter()
    list(pool.map(_nothing_shared, [n] * n_loops))
    return (between - start) / (time.perf_counter() - between)


def by_threads(n_rounds: int, n_sweeps: int) -> None:
    """Print how much faster two threads are than one, and than on a loop that shares nothing."""
    print("| data | two threads against one | loop that shares nothing | sweep, round by round |")
    print("|---|---|---|---|")
    for n_data in (50_000, 500_000):
        state, data = simulate(n_data, 40)
        ratios, most = [], []
        with ThreadPoolExecutor(2) as pool:
            for _ in range(n_rounds):
                one = seconds_per_sweep(state, data, n_sweeps)
                two = seconds_per_sweep(state, data, n_sweeps, pool.map)
                ratios.append(one / two)
                most.append(speedup_of_machine(pool))
        shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        medians = f"{statistics.median(ratios):.2f} times | {statistics.median(most):.2f} times"
        print(f"| {n_data:,} | {medians} | {shown} |")


def by_data(n_sweeps: int) -> None:
    """Print microseconds per datum against the number of data."""
    print("| data | ms per sweep | us per datum |\n|---|---|---|")
    for n_data in (5_000, 15_000, 50_000, 150_000, 500_000):
        taken = seconds_per_sweep(*simulate(n_data, 40), n_sweeps)
        print(f"| {n_data:,} | {1e3 * taken:.1f} | {1e6 * taken / n_data:.2f} |")


def by_nodes(n_sweeps: int) -> None:
    """Print the cost of the assignments against nodes and tries."""
    print("| nodes | tries per datum | assignments, us per datum | per try | whole sweep, ms |")
    print("|---|---|---|---|---|")
    for n_nodes in (10, 40, 160, 640):
        state, data = simulate(50_000, n_nodes)
        whole = seconds_per_sweep(state, data, n_sweeps)
        key = make_key(2, 0, 1)
        ready = move_redraw(key, state)
        tasks = make_tasks(50_000)
        times: list[float] = []
        spare: list[Slots] = []
        for _ in range(n_sweeps):
            start = time.perf_counter()
            _, tries = move_assignments(key, ready, data, tasks, map, spare)
            times.append(time.perf_counter() - start)
        each = 1e6 * statistics.median(times) / 50_000
        print(f"| {n_nodes} | {tries:.2f} | {each:.2f} | {each / tries:.2f} | {1e3 * whole:.0f} |")


MEMORY = """
import sys
import numpy as np
from treestick import BernoulliTree
n = int(sys.argv[1])
def peak():  # of this process alone, in MB; getrusage would count its parent
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) // 1024 for line in status if "VmHWM" in line)
before = peak()
rng = np.random.default_rng(0)
X = np.empty((n, 256), dtype=np.uint8)
for start in range(0, n, 1000):
    rows = X[start : start + 1000]
    rows[:] = rng.random(rows.shape) < rng.choice([0.1, 0.4, 0.8], size=(len(rows), 1))
model = BernoulliTree(
    n_draws=int(sys.argv[2]), burn_in=10, n_chains=1, schedule="paper", random_state=0, verbose=0
)
model.fit(X)
print(before, X.nbytes // 2**20, peak())
"""


def by_memory() -> None:
    """Print the peak memory of whole fits, each in a process of its own."""
    print(
        "| data | draws | data as bytes, MB | before the fit, MB | peak, MB | peak minus data, MB |"
    )
    print("|---|---|---|---|---|---|")
    for n_data, n_draws in ((50_000, 10), (50_000, 1000), (500_000, 50)):
        command = [sys.executable, "-c", MEMORY, str(n_data), str(n_draws)]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        before, size, peak = map(int, output.split())
        print(f"| {n_data:,} | {n_draws:,} | {size} | {before} | {peak} | {peak - size} |")


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer sweeps, to see that it runs")
    n = 3 if parser.parse_args().quick else 15
    state, data = simulate(5_000, 10)
    start = time.perf_counter()
    state, _ = sweep(make_key(0, 0, 1), state, data, schedule="paper")
    print(f"First sweep, compiling or loading: {time.perf_counter() - start:.1f} s\n")
    by_move(n)
    print()
    by_threads(9, n)
    print()
    by_data(n)
    print()
    by_nodes(n)
    print()
    by_memory()


if __name__ == "__main__":
    main()
