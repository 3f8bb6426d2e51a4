"""Moves of models whose nodes hold measures, where the data are elsewhere, in shards.

A shard has the atom of each of its data beside the node, and the density there. The atoms
themselves are here, with the measures of the nodes.

**Places** (:mod:`treestick.moves.places`): given the measures data are independent. Shards move
theirs, and answer which places have been taken, how often, and by whom first; the rest is decided
here.

**Atoms of data** (:mod:`treestick.moves.atoms`), and the first ones: one datum after the other,
because any of them may make an atom that those behind it can have. So one group of shards works
after the other, and hands on atoms and weights: as long as in one place, but no row is sent.

**Atoms** given their data: sums over the binary tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treestick.diffusions.hdp import Drawn, Observed, atoms_alone, log_densities
from treestick.moves import atoms as one_by_one
from treestick.moves import first_atoms as urns
from treestick.moves import places
from treestick.moves.assignments import Slots, Unseen
from treestick.moves.atoms import Running
from treestick.moves.first_atoms import Urn
from treestick.moves.shards import (
    FoundThere,
    Group,
    Placed,
    Shard,
    Shards,
    add_neighbours,
    find_in,
    join_found,
)
from treestick.moves.state import Floats, Integers, State
from treestick.random import Key
from treestick.tree.table import NodeTable

Taken = tuple[Integers, Integers, Integers]
"""Labels, places and numbers of data of what has been taken, in the order of who is first there."""


def first_atoms(key: Key, model: Any, shards: Shards) -> Floats:
    """Do what :func:`treestick.moves.first_atoms.first_atoms` does."""
    urn = shards.hand_on(urns.open_urn(key, shards.base), come_to_urn, model)
    atoms: Floats = urns.draw_all(shards.base, urn)
    shards.order(see_at, atoms)
    return atoms


def move_places(key: Key, state: State, shards: Shards) -> tuple[State, float]:
    """Do what :func:`treestick.moves.places.move_places` does, for all data."""
    answers = shards.ask(find_and_count, key, state)
    moved, new_labels = join_found(state, [found for found, _ in answers])
    rows = [new[labels] for new, (_, (labels, _, _)) in zip(new_labels, answers, strict=True)]
    taken, times = (np.concatenate([taken[k] for _, taken in answers]) for k in (1, 2))
    theta, atoms, atom = places.settle(
        key, moved, shards.base, np.concatenate(rows), taken, times.astype(np.float64)
    )
    each = np.split(atom, np.cumsum([own.size for own in rows])[:-1])
    shards.order(settle_at, atoms, own=list(zip(new_labels, each, strict=True)))
    n_tried = sum(found.n_tried for found, _ in answers)
    return _with_atoms(moved._replace(theta=theta), shards, atoms), n_tried / shards.n_data


def move_atoms_of_data(key: Key, state: State, shards: Shards) -> State:
    """Do what :func:`treestick.moves.atoms.move_atoms_of_data` does."""
    n_data_of = np.sum(shards.ask(count_atoms, state.model.n_atoms), axis=0)
    running = one_by_one.begin(state.theta, state.latent.atoms, n_data_of)
    running = shards.hand_on(running, move_along, key, state.model, state.table)
    theta, atoms, number = one_by_one.finish(running)
    shards.order(renumber_atoms, number, atoms)
    return _with_atoms(state._replace(theta=theta), shards, atoms)


def move_atoms(key: Key, state: State, shards: Shards) -> State:
    """Do what :func:`treestick.moves.atoms.move_atoms` does."""
    statistics = shards.add(shards.ask(sum_atoms, state.model.n_atoms))
    atoms = one_by_one.draw_given(key, shards.base, statistics)
    shards.order(see_at, atoms)
    return _with_atoms(state, shards, atoms)


def _with_atoms(state: State, shards: Shards, atoms: Floats) -> State:
    model = state.model._replace(n_atoms=atoms.shape[0])
    return state._replace(model=model, latent=atoms_alone(shards.base, atoms))


# -- questions -------------------------------------------------------------------------------------


def find_and_count(
    group: Group, n_data: int, key: Key, state: State
) -> list[tuple[FoundThere, Taken]]:
    """Move all data over nodes and atoms; return what was found, and what has been taken."""
    cut, edges = places.prepare_slicing(state)
    idle: list[Unseen] = []
    spare: list[Slots] = []
    answers = []
    for shard in group:
        found_at = shard.latent["numbers"].copy()
        assign = places.slicing(
            key, state, cut, edges, shard.rows(), shard.data, shard.first, shard.labels,
            found_at,
        )  # fmt: skip
        found = find_in(shard, state, (0, shard.labels.size), assign, idle, spare)
        _, first, which, times = np.unique(
            shard.labels * (found_at.max() + 1) + found_at,
            return_index=True, return_inverse=True, return_counts=True,
        )  # fmt: skip
        order = np.argsort(first)
        place_of = np.empty_like(order)
        place_of[order] = np.arange(order.size)
        shard.aside.clear()
        shard.aside["taken"] = place_of[which]
        first = first[order]
        answers.append((found, (shard.labels[first], found_at[first], times[order])))
    return answers


def count_atoms(group: Group, n_data: int, n_atoms: int) -> list[Integers]:
    """Return how many data have each atom."""
    return [np.bincount(shard.latent["numbers"], minlength=n_atoms) for shard in group]


def sum_atoms(group: Group, n_data: int, n_atoms: int) -> list[Placed | None]:
    """Return the statistics of each atom, those of neighbours together."""
    return add_neighbours(
        group,
        n_data,
        (
            one_by_one.sum_by_atom(shard.rows(), shard.latent["numbers"], n_atoms, n_data)
            for shard in group
        ),
        are_whole=False,
    )


# -- handed on from group to group -----------------------------------------------------------------


def come_to_urn(group: Group, n_data: int, model: Any, own: Sequence[Urn]) -> list[Urn | None]:
    """Let data come one by one."""
    urn: Urn = _copied(own[0])
    for shard in group:
        atom = np.empty(shard.labels.size, dtype=np.int64)
        urn = urns.come_one_by_one(model, shard.rows(), atom, urn)
        shard.latent["numbers"] = atom
    return [*[None] * (len(group) - 1), urn]


def move_along(
    group: Group, n_data: int, key: Key, model: Any, table: NodeTable, own: Sequence[Running]
) -> list[Running | None]:
    """Move the atoms of data, one after the other."""
    running: Running = _copied(own[0])
    for shard in group:
        running = one_by_one.move_along(
            key, model, shard.rows(), shard.first, table, shard.labels, shard.latent["numbers"],
            running,
        )  # fmt: skip
    return [*[None] * (len(group) - 1), running]


def _copied(handed: Any) -> Any:
    return type(handed)(*(array.copy() for array in handed))


# -- orders ----------------------------------------------------------------------------------------


def see_at(group: Group, n_data: int, atoms: Floats) -> list[None]:
    """Tell the atoms, of which each datum has one."""
    for shard in group:
        see(shard, shard.latent["numbers"], atoms)
    return [None] * len(group)


def settle_at(
    group: Group, n_data: int, atoms: Floats, own: Sequence[tuple[Integers, Integers]]
) -> list[None]:
    """Tell the rows of labels, the atoms, and which of them has been found at each place."""
    for shard, (new_label, atom) in zip(group, own, strict=True):
        shard.labels[:] = new_label[shard.labels]
        see(shard, atom[shard.aside.pop("taken")], atoms)
    return [None] * len(group)


def renumber_atoms(group: Group, n_data: int, number: Integers, atoms: Floats) -> list[None]:
    """Tell new numbers of the atoms, and the atoms."""
    for shard in group:
        see(shard, number[shard.latent["numbers"]], atoms)
    return [None] * len(group)


def see(shard: Shard, atom: Integers, atoms: Floats) -> None:
    """Let a shard have these atoms of its data."""
    data: Observed = shard.rows()
    shard.latent["numbers"] = atom
    shard.latent["seen"] = Drawn(atom, log_densities(data, atoms, atom), np.empty((0, 0)))
