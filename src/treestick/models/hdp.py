"""Random measures at the nodes, by the HDP diffusion down the tree.

::

    G[root]  ~ DP(concentration * H)
    G[child] ~ DP(concentration * (persistence * G[parent] + (1 - persistence) * H))
    phi_n    ~ G[node of n],    x_n ~ f(. | phi_n)

The density of a datum under a measure is an infinite sum, so the state holds the atom of each datum
(:class:`treestick.diffusions.hdp.Atoms`). Given those, a node is its probabilities of K atoms and
of the rest, and a datum is one draw from them (:class:`treestick.diffusions.hdp.Drawn`): that is
what this model knows, and all structural moves. It is the same for every H and f, which are the
matter of :mod:`treestick.moves.places` and :mod:`treestick.moves.atoms`. ``theta`` is the logarithm
of the probabilities. ``concentration`` and ``persistence`` have uniform priors between bounds;
equal bounds mean a fixed value.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick import defaults
from treestick._jit import compiled
from treestick.contract import EVERY_LEVEL, Group, NodeModel, register
from treestick.diffusions import dirichlet, hdp
from treestick.diffusions import dirichlet_fits as fits
from treestick.diffusions.hdp import Drawn
from treestick.diffusions.updates import update
from treestick.random import Key, Stream, uniform
from treestick.tree.table import NodeTable
from treestick.wide import ABREAST

Floats = npt.NDArray[np.float64]


class Measures(NamedTuple):
    """Hyperparameters of the model, and how many atoms are represented."""

    concentration: float
    concentration_low: float
    concentration_high: float
    persistence: float
    persistence_low: float
    persistence_high: float
    n_atoms: int


@compiled
def widths(model: Measures) -> tuple[int, int, int]:
    """Theta: logs. Prepared: logs and numbers. Statistics: counts, and the sum of log densities."""
    n_outcomes = model.n_atoms + 1
    return n_outcomes, 2 * n_outcomes, n_outcomes + 1


@compiled
def _base(model: Measures) -> dirichlet.Base:
    return hdp.base_measure(model.n_atoms)


@compiled
def draw_hyperparameters(stream: Stream, model: Measures) -> Measures:
    """Draw concentration and persistence from their priors."""
    low, high = model.concentration_low, model.concentration_high
    concentration = low + uniform(stream) * (high - low)
    low, high = model.persistence_low, model.persistence_high
    return _replace(model, concentration, low + uniform(stream) * (high - low))


@compiled
def _replace(model: Measures, concentration: float, persistence: float) -> Measures:
    return Measures(
        concentration,
        model.concentration_low,
        model.concentration_high,
        persistence,
        model.persistence_low,
        model.persistence_high,
        model.n_atoms,
    )


@compiled
def draw_root(stream: Stream, model: Measures, theta: Floats) -> None:
    """Draw the probabilities of the root: no atom that is known has any."""
    theta[:] = dirichlet.LEAST
    theta[theta.size - 1] = 0.0


@compiled
def draw_child(stream: Stream, model: Measures, parent: Floats, theta: Floats) -> None:
    """Draw the probabilities of a child."""
    shapes = np.empty(theta.size)
    dirichlet.write_shapes(model.concentration, model.persistence, _base(model), parent, shapes)
    dirichlet.draw(stream, shapes, theta)


# -- likelihoods -----------------------------------------------------------------------------------


@compiled
def prepare(model: Measures, theta: Floats, prepared: Floats) -> None:
    """Write logarithms of probabilities, and the probabilities."""
    for w in range(theta.size):
        prepared[w] = theta[w]
        prepared[theta.size + w] = math.exp(theta[w])


@compiled
def n_exact_levels(model: Measures) -> int:
    """Every level: a datum is one draw, whose probability is linear in those of the parent."""
    return EVERY_LEVEL


@compiled
def prepare_unseen(model: Measures, theta: Floats, levels: int, prepared: Floats) -> None:
    """Write the mean of the probabilities so many levels below."""
    kept = math.exp(levels * math.log(model.persistence))
    base = _base(model)
    for w in range(theta.size):
        p = kept * math.exp(theta[w]) + (1.0 - kept) * dirichlet.base_of(base, w)
        prepared[theta.size + w] = p
        prepared[w] = math.log(p) if p > 0.0 else dirichlet.LEAST


@compiled
def draw_chain(
    stream: Stream, model: Measures, data: Drawn, n: int, above: Floats, thetas: Floats
) -> None:
    """Draw the probabilities of nodes, each below the other, of which the last has datum ``n``.

    Let p be the probability of the datum's atom k at a node, and p_L at the last, L levels below.
    Given the node its mean is linear, persistence**L * p + (1 - persistence**L) * base. So the law
    of the node's probabilities given the datum is a mixture of two: Dirichlet with one draw of k
    added, weighted with persistence**L times the mean of p, and Dirichlet as it was, where k comes
    from the base measure further down.
    """
    n_levels, k = thetas.shape[0], data.atom[n]
    shapes = np.empty(above.size)
    base = _base(model)
    for level in range(n_levels):
        over = above if level == 0 else thetas[level - 1]
        dirichlet.write_shapes(model.concentration, model.persistence, base, over, shapes)
        kept = math.exp((n_levels - 1 - level) * math.log(model.persistence))
        from_here = kept * shapes[k] / model.concentration
        from_base = (1.0 - kept) * dirichlet.base_of(base, k)
        if uniform(stream) * (from_here + from_base) < from_here:
            shapes[k] += 1.0
        dirichlet.draw(stream, shapes, thetas[level])


@compiled
def log_likelihood(model: Measures, data: Drawn, n: int, prepared: Floats) -> float:
    """Return the log density of datum ``n`` and its atom; of the datum alone if none is known."""
    if data.densities.shape[0] == 0:
        return data.log_density[n] + prepared[data.atom[n]]
    n_outcomes = data.densities.shape[1]
    total = 0.0
    for w in range(n_outcomes):
        total += prepared[n_outcomes + w] * data.densities[n, w]
    return data.log_density[n] + (math.log(total) if total > 0.0 else -math.inf)


@compiled
def log_likelihoods(
    model: Measures, data: Drawn, first: int, last: int, prepared: Floats, out: Floats
) -> None:
    """Write the log densities of data and their atoms at several nodes."""
    for n in range(first, last):
        for k in range(ABREAST):
            out[n - first, k] = data.log_density[n] + prepared[data.atom[n], k]


@compiled
def add_statistics(model: Measures, data: Drawn, n: int, statistics: Floats) -> None:
    """Count the atom of datum ``n``, and add its log density."""
    statistics[data.atom[n]] += 1.0
    statistics[statistics.size - 1] += data.log_density[n]


@compiled
def log_likelihood_of_sums(
    model: Measures, theta: Floats, n_here: float, statistics: Floats
) -> float:
    """Return the log density of the data at a node and of their atoms."""
    total = statistics[theta.size]
    for w in range(theta.size):
        if statistics[w] != 0.0:
            total += statistics[w] * theta[w]
    return total


@compiled
def simulate(stream: Stream, model: Measures, theta: Floats, data: Any, n: int) -> None:
    """Draw the atom of datum ``n``, or the rest, from the measure."""
    dart, k = uniform(stream), 0
    while k < model.n_atoms:
        dart -= math.exp(theta[k])
        if dart < 0.0:
            break
        k += 1
    data.atom[n] = k


# -- local fits ------------------------------------------------------------------------------------


@compiled
def log_prior(model: Measures, table: NodeTable, theta: Floats) -> float:
    """Return the log density of the probabilities of all nodes.

    Each atom comes from H once, which is left out as often (:mod:`treestick.diffusions.hdp`).
    """
    return defaults.log_prior(model, table, theta) - model.n_atoms * math.log(hdp.NOWHERE)


@compiled
def log_transition(model: Measures, above: Floats, theta: Floats) -> float:
    """Return the log density of a node's probabilities given its parent's."""
    return dirichlet.log_step(model.concentration, model.persistence, _base(model), above, theta)


@compiled
def estimate(
    model: Measures, above: Floats, below: Floats, n_here: float, statistics: Floats, theta: Floats
) -> None:
    """Write about the mode."""
    theta[:] = fits.fit_one(
        model.concentration, model.persistence, _base(model), above, below, statistics
    )[0][0]


@compiled
def log_evidence(
    model: Measures, above: Floats, below: Floats, n_here: float, statistics: Floats
) -> float:
    """Return the weight that :func:`fit_group` would give to the mode of its proposal."""
    return fits.log_evidence(
        model.concentration, model.persistence, _base(model), above, below, statistics
    )


@compiled
def fit_group(stream: Stream, model: Measures, group: Group, is_drawn: np.int64) -> float:
    """Draw from scaled Dirichlet laws; for a leaf, that is the conditional itself."""
    return fits.fit_group(
        stream, model.concentration, model.persistence, _base(model), group, is_drawn
    )


# -- parameters ------------------------------------------------------------------------------------


@compiled
def update_parameters(
    key: Key,
    model: Measures,
    table: NodeTable,
    statistics: Floats,
    theta: Floats,
    part: int,
    adapting: bool,
) -> tuple[int, int]:
    """See :func:`treestick.diffusions.updates.update`."""
    update(key, model, _base(model), table, statistics, theta, False)
    return theta.shape[0], theta.shape[0]


@compiled
def update_hyperparameters(
    key: Key, model: Measures, table: NodeTable, statistics: Floats, theta: Floats
) -> Measures:
    """Move concentration and persistence with theta integrated out, which is drawn anew."""
    return _replace(model, *update(key, model, _base(model), table, statistics, theta, True))


# -- leaves, for prediction ------------------------------------------------------------------------


@compiled
def prepare_leaf(
    model: Measures,
    above: Floats,
    n_here: float,
    statistics: Floats,
    theta: Floats,
    prepared: Floats,
) -> None:
    """Write the mean of the probabilities: a datum is one draw from them."""
    mean = np.empty(theta.size)
    draw_leaf(np.empty(0, dtype=np.uint64), model, above, n_here, statistics, mean)
    prepare(model, mean, prepared)


@compiled
def draw_leaf(
    stream: Stream,
    model: Measures,
    above: Floats,
    n_here: float,
    statistics: Floats,
    theta: Floats,
) -> None:
    """Write the logarithms of the mean; nothing is drawn."""
    base, total = _base(model), model.concentration + n_here
    for w in range(theta.size):
        a = dirichlet.shape_at(model.concentration, model.persistence, base, above, w)
        theta[w] = math.log((a + statistics[w]) / total)


register(
    NodeModel(
        "hdp",
        Measures,
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
        defaults.n_parts,
        defaults.adapt,
        update_parameters,
        update_hyperparameters,
        simulate,
        prepare_leaf,
        draw_leaf,
        has_atoms=True,
    )
)
