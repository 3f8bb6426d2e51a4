"""Large trees made small: what holds few data is folded into the node above it.

Two kinds of nodes are folded. Those with fewer than ``min_data`` at or below them; and, if asked
for, those that only pass data on: fewer than ``min_data`` of their own and one child that is left.
Data of folded nodes are shown at the nearest node above that is left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treestick.inputs import check_whole_number
from treestick.tree import Tree

Integers = npt.NDArray[np.int64]


class Folded(NamedTuple):
    """What is left of a tree."""

    tree: Tree
    nodes: Integers
    """Which node of the whole tree each node is."""
    data: Integers
    """Which datum of the whole tree each datum is."""
    min_data: int
    n_folded: int
    n_data_folded: int
    n_passing: int
    """Of the folded nodes, those that only pass data on."""

    def statement(self) -> str:
        """Say what was folded; nothing if nothing was."""
        if self.n_folded == 0:
            return ""
        share = self.n_data_folded / max(self.tree.n_data, 1)
        nodes = "1 node" if self.n_folded == 1 else f"{self.n_folded:,} nodes"
        small = f"fewer than {self.min_data:,} data at or below them"
        passing = f"fewer than {self.min_data:,} of their own and one child"
        which = [small] if self.n_folded > self.n_passing else []
        which += [passing] if self.n_passing else []
        return (
            f"Folded into the nodes above: {nodes} with {self.n_data_folded:,} data ({share:.0%}), "
            f"those with {', or '.join(which)}."
        )


def fold(tree: Tree, min_data: int = 1, root: int = 0, passing: bool = False) -> Folded:
    """Return the subtree at ``root`` without what is small.

    Parameters
    ----------
    tree : Tree
    min_data : int
        Nodes with fewer data at or below them are folded.
    root : int
        The node at the top.
    passing : bool
        Whether to fold nodes that only pass data on.
    """
    check_whole_number("min_data", min_data, 0)
    check_whole_number("root", root, 0, tree.n_nodes - 1)
    above = tree.parent.tolist()
    inside = np.zeros(tree.n_nodes, dtype=np.bool_)
    inside[root] = True
    for node in range(root + 1, tree.n_nodes):
        inside[node] = inside[above[node]]
    kept = inside & (tree.n_through >= min_data)
    kept[root] = True
    is_passing = np.zeros(tree.n_nodes, dtype=np.bool_)
    if passing:
        children = np.flatnonzero(kept)
        n_children = np.bincount(tree.parent[children[children != root]], minlength=tree.n_nodes)
        own = tree.n_through - _through_children(tree, kept, root)
        is_passing = kept & (n_children == 1) & (own < min_data)
        is_passing[root] = False
        kept &= ~is_passing
    nodes = np.flatnonzero(kept)
    row = np.full(tree.n_nodes, -1)
    row[nodes] = np.arange(nodes.size)
    for node in range(root + 1, tree.n_nodes):
        if inside[node] and not kept[node]:
            row[node] = row[above[node]]
    parent = row[np.maximum(tree.parent[nodes], 0)]
    parent[0] = -1
    data = np.flatnonzero(inside[tree.assignments])
    parameters = {name: values[nodes] for name, values in tree.node_params.items()}
    part = Tree(parent, row[tree.assignments[data]], tree.mass[nodes], parameters)
    left = inside & ~kept
    n_data_folded = int(tree.n_here[left].sum())
    return Folded(
        part, nodes, data, min_data, int(left.sum()), n_data_folded, int(is_passing.sum())
    )


def _through_children(tree: Tree, kept: npt.NDArray[np.bool_], root: int) -> Integers:
    """Return how many data go through the children of each node that are left."""
    children = np.flatnonzero(kept)
    children = children[children != root]
    total = np.zeros(tree.n_nodes, dtype=np.int64)
    np.add.at(total, tree.parent[children], tree.n_through[children])
    return total
