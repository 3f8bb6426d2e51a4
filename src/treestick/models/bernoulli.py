"""Bits at every node: real vectors through the logistic, by Gaussian diffusion (paper, sec. 5).

::

    theta[root]  ~ N(root_mean, diag(root_variance))
    theta[child] ~ N(theta[parent], diag(diffusion))
    P(x_nd = 1)  = 1 / (1 + exp(-theta_d))            at the node of n

``diffusion`` has independent uniform priors between bounds; equal bounds mean a fixed value.

With s the sum of the bits of a node's data, their log likelihood is s * theta - n log(1 + e**theta)
in each dimension: all updates work from these sums and cost O(nodes x dimensions). Local fits are
those of :mod:`treestick.diffusions.logits`.

Deviation from the paper: its likelihood prints (1 + exp(theta))**(1 - x) where the exponent lacks
its minus; the joint test fails with it.

Data are packed, eight bits to a byte, the first in the lowest place. A node is prepared as a table
of the sixteen sums that four bits can choose of its weights, so that the likelihood of 256 bits is
64 additions.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treestick._jit import compiled
from treestick.contract import EVERY_LEVEL, NodeModel, register
from treestick.diffusions import gaussian as diffusion_move
from treestick.diffusions.logistic import (
    Logit,
    draw_given_bit,
    find_mode,
    first_guess,
    logistic,
    softplus,
    value_and_slope,
)
from treestick.diffusions.logits import estimate, fit_group, log_evidence, log_transition
from treestick.random import (
    Key,
    Purpose,
    Stream,
    exponential,
    key_for,
    key_of_part,
    normal,
    open_stream,
    reopen,
    uniform,
)
from treestick.tree.table import NULL, NodeTable
from treestick.wide import ABREAST, add_rows

Floats = npt.NDArray[np.float64]

DIMENSIONS_PER_PART = 64
LEAPFROG_STEPS = 25
SLICE_SHARE = 0.1
"""In this share of the sweeps the slice move follows the Hamiltonian one."""
TARGET_ACCEPTANCE = 0.9
FIRST_STEP, SHORTEST_STEP, LONGEST_STEP = 0.12, 0.005, 0.25
"""Where ``step`` starts, and its limits. The leapfrog is unstable beyond 2; 25 steps of 1/8 are
half a turn."""

_RULES = [(0.6, 1.0), (1.25, 0.7), *((most, 0.9 / most) for most in (2.0, 2.8, 4.0, 5.6, 8.0))]
"""Trapezoid rules for a normal law: up to which spread, and the step this takes."""
_FAR = 8.4
_SPREADS = np.array([spread for spread, _ in _RULES])
_STEPS = np.array([step for _, step in _RULES])
_N_STEPS = np.ceil(_FAR / _STEPS).astype(np.int64)
_HEIGHTS = _STEPS[:, None] * np.exp(-0.5 * (_STEPS[:, None] * np.arange(_N_STEPS.max() + 1)) ** 2)
_HEIGHTS /= math.sqrt(2.0 * math.pi)
_LOGISTIC_POINTS = np.arange(-60.0, 60.1, 0.5)
_LOGISTIC_WEIGHTS = 0.5 * 0.25 / np.cosh(0.5 * _LOGISTIC_POINTS) ** 2
TINY = 1e-300
_NOTHING_LEFT = 30.0
"""A density so much lower (in nats) than at its mode does not count."""


class Bernoulli(NamedTuple):
    """Hyperparameters of the Bernoulli model, and the step size that adapts."""

    diffusion: Floats
    diffusion_low: Floats
    diffusion_high: Floats
    root_mean: Floats
    root_variance: Floats
    step: float
    """Mean leapfrog step, in units of each parameter's own scale."""


class Bits(NamedTuple):
    """Data of the Bernoulli model."""

    packed: npt.NDArray[np.uint8]
    """Shape (n_data, ceil(n_dimensions / 8)); spare bits are 0."""


@compiled
def widths(model: Bernoulli) -> tuple[int, int, int]:
    """Theta: logits. Prepared: log P(all bits 0), 32 sums per byte. Statistics: sums of bits."""
    n_dimensions = model.diffusion.size
    return n_dimensions, 1 + 32 * ((n_dimensions + 7) // 8), n_dimensions


@compiled
def draw_hyperparameters(stream: Stream, model: Bernoulli) -> Bernoulli:
    """Draw the diffusion from its prior."""
    diffusion = np.empty(model.diffusion.size)
    for d in range(diffusion.size):
        low, high = model.diffusion_low[d], model.diffusion_high[d]
        diffusion[d] = low + uniform(stream) * (high - low)
    return _replace(model, diffusion, model.step)


@compiled
def _replace(model: Bernoulli, diffusion: Floats, step: float) -> Bernoulli:
    return Bernoulli(
        diffusion,
        model.diffusion_low,
        model.diffusion_high,
        model.root_mean,
        model.root_variance,
        step,
    )


@compiled
def draw_root(stream: Stream, model: Bernoulli, theta: Floats) -> None:
    """Draw the logits of the root."""
    diffusion_move.draw_root(stream, model.root_mean, model.root_variance, theta)


@compiled
def draw_child(stream: Stream, model: Bernoulli, parent: Floats, theta: Floats) -> None:
    """Draw the logits of a child."""
    diffusion_move.draw_child(stream, 1.0, model.diffusion, parent, theta)


@compiled
def _tabulate(weights: Floats, none: float, prepared: Floats) -> None:
    """Write log P(all bits 0) and, for each four dimensions, the sums of all sets of weights."""
    prepared[0] = none
    start = 1
    for first in range(0, 4 * ((prepared.size - 1) // 16), 4):
        prepared[start] = 0.0
        for bit in range(4):
            weight = weights[first + bit] if first + bit < weights.size else 0.0
            half = 1 << bit
            for j in range(half):
                prepared[start + half + j] = prepared[start + j] + weight
        start += 16


@compiled
def prepare(model: Bernoulli, theta: Floats, prepared: Floats) -> None:
    """Tabulate the logits, which are the weights of the bits."""
    none = 0.0
    product = 1.0
    for d in range(theta.size):
        # log(1 + e**t) = max(t, 0) + log(1 + e**-|t|), with one logarithm for many factors.
        none -= max(theta[d], 0.0)
        product *= 1.0 + math.exp(-abs(theta[d]))
        if product > 1e300:
            none -= math.log(product)
            product = 1.0
    _tabulate(theta, none - math.log(product), prepared)


@compiled
def n_exact_levels(model: Bernoulli) -> int:
    """Every level: steps add up to one step."""
    return EVERY_LEVEL


@compiled
def prepare_unseen(model: Bernoulli, theta: Floats, levels: int, prepared: Floats) -> None:
    """Tabulate the logits of E[1 / (1 + exp(-t))], t ~ N(theta, levels * diffusion).

    The expectation is per dimension, because dimensions are independent given ``theta``.
    """
    weights = np.empty(theta.size)
    none = 0.0
    for d in range(theta.size):
        one, zero = _expected_logistic(theta[d], math.sqrt(levels * model.diffusion[d]))
        weights[d] = math.log(one / zero)
        none += math.log(zero)
    _tabulate(weights, none, prepared)


@compiled
def _expected_logistic(mean: float, spread: float) -> tuple[float, float]:
    """Return E[1 / (1 + exp(-t))] and E[1 / (1 + exp(t))] for t ~ N(mean, spread**2).

    By the trapezoid rule, which converges geometrically for both laws. Up to a spread of 8 it runs
    over t, where e**-t is a power of one number; beyond, where the logistic is steep on the scale
    of t, it is P(t > l) for l of the logistic law, and runs over l, with normal tails. Errors are
    below 1e-7, relative to the smaller of the two, as long as |mean| < 30.
    """
    one, zero = 0.0, 0.0
    if spread <= _SPREADS[-1]:
        rule = 0
        while spread > _SPREADS[rule]:
            rule += 1
        n_steps = _N_STEPS[rule]
        step = spread * _STEPS[rule]
        ratio, odds = math.exp(step), math.exp(-abs(mean) - n_steps * step)
        for k in range(-n_steps, n_steps + 1):
            share = _HEIGHTS[rule, abs(k)] / (1.0 + odds)
            one += share
            zero += odds * share
            odds *= ratio
        if mean < 0.0:
            one, zero = zero, one
    else:
        for point in range(_LOGISTIC_POINTS.size):
            z = (mean - _LOGISTIC_POINTS[point]) / spread
            tail = 0.5 * math.erfc(abs(z) * math.sqrt(0.5))
            one += _LOGISTIC_WEIGHTS[point] * (1.0 - tail if z > 0.0 else tail)
            zero += _LOGISTIC_WEIGHTS[point] * (tail if z > 0.0 else 1.0 - tail)
    return max(one, TINY), max(zero, TINY)


@compiled
def draw_chain(
    stream: Stream, model: Bernoulli, data: Bits, n: int, above: Floats, thetas: Floats
) -> None:
    """Draw the last logits given the bits of datum ``n``; then those before, between both ends."""
    levels = thetas.shape[0]
    for d in range(above.size):
        bit = (np.int64(data.packed[n, d // 8]) >> (d % 8)) & 1
        diffusion = model.diffusion[d]
        last = draw_given_bit(stream, above[d], levels * diffusion, bit == 1)
        over = above[d]
        for k in range(levels - 1):
            left = levels - k
            spread = math.sqrt(diffusion * (left - 1) / left)
            over += (last - over) / left + spread * normal(stream)
            thetas[k, d] = over
        thetas[levels - 1, d] = last


@compiled
def log_likelihood(model: Bernoulli, data: Bits, n: int, prepared: Floats) -> float:
    """Return the log probability of datum ``n``: two table entries per byte, two sums at once."""
    packed = data.packed
    low, high = 0.0, 0.0
    start = 1
    for byte in range(packed.shape[1]):
        bits = np.int64(packed[n, byte])
        low += prepared[start + (bits & 15)]
        high += prepared[start + 16 + (bits >> 4)]
        start += 32
    return prepared[0] + (low + high)


@compiled
def log_likelihoods(model: Bernoulli, data: Bits, n: int, prepared: Floats, out: Floats) -> None:
    """Write the log probability of datum ``n`` at several nodes, two bytes of bits at a time."""
    packed = data.packed
    n_bytes = packed.shape[1]
    for k in range(ABREAST):
        out[k] = prepared[0, k]
    start = 1
    for byte in range(0, n_bytes - 1, 2):
        one, two = np.int64(packed[n, byte]), np.int64(packed[n, byte + 1])
        add_rows(
            out,
            prepared,
            start + (one & 15),
            start + 16 + (one >> 4),
            start + 32 + (two & 15),
            start + 48 + (two >> 4),
        )
        start += 64
    if n_bytes % 2 == 1:
        one = np.int64(packed[n, n_bytes - 1])
        # Row 1, no bit of the first four, is zero.
        add_rows(out, prepared, start + (one & 15), start + 16 + (one >> 4), 1, 1)


@compiled
def add_statistics(model: Bernoulli, data: Bits, n: int, statistics: Floats) -> None:
    """Add the bits of datum ``n``."""
    for byte in range(statistics.size // 8):
        bits = np.int64(data.packed[n, byte])
        for bit in range(8):
            statistics[8 * byte + bit] += (bits >> bit) & 1
    for d in range(8 * (statistics.size // 8), statistics.size):
        statistics[d] += (np.int64(data.packed[n, d // 8]) >> (d % 8)) & 1


@compiled
def log_likelihood_of_sums(
    model: Bernoulli, theta: Floats, n_here: float, statistics: Floats
) -> float:
    """Return the log likelihood of the data at a node."""
    total = 0.0
    if n_here > 0:
        for d in range(theta.size):
            total += statistics[d] * theta[d] - n_here * softplus(theta[d])
    return total


@compiled
def log_prior(model: Bernoulli, table: NodeTable, theta: Floats) -> float:
    """Return the log density of all logits."""
    return diffusion_move.log_density(
        table, theta, model.root_mean, model.root_variance, 1.0, model.diffusion
    )


# -- parameters ----------------------------------------------------------------------------------


@compiled
def update_parameters(
    key: Key,
    model: Bernoulli,
    table: NodeTable,
    statistics: Floats,
    theta: Floats,
    part: int,
    adapting: bool,
) -> tuple[int, int]:
    """Hamiltonian move on the logits of some dimensions; sometimes a slice move follows.

    Whether it does is drawn from the key, so both are moves of their own. While step sizes adapt it
    follows always: logits that are far from where the data want them have another curvature than
    they will have, and Hamiltonian proposals fail.
    """
    first = part * DIMENSIONS_PER_PART
    last = min(first + DIMENSIONS_PER_PART, theta.shape[1])
    key = key_of_part(key, part)
    some = Bernoulli(
        model.diffusion[first:last],
        model.diffusion_low[first:last],
        model.diffusion_high[first:last],
        model.root_mean[first:last],
        model.root_variance[first:last],
        model.step,
    )
    sums = statistics[:, first:last].copy()
    logits = theta[:, first:last].copy()
    curvature = _curvature(some, table, sums, theta.shape[0])
    n_accepted = _hamiltonian_move(key, some, table, sums, logits, curvature)
    stream = open_stream(key_for(key, Purpose.DIMENSION, last - first))
    if uniform(stream) < SLICE_SHARE or adapting:
        _slice_move(key, some, table, sums, logits, curvature)
    for node in range(theta.shape[0]):
        for d in range(first, last):
            theta[node, d] = logits[node, d - first]
    return n_accepted, last - first


@compiled
def n_parts(model: Bernoulli) -> int:
    """Dimensions are independent given everything else; some go together."""
    return (model.diffusion.size + DIMENSIONS_PER_PART - 1) // DIMENSIONS_PER_PART


@compiled
def adapt(model: Bernoulli, acceptance: float) -> Bernoulli:
    """Lengthen the step if more than the target was accepted, else shorten it."""
    step = model.step * math.exp(0.2 * (acceptance - TARGET_ACCEPTANCE))
    return _replace(model, model.diffusion, min(max(step, SHORTEST_STEP), LONGEST_STEP))


@compiled
def _curvature(model: Bernoulli, table: NodeTable, statistics: Floats, n_nodes: int) -> Floats:
    """Return the scale of the second derivative of -log p in each logit, free of the logits.

    The prior gives 1 / diffusion for the step from the parent and for each step to a child (at the
    root 1 / root_variance), the data n p (1 - p), where p is the share of ones among the node's
    data, pulled to the middle by half a datum each way. No logit enters: a step size that depended
    on what it moves would not leave the law invariant. It grows with n, so that acceptance does
    not fall as data grow.
    """
    n_dimensions = statistics.shape[1]
    curvature = np.zeros((n_nodes, n_dimensions))
    for node in range(n_nodes):
        parent = table.parent[node]
        n_here = table.n_here[node]
        for d in range(n_dimensions):
            share = (statistics[node, d] + 0.5) / (n_here + 1.0)
            curvature[node, d] += n_here * share * (1.0 - share)
            if parent == NULL:
                curvature[node, d] += 1.0 / model.root_variance[d]
            else:
                curvature[node, d] += 1.0 / model.diffusion[d]
                curvature[parent, d] += 1.0 / model.diffusion[d]
    return curvature


@compiled
def _energy(model: Bernoulli, table: NodeTable, statistics: Floats, theta: Floats) -> Floats:
    """Return -log p of each dimension, up to a constant."""
    n_nodes, n_dimensions = theta.shape
    energy = np.zeros(n_dimensions)
    for node in range(n_nodes):
        parent = table.parent[node]
        n_here = table.n_here[node]
        for d in range(n_dimensions):
            t = theta[node, d]
            if parent == NULL:
                away, variance = t - model.root_mean[d], model.root_variance[d]
            else:
                away, variance = t - theta[parent, d], model.diffusion[d]
            energy[d] += 0.5 * away * away / variance
            if n_here > 0:
                energy[d] += n_here * softplus(t) - statistics[node, d] * t
    return energy


@compiled
def _slope(
    model: Bernoulli, table: NodeTable, statistics: Floats, theta: Floats, slope: Floats
) -> None:
    """Write the derivatives of -log p to ``slope``."""
    n_nodes, n_dimensions = theta.shape
    for node in range(n_nodes):
        parent = table.parent[node]
        n_here = table.n_here[node]
        if n_here > 0:
            for d in range(n_dimensions):
                slope[node, d] = n_here * logistic(theta[node, d]) - statistics[node, d]
        else:
            slope[node] = 0.0
        if parent == NULL:
            for d in range(n_dimensions):
                slope[node, d] += (theta[node, d] - model.root_mean[d]) / model.root_variance[d]
        else:
            for d in range(n_dimensions):
                away = (theta[node, d] - theta[parent, d]) / model.diffusion[d]
                slope[node, d] += away
                slope[parent, d] -= away


@compiled
def _hamiltonian_move(
    key: Key,
    model: Bernoulli,
    table: NodeTable,
    statistics: Floats,
    theta: Floats,
    curvature: Floats,
) -> int:
    """Hamiltonian move (Neal 1993) with 25 leapfrog steps; return how many were accepted.

    Given everything else the dimensions are independent, each with one logit per node. So each
    dimension is a move of its own: momenta of all nodes, a random step size, and one decision,

        accept with min(1, exp(H(start) - H(end))),   H = -log p(theta) + sum p**2 / (2 curvature).

    The curvature is the mass, so that a step is measured in units of each logit's own scale. The
    leapfrog keeps volume and is its own reverse with the momenta negated, hence no other term.
    """
    n_nodes, n_dimensions = theta.shape
    stream = open_stream(key)
    momentum = np.empty((n_nodes, n_dimensions))
    for node in range(n_nodes):
        reopen(stream, key_for(key, Purpose.PARAMETERS, table.entity[node]))
        for d in range(n_dimensions):
            momentum[node, d] = math.sqrt(curvature[node, d]) * normal(stream)
    step = np.empty(n_dimensions)
    level = np.empty(n_dimensions)
    for d in range(n_dimensions):
        reopen(stream, key_for(key, Purpose.DIMENSION, d))
        step[d] = model.step * (0.5 + uniform(stream))
        level[d] = exponential(stream)

    moved = theta.copy()
    slope = np.empty((n_nodes, n_dimensions))
    before = _energy(model, table, statistics, theta)
    _add_kinetic(momentum, curvature, before)
    _slope(model, table, statistics, theta, slope)
    for count in range(LEAPFROG_STEPS):
        for node in range(n_nodes):
            for d in range(n_dimensions):
                # Half a step of the momentum first and last, whole ones between.
                kick = step[d] if count > 0 else 0.5 * step[d]
                momentum[node, d] -= kick * slope[node, d]
                moved[node, d] += step[d] * momentum[node, d] / curvature[node, d]
        _slope(model, table, statistics, moved, slope)
    for node in range(n_nodes):
        for d in range(n_dimensions):
            momentum[node, d] -= 0.5 * step[d] * slope[node, d]
    after = _energy(model, table, statistics, moved)
    _add_kinetic(momentum, curvature, after)

    n_accepted = 0
    for d in range(n_dimensions):
        change = after[d] - before[d]
        if change < level[d]:  # false for nan, where a trajectory has left the range of floats
            for node in range(n_nodes):
                theta[node, d] = moved[node, d]
            n_accepted += 1
    return n_accepted


@compiled
def _add_kinetic(momentum: Floats, curvature: Floats, energy: Floats) -> None:
    for node in range(momentum.shape[0]):
        for d in range(momentum.shape[1]):
            energy[d] += 0.5 * momentum[node, d] * momentum[node, d] / curvature[node, d]


@compiled
def _slice_move(
    key: Key,
    model: Bernoulli,
    table: NodeTable,
    statistics: Floats,
    theta: Floats,
    curvature: Floats,
) -> None:
    """Slice move (Neal 2003, stepping out, shrinkage) on each logit in turn.

    Given its neighbours, a logit t at a node with n data has, with P the sum of its prior
    precisions and m the mean they pull it to,

        log p(t) = s t - n log(1 + e**t) - P (t - m)**2 / 2.
    """
    n_nodes, n_dimensions = theta.shape
    stream = open_stream(key)
    precision = np.zeros((n_nodes, n_dimensions))
    pull = np.zeros((n_nodes, n_dimensions))  # from the children; parents are added in their turn
    for node in range(1, n_nodes):
        for d in range(n_dimensions):
            precision[table.parent[node], d] += 1.0 / model.diffusion[d]
            pull[table.parent[node], d] += theta[node, d] / model.diffusion[d]
    for node in range(n_nodes):
        parent = table.parent[node]
        n_here = table.n_here[node]
        reopen(stream, key_for(key, Purpose.PARAMETERS_SLICE, table.entity[node]))
        for d in range(n_dimensions):
            if parent == NULL:
                above, variance = model.root_mean[d], model.root_variance[d]
            else:
                above, variance = theta[parent, d], model.diffusion[d]
            total = precision[node, d] + 1.0 / variance
            linear = pull[node, d] + above / variance + statistics[node, d]
            now = theta[node, d]
            level = _log_conditional(now, linear, total, n_here) - exponential(stream)
            width = 3.0 / math.sqrt(curvature[node, d])
            left = now - width * uniform(stream)
            right = left + width
            while _log_conditional(left, linear, total, n_here) > level:
                left -= width
            while _log_conditional(right, linear, total, n_here) > level:
                right += width
            while True:
                candidate = left + (right - left) * uniform(stream)
                if _log_conditional(candidate, linear, total, n_here) >= level:
                    theta[node, d] = candidate
                    break
                if candidate < now:
                    left = candidate
                else:
                    right = candidate
                if not left < right:
                    break


@compiled
def _log_conditional(t: float, linear: float, precision: float, n_here: int) -> float:
    return t * (linear - 0.5 * precision * t) - n_here * softplus(t)


# -- hyperparameters and data ---------------------------------------------------------------------


@compiled
def update_hyperparameters(
    key: Key, model: Bernoulli, table: NodeTable, statistics: Floats, theta: Floats
) -> Bernoulli:
    """Slice move on each dimension's diffusion."""
    n_nodes, n_dimensions = theta.shape
    stream = open_stream(key)
    diffusion = np.empty(n_dimensions)
    steps = diffusion_move.squared_steps(table, theta, 1.0)
    for d in range(n_dimensions):
        reopen(stream, key_for(key, Purpose.MODEL_HYPERPARAMETERS, d))
        diffusion[d] = diffusion_move.draw_variance(
            stream,
            model.diffusion[d],
            n_nodes - 1,
            steps[d],
            model.diffusion_low[d],
            model.diffusion_high[d],
        )
    return _replace(model, diffusion, model.step)


@compiled
def simulate(stream: Stream, model: Bernoulli, theta: Floats, data: Bits, n: int) -> None:
    """Write a datum drawn at ``theta``."""
    data.packed[n] = 0
    for d in range(theta.size):
        if uniform(stream) < logistic(theta[d]):
            data.packed[n, d // 8] |= np.uint8(1 << (d % 8))


# -- leaves, for prediction ------------------------------------------------------------------------


@compiled
def _expected_bit(
    model: Bernoulli, above: Floats, n_here: float, statistics: Floats, d: int
) -> tuple[float, float]:
    """Return the probabilities that the next bit of a leaf is 1, and 0, given those it has.

    By the trapezoid rule over the logit, from its mode outwards until nothing is left. Steps are
    half of the standard deviation at the mode, and at most 1/2: with all bits alike, the law has a
    wall on one side, as steep as the logistic, where the error is below 1e-7.
    """
    if above.size == 0:
        logit = Logit(model.root_mean[d], 1.0 / model.root_variance[d], statistics[d], n_here)
    else:
        logit = Logit(above[d], 1.0 / model.diffusion[d], statistics[d], n_here)
    mode, curvature, _ = find_mode(logit, first_guess(logit), 0.1)
    top, _ = value_and_slope(logit, mode)
    step = 0.5 * min(1.0 / math.sqrt(curvature), 1.0)
    one, zero = 0.0, 0.0
    for side in range(2):
        k = side  # the mode itself is counted once
        while True:
            t = mode + (k if side == 0 else -k) * step
            value, _ = value_and_slope(logit, t)
            if value < top - _NOTHING_LEFT:
                break
            weight = math.exp(value - top)
            one += weight * logistic(t)
            zero += weight * logistic(-t)
            k += 1
    return max(one / (one + zero), TINY), max(zero / (one + zero), TINY)


@compiled
def prepare_leaf(
    model: Bernoulli,
    above: Floats,
    n_here: float,
    statistics: Floats,
    theta: Floats,
    prepared: Floats,
) -> None:
    """Tabulate the logits of the expected bits, which are independent given the parent's logits."""
    weights = np.empty(theta.size)
    none = 0.0
    for d in range(theta.size):
        one, zero = _expected_bit(model, above, n_here, statistics, d)
        weights[d] = math.log(one / zero)
        none += math.log(zero)
    _tabulate(weights, none, prepared)


@compiled
def draw_leaf(
    stream: Stream,
    model: Bernoulli,
    above: Floats,
    n_here: float,
    statistics: Floats,
    theta: Floats,
) -> None:
    """Write the logits of the expected bits: one datum drawn with them has its law."""
    for d in range(theta.size):
        one, zero = _expected_bit(model, above, n_here, statistics, d)
        theta[d] = math.log(one / zero)


register(
    NodeModel(
        "bernoulli",
        Bernoulli,
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
        prepare_leaf,
        draw_leaf,
    )
)
