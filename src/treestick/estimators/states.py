"""What a run stores of trees beside draws, and whether what is read from it can be trusted.

Compiled code does not check the arrays that it is given. What comes from a file is checked here:
a file that somebody has changed is refused, and cannot make compiled code read or write beyond an
array.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treestick import contract, families
from treestick.diffusions.hdp import Atoms
from treestick.estimators.counts import CountUnits
from treestick.estimators.topic_states import counts_fit
from treestick.lanes import padded
from treestick.moves.shards import Shards
from treestick.moves.state import State, Sticks
from treestick.store import DamagedRun
from treestick.store.values import arrays_of
from treestick.tokens.collapsed import TopicCounts
from treestick.tokens.documents import Documents
from treestick.tokens.latent import TokenTopics
from treestick.tree.table import NodeTable, check

OF_DATA = ("totals", "n_rows")
"""Arrays of constants on the data; all others have a value for each feature."""


class Constants(NamedTuple):
    """What the draws of a run share."""

    model: Any
    units: Any
    sticks: Sticks


STORED_TYPES: tuple[type, ...] = (
    State, NodeTable, Sticks, Atoms, Constants, TokenTopics, TopicCounts
)  # fmt: skip


def check_constants(constants: Any, n_features: int, n_outcomes: int | None = None) -> None:
    """Raise if constants that were read do not fit together.

    A model of counts has as many outcomes as there are features, unless their number is given.
    """
    if not isinstance(constants, Constants):
        raise DamagedRun("the run's constants are not those of a tree")
    for path, array in arrays_of(constants).items():
        if path.rpartition(".")[2] in OF_DATA:
            is_right = bool(array.ndim == 1 and array.size > 0 and (array >= 0).all())
        else:
            is_right = array.ndim > 0 and set(array.shape) == {n_features}
        if not is_right:
            raise DamagedRun(f"{path} has shape {array.shape}, with {n_features} features")
    for units in (constants.units, getattr(constants.units, "form", None)):
        if isinstance(units, CountUnits) and units.totals.shape != units.n_rows.shape:
            raise DamagedRun(
                f"the run has {units.totals.size} sums of rows, and numbers of rows of "
                f"{units.n_rows.size}"
            )
    wanted = n_features if n_outcomes is None else n_outcomes
    found = getattr(constants.model, "n_outcomes", wanted)
    if found != wanted:
        raise DamagedRun(f"the model has {found} outcomes, not {wanted}")


def check_state(state: Any, model: Any, data: Any, n_data: int) -> None:
    """Raise if a state that was read is not one of ``model`` with these data."""
    _raise(_fault(state, model, data, n_data))


def check_nodes_elsewhere(state: Any, model: Any, base: Any, n_words: int | None) -> None:
    """Raise if a state that was read is not one of ``model``, its data being elsewhere.

    ``base`` is the law of new atoms; ``n_words`` how many words there are, if data are documents.
    """
    fault = _fault_of_nodes(state, model)
    if fault is None:
        has_atoms = contract.registered(type(model)).has_atoms
        if n_words is not None:
            fault = _fault_of_words(state, n_words)
        elif (state.latent is not None) != has_atoms:
            fault = "it has atoms where there are none, or none where there are"
        elif has_atoms:
            fault = _fault_of_atoms(state, base)
    _raise(fault)


def check_counts_elsewhere(state: State, where: Shards) -> None:
    """Raise if a state is not that of the labels."""
    counts, n_nodes = where.count(int(state.table.size[0])), state.n_nodes
    is_right = not counts[n_nodes:].any() and np.array_equal(
        counts[:n_nodes], state.table.n_here[:n_nodes]
    )
    _raise(None if is_right else "the data are not counted right")


def _raise(fault: str | None) -> None:
    if fault is not None:
        raise DamagedRun(f"the state of a chain cannot be gone on from: {fault}")


def _fault(state: Any, model: Any, data: Any, n_data: int) -> str | None:
    fault = _fault_of_nodes(state, model)
    if fault is not None:
        return fault
    nodes, n_nodes = state.assignments, state.n_nodes
    if nodes.shape != (n_data,) or not 0 <= nodes.min() <= nodes.max() < n_nodes:
        return "data are at nodes that are not there"
    if not np.array_equal(np.bincount(nodes, minlength=n_nodes), state.table.n_here[:n_nodes]):
        return "the data are not counted right"
    if isinstance(data, Documents):
        return _fault_of_topics(state, data)
    if (state.latent is not None) != contract.registered(type(model)).has_atoms:
        return "it has atoms where there are none, or none where there are"
    if state.latent is None:
        return None
    return _fault_of_atoms(state, data.base) or _fault_of_places(state.latent, n_data)


def _fault_of_nodes(state: Any, model: Any) -> str | None:
    if not isinstance(state, State) or type(state.model) is not type(model):
        return "it is of another model"
    shapes, wanted = ({p: a.shape for p, a in arrays_of(m).items()} for m in (state.model, model))
    if shapes != wanted:
        return "the hyperparameters have other shapes"
    try:
        check(state.table)
    except AssertionError as error:
        return str(error)
    width, _, statistics_width = contract.registered(type(model)).widths(state.model)
    n_nodes = state.theta.shape[0] if state.theta.ndim == 2 else 0
    if not (1 <= n_nodes <= state.table.size[0] and state.theta.shape == (n_nodes, width)):
        return "the parameters have another shape"
    if state.statistics.shape != (n_nodes, statistics_width):
        return "the statistics have another shape"
    return None


def _fault_of_topics(state: State, documents: Documents) -> str | None:
    latent = state.latent
    if not isinstance(latent, TokenTopics):
        return "it has no topics of tokens"
    n_columns = latent.n_topics + state.model.is_measure
    if state.model.n_outcomes != n_columns:
        return "the topics are not as many as the model has"
    fits = counts_fit(latent.counts, latent.topics, documents, latent.n_topics, padded(n_columns))
    return None if fits else "the topics are not those of these documents"


def _fault_of_words(state: State, n_words: int) -> str | None:
    """Return what is wrong with topics of which documents elsewhere have their part."""
    latent = state.latent
    if not isinstance(latent, TokenTopics) or not isinstance(latent.counts, TopicCounts):
        return "it has no topics of tokens"
    if state.model.n_outcomes != latent.n_topics:
        return "the topics are not as many as the model has"
    n_columns = padded(latent.n_topics)
    shapes = [array.shape for array in (*latent.counts, latent.topics)]
    if shapes != [(0, n_columns), (n_words, n_columns), (n_columns,), (0,)]:
        return "the topics are not those of these words"
    return None


def _fault_of_atoms(state: State, base: Any) -> str | None:
    latent = state.latent
    if not isinstance(latent, Atoms) or latent.atoms.ndim != 2:
        return "the atoms are none"
    n_atoms, width = latent.atoms.shape
    if width != families.sizes(base)[0]:
        return "the atoms have another size"
    if state.model.n_atoms != n_atoms:
        return "the atoms are not as many as the model has"
    return None


def _fault_of_places(latent: Atoms, n_data: int) -> str | None:
    atom, n_atoms = latent.atom, latent.atoms.shape[0]
    if latent.log_density.shape != (n_data,):
        return "the data have no densities"
    if atom.shape != (n_data,) or not 0 <= atom.min() <= atom.max() < n_atoms:
        return "data are at atoms that are not there"
    return None
