"""Dirichlet diffusion: a child's probabilities scatter around its parent's (paper, sec. 5).

::

    p[root]  ~ Dir(root * base)
    p[child] ~ Dir(a),    a = concentration * (persistence * p[parent] + (1 - persistence) * base)

for V outcomes with a base measure (:class:`Base`), which for counts is even, 1 / V.
``theta`` holds log p. With small shapes nearly all of p is 0 to any precision.

Rule 1. Shapes are at least ``SMALLEST``, everywhere.
Rule 2. log p is at least ``LEAST``: an outcome below it is *dead*. Its logarithm is -1/a or so, a
number that says nothing but would hold its parent's shape to a factor of two. All dead ones are the
same, so the law of log p has an atom at ``LEAST``. Since exp(LEAST) is far below ``SMALLEST``, what
a dead outcome adds to any integral is lost in rounding, and exact steps stay exact.
Rule 3. Densities are with respect to the product of d log p and these atoms. For small p, P(log p <
LEAST) = exp(a LEAST) / (a Gamma(a)) beside the other factors, so

    log density = lgamma(sum a) + sum_w a_w log p_w - lgamma(a_w + 1) + (log a_w unless dead).

**Tables.** Let n *customers* be draws of outcome w from p[child]. With p[child] integrated out,
their probability has the factor Gamma(a + n) / Gamma(a), which is the sum over t of |s(n, t)| a**t,
with Stirling numbers s: t is the number of *tables*, as in the Chinese restaurant. Given t, a**t is
as if t customers for w had come to the parent, or to the base measure. So what is below a node
counts like data at it (Antoniak 1974; Teh et al. 2006, sec. 5.3).
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick import packs
from treestick._jit import compiled
from treestick.packs import WIDTH
from treestick.random import (
    Key,
    Purpose,
    Stream,
    exponential,
    key_for,
    log_gamma,
    open_stream,
    reopen,
    uniform,
    uniform_open,
)
from treestick.tree.table import NULL, NodeTable

Floats = npt.NDArray[np.float64]

SMALLEST = 1e-280
LEAST = -1000.0
ONE_BY_ONE = 16
"""Customers up to this one choose table by table; those behind are skipped in leaps."""


class Base(NamedTuple):
    """A base measure: the same for all outcomes but one."""

    each: float
    rest: int
    """The outcome that has 1 instead; NULL if none has."""
    root: float
    """What the base measure counts at the root,"""
    times_concentration: bool
    """and whether that is times the concentration."""


@compiled
def even(n_outcomes: int, root_concentration: float) -> Base:
    """Return the base measure 1 / V; root_concentration is the shape of each outcome at the root.

    If it is 0, the shape is the concentration, whatever that is.
    """
    if root_concentration == 0.0:
        return Base(1.0 / n_outcomes, NULL, float(n_outcomes), True)
    return Base(1.0 / n_outcomes, NULL, n_outcomes * root_concentration, False)


@compiled
def base_of(base: Base, w: int) -> float:
    """Return the base measure of one outcome."""
    return 1.0 if w == base.rest else base.each


# -- functions of one shape ------------------------------------------------------------------------


@compiled
def log_rising(a: float, n: float) -> float:
    """Return log(Gamma(a + n) / Gamma(a)), also where Gamma(a) overflows."""
    if n == 0.0:
        return 0.0
    return math.log(a) + math.lgamma(a + n) - math.lgamma(a + 1.0)


@compiled
def draw_tables(stream: Stream, a: float, n: int) -> int:
    """Draw how many tables n customers have: each, after j others, opens one with a / (a + j).

    Behind the first few, j runs through intervals [start, 2 start). There the first with a
    success at the probability of ``start`` is found by one logarithm, and kept with the ratio of
    its own probability to that. The work grows with a and the logarithm of n.
    """
    n_tables = 0
    for j in range(min(n, ONE_BY_ONE)):
        if j == 0 or uniform(stream) * (a + j) < a:
            n_tables += 1
    start = ONE_BY_ONE
    while start < n:
        stop = min(2 * start, n)
        slope = -math.log1p(a / start)
        j = start
        while True:
            leap = math.log(uniform_open(stream)) / slope
            if leap >= stop - j:
                break
            j += int(leap)
            if uniform(stream) * (a + j) < a + start:
                n_tables += 1
            j += 1
        start = stop
    return n_tables


@compiled
def share_passing(persistence: float, log_p: float, base: float) -> float:
    """Return the probability that a table goes to the parent, and not to the base measure."""
    if persistence == 1.0:
        return 1.0
    from_parent = persistence * math.exp(log_p)
    return from_parent / (from_parent + (1.0 - persistence) * base)


@compiled
def draw_passing(
    stream: Stream, persistence: float, log_p: float, base: float, n_tables: int
) -> int:
    """Draw how many tables go to the parent."""
    share = share_passing(persistence, log_p, base)
    if share == 1.0:
        return n_tables
    n_passed = 0
    for _ in range(n_tables):
        n_passed += uniform(stream) < share
    return n_passed


# -- laws of a node's probabilities ----------------------------------------------------------------


@compiled
def shape(concentration: float, persistence: float, log_p: Any, base: Any) -> Any:
    """Return the shape of one outcome, or of a pack of them, given its parent's log probability."""
    mean = persistence * packs.exp(log_p) + (1.0 - persistence) * base
    return packs.larger(concentration * mean, SMALLEST)


@compiled
def root_of(concentration: float, base: Base) -> float:
    """Return what the base measure counts at the root."""
    return base.root * concentration if base.times_concentration else base.root


@compiled
def shape_at(concentration: float, persistence: float, base: Base, above: Floats, w: int) -> float:
    """Return the shape of one outcome; an ``above`` of size 0 stands for no parent."""
    if above.size == 0:
        return max(root_of(concentration, base) * base_of(base, w), SMALLEST)
    return shape(concentration, persistence, above[w], base_of(base, w))


@compiled
def shapes_from(concentration: float, persistence: float, base: Base, above: Floats, w: int) -> Any:
    """Return the shapes of a pack of outcomes, from ``w`` on; see :func:`shape_at`."""
    measures = packs.fill(base.each)
    if base.rest >= w and base.rest < w + WIDTH:
        measures = packs.with_lane(measures, base.rest - w, 1.0)
    if above.size == 0:
        return packs.larger(root_of(concentration, base) * measures, SMALLEST)
    return shape(concentration, persistence, packs.load(above, w, 0.0), measures)


@compiled
def write_shapes(
    concentration: float, persistence: float, base: Base, above: Floats, shapes: Floats
) -> None:
    """Write the shapes of all outcomes; an ``above`` of size 0 stands for no parent."""
    for w in range(0, shapes.size, WIDTH):
        packs.store(shapes, w, shapes_from(concentration, persistence, base, above, w))


@compiled
def draw(stream: Stream, shapes: Floats, theta: Floats) -> None:
    """Write the logarithm of a draw from Dir(shapes) into ``theta``."""
    for w in range(shapes.size):
        theta[w] = log_gamma(stream, shapes[w])
    normalise(theta)


@compiled
def normalise(theta: Floats) -> None:
    """Overwrite logarithms of weights by those of probabilities."""
    log_total = log_sum(theta)
    for w in range(theta.size):
        theta[w] = max(theta[w] - log_total, LEAST)


@compiled
def log_sum(logs: Floats) -> float:
    """Return the logarithm of the sum of weights, given their logarithms."""
    largest, sums = logs.max(), packs.fill(0.0)
    for w in range(0, logs.size, WIDTH):
        part = packs.exp(packs.load(logs, w, 0.0) - largest)
        sums = sums + packs.first_of(part, logs.size - w)
    return largest + math.log(packs.total(sums))


@compiled
def log_step(
    concentration: float, persistence: float, base: Base, above: Floats, theta: Floats
) -> float:
    """Return the log density of a node's log probabilities given its parent's (rule 3)."""
    sums, log_p = packs.fill(0.0), packs.fill(0.0)
    for w in range(0, theta.size, WIDTH):
        a = shapes_from(concentration, persistence, base, above, w)
        x = packs.load(theta, w, 0.0)
        part = a * x - packs.log_gamma(a + 1.0) + packs.where_less(LEAST, x, packs.log(a), 0.0)
        sums = sums + packs.first_of(a, theta.size - w)
        log_p = log_p + packs.first_of(part, theta.size - w)
    return packs.total(log_p) + math.lgamma(packs.total(sums))


# -- a whole tree ----------------------------------------------------------------------------------


@compiled
def seat(
    key: Key,
    concentration: float,
    persistence: float,
    base: Base,
    table: NodeTable,
    theta: Floats,
    customers: Floats,
) -> tuple[int, int]:
    """Add to the customers of each node, which are its data, the tables that its children send.

    Children come before parents. The tables of a node are drawn given the probabilities of its
    parent and its own customers, with its own probabilities integrated out. Return the number of
    all tables, and of those that passed to a parent.
    """
    n_nodes, n_outcomes = theta.shape
    all_tables, all_passed = 0, 0
    stream = open_stream(key)
    for node in range(n_nodes - 1, 0, -1):
        reopen(stream, key_for(key, Purpose.TABLES, table.entity[node]))
        parent = table.parent[node]
        for w in range(n_outcomes):
            n = int(customers[node, w])
            if n > 0:
                log_p, base_w = theta[parent, w], base_of(base, w)
                a = shape(concentration, persistence, log_p, base_w)
                n_tables = draw_tables(stream, a, n)
                n_passed = draw_passing(stream, persistence, log_p, base_w, n_tables)
                customers[parent, w] += n_passed
                all_tables += n_tables
                all_passed += n_passed
    return all_tables, all_passed


@compiled
def draw_all(
    key: Key,
    concentration: float,
    persistence: float,
    base: Base,
    table: NodeTable,
    customers: Floats,
    theta: Floats,
) -> None:
    """Overwrite the log probabilities of all nodes by draws given their customers, from the top."""
    n_nodes, n_outcomes = theta.shape
    shapes, none = np.empty(n_outcomes), np.empty(0)
    stream = open_stream(key)
    for node in range(n_nodes):
        reopen(stream, key_for(key, Purpose.PARAMETERS, table.entity[node]))
        above = none if node == 0 else theta[table.parent[node]]
        write_shapes(concentration, persistence, base, above, shapes)
        for w in range(n_outcomes):
            shapes[w] += customers[node, w]
        draw(stream, shapes, theta[node])


@compiled
def draw_concentration(
    stream: Stream,
    now: float,
    low: float,
    high: float,
    base: Base,
    n_tables: int,
    customers: Floats,
) -> float:
    """Slice move on the concentration with a uniform prior on [low, high]; return its new value.

    Given the tables and with all probabilities integrated out, the conditional is

        c**n_tables * prod over nodes but the root of Gamma(c) / Gamma(c + customers)
            * Gamma(A) / Gamma(A + customers of the root)
            * prod over its outcomes of Gamma(a + customers) / Gamma(a),

    with the root's shapes a and their sum A,

    here in log c, which adds log c, because bounds may be decades apart.
    """
    if low == high:
        return now
    totals = np.zeros(customers.shape[0])
    for node in range(totals.size):
        for w in range(customers.shape[1]):
            totals[node] += customers[node, w]
    here = math.log(now)
    level = _log_target(here, base, n_tables, totals, customers[0]) - exponential(stream)
    left, right = math.log(low), math.log(high)
    while True:
        candidate = left + (right - left) * uniform(stream)
        if _log_target(candidate, base, n_tables, totals, customers[0]) >= level:
            return min(max(math.exp(candidate), low), high)
        if candidate < here:
            left = candidate
        else:
            right = candidate
        if not left < right:  # the slice is narrower than the floats around here
            return now


@compiled
def _log_target(log_c: float, base: Base, n_tables: int, totals: Floats, of_root: Floats) -> float:
    c = math.exp(log_c)
    target, total = log_c * (n_tables + 1.0), 0.0
    for w in range(of_root.size):
        a = root_of(c, base) * base_of(base, w)
        total += a
        target += log_rising(a, of_root[w])
    target -= log_rising(total, totals[0])
    for node in range(1, totals.size):
        target -= log_rising(c, totals[node])
    return target


@compiled
def draw_persistence(
    stream: Stream, now: float, low: float, high: float, n_passed: int, n_others: int
) -> float:
    """Slice move on the persistence with a uniform prior on [low, high]; return its new value.

    Given which tables passed to a parent, its conditional is eta**n_passed (1 - eta)**n_others.
    """
    if low == high:
        return now
    level = _log_coins(now, n_passed, n_others) - exponential(stream)
    left, right = low, high
    while True:
        candidate = left + (right - left) * uniform(stream)
        if _log_coins(candidate, n_passed, n_others) >= level:
            return candidate
        if candidate < now:
            left = candidate
        else:
            right = candidate
        if not left < right:
            return now


@compiled
def _log_coins(eta: float, n_passed: int, n_others: int) -> float:
    total = 0.0
    if n_passed > 0:
        total += n_passed * math.log(eta) if eta > 0.0 else -math.inf
    if n_others > 0:
        total += n_others * math.log1p(-eta) if eta < 1.0 else -math.inf
    return total
