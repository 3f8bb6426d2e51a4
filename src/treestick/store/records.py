"""What a draw is, and the declaration of every array and number that a run holds of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Declared(NamedTuple):
    """What an array is: its axes, and its meaning."""

    axes: tuple[str, ...]
    meaning: str


ARRAYS = {
    "parent": Declared(("node",), "row of each node's parent, -1 at the root"),
    "assignments": Declared(("datum",), "node of each datum"),
    "theta": Declared(("node", "parameter"), "parameters of each node, in the model's own units"),
    "leaf_statistics": Declared(
        ("leaf", "statistic"), "sums over the data at each node without children"
    ),
}
"""What every draw has. Rows of a tree are as many as it has nodes: ragged, never padded."""
ATOMS = Declared(("atom", "parameter"), "components that nodes share")
TOPICS = Declared(("topic",), "how much of each topic documents have")
VECTOR = Declared(("feature",), "hyperparameter with a value for each feature")
SCALARS = {
    "alpha0": "stick prior: how much goes deeper than the root",
    "decay": "stick prior: alpha(depth) = alpha0 * decay**depth",
    "gamma": "stick prior: how many children nodes have",
    "n_nodes": "nodes with data at or below them",
    "depth": "depth of the deepest node",
    "log_likelihood": "of the data given their nodes' parameters",
    "complete_data": "log likelihood of data and assignments, sticks integrated out",
    "lp": "log density of everything",
    "acceptance_rate": "share of parameter proposals that were accepted",
    "tries": "points thrown per datum until it had its node",
    "n_candidates": "nodes that were compared at once",
}
ACCEPTED = "share of structural moves of this kind that were accepted"
HYPERPARAMETER = "hyperparameter of the model"


class DrawRecord(NamedTuple):
    """One draw: the state of a chain after a sweep."""

    parent: Integers
    """Parent of each node, shape (n_nodes,); -1 at the root."""
    assignments: npt.NDArray[np.signedinteger[Any]]
    """Node of each datum, shape (n_data,)."""
    theta: Floats
    """Parameters of each node, shape (n_nodes, size of a node's parameters)."""
    scalars: dict[str, float]
    """Hyperparameters, and numbers to be traced: the same names in all draws of a chain."""
    vectors: dict[str, Floats]
    """Hyperparameters with a value for each dimension, and tables that nodes share."""
    chain: int
    sweep: int
    leaf_statistics: Floats = np.empty((0, 0))
    """Sufficient statistics of the data at each node without children, in the order of nodes."""


class Trace(NamedTuple):
    """What a chain's draws are followed by: numbers, and vectors of one length."""

    chain: int
    sweep: Integers
    seconds: Floats
    """Of sampling, until each draw."""
    values: dict[str, Floats]
    """By name, a row for each draw."""

    def __len__(self) -> int:
        return int(self.sweep.size)


def is_elsewhere(record: DrawRecord) -> bool:
    """Say whether the nodes of data are in files of their own."""
    return record.parent.size > 0 and record.assignments.size == 0


def declaration_of(name: str, n_axes: int) -> Declared:
    """Return what is said of a stored array; scalars have no axes."""
    if name in ARRAYS:
        return ARRAYS[name]
    if n_axes == 0:
        meaning = ACCEPTED if name.endswith("_accepted") else SCALARS.get(name, HYPERPARAMETER)
        return Declared((), meaning)
    if name == "doc_topic_prior":
        return TOPICS
    return VECTOR if n_axes == 1 else ATOMS


def find_fault(record: DrawRecord) -> str | None:
    """Return what of a draw does not fit together, or None.

    Compiled code trusts its arrays, so what comes from a file is checked before it goes there.
    """
    n_nodes, rows = record.parent.size, np.arange(record.parent.size)
    if n_nodes == 0:
        return "nodes are missing" if record.assignments.size else None
    if record.parent[0] != -1 or (record.parent[1:] < 0).any() or (record.parent >= rows).any():
        return "parents are not those of a tree"
    nodes = record.assignments
    if nodes.size and not 0 <= nodes.min() <= nodes.max() < n_nodes:
        return "data are at nodes that are not there"
    if record.theta.shape[0] != n_nodes:
        return f"there are parameters of {record.theta.shape[0]} nodes, not {n_nodes}"
    n_leaves = n_nodes - np.unique(record.parent[1:]).size
    if record.leaf_statistics.shape[0] not in (0, n_leaves):
        return f"there are sums for {record.leaf_statistics.shape[0]} leaves, not {n_leaves}"
    return None
