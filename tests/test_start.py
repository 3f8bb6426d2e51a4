"""The first state of a chain."""

from typing import Any

import numpy as np
import pytest

from test_chain import STICKS, bernoulli, gaussian
from treestick import Tree
from treestick.random import make_key
from treestick.start import check_start, first_state
from treestick.tree.table import check


@pytest.mark.parametrize("labels", [[3, 3, 7, -1, 0, -2], [0, 0, 1, 2, 2, 1], [-1, -1]])
def test_labels_are_children_of_the_root(labels: list[int]) -> None:
    """Those that are negative are the root."""
    start = check_start(np.array(labels), len(labels))
    positive = sorted({label for label in labels if label >= 0})
    expected = [1 + positive.index(label) if label >= 0 else 0 for label in labels]
    assert start.assignments.tolist() == expected
    assert start.parent.tolist() == [-1] + [0] * len(positive)


@pytest.mark.parametrize("make", [gaussian, bernoulli])
def test_the_state_of_a_tree(make: Any) -> None:
    """Leaves without data are left out; counts, sums and estimates are those of the data."""
    model, data = make(60, 5)
    where = np.repeat([5, 2, 4], 20)
    tree = Tree([-1, 0, 0, 0, 1, 3, 5], assignments=where)  # leaf 6 is empty; 1 and 3 lead on
    state = first_state(make_key(1), model, STICKS, data, check_start(tree, 60))
    check(state.table)
    assert state.n_nodes == 6
    depth = state.table.depth[state.assignments]
    np.testing.assert_array_equal(depth, tree.depth[where])
    groups = [state.assignments[k] for k in (0, 20, 40)]
    np.testing.assert_array_equal(state.assignments, np.repeat(groups, 20))
    rows = data.values if make is gaussian else np.unpackbits(
        data.packed, axis=1, bitorder="little", count=5
    )  # fmt: skip
    for k, node in enumerate(groups):
        sums = rows[20 * k : 20 * k + 20].sum(axis=0)
        np.testing.assert_allclose(state.statistics[node][:5], sums, rtol=1e-12)
    centre = np.stack([state.theta[node] for node in groups])
    means = np.stack([rows[20 * k : 20 * k + 20].mean(axis=0) for k in range(3)])
    if make is bernoulli:
        means = np.log((means + 0.05) / (1.05 - means))
    assert np.corrcoef(centre.ravel(), means.ravel())[0, 1] > 0.9


def test_at_the_root() -> None:
    model, data = gaussian(60, 5)
    state = first_state(make_key(1), model, STICKS, data, check_start("root", 60))
    assert state.n_nodes == 1
    assert state.table.n_here[0] == 60
    np.testing.assert_allclose(state.theta[0], data.values.mean(axis=0), atol=0.3)
