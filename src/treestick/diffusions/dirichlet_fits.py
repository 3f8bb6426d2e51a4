"""Local fits for Dirichlet diffusion: what is below a node, as counts with rates.

As a function of l = log p[node], the log density of a child's log probabilities x is, beside terms
without l and for each outcome by itself,

    b x - lgamma(b)    or, if it is dead,    b LEAST - lgamma(b + 1),

where b = concentration * (persistence * p + (1 - persistence) * base) is the child's shape. If
instead of its probabilities it is known that its own data and children are worth n counts with
rates rho, that is, p[child]**n exp(-rho p[child]), then integrated over p[child] it says

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

Rule 4. Where the base measure of an outcome is next to nothing (:mod:`treestick.diffusions.hdp`),
the outcome comes from the base in one node, and is dead in those above. Which node that is cannot
be left to smooth laws: it is the lowest that can be, and proposals have it there.
"""

import math
from typing import Any

import numpy as np

from treestick import packs
from treestick._jit import compiled
from treestick.contract import DRAWN, GIVEN, Group
from treestick.diffusions.dirichlet import (
    LEAST,
    Base,
    Floats,
    log_rising,
    log_step,
    log_sum,
    normalise,
    shapes_from,
    write_shapes,
)
from treestick.packs import WIDTH
from treestick.random import Stream, log_gamma
from treestick.tree.table import NULL

N_ROUNDS = 3
"""How often estimates and counts take turns."""
MOST_STEPS = 50
"""Of Newton's method, which takes some six."""
_NEXT_TO_NOTHING = 1e-200
_NO_PROBABILITY = -700.0
"""Logarithm below which a probability counts as 0."""


@compiled
def polygammas(x: Any) -> tuple[Any, Any]:
    """Return the first two derivatives of lgamma, to about 1e-13, at a number or a pack.

    For x from 1e-30 to 1e30, by Stirling's series at y = x + 10. With P = x (x + 1) ... (x + 9),
    the sums of 1 / (x + k) and of their squares are s = P' / P and s**2 - P'' / P; ``product``,
    ``once`` and ``twice`` are P, P' and P'' / 2.
    """
    product, once, twice = x, 0.0 * x + 1.0, 0.0 * x
    for k in range(1, 10):
        y = x + 1.0 * k
        twice = twice * y + once
        once = once * y + product
        product = product * y
    y = x + 10.0
    inverse, sums = 1.0 / y, once / product
    square = inverse * inverse
    series = 1 / 240 - square * (1 / 132)
    series = 1 / 12 - square * (1 / 120 - square * (1 / 252 - square * series))
    first = packs.log(y) - 0.5 * inverse - square * series - sums
    series = 1 / 42 - square * (1 / 30 - square * (5 / 66))
    series = 1.0 + 0.5 * inverse + square * (1 / 6 - square * (1 / 30 - square * series))
    return first, sums * sums - 2.0 * twice / product + series * inverse


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
    base: Base,
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
    is_dead = np.zeros((n_nodes, n_outcomes), dtype=np.bool_)
    if base.rest != NULL and persistence < 1.0:
        _find_dead(group, is_dead)
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
    for k in range(n_nodes - 1, -1, -1):
        for w in range(n_outcomes):
            if is_dead[k, w]:
                counts[k, w] = 0.0
            if group.over[k] != NULL:
                counts[group.over[k], w] += counts[k, w]
    shapes = np.empty(n_outcomes)
    for _ in range(N_ROUNDS):
        _write_modes(concentration, persistence, base, group, counts, log_rates, theta)
        for k in range(n_nodes - 1, -1, -1):
            write_shapes(concentration, persistence, base, above_of(group, theta, k), shapes)
            _see_children(
                concentration, persistence, base, group, k, shapes, sums[k], n_alive[k], is_dead[k],
                theta[k], counts, log_rates,
            )  # fmt: skip
    _write_modes(concentration, persistence, base, group, counts, log_rates, theta)


@compiled
def _find_dead(group: Any, is_dead: Any) -> None:
    """Write which outcomes are dead in a node (rule 4).

    Those that its parent does not have, that its data do not have, and at most one child has.
    """
    n_nodes, n_outcomes = is_dead.shape
    n_users = np.zeros((n_nodes, n_outcomes))
    first = 0
    for k in range(n_nodes):
        for child in range(first, group.last_below[k]):
            for w in range(n_outcomes):
                n_users[k, w] += group.below[child, w] > LEAST
        first = group.last_below[k]
    for k in range(n_nodes - 1, 0, -1):
        if group.over[k] != NULL:
            for w in range(n_outcomes):
                n_users[group.over[k], w] += n_users[k, w] + group.statistics[k, w] > 0.0
    for k in range(n_nodes):
        for w in range(n_outcomes - 1):  # the last is the rest, which is everywhere
            if group.over[k] != NULL:
                is_above = not is_dead[group.over[k], w]
            else:
                is_above = not (k == 0 and group.has_root) and group.above[k, w] > LEAST
            is_dead[k, w] = not is_above and group.statistics[k, w] == 0.0 and n_users[k, w] < 2.0


@compiled
def _write_modes(
    concentration: float,
    persistence: float,
    base: Base,
    group: Any,
    counts: Floats,
    log_rates: Floats,
    theta: Floats,
) -> None:
    """Write the logarithms of (a + n) / rho, normalised, from the top down."""
    shapes = np.empty(theta.shape[1])
    for k in range(theta.shape[0]):
        write_shapes(concentration, persistence, base, above_of(group, theta, k), shapes)
        # What comes from next to nothing is dead, not alive with next to no probability.
        least = 0.0 if base.rest == NULL else _NEXT_TO_NOTHING
        for w in range(0, shapes.size, WIDTH):
            total = packs.load(shapes, w, 1.0) + packs.load(counts[k], w, 0.0)
            modes = packs.log(total) - packs.load(log_rates[k], w, 0.0)
            packs.store(theta[k], w, packs.where_less(least, total, modes, LEAST))
        normalise(theta[k])


@compiled
def _see_children(
    concentration: float,
    persistence: float,
    base: Base,
    group: Any,
    k: int,
    shapes: Floats,
    sums: Floats,
    n_alive: Floats,
    is_dead: Any,
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
    for w in range(0, n_outcomes, WIDTH):
        p = packs.load(theta, w, 0.0)
        b = shapes_from(concentration, persistence, base, theta, w)
        # Packs' exp ends at exp(-708): more than nothing, beside shapes that are next to nothing.
        from_parent = packs.where_less(_NO_PROBABILITY, p, packs.exp(p), 0.0)
        share = concentration * persistence * from_parent / b
        psi, trigamma = polygammas(1.0 + b)
        slope = 1.0 * n_below * psi - packs.load(sums, w, 0.0)
        curve, others = 1.0 * n_below * trigamma, packs.load(n_alive, w, 0.0)
        for j in range(k + 1, group.over.size):
            if group.over[j] == k:
                n = packs.load(counts[j], w, 0.0)
                psi_n, trigamma_n = polygammas(1.0 + b + n)
                kept = b / (b + n)
                slope = slope + packs.load(log_rates[j], w, 0.0)
                slope = slope + (psi - psi_n + (1.0 - kept) / (b + n))
                curve = curve + (trigamma - trigamma_n)
                others = others + (1.0 - kept * kept)
        n = packs.load(counts[k], w, 0.0) + share * (share * b * b * curve + others)
        packs.store(counts[k], w, n)
        packs.store(rates, w, concentration * persistence * (share * b * curve + slope))
    for w in range(n_outcomes):
        if is_dead[w]:
            counts[k, w], rates[w] = 0.0, 0.0
        shapes[w] += counts[k, w]
    multiplier = _find_multiplier(shapes, rates)
    for w in range(0, n_outcomes, WIDTH):
        packs.store(log_rates[k], w, packs.log(packs.load(rates, w, 1.0) + multiplier))


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
        modes, slopes = packs.fill(0.0), packs.fill(0.0)
        for w in range(0, totals.size, WIDTH):
            inverse = 1.0 / (packs.load(rates, w, 0.0) + m)
            mode = packs.load(totals, w, 0.0) * inverse
            modes = modes + packs.first_of(mode, totals.size - w)
            slopes = slopes + packs.first_of(mode * inverse, totals.size - w)
        total = packs.total(modes)
        if total < 1.0 + 1e-9:
            break
        m += (total - 1.0) * total / packs.total(slopes)
    return m


# -- for the contract ------------------------------------------------------------------------------
# ``statistics`` are the counts of all outcomes, and a last number that belongs to the likelihood.


@compiled
def fit_one(
    concentration: float,
    persistence: float,
    base: Base,
    above: Floats,
    below: Floats,
    statistics: Floats,
) -> tuple[Floats, Floats, Floats]:
    """Return estimate, counts and log rates of a node, one row each."""
    size = (1, statistics.size - 1)
    theta, counts, log_rates = np.empty(size), np.empty(size), np.empty(size)
    group = Group(
        np.full(1, NULL), above.reshape((1, above.size)), above.size == 0, np.zeros(1),
        statistics.reshape((1, statistics.size)), below, np.full(1, below.shape[0]), theta,
    )  # fmt: skip
    fit(concentration, persistence, base, group, theta, counts, log_rates)
    return theta, counts, log_rates


@compiled
def log_evidence(
    concentration: float,
    persistence: float,
    base: Base,
    above: Floats,
    below: Floats,
    statistics: Floats,
) -> float:
    """Return the weight that :func:`fit_group` would give to the mode of its proposal."""
    theta, counts, log_rates = fit_one(concentration, persistence, base, above, below, statistics)
    stream = np.empty(0, dtype=np.uint64)  # nothing is drawn
    weight = _weigh(
        stream, concentration, persistence, base, above, statistics, counts[0], log_rates[0],
        theta[0], GIVEN,
    )  # fmt: skip
    for k in range(below.shape[0]):
        weight += log_step(concentration, persistence, base, theta[0], below[k])
    return weight


@compiled
def fit_group(
    stream: Stream,
    concentration: float,
    persistence: float,
    base: Base,
    group: Group,
    is_drawn: np.int64,
) -> float:
    """Draw from the top down: q(theta[k] | its parent's) is a scaled Dirichlet law.

    Its shapes are those of T plus counts, and with its rates they are functions of the group
    without its ``theta``. For a leaf, q is the conditional itself.
    """
    size = group.theta.shape
    estimated, counts, log_rates = np.empty(size), np.empty(size), np.empty(size)
    fit(concentration, persistence, base, group, estimated, counts, log_rates)
    weight, first = 0.0, 0
    for k in range(size[0]):
        weight += _weigh(
            stream, concentration, persistence, base, above_of(group, group.theta, k),
            group.statistics[k], counts[k], log_rates[k], group.theta[k], is_drawn,
        )  # fmt: skip
        for child in range(first, group.last_below[k]):
            weight += log_step(concentration, persistence, base, group.theta[k], group.below[child])
        first = group.last_below[k]
    return weight


@compiled
def _weigh(
    stream: Stream,
    concentration: float,
    persistence: float,
    base: Base,
    above: Floats,
    statistics: Floats,
    counts: Floats,
    log_rates: Floats,
    theta: Floats,
    is_drawn: np.int64,
) -> float:
    """Return log T(theta <- above) + log f(data | theta) - log q(theta).

    With shapes a of T, of sum A, data c, and counts n >= c of sum N and rates rho of q, this is

        sum of log(Gamma(a + n) / Gamma(a)) - (n - c) log p - (a + n) log(rho)
            + log(Gamma(A) / Gamma(A + N)) + (A + N) log(sum of rho p),

    but for dead outcomes, where it is Gamma(a + n + 1) / Gamma(a + 1). ``theta`` is drawn if
    ``is_drawn``.
    """
    shapes = np.empty(theta.size)
    write_shapes(concentration, persistence, base, above, shapes)
    if is_drawn == DRAWN:
        for w in range(theta.size):
            theta[w] = log_gamma(stream, shapes[w] + counts[w]) - log_rates[w]
        normalise(theta)
    sums, all_counts, weights = packs.fill(0.0), packs.fill(0.0), packs.fill(0.0)
    for w in range(0, theta.size, WIDTH):
        a, n = packs.load(shapes, w, 1.0), packs.load(counts, w, 0.0)
        x, rate = packs.load(theta, w, 0.0), packs.load(log_rates, w, 0.0)
        # log(Gamma(a + n) / Gamma(a)), also where Gamma(a) overflows; one more at dead outcomes.
        rising = packs.log_gamma(a + n + 1.0) - packs.log_gamma(a + 1.0)
        rising = rising + packs.where_less(LEAST, x, packs.log(a) - packs.log(a + n), 0.0)
        part = packs.where_less(0.0, n, rising, 0.0) - (a + n) * rate
        part = part - (n - packs.load(statistics, w, 0.0)) * x
        sums = sums + packs.first_of(a, theta.size - w)
        all_counts = all_counts + packs.first_of(n, theta.size - w)
        weights = weights + packs.first_of(part, theta.size - w)
    total, n_all = packs.total(sums), packs.total(all_counts)
    weight = statistics[theta.size] + packs.total(weights)
    weight += (total + n_all) * log_sum(log_rates + theta)
    return weight - log_rising(total, n_all)
