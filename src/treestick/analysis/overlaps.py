"""How two trees of the same data lie over each other, counted without a table of nodes by nodes.

Nodes are numbered in preorder, so that those at or below a node come one after the other. A *cell*
is the data that are at one node of the first tree and at one of the second; there are no more cells
than data. Whatever is asked of the trees is a sum over cells, the nodes above them in the first
tree and the nodes above them in the second: it takes time in proportion to

    cells * (mean depth in the first tree) * (mean depth in the second),

and memory in proportion to nodes and cells.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treestick._jit import compiled
from treestick.tree import Tree

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class Preorder(NamedTuple):
    """A tree whose nodes are numbered in preorder."""

    parent: Integers
    """-1 for the root."""
    end: Integers
    """Nodes at or below a node are those from it to here, which is not one of them."""
    n_here: Integers
    n_through: Integers
    """Data at or below."""
    number: Integers
    """The new number of each node."""
    assignments: Integers


class Cells(NamedTuple):
    """Cells of two trees, ordered by the node of the first."""

    start: Integers
    """Those at a node of the first tree are from here to the start of the next node's."""
    other: Integers
    """Node of the second tree."""
    size: Integers
    """How many data a cell has."""


def in_preorder(tree: Tree) -> Preorder:
    """Return a tree with its nodes numbered anew."""
    number, parent, end = _number(np.array(tree.parent))
    old = np.argsort(number)
    return Preorder(
        parent, end, np.asarray(tree.n_here)[old], np.asarray(tree.n_through)[old], number,
        number[tree.assignments],
    )  # fmt: skip


@compiled
def _number(parent: Integers) -> tuple[Integers, Integers, Integers]:
    """Return new numbers of nodes, and by these their parents and where their subtrees end."""
    size = np.ones_like(parent)
    for node in range(parent.size - 1, 0, -1):
        size[parent[node]] += size[node]
    number, free = np.zeros_like(parent), np.ones_like(parent)
    new_parent, end = np.full_like(parent, -1), np.full_like(parent, parent.size)
    for node in range(1, parent.size):
        above = parent[node]
        new = free[above]
        number[node], new_parent[new], end[new] = new, number[above], new + size[node]
        free[above] += size[node]
        free[node] = new + 1
    return number, new_parent, end


def find_cells(one: Preorder, other: Preorder) -> Cells:
    """Return the cells of two trees of the same data."""
    code = one.assignments * other.parent.size + other.assignments
    code, count = np.unique(code, return_counts=True)
    node, place = np.divmod(code, other.parent.size)
    start = np.searchsorted(node, np.arange(one.parent.size + 1))
    return Cells(start, place, count)


@compiled
def count_alike(one: Preorder, other: Preorder, cells: Cells) -> int:
    """Return how many pairs of data are related in the same way in two trees.

    Pairs that are apart in both are all pairs, without those that are in line (at one node, or one
    above the other) in either, with those that are in line in both, which are without them twice.
    """
    at = np.zeros_like(other.parent)  # data of the node at hand, by their node in the other tree,
    under = np.zeros_like(other.parent)  # and how many of them are below each node there
    same, above, in_line = 0, 0, 0
    for node in range(one.parent.size):
        first, second = cells.start[node], cells.start[node + 1]
        if first == second:
            continue
        for k in range(first, second):
            at[cells.other[k]] += cells.size[k]
            same += cells.size[k] * (cells.size[k] - 1) // 2
            place = other.parent[cells.other[k]]
            while place >= 0:
                under[place] += cells.size[k]
                place = other.parent[place]
        for k in range(first, second):
            in_line += cells.size[k] * under[cells.other[k]]
        for k in range(second, cells.start[one.end[node]]):
            place = cells.other[k]
            in_line += cells.size[k] * (at[place] + under[place])
            n_above = 0
            place = other.parent[place]
            while place >= 0:
                n_above += at[place]
                place = other.parent[place]
            above += cells.size[k] * n_above
        for k in range(first, second):
            place = cells.other[k]
            at[place] = 0
            place = other.parent[place]
            while place >= 0:
                under[place] = 0
                place = other.parent[place]
    n = one.n_through[0]
    apart = n * (n - 1) // 2 - _in_line(one) - _in_line(other) + same + above + in_line
    return same + above + apart


@compiled
def _in_line(tree: Preorder) -> int:
    """Return how many pairs of data are at one node, or one above the other."""
    n = 0
    for node in range(tree.parent.size):
        here = tree.n_here[node]
        n += here * (here - 1) // 2 + here * (tree.n_through[node] - here)
    return n


@compiled
def best_matches(one: Preorder, other: Preorder, cells: Cells) -> Floats:
    """Return for each node of a tree the largest overlap (Jaccard) with a node of the other.

    It is that of the data at or below them; 0 where there are none.
    """
    best = np.zeros(one.parent.size)
    shared = np.zeros_like(other.parent)
    for node in range(one.parent.size):
        first, last = cells.start[node], cells.start[one.end[node]]
        for k in range(first, last):
            place = cells.other[k]
            while place >= 0:
                shared[place] += cells.size[k]
                place = other.parent[place]
        for k in range(first, last):
            place = cells.other[k]
            while place >= 0 and shared[place] > 0:
                union = one.n_through[node] + other.n_through[place] - shared[place]
                best[node] = max(best[node], shared[place] / union)
                shared[place] = 0
                place = other.parent[place]
    return best
