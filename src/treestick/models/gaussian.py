"""Gaussian data at every node, means by Gaussian diffusion down the tree.

::

    mean[root]  ~ N(0, diag(root_variance))
    mean[child] ~ N(persistence * mean[parent], diag(diffusion))
    x_n         ~ N(mean[node of n], diag(noise))

in coordinates where the root's prior mean is 0. Everything is diagonal, so dimensions separate
given ``persistence``. ``theta`` is the mean. ``diffusion``, ``noise`` and ``persistence`` have
uniform priors between bounds; equal bounds mean a fixed value. With ``shared_noise`` all dimensions
have one noise (what a rotation of the data leaves as it is).

Sums of squares are taken around 0: data should be of about unit scale, or digits are lost.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treestick._jit import compiled
from treestick.contract import EVERY_LEVEL, Group, NodeModel, register
from treestick.diffusions import gaussian as diffusion_move
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
from treestick.tree.table import NULL, NodeTable
from treestick.wide import ABREAST

Floats = npt.NDArray[np.float64]


DIMENSIONS_PER_PART = 64


class Gaussian(NamedTuple):
    """Hyperparameters of the Gaussian model; see the module."""

    persistence: float
    persistence_low: float
    persistence_high: float
    diffusion: Floats
    diffusion_low: Floats
    diffusion_high: Floats
    noise: Floats
    noise_low: Floats
    noise_high: Floats
    shared_noise: bool
    root_variance: Floats
    log_scale: float
    """Subtracted from every log likelihood: the logarithm of the volume of the user's unit cube,
    where data are measured in other units here."""


class Reals(NamedTuple):
    """Data of the Gaussian model."""

    values: Floats
    """Shape (n_data, n_dimensions)."""


@compiled
def rotated(values: Floats, basis: Floats) -> Floats:
    """Return values @ basis, row by row in one order: BLAS changes last bits with the batch."""
    result = np.zeros((values.shape[0], basis.shape[1]))
    for n in range(values.shape[0]):
        for i in range(basis.shape[0]):
            for j in range(basis.shape[1]):
                result[n, j] += values[n, i] * basis[i, j]
    return result


@compiled
def widths(model: Gaussian) -> tuple[int, int, int]:
    """Theta: the mean. Prepared: constant, mean, precisions. Statistics: sums, sums of squares."""
    n_dimensions = model.noise.size
    return n_dimensions, 1 + 2 * n_dimensions, 2 * n_dimensions


@compiled
def draw_hyperparameters(stream: Stream, model: Gaussian) -> Gaussian:
    """Draw persistence, diffusion and noise from their priors."""
    u = uniform(stream)
    persistence = model.persistence_low + u * (model.persistence_high - model.persistence_low)
    diffusion = np.empty(model.diffusion.size)
    noise = np.empty(model.noise.size)
    for d in range(noise.size):
        low, high = model.diffusion_low[d], model.diffusion_high[d]
        diffusion[d] = low + uniform(stream) * (high - low)
        low, high = model.noise_low[d], model.noise_high[d]
        noise[d] = low + uniform(stream) * (high - low)
        if model.shared_noise:
            noise[d] = noise[0]
    return _replace(model, persistence, diffusion, noise)


@compiled
def _replace(model: Gaussian, persistence: float, diffusion: Floats, noise: Floats) -> Gaussian:
    return Gaussian(
        persistence,
        model.persistence_low,
        model.persistence_high,
        diffusion,
        model.diffusion_low,
        model.diffusion_high,
        noise,
        model.noise_low,
        model.noise_high,
        model.shared_noise,
        model.root_variance,
        model.log_scale,
    )


@compiled
def draw_root(stream: Stream, model: Gaussian, theta: Floats) -> None:
    """Draw the mean of the root."""
    diffusion_move.draw_root(stream, np.zeros(theta.size), model.root_variance, theta)


@compiled
def draw_child(stream: Stream, model: Gaussian, parent: Floats, theta: Floats) -> None:
    """Draw the mean of a child."""
    diffusion_move.draw_child(stream, model.persistence, model.diffusion, parent, theta)


@compiled
def prepare(model: Gaussian, theta: Floats, prepared: Floats) -> None:
    """Write the constant, the mean and the precisions of the density at a node."""
    prepare_unseen(model, theta, 0, prepared)


@compiled
def n_exact_levels(model: Gaussian) -> int:
    """Every level: steps add up to one step."""
    return EVERY_LEVEL


@compiled
def prepare_unseen(model: Gaussian, theta: Floats, levels: int, prepared: Floats) -> None:
    """Write the density m = ``levels`` below, with the means on the way integrated out.

    That is N(eta**m theta, noise + (1 + eta**2 + ... + eta**(2 m - 2)) diffusion).
    """
    n_dimensions = theta.size
    shrinkage, spread = 1.0, 0.0
    for _ in range(levels):
        spread = 1.0 + model.persistence * model.persistence * spread
        shrinkage *= model.persistence
    constant = -model.log_scale
    for d in range(n_dimensions):
        variance = model.noise[d] + spread * model.diffusion[d]
        constant -= 0.5 * math.log(2.0 * math.pi * variance)
        prepared[1 + d] = shrinkage * theta[d]
        prepared[1 + n_dimensions + d] = 1.0 / variance
    prepared[0] = constant


@compiled
def draw_chain(
    stream: Stream, model: Gaussian, data: Reals, n: int, above: Floats, thetas: Floats
) -> None:
    """Draw the means of a chain: what datum ``n`` says of each, upwards; then one after another.

    With x ~ N(mean, noise) at the end of k more steps, where the child has precision J and mean c,
    a node has eta**2 J / (1 + diffusion J) and c / eta. In other words, x = eta**k mean + an error
    of variance v[k], v[k + 1] = v[k] + eta**(2 k) diffusion.
    """
    levels = thetas.shape[0]
    eta = model.persistence
    for d in range(above.size):
        x, diffusion = data.values[n, d], model.diffusion[d]
        over = above[d]
        for k in range(levels):
            factor, variance = 1.0, model.noise[d]
            for _ in range(levels - 1 - k):
                variance += factor * factor * diffusion
                factor *= eta
            precision = factor * factor / variance + 1.0 / diffusion
            mean = (factor * x / variance + eta * over / diffusion) / precision
            over = mean + normal(stream) / math.sqrt(precision)
            thetas[k, d] = over


@compiled
def log_likelihood(model: Gaussian, data: Reals, n: int, prepared: Floats) -> float:
    """Return the log density of datum ``n``. Four sums at once, added in a fixed order."""
    values = data.values
    n_dimensions = values.shape[1]
    a, b, c, e = 0.0, 0.0, 0.0, 0.0
    whole = n_dimensions - n_dimensions % 4
    for d in range(0, whole, 4):
        x = values[n, d] - prepared[1 + d]
        a += x * x * prepared[1 + n_dimensions + d]
        x = values[n, d + 1] - prepared[2 + d]
        b += x * x * prepared[2 + n_dimensions + d]
        x = values[n, d + 2] - prepared[3 + d]
        c += x * x * prepared[3 + n_dimensions + d]
        x = values[n, d + 3] - prepared[4 + d]
        e += x * x * prepared[4 + n_dimensions + d]
    for d in range(whole, n_dimensions):
        x = values[n, d] - prepared[1 + d]
        a += x * x * prepared[1 + n_dimensions + d]
    return prepared[0] - 0.5 * ((a + b) + (c + e))


@compiled
def log_likelihoods(
    model: Gaussian, data: Reals, first: int, last: int, prepared: Floats, out: Floats
) -> None:
    """Write the log densities of data at several nodes."""
    values = data.values
    n_dimensions = values.shape[1]
    for n in range(first, last):
        logs = out[n - first]
        for k in range(ABREAST):
            logs[k] = 0.0
        for d in range(n_dimensions):
            value = values[n, d]
            for k in range(ABREAST):
                x = value - prepared[1 + d, k]
                logs[k] += x * x * prepared[1 + n_dimensions + d, k]
        for k in range(ABREAST):
            logs[k] = prepared[0, k] - 0.5 * logs[k]


@compiled
def add_statistics(model: Gaussian, data: Reals, n: int, statistics: Floats) -> None:
    """Add the values of datum ``n``, and their squares."""
    values = data.values
    n_dimensions = values.shape[1]
    for d in range(n_dimensions):
        statistics[d] += values[n, d]
    for d in range(n_dimensions):
        statistics[n_dimensions + d] += values[n, d] * values[n, d]


@compiled
def log_likelihood_of_sums(
    model: Gaussian, theta: Floats, n_here: float, statistics: Floats
) -> float:
    """Return the log likelihood of the data at a node."""
    if n_here == 0:
        return 0.0
    total = -n_here * model.log_scale
    for d in range(theta.size):
        squares = _squares(theta, n_here, statistics, d)
        total -= 0.5 * (
            n_here * math.log(2.0 * math.pi * model.noise[d]) + squares / model.noise[d]
        )
    return total


@compiled
def _squares(theta: Floats, n_here: float, statistics: Floats, d: int) -> float:
    """Return the sum of squared distances to the mean, in dimension d."""
    squares = statistics[theta.size + d] - theta[d] * (2.0 * statistics[d] - n_here * theta[d])
    return max(squares, 0.0)


@compiled
def log_prior(model: Gaussian, table: NodeTable, theta: Floats) -> float:
    """Return the log density of all means."""
    zero = np.zeros(theta.shape[1])
    return diffusion_move.log_density(
        table, theta, zero, model.root_variance, model.persistence, model.diffusion
    )


# -- local fits ------------------------------------------------------------------------------------


@compiled
def log_transition(model: Gaussian, above: Floats, theta: Floats) -> float:
    """Return the log density of a node's mean given its parent's."""
    zero = np.zeros(theta.size)
    return diffusion_move.log_step(
        above, theta, zero, model.root_variance, model.persistence, model.diffusion
    )


@compiled
def estimate(
    model: Gaussian,
    above: Floats,
    below: Floats,
    n_here: float,
    statistics: Floats,
    theta: Floats,
) -> None:
    """Write the mean of the exact conditional."""
    precision = np.empty(theta.size)
    _see_neighbours(model, above, below, theta, precision)
    _see_data(model, n_here, statistics, theta, precision)


@compiled
def log_evidence(
    model: Gaussian, above: Floats, below: Floats, n_here: float, statistics: Floats
) -> float:
    """Return the log marginal likelihood, exactly."""
    mean, precision = np.empty(model.noise.size), np.empty(model.noise.size)
    total = _see_neighbours(model, above, below, mean, precision)
    total += _see_data(model, n_here, statistics, mean, precision)
    return total + diffusion_move.log_integral(precision)


@compiled
def fit_group(stream: Stream, model: Gaussian, group: Group, is_drawn: np.int64) -> float:
    """Draw all from the exact conditional; the weight is the marginal likelihood.

    One pass up, in which every node is integrated out given its parent, and one down.
    """
    n_nodes, n_dimensions = group.theta.shape
    eta, diffusion = model.persistence, model.diffusion
    zero, root_variance = np.zeros(n_dimensions), model.root_variance
    mean, precision = np.zeros((n_nodes, n_dimensions)), np.zeros((n_nodes, n_dimensions))
    weight = 0.0
    first = 0
    for k in range(n_nodes):
        if group.over[k] == NULL:
            over = zero[:0] if k == 0 and group.has_root else group.above[k]
            weight += diffusion_move.see_above(
                over, zero, root_variance, eta, diffusion, mean[k], precision[k]
            )
        below = group.below[first : group.last_below[k]]
        first = group.last_below[k]
        weight += diffusion_move.see_below(below, eta, diffusion, mean[k], precision[k])
        weight += _see_data(model, group.n_here[k], group.statistics[k], mean[k], precision[k])
    for k in range(n_nodes - 1, -1, -1):
        over = group.over[k]
        if over == NULL:
            weight += diffusion_move.log_integral(precision[k])
        else:
            weight += diffusion_move.see_child(
                mean[k], precision[k], eta, diffusion, mean[over], precision[over]
            )
    if is_drawn:
        for k in range(n_nodes):
            over = group.over[k]
            if over != NULL:
                diffusion_move.see_parent(group.theta[over], eta, diffusion, mean[k], precision[k])
            diffusion_move.draw_normal(stream, mean[k], precision[k], group.theta[k])
    return weight


@compiled
def _see_neighbours(
    model: Gaussian, above: Floats, below: Floats, mean: Floats, precision: Floats
) -> float:
    """Write mean and precision of a node's mean given its neighbours; return the log constant."""
    zero = np.zeros(mean.size)
    eta, diffusion = model.persistence, model.diffusion
    constant = diffusion_move.see_above(
        above, zero, model.root_variance, eta, diffusion, mean, precision
    )
    return constant + diffusion_move.see_below(below, eta, diffusion, mean, precision)


@compiled
def _see_data(
    model: Gaussian, n_here: float, statistics: Floats, mean: Floats, precision: Floats
) -> float:
    """Multiply a normal law of a node's mean by the likelihood; return the log constant.

    ``mean`` and ``precision`` are overwritten by those of the product.
    """
    if n_here == 0:
        return 0.0
    constant = 0.0
    for d in range(mean.size):
        total = precision[d] + n_here / model.noise[d]
        new = (precision[d] * mean[d] + statistics[d] / model.noise[d]) / total
        away = mean[d] - new
        constant -= 0.5 * precision[d] * away * away
        mean[d], precision[d] = new, total
    return constant + log_likelihood_of_sums(model, mean, n_here, statistics)


# -- parameters ------------------------------------------------------------------------------------


@compiled
def update_parameters(
    key: Key,
    model: Gaussian,
    table: NodeTable,
    statistics: Floats,
    theta: Floats,
    part: int,
    adapting: bool,
) -> tuple[int, int]:
    """Draw all means jointly and exactly from their conditional: one pass up, one down.

    Dimensions are independent given the hyperparameters; those of one part are drawn here.

    Upwards, what the data at and below node k say of its mean is exp(-J x**2 / 2 + h x) with

        J[k] = n_here[k] / noise + sum over children c of  eta**2 J[c] / (1 + diffusion J[c])
        h[k] = sum of x_n / noise + sum over children c of eta h[c] / (1 + diffusion J[c])

    (the child's mean integrated out). Downwards, given the parent's mean, node k is Gaussian with
    precision J[k] + 1 / diffusion and mean (h[k] + eta * mean[parent] / diffusion) / precision; the
    root has precision J + 1 / root_variance and mean h / precision. Linear in the number of nodes.
    """
    n_nodes, n_dimensions = theta.shape
    first = part * DIMENSIONS_PER_PART
    last = min(first + DIMENSIONS_PER_PART, n_dimensions)
    key = key_of_part(key, part)
    precision = np.zeros((n_nodes, n_dimensions))
    pull = np.zeros((n_nodes, n_dimensions))
    eta = model.persistence
    for node in range(n_nodes - 1, -1, -1):
        parent = table.parent[node]
        for d in range(first, last):
            precision[node, d] += table.n_here[node] / model.noise[d]
            pull[node, d] += statistics[node, d] / model.noise[d]
            if parent != NULL:
                shrinkage = eta / (1.0 + model.diffusion[d] * precision[node, d])
                precision[parent, d] += eta * shrinkage * precision[node, d]
                pull[parent, d] += shrinkage * pull[node, d]
    stream = open_stream(key)
    for node in range(n_nodes):
        reopen(stream, key_for(key, Purpose.PARAMETERS, table.entity[node]))
        parent = table.parent[node]
        for d in range(first, last):
            from_above = 0.0
            prior_precision = 1.0 / model.root_variance[d]
            if parent != NULL:
                prior_precision = 1.0 / model.diffusion[d]
                from_above = prior_precision * eta * theta[parent, d]
            total = precision[node, d] + prior_precision
            mean = (pull[node, d] + from_above) / total
            theta[node, d] = mean + normal(stream) / math.sqrt(total)
    return last - first, last - first


@compiled
def n_parts(model: Gaussian) -> int:
    """Dimensions are independent given everything else; some go together."""
    return (model.noise.size + DIMENSIONS_PER_PART - 1) // DIMENSIONS_PER_PART


@compiled
def adapt(model: Gaussian, acceptance: float) -> Gaussian:
    """Exact draws have no step size."""
    return model


@compiled
def update_hyperparameters(
    key: Key, model: Gaussian, table: NodeTable, statistics: Floats, theta: Floats
) -> Gaussian:
    """Slice moves on diffusion, then persistence, then noise, each given all else."""
    n_nodes, n_dimensions = theta.shape
    stream = open_stream(key)
    diffusion = np.empty(n_dimensions)
    noise = np.empty(n_dimensions)
    steps = diffusion_move.squared_steps(table, theta, model.persistence)
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

    precision, pull = 0.0, 0.0
    for node in range(1, n_nodes):
        parent = table.parent[node]
        for d in range(n_dimensions):
            precision += theta[parent, d] * theta[parent, d] / diffusion[d]
            pull += theta[parent, d] * theta[node, d] / diffusion[d]
    reopen(stream, key_for(key, Purpose.MODEL_HYPERPARAMETERS, n_dimensions))
    persistence = diffusion_move.draw_persistence(
        stream, model.persistence, precision, pull, model.persistence_low, model.persistence_high
    )

    n_data = table.n_here[0] + table.n_below[0]
    distances = np.zeros(n_dimensions)
    for node in range(n_nodes):
        for d in range(n_dimensions):
            distances[d] += _squares(theta[node], table.n_here[node], statistics[node], d)
    if model.shared_noise:
        distances[0] = distances.sum()
        n_data *= n_dimensions
    for d in range(n_dimensions):
        if model.shared_noise and d > 0:
            noise[d] = noise[0]
        else:
            reopen(stream, key_for(key, Purpose.MODEL_HYPERPARAMETERS, n_dimensions + 1 + d))
            noise[d] = diffusion_move.draw_variance(
                stream,
                model.noise[d],
                n_data,
                distances[d],
                model.noise_low[d],
                model.noise_high[d],
            )
    return _replace(model, persistence, diffusion, noise)


@compiled
def simulate(stream: Stream, model: Gaussian, theta: Floats, data: Reals, n: int) -> None:
    """Write a datum drawn at ``theta``."""
    for d in range(theta.size):
        data.values[n, d] = theta[d] + math.sqrt(model.noise[d]) * normal(stream)


# -- leaves, for prediction ------------------------------------------------------------------------


@compiled
def _mean_of_leaf(
    model: Gaussian, above: Floats, n_here: float, statistics: Floats, d: int
) -> tuple[float, float]:
    """Return mean and variance of a leaf's mean, given its parent's and its data."""
    if above.size == 0:
        centre, precision = 0.0, 1.0 / model.root_variance[d]
    else:
        centre, precision = model.persistence * above[d], 1.0 / model.diffusion[d]
    total = precision + n_here / model.noise[d]
    return (precision * centre + statistics[d] / model.noise[d]) / total, 1.0 / total


@compiled
def prepare_leaf(
    model: Gaussian,
    above: Floats,
    n_here: float,
    statistics: Floats,
    theta: Floats,
    prepared: Floats,
) -> None:
    """Write the density N(mean, noise + variance of the mean)."""
    constant = -model.log_scale
    for d in range(theta.size):
        mean, variance = _mean_of_leaf(model, above, n_here, statistics, d)
        variance += model.noise[d]
        constant -= 0.5 * math.log(2.0 * math.pi * variance)
        prepared[1 + d] = mean
        prepared[1 + theta.size + d] = 1.0 / variance
    prepared[0] = constant


@compiled
def draw_leaf(
    stream: Stream,
    model: Gaussian,
    above: Floats,
    n_here: float,
    statistics: Floats,
    theta: Floats,
) -> None:
    """Draw the means."""
    for d in range(theta.size):
        mean, variance = _mean_of_leaf(model, above, n_here, statistics, d)
        theta[d] = mean + math.sqrt(variance) * normal(stream)


register(
    NodeModel(
        "gaussian",
        Gaussian,
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
