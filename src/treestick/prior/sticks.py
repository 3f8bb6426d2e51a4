"""The sticks: an infinite partition of the unit interval, broken where it is needed."""

import math

import numpy as np
import numpy.typing as npt

from treestick._jit import compiled, deferred_interrupts
from treestick.inputs import InvalidValue, check_positive, check_whole_number
from treestick.prior.parameters import AT_ONCE, MOST_DATA, check_stick_parameters
from treestick.random import (
    Key,
    Purpose,
    Stream,
    child_entity,
    key_for,
    make_key,
    open_stream,
    reopen,
    uniform,
    uniform_open,
)
from treestick.tree import Tree
from treestick.tree.table import (
    NULL,
    NodeTable,
    add_data,
    depth_first_order,
    grow,
    make_table,
    next_ordinal,
    place_child,
    take,
    with_room,
)

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MOST_GAMMA = 1e6


def draw_sticks(
    n: int,
    alpha0: float,
    decay: float,
    gamma: float,
    seed: int,
    *,
    min_mass: float = 0.001,
    max_depth: int | None = None,
) -> Tree:
    """Draw a stick partition from the prior, and throw ``n`` data at it.

    The law of the data's tree is that of :func:`draw_urn`.

    Parameters
    ----------
    n : int
        Number of data thrown; 0 for the partition alone.
    alpha0, decay, gamma, seed
        As for :func:`draw_urn`, but ``gamma`` is at most 1e6: about ``gamma`` sticks are broken to
        find one child.
    min_mass : float
        Every node is returned whose subtree holds at least this much of the mass, and every node
        with data at or below it, however small. With ``min_mass=1`` only the latter.
    max_depth : int, optional
        Nodes deeper than this are returned only if data need them. No limit if not given.

    Returns
    -------
    Tree
        Nodes depth first, siblings in the order of their sticks. ``mass`` is pi.
        ``node_params`` holds the sticks ``nu`` and ``psi``, the number ``ordinal`` of the psi-stick
        (from 0; siblings that are too small to be returned leave gaps), and the part of the unit
        interval that belongs to the node and all below it: from ``left`` on, ``span`` long.

    Examples
    --------
    >>> tree = draw_sticks(0, alpha0=1.0, decay=0.5, gamma=0.5, seed=3, min_mass=0.05)
    >>> bool(tree.mass.sum() < 1)
    True
    """
    n = check_whole_number("n", n, 0, MOST_DATA)
    alpha0, decay, gamma = check_stick_parameters(alpha0, decay, gamma)
    key = make_key(seed)
    min_mass = check_positive("min_mass", min_mass, most=1.0)
    deepest = MOST_DATA
    if max_depth is not None:
        deepest = check_whole_number("max_depth", max_depth, 0, MOST_DATA)
    if gamma > MOST_GAMMA:
        raise InvalidValue(
            f"gamma={gamma} is too large for draw_sticks, which breaks about gamma sticks to find "
            f"one child; use draw_urn, or a gamma up to {MOST_GAMMA:g}"
        )
    assignments = np.empty(n, dtype=np.int64)
    table = make_table(64)
    _look_up_sticks(key, table, 0, alpha0, decay, gamma)
    datum = 0
    while datum < n:
        with deferred_interrupts():
            table = with_room(table)
            some = assignments[: datum + AT_ONCE]
            datum = _throw_darts(key, table, some, datum, alpha0, decay, gamma)
    with deferred_interrupts():
        table, left, span = _break_down_to(key, table, alpha0, decay, gamma, min_mass, deepest)
        order = depth_first_order(table)
        size = int(table.size[0])
        wanted = (span >= min_mass) & (table.depth[:size] <= deepest)
        wanted |= table.n_here[:size] + table.n_below[:size] > 0
        rows = order[wanted[order]]
        table, new_row = take(table, rows)
    params: dict[str, npt.ArrayLike] = {
        "nu": table.nu,
        "psi": table.psi,
        "ordinal": table.ordinal,
        "left": left[rows],
        "span": span[rows],
    }
    return Tree(table.parent, new_row[assignments], table.nu * span[rows], params)


@compiled
def stick(stream: Stream, b: float) -> float:
    """Draw from Beta(1, b), by its inverse distribution function; b is 0 where alpha underflows."""
    log_u = math.log(uniform_open(stream))
    return -math.expm1(log_u / b) if b > 0.0 else 1.0


@compiled
def _look_up_sticks(
    key: Key, table: NodeTable, node: int, alpha0: float, decay: float, gamma: float
) -> None:
    """Write nu and psi of ``node``, both functions of its entity."""
    stream = open_stream(key_for(key, Purpose.STICKS, table.entity[node]))
    table.nu[node] = stick(stream, alpha0 * math.exp(table.depth[node] * math.log(decay)))
    if node > 0:
        table.psi[node] = stick(stream, gamma)


@compiled
def _break_next_stick(
    key: Key, table: NodeTable, node: int, alpha0: float, decay: float, gamma: float
) -> int:
    """Add the next child of ``node`` with its sticks, in the spare room; return its row."""
    ordinal = next_ordinal(table, node)
    child = place_child(table, node, ordinal)
    table.entity[child] = child_entity(key, table.entity[node], ordinal)
    _look_up_sticks(key, table, child, alpha0, decay, gamma)
    return child


@compiled
def _throw_darts(
    key: Key,
    table: NodeTable,
    assignments: Integers,
    datum: int,
    alpha0: float,
    decay: float,
    gamma: float,
) -> int:
    """Throw darts at the sticks, from ``datum`` on; write the row that each hits.

    Sticks are broken when a dart needs them (retrospectively), so nothing is truncated. A dart
    takes new uniforms at every level, so it never runs out of bits.

    Return the first datum that finds the table full, or the number of data when all are in. That
    dart is thrown again into the larger table, and goes the same way, for its key is the same.
    """
    stream = open_stream(key)
    while datum < assignments.size:
        reopen(stream, key_for(key, Purpose.DART, datum))
        node = 0
        while uniform(stream) >= table.nu[node]:
            # Measured from the right end, where the sticks not yet broken lie: the dart lies
            # beyond a child as long as more is left to the right of the child than the dart needs.
            dart = uniform_open(stream)
            left_over = 1.0
            child = table.first_child[node]
            while True:
                if child == NULL:
                    if table.size[0] == table.parent.size:
                        return datum
                    child = _break_next_stick(key, table, node, alpha0, decay, gamma)
                left_over *= 1.0 - table.psi[child]
                if dart >= left_over:
                    break
                child = table.next_sibling[child]
            node = child
        add_data(table, node, 1)
        assignments[datum] = node
        datum += 1
    return datum


@compiled
def _break_down_to(
    key: Key,
    table: NodeTable,
    alpha0: float,
    decay: float,
    gamma: float,
    min_mass: float,
    max_depth: int,
) -> tuple[NodeTable, Floats, Floats]:
    """Break every stick that can hold ``min_mass``; return the table, and each node's interval.

    The interval of a node and all below it starts at ``left`` and is ``span`` long.
    """
    left = np.zeros(table.parent.size)
    span = np.ones(table.parent.size)
    node = 0
    while node < table.size[0]:  # rows that this loop adds are visited in their turn
        start = left[node] + span[node] * table.nu[node]
        left_over = span[node] * (1.0 - table.nu[node])
        child = table.first_child[node]
        while True:
            if child == NULL:
                if left_over < min_mass or table.depth[node] >= max_depth:
                    break
                if table.size[0] == table.parent.size:
                    table = grow(table, 2 * table.parent.size)
                    left = np.append(left, np.zeros(left.size))
                    span = np.append(span, np.zeros(span.size))
                child = _break_next_stick(key, table, node, alpha0, decay, gamma)
            left[child] = start
            span[child] = left_over * table.psi[child]
            start += span[child]
            left_over *= 1.0 - table.psi[child]
            child = table.next_sibling[child]
        node += 1
    return table, left[: table.size[0]], span[: table.size[0]]
