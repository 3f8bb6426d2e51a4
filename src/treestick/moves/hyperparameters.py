"""Slice moves on alpha0, decay and gamma, each within its bounds (paper, sec. 4).

Their priors are uniform between bounds, which are the first interval of the slice sampler; it
shrinks towards the present value, so nothing needs tuning. Stick lengths are integrated out: the
conditionals are those of the partition,

    p(alpha0, decay | counts) ~ prod_e  B(n_here + 1, n_below + alpha) / B(1, alpha)
    p(gamma | counts)         ~ prod_e  gamma**K Gamma(gamma) / Gamma(gamma + n_below)

or, where the order of the children is part of the state,

    p(gamma | counts, order)  ~ prod over sticks  B(1 + n, gamma + n_later) / B(1, gamma)

Deviation from the paper, which conditions on the lengths: 1 - nu underflows where alpha is small,
and lengths hold the hyperparameters back. Lengths that are part of the state have to be redrawn
before anything uses them: :func:`move_ordered` does it itself.
"""

import math
from typing import NamedTuple

from treestick._jit import compiled
from treestick.moves.state import State, Sticks, replace_sticks
from treestick.moves.sticks import move_sticks
from treestick.prior.density import Kinds, count_kinds, log_choices, log_stops
from treestick.random import Key, Purpose, Stream, exponential, key_for, open_stream, uniform
from treestick.tree.table import NULL, NodeTable

ALPHA0, DECAY, GAMMA, ORDERED_GAMMA = range(4)
N_ROUNDS = 10
"""How often alpha0 and decay take turns: alpha0 decay**depth is well known at some depth, so each
holds the other."""


def move_hyperparameters(key: Key, state: State) -> State:
    """Move alpha0, decay and gamma, with sticks and order integrated out."""
    return state._replace(sticks=_move_all(key, state, GAMMA))


def move_ordered(key: Key, state: State) -> State:
    """Move alpha0, decay and gamma with the lengths integrated out, then redraw the lengths."""
    return move_sticks(key, state._replace(sticks=_move_all(key, state, ORDERED_GAMMA)))


def _move_all(key: Key, state: State, gamma_target: int) -> Sticks:
    table = state.table
    return _move(key, Counted(table, count_kinds(table)), state.sticks, gamma_target)


class Counted(NamedTuple):
    """What the conditionals need of the tree partition."""

    table: NodeTable
    kinds: Kinds


@compiled
def _move(key: Key, tree: Counted, sticks: Sticks, gamma_target: int) -> Sticks:
    stream = open_stream(key_for(key, Purpose.STICK_HYPERPARAMETERS, 0))
    alpha0, decay, gamma = sticks.alpha0, sticks.decay, sticks.gamma
    for _ in range(N_ROUNDS):
        alpha0 = _slice(stream, tree, ALPHA0, alpha0, decay, sticks.alpha0_low, sticks.alpha0_high)
        decay = _slice(stream, tree, DECAY, decay, alpha0, sticks.decay_low, sticks.decay_high)
    gamma = _slice(stream, tree, gamma_target, gamma, 0.0, sticks.gamma_low, sticks.gamma_high)
    return replace_sticks(sticks, alpha0, decay, gamma)


@compiled
def _slice(
    stream: Stream,
    tree: Counted,
    target: int,
    now: float,
    other: float,
    low: float,
    high: float,
) -> float:
    """Return the new value of one hyperparameter; ``other`` is what its target also needs."""
    if low == high:
        return now
    level = _log_target(tree, target, now, other) - exponential(stream)
    while True:
        candidate = low + (high - low) * uniform(stream)
        if _log_target(tree, target, candidate, other) >= level:
            return candidate
        if candidate < now:
            low = candidate
        else:
            high = candidate
        if not low < high:
            return now


@compiled
def _log_target(tree: Counted, target: int, value: float, other: float) -> float:
    if target == ALPHA0:
        return log_stops(tree.kinds, value, other)
    if target == DECAY:
        return log_stops(tree.kinds, other, value)
    if target == GAMMA:
        return log_choices(tree.kinds, value)
    return _log_order(tree.table, value)


@compiled
def _log_order(table: NodeTable, gamma: float) -> float:
    """Return the log probability of counts and order of all represented children, up to gamma."""
    total = 0.0
    for node in range(table.size[0]):
        n_later = table.n_below[node]
        child = table.first_child[node]
        while child != NULL:
            n_through = table.n_here[child] + table.n_below[child]
            n_later -= n_through
            total += math.log(gamma) + math.lgamma(gamma + n_later)
            total -= math.lgamma(gamma + n_later + n_through + 1.0)
            child = table.next_sibling[child]
    return total
