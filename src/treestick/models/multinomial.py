"""Counts at every node, probabilities by Dirichlet diffusion down the tree.

::

    p[root]  ~ Dir(concentration, ..., concentration)
    p[child] ~ Dir(concentration * (persistence * p[parent] + (1 - persistence) / V))
    x_n      ~ Multinomial(total of row n, p[node of n])

for V outcomes. The totals are given; likelihoods include the multinomial coefficient, and that of
an empty row is 1. ``theta`` is log p, see :mod:`treestick.diffusions.dirichlet` for what becomes of
probabilities too small for floats. ``concentration`` and ``persistence`` have uniform priors
between bounds; equal bounds mean a fixed value.

The likelihood of an unseen child, its probabilities integrated out, is a Dirichlet-multinomial. Two
levels further down there is no closed form.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treestick._jit import compiled
from treestick.contract import DRAWN, GIVEN, Group, NodeModel, register
from treestick.diffusions import dirichlet
from treestick.diffusions import dirichlet_fits as fits
from treestick.random import (
    Key,
    Purpose,
    Stream,
    binomial,
    key_for,
    key_of_part,
    log_gamma,
    open_stream,
    uniform,
)
from treestick.tree.table import NULL, NodeTable
from treestick.wide import ABREAST

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

FEW = 8.0
"""Up to so many tokens of one outcome, a product is quicker than two gamma functions."""


class Multinomial(NamedTuple):
    """Hyperparameters of the multinomial model; see the module."""

    concentration: float
    concentration_low: float
    concentration_high: float
    persistence: float
    persistence_low: float
    persistence_high: float
    n_outcomes: int


class Counts(NamedTuple):
    """Data of the multinomial model: rows of counts, of which only those above 0 are kept.

    Rows may have room for more entries than they have.
    """

    start: Integers
    """Of each row: where its entries begin."""
    n_entries: Integers
    """Of each row: how many there are."""
    outcomes: npt.NDArray[np.int32]
    """Of each entry: the column; ascending within a row."""
    counts: Floats
    total: Integers
    """Of each row: the sum of its counts,"""
    log_coefficient: Floats
    """and the logarithm of its multinomial coefficient."""


@compiled
def widths(model: Multinomial) -> tuple[int, int, int]:
    """Theta: log p. Prepared: see :func:`prepare`. Statistics: counts, sum of log coefficients."""
    return model.n_outcomes, 1 + model.n_outcomes, 1 + model.n_outcomes


@compiled
def draw_hyperparameters(stream: Stream, model: Multinomial) -> Multinomial:
    """Draw concentration and persistence from their priors."""
    low, high = model.concentration_low, model.concentration_high
    concentration = low + uniform(stream) * (high - low)
    low, high = model.persistence_low, model.persistence_high
    return _replace(model, concentration, low + uniform(stream) * (high - low))


@compiled
def _replace(model: Multinomial, concentration: float, persistence: float) -> Multinomial:
    return Multinomial(
        concentration,
        model.concentration_low,
        model.concentration_high,
        persistence,
        model.persistence_low,
        model.persistence_high,
        model.n_outcomes,
    )


@compiled
def draw_root(stream: Stream, model: Multinomial, theta: Floats) -> None:
    """Draw the log probabilities of the root."""
    dirichlet.draw(stream, np.full(theta.size, model.concentration), theta)


@compiled
def draw_child(stream: Stream, model: Multinomial, parent: Floats, theta: Floats) -> None:
    """Draw the log probabilities of a child."""
    shapes = np.empty(theta.size)
    dirichlet.write_shapes(model.concentration, model.persistence, parent, shapes)
    dirichlet.draw(stream, shapes, theta)


# -- likelihoods -----------------------------------------------------------------------------------


@compiled
def prepare(model: Multinomial, theta: Floats, prepared: Floats) -> None:
    """Write 0 and the log probabilities."""
    prepared[0] = 0.0
    for w in range(theta.size):
        prepared[1 + w] = theta[w]


@compiled
def n_exact_levels(model: Multinomial) -> int:
    """One level: the child's probabilities can be integrated out, but not its parent's too."""
    return 1


@compiled
def prepare_unseen(model: Multinomial, theta: Floats, levels: int, prepared: Floats) -> None:
    """Write the concentration, and the logarithms of the child's shapes.

    With shapes a that sum to the concentration A, the likelihood of counts c is the coefficient
    times Gamma(A) / Gamma(A + total) * prod of Gamma(a + c) / Gamma(a).
    """
    prepared[0] = model.concentration
    for w in range(theta.size):
        prepared[1 + w] = math.log(
            dirichlet.shape(model.concentration, model.persistence, theta[w], theta.size)
        )


@compiled
def _log_more(log_a: float, count: float) -> float:
    """Return log(Gamma(a + count) / Gamma(a + 1)): what more than one token adds to log a."""
    a = math.exp(log_a)
    if count > FEW:
        return math.lgamma(a + count) - math.lgamma(a + 1.0)
    product, j = 1.0, 1.0
    while j < count:
        product *= a + j
        j += 1.0
    return math.log(product)


@compiled
def draw_chain(
    stream: Stream, model: Multinomial, data: Counts, n: int, above: Floats, thetas: Floats
) -> None:
    """Draw the log probabilities of one child that has datum ``n``."""
    shapes = np.empty(above.size)
    dirichlet.write_shapes(model.concentration, model.persistence, above, shapes)
    for e in range(data.start[n], data.start[n] + data.n_entries[n]):
        shapes[data.outcomes[e]] += data.counts[e]
    dirichlet.draw(stream, shapes, thetas[0])


@compiled
def log_likelihood(model: Multinomial, data: Counts, n: int, prepared: Floats) -> float:
    """Return the log probability of datum ``n``, at a node or at an unseen child."""
    total = data.log_coefficient[n]
    first, last = data.start[n], data.start[n] + data.n_entries[n]
    if prepared[0] == 0.0:
        for e in range(first, last):
            total += data.counts[e] * prepared[1 + data.outcomes[e]]
        return total
    for e in range(first, last):
        log_a = prepared[1 + data.outcomes[e]]
        total += log_a
        if data.counts[e] > 1.0:
            total += _log_more(log_a, data.counts[e])
    return total - dirichlet.log_rising(prepared[0], float(data.total[n]))


@compiled
def log_likelihoods(
    model: Multinomial, data: Counts, n: int, prepared: Floats, out: Floats
) -> None:
    """Write the log probability of datum ``n`` at several nodes, unseen ones among them or not."""
    first, last = data.start[n], data.start[n] + data.n_entries[n]
    some_are_unseen = False
    for k in range(ABREAST):
        out[k] = data.log_coefficient[n]
        some_are_unseen |= prepared[0, k] != 0.0
    if not some_are_unseen:
        for e in range(first, last):
            count, row = data.counts[e], 1 + data.outcomes[e]
            for k in range(ABREAST):
                out[k] += count * prepared[row, k]
        return
    concentration, shared = 0.0, 0.0
    for k in range(ABREAST):
        if prepared[0, k] != concentration and prepared[0, k] != 0.0:
            concentration = prepared[0, k]
            shared = dirichlet.log_rising(concentration, float(data.total[n]))
        out[k] -= shared if prepared[0, k] != 0.0 else 0.0
    for e in range(first, last):
        count, row = data.counts[e], 1 + data.outcomes[e]
        for k in range(ABREAST):
            value = prepared[row, k]
            if prepared[0, k] == 0.0:
                out[k] += count * value
            else:
                out[k] += value
                if count > 1.0:
                    out[k] += _log_more(value, count)


@compiled
def add_statistics(model: Multinomial, data: Counts, n: int, statistics: Floats) -> None:
    """Add the counts of datum ``n``, and the logarithm of its coefficient."""
    for e in range(data.start[n], data.start[n] + data.n_entries[n]):
        statistics[data.outcomes[e]] += data.counts[e]
    statistics[model.n_outcomes] += data.log_coefficient[n]


@compiled
def log_likelihood_of_sums(
    model: Multinomial, theta: Floats, n_here: float, statistics: Floats
) -> float:
    """Return the log likelihood of the data at a node."""
    total = statistics[theta.size]
    for w in range(theta.size):
        if statistics[w] != 0.0:
            total += statistics[w] * theta[w]
    return total


@compiled
def simulate(stream: Stream, model: Multinomial, theta: Floats, data: Counts, n: int) -> None:
    """Overwrite datum ``n`` by as many tokens drawn at ``theta`` as its total says."""
    n_outcomes, left = theta.size, data.total[n]
    counts, sums, sum_so_far = np.zeros(n_outcomes), np.empty(n_outcomes), 0.0
    for w in range(n_outcomes):
        sum_so_far += math.exp(theta[w])
        sums[w] = sum_so_far
    if left <= 8 * n_outcomes:
        for _ in range(left):
            token = int(np.searchsorted(sums, uniform(stream) * sum_so_far, side="right"))
            counts[min(token, n_outcomes - 1)] += 1.0
    else:
        for w in range(n_outcomes - 1, -1, -1):
            before = sums[w - 1] if w > 0 else 0.0
            here = binomial(stream, left, 1.0 - before / sums[w]) if sums[w] > 0.0 else 0
            counts[w] = here
            left -= here
    entry, log_coefficient = data.start[n], math.lgamma(data.total[n] + 1.0)
    for w in range(n_outcomes):
        if counts[w] > 0.0:
            data.outcomes[entry] = w
            data.counts[entry] = counts[w]
            log_coefficient -= math.lgamma(counts[w] + 1.0)
            entry += 1
    data.n_entries[n] = entry - data.start[n]
    data.log_coefficient[n] = log_coefficient


# -- local fits ------------------------------------------------------------------------------------


@compiled
def log_prior(model: Multinomial, table: NodeTable, theta: Floats) -> float:
    """Return the log density of the log probabilities of all nodes."""
    total = log_transition(model, np.empty(0), theta[0])
    for node in range(1, theta.shape[0]):
        total += log_transition(model, theta[table.parent[node]], theta[node])
    return total


@compiled
def log_transition(model: Multinomial, above: Floats, theta: Floats) -> float:
    """Return the log density of a node's log probabilities given its parent's."""
    return dirichlet.log_step(model.concentration, model.persistence, above, theta)


@compiled
def estimate(
    model: Multinomial,
    above: Floats,
    below: Floats,
    n_here: float,
    statistics: Floats,
    theta: Floats,
) -> None:
    """Write about the mode."""
    theta[:] = _fit_one(model, above, below, statistics)[0][0]


@compiled
def _fit_one(
    model: Multinomial, above: Floats, below: Floats, statistics: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return estimate, counts and log rates of a node, one row each."""
    size = (1, model.n_outcomes)
    theta, counts, log_rates = np.empty(size), np.empty(size), np.empty(size)
    group = Group(
        np.full(1, NULL), above.reshape((1, above.size)), above.size == 0, np.zeros(1),
        statistics.reshape((1, statistics.size)), below, np.full(1, below.shape[0]), theta,
    )  # fmt: skip
    fits.fit(model.concentration, model.persistence, group, theta, counts, log_rates)
    return theta, counts, log_rates


@compiled
def log_evidence(
    model: Multinomial, above: Floats, below: Floats, n_here: float, statistics: Floats
) -> float:
    """Return the weight that :func:`fit_group` would give to the mode of its proposal."""
    theta, counts, log_rates = _fit_one(model, above, below, statistics)
    stream = np.empty(0, dtype=np.uint64)  # nothing is drawn
    weight = _weigh(stream, model, above, statistics, counts[0], log_rates[0], theta[0], GIVEN)
    for k in range(below.shape[0]):
        weight += log_transition(model, theta[0], below[k])
    return weight


@compiled
def fit_group(stream: Stream, model: Multinomial, group: Group, is_drawn: np.int64) -> float:
    """Draw from the top down: q(theta[k] | its parent's) is a scaled Dirichlet law.

    Its shapes are those of T plus counts, and with its rates they are functions of the group
    without its ``theta`` (:mod:`treestick.diffusions.dirichlet_fits`). For a leaf, q is the
    conditional itself.
    """
    size = group.theta.shape
    estimated, counts, log_rates = np.empty(size), np.empty(size), np.empty(size)
    fits.fit(model.concentration, model.persistence, group, estimated, counts, log_rates)
    weight, first = 0.0, 0
    for k in range(size[0]):
        weight += _weigh(
            stream, model, fits.above_of(group, group.theta, k), group.statistics[k], counts[k],
            log_rates[k], group.theta[k], is_drawn,
        )  # fmt: skip
        for child in range(first, group.last_below[k]):
            weight += log_transition(model, group.theta[k], group.below[child])
        first = group.last_below[k]
    return weight


@compiled
def _weigh(
    stream: Stream,
    model: Multinomial,
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
    dirichlet.write_shapes(model.concentration, model.persistence, above, shapes)
    if is_drawn == DRAWN:
        for w in range(theta.size):
            theta[w] = log_gamma(stream, shapes[w] + counts[w]) - log_rates[w]
        dirichlet.normalise(theta)
    weight, total, n = statistics[theta.size], 0.0, 0.0
    for w in range(theta.size):
        total += shapes[w]
        n += counts[w]
        weight -= (counts[w] - statistics[w]) * theta[w] + (shapes[w] + counts[w]) * log_rates[w]
        if counts[w] > 0.0:
            if theta[w] > dirichlet.LEAST:
                weight += dirichlet.log_rising(shapes[w], counts[w])
            else:
                weight += math.lgamma(shapes[w] + counts[w] + 1.0) - math.lgamma(shapes[w] + 1.0)
    weight += (total + n) * fits.log_sum_of_rates(log_rates, theta)
    return weight - dirichlet.log_rising(total, n)


# -- parameters ------------------------------------------------------------------------------------


@compiled
def update_parameters(
    key: Key,
    model: Multinomial,
    table: NodeTable,
    statistics: Floats,
    theta: Floats,
    part: int,
    adapting: bool,
) -> tuple[int, int]:
    """Replace the probabilities of all nodes by tables, from below, and draw them anew, from above.

    Let theta have its law given the data. For a leaf e, forget theta[e] and draw its tables t[e]
    given its data and its parent's theta: now all other theta and t[e] have the law that they have
    in the model in which theta[e] is integrated out and t[e] is a variable. In it, the tables that
    pass are like data of the parent. So the same can be done with the next node, whose children
    have all become tables, and so on up to the root, for which no tables are needed. Then all t
    have their law given the data, with no theta left. Downwards, theta[root] given its customers
    is Dir(shapes + customers), and so is each child's given its parent's; what is drawn are theta
    given t, so theta has its law again. Each step forgets a variable before others are drawn given
    the rest, which is why theta[e] must not be used after its tables are drawn (partially collapsed
    Gibbs sampling, van Dyk & Park 2008).

    Linear in nodes x outcomes, and in the logarithm of counts.
    """
    customers = _copy_counts(theta, statistics)
    dirichlet.seat(key, model.concentration, model.persistence, table, theta, customers)
    dirichlet.draw_all(key, model.concentration, model.persistence, table, customers, theta)
    return theta.shape[0], theta.shape[0]


@compiled
def _copy_counts(theta: Floats, statistics: Floats) -> Floats:
    customers = np.empty(theta.shape)
    for node in range(theta.shape[0]):
        for w in range(theta.shape[1]):
            customers[node, w] = statistics[node, w]
    return customers


@compiled
def n_parts(model: Multinomial) -> int:
    """Outcomes are not independent: probabilities sum to one."""
    return 1


@compiled
def adapt(model: Multinomial, acceptance: float) -> Multinomial:
    """Exact draws have no step size."""
    return model


@compiled
def update_hyperparameters(
    key: Key, model: Multinomial, table: NodeTable, statistics: Floats, theta: Floats
) -> Multinomial:
    """Slice moves on concentration and persistence given the tables; theta is drawn anew.

    Given theta they could hardly move: nodes x outcomes probabilities hold them. Tables are drawn
    as in :func:`update_parameters`, and are all that is left of theta; given them, both move, and
    theta is drawn given the tables and the new values.
    """
    key = key_of_part(key, 1)  # the streams of update_parameters are those of part 0
    customers = _copy_counts(theta, statistics)
    n_tables, n_passed = dirichlet.seat(
        key, model.concentration, model.persistence, table, theta, customers
    )
    stream = open_stream(key_for(key, Purpose.MODEL_HYPERPARAMETERS, 0))
    concentration = dirichlet.draw_concentration(
        stream, model.concentration, model.concentration_low, model.concentration_high,
        n_tables, customers,
    )  # fmt: skip
    persistence = dirichlet.draw_persistence(
        stream, model.persistence, model.persistence_low, model.persistence_high,
        n_passed, n_tables - n_passed,
    )  # fmt: skip
    dirichlet.draw_all(key, concentration, persistence, table, customers, theta)
    return _replace(model, concentration, persistence)


register(
    NodeModel(
        "multinomial",
        Multinomial,
        widths,
        draw_hyperparameters,
        draw_root,
        draw_child,
        prepare,
        n_exact_levels,
        prepare_unseen,
        draw_chain,
        log_likelihood,
        log_likelihoods,
        add_statistics,
        log_likelihood_of_sums,
        log_prior,
        log_transition,
        estimate,
        log_evidence,
        fit_group,
        n_parts,
        adapt,
        update_parameters,
        update_hyperparameters,
        simulate,
    )
)
