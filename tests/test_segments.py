"""The unit interval cut by the sticks: segments are where, and as long as, plain sums say."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joint import GaussianOracle, draw_joint
from treestick.moves import segments
from treestick.moves.segments import CHILD, STOP, TAIL, Segments
from treestick.tree.table import NULL, NodeTable, make_table, place_child

N_TABLES = 60
N_DATA = 40


def children(table: NodeTable, node: int) -> list[int]:
    """Return the rows of the children in the order of their ordinals, without using the lists."""
    rows = [k for k in range(1, int(table.size[0])) if table.parent[k] == node]
    return sorted(rows, key=lambda k: int(table.ordinal[k]))


def expected_segments(
    table: NodeTable, n_nodes: int
) -> list[tuple[tuple[float, ...], int, int, float]]:
    """Return path, row, kind and length of every segment, sorted by path.

    pi = nu * phi * prod over ancestors of phi * (1 - nu), phi = psi * prod over earlier siblings of
    1 - psi. A path lists ordinals; the tail of a node stands behind all of its children.
    """
    paths: dict[int, tuple[float, ...]] = {0: ()}
    reaches = {0: 1.0}
    found = []
    for node in range(n_nodes):
        nu = float(table.nu[node])
        found.append((paths[node], node, STOP, nu * reaches[node]))
        rest = 1.0
        for child in children(table, node):
            psi = float(table.psi[child])
            paths[child] = (*paths[node], float(table.ordinal[child]))
            reaches[child] = psi * rest * (1.0 - nu) * reaches[node]
            rest *= 1.0 - psi
            if child >= n_nodes:
                found.append((paths[child], child, CHILD, reaches[child]))
        found.append(((*paths[node], math.inf), node, TAIL, rest * (1.0 - nu) * reaches[node]))
    return sorted(found)


def check(table: NodeTable, n_nodes: int, cut: Segments) -> None:
    """Assert everything that the module says of segments."""
    expected = expected_segments(table, n_nodes)
    n_segments = int(table.size[0]) + n_nodes
    assert cut.edges.size == n_segments + 1
    assert cut.edges[0] == 0.0
    assert cut.edges[-1] == 1.0
    assert np.all(np.diff(cut.edges) >= 0.0)
    assert cut.row.tolist() == [row for _, row, _, _ in expected]
    assert cut.kind.tolist() == [kind for _, _, kind, _ in expected]
    lengths = [length for _, _, _, length in expected]
    np.testing.assert_allclose(np.diff(cut.edges), lengths, rtol=0.0, atol=1e-13)
    assert np.array_equal(cut.row[cut.own], np.arange(n_nodes))
    assert np.all(cut.kind[cut.own] == STOP)
    for row, kind, last_child in zip(cut.row, cut.kind, cut.last_child, strict=True):
        last = [NULL, *children(table, row)][-1] if kind == TAIL else NULL
        assert last_child == last


def test_segments_of_drawn_tables() -> None:
    rng = np.random.default_rng(1)
    n_empty, n_hull = 0, 0
    for _ in range(N_TABLES):
        state, _ = draw_joint(rng, GaussianOracle(), N_DATA)
        check(state.table, state.n_nodes, segments.cut(state.table, state.n_nodes))
        n_empty += int(state.table.size[0]) - state.n_nodes
        n_hull += state.n_nodes
    assert n_empty > N_TABLES  # or nothing was shown of them
    assert n_hull > 5 * N_TABLES


@settings(max_examples=200)
@given(st.data())
def test_segments_of_tables_with_extreme_sticks(data: Any) -> None:
    """Rows in any order that puts parents first, gaps between ordinals, sticks of 0 and of 1."""
    n_nodes = data.draw(st.integers(1, 8))
    size = n_nodes + data.draw(st.integers(0, 6))
    stick = st.sampled_from([0.0, 1.0, 1e-300, 1e-17, 1.0 - 2.0**-53]) | st.floats(0.0, 1.0)
    table = make_table(size + data.draw(st.integers(0, 2)))  # spare rows do not matter
    for node in range(1, size):
        parent = data.draw(st.integers(0, min(node, n_nodes) - 1))
        taken = {int(table.ordinal[child]) for child in children(table, parent)}
        place_child(table, parent, data.draw(st.sampled_from(sorted(set(range(20)) - taken))))
    table.nu[:n_nodes] = data.draw(st.lists(stick, min_size=n_nodes, max_size=n_nodes))
    table.psi[1:size] = data.draw(st.lists(stick, min_size=size - 1, max_size=size - 1))
    check(table, n_nodes, segments.cut(table, n_nodes))


def test_rounding_does_not_lead_beyond_one() -> None:
    """Last sticks of 1 leave nothing to the tails at the end, which then start about at 1."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        n_nodes, size = 10, 15
        table = make_table(size)
        for node in range(1, size):
            parent = int(rng.integers(min(node, n_nodes)))
            place_child(table, parent, len(children(table, parent)))
        table.nu[:n_nodes], table.psi[1:] = rng.random(n_nodes), rng.random(size - 1)
        table.psi[table.last_child[table.last_child != NULL]] = 1.0
        table.nu[rng.random(size) < 0.2] = 1.0
        check(table, n_nodes, segments.cut(table, n_nodes))


def test_segments_of_a_chain_do_not_recurse() -> None:
    n_nodes = 20_000
    table = make_table(n_nodes)
    for node in range(1, n_nodes):
        place_child(table, node - 1, 0)
    table.nu[:], table.psi[1:] = 1e-4, 0.9999
    cut = segments.cut(table, n_nodes)
    assert cut.row.tolist() == [*range(n_nodes), *range(n_nodes - 1, -1, -1)]
    reaches = np.exp(np.arange(n_nodes) * (math.log1p(-1e-4) + math.log(0.9999)))
    np.testing.assert_allclose(np.diff(cut.edges)[:n_nodes], 1e-4 * reaches, rtol=0.0, atol=1e-13)


def naive_find(edges: npt.NDArray[np.float64], u: float) -> int:
    return int(np.searchsorted(edges[:-1], u, side="right")) - 1


@settings(max_examples=500)
@given(st.data())
def test_find_is_a_search_among_the_edges(data: Any) -> None:
    share = st.floats(0.0, 1.0) | st.sampled_from([0.0, 0.25, 0.5, 1.0])  # edges may coincide
    edges = np.array([0.0, *sorted(data.draw(st.lists(share, max_size=20))), 1.0])
    u = data.draw(share | st.sampled_from(edges.tolist()))
    assert segments.find(edges, u) == naive_find(edges, u)


@pytest.mark.parametrize("seed", range(3))
def test_find_lands_in_the_segments_of_a_table(seed: int) -> None:
    rng = np.random.default_rng(seed)
    state, _ = draw_joint(rng, GaussianOracle(), N_DATA)
    cut = segments.cut(state.table, state.n_nodes)
    for u in [*rng.random(300), *cut.edges]:
        found = segments.find(cut.edges, u)
        assert found == naive_find(cut.edges, u)
        assert cut.edges[found] <= u
        assert u < cut.edges[found + 1] or (u == 1.0 and found == cut.row.size - 1)
