"""Large trees made small: nodes with few data are folded into those above them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treestick.inputs import InvalidValue, check_whole_number
from treestick.tree import Tree

Integers = npt.NDArray[np.int64]


class Folded(NamedTuple):
    """A part of a tree. Data of folded nodes are at the nearest node above that is left."""

    tree: Tree
    nodes: Integers
    """Which node of the whole tree each node is."""
    data: Integers
    """Which datum of the whole tree each datum is."""
    min_data: int
    n_folded: int
    n_data_folded: int

    def statement(self) -> str:
        """Say what was folded; nothing if nothing was."""
        if self.n_folded == 0:
            return ""
        nodes = "1 node" if self.n_folded == 1 else f"{self.n_folded:,} nodes"
        share = self.n_data_folded / max(self.tree.n_data, 1)
        return (
            f"Nodes with fewer than {self.min_data:,} data at or below them are folded into the "
            f"nodes above: {nodes} with {self.n_data_folded:,} data ({share:.0%})."
        )


def fold(tree: Tree, min_data: int = 1, root: int = 0) -> Folded:
    """Return the subtree at ``root``, of the nodes with at least ``min_data`` at or below them."""
    check_whole_number("min_data", min_data, 0)
    if not 0 <= check_whole_number("root", root, 0) < tree.n_nodes:
        raise InvalidValue(f"root={root}: the nodes are 0 to {tree.n_nodes - 1}")
    inside = np.zeros(tree.n_nodes, dtype=np.bool_)
    inside[root] = True
    for node in range(root + 1, tree.n_nodes):
        inside[node] = inside[tree.parent[node]]
    kept = inside & (tree.n_through >= min_data)
    kept[root] = True
    nodes = np.flatnonzero(kept)
    row = np.full(tree.n_nodes, -1)
    row[nodes] = np.arange(nodes.size)
    for node in range(root + 1, tree.n_nodes):
        if inside[node] and not kept[node]:
            row[node] = row[tree.parent[node]]
    parent = tree.parent[nodes]
    parent[1:] = row[parent[1:]]
    parent[0] = -1
    data = np.flatnonzero(inside[tree.assignments])
    parameters = {name: values[nodes] for name, values in tree.node_params.items()}
    part = Tree(parent, row[tree.assignments[data]], tree.mass[nodes], parameters)
    left = inside & ~kept
    return Folded(part, nodes, data, min_data, int(left.sum()), int(tree.n_here[left].sum()))
