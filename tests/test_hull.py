"""The loose hull: links, counts and statistics stay true whatever is done to it."""

from typing import Any

import numpy as np
import pytest

from joint import BernoulliOracle, GaussianOracle, Oracle, draw_joint
from treestick.moves.state import Sticks
from treestick.moves.structure import hull as on
from treestick.moves.structure.plan import MOVES, move_structure
from treestick.moves.tasks import sum_rows
from treestick.prior.density import log_partition
from treestick.random import make_key
from treestick.tree.table import NULL, check

ORACLES: dict[str, Oracle] = {"gaussian": GaussianOracle(), "bernoulli": BernoulliOracle()}


def check_hull(hull: on.Hull, model: Any, data: Any) -> None:
    """Compare with what the assignments and parents say, counted the slow way."""
    n_alive, n_free = int(hull.counts[0]), int(hull.counts[1])
    rows = [int(row) for row in hull.nodes["alive"][:n_alive]]
    assert 0 in rows
    assert sorted(rows + [int(row) for row in hull.nodes["free"][:n_free]]) == list(
        range(hull.nodes.size)
    )
    assert [int(hull.nodes[row].place) for row in rows] == list(range(n_alive))
    labels = [int(hull.nodes[row].label) for row in range(hull.nodes.size)]
    assert [int(hull.nodes[label].row_of) for label in labels] == list(range(hull.nodes.size))
    node = np.array([on.node_of(hull, n) for n in range(hull.labels.size)])
    assert set(node) <= set(rows)
    for row in rows:
        children = [int(child) for child in on.children_of(hull, row)]
        assert sorted(children) == sorted(k for k in rows if hull.nodes[k].parent == row)
        where = on.data_of(hull, row)
        np.testing.assert_array_equal(where, np.flatnonzero(node == row))
        assert hull.nodes[row].n_here == where.size
        assert hull.nodes[row].n_below == sum(
            hull.nodes[c].n_here + hull.nodes[c].n_below for c in children
        )
        assert row == 0 or hull.nodes[row].n_here + hull.nodes[row].n_below > 0
        parent = int(hull.nodes[row].parent)
        assert (parent == NULL) == (row == 0)
        assert hull.nodes[row].depth == (0 if row == 0 else hull.nodes[parent].depth + 1)
        sums = sum_rows(model, data, where, hull.labels.size)
        np.testing.assert_allclose(hull.statistics[row], sums, atol=1e-9)


def check_log_tree(hull: on.Hull, sticks: Sticks) -> None:
    """Compare with the sum over all nodes, none of which is known from before."""
    total = 0.0
    for row in hull.nodes["alive"][: hull.counts[0]]:
        total += on.log_of_node(hull, sticks, row)
    assert on.log_tree(hull, sticks) == total


@pytest.mark.parametrize("model", ORACLES)
@pytest.mark.parametrize("name", MOVES)
def test_moves_keep_the_hull_in_order(name: str, model: str) -> None:
    rng = np.random.default_rng(3)
    for replication in range(20):
        state, data = draw_joint(rng, ORACLES[model], n_data=30)
        hull = on.loosen(state, 100)
        check_hull(hull, state.model, data)
        assert np.isclose(
            on.log_tree(hull, state.sticks),
            log_partition(state.table, *state.sticks[::3]),
        )
        move, kind = MOVES[name]
        for number in range(30):
            move(make_key(1, replication), state.model, data, state.sticks, hull, kind, number, 1)
            check_hull(hull, state.model, data)
            check_log_tree(hull, state.sticks)
        settled = on.settle(hull, state)
        check(settled.table)
        assert np.isfinite(settled.theta).all()
        assert np.isclose(
            on.log_tree(hull, state.sticks), log_partition(settled.table, *state.sticks[::3])
        )


@pytest.mark.parametrize("name", ["alpha0", "decay", "gamma"])
def test_no_factor_outlives_its_sticks(name: str) -> None:
    state, _ = draw_joint(np.random.default_rng(4), ORACLES["gaussian"], n_data=30)
    hull = on.loosen(state, 1)
    check_log_tree(hull, state.sticks)
    check_log_tree(hull, state.sticks._replace(**{name: 0.9 * getattr(state.sticks, name)}))


def test_room_changes_nothing() -> None:
    """A hull that has to grow gives the same draws as one that has not."""
    from treestick.moves.structure import plan

    rng = np.random.default_rng(5)
    state, data = draw_joint(rng, ORACLES["gaussian"], n_data=200)
    counts = {"singles": 100, "smart_split": 100, "smart_merge": 50, "regraft": 20}
    results = []
    for room in (1, 5, 1000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plan, "room_for", lambda _, room=room: room)
            results.append(move_structure(make_key(1), state, data, counts)[0])
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].assignments, other.assignments)
        np.testing.assert_array_equal(results[0].theta, other.theta)
    assert results[0].n_nodes != state.n_nodes
