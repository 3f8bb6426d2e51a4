"""Random measures down the tree: the hierarchical Dirichlet process (paper, sec. 3, third example).

::

    G[root]  ~ DP(concentration * H)
    G[child] ~ DP(concentration * (persistence * G[parent] + (1 - persistence) * H))

A draw from DP is a measure on countably many atoms. Those that data have, the *represented* ones,
are rows of ``atoms``; all others together are the *rest*. On this partition of the space the
measures are probabilities of K + 1 outcomes, and by the definition of the process they go down the
tree by Dirichlet diffusion (:mod:`treestick.diffusions.dirichlet`): the base measure is 1 for the
rest, and for atoms it is H of a point, which is 0.

Rule 1. ``NOWHERE`` stands for this 0. Every represented atom comes from H in one node at least, its
*home*, and each time costs a factor ``NOWHERE``: a second time has no chance. Where the constant
would show, it is left out; all else is exact to a relative error of ``NOWHERE``. Above its home an
atom is dead. With persistence 1, all homes are the root.
Rule 2. Given the probabilities of the partition, what G[e] is within the rest, R[e], is

    R[root] ~ DP(concentration * H),    R[e] ~ DP(A * B),
    A = concentration * (persistence * r + 1 - persistence),    B ~ persistence * r * R[parent]
        + (1 - persistence) * H,

for rests r of the parent, normalised. No datum has seen it, so it is a function of the sweep's key:
sticks Beta(1, A), and for each a *link*, which leads to H, or to a point of R[parent] and so to one
of its sticks. Whoever needs an atom of the rest looks it up, the same for every datum and thread.
There is no truncation: sticks are broken, and links followed, as far as a datum needs.
Rule 3. Sticks are tables. When data come to atoms of the rest, the sticks that they are on, and
those that these lead to, are tables with known customers; represented atoms get tables as ever
(:func:`treestick.diffusions.dirichlet.seat`); and given all tables, the probabilities of the new
partition are drawn anew (:func:`settle`). Sticks and lengths that nobody is on are forgotten.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick import families
from treestick._jit import compiled
from treestick.diffusions import dirichlet
from treestick.diffusions.dirichlet import LEAST, SMALLEST, Base
from treestick.prior.sticks import stick
from treestick.random import (
    Key,
    Purpose,
    Stream,
    child_entity,
    key_for,
    key_of_part,
    log_beta,
    open_stream,
    uniform,
)
from treestick.tree.table import NULL, NodeTable

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

NOWHERE = 1e-250
RESOLUTION = 2.0**-53
UPDATING, MOVING, SETTLING = 0, 1, 2
"""Parts of the randomness of a sweep: each draws tables and probabilities by itself."""


class Observed(NamedTuple):
    """Data, and the law of what they are drawn from."""

    values: Any
    """In the form of the family."""
    base: Any
    """H: the named tuple that the functions of a family are chosen by."""


class Drawn(NamedTuple):
    """Data as nodes see them: one draw each from a measure."""

    atom: Integers
    log_density: Floats
    """Of each datum at its atom; or, if that is not known, what is taken out of ``densities``."""
    densities: Floats
    """Of data whose atoms are not known: at each atom, and at one drawn from H; else no rows."""


class Atoms(NamedTuple):
    """What a state holds beside the nodes: atoms, and which of them each datum has."""

    atoms: Floats
    log_prior: float
    """Of all atoms under H."""
    atom: Integers
    """Of each datum: a row of ``atoms``,"""
    log_density: Floats
    """and its log density there."""

    @property
    def log_data(self) -> float:
        """Of what nodes do not see of the data: there is nothing."""
        return 0.0

    @property
    def scalars(self) -> dict[str, float]:
        """What is kept of a draw beside the atoms."""
        return {"n_atoms": float(self.atoms.shape[0])}

    @property
    def shared(self) -> Floats:
        """What nodes share: the atoms."""
        return self.atoms

    @property
    def seen(self) -> Drawn:
        """The data as nodes see them."""
        return Drawn(self.atom, self.log_density, np.empty((0, 0)))


def make_atoms(data: Observed, atoms: Floats, atom: Integers) -> Atoms:
    """Return atoms with their densities."""
    return Atoms(atoms, log_prior(data.base, atoms), atom, log_densities(data, atoms, atom))


def atoms_alone(base: Any, atoms: Floats) -> Atoms:
    """Return the same where the data are elsewhere, and with them their atoms and densities."""
    none = np.empty(0, dtype=np.int64)
    return Atoms(atoms, log_prior(base, atoms), none, np.empty(0))


@compiled
def log_prior(base: Any, atoms: Floats) -> float:
    """Return the log density of all atoms under H."""
    total = 0.0
    for k in range(atoms.shape[0]):
        total += families.log_atom(base, atoms[k])
    return total


@compiled
def log_densities(data: Observed, atoms: Floats, atom: Integers) -> Floats:
    """Return the log density of each datum at its atom."""
    found = np.empty(atom.size)
    for n in range(atom.size):
        found[n] = families.log_density(data.base, data.values, n, atoms[atom[n]])
    return found


@compiled
def see_without_atoms(data: Observed, n_data: int, atoms: Floats) -> Drawn:
    """Return data whose atoms are not known: densities, relative to the largest of each."""
    n_atoms = atoms.shape[0]
    drawn = Drawn(np.full(n_data, NULL), np.empty(n_data), np.empty((n_data, n_atoms + 1)))
    for n in range(n_data):
        row = drawn.densities[n]
        for k in range(n_atoms):
            row[k] = families.log_density(data.base, data.values, n, atoms[k])
        row[n_atoms] = families.log_marginal(data.base, data.values, n)
        largest = -math.inf
        for w in range(n_atoms + 1):
            largest = max(largest, row[w])
        drawn.log_density[n] = largest
        for w in range(n_atoms + 1):
            row[w] = math.exp(row[w] - largest)
    return drawn


@compiled
def base_measure(n_atoms: int) -> Base:
    """Return the base measure on atoms and rest."""
    return Base(NOWHERE, n_atoms, 1.0, True)


# -- homes -----------------------------------------------------------------------------------------


@compiled
def draw_homes(
    stream: Stream,
    concentration: float,
    persistence: float,
    table: NodeTable,
    counts: Floats,
    customers: Floats,
) -> None:
    """Gibbs move on the homes of atoms, given all tables; overwrite ``customers``.

    ``counts`` are the data of each atom at each node, ``customers`` those and the tables of
    children. Let c be the lowest node through whose one table all that an atom has goes up: above
    it, up to the home, the atom has one customer and one table in each node. So the home could be
    c or any of its ancestors a_1, a_2, ..., the root being the last. With all probabilities
    integrated out, and N customers of other atoms at each ancestor, the home is a_j with
    probability proportional to

        prod over i = 1..j of [persistence * concentration / (concentration + N[a_i])]

    times 1 - persistence unless it is the root: each table passes, and opens a table above. Without
    this move, an atom that is dead in a node would remain so, because nothing passes there.
    """
    if persistence == 1.0:
        return
    n_nodes, n_atoms = customers.shape[0], customers.shape[1] - 1
    totals, deepest = np.zeros(n_nodes), 0
    for node in range(n_nodes):
        deepest = max(deepest, table.depth[node])
        for w in range(n_atoms):
            totals[node] += customers[node, w]
    weights = np.empty(deepest + 1)
    for w in range(n_atoms):
        low = 0
        while customers[low, w] == 0.0:  # rows are depth first: the first is the home
            low += 1
        while counts[low, w] == 0.0 and customers[low, w] == 1.0:
            child = table.first_child[low]
            while child >= n_nodes or customers[child, w] == 0.0:
                child = table.next_sibling[child]
            low = child
        node = table.parent[low]
        while node != NULL and customers[node, w] > 0.0:
            customers[node, w] = 0.0
            totals[node] -= 1.0
            node = table.parent[node]
        node, reached, j = table.parent[low], 1.0, 0
        weights[0] = 1.0 if low == 0 else 1.0 - persistence
        while node != NULL:
            j += 1
            reached *= persistence * concentration / (concentration + totals[node])
            weights[j] = reached * (1.0 if node == 0 else 1.0 - persistence)
            node = table.parent[node]
        total = 0.0
        for i in range(j + 1):
            total += weights[i]
        dart = uniform(stream) * total
        node = low
        for i in range(j):
            dart -= weights[i]
            if dart < 0.0:
                break
            node = table.parent[node]
            customers[node, w] = 1.0
            totals[node] += 1.0


# -- atoms of the rest -----------------------------------------------------------------------------


@compiled
def mass_of_rest(concentration: float, persistence: float, is_root: bool, above: float) -> float:
    """Return A of rule 2 for a node, given the rest of its parent."""
    if is_root:
        return concentration
    return max(concentration * (persistence * above + 1.0 - persistence), SMALLEST)


@compiled
def find_stick(key: Key, entity: int, mass: float, v: float) -> int:
    """Return which stick of a node's rest the point ``v`` of (0, 1) is on.

    Sticks beyond the 53 bits of ``v`` count as the last before them.
    """
    stream = open_stream(key_for(key, Purpose.ATOM_STICKS, entity))
    distance, left_over, ordinal = 1.0 - v, 1.0, 0
    while True:
        behind = left_over * (1.0 - stick(stream, mass))
        if distance > behind or behind < RESOLUTION:
            return ordinal
        left_over = behind
        ordinal += 1


@compiled
def follow(
    key: Key,
    persistence: float,
    entity: int,
    ordinal: int,
    above: float,
    entity_above: int,
    mass_above: float,
) -> int:
    """Return to which stick of its parent a stick of a node leads; NULL if its atom is from H.

    ``above`` is the rest of the parent, and the last two are the parent's.
    """
    own = child_entity(key, entity, ordinal)
    stream = open_stream(key_for(key, Purpose.ATOM_LINK, own))  # type: ignore[arg-type]
    from_base = 1.0 - persistence
    if uniform(stream) * (persistence * above + from_base) < from_base:
        return NULL
    return find_stick(key, entity_above, mass_above, uniform(stream))


@compiled
def draw_unseen_atom(key: Key, base: Any, entity: int, ordinal: int, phi: Floats) -> None:
    """Write the atom that comes from H on a stick of the node with this entity."""
    own = child_entity(key, entity, ordinal)
    stream = open_stream(key_for(key, Purpose.ATOM, own))  # type: ignore[arg-type]
    families.draw_atom(stream, base, phi)


@compiled
def settle(
    key: Key,
    concentration: float,
    persistence: float,
    base: Any,
    table: NodeTable,
    assignments: Integers,
    places: Integers,
    times: Floats,
    theta: Floats,
    atoms: Floats,
) -> tuple[Floats, Floats, Integers]:
    """Return probabilities, atoms, and the atom of each datum, after data have moved (rule 3).

    ``places`` are atoms or, from their number K on, K more than a stick of the rest of the datum's
    node. Atoms without data are forgotten. Data at the same place of the same node may be told as
    one, ``times`` being their number: what comes out depends on who is the first at each place.
    """
    n_nodes, n_before = theta.shape[0], atoms.shape[0]
    n_moved, deepest = 0, 0
    for n in range(places.size):
        n_moved += places[n] >= n_before
    for node in range(n_nodes):
        deepest = max(deepest, table.depth[node])
    room = n_moved * (deepest + 1)
    row, ordinal = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    atom, link = np.full(room, NULL), np.full(room, NULL)
    new = np.empty(n_moved, dtype=np.int64)  # the stick on which a new atom comes from H
    n_sticks, n_new = 0, 0
    stick_of = np.full(places.size, NULL)
    head, after = np.full(n_nodes, NULL), np.empty(room, dtype=np.int64)  # sticks of each node
    for n in range(places.size):
        if places[n] < n_before:
            continue
        node, j = assignments[n], places[n] - n_before
        below = NULL
        while True:
            s = head[node]
            while s != NULL and ordinal[s] != j:
                s = after[s]
            is_known = s != NULL
            if not is_known:
                s = n_sticks
            if below == NULL:
                stick_of[n] = s
            else:
                link[below] = s
            if is_known:
                break
            row[s], ordinal[s] = node, j
            after[s], head[node] = head[node], s
            n_sticks += 1
            parent = table.parent[node]
            up = NULL
            if parent != NULL:
                grand = table.parent[parent]
                mass = mass_of_rest(
                    concentration, persistence, grand == NULL,
                    0.0 if grand == NULL else math.exp(theta[grand, n_before]),
                )  # fmt: skip
                up = follow(
                    key, persistence, table.entity[node], j, math.exp(theta[parent, n_before]),
                    table.entity[parent], mass,
                )  # fmt: skip
            if up == NULL:
                new[n_new] = s
                atom[s] = n_before + n_new
                n_new += 1
                break
            below, node, j = s, parent, up
    customers = np.zeros((n_nodes, n_before + n_new + 1))
    for s in range(n_sticks):
        top = s
        while atom[top] == NULL:
            top = link[top]
        atom[s] = atom[top]
        if link[s] != NULL:
            customers[row[link[s]], atom[s]] += 1.0
    found = np.empty(places.size, dtype=np.int64)
    seated = np.zeros((n_nodes, n_before + 1))
    is_used = np.zeros(n_before + n_new, dtype=np.bool_)
    for n in range(places.size):
        if places[n] < n_before:
            found[n] = places[n]
            seated[assignments[n], places[n]] += times[n]
        else:
            found[n] = atom[stick_of[n]]
            customers[assignments[n], found[n]] += times[n]
        is_used[found[n]] = True
    own_key = key_of_part(key, SETTLING)
    dirichlet.seat(
        own_key, concentration, persistence, base_measure(n_before), table, theta, seated
    )
    new_number, n_atoms = np.full(is_used.size, NULL), 0
    for k in range(is_used.size):
        if is_used[k]:
            new_number[k] = n_atoms
            n_atoms += 1
    new_atoms = np.empty((n_atoms, atoms.shape[1]))
    kept = np.zeros((n_nodes, n_atoms + 1))
    for k in range(is_used.size):
        if is_used[k]:
            if k < n_before:
                new_atoms[new_number[k]] = atoms[k]
            else:
                s = new[k - n_before]
                draw_unseen_atom(
                    key, base, table.entity[row[s]], ordinal[s], new_atoms[new_number[k]]
                )
            for node in range(n_nodes):
                kept[node, new_number[k]] = customers[node, k]
                if k < n_before:
                    kept[node, new_number[k]] += seated[node, k]
    for n in range(places.size):
        found[n] = new_number[found[n]]
    new_theta = np.empty((n_nodes, n_atoms + 1))
    dirichlet.draw_all(
        own_key, concentration, persistence, base_measure(n_atoms), table, kept, new_theta
    )
    return new_theta, new_atoms, found


# -- one atom more or less -------------------------------------------------------------------------


@compiled
def forget_atom(log_weights: Floats, log_rest: Floats, k: int) -> None:
    """Let an atom become part of the rest, in all nodes."""
    for node in range(log_rest.size):
        low, high = log_weights[node, k], log_rest[node]
        if low > high:
            low, high = high, low
        log_rest[node] = high + math.log1p(math.exp(low - high))
        log_weights[node, k] = LEAST


@compiled
def represent_atom(
    stream: Stream,
    concentration: float,
    persistence: float,
    table: NodeTable,
    place: int,
    log_weights: Floats,
    log_rest: Floats,
    k: int,
) -> None:
    """Draw the weights of an atom of the rest of which one datum, at ``place``, is known.

    The datum is the first customer in the rest of its node. Its table leads to H with probability
    (1 - persistence) / (persistence * r + 1 - persistence), else it is the first customer in the
    rest of the parent, and so on up to the home. There, the atom's share of the rest is
    Beta(1, A); below, what the parent has got splits each node's rest as in the Dirichlet law, with
    one customer more on the way to the datum.
    """
    n_nodes = log_rest.size
    n_customers = np.zeros(n_nodes)
    home = place
    n_customers[home] = 1.0
    while home != 0:
        from_parent = persistence * math.exp(log_rest[table.parent[home]])
        if uniform(stream) * (from_parent + 1.0 - persistence) < 1.0 - persistence:
            break
        home = table.parent[home]
        n_customers[home] = 1.0
    for node in range(n_nodes):
        log_weights[node, k] = LEAST
        parent = table.parent[node]
        if node == home:
            a = 1.0
            b = mass_of_rest(
                concentration, persistence, node == 0,
                0.0 if node == 0 else math.exp(log_rest[parent]),
            )  # fmt: skip
        elif parent != NULL and log_weights[parent, k] > LEAST:
            a = concentration * persistence * math.exp(log_weights[parent, k])
            a = max(a, SMALLEST) + n_customers[node]
            b = mass_of_rest(concentration, persistence, False, math.exp(log_rest[parent]))
        else:
            continue
        log_share, log_others = log_beta(stream, a, b)
        log_weights[node, k] = max(log_rest[node] + log_share, LEAST)
        log_rest[node] = max(log_rest[node] + log_others, LEAST)
