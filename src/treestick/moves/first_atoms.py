"""The first atoms of data, for models whose nodes hold measures.

Data come one by one to a Dirichlet process. A chain forgets where it began, so this need not be
right; but one that begins with an atom for each group of data saves many sweeps. Where data are in
several places, they come in order, and the urn is handed on.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from treestick import families
from treestick._jit import compiled
from treestick.diffusions.hdp import Observed
from treestick.moves.state import Floats, Integers
from treestick.random import Key, Purpose, Stream, categorical, key_for, open_stream

ROOM = 8
"""Atoms before more room is needed, which is doubled then."""


class Urn(NamedTuple):
    """Atoms while data come one by one; there is room for more than there are."""

    atoms: Floats
    counts: Floats
    statistics: Floats
    n_atoms: Integers
    """One number: how many there are."""
    stream: Stream


def first_atoms(key: Key, model: Any, data: Observed, n_data: int) -> tuple[Floats, Integers]:
    """Return atoms, and one for each datum: the data come one by one to a Dirichlet process.

    An atom is drawn anew each time that the number of its data has doubled.
    """
    atom = np.empty(n_data, dtype=np.int64)
    urn = come_one_by_one(model, data, atom, open_urn(key, data.base))
    return draw_all(data.base, urn), atom


@compiled
def open_urn(key: Key, base: Any) -> Urn:
    """Return an urn without atoms."""
    width, statistics_width = families.sizes(base)
    return Urn(
        np.empty((ROOM, width)),
        np.zeros(ROOM),
        np.zeros((ROOM, statistics_width)),
        np.zeros(1, dtype=np.int64),
        open_stream(key_for(key, Purpose.ATOM, 0)),
    )


@compiled
def come_one_by_one(model: Any, data: Observed, atom: Integers, urn: Urn) -> Urn:
    """Write the atom of each datum; return the urn after them, and overwrite it as it was."""
    base, values, stream = data.base, data.values, urn.stream
    atoms, counts, statistics, n_atoms = urn.atoms, urn.counts, urn.statistics, urn.n_atoms[0]
    for n in range(atom.size):
        if n_atoms == counts.size:
            atoms = np.concatenate((atoms, np.empty_like(atoms)))
            counts = np.concatenate((counts, np.zeros_like(counts)))
            statistics = np.concatenate((statistics, np.zeros_like(statistics)))
        log_p = np.empty(n_atoms + 1)
        for k in range(n_atoms):
            log_p[k] = math.log(counts[k]) + families.log_density(base, values, n, atoms[k])
        log_p[n_atoms] = math.log(model.concentration) + families.log_marginal(base, values, n)
        chosen = categorical(stream, np.exp(log_p - log_p.max()))
        n_atoms += chosen == n_atoms
        atom[n] = chosen
        counts[chosen] += 1.0
        families.add_to_atom(base, values, n, statistics[chosen])
        count = int(counts[chosen])
        if count & (count - 1) == 0:
            families.draw_atom_given(stream, base, statistics[chosen], atoms[chosen])
    urn.n_atoms[0] = n_atoms
    return Urn(atoms, counts, statistics, urn.n_atoms, stream)


@compiled
def draw_all(base: Any, urn: Urn) -> Floats:
    """Return all atoms, drawn given their data."""
    atoms = np.empty((urn.n_atoms[0], urn.atoms.shape[1]))
    for k in range(atoms.shape[0]):
        families.draw_atom_given(urn.stream, base, urn.statistics[k], atoms[k])
    return atoms
