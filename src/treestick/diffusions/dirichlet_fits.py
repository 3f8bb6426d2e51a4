"""Local fits for Dirichlet diffusion: what is below a node, as counts with rates.

As a function of l = log p[node], the log density of a child's log probabilities x is, beside terms
without l and for each outcome by itself,

    b x - lgamma(b)    or, if it is dead,    b LEAST - lgamma(b + 1),

where b = concentration * (persistence * p + (1 - persistence) / V) is the child's shape. If instead
of its probabilities it is known that its own data and children are worth n counts with rates rho,
that is, p[child]**n exp(-rho p[child]), then integrated over p[child] it says

    lgamma(b + n) - lgamma(b) - b log(rho).

Rule 1. Let h(l) be the sum of all these, of the node's prior a l and of its data c l. With a
multiplier for the sum of probabilities, each outcome has a law of its own, h(l) - m p, and that is
replaced by a gamma law, (a + n) l - rho p, with the same first and second derivative at an
estimate: n = c + the sum of h' - h'' over the children, and rho = m + (n - h') / p, where m makes
the modes (a + n) / rho sum to 1. Small outcomes need it: for b < 1, n counts the children where the
outcome is alive, and rho is concentration * sum of -x, by orders of magnitude larger for some.
Rule 2. Gamma variates with shapes a + n and rates rho, divided by their sum, have a density too
(the scaled Dirichlet law). Beside the factors of the Dirichlet law it has

    prod of rho**(a + n) / (sum of rho p)**(sum of a + n).

Rule 3. A node without children has its counts and equal rates: there, nothing is approximate.

Log weights of a node with children have a standard deviation of 0.1 to 2 for 500 outcomes, if
persistence is 1. Below 1 each alive outcome of a child may come from the node or from the base, a
mixture that one gamma law is far from: for 500 outcomes and persistence 0.9, it is some 15.
"""

import math
from typing import Any

import numpy as np

from treestick._jit import compiled
from treestick.diffusions.dirichlet import LEAST, Floats, normalise, shape, write_shapes
from treestick.tree.table import NULL

N_ROUNDS = 3
"""How often estimates and counts take turns."""
MOST_STEPS = 50
"""Of Newton's method, which takes some six."""


@compiled
def polygammas(x: float) -> tuple[float, float]:
    """Return the first two derivatives of lgamma at x > 0, to about 1e-13."""
    first, second = 0.0, 0.0
    while x < 10.0:
        first -= 1.0 / x
        second += 1.0 / (x * x)
        x += 1.0
    y = 1.0 / (x * x)
    first += math.log(x) - 0.5 / x
    first -= y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132)))))
    series = 1 / 6 - y * (1 / 30 - y * (1 / 42 - y * (1 / 30 - y * (5 / 66))))
    return first, second + (1.0 + 0.5 / x + y * series) / x


@compiled
def above_of(group: Any, theta: Floats, k: int) -> Floats:
    """Return the parameters above node k of a group, whose own are ``theta``; none for the root."""
    if group.over[k] != NULL:
        return theta[group.over[k]]
    if k == 0 and group.has_root:
        return theta[0, :0]
    return group.above[k]


@compiled
def fit(
    concentration: float,
    persistence: float,
    group: Any,
    theta: Floats,
    counts: Floats,
    log_rates: Floats,
) -> None:
    """Write estimates of the log probabilities of a group, and counts and rates (rule 1).

    ``group`` is a :class:`treestick.contract.Group`, of which ``theta`` is not read. From a first
    guess, in which children count as ``concentration`` data each, passes down, for estimates, and
    up, for counts and rates, take turns.
    """
    n_nodes, n_outcomes = theta.shape
    sums, n_alive = np.zeros((n_nodes, n_outcomes)), np.zeros((n_nodes, n_outcomes))
    first = 0
    for k in range(n_nodes):
        for w in range(n_outcomes):
            counts[k, w] = group.statistics[k, w]
            log_rates[k, w] = 0.0
        for child in range(first, group.last_below[k]):
            for w in range(n_outcomes):
                x = group.below[child, w]
                sums[k, w] += x
                n_alive[k, w] += x > LEAST
                counts[k, w] += concentration * persistence * math.exp(x)
        first = group.last_below[k]
    for k in range(n_nodes - 1, 0, -1):
        if group.over[k] != NULL:
            for w in range(n_outcomes):
                counts[group.over[k], w] += counts[k, w]
    shapes = np.empty(n_outcomes)
    for _ in range(N_ROUNDS):
        _write_modes(concentration, persistence, group, counts, log_rates, theta)
        for k in range(n_nodes - 1, -1, -1):
            write_shapes(concentration, persistence, above_of(group, theta, k), shapes)
            _see_children(
                concentration, persistence, group, k, shapes, sums[k], n_alive[k], theta[k],
                counts, log_rates,
            )  # fmt: skip
    _write_modes(concentration, persistence, group, counts, log_rates, theta)


@compiled
def _write_modes(
    concentration: float,
    persistence: float,
    group: Any,
    counts: Floats,
    log_rates: Floats,
    theta: Floats,
) -> None:
    """Write the logarithms of (a + n) / rho, normalised, from the top down."""
    shapes = np.empty(theta.shape[1])
    for k in range(theta.shape[0]):
        write_shapes(concentration, persistence, above_of(group, theta, k), shapes)
        for w in range(shapes.size):
            theta[k, w] = math.log(shapes[w] + counts[k, w]) - log_rates[k, w]
        normalise(theta[k])


@compiled
def _see_children(
    concentration: float,
    persistence: float,
    group: Any,
    k: int,
    shapes: Floats,
    sums: Floats,
    n_alive: Floats,
    theta: Floats,
    counts: Floats,
    log_rates: Floats,
) -> None:
    """Write counts and rates of node k, given its estimate ``theta`` and those of its children.

    Small shapes b have large derivatives of lgamma, so lgamma(b) is taken as lgamma(b + 1) - log(b)
    and what cancels is left out. If ``share`` = db/dl / b is below 1, log(b) is convex in l and
    would give a negative rate; ``share`` counts without a rate have its first derivative.
    """
    n_outcomes = theta.size
    n_below = group.last_below[k] - (group.last_below[k - 1] if k > 0 else 0)
    n_inside = 0
    for j in range(k + 1, group.over.size):
        n_inside += group.over[j] == k
    for w in range(n_outcomes):
        counts[k, w] = group.statistics[k, w]
        log_rates[k, w] = 0.0
    if n_below + n_inside == 0:
        return
    rates = np.empty(n_outcomes)
    for w in range(n_outcomes):
        b = shape(concentration, persistence, theta[w], n_outcomes)
        share = concentration * persistence * math.exp(theta[w]) / b
        psi, trigamma = polygammas(1.0 + b)
        slope = n_below * psi - sums[w]
        curve, others = n_below * trigamma, n_alive[w]
        for j in range(k + 1, group.over.size):
            if group.over[j] == k:
                slope += log_rates[j, w]
                n = counts[j, w]
                if n > 0.0:
                    psi_n, trigamma_n = polygammas(1.0 + b + n)
                    kept = b / (b + n)
                    slope += psi - psi_n + (1.0 - kept) / (b + n)
                    curve += trigamma - trigamma_n
                    others += 1.0 - kept * kept
        counts[k, w] += share * (share * b * b * curve + others)
        rates[w] = concentration * persistence * (share * b * curve + slope)
        shapes[w] += counts[k, w]
    multiplier = _find_multiplier(shapes, rates)
    for w in range(n_outcomes):
        log_rates[k, w] = math.log(rates[w] + multiplier)


@compiled
def _find_multiplier(totals: Floats, rates: Floats) -> float:
    """Return the m for which the modes, totals / (rates + m), sum to 1.

    The sum falls with m, and is at least 1 where one mode is 1. From there, Newton's steps on its
    inverse, which is concave, never go too far.
    """
    m = -math.inf
    for w in range(totals.size):  # what is lost in rounding must not make a rate 0
        m = max(m, max(totals[w], 1e-12 * abs(rates[w])) - rates[w])
    for _ in range(MOST_STEPS):
        total, squares = 0.0, 0.0
        for w in range(totals.size):
            mode = totals[w] / (rates[w] + m)
            total += mode
            squares += mode * mode / totals[w]
        if total < 1.0 + 1e-9:
            break
        m += (total - 1.0) * total / squares
    return m


@compiled
def log_sum_of_rates(log_rates: Floats, theta: Floats) -> float:
    """Return log(sum of rho p)."""
    largest = -math.inf
    for w in range(theta.size):
        largest = max(largest, log_rates[w] + theta[w])
    total = 0.0
    for w in range(theta.size):
        total += math.exp(log_rates[w] + theta[w] - largest)
    return largest + math.log(total)
