"""The first state of a chain: all data at the root, or a tree that the user gives.

A chain forgets where it began, so a start need not be right. Parameters are estimated from the top
down, each node's given its parent's and all data at or below it; nodes without any are left out.
"""

from typing import Any, NamedTuple

import numpy as np

from treestick import contract
from treestick._jit import compiled
from treestick.diffusions.hdp import atoms_alone, make_atoms
from treestick.inputs import InvalidType, InvalidValue, shown
from treestick.moves import atoms_elsewhere
from treestick.moves.first_atoms import first_atoms
from treestick.moves.prune import move_prune
from treestick.moves.shards import Shards
from treestick.moves.state import Floats, Integers, State, Sticks
from treestick.moves.sticks import move_sticks
from treestick.moves.tasks import make_tasks, sum_statistics
from treestick.random import Key
from treestick.tree import Tree
from treestick.tree.table import NULL, NodeTable, add_child, make_table, next_ordinal

AT_ROOT = "root"


class Start(NamedTuple):
    """A tree with data at its nodes."""

    parent: Integers
    """-1 at the root; parents come before children."""
    assignments: Integers


def check_start(init: Any, n_data: int) -> Start:
    """Return the start that a user asks for: ``"root"``, a label for each datum, or a tree.

    Data with the same label share a child of the root; those with a negative one, which is what
    clustering calls noise, stay at the root.
    """
    if isinstance(init, str):
        if init != AT_ROOT:
            raise InvalidValue(f"init={shown(init)} is not 'root', an array of labels or a Tree")
        return Start(np.array([NULL]), np.zeros(n_data, dtype=np.int64))
    if isinstance(init, Tree):
        _check_length("the Tree", len(init.assignments), n_data)
        return Start(init.parent, init.assignments.astype(np.int64))
    labels = np.asarray(init)
    if labels.ndim != 1 or labels.dtype.kind not in "biu":
        raise InvalidType(
            f"init={shown(init)} is not 'root', a Tree or a one-dimensional array of whole numbers"
        )
    _check_length("labels", labels.size, n_data)
    found, place = np.unique(labels, return_inverse=True)
    n_noise = int(np.count_nonzero(found < 0))
    assignments = np.maximum(place + 1 - n_noise, 0)
    parent = np.zeros(found.size - n_noise + 1, dtype=np.int64)
    parent[0] = NULL
    return Start(parent, assignments)


def _check_length(what: str, n: int, n_data: int) -> None:
    if n != n_data:
        raise InvalidValue(f"init: {what} has {n} data, but X has {n_data} rows")


def first_state(
    key: Key, model: Any, sticks: Sticks, data: Any, start: Start, latent: Any = None
) -> State:
    """Return the state of a chain that has not moved yet.

    ``latent`` is what the model adds to it, where that is made before.
    """
    if latent is not None:
        data = latent.seen
    elif contract.registered(type(model)).has_atoms:
        atoms, atom = first_atoms(key, model, data, start.assignments.size)
        model, latent = model._replace(n_atoms=atoms.shape[0]), make_atoms(data, atoms, atom)
        data = latent.seen
    table = make_table(start.parent.size)
    for above in start.parent[1:]:
        table, _ = add_child(table, above, next_ordinal(table, above))
    table.entity[: start.parent.size] = np.arange(start.parent.size)
    theta_width, _, statistics_width = contract.registered(type(model)).widths(model)
    theta = np.empty((start.parent.size, theta_width))
    nothing = np.empty((0, statistics_width))
    state = move_prune(State(table, start.assignments, theta, nothing, model, sticks, latent))
    state = sum_statistics(state, data, make_tasks(start.assignments.size))
    _estimate(model, state.table, state.statistics, state.theta)
    return move_sticks(key, state)


def first_state_elsewhere(
    key: Key, model: Any, sticks: Sticks, where: Shards, latent: Any = None
) -> State:
    """Return the same where data are in shards, all at the root, which is what labels say."""
    if latent is None and contract.registered(type(model)).has_atoms:
        atoms = atoms_elsewhere.first_atoms(key, model, where)
        model, latent = model._replace(n_atoms=atoms.shape[0]), atoms_alone(where.base, atoms)
    table = make_table(1)
    table.entity[0] = 0
    table.n_here[0] = where.n_data
    theta_width, _, statistics_width = contract.registered(type(model)).widths(model)
    theta, nothing = np.empty((1, theta_width)), np.empty((0, statistics_width))
    none = np.empty(0, dtype=np.int64)
    state = where.sum_statistics(State(table, none, theta, nothing, model, sticks, latent))
    _estimate(model, state.table, state.statistics, state.theta)
    return move_sticks(key, state)


@compiled
def _estimate(model: Any, table: NodeTable, statistics: Floats, theta: Floats) -> None:
    """Overwrite ``theta``, from the top down."""
    sums = statistics.copy()
    for node in range(theta.shape[0] - 1, 0, -1):
        for d in range(sums.shape[1]):
            sums[table.parent[node], d] += sums[node, d]
    childless = np.empty((0, theta.shape[1]))
    above = np.empty(0)
    for node in range(theta.shape[0]):
        if node > 0:
            above = theta[table.parent[node]]
        n_data = float(table.n_here[node] + table.n_below[node])
        contract.estimate(model, above, childless, n_data, sums[node], theta[node])
