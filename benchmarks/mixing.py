"""Do chains from different starts agree? Bits near a known tree; traces, R-hat and a table.

``run`` makes one chain and stores its traces in a folder; ``table`` compares chains found there.
A chain gets a number of seconds of one processor; R-hat is over the second halves.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from densities import ward_tree
from sweep import N_BITS, simulate
from treestick import chain
from treestick.analysis import components
from treestick.analysis.convergence import disagreements, effective_draws
from treestick.models.bernoulli import FIRST_STEP, Bernoulli, Bits
from treestick.moves.prune import move_prune
from treestick.moves.redraw import move_redraw
from treestick.moves.state import State, Sticks
from treestick.moves.structure.plan import MOVES
from treestick.moves.tasks import make_tasks, sum_statistics
from treestick.prior.density import log_partition
from treestick.random import make_key
from treestick.start import Start, check_start, first_state

COMPARED = ("nodes", "depth", "log joint")
N_PAIRS = 200
N_TEST = 1000
ONE = np.ones(N_BITS)
MODEL = Bernoulli(0.5 * ONE, 0.01 * ONE, ONE, 0.0 * ONE, 3.0 * ONE, FIRST_STEP)
STICKS = Sticks(25.0, 1.0, 50.0, 0.5, 0.05, 0.8, 3.0, 0.5, 10.0)


def problem(seed: int, n_data: int, n_nodes: int) -> tuple[State, Bits, Bits]:
    """Return a state at the truth, its data, and as many new data as are tested with."""
    state, data = simulate(n_data + N_TEST, n_nodes, seed)
    table = state.table
    truth = state._replace(
        table=table._replace(n_here=table.n_here.copy(), n_below=table.n_below.copy()),
        assignments=state.assignments[:n_data].copy(),
        model=MODEL,
        sticks=STICKS,
    )
    train = Bits(data.packed[:n_data].copy())
    return _summed(truth, train), train, Bits(data.packed[n_data:].copy())


def _summed(state: State, data: Bits) -> State:
    return sum_statistics(move_prune(state), data, make_tasks(state.assignments.size))


# -- starts ----------------------------------------------------------------------------------------


def start_at_truth(truth: State, data: Bits, seed: int) -> State:
    """Return the tree that the data came from."""
    return truth


def start_cold(truth: State, data: Bits, seed: int) -> State:
    """Return all data at the root."""
    return _start(check_start("root", truth.assignments.size), data, seed)


def _start(start: Start, data: Bits, seed: int) -> State:
    return first_state(make_key(seed), MODEL, STICKS, data, start)


def start_in_fragments(truth: State, data: Bits, seed: int) -> State:
    """Return 60 children of the root, with data thrown at them."""
    labels = np.random.default_rng(seed).integers(60, size=truth.assignments.size)
    return _start(check_start(labels, labels.size), data, seed)


def _unpacked(data: Bits) -> Any:
    return np.unpackbits(data.packed, axis=1, bitorder="little", count=N_BITS).astype(np.float64)


def start_at_clusters(truth: State, data: Bits, seed: int) -> State:
    """Return 40 children of the root, found by k-means."""
    labels = KMeans(40, n_init=3, random_state=seed).fit_predict(_unpacked(data))
    return _start(check_start(labels, labels.size), data, seed)


def start_at_ward(truth: State, data: Bits, seed: int) -> State:
    """Return the upper 79 nodes of Ward's tree, data at its 40 leaves."""
    tree = ward_tree(_unpacked(data))  # its first 39 nodes are the last merges
    where = tree.assignments.astype(np.int64)
    while np.any(is_low := tree.parent[where] >= 39):
        where[is_low] = tree.parent[where[is_low]]
    return _start(Start(tree.parent, where), data, seed)


def start_cut(truth: State, data: Bits, seed: int) -> State:
    """Return the truth with each node cut in two at random: a second one becomes its sibling."""
    n_nodes = truth.n_nodes
    parent = truth.table.parent[:n_nodes]
    is_cut = np.random.default_rng(seed).random(truth.assignments.size) < 0.5
    both = np.concatenate([parent, np.maximum(parent, 0)])
    return _start(Start(both, truth.assignments + n_nodes * is_cut), data, seed)


STARTS: dict[str, Callable[[State, Bits, int], State]] = {
    "truth": start_at_truth,
    "cold": start_cold,
    "fragments": start_in_fragments,
    "cut": start_cut,
    "clusters": start_at_clusters,
    "ward": start_at_ward,
}


# -- what is compared ------------------------------------------------------------------------------


def relations(state: State, pairs: Any) -> Any:
    """Return of each pair of data: 0 same node, 1 first above, 2 second above, 3 neither."""
    parent, depth = state.table.parent, state.table.depth
    result = np.full(len(pairs), 3, dtype=np.int8)
    nodes = state.assignments[pairs]
    for upper in (0, 1):
        top, low = nodes[:, upper], nodes[:, 1 - upper].copy()
        while np.any(deeper := depth[low] > depth[top]):
            low[deeper] = parent[low[deeper]]
        result[low == top] = 1 + upper
    result[nodes[:, 0] == nodes[:, 1]] = 0
    return result


GRID = np.arange(-14.0, 14.01, 0.125)


def log_marginal(state: State) -> float:
    """Return the log joint density with all parameters integrated out, by messages on a grid."""
    step = GRID[1] - GRID[0]
    softplus = np.logaddexp(0.0, GRID)
    model, table = state.model, state.table
    spread = model.diffusion[:, None, None]
    kernel = np.exp(-((GRID[:, None] - GRID) ** 2) / (2.0 * spread)) * step
    kernel /= np.sqrt(2.0 * np.pi * spread)
    received = np.zeros((state.n_nodes, N_BITS, GRID.size))
    for node in range(state.n_nodes - 1, -1, -1):
        log_f = state.statistics[node][:, None] * GRID - table.n_here[node] * softplus
        log_f += received[node]
        if node == 0:
            variance = model.root_variance[:, None]
            log_f -= (GRID - model.root_mean[:, None]) ** 2 / (2.0 * variance)
            log_f -= 0.5 * np.log(2.0 * np.pi * variance)
        top = log_f.max(axis=1, keepdims=True)
        if node == 0:
            total = float(np.sum(top[:, 0] + np.log(np.exp(log_f - top).sum(axis=1) * step)))
        else:
            message = np.matmul(kernel, np.exp(log_f - top)[:, :, None])[:, :, 0]
            received[table.parent[node]] += np.log(np.maximum(message, 1e-300)) + top
    sticks = state.sticks
    return total + float(log_partition(table, sticks.alpha0, sticks.decay, sticks.gamma))


def held_out(state: State, test: Bits) -> float:
    """Return the mean log predictive density of new data under this one draw."""
    made = components.make_components(
        make_key(0), state.model, state.table, state.theta, state.statistics, state.sticks
    )
    out = np.empty(N_TEST)
    components.log_densities(state.model, test, made, 0, out)
    return float(out.mean())


# -- runs ------------------------------------------------------------------------------------------


class Followed(NamedTuple):
    """What was noted of a chain."""

    traces: dict[str, list[Any]]
    kept: list[State]
    """States at even distances in time."""
    last: chain.SweepInfo


def follow(state: State, data: Bits, arguments: argparse.Namespace, pairs: Any) -> Followed:
    """Run a chain for some seconds of one processor, as the options of ``run`` say."""
    if arguments.schedule == "paper":
        state = move_redraw(make_key(arguments.seed), state)  # its sweeps begin with sticks
    whole_plan = chain.plan_for

    def plan(n_data: int, adapting: bool, sweep: int) -> dict[str, int]:
        of_moves = whole_plan(n_data, adapting, sweep)
        return {name: n for name, n in of_moves.items() if name not in arguments.without}

    traces: dict[str, list[Any]] = {}
    kept: list[State] = []
    spent, number = 0.0, 0
    chain.plan_for = plan
    try:
        chain.sweep(make_key(9), state, data, schedule=arguments.schedule)  # compiles
        while spent < arguments.seconds:
            number += 1
            began = time.process_time()
            key = make_key(arguments.seed, arguments.chain, number)
            adapting = number <= arguments.adapting
            state, info = chain.sweep(
                key, state, data, schedule=arguments.schedule, adapting=adapting
            )
            spent += time.process_time() - began
            if spent >= arguments.seconds * (len(kept) + 1) / arguments.looks:
                kept.append(state)
            found = {
                "seconds": spent,
                "nodes": state.n_nodes,
                "depth": state.table.depth[state.assignments].mean(),
                "log joint": chain.scores(state).joint,
                "relations": relations(state, pairs),
            }
            found |= {name: np.array(counts) for name, counts in info.structure.items()}
            for name, value in found.items():
                traces.setdefault(name, []).append(value)
    finally:
        chain.plan_for = whole_plan
    return Followed(traces, kept, info)


def draw_pairs(seed: int, n_data: int) -> Any:
    """Return pairs of data whose relations are followed."""
    return np.random.default_rng(seed).integers(n_data, size=(N_PAIRS, 2))


def run(arguments: argparse.Namespace) -> None:
    """Make one chain and store its traces."""
    truth, data, test = problem(arguments.seed, arguments.n, arguments.nodes)
    pairs = draw_pairs(arguments.seed, arguments.n)
    state = STARTS[arguments.start](truth, data, arguments.seed)
    traces, kept, info = follow(state, data, arguments, pairs)
    number = len(traces["nodes"])
    traces["integrated"] = [log_marginal(one) for one in kept]
    traces["held out"] = [held_out(one, test) for one in kept]
    traces["ari"] = [adjusted_rand_score(truth.assignments, one.assignments) for one in kept]
    arguments.out.mkdir(parents=True, exist_ok=True)
    name = f"{arguments.moves}-{arguments.n}-{arguments.seed}-{arguments.start}-{arguments.chain}"
    stored: dict[str, Any] = {what: np.array(value) for what, value in traces.items()}
    np.savez_compressed(arguments.out / f"{name}.npz", **stored)
    for what in ("nodes", "depth", "log joint", "integrated", "ari", "held out"):
        half = np.array(traces[what][len(traces[what]) // 2 :])
        print(f"{name}: {number} sweeps, {what} {half.mean():.3f} sd {half.std():.3f}")
    for what in info.structure:
        print(f"{name}: {what} {np.array(traces[what]).sum(axis=0)}")


def table(arguments: argparse.Namespace) -> None:
    """Print R-hat over all chains of each problem and set of moves."""
    groups: dict[tuple[str, ...], list[Path]] = {}
    for path in sorted(arguments.out.glob("*.npz")):
        moves, n, seed, start, _ = path.stem.rsplit("-", 4)
        if start in arguments.starts:
            groups.setdefault((moves, n, seed), []).append(path)
    print("R-hat, and effective draws per second of one processor in a chain:\n")
    print("| moves | N | seed | starts | nodes | depth | log joint | integrated | pairs |", end="")
    print(" nodes, per second | depth | log joint |")
    print(12 * "|---" + "|")
    for group, paths in groups.items():
        chains = [np.load(path) for path in paths]
        length = min(len(one["nodes"]) for one in chains) // 2
        row = []
        for key in COMPARED:
            row.append(rhat(np.array([_thin(one[key], length) for one in chains])))
        looks = min(len(one["integrated"]) for one in chains) // 2
        row.append(rhat(np.array([_thin(one["integrated"], looks) for one in chains])))
        agreed = 0
        of_pairs = np.array([_thin(one["relations"], length) for one in chains])
        for k in range(N_PAIRS):
            traces = {str(kind): (of_pairs[:, :, k] == kind).astype(float) for kind in range(4)}
            agreed += not disagreements(traces)
        starts = " ".join(path.stem.rsplit("-", 4)[3] for path in paths)
        cells = " | ".join(f"{value:.2f}" for value in row)
        cells += f" | {100 * agreed / N_PAIRS:.0f} % | "
        cells += " | ".join(f"{ess_per_second(chains, key):.2g}" for key in COMPARED)
        print(f"| {' | '.join(group)} | {starts} | {cells} |")
    print("\nAccepted, of what was proposed:\n")
    for group, paths in groups.items():
        chains = [np.load(path) for path in paths]
        shares = []
        for name in MOVES:
            if name in chains[0]:
                counts = np.sum([one[name].sum(axis=0) for one in chains], axis=0)
                shares.append(f"{name} {100 * counts[1:].sum() / counts[0]:.2g} %")
        print(f"- {', '.join(group)}: {', '.join(shares)}")


def ess_per_second(chains: list[Any], key: str) -> float:
    """Return effective draws of a scalar in second halves, per second, mean over chains."""
    rates = []
    for one in chains:
        half = len(one[key]) // 2
        seconds = one["seconds"][-1] - one["seconds"][half]
        rates.append(effective_draws(one[key][None, half:].astype(np.float64)) / seconds)
    return float(np.mean(rates))


def reach(arguments: argparse.Namespace) -> None:
    """Print where chains from a cold start end, beside those that start at the truth."""
    print("| seed | | held out | ARI | log joint, parameters integrated out |")
    print("|---|---|---|---|---|")
    for path in sorted(arguments.out.glob("*-cold-0.npz")):
        for start in ("cold", "truth"):
            found = np.load(path.with_name(path.name.replace("-cold-", f"-{start}-")))
            n = len(found["integrated"])
            # Of the cold one the end, of the other the whole second half.
            last = {
                what: found[what][-max(n // 8, 1) :] if start == "cold" else found[what][n // 2 :]
                for what in ("held out", "ari", "integrated")
            }
            joint = last["integrated"]
            spread = f"{joint.mean():.0f} ({joint.min():.0f} to {joint.max():.0f})"
            print(
                f"| {path.stem.split('-')[-3]} | {start} | {last['held out'].mean():.3f} "
                f"| {last['ari'].mean():.3f} | {spread} |"
            )


def _thin(trace: Any, length: int) -> Any:
    """Return as many states of the second half as all chains have."""
    half = trace[len(trace) // 2 :]
    return half[np.linspace(0, len(half) - 1, min(length, 1000)).astype(int)]


def rhat(traces: Any) -> float:
    """Return R-hat of a scalar, a row for each chain."""
    from arviz_stats.base.array import array_stats

    return float(array_stats.rhat(traces, chain_axis=0, draw_axis=1))  # type: ignore[no-untyped-call]


def main() -> None:
    """Parse and call."""
    arguments = make_parser().parse_args()
    arguments.work(arguments)


def make_parser() -> argparse.ArgumentParser:
    """Return what knows the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run", help=run.__doc__)
    one.add_argument("--out", type=Path, required=True)
    one.add_argument("--n", type=int, default=500)
    one.add_argument("--nodes", type=int, default=40)
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--chain", type=int, default=0)
    one.add_argument("--start", choices=STARTS, default="cold")
    one.add_argument("--schedule", choices=chain.SCHEDULES, default="default")
    one.add_argument("--without", nargs="+", default=[], help="structural moves to leave out")
    one.add_argument("--moves", default="default", help="a name for the set of moves")
    one.add_argument("--seconds", type=float, default=300.0)
    one.add_argument(
        "--looks", type=int, default=80, help="states of which costly things are computed"
    )
    one.add_argument("--adapting", type=int, default=60)
    one.set_defaults(work=run)
    both = commands.add_parser("table", help=table.__doc__)
    both.add_argument("--out", type=Path, required=True)
    both.add_argument("--starts", nargs="+", default=["truth", "cold", "fragments"], choices=STARTS)
    both.set_defaults(work=table)
    ends = commands.add_parser("reach", help=reach.__doc__)
    ends.add_argument("--out", type=Path, required=True)
    ends.set_defaults(work=reach)
    return parser


if __name__ == "__main__":
    main()
