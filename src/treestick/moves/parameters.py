"""Moves on the parameters of the nodes and the hyperparameters of the model: the model's own."""

from treestick import contract
from treestick._jit import compiled
from treestick.moves.state import Floats, State
from treestick.random import Key
from treestick.tree.table import NodeTable


def move_parameters(key: Key, state: State, adapting: bool = False) -> tuple[State, float]:
    """Update ``theta`` of the hull; return also the share of accepted proposals.

    Step sizes change only if ``adapting``, which leaves the law invariant only in the limit: for
    burn-in alone.
    """
    theta = state.theta.copy()
    model, acceptance = _update_parameters(
        key, state.model, state.table, state.statistics, theta, adapting
    )
    return state._replace(theta=theta, model=model), float(acceptance)


def move_model_hyperparameters(key: Key, state: State) -> State:
    """Update the hyperparameters of the model, given ``theta``."""
    model = _update_hyperparameters(key, state.model, state.table, state.statistics, state.theta)
    return state._replace(model=model)


@compiled
def _update_parameters(
    key: Key,
    model: object,
    table: NodeTable,
    statistics: Floats,
    theta: Floats,
    adapting: bool,
) -> tuple[object, float]:
    return contract.update_parameters(key, model, table, statistics, theta, adapting)


@compiled
def _update_hyperparameters(
    key: Key, model: object, table: NodeTable, statistics: Floats, theta: Floats
) -> object:
    return contract.update_hyperparameters(key, model, table, statistics, theta)
