"""Counts at every node, probabilities by Dirichlet diffusion down the tree.

::

    p[root]  ~ Dir(root_concentration, ..., root_concentration)
    p[child] ~ Dir(concentration * (persistence * p[parent] + (1 - persistence) / V))
    x_n      ~ Multinomial(total of row n, p[node of n])

for V outcomes. The totals are given; likelihoods include the multinomial coefficient, and that of
an empty row is 1. ``theta`` is log p, see :mod:`treestick.diffusions.dirichlet` for what becomes of
probabilities too small for floats. ``concentration`` and ``persistence`` have uniform priors
between bounds; equal bounds mean a fixed value. The paper has the concentration for the root, too,
which is what a ``root_concentration`` of 0 stands for; but what suits the steps of documents, some
hundreds, makes all probabilities of the root equal, and a chain that starts there, with all data,
would settle for far too small a concentration.

If it ``is_measure``, nodes hold random measures instead, as in :mod:`treestick.models.hdp`, and the
last outcome is the rest: all atoms that no row has. Rows are counts of the others, so a row is many
draws from a measure.

The likelihood of an unseen child, its probabilities integrated out, is a Dirichlet-multinomial. Two
levels further down there is no closed form.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick import defaults
from treestick._jit import compiled
from treestick.contract import Group, NodeModel, register
from treestick.diffusions import dirichlet, hdp
from treestick.diffusions import dirichlet_fits as fits
from treestick.diffusions.updates import update
from treestick.families.multinomial import Counts, simulate_counts
from treestick.packs import WIDTH, any_less, exp, fill, load, log, log_gamma, store, where_less
from treestick.random import Key, Stream, uniform
from treestick.tree.table import NodeTable
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
    root_concentration: float = 0.0
    is_measure: bool = False


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
        model.root_concentration,
        model.is_measure,
    )


@compiled
def _base(model: Multinomial) -> dirichlet.Base:
    if model.is_measure:
        return hdp.base_measure(model.n_outcomes - 1)
    return dirichlet.even(model.n_outcomes, model.root_concentration)


@compiled
def draw_root(stream: Stream, model: Multinomial, theta: Floats) -> None:
    """Draw the log probabilities of the root."""
    draw_child(stream, model, np.empty(0), theta)


@compiled
def draw_child(stream: Stream, model: Multinomial, parent: Floats, theta: Floats) -> None:
    """Draw the log probabilities of a child."""
    shapes = np.empty(theta.size)
    dirichlet.write_shapes(model.concentration, model.persistence, _base(model), parent, shapes)
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
    base = _base(model)
    for w in range(theta.size):
        prepared[1 + w] = math.log(
            dirichlet.shape_at(model.concentration, model.persistence, base, theta, w)
        )


@compiled
def _log_more(a: Any, count: float) -> Any:
    """Return log(Gamma(a + count) / Gamma(a + 1)): what more than one token adds to log a."""
    if count > FEW:
        return log_gamma(a + count) - log_gamma(a + 1.0)
    product = a + 1.0
    for j in range(2, int(count)):
        product = product * (a + 1.0 * j)
    return log(product)


@compiled
def draw_chain(
    stream: Stream, model: Multinomial, data: Counts, n: int, above: Floats, thetas: Floats
) -> None:
    """Draw the log probabilities of one child that has datum ``n``."""
    shapes = np.empty(above.size)
    dirichlet.write_shapes(model.concentration, model.persistence, _base(model), above, shapes)
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
            total += _log_more(math.exp(log_a), data.counts[e])
    return total - dirichlet.log_rising(prepared[0], float(data.total[n]))


@compiled
def log_likelihoods(
    model: Multinomial, data: Counts, first: int, last: int, prepared: Floats, out: Floats
) -> None:
    """Write the log probabilities of data at several nodes, unseen ones among them or not."""
    for n in range(first, last):
        _write_logs(data, n, prepared, out[n - first])


@compiled
def _write_logs(data: Counts, n: int, prepared: Floats, out: Floats) -> None:
    first, last = data.start[n], data.start[n] + data.n_entries[n]
    for k in range(0, ABREAST, WIDTH):
        concentration = load(prepared[0], k, 0.0)
        logs = fill(data.log_coefficient[n])
        if any_less(0.0, concentration):
            is_unseen = where_less(0.0, concentration, 1.0, 0.0)
            logs = logs - is_unseen * _log_rising(concentration, 1.0 * data.total[n])
            for e in range(first, last):
                count, value = data.counts[e], load(prepared[1 + data.outcomes[e]], k, 0.0)
                unseen = value
                if count > 1.0:
                    unseen = value + _log_more(exp(value), count)
                logs = logs + where_less(0.0, concentration, unseen, count * value)
        else:
            for e in range(first, last):
                logs = logs + data.counts[e] * load(prepared[1 + data.outcomes[e]], k, 0.0)
        store(out, k, logs)


@compiled
def _log_rising(a: Any, n: float) -> Any:
    """Return log(Gamma(a + n) / Gamma(a)), or something finite where a is 0."""
    a = where_less(0.0, a, a, 1.0)
    return log_gamma(a + n) - log_gamma(a)


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
    simulate_counts(stream, theta, data, n)


# -- local fits ------------------------------------------------------------------------------------


@compiled
def log_prior(model: Multinomial, table: NodeTable, theta: Floats) -> float:
    """Return the log density of all probabilities; an atom comes from the base measure once."""
    found = defaults.log_prior(model, table, theta)
    if model.is_measure:
        found -= (model.n_outcomes - 1) * math.log(hdp.NOWHERE)
    return found


@compiled
def log_transition(model: Multinomial, above: Floats, theta: Floats) -> float:
    """Return the log density of a node's log probabilities given its parent's."""
    return dirichlet.log_step(model.concentration, model.persistence, _base(model), above, theta)


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
    theta[:] = fits.fit_one(
        model.concentration, model.persistence, _base(model), above, below, statistics
    )[0][0]


@compiled
def log_evidence(
    model: Multinomial, above: Floats, below: Floats, n_here: float, statistics: Floats
) -> float:
    """Return the weight that :func:`fit_group` would give to the mode of its proposal."""
    return fits.log_evidence(
        model.concentration, model.persistence, _base(model), above, below, statistics
    )


@compiled
def fit_group(stream: Stream, model: Multinomial, group: Group, is_drawn: np.int64) -> float:
    """Draw from scaled Dirichlet laws; for a leaf, that is the conditional itself."""
    return fits.fit_group(
        stream, model.concentration, model.persistence, _base(model), group, is_drawn
    )


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
    """See :func:`treestick.diffusions.updates.update`."""
    update(key, model, _base(model), table, statistics, theta, False)
    return theta.shape[0], theta.shape[0]


@compiled
def update_hyperparameters(
    key: Key, model: Multinomial, table: NodeTable, statistics: Floats, theta: Floats
) -> Multinomial:
    """Move concentration and persistence with theta integrated out, which is drawn anew."""
    return _replace(model, *update(key, model, _base(model), table, statistics, theta, True))


# -- leaves, for prediction ------------------------------------------------------------------------


@compiled
def _shapes_of_leaf(model: Multinomial, above: Floats, statistics: Floats) -> Floats:
    shapes = np.empty(model.n_outcomes)
    dirichlet.write_shapes(model.concentration, model.persistence, _base(model), above, shapes)
    for w in range(shapes.size):
        shapes[w] += statistics[w]
    return shapes


@compiled
def prepare_leaf(
    model: Multinomial,
    above: Floats,
    n_here: float,
    statistics: Floats,
    theta: Floats,
    prepared: Floats,
) -> None:
    """Write the Dirichlet-multinomial law with the shapes of the leaf's probabilities."""
    shapes = _shapes_of_leaf(model, above, statistics)
    prepared[0] = 0.0
    for w in range(shapes.size):
        prepared[0] += shapes[w]
        prepared[1 + w] = math.log(shapes[w])


@compiled
def draw_leaf(
    stream: Stream,
    model: Multinomial,
    above: Floats,
    n_here: float,
    statistics: Floats,
    theta: Floats,
) -> None:
    """Draw the probabilities."""
    dirichlet.draw(stream, _shapes_of_leaf(model, above, statistics), theta)


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
        defaults.n_parts,
        defaults.adapt,
        update_parameters,
        update_hyperparameters,
        simulate,
        prepare_leaf,
        draw_leaf,
    )
)
