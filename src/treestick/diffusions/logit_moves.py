"""Moves on the logits of all nodes, given the tree: Hamiltonian, and by slice sampling.

For models with bits at the nodes, and logits by diffusion; ``model`` is any that has the fields
``diffusion``, ``root_mean``, ``root_variance`` and ``step``. Given everything else dimensions are
independent, and each is moved by itself.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from treestick._jit import compiled
from treestick.diffusions.logistic import logistic, softplus
from treestick.packs import WIDTH, load, store
from treestick.random import (
    Key,
    Purpose,
    exponential,
    key_for,
    normal,
    open_stream,
    reopen,
    uniform,
)
from treestick.tree.table import NULL, NodeTable

Floats = npt.NDArray[np.float64]

LEAPFROG_STEPS = 25


@compiled
def curvature_of(model: Any, table: NodeTable, statistics: Floats, n_nodes: int) -> Floats:
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
def _energy(model: Any, table: NodeTable, statistics: Floats, theta: Floats) -> Floats:
    """Return -log p of each dimension, up to a constant."""
    n_nodes, n_dimensions = theta.shape
    energy = np.zeros(n_dimensions)
    for node in range(n_nodes):
        parent = table.parent[node]
        n_here = table.n_here[node]
        above, variances = model.root_mean, model.root_variance
        if parent != NULL:
            above, variances = theta[parent], model.diffusion
        for d in range(0, n_dimensions, WIDTH):
            t = load(theta[node], d, 0.0)
            away = t - load(above, d, 0.0)
            here = 0.5 * away * away / load(variances, d, 1.0)
            if n_here > 0:
                here = here + (n_here * softplus(t) - load(statistics[node], d, 0.0) * t)
            store(energy, d, load(energy, d, 0.0) + here)
    return energy


@compiled
def _slope(
    model: Any,
    table: NodeTable,
    statistics: Floats,
    pulls: Floats,
    theta: Floats,
    slope: Floats,
) -> None:
    """Write the derivatives of -log p to ``slope``; ``pulls`` are the inverses of diffusions."""
    n_nodes, n_dimensions = theta.shape
    for node in range(n_nodes):
        parent = table.parent[node]
        n_here = table.n_here[node]
        if n_here > 0:
            for d in range(0, n_dimensions, WIDTH):
                share = logistic(load(theta[node], d, 0.0))
                store(slope[node], d, n_here * share - load(statistics[node], d, 0.0))
        else:
            slope[node] = 0.0
        if parent == NULL:
            for d in range(n_dimensions):
                slope[node, d] += (theta[node, d] - model.root_mean[d]) / model.root_variance[d]
        else:
            for d in range(n_dimensions):
                away = (theta[node, d] - theta[parent, d]) * pulls[d]
                slope[node, d] += away
                slope[parent, d] -= away


@compiled
def hamiltonian_move(
    key: Key,
    model: Any,
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

    moved, slope = theta.copy(), np.empty((n_nodes, n_dimensions))
    lightness, pulls = 1.0 / curvature, 1.0 / model.diffusion
    before = _energy(model, table, statistics, theta)
    _add_kinetic(momentum, curvature, before)
    _slope(model, table, statistics, pulls, theta, slope)
    for count in range(LEAPFROG_STEPS):
        for node in range(n_nodes):
            for d in range(n_dimensions):
                # Half a step of the momentum first and last, whole ones between.
                kick = step[d] if count > 0 else 0.5 * step[d]
                momentum[node, d] -= kick * slope[node, d]
                moved[node, d] += step[d] * momentum[node, d] * lightness[node, d]
        _slope(model, table, statistics, pulls, moved, slope)
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
def slice_move(
    key: Key,
    model: Any,
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
            sharpness = precision[node, d] + 1.0 / variance
            linear = pull[node, d] + above / variance + statistics[node, d]
            now = theta[node, d]
            level = _log_conditional(now, linear, sharpness, n_here) - exponential(stream)
            width = 3.0 / math.sqrt(curvature[node, d])
            left = now - width * uniform(stream)
            right = left + width
            while _log_conditional(left, linear, sharpness, n_here) > level:
                left -= width
            while _log_conditional(right, linear, sharpness, n_here) > level:
                right += width
            while True:
                candidate = left + (right - left) * uniform(stream)
                if _log_conditional(candidate, linear, sharpness, n_here) >= level:
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
