"""A draw as a finite mixture: its nodes, and the unseen subtrees below each of them.

The next datum goes by the urn (see :mod:`treestick.prior`): with probability ``mass`` it stops at a
node of the tree, and with the rest it becomes the first below some new child. From there, in an
unseen subtree under node e, it stops m levels below e with probability

    1 / (1 + alpha(d + m)) * prod_{j < m} alpha(d + j) / (1 + alpha(d + j)),    d = depth of e,

and its likelihood is the model's, m diffusions below theta[e], integrated over those
(:func:`treestick.contract.prepare_unseen`). So a draw is a mixture of explicit densities. Where a
model has closed forms for a few levels only, the nodes on the way to deeper ones get parameters
that are drawn, once for all data, from a key of their own.

Parameters of a node without children are integrated out too, given its parent's and its data, where
the model has a closed form or a quadrature (:func:`treestick.contract.prepare_leaf`): most nodes of
a tree have no children and few data, and a draw of their parameters is far from their mean.

Rule 1. No mass is dropped: levels end where less than ``NEGLIGIBLE`` of all mass lies below, at the
latest after ``MOST_LEVELS``, and all mass below goes to the last level. (The latter matters where
alpha hardly decays, and moves the mass of nodes more than a hundred levels down.) Where parameters
have to be drawn, at most ``MOST_DRAWN`` levels are, one draw for each node and level.
Rule 2. Every row is computed by itself and in one order, so results do not depend on which rows
come together, nor on threads.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from treestick import contract
from treestick._jit import compiled
from treestick.moves.state import Floats, Integers, Sticks, alpha_at
from treestick.prior.urn import urn_mass
from treestick.random import Key, Purpose, Stream, key_for, open_stream, reopen, uniform
from treestick.tree.table import NULL, NodeTable

NEGLIGIBLE = 1e-9
MOST_LEVELS = 100
MOST_DRAWN = 4
COMPONENTS_AT_ONCE, DATA_AT_ONCE = 32, 64


class Components(NamedTuple):
    """The components of one draw's mixture."""

    log_weight: Floats
    node: Integers
    """The node that a component is, or below which its unseen subtree hangs."""
    prepared: Floats
    """What the likelihood needs, a row for each; the first are the nodes of the tree in order."""


@compiled
def make_components(
    key: Key, model: Any, table: NodeTable, theta: Floats, statistics: Floats, sticks: Sticks
) -> Components:
    """Return the mixture of the nodes of ``table`` and the unseen subtrees below them.

    ``statistics`` are those of the data at each node; only those of nodes without children are
    read. ``key`` is for the models without closed forms for every level.
    """
    n_nodes = table.size[0]
    n_exact = contract.n_exact_levels(model)
    most_levels = min(MOST_LEVELS, n_exact + MOST_DRAWN)
    mass = urn_mass(table, sticks.alpha0, sticks.decay, sticks.gamma)
    # Of all mass, what enters a new child of each node: see urn_mass for the same factors.
    entering = np.empty(n_nodes)
    n_levels = np.empty(n_nodes, dtype=np.int64)
    n_components = n_nodes
    for node in range(n_nodes):
        alpha = alpha_at(sticks, table.depth[node])
        n_here, n_below = table.n_here[node], table.n_below[node]
        goes_on = mass[node] / (n_here + 1.0) * (n_below + alpha)
        entering[node] = goes_on * sticks.gamma / (n_below + sticks.gamma)
        left, level = entering[node], 0
        while level == 0 or (left >= NEGLIGIBLE and level < most_levels):
            level += 1
            alpha = alpha_at(sticks, table.depth[node] + level)
            left *= alpha / (1.0 + alpha)
        n_levels[node] = level
        n_components += level
    _, width, _ = contract.widths(model)
    components = Components(
        np.empty(n_components),
        np.empty(n_components, dtype=np.int64),
        np.empty((n_components, width)),
    )
    for node in range(n_nodes):
        components.log_weight[node] = math.log(mass[node])
        components.node[node] = node
        if table.n_below[node] > 0:
            contract.prepare(model, theta[node], components.prepared[node])
        else:
            contract.prepare_leaf(
                model, _above(table, theta, node), float(table.n_here[node]), statistics[node],
                theta[node], components.prepared[node],
            )  # fmt: skip
    position = n_nodes
    stream = open_stream(key)
    above, drawn = np.empty(theta.shape[1]), np.empty(theta.shape[1])
    for node in range(n_nodes):
        left = entering[node]
        reopen(stream, key_for(key, Purpose.UNSEEN_LEVEL, node))
        above[:] = theta[node]
        for level in range(1, n_levels[node] + 1):
            alpha = alpha_at(sticks, table.depth[node] + level)
            stops = left if level == n_levels[node] else left / (1.0 + alpha)
            left *= alpha / (1.0 + alpha)
            components.log_weight[position] = math.log(stops) if stops > 0.0 else -math.inf
            components.node[position] = node
            if level > n_exact:
                contract.draw_child(stream, model, above, drawn)
                above[:] = drawn
            contract.prepare_unseen(
                model, above, min(level, n_exact), components.prepared[position]
            )
            position += 1
    return components


@compiled
def _above(table: NodeTable, theta: Floats, node: int) -> Floats:
    """Return the parameters of a node's parent, empty for the root."""
    return theta[0, :0] if node == 0 else theta[table.parent[node]]


@compiled
def _weigh(
    model: Any, data: Any, start: int, n_rows: int, components: Components, terms: Floats
) -> None:
    """Write log weight plus log likelihood of each component for some data.

    Some components for all these data, then the next: what is prepared stays in the cache.
    """
    n_components = components.log_weight.size
    for first in range(0, n_components, COMPONENTS_AT_ONCE):
        last = min(first + COMPONENTS_AT_ONCE, n_components)
        for n in range(n_rows):
            for c in range(first, last):
                terms[n, c] = components.log_weight[c] + contract.log_likelihood(
                    model, data, start + n, components.prepared[c]
                )


@compiled
def log_densities(model: Any, data: Any, components: Components, start: int, out: Floats) -> None:
    """Write the log density of the data from ``start`` on."""
    terms = np.empty((DATA_AT_ONCE, components.log_weight.size))
    for n in range(out.size):
        row = n % DATA_AT_ONCE
        if row == 0:
            n_rows = min(DATA_AT_ONCE, out.size - n)
            _weigh(model, data, start + n, n_rows, components, terms)
        largest = terms[row].max()
        out[n] = largest
        if largest > -math.inf:
            total = 0.0
            for c in range(terms.shape[1]):
                total += math.exp(terms[row, c] - largest)
            out[n] += math.log(total)


@compiled
def posterior_nodes(
    model: Any, data: Any, components: Components, n_nodes: int, start: int, out: Floats
) -> None:
    """Write for each datum from ``start`` on the probabilities of the nodes, and of a new one.

    A datum so far away that its likelihood is 0 everywhere belongs to a new node.
    """
    terms = np.empty((DATA_AT_ONCE, components.log_weight.size))
    for n in range(out.shape[0]):
        row = n % DATA_AT_ONCE
        if row == 0:
            n_rows = min(DATA_AT_ONCE, out.shape[0] - n)
            _weigh(model, data, start + n, n_rows, components, terms)
        largest = terms[row].max()
        out[n] = 0.0
        if largest == -math.inf:
            out[n, n_nodes] = 1.0
            continue
        total = 0.0
        for c in range(terms.shape[1]):
            share = math.exp(terms[row, c] - largest)
            out[n, min(c, n_nodes)] += share
            total += share
        out[n] /= total


@compiled
def draw_parameters(
    stream: Stream,
    model: Any,
    table: NodeTable,
    theta: Floats,
    statistics: Floats,
    sticks: Sticks,
    parameters: Floats,
) -> None:
    """Write the parameters of the node of a new datum, drawn from the predictive.

    Down the urn: among nodes of the tree by their counts, in an unseen subtree by alpha alone, with
    parameters drawn on the way.
    """
    node = 0
    parameters[:] = theta[0]
    while True:
        alpha = alpha_at(sticks, table.depth[node])
        n_here, n_below = table.n_here[node], table.n_below[node]
        if uniform(stream) * (n_here + n_below + 1.0 + alpha) < n_here + 1.0:
            if n_below == 0:
                contract.draw_leaf(
                    stream, model, _above(table, theta, node), float(n_here), statistics[node],
                    parameters,
                )  # fmt: skip
            return
        dart = uniform(stream) * (n_below + sticks.gamma)
        child = table.first_child[node]
        while child != NULL:
            dart -= table.n_here[child] + table.n_below[child]
            if dart < 0.0:
                break
            child = table.next_sibling[child]
        if child == NULL:
            depth = table.depth[node]
            below = np.empty_like(parameters)
            while True:
                depth += 1
                contract.draw_child(stream, model, parameters, below)
                parameters[:] = below
                if uniform(stream) * (1.0 + alpha_at(sticks, depth)) < 1.0:
                    return
        node = child
        parameters[:] = theta[node]


@compiled
def draw_predictive(
    key: Key,
    model: Any,
    table: NodeTable,
    theta: Floats,
    statistics: Floats,
    sticks: Sticks,
    data: Any,
    n: int,
) -> None:
    """Write a datum drawn from the predictive into row ``n`` of ``data``."""
    stream = open_stream(key_for(key, Purpose.PREDICTIVE, n))
    parameters = np.empty(theta.shape[1])
    draw_parameters(stream, model, table, theta, statistics, sticks, parameters)
    contract.simulate(stream, model, parameters, data, n)
