"""Gibbs moves on the data's atoms, nodes as they are, and on the atoms themselves.

For models whose nodes hold measures (:mod:`treestick.diffusions.hdp`).

**Atoms of data**, one datum after the other. At node e, datum n has

    represented atom k    with probability proportional to    w[e, k] f(x | phi_k)
    an atom of the rest                                        w[e, rest] INT f(x | phi) dH(phi).

Rule 1. If nobody else has the datum's atom, the atom is forgotten first, with its weights, which
become part of the rest: datum, atom and weights are drawn anew together given all else.
Rule 2. An atom of the rest has the law H, whatever its node, since nobody has seen it. If it is
chosen, it is drawn from H given x, and its weights in all nodes given that it has this datum
(:func:`treestick.diffusions.hdp.represent_atom`). So an atom is born where a datum needs it, and
in many dimensions, where one from H would fit nobody.
Rule 3. Only births and deaths of atoms make one datum's draw depend on those before it. So where
data are in several places, they are visited in order, and what is handed on is :class:`Running`:
atoms, their weights and the number of their data, never the data.

**Atoms** given their data are drawn from their conjugate law.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from treestick import families
from treestick._jit import compiled
from treestick.diffusions import hdp
from treestick.diffusions.dirichlet import LEAST
from treestick.diffusions.hdp import Observed
from treestick.moves.places import with_atoms
from treestick.moves.state import Floats, Integers, State
from treestick.moves.tasks import add_up, block_size, nothing_waits, push
from treestick.random import (
    Key,
    Purpose,
    categorical,
    key_for,
    key_of_part,
    open_stream,
    reopen,
)
from treestick.tree.table import NULL, NodeTable

ROOM = 8
"""New atoms before more room is needed, which is doubled then."""


class Running(NamedTuple):
    """Atoms while data move, one after the other; there is room for more than there are."""

    log_weights: Floats
    """A row for each node."""
    log_rest: Floats
    atoms: Floats
    n_data_of: Integers
    """Of each atom; 0 where there is none."""


def move_atoms_of_data(key: Key, state: State, data: Observed) -> State:
    """Draw the atom of each datum; return the state with the atoms that data have.

    Statistics are left as they are: sum them anew.
    """
    latent, atom = state.latent, state.latent.atom.copy()
    n_data_of = np.bincount(atom, minlength=latent.atoms.shape[0])
    running = begin(state.theta, latent.atoms, n_data_of)
    running = move_along(key, state.model, data, 0, state.table, state.assignments, atom, running)
    theta, atoms, number = finish(running)
    return with_atoms(state._replace(theta=theta), data, atoms, number[atom])


def move_atoms(key: Key, state: State, data: Observed) -> State:
    """Draw all atoms given their data."""
    latent = state.latent
    n_data, n_atoms = latent.atom.size, latent.atoms.shape[0]
    statistics = sum_by_atom(data, latent.atom, n_atoms, n_data)
    return with_atoms(state, data, draw_given(key, data.base, statistics), latent.atom)


@compiled
def sum_by_atom(data: Observed, atom: Integers, n_atoms: int, n_data: int) -> Floats:
    """Return the statistics of each atom over some rows, block by block over the binary tree.

    ``n_data`` is the number of all data, here and elsewhere.
    """
    _, width = families.sizes(data.base)
    size = block_size(n_data)
    waiting, sums = nothing_waits(n_data, n_atoms * width), np.empty((n_atoms, width))
    for block in range((atom.size + size - 1) // size):
        sums[:] = 0.0
        for n in range(block * size, min((block + 1) * size, atom.size)):
            families.add_to_atom(data.base, data.values, n, sums[atom[n]])
        push(waiting, block, sums.reshape(-1))
    return add_up(waiting).reshape(n_atoms, width)


@compiled
def draw_given(key: Key, base: Any, statistics: Floats) -> Floats:
    """Return atoms drawn given the statistics of their data."""
    width, _ = families.sizes(base)
    atoms = np.empty((statistics.shape[0], width))
    own_key = key_of_part(key, 1)  # unseen atoms have those of part 0
    stream = open_stream(key)
    for k in range(atoms.shape[0]):
        reopen(stream, key_for(own_key, Purpose.ATOM, k))
        families.draw_atom_given(stream, base, statistics[k], atoms[k])
    return atoms


@compiled
def begin(theta: Floats, atoms_before: Floats, n_before: Integers) -> Running:
    """Return atoms, and how many data have each, with room for more."""
    n_nodes, n_atoms = theta.shape[0], atoms_before.shape[0]
    running = Running(
        np.full((n_nodes, n_atoms + ROOM), LEAST),
        np.empty(n_nodes),
        np.empty((n_atoms + ROOM, atoms_before.shape[1])),
        np.zeros(n_atoms + ROOM, dtype=np.int64),
    )
    for k in range(n_atoms):
        running.atoms[k] = atoms_before[k]
        running.n_data_of[k] = n_before[k]
        for node in range(n_nodes):
            running.log_weights[node, k] = theta[node, k]
    for node in range(n_nodes):
        running.log_rest[node] = theta[node, n_atoms]
    return running


@compiled
def move_along(
    key: Key,
    model: Any,
    data: Observed,
    first: int,
    table: NodeTable,
    assignments: Integers,
    atom: Integers,
    running: Running,
) -> Running:
    """Move data, one after the other; overwrite ``atom``, and what was running.

    ``first`` is the number of datum 0 among all that there are, here and elsewhere.
    """
    base = data.base
    log_weights, log_rest, atoms, n_data_of = running
    _, width = families.sizes(base)
    statistics = np.zeros(width)
    p = np.empty(n_data_of.size + 1)
    stream = open_stream(key)
    for n in range(atom.size):
        reopen(stream, key_for(key, Purpose.ATOM_OF_DATUM, first + n))
        node = assignments[n]
        n_data_of[atom[n]] -= 1
        if n_data_of[atom[n]] == 0:
            hdp.forget_atom(log_weights, log_rest, atom[n])
        largest = log_rest[node] + families.log_marginal(base, data.values, n)
        p[p.size - 1] = largest
        free = p.size - 1
        for k in range(p.size - 2, -1, -1):
            p[k] = -math.inf
            if n_data_of[k] == 0:
                free = k
            elif log_weights[node, k] > LEAST:
                p[k] = log_weights[node, k] + families.log_density(base, data.values, n, atoms[k])
                largest = max(largest, p[k])
        for k in range(p.size):
            p[k] = math.exp(p[k] - largest)
        chosen = categorical(stream, p)
        if chosen == p.size - 1:
            if free == p.size - 1:
                room = 2 * free
                log_weights = _wider(log_weights, room)
                atoms = np.concatenate((atoms, np.empty_like(atoms)))
                more = np.zeros(room, dtype=np.int64)
                more[:free] = n_data_of
                n_data_of, p = more, np.empty(room + 1)
            chosen = free
            statistics[:] = 0.0
            families.add_to_atom(base, data.values, n, statistics)
            families.draw_atom_given(stream, base, statistics, atoms[chosen])
            hdp.represent_atom(
                stream, model.concentration, model.persistence, table, node, log_weights,
                log_rest, chosen,
            )  # fmt: skip
        atom[n] = chosen
        n_data_of[chosen] += 1
    return Running(log_weights, log_rest, atoms, n_data_of)


@compiled
def _wider(rows: Floats, width: int) -> Floats:
    wider = np.full((rows.shape[0], width), LEAST)
    for k in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            wider[k, j] = rows[k, j]
    return wider


@compiled
def finish(running: Running) -> tuple[Floats, Floats, Integers]:
    """Return probabilities, atoms that data have, and the new number of each."""
    log_weights, log_rest, atoms, n_data_of = running
    number, n_atoms = np.full(n_data_of.size, NULL), 0
    for k in range(n_data_of.size):
        if n_data_of[k] > 0:
            number[k] = n_atoms
            n_atoms += 1
    theta = np.empty((log_rest.size, n_atoms + 1))
    kept = np.empty((n_atoms, atoms.shape[1]))
    for k in range(n_data_of.size):
        if n_data_of[k] > 0:
            kept[number[k]] = atoms[k]
            for node in range(log_rest.size):
                theta[node, number[k]] = log_weights[node, k]
    for node in range(log_rest.size):
        theta[node, n_atoms] = log_rest[node]
    return theta, kept, number
