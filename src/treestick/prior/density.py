"""The probability of a tree partition as the moves need it: compiled, factor by factor.

Its three factors (see the package) depend on alpha0 and decay, on gamma, and on neither, so that a
move on one hyperparameter computes one of them. Rows without data at or below them do not count.
Most nodes of a large tree are like others in depth and counts, which is all that the first two
factors see: those are computed once for each kind of node (:func:`count_kinds`).
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treestick._jit import compiled
from treestick.tree.table import NodeTable

TINY = 1e-200
"""Far below what makes a difference to 1, far above what underflows."""


class Kinds(NamedTuple):
    """Nodes with data at or below them, those of one kind together; in ascending order."""

    depth: npt.NDArray[np.int64]
    n_below: npt.NDArray[np.int64]
    n_here: npt.NDArray[np.int64]
    n_nodes: npt.NDArray[np.int64]
    """How many there are of each kind."""


def count_kinds(table: NodeTable) -> Kinds:
    """Return the kinds of nodes in a table."""
    size = int(table.size[0])
    columns = np.stack([table.depth[:size], table.n_below[:size], table.n_here[:size]])
    columns = columns[:, (columns[1:] > 0).any(axis=0)].astype(np.int64)
    columns = columns[:, np.lexsort(columns[::-1])]
    is_first = np.ones(columns.shape[1], dtype=np.bool_)
    is_first[1:] = (columns[:, 1:] != columns[:, :-1]).any(axis=0)
    first = np.flatnonzero(is_first)
    depth, n_below, n_here = np.ascontiguousarray(columns[:, first])
    return Kinds(depth, n_below, n_here, np.diff(first, append=columns.shape[1]))


@compiled
def log_partition(table: NodeTable, alpha0: float, decay: float, gamma: float) -> float:
    """Return the log probability of the tree partition with the counts of ``table``."""
    total = 0.0
    for node in range(table.size[0]):
        n_here, n_below = table.n_here[node], table.n_below[node]
        total += log_stop(n_here, n_below, table.depth[node], alpha0, decay)
        total += log_choice(node != 0, n_here + n_below, n_below, gamma)
    return total


@compiled
def log_stops(kinds: Kinds, alpha0: float, decay: float) -> float:
    """Return the sum of :func:`log_stop` over all nodes."""
    total = 0.0
    for k in range(kinds.depth.size):
        of_one = log_stop(kinds.n_here[k], kinds.n_below[k], kinds.depth[k], alpha0, decay)
        total += kinds.n_nodes[k] * of_one
    return total


@compiled
def log_stop(n_here: int, n_below: int, depth: int, alpha0: float, decay: float) -> float:
    """Return log[ alpha B(n_here + 1, n_below + alpha) ], as 1 / B(1, alpha) = alpha."""
    if n_here + n_below == 0:
        return 0.0
    # In logarithms: alpha underflows beyond a thousand levels at decay 0.5. Without data
    # below, the term tends to 0 with alpha, and has done so long before alpha is TINY.
    log_alpha = math.log(alpha0) + depth * math.log(decay)
    if n_below == 0:
        log_alpha = max(log_alpha, math.log(TINY))
    alpha = max(math.exp(log_alpha), TINY)
    return (
        log_alpha
        + math.lgamma(n_here + 1.0)
        + math.lgamma(n_below + alpha)
        - math.lgamma(n_here + n_below + 1.0 + alpha)
    )


@compiled
def log_choices(kinds: Kinds, gamma: float) -> float:
    """Return the sum of log[ gamma**K Gamma(gamma) / Gamma(gamma + n_below) ], K children each."""
    total = 0.0
    for k in range(kinds.depth.size):
        of_one = 0.0
        if kinds.n_below[k] > 0:
            of_one += math.lgamma(gamma) - math.lgamma(gamma + kinds.n_below[k])
        if kinds.depth[k] > 0:
            of_one += math.log(gamma)
        total += kinds.n_nodes[k] * of_one
    return total


@compiled
def log_choice(is_child: bool, n_through: int, n_below: int, gamma: float) -> float:
    """Return a node's factors of gamma and of the choice among siblings.

    These are Gamma(gamma) / Gamma(gamma + n_below) for its children and, if it is a child itself,
    gamma Gamma(n_through) for its place among its siblings.
    """
    total = 0.0
    if n_below > 0:
        total += math.lgamma(gamma) - math.lgamma(gamma + n_below)
    if is_child and n_through > 0:
        total += math.log(gamma) + math.lgamma(n_through)
    return total
