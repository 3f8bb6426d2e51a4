"""The chain against the exact posterior over all tree partitions of four data.

The posterior is that among tree partitions down to a depth (``exact.py``), so draws that are deeper
are left out: the others have exactly the law that was enumerated.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from scipy import stats

from exact import CountSetting, Setting, enumerate_posterior
from joint import counts_of
from laws import ALARM
from test_prior_probability import partition_name
from treestick import Tree
from treestick.chain import run_chain
from treestick.models.gaussian import Reals
from treestick.moves.state import State
from treestick.moves.structure.plan import MOVES, move_structure
from treestick.random import make_key
from treestick.start import check_start, first_state

SETTING = Setting(
    x=np.array([[-1.1, 0.3], [-0.7, 0.6], [1.2, 0.2], [0.9, -1.5]]),
    alpha0=0.8, decay=0.25, gamma=0.9,
    persistence=0.9, diffusion=1.3, noise=0.4, root_variance=0.8,
)  # fmt: skip
COUNTS = CountSetting(
    x=np.array([[2, 0], [1, 0], [0, 2], [0, 1]]),
    alpha0=0.8, decay=0.25, gamma=0.9,
    concentration=1.2, persistence=0.9,
)  # fmt: skip
SETTINGS: dict[str, Setting | CountSetting] = {"gaussian": SETTING, "multinomial": COUNTS}
DATA = {"gaussian": Reals(SETTING.x), "multinomial": counts_of(COUNTS.x)}
DEEPEST = 3
N_DRAWS, EVERY = 4800, 4
"""Draws compared, and sweeps from one to the next."""
N_BATCHES = 60


def describe(tree: Tree) -> dict[str, float]:
    """Return indicators that do not depend on labels: node counts, depths, relations of data."""
    paths = [tree.path(int(node)).tolist() for node in tree.assignments]
    result = {f"{k} nodes": float(tree.n_nodes == k) for k in range(1, 7)}
    result |= {f"depth {d}": float(tree.depth.max() == d) for d in range(3)}
    for i, j in itertools.permutations(range(4), 2):
        a, b = paths[i], paths[j]
        if i < j:
            result[f"{i} and {j} at one node"] = float(a[-1] == b[-1])
        result[f"{i} above {j}"] = float(len(a) < len(b) and a[-1] in b)
    return result


@functools.cache
def exact(model: str) -> dict[str, float]:
    """Return the posterior expectations."""
    trees, probabilities, _ = enumerate_posterior(SETTINGS[model], DEEPEST)
    described = [describe(tree) for tree in trees]
    return {
        name: float(np.average([d[name] for d in described], weights=probabilities))
        for name in described[0]
    }


def to_tree(state: State) -> Tree:
    return Tree(state.table.parent[: state.n_nodes], state.assignments)


def by_schedule(schedule: str) -> Callable[[State, Any], Iterator[State]]:
    def run(state: State, data: Any) -> Iterator[State]:
        chain = run_chain(5, 0, state, data, burn_in=100, schedule=schedule)
        return (swept.state for swept in chain)

    return run


def by_structure(state: State, data: Any) -> Iterator[State]:
    """Yield states of a chain of structural moves, and nothing else.

    They reach everything by themselves: merges into a parent lead to the root alone, where all
    parameters are drawn anew, and splits lead from there to any tree.
    """
    for number in itertools.count():
        plan = dict.fromkeys(MOVES, 2)
        state, _ = move_structure(make_key(5, 0, number), state, data, plan)
        yield state


CHAINS = {
    "both": by_schedule("default"),
    "the paper's moves": by_schedule("paper"),
    "structural moves": by_structure,
}


@pytest.mark.parametrize(
    ("moves", "model"),
    [(moves, "gaussian") for moves in CHAINS]
    + [pytest.param(moves, "multinomial", marks=pytest.mark.long) for moves in CHAINS],
)
def test_chain_agrees_with_exact_enumeration(moves: str, model: str) -> None:
    """Means over batches against the exact probability by Student's test, 27 comparisons."""
    setting, data = SETTINGS[model], DATA[model]
    start = first_state(
        make_key(5), setting.model(), setting.sticks(), data, check_start("root", 4)
    )
    seen: dict[tuple[object, ...], dict[str, float]] = {}
    draws = []
    chain = CHAINS[moves](start, data)
    for state in itertools.islice(chain, 100, 100 + N_DRAWS * EVERY, EVERY):
        tree = to_tree(state)
        partition = partition_name(tree)
        if partition not in seen:
            left_out = tree.depth.max() > DEEPEST
            seen[partition] = dict.fromkeys(exact(model), math.nan) if left_out else describe(tree)
        draws.append(seen[partition])
    for name, probability in exact(model).items():
        each = np.array([draw[name] for draw in draws]).reshape(N_BATCHES, -1)
        batches = np.nanmean(each, axis=1)
        t = abs(batches.mean() - probability) / (batches.std(ddof=1) / math.sqrt(N_BATCHES))
        p = 2 * stats.t.sf(t, N_BATCHES - 1)
        assert p > ALARM, f"{name}: {batches.mean():.4f}, exactly {probability:.4f}"
