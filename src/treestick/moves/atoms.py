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

**Atoms** given their data are drawn from their conjugate law.
"""

import math
from typing import Any

import numpy as np

from treestick import families
from treestick._jit import compiled
from treestick.diffusions import hdp
from treestick.diffusions.dirichlet import LEAST
from treestick.diffusions.hdp import Observed
from treestick.moves.places import with_atoms
from treestick.moves.state import Floats, Integers, State
from treestick.random import (
    Key,
    Purpose,
    categorical,
    key_for,
    key_of_part,
    open_stream,
    reopen,
)
from treestick.tree.table import NodeTable

ROOM = 8
"""New atoms before more room is needed, which is doubled then."""


def move_atoms_of_data(key: Key, state: State, data: Observed) -> State:
    """Draw the atom of each datum; return the state with the atoms that data have.

    Statistics are left as they are: sum them anew.
    """
    theta, atoms, atom = _move(
        key, state.model, data, state.latent.atoms, state.latent.atom, state.table,
        state.assignments, state.theta,
    )  # fmt: skip
    return with_atoms(state._replace(theta=theta), data, atoms, atom)


def move_atoms(key: Key, state: State, data: Observed) -> State:
    """Draw all atoms given their data."""
    atoms = _draw(key, data, state.latent.atoms, state.latent.atom)
    return with_atoms(state, data, atoms, state.latent.atom)


@compiled
def _draw(key: Key, data: Observed, before: Floats, atom: Integers) -> Floats:
    n_atoms = before.shape[0]
    _, width = families.sizes(data.base)
    statistics = np.zeros((n_atoms, width))
    for n in range(atom.size):
        families.add_to_atom(data.base, data.values, n, statistics[atom[n]])
    atoms = np.empty(before.shape)
    own_key = key_of_part(key, 1)  # unseen atoms have those of part 0
    stream = open_stream(key)
    for k in range(n_atoms):
        reopen(stream, key_for(own_key, Purpose.ATOM, k))
        families.draw_atom_given(stream, data.base, statistics[k], atoms[k])
    return atoms


@compiled
def _move(
    key: Key,
    model: Any,
    data: Observed,
    atoms_before: Floats,
    atom_before: Integers,
    table: NodeTable,
    assignments: Integers,
    theta: Floats,
) -> tuple[Floats, Floats, Integers]:
    """Return probabilities, atoms and the atom of each datum."""
    base, n_data = data.base, atom_before.size
    n_nodes, n_atoms = theta.shape[0], atoms_before.shape[0]
    _, width = families.sizes(base)
    log_weights = np.full((n_nodes, n_atoms + ROOM), LEAST)
    log_rest = np.empty(n_nodes)
    atoms = np.empty((n_atoms + ROOM, atoms_before.shape[1]))
    n_data_of = np.zeros(n_atoms + ROOM, dtype=np.int64)
    for k in range(n_atoms):
        atoms[k] = atoms_before[k]
        for node in range(n_nodes):
            log_weights[node, k] = theta[node, k]
    for node in range(n_nodes):
        log_rest[node] = theta[node, n_atoms]
    atom = atom_before.copy()
    for n in range(n_data):
        n_data_of[atom[n]] += 1
    statistics = np.zeros(width)
    p = np.empty(n_data_of.size + 1)
    stream = open_stream(key)
    for n in range(n_data):
        reopen(stream, key_for(key, Purpose.ATOM_OF_DATUM, n))
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
    return _without_unused(log_weights, log_rest, atoms, n_data_of, atom)


@compiled
def _wider(rows: Floats, width: int) -> Floats:
    wider = np.full((rows.shape[0], width), LEAST)
    for k in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            wider[k, j] = rows[k, j]
    return wider


@compiled
def _without_unused(
    log_weights: Floats, log_rest: Floats, atoms: Floats, n_data_of: Integers, atom: Integers
) -> tuple[Floats, Floats, Integers]:
    """Return probabilities, atoms and the atom of each datum, atoms numbered anew."""
    number, n_atoms = np.empty(n_data_of.size, dtype=np.int64), 0
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
    for n in range(atom.size):
        atom[n] = number[atom[n]]
    return theta, kept, atom
