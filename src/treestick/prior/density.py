"""The probability of a tree partition as the moves need it: compiled, factor by factor.

Its three factors (see the package) depend on alpha0 and decay, on gamma, and on neither, so that a
move on one hyperparameter computes one of them. Rows without data at or below them do not count.
"""

import math

from treestick._jit import compiled
from treestick.tree.table import NULL, NodeTable

TINY = 1e-200
"""Far below what makes a difference to 1, far above what underflows."""


@compiled
def log_partition(table: NodeTable, alpha0: float, decay: float, gamma: float) -> float:
    """Return the log probability of the tree partition with the counts of ``table``."""
    total = log_stops(table, alpha0, decay)
    for node in range(table.size[0]):
        n_below = table.n_below[node]
        total += log_choice(node != 0, table.n_here[node] + n_below, n_below, gamma)
    return total


@compiled
def log_stops(table: NodeTable, alpha0: float, decay: float) -> float:
    """Return the sum of :func:`log_stop` over all nodes."""
    total = 0.0
    for node in range(table.size[0]):
        total += log_stop(table.n_here[node], table.n_below[node], table.depth[node], alpha0, decay)
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
def log_choices(table: NodeTable, gamma: float) -> float:
    """Return the sum of log[ gamma**K Gamma(gamma) / Gamma(gamma + n_below) ], K children each."""
    total = 0.0
    for node in range(table.size[0]):
        n_below = table.n_below[node]
        if n_below > 0:
            total += math.lgamma(gamma) - math.lgamma(gamma + n_below)
        if table.parent[node] != NULL and table.n_here[node] + n_below > 0:
            total += math.log(gamma)
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
