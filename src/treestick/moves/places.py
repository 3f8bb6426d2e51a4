"""Slice sampling of the data's places: node and atom together.

For models whose nodes hold measures (:mod:`treestick.diffusions.hdp`). The part of (0, 1) that
belongs to a node is cut further, by the atoms of its measure: first those that are represented, in
their order, then the rest, by its sticks. Under a point u there is then one node and one atom of
it, both functions of u, the sticks and the key, and the move is that of
:mod:`treestick.moves.assignments` with the density f(x | atom under u): shrinkage towards the
datum's present place, which is an interval. It reaches every node and every atom there is, also
those that no datum has visited.

Rule 1. A point in the rest of a node is looked up: its stick, and where the stick leads.
Rule 2. Data that have come to atoms of the rest make these represented, and the probabilities of
all nodes are drawn anew given where everybody is (:func:`treestick.diffusions.hdp.settle`).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from treestick import families
from treestick._jit import compiled
from treestick.diffusions import hdp
from treestick.diffusions.hdp import Drawn, Observed
from treestick.moves import segments as unit_interval
from treestick.moves.assignments import (
    FULL,
    UNRESOLVED,
    Assign,
    Slots,
    Unseen,
    find_unseen,
    look_up_theta,
    search,
)
from treestick.moves.segments import STOP, Segments
from treestick.moves.state import Floats, Integers, State, Sticks
from treestick.moves.tasks import Run, Task
from treestick.random import (
    Key,
    Purpose,
    exponential,
    key_for,
    open_stream,
    reopen,
    uniform_open,
)
from treestick.tree.table import NULL


def move_places(
    key: Key,
    state: State,
    data: Observed,
    tasks: Sequence[Task],
    run: Run = map,
    spare: list[Slots] | None = None,
) -> tuple[State, float]:
    """Move the data of some tasks; return the state, pruned, and the mean number of tries.

    Parameters are those of :func:`treestick.moves.assignments.move_assignments`. Statistics are
    left as they are: sum them anew.
    """
    latent = state.latent
    places = latent.atom.copy()
    assign = slicing(
        key, state, *prepare_slicing(state), data, latent.seen, 0, state.assignments, places
    )
    moved, tries = search(state, tasks, assign, run, spare)
    theta, atoms, atom = settle(
        key, moved, data.base, moved.assignments, places, np.ones(places.size)
    )
    return with_atoms(moved._replace(theta=theta), data, atoms, atom), tries


def prepare_slicing(state: State) -> tuple[Segments, Floats]:
    """Return what all data need: the unit interval cut, and each node's part of it."""
    return unit_interval.cut(state.table, state.n_nodes), _edges(state.theta)


def slicing(
    key: Key,
    state: State,
    cut: Segments,
    edges: Floats,
    data: Observed,
    drawn: Drawn,
    first: int,
    assignments: Integers,
    places: Integers,
) -> Assign:
    """Return what moves data that are at these rows, and writes their atoms to ``places``.

    ``first`` is the number of datum 0 among all that there are, here and elsewhere.
    """

    def assign(unseen: Unseen, order: Integers, done: int, rows: Integers) -> tuple[int, int]:
        return _assign(
            key, state.model, data, first, state.latent.atoms, drawn, state.sticks, assignments,
            cut, edges, state.theta, unseen, order, done, rows, places,
        )  # fmt: skip

    return assign


def settle(
    key: Key, state: State, base: Any, rows: Integers, places: Integers, times: Floats
) -> tuple[Floats, Floats, Integers]:
    """See :func:`treestick.diffusions.hdp.settle`."""
    found: tuple[Floats, Floats, Integers] = hdp.settle(
        key, state.model.concentration, state.model.persistence, base, state.table, rows, places,
        times, state.theta, state.latent.atoms,
    )  # fmt: skip
    return found


def with_atoms(state: State, data: Observed, atoms: Floats, atom: Integers) -> State:
    """Return the state with other atoms, and the atom of each datum."""
    model = state.model._replace(n_atoms=atoms.shape[0])
    return state._replace(model=model, latent=hdp.make_atoms(data, atoms, atom))


@compiled
def _edges(theta: Floats) -> Floats:
    """Return where the parts of the atoms end within each node, and the rest begins."""
    n_nodes, n_atoms = theta.shape[0], theta.shape[1] - 1
    edges = np.empty((n_nodes, n_atoms + 1))
    for node in range(n_nodes):
        total = 0.0
        for k in range(n_atoms):
            edges[node, k] = total
            total += math.exp(theta[node, k])
        edges[node, n_atoms] = min(total, 1.0)
    return edges


@compiled
def _find_atom(edges: Floats, v: float) -> int:
    """Return which atom, or the rest, has the point ``v`` of a node."""
    low, high = 0, edges.size  # the last edge that is not beyond v
    while high - low > 1:
        middle = (low + high) // 2
        if edges[middle] <= v:
            low = middle
        else:
            high = middle
    return low


@compiled
def _rest(theta: Floats, unseen: Unseen, node: int) -> float:
    """Return the rest of a node of the hull, or of one that was looked up."""
    last = theta.shape[1] - 1
    if node < theta.shape[0]:
        return math.exp(theta[node, last])
    return math.exp(unseen.theta[unseen.slot[node], last])


@compiled
def _mass(model: Any, theta: Floats, unseen: Unseen, node: int) -> float:
    parent = unseen.table.parent[node]
    return hdp.mass_of_rest(
        model.concentration, model.persistence, parent == NULL,
        0.0 if parent == NULL else _rest(theta, unseen, parent),
    )  # fmt: skip


@compiled
def _find_in_rest(
    key: Key,
    model: Any,
    base: Any,
    theta: Floats,
    unseen: Unseen,
    node: int,
    v: float,
    phi: Floats,
) -> int:
    """Write the atom under a point ``v`` of a node's rest; return the stick that it is on."""
    table = unseen.table
    first = hdp.find_stick(key, table.entity[node], _mass(model, theta, unseen, node), v)
    ordinal = first
    while table.parent[node] != NULL:
        parent = table.parent[node]
        up = hdp.follow(
            key, model.persistence, table.entity[node], ordinal, _rest(theta, unseen, parent),
            table.entity[parent], _mass(model, theta, unseen, parent),
        )  # fmt: skip
        if up == NULL:
            break
        node, ordinal = parent, up
    hdp.draw_unseen_atom(key, base, table.entity[node], ordinal, phi)
    return first


@compiled
def _assign(
    key: Key,
    model: Any,
    data: Observed,
    first: int,
    atoms: Floats,
    drawn: Drawn,
    sticks: Sticks,
    assignments: Integers,
    cut: Segments,
    edges: Floats,
    theta: Floats,
    unseen: Unseen,
    order: Integers,
    done: int,
    rows: Integers,
    places: Integers,
) -> tuple[int, int]:
    """Move the data of ``order`` from ``done`` on; write their rows, and to ``places`` their atoms.

    An atom of the rest is the number of atoms plus the number of its stick. Return how many are
    done when one finds no room, or all, and the number of tries.
    """
    n_atoms = atoms.shape[0]
    n_tried = 0
    stream = open_stream(key)
    phi, own_edges = np.empty(atoms.shape[1]), np.empty(n_atoms + 1)
    while done < order.size:
        n = order[done]
        reopen(stream, key_for(key, Purpose.SLICE, first + n))
        node, place = assignments[n], drawn.atom[n]
        segment_now = cut.own[node]
        start = cut.edges[segment_now]
        span = cut.edges[segment_now + 1] - start
        first_now = start + span * edges[node, place]
        last_now = start + span * edges[node, place + 1]
        level = drawn.log_density[n] - exponential(stream)
        low, high = 0.0, 1.0
        tries = 0
        while True:
            tries += 1
            u = low + (high - low) * uniform_open(stream)
            if not low < u < high or first_now <= u <= last_now:
                break
            segment = unit_interval.find(cut.edges, u)
            if cut.kind[segment] == STOP:
                found = cut.row[segment]
                start = cut.edges[segment]
                v = (u - start) / (cut.edges[segment + 1] - start)
                own = edges[found]
            else:
                found, v = find_unseen(key, sticks, unseen.table, cut, segment, u)
                if found == FULL:
                    return done, n_tried
                if found == UNRESOLVED:
                    break
                slot = look_up_theta(key, model, theta, unseen, found)
                if slot == FULL:
                    return done, n_tried
                total = 0.0
                for k in range(n_atoms):
                    own_edges[k] = total
                    total += math.exp(unseen.theta[slot, k])
                own_edges[n_atoms] = min(total, 1.0)
                own = own_edges
            atom = _find_atom(own, v)
            if atom < n_atoms:
                value = families.log_density(data.base, data.values, n, atoms[atom])
            else:
                v = (v - own[n_atoms]) / (1.0 - own[n_atoms])
                atom += _find_in_rest(key, model, data.base, theta, unseen, found, v, phi)
                value = families.log_density(data.base, data.values, n, phi)
            if value >= level:
                node, place = found, atom
                break
            if u < first_now:
                low = u
            else:
                high = u
        rows[done] = node
        places[n] = place
        n_tried += tries
        done += 1
    return done, n_tried
