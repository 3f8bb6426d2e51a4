"""The prior on trees: tree-structured stick breaking, by the urn and by the sticks.

Adams, Ghahramani & Jordan (2010), sec. 2. Sticks divide the unit interval among the nodes of an
infinite tree::

    nu[e]   ~ Beta(1, alpha(|e|)),   alpha(d) = alpha0 * decay**d
    psi[ei] ~ Beta(1, gamma),        phi[ei]  = psi[ei] * prod_{j<i} (1 - psi[ej])
    pi[e]   = nu[e] * phi[e] * prod_{ancestors a of e} phi[a] * (1 - nu[a]),    phi[root] = 1

With the sticks integrated out, data arrive one by one at the root and go down (the urn)::

    stop at e with           (n_here + 1) / (n_through + alpha(|e|) + 1)
    else go to child i with  n_through[ei] / (n_below + gamma)
    or to a new child with   gamma / (n_below + gamma)

and a tree partition of the data has the probability (children unlabelled)::

    prod_e  B(n_here + 1, n_below + alpha(|e|)) / B(1, alpha(|e|))
          * gamma**K_e * Gamma(gamma) / Gamma(gamma + n_below) * prod_children Gamma(n_through)

Nothing is cut off: depth and number of children have no limit, and the sticks of a node that
nobody has visited are looked up from the key (see :mod:`treestick.random`).

The masses sum to one if and only if ``sum_j log(1 + 1 / alpha(j))`` diverges (sec. 2). For
``alpha0 * decay**j`` that is so exactly for ``decay <= 1``: the terms then do not vanish.
"""

from treestick.prior.partition import log_probability
from treestick.prior.sticks import draw_sticks
from treestick.prior.urn import draw_urn

__all__ = ["draw_sticks", "draw_urn", "log_probability"]
