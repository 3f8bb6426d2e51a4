"""Moves on the parameters of the nodes and the hyperparameters of the model: the model's own."""

import numpy as np

from treestick import contract
from treestick._jit import compiled
from treestick.moves.state import Floats, State
from treestick.moves.tasks import Run
from treestick.random import Key
from treestick.tree.table import NodeTable


def move_parameters(
    key: Key, state: State, adapting: bool = False, run: Run = map
) -> tuple[State, float]:
    """Update ``theta`` of the hull; return also the share of accepted proposals.

    Step sizes change only if ``adapting``, which leaves the law invariant only in the limit: for
    burn-in alone. ``run`` is like ``map``, and may do the parts on several threads.
    """
    theta = state.theta.copy()
    model = state.model

    def update(part: int) -> tuple[int, int]:
        return _update_parameters(key, model, state.table, state.statistics, theta, part, adapting)

    counts = np.array(list(run(update, range(contract.n_parts(model)))))
    n_accepted, n_proposed = counts.sum(axis=0)
    acceptance = float(n_accepted / n_proposed)
    if adapting:
        model = contract.adapt(model, acceptance)
    return state._replace(theta=theta, model=model), acceptance


def move_model_hyperparameters(key: Key, state: State) -> State:
    """Update the hyperparameters of the model, and ``theta`` with them where the model wants it."""
    theta = state.theta.copy()
    model = _update_hyperparameters(key, state.model, state.table, state.statistics, theta)
    return state._replace(theta=theta, model=model)


@compiled
def _update_parameters(
    key: Key,
    model: object,
    table: NodeTable,
    statistics: Floats,
    theta: Floats,
    part: int,
    adapting: bool,
) -> tuple[int, int]:
    return contract.update_parameters(key, model, table, statistics, theta, part, adapting)


@compiled
def _update_hyperparameters(
    key: Key, model: object, table: NodeTable, statistics: Floats, theta: Floats
) -> object:
    return contract.update_hyperparameters(key, model, table, statistics, theta)
