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
from treestick.packs import WIDTH, fill, load, store
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

    Eight dimensions go together, all steps of them before the next eight: what a step needs of
    all nodes then stays near the processor.
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
    n_accepted = 0
    desk, change = np.empty((n_nodes, N_ROWS, WIDTH)), np.empty(WIDTH)
    for first in range(0, n_dimensions, WIDTH):
        for node in range(n_nodes):
            store(desk[node, LOGIT], 0, load(theta[node], first, 0.0))
            store(desk[node, MOMENTUM], 0, load(momentum[node], first, 0.0))
            store(desk[node, LIGHTNESS], 0, 1.0 / load(curvature[node], first, 1.0))
            store(desk[node, SUM], 0, load(statistics[node], first, 0.0))
        start = _energy(model, table, curvature, first, desk)
        _follow(model, table, first, load(step, first, 0.0), desk)
        store(change, 0, _energy(model, table, curvature, first, desk) - start)
        for d in range(first, min(first + WIDTH, n_dimensions)):
            if change[d - first] < level[d]:  # false for nan: it has left the range of floats
                for node in range(n_nodes):
                    theta[node, d] = desk[node, LOGIT, d - first]
                n_accepted += 1
    return n_accepted


LOGIT, MOMENTUM, LIGHTNESS, SUM, SLOPE, N_ROWS = range(6)
"""What is known of eight dimensions of a node: beside logits and momenta the inverse of the
curvature, the sums of its bits, and derivatives of -log p."""


@compiled
def _at(desk: Floats, node: int, row: int) -> Any:
    return load(desk[node, row], 0, 0.0)


@compiled
def _energy(model: Any, table: NodeTable, curvature: Floats, first: int, desk: Floats) -> Any:
    """Return H of eight dimensions from ``first`` on, up to a constant."""
    energy = fill(0.0)
    diffusion = load(model.diffusion, first, 1.0)
    for node in range(desk.shape[0]):
        parent = table.parent[node]
        n_here = table.n_here[node]
        t = _at(desk, node, LOGIT)
        if parent == NULL:
            away = t - load(model.root_mean, first, 0.0)
            here = 0.5 * away * away / load(model.root_variance, first, 1.0)
        else:
            away = t - _at(desk, parent, LOGIT)
            here = 0.5 * away * away / diffusion
        if n_here > 0:
            here = here + (n_here * softplus(t) - _at(desk, node, SUM) * t)
        energy = energy + here
    for node in range(desk.shape[0]):
        momentum = _at(desk, node, MOMENTUM)
        energy = energy + 0.5 * momentum * momentum / load(curvature[node], first, 1.0)
    return energy


@compiled
def _follow(model: Any, table: NodeTable, first: int, step: Any, desk: Floats) -> None:
    """Follow the trajectories of eight dimensions: logits and momenta become those of its end."""
    pulls = 1.0 / load(model.diffusion, first, 1.0)
    at_rest = fill(0.0)
    _step(model, table, first, at_rest, at_rest, pulls, desk, False)
    for count in range(LEAPFROG_STEPS):
        # Half a step of the momentum first and last, whole ones between.
        kick = step if count > 0 else 0.5 * step
        _step(model, table, first, kick, step, pulls, desk, True)
    for node in range(desk.shape[0]):
        momentum = _at(desk, node, MOMENTUM) - 0.5 * step * _at(desk, node, SLOPE)
        store(desk[node, MOMENTUM], 0, momentum)


@compiled
def _step(
    model: Any,
    table: NodeTable,
    first: int,
    kick: Any,
    step: Any,
    pulls: Any,
    desk: Floats,
    is_moving: bool,
) -> None:
    """Move momenta by ``kick`` and logits by ``step``, if at all; write the slopes there.

    Parents come before children, so one pass does: when a node is reached, its slope is still that
    of before, its parent has moved, and its children have yet to add to the new slope.
    """
    for node in range(desk.shape[0]):
        parent = table.parent[node]
        n_here = table.n_here[node]
        t = _at(desk, node, LOGIT)
        if is_moving:
            momentum = _at(desk, node, MOMENTUM) - kick * _at(desk, node, SLOPE)
            t = t + step * momentum * _at(desk, node, LIGHTNESS)
            store(desk[node, MOMENTUM], 0, momentum)
            store(desk[node, LOGIT], 0, t)
        slope = fill(0.0)
        if n_here > 0:
            slope = n_here * logistic(t) - _at(desk, node, SUM)
        if parent == NULL:
            away = t - load(model.root_mean, first, 0.0)
            slope = slope + away / load(model.root_variance, first, 1.0)
        else:
            away = (t - _at(desk, parent, LOGIT)) * pulls
            slope = slope + away
            store(desk[parent, SLOPE], 0, _at(desk, parent, SLOPE) - away)
        store(desk[node, SLOPE], 0, slope)


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
