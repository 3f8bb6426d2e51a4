"""Exact draws for the HDP model: a Chinese restaurant franchise on the tree, in plain Python.

Every datum sits down in the restaurant of its node: at a table with probability proportional to its
guests, at a new one to the concentration. A new table's dish is new with probability 1 -
persistence; else one guest is sent to the parent's restaurant, and brings back a dish. At the root
a new table has a new dish. Given all guests, probabilities of dishes are Dirichlet draws from the
top down (Teh et al. 2006). Nothing here is shared with the compiled code.
"""

from typing import Any

import numpy as np

from joint import Oracle, Rng, _between, counts_of, dense_counts, log_dirichlet
from treestick.diffusions.hdp import Atoms, Observed, make_atoms
from treestick.families.gaussian import NormalGamma
from treestick.families.multinomial import SymmetricDirichlet
from treestick.models.hdp import Measures
from treestick.moves.state import State
from treestick.tree.table import NodeTable


class Franchise:
    """The tables of all restaurants, with their dishes."""

    def __init__(self, rng: Rng, concentration: float, persistence: float, parent: Any) -> None:
        self.rng, self.concentration, self.persistence = rng, concentration, persistence
        self.parent = parent
        self.tables: list[list[list[int]]] = [[] for _ in parent]
        """Of each restaurant: [guests, dish]."""
        self.n_dishes = 0

    def seat(self, node: int) -> int:
        """Give a guest a table; return the dish."""
        tables = self.tables[node]
        guests = [table[0] for table in tables]
        p = np.array([*guests, self.concentration])
        chosen = int(self.rng.choice(p.size, p=p / p.sum()))
        if chosen < len(tables):
            tables[chosen][0] += 1
            return tables[chosen][1]
        if node == 0 or self.rng.random() < 1.0 - self.persistence:
            dish, self.n_dishes = self.n_dishes, self.n_dishes + 1
        else:
            dish = self.seat(int(self.parent[node]))
        tables.append([1, dish])
        return dish

    def guests(self) -> Any:
        """Return the guests of each dish in each restaurant."""
        result = np.zeros((len(self.tables), self.n_dishes))
        for node, tables in enumerate(self.tables):
            for n, dish in tables:
                result[node, dish] += n
        return result


def draw_weights(
    rng: Rng, concentration: float, persistence: float, parent: Any, guests: Any
) -> Any:
    """Draw log probabilities of all dishes and of the rest in all restaurants, given the guests."""
    n_nodes, n_dishes = guests.shape
    theta = np.full((n_nodes, n_dishes + 1), -1000.0)
    for node in range(n_nodes):
        shapes = np.zeros(n_dishes + 1)
        shapes[-1] = 1.0
        if node > 0:
            shapes = persistence * np.exp(theta[parent[node]]) + (1.0 - persistence) * shapes
        shapes *= concentration
        shapes[:-1] += guests[node]
        alive = shapes > 1e-280
        theta[node, alive] = log_dirichlet(rng, shapes[alive])
    return theta


class HdpOracle(Oracle):
    """The HDP model with Gaussian atoms in two dimensions, or multinomial ones."""

    def __init__(self, persistence: tuple[float, float] = (0.3, 0.9), counts: bool = False) -> None:
        super().__init__(2)
        self.persistence, self.counts = persistence, counts
        strength, rate = np.array([0.4, 0.7]), np.array([0.8, 0.5])
        self.base: Any = NormalGamma(np.array([0.3, -0.2]), strength, 2.5, rate, 0.0)
        if counts:
            self.base = SymmetricDirichlet(0.8, 2)

    def draw_model(self, rng: Rng) -> Measures:
        return Measures(
            float(_between(rng, 0.5, 4.0)), 0.5, 4.0,
            float(_between(rng, *self.persistence)), *self.persistence, 0,
        )  # fmt: skip

    def draw_atom(self, rng: Rng) -> Any:
        base: Any = self.base
        if self.counts:
            return np.log(rng.dirichlet(np.full(2, base.shape)))
        precision = rng.gamma(base.shape, 1.0 / base.rate)
        mean = base.centre + rng.normal(size=2) / np.sqrt(base.strength * precision)
        constant = 0.5 * np.sum(np.log(precision / (2.0 * np.pi)))
        return np.concatenate([mean, precision, [constant]])

    def draw_all(
        self, rng: Rng, model: Measures, table: NodeTable, n_nodes: int, assignments: Any
    ) -> tuple[Measures, Any, Any]:
        parent = table.parent[:n_nodes]
        franchise = Franchise(rng, model.concentration, model.persistence, parent)
        atom = np.array([franchise.seat(int(node)) for node in assignments], dtype=np.int64)
        theta = draw_weights(
            rng, model.concentration, model.persistence, parent, franchise.guests()
        )
        atoms = np.array([self.draw_atom(rng) for _ in range(franchise.n_dishes)])
        latent = Atoms(atoms, 0.0, atom, np.zeros(atom.size))
        return model._replace(n_atoms=len(atoms)), theta, latent

    def redraw_data(self, rng: Rng, state: State) -> tuple[State, Observed]:
        phi = state.latent.atoms[state.latent.atom]
        values: Any
        if self.counts:
            totals = (3 * np.arange(len(phi)) + 3) % 5
            p = np.exp(phi) / np.exp(phi).sum(axis=1, keepdims=True)
            values = counts_of([rng.multinomial(n, q) for n, q in zip(totals, p, strict=True)])
        else:
            values = phi[:, :2] + rng.normal(size=(len(phi), 2)) / np.sqrt(phi[:, 2:4])
        data = Observed(values, self.base)
        latent = make_atoms(data, state.latent.atoms, state.latent.atom)
        return state._replace(latent=latent), data

    def values(self, data: Observed) -> Any:
        return dense_counts(data.values, 2) if self.counts else data.values

    def compared(self, state: State) -> Any:
        """Return, of each node, the weight of the first datum's atom, and of the rest."""
        weights = np.exp(state.theta)
        return np.round(weights[:, [state.latent.atom[0], -1]], 9)

    def more(self, state: State) -> dict[str, float]:
        (atoms, _, atom, _), model, where = state.latent, state.model, state.assignments
        alive = state.theta[:, :-1] > -1000.0
        result = {
            "concentration": model.concentration,
            "atoms": len(atoms),
            "same_atom": int(atom[0] == atom[1]),
            "same_atom_elsewhere": int(atom[0] == atom[1] and where[0] != where[1]),
            "alive_at_root": int(alive[0].sum()),
            "alive_at_first": int(alive[where[0]].sum()),
            "nodes_alive": int(alive[:, atom[0]].sum()),
            "phi": float(atoms[atom[0], 0]),
            "phi_1": float(atoms[atom[1], 1]),
        }
        if model.persistence_low < model.persistence_high:
            result["persistence"] = model.persistence
        return result
