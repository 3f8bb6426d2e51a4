"""The posterior sample, as users hold it: a lazy sequence of trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick import contract
from treestick._jit import deferred_interrupts
from treestick.chain import Swept
from treestick.estimators.lazy import Lazy
from treestick.moves.state import Floats, Integers, Sticks
from treestick.prior.urn import urn_mass
from treestick.store import DamagedRun, DrawRecord, RunFolder
from treestick.tree import Tree
from treestick.tree.table import NodeTable, count_data, make_table, next_ordinal, place_child

DescribeNodes = Callable[[Floats], Mapping[str, npt.ArrayLike]]
"""Takes theta of all nodes; returns the parameters that users see."""


class Mixture(NamedTuple):
    """What prediction needs of a draw."""

    table: NodeTable
    theta: Floats
    statistics: Floats
    """Of the data at nodes without children; 0 elsewhere."""
    model: Any
    sticks: Sticks
    atoms: Floats
    """What nodes share; no rows where their model has nothing such."""


def inferred(model: Any) -> list[str]:
    """Return the names of a model's hyperparameters: the fields that have bounds."""
    fields = model._fields
    return [name for name in fields if f"{name}_low" in fields]


def leaves_of(parent: Integers) -> Integers:
    """Return the nodes without children."""
    return np.setdiff1d(np.arange(parent.size), parent)


def to_record(chain: int, swept: Swept) -> DrawRecord:
    """Return what is stored of a chain after a sweep."""
    state, scores, info = swept.state, swept.scores, swept.info
    n_nodes = state.n_nodes
    values = {name: getattr(state.model, name) for name in inferred(state.model)}
    scalars = {
        "alpha0": state.sticks.alpha0,
        "decay": state.sticks.decay,
        "gamma": state.sticks.gamma,
        **{name: float(value) for name, value in values.items() if np.ndim(value) == 0},
        **({} if state.latent is None else state.latent.scalars),
        "n_nodes": float(n_nodes),
        "depth": float(state.table.depth[:n_nodes].max()),
        "log_likelihood": scores.data,
        "complete_data": scores.complete_data,
        "lp": scores.joint,
        "acceptance_rate": info.acceptance,
        "tries": info.tries,
        "n_candidates": float(info.n_candidates),
        **{
            f"{name}_accepted": sum(counted[1:]) / counted[0] if counted[0] else float("nan")
            for name, counted in info.structure.items()
        },
    }
    return DrawRecord(
        parent=state.table.parent[:n_nodes],
        assignments=state.assignments,
        theta=state.theta,
        scalars=scalars,
        vectors={
            **{name: value for name, value in values.items() if np.ndim(value) == 1},
            **({} if state.latent is None else {"atoms": state.latent.shared}),
        },
        chain=chain,
        sweep=swept.sweep,
        leaf_statistics=state.statistics[leaves_of(state.table.parent[:n_nodes])],
    )


def to_mixture(record: DrawRecord, model: Any, sticks: Sticks) -> Mixture:
    """Return a stored draw with its counts and hyperparameters.

    ``model`` and ``sticks`` give what does not change from draw to draw.
    """
    table = make_table(record.parent.size)
    for parent in record.parent[1:]:
        place_child(table, parent, next_ordinal(table, parent))
    count_data(table, record.assignments)
    found: dict[str, Any] = {**record.scalars, **record.vectors}
    atoms = record.vectors.get("atoms", np.empty((0, 0)))
    changed = {name: found[name] for name in inferred(model)}
    for name, value in changed.items():
        if np.shape(value) != np.shape(getattr(model, name)):
            raise DamagedRun(f"draw at sweep {record.sweep}: {name} has shape {np.shape(value)}")
    if "n_atoms" in model._fields:
        changed["n_atoms"] = atoms.shape[0]
    elif getattr(model, "is_measure", False):
        changed["n_outcomes"] = atoms.shape[0] + 1
    model = model._replace(**changed)
    width, _, statistics_width = contract.registered(type(model)).widths(model)
    leaves = leaves_of(record.parent)
    if (record.theta.shape[1], *record.leaf_statistics.shape) != (
        width,
        leaves.size,
        statistics_width,
    ):  # compiled code does not check
        raise DamagedRun(f"draw at sweep {record.sweep}: arrays have other sizes than the model's")
    statistics = np.zeros((record.parent.size, statistics_width))
    statistics[leaves] = record.leaf_statistics
    return Mixture(
        table,
        record.theta,
        statistics,
        model,
        sticks._replace(**{name: found[name] for name in ("alpha0", "decay", "gamma")}),
        atoms,
    )


def to_tree(record: DrawRecord, mixture: Mixture, describe: DescribeNodes) -> Tree:
    """Return a stored draw as users see it."""
    sticks = mixture.sticks
    mass = urn_mass(mixture.table, sticks.alpha0, sticks.decay, sticks.gamma)
    return Tree(
        record.parent,
        record.assignments,
        mass,
        describe(record.theta),
        record.scalars["complete_data"],
    )


def number_draws(store: RunFolder) -> tuple[Integers, Integers]:
    """Return of all draws there are now: their chain, and their number in it."""
    counts = store.n_per_chain()
    numbers = [np.arange(n) for n in counts]
    nothing = np.empty(0, dtype=np.int64)
    return np.repeat(np.arange(len(counts)), counts), np.concatenate([nothing, *numbers])


class Draws(Lazy[Tree]):
    """The posterior sample: all kept draws of all chains, one chain after the other.

    A sequence of :class:`~treestick.Tree`, read from disk when asked for. ``chain[k]`` is the
    chain that draw k comes from. ``len``, indices from either end, slices (lists of trees) and
    loops work as usual.
    """

    def __init__(
        self,
        store: RunFolder,
        model: Any,
        sticks: Sticks,
        describe: DescribeNodes,
        atom_width: int = 0,
    ) -> None:
        self._store, self._model, self._sticks, self._describe = store, model, sticks, describe
        self._atom_width = atom_width
        self.chain, self._draw = number_draws(store)

    def __len__(self) -> int:
        return int(self.chain.size)

    def _record(self, position: int) -> DrawRecord:
        chain = self._store.chain(int(self.chain[position]))
        record = chain.read(int(self._draw[position]))
        atoms = record.vectors.get("atoms", np.empty((0, 0)))
        if atoms.ndim != 2 or atoms.shape[1] != self._atom_width:  # compiled code does not check
            raise DamagedRun(f"{chain.path}: draw {self._draw[position]} has atoms of another size")
        return record

    def mixture(self, position: int) -> Mixture:
        """Return what prediction needs of one draw."""
        with deferred_interrupts():
            return to_mixture(self._record(position), self._model, self._sticks)

    def _read(self, number: int) -> Tree:
        with deferred_interrupts():
            record = self._record(number)
            mixture = to_mixture(record, self._model, self._sticks)
            return to_tree(record, mixture, self._describe)

    def __repr__(self) -> str:
        n_chains = len(np.unique(self.chain))
        return f"Draws: {len(self)} trees from {n_chains} chain{'s' * (n_chains != 1)}"
