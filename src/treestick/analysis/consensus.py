"""One tree to report, and what draws say of pairs of data.

Two data of a tree are in one of four *relations*: at the same node, one at an ancestor of the
other's node, the other way round, or apart. They do not depend on how nodes are numbered. The
distance of two trees is the share of pairs whose relations differ. The consensus is the draw with
the smallest mean distance to all draws. Distances are exact and need no table of pairs
(:mod:`treestick.analysis.overlaps`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treestick._jit import deferred_interrupts
from treestick.analysis.overlaps import (
    Preorder,
    best_matches,
    count_alike,
    find_cells,
    in_preorder,
)
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


def distance(one: Tree, other: Tree) -> float:
    """Return the share of pairs of data whose relation is not the same in two trees."""
    if one.n_data != other.n_data:
        raise InvalidValue(f"one tree has {one.n_data} data, the other {other.n_data}")
    return _distance(in_preorder(one), in_preorder(other))


def _distance(one: Preorder, other: Preorder) -> float:
    n = one.assignments.size
    if n < 2:
        return 0.0
    with deferred_interrupts():
        alike = count_alike(one, other, find_cells(one, other))
    return 1.0 - alike / (n * (n - 1) // 2)


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
    numbered = [in_preorder(tree) for tree in trees]
    total = np.zeros(len(trees))
    for i in range(len(trees)):
        for j in range(i):
            found = _distance(numbered[i], numbered[j])
            total[i] += found
            total[j] += found
    best = int(np.argmin(total))
    others = max(len(trees) - 1, 1)
    return Consensus(
        trees[best], positions[best], float(total[best] / others),
        _support(numbered[best], numbered), len(trees),
    )  # fmt: skip


def _support(tree: Preorder, trees: Sequence[Preorder]) -> Floats:
    total = np.zeros(tree.parent.size)
    for other in trees:
        with deferred_interrupts():
            total += best_matches(tree, other, find_cells(tree, other))
    return np.asarray(total[tree.number] / len(trees))
