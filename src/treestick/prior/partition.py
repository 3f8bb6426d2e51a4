"""The probability of a tree partition, with the sticks integrated out."""

import math

import numpy as np
from scipy import special

from treestick.inputs import InvalidType
from treestick.prior.parameters import check_stick_parameters
from treestick.tree import Tree

TINY = 1e-200
"""Far below what makes a difference to 1, far above what underflows."""


def log_probability(tree: Tree, alpha0: float, decay: float, gamma: float) -> float:
    """Return the log probability of a tree partition, with the sticks integrated out.

    Only nodes with data at or below them count; others, and the order of siblings, do not matter.
    """
    if not isinstance(tree, Tree):
        raise InvalidType(f"tree must be a treestick.Tree, not {type(tree).__name__}")
    alpha0, decay, gamma = check_stick_parameters(alpha0, decay, gamma)
    in_hull = tree.n_through > 0
    n_here, n_below = tree.n_here[in_hull], tree.n_below[in_hull]
    # In logarithms, because alpha underflows to 0 beyond a thousand levels at decay 0.5.
    log_alpha = math.log(alpha0) + tree.depth[in_hull] * math.log(decay)
    # B(n_here + 1, n_below + alpha) / B(1, alpha), where 1 / B(1, alpha) = alpha. If n_below is 0
    # the ratio tends to 1 with alpha, and has done so long before alpha is TINY.
    log_inverse = np.where(n_below > 0, log_alpha, np.maximum(log_alpha, math.log(TINY)))
    stops = log_inverse + special.betaln(
        n_here + 1.0, np.maximum(n_below + np.exp(log_alpha), TINY)
    )
    # Gamma(gamma) / Gamma(gamma + n_below) = B(gamma, n_below) / Gamma(n_below), where B is
    # 1 / gamma for a tiny gamma.
    parents = n_below[n_below > 0].astype(np.float64)
    not_tiny = max(gamma, TINY)
    choices = special.betaln(not_tiny, parents) - special.gammaln(parents)
    choices += math.log(not_tiny) - math.log(gamma)
    children = tree.n_through[1:][in_hull[1:]].astype(np.float64)
    entered = math.log(gamma) + special.gammaln(children)
    return float(stops.sum() + choices.sum() + entered.sum())
