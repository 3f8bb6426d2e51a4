"""The prior on trees: tree-structured stick breaking, by the urn and by the sticks.

Adams, Ghahramani & Jordan (2010), sec. 2. Sticks divide the unit interval among the nodes of an
infinite tree::

    nu[e]   ~ Beta(1, alpha(|e|)),   alpha(d) = alpha0 * decay**d
    psi[ei] ~ Beta(1, gamma),        phi[ei]  = psi[ei] * prod_{j<i} (1 - psi[ej])
    pi[e]   = nu[e] * phi[e] * prod_{ancestors a of e} phi[a] * (1 - nu[a]),    phi[root] = 1

With the sticks integrated out, data arrive one by one at the root and go down (the urn)::

    stop at e with           (n_here + 1) / (n_through + alpha(|e|) + 1)
    else go to child i with  n_through[ei] / (n_below + gamma)
    or to a new child with   gamma / (n_below + gamma)

and a tree partition of the data has the probability (children unlabelled)::

    prod_e  B(n_here + 1, n_below + alpha(|e|)) / B(1, alpha(|e|))
          * gamma**K_e * Gamma(gamma) / Gamma(gamma + n_below) * prod_children Gamma(n_through)

Nothing is cut off: depth and number of children have no limit, and the sticks of a node that
nobody has visited are looked up from the key (see :mod:`treestick.random`).

The masses sum to one if and only if ``sum_j log(1 + 1 / alpha(j))`` diverges (sec. 2). For
``alpha0 * decay**j`` that is so exactly for ``decay <= 1``: the terms then do not vanish.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from treestick._jit import compiled, deferred_interrupts
from treestick.inputs import (
    InvalidType,
    InvalidValue,
    check_positive,
    check_real,
    check_whole_number,
)
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

__all__ = ["draw_sticks", "draw_urn", "log_probability"]

TINY = 1e-200
AT_ONCE = 1_000_000
"""Data that are drawn between two looks at whether the user wants to stop."""
MOST_DATA = 2**48
"""Beyond any memory, as a number of data or of levels; more would not even fit an index."""
MOST_GAMMA = 1e6


def draw_urn(n: int, alpha0: float, decay: float, gamma: float, seed: int) -> Tree:
    """Draw a tree partition of ``n`` data from the prior, datum by datum, by the urn.

    Parameters
    ----------
    n : int
        Number of data.
    alpha0, decay, gamma : float
        ``alpha(d) = alpha0 * decay**d`` governs how deep data go, ``gamma`` how many children a
        node has. ``alpha0`` and ``gamma`` are above 0, ``decay`` is in (0, 1].
    seed : int
        From 0 to 2**64 - 1. The same seed gives the same tree, and more data with the same seed
        go on with the same draw: the first m of n data share nodes as in a draw of m.

    Returns
    -------
    Tree
        The nodes with data at or below them (and the root), depth first, siblings in the order of
        arrival. ``mass`` is the probability that the next datum stops at the node.

    Examples
    --------
    >>> draw_urn(6, alpha0=1.0, decay=0.5, gamma=0.5, seed=3)
    Tree: 3 nodes, 6 data, depth 2
    0  0 here, 6 below
    └─ 1  5 here, 1 below
       └─ 2  1 here
    """
    n = check_whole_number("n", n, 0, MOST_DATA)
    alpha0, decay, gamma = check_stick_parameters(alpha0, decay, gamma)
    key = make_key(seed)
    assignments = np.empty(n, dtype=np.int64)
    table, stream = make_table(64), open_stream(key_for(key, Purpose.URN, 0))
    datum, node = 0, 0
    while datum < n:
        with deferred_interrupts():
            table = with_room(table)
            some = assignments[: datum + AT_ONCE]
            datum, node = _fill_urn(table, stream, some, datum, node, alpha0, decay, gamma)
    with deferred_interrupts():
        table, new_row = take(table, depth_first_order(table))
        mass = urn_mass(table, alpha0, decay, gamma)
    return Tree(table.parent, new_row[assignments], mass)


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
        As for :func:`draw_urn`.
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


def log_probability(tree: Tree, alpha0: float, decay: float, gamma: float) -> float:
    """Return the log probability of a tree partition, with the sticks integrated out.

    Only nodes with data at or below them count; others, and the order of siblings, do not matter.
    """
    if not isinstance(tree, Tree):
        raise InvalidType(f"tree must be a treestick.Tree, not {type(tree).__name__}")
    alpha0, decay, gamma = check_stick_parameters(alpha0, decay, gamma)
    in_hull = tree.n_through > 0
    n_here, n_below = tree.n_here[in_hull], tree.n_below[in_hull]
    # In logarithms, because alpha underflows to 0 beyond a thousand levels at decay 0.5.
    log_alpha = math.log(alpha0) + tree.depth[in_hull] * math.log(decay)
    # B(n_here + 1, n_below + alpha) / B(1, alpha), where 1 / B(1, alpha) = alpha. If n_below is 0
    # the ratio tends to 1 with alpha, and has done so long before alpha is TINY.
    log_inverse = np.where(n_below > 0, log_alpha, np.maximum(log_alpha, math.log(TINY)))
    stops = log_inverse + special.betaln(
        n_here + 1.0, np.maximum(n_below + np.exp(log_alpha), TINY)
    )
    # Gamma(gamma) / Gamma(gamma + n_below) = B(gamma, n_below) / Gamma(n_below), where B is
    # 1 / gamma for a tiny gamma.
    parents = n_below[n_below > 0].astype(np.float64)
    not_tiny = max(gamma, TINY)
    choices = special.betaln(not_tiny, parents) - special.gammaln(parents)
    choices += math.log(not_tiny) - math.log(gamma)
    children = tree.n_through[1:][in_hull[1:]].astype(np.float64)
    entered = math.log(gamma) + special.gammaln(children)
    return float(stops.sum() + choices.sum() + entered.sum())


def check_stick_parameters(
    alpha0: object, decay: object, gamma: object
) -> tuple[float, float, float]:
    """Return the three as floats, if they give a prior whose masses sum to one."""
    alpha0 = check_positive("alpha0", alpha0)
    decay = check_real("decay", decay)
    if not 0.0 < decay <= 1.0:
        why = "; above 1 the masses of the nodes do not sum to one" if decay > 1.0 else ""
        raise InvalidValue(f"decay={decay} must be above 0 and at most 1{why}")
    return alpha0, decay, check_positive("gamma", gamma)


# -- the urn -------------------------------------------------------------------------------------


@compiled
def _fill_urn(
    table: NodeTable,
    stream: Stream,
    assignments: Integers,
    datum: int,
    node: int,
    alpha0: float,
    decay: float,
    gamma: float,
) -> tuple[int, int]:
    """Let data go down the urn, from ``datum`` on, which has come to ``node`` already.

    Write the row of each into ``assignments``. Return the datum and node at which the table is
    full, or the number of data when all are in. (The table is grown outside: replacing it inside
    this loop would double the time.)

    One uniform decides a level. ``dart`` is spread over (n_here + 1) + (n_below + alpha): in the
    first part the datum stops; what it exceeds that by is, stretched to n_below + gamma, the dart
    that chooses the child. The cost is the number of children looked at on the way.
    """
    while datum < assignments.size:
        alpha = alpha0
        for _ in range(table.depth[node]):
            alpha *= decay
        while True:
            if table.size[0] == table.parent.size:
                return datum, node
            n_here = table.n_here[node]
            n_below = table.n_below[node]
            dart = uniform(stream) * (n_here + n_below + 1.0 + alpha) - (n_here + 1.0)
            if dart < 0.0:
                break
            table.n_below[node] = n_below + 1
            dart *= (n_below + gamma) / (n_below + alpha)
            child = table.first_child[node]
            while child != NULL:
                dart -= table.n_here[child] + table.n_below[child]
                if dart < 0.0:
                    break
                child = table.next_sibling[child]
            if child == NULL:
                child = place_child(table, node, next_ordinal(table, node))
            node = child
            alpha *= decay
        table.n_here[node] += 1
        assignments[datum] = node
        datum += 1
        node = 0
    return datum, node


@compiled
def urn_mass(table: NodeTable, alpha0: float, decay: float, gamma: float) -> Floats:
    """Return the probability of each node that the next datum stops there; the rest is unseen."""
    size = table.size[0]
    reaches = np.ones(size)
    mass = np.empty(size)
    for node in range(size):
        alpha = alpha0 * math.exp(table.depth[node] * math.log(decay))
        n_here, n_below = table.n_here[node], table.n_below[node]
        if node > 0:
            n_siblings = table.n_below[table.parent[node]]
            reaches[node] *= (n_here + n_below) / (n_siblings + gamma)
        stops = (n_here + 1.0) / (n_here + n_below + alpha + 1.0)
        mass[node] = reaches[node] * stops
        goes_on = reaches[node] * ((n_below + alpha) / (n_here + n_below + alpha + 1.0))
        child = table.first_child[node]
        while child != NULL:
            reaches[child] = goes_on
            child = table.next_sibling[child]
    return mass


# -- the sticks ----------------------------------------------------------------------------------


@compiled
def _stick(stream: Stream, b: float) -> float:
    """Draw from Beta(1, b), by its inverse distribution function; b is 0 where alpha underflows."""
    if b == 0.0:
        return 1.0
    return -math.expm1(math.log(uniform_open(stream)) / b)


@compiled
def _look_up_sticks(
    key: Key, table: NodeTable, node: int, alpha0: float, decay: float, gamma: float
) -> None:
    """Write nu and psi of ``node``, both functions of its entity."""
    stream = open_stream(key_for(key, Purpose.STICKS, table.entity[node]))
    table.nu[node] = _stick(stream, alpha0 * math.exp(table.depth[node] * math.log(decay)))
    if node > 0:
        table.psi[node] = _stick(stream, gamma)


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
