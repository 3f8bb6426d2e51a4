"""One tree to report, and what draws say of pairs of data.

Two data of a tree are in one of four *relations*: at the same node, one at an ancestor of the
other's node, the other way round, or apart. They do not depend on how nodes are numbered. The
distance of two trees is the share of pairs whose relations differ. The consensus is the draw with
the smallest mean distance to all draws. Distances are exact and need no table of pairs: with m[a,
b] data at node a of one tree and b of the other, the pairs that agree are counted from m alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick.inputs import InvalidValue, check_whole_number
from treestick.tree import Tree

Floats = npt.NDArray[np.float64]
MOST_CANDIDATES = 200
"""Draws that are compared with each other, evenly spaced; time grows with the square."""


class Consensus(NamedTuple):
    """A draw that stands for all."""

    tree: Tree
    position: int
    """Which of the draws it is."""
    distance: float
    """Mean share of pairs whose relation differs in another draw."""
    support: Floats
    """How well draws keep the data at or below each node together. In each draw, the largest
    overlap (Jaccard) with the data at or below one node, averaged; 1 if they are a subtree in all
    draws."""
    n_compared: int
    """Among how many draws it was looked for."""


class PairRelations(NamedTuple):
    """Probabilities of how two data are related."""

    same: float
    ancestor: float
    """The first is above the second."""
    descendant: float
    apart: float


def pair_relations(draws: Sequence[Tree], i: int, j: int) -> PairRelations:
    """Return the share of draws with each relation of data ``i`` and ``j``."""
    if len(draws) == 0:
        raise InvalidValue("there are no draws")
    counts = np.zeros(4)
    for tree in draws:
        a = int(tree.assignments[check_whole_number("i", i, 0, tree.n_data - 1)])
        b = int(tree.assignments[check_whole_number("j", j, 0, tree.n_data - 1)])
        if a == b:
            counts[0] += 1
        elif a in tree.path(b):
            counts[1] += 1
        elif b in tree.path(a):
            counts[2] += 1
        else:
            counts[3] += 1
    return PairRelations(*(counts / len(draws)).tolist())


def ancestry(tree: Tree) -> npt.NDArray[np.bool_]:
    """Return whether node a is above node b: a table of nodes by nodes."""
    above = np.zeros((tree.n_nodes, tree.n_nodes), dtype=bool)
    for node in range(1, tree.n_nodes):
        parent = int(tree.parent[node])
        above[:, node] = above[:, parent]
        above[parent, node] = True
    return above


def _overlaps(one: Tree, other: Tree) -> Floats:
    """Return how many data are at node a of one tree and node b of the other."""
    flat = one.assignments.astype(np.int64) * other.n_nodes + other.assignments
    counts = np.bincount(flat, minlength=one.n_nodes * other.n_nodes)
    return counts.reshape(one.n_nodes, other.n_nodes).astype(np.float64)


def distance(one: Tree, other: Tree) -> float:
    """Return the share of pairs of data whose relation is not the same in two trees."""
    return _distance(one, ancestry(one), other, ancestry(other))


def _distance(one: Tree, above: Any, other: Tree, above_other: Any) -> float:
    n = one.n_data
    if n < 2:
        return 0.0
    m = _overlaps(one, other)
    same = (m * (m - 1.0)).sum() / 2.0
    # Pairs (i above j) in both: sum over nodes a, b of m[a, b] times those below both.
    a, b = above.astype(np.float64), above_other.astype(np.float64)
    below_both = (m * (a @ m @ b.T)).sum()
    # Apart in both: all pairs, without those in line or together in either.
    line = a + a.T + np.eye(a.shape[0])
    line_other = b + b.T + np.eye(b.shape[0])
    rows, columns = m.sum(axis=1), m.sum(axis=0)
    in_line = (rows @ line @ rows - n) / 2.0
    in_line_other = (columns @ line_other @ columns - n) / 2.0
    in_line_both = ((m * (line @ m @ line_other.T)).sum() - n) / 2.0
    pairs = n * (n - 1.0) / 2.0
    apart = pairs - in_line - in_line_other + in_line_both
    return float(1.0 - (same + below_both + apart) / pairs)


def consensus(draws: Sequence[Tree]) -> Consensus:
    """Return the draw with the smallest mean distance to the others, and its nodes' support.

    Of more than 200 draws, 200 evenly spaced ones are compared.
    """
    if len(draws) == 0:
        raise InvalidValue("there are no draws")
    n_some = min(len(draws), MOST_CANDIDATES)
    positions = np.unique(np.linspace(0, len(draws) - 1, n_some).astype(np.int64)).tolist()
    trees = [draws[k] for k in positions]
    if len({tree.n_data for tree in trees}) > 1:
        raise InvalidValue("the draws are not of the same data")
    above = [ancestry(tree) for tree in trees]
    total = np.zeros(len(trees))
    for i in range(len(trees)):
        for j in range(i):
            found = _distance(trees[i], above[i], trees[j], above[j])
            total[i] += found
            total[j] += found
    best = int(np.argmin(total))
    others = max(len(trees) - 1, 1)
    support = _support(trees[best], above[best], trees, above)
    distance = float(total[best] / others)
    return Consensus(trees[best], positions[best], distance, support, len(trees))


def _support(tree: Tree, above: Any, trees: Sequence[Tree], all_above: Sequence[Any]) -> Floats:
    total = np.zeros(tree.n_nodes)
    within = above + np.eye(tree.n_nodes)
    for other, above_other in zip(trees, all_above, strict=True):
        within_other = above_other + np.eye(other.n_nodes)
        shared = within @ _overlaps(tree, other) @ within_other.T
        size, size_other = tree.n_through[:, None], other.n_through[None, :]
        union = size + size_other - shared
        total += np.divide(shared, union, out=np.zeros_like(shared), where=union > 0).max(axis=1)
    return np.asarray(total / len(trees))
