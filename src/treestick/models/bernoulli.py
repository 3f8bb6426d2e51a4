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
from treestick.diffusions.expected_bits import expected_bits, expected_logistics
from treestick.diffusions.logistic import Logit, draw_given_bit, logistic
from treestick.diffusions.logit_moves import curvature_of, hamiltonian_move, slice_move
from treestick.diffusions.logit_spread import spread_move
from treestick.diffusions.logits import estimate, fit_group, log_evidence, log_transition
from treestick.packs import (
    WIDTH,
    any_less,
    exp,
    fill,
    first_of,
    larger,
    load,
    log,
    size,
    sqrt,
    store,
    total,
)
from treestick.random import (
    Key,
    Purpose,
    Stream,
    key_for,
    key_of_part,
    normal,
    open_stream,
    reopen,
    uniform,
)
from treestick.tree.table import NodeTable
from treestick.wide import ROUNDING, add_rows

Floats = npt.NDArray[np.float64]

DIMENSIONS_PER_PART = 64
BITS_OF_BYTES = np.unpackbits(
    np.arange(256, dtype=np.uint8)[:, np.newaxis], axis=1, bitorder="little"
).astype(np.float64)
BYTES_AT_ONCE = 8
"""Of the data, in likelihoods at many nodes: a table of 32 KiB."""
FACTORS_AT_ONCE = 512
"""As many as are multiplied before their logarithm is taken: none is above 2."""
SLICE_SHARE = 0.1
"""In this share of the sweeps the slice move follows the Hamiltonian one,"""
N_SLICED = 200
"""and in as many of the first sweeps, if step sizes adapt in them."""
TARGET_ACCEPTANCE = 0.9
FIRST_STEP, SHORTEST_STEP, LONGEST_STEP = 0.12, 0.005, 0.25
"""Where ``step`` starts, and its limits. The leapfrog is unstable beyond 2; 25 steps of 1/8 are
half a turn."""


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
    # log(1 + e**t) = max(t, 0) + log(1 + e**-|t|), with one logarithm for many factors.
    some, product = fill(0.0), fill(1.0)
    for d in range(0, theta.size, WIDTH):
        t = load(theta, d, -math.inf)
        some = some - larger(t, 0.0)
        product = product * (1.0 + exp(-size(t)))
        if any_less(1e300, product):
            some, product = some - log(product), fill(1.0)
    _tabulate(theta, total(some - log(product)), prepared)


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
    none = fill(0.0)
    for d in range(0, theta.size, WIDTH):
        spread = sqrt(levels * load(model.diffusion, d, 0.0))
        one, zero = expected_logistics(load(theta, d, 0.0), spread)
        store(weights, d, log(one / zero))
        none = none + first_of(log(zero), theta.size - d)
    _tabulate(weights, total(none), prepared)


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
def log_likelihoods(
    model: Bernoulli, data: Bits, first: int, last: int, prepared: Floats, out: Floats
) -> None:
    """Write the log probabilities of data at several nodes, two bytes of bits at a time.

    All data have their turn with a few bytes before the next ones, so that these rows of the table
    stay in the nearest cache.
    """
    packed = data.packed
    n_whole = packed.shape[1] // 2 * 2
    for n in range(first, last):
        for k in range(out.shape[1]):
            out[n - first, k] = prepared[0, k]
    for first_byte in range(0, n_whole, BYTES_AT_ONCE):
        for n in range(first, last):
            for byte in range(first_byte, min(first_byte + BYTES_AT_ONCE, n_whole), 2):
                one, two = np.int64(packed[n, byte]), np.int64(packed[n, byte + 1])
                start = 1 + 32 * byte
                add_rows(
                    out[n - first],
                    prepared,
                    start + (one & 15),
                    start + 16 + (one >> 4),
                    start + 32 + (two & 15),
                    start + 48 + (two >> 4),
                )
    if n_whole < packed.shape[1]:
        start = 1 + 32 * n_whole
        for n in range(first, last):
            one = np.int64(packed[n, n_whole])
            # Row 1, no bit of the first four, is zero.
            add_rows(out[n - first], prepared, start + (one & 15), start + 16 + (one >> 4), 1, 1)


@compiled
def roughness(model: Bernoulli, theta: Floats, prepared: Floats) -> float:
    """Return the sum of what may be added up, in size, times the roundings that each may pass.

    These are one in the table, two among four rows, one for each two bytes, and one of the result.
    Rounding in float64, and products of roundings, are within 1 %.
    """
    some = abs(prepared[0])
    for d in range(theta.size):
        some += abs(theta[d])
    n_bytes = (theta.size + 7) // 8
    return 1.01 * some * (4 + (n_bytes + 1) // 2) * ROUNDING


@compiled
def add_statistics(model: Bernoulli, data: Bits, n: int, statistics: Floats) -> None:
    """Add the bits of datum ``n``."""
    for byte in range(data.packed.shape[1]):
        bits = load(BITS_OF_BYTES[data.packed[n, byte]], 0, 0.0)
        store(statistics, 8 * byte, load(statistics, 8 * byte, 0.0) + bits)


@compiled
def log_likelihood_of_sums(
    model: Bernoulli, theta: Floats, n_here: float, statistics: Floats
) -> float:
    """Return the log likelihood of the data at a node."""
    some = fill(0.0)
    if n_here > 0:
        factor = fill(1.0)
        for d in range(0, theta.size, WIDTH):
            t = load(theta, d, -math.inf)
            some = some - n_here * larger(t, 0.0)
            some = some + first_of(load(statistics, d, 0.0) * t, theta.size - d)
            # log(1 + e**t), but for the larger of t and 0, is the log of a factor of at most 2.
            factor = factor * (1.0 + exp(-size(t)))
            if (d // WIDTH) % FACTORS_AT_ONCE == FACTORS_AT_ONCE - 1:
                some = some - n_here * log(factor)
                factor = fill(1.0)
        some = some - n_here * log(factor)
    return total(some)


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

    Whether it does is drawn from the key, so both are moves of their own. In the first sweeps of a
    burn-in it follows always: logits that are far from where the data want them have another
    curvature than they will have, and Hamiltonian proposals fail.
    """
    in_the_beginning = adapting and key.sweep <= np.uint64(N_SLICED)
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
    curvature = curvature_of(some, table, sums, theta.shape[0])
    n_accepted = hamiltonian_move(key, some, table, sums, logits, curvature)
    stream = open_stream(key_for(key, Purpose.DIMENSION, last - first))
    if uniform(stream) < SLICE_SHARE or in_the_beginning:
        slice_move(key, some, table, sums, logits, curvature)
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


# -- hyperparameters and data ---------------------------------------------------------------------


@compiled
def update_hyperparameters(
    key: Key, model: Bernoulli, table: NodeTable, statistics: Floats, theta: Floats
) -> Bernoulli:
    """Slice move on each dimension's diffusion; then one more, with small nodes' logits."""
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
    model = _replace(model, diffusion, model.step)
    spread_move(key, model, table, statistics, theta)
    return model


@compiled
def simulate(stream: Stream, model: Bernoulli, theta: Floats, data: Bits, n: int) -> None:
    """Write a datum drawn at ``theta``."""
    data.packed[n] = 0
    for d in range(theta.size):
        if uniform(stream) < logistic(theta[d]):
            data.packed[n, d // 8] |= np.uint8(1 << (d % 8))


# -- leaves, for prediction ------------------------------------------------------------------------


@compiled
def _write_expected(
    model: Bernoulli, above: Floats, n_here: float, statistics: Floats, weights: Floats
) -> float:
    """Write the logits of a leaf's expected bits; return log P(all bits 0).

    Bits are independent given the parent's logits.
    """
    centre, variance = above, model.diffusion
    if above.size == 0:
        centre, variance = model.root_mean, model.root_variance
    none = fill(0.0)
    for d in range(0, weights.size, WIDTH):
        precision = 1.0 / load(variance, d, 1.0)
        logit = Logit(load(centre, d, 0.0), precision, load(statistics, d, 0.0), 1.0 * n_here)
        one, zero = expected_bits(logit)
        store(weights, d, log(one / zero))
        none = none + first_of(log(zero), weights.size - d)
    return total(none)


@compiled
def prepare_leaf(
    model: Bernoulli,
    above: Floats,
    n_here: float,
    statistics: Floats,
    theta: Floats,
    prepared: Floats,
) -> None:
    """Tabulate the logits of the expected bits."""
    weights = np.empty(theta.size)
    none = _write_expected(model, above, n_here, statistics, weights)
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
    _write_expected(model, above, n_here, statistics, theta)


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
        has_whole_statistics=True,
        roughness=roughness,
    )
)
