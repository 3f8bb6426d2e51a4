"""The chain against the exact posterior over all tree partitions of four data.

With Gaussian nodes the means integrate out: given a tree, data are jointly Gaussian, and two data
covary by what their nodes share on the way from the root. So the posterior probability of every
tree partition down to a depth is known; deeper ones have a prior probability below 2e-4.
"""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy import stats

from laws import ALARM
from test_prior_probability import all_trees, partition_name
from treestick import Tree, prior
from treestick.chain import first_state, run_chain
from treestick.models.gaussian import Gaussian, Reals
from treestick.moves.state import State, Sticks
from treestick.random import make_key

X = np.array([[-1.1, 0.3], [-0.7, 0.6], [1.2, 0.2], [0.9, -1.5]])
ALPHA0, DECAY, GAMMA = 0.8, 0.25, 0.9
PERSISTENCE, DIFFUSION, NOISE, ROOT_VARIANCE = 0.9, 1.3, 0.4, 0.8
DEEPEST = 3
N_DRAWS, EVERY = 4800, 4
"""Draws compared, and sweeps from one to the next."""
N_BATCHES = 60


def log_evidence(tree: Tree) -> float:
    """Return the log density of X given the tree, all means integrated out."""
    n = len(X)
    paths = [tree.path(int(node)).tolist() for node in tree.assignments]
    covariance = NOISE * np.eye(n)
    for i, j in itertools.product(range(n), repeat=2):
        shared = len(set(paths[i]) & set(paths[j]))
        # The variance of the last common node, shrunk along what follows on both ways.
        variance = ROOT_VARIANCE
        for _ in range(shared - 1):
            variance = PERSISTENCE**2 * variance + DIFFUSION
        apart = len(paths[i]) + len(paths[j]) - 2 * shared
        covariance[i, j] += variance * PERSISTENCE**apart
    _, log_determinant = np.linalg.slogdet(2 * math.pi * covariance)
    squares = np.sum(X * np.linalg.solve(covariance, X))
    return -0.5 * float(squares + X.shape[1] * log_determinant)


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
def exact() -> dict[str, float]:
    """Return the posterior expectations."""
    trees = list(all_trees(4, DEEPEST))
    weights = np.exp(
        [prior.log_probability(t, ALPHA0, DECAY, GAMMA) + log_evidence(t) for t in trees]
    )
    described = [describe(tree) for tree in trees]
    return {
        name: float(np.average([d[name] for d in described], weights=weights))
        for name in described[0]
    }


def to_tree(state: State) -> Tree:
    return Tree(state.table.parent[: state.n_nodes], state.assignments)


@pytest.mark.parametrize("schedule", ["default", "paper"])
def test_chain_agrees_with_exact_enumeration(schedule: str) -> None:
    """Means over batches against the exact probability by Student's test, 27 comparisons."""
    one = np.ones(2)
    model = Gaussian(
        PERSISTENCE, PERSISTENCE, PERSISTENCE,
        DIFFUSION * one, DIFFUSION * one, DIFFUSION * one,
        NOISE * one, NOISE * one, NOISE * one,
        False, ROOT_VARIANCE * one, 0.0,
    )  # fmt: skip
    sticks = Sticks(ALPHA0, ALPHA0, ALPHA0, DECAY, DECAY, DECAY, GAMMA, GAMMA, GAMMA)
    data = Reals(X)
    state = first_state(make_key(5), model, sticks, data, 4)
    chain = run_chain(5, 0, state, data, burn_in=100, schedule=schedule)
    seen: dict[tuple[object, ...], dict[str, float]] = {}
    draws = []
    for swept in itertools.islice(chain, 100, 100 + N_DRAWS * EVERY, EVERY):
        tree = to_tree(swept.state)
        partition = partition_name(tree)
        if partition not in seen:
            seen[partition] = describe(tree)
        draws.append(seen[partition])
    for name, probability in exact().items():
        batches = np.array([draw[name] for draw in draws]).reshape(N_BATCHES, -1).mean(axis=1)
        # Of what is deeper than was enumerated, 2e-4 may be missing.
        away = max(abs(batches.mean() - probability) - 2e-4, 0.0)
        t = away / (batches.std(ddof=1) / math.sqrt(N_BATCHES))
        p = 2 * stats.t.sf(t, N_BATCHES - 1)
        assert p > ALARM, f"{name}: {batches.mean():.4f}, exactly {probability:.4f}"
