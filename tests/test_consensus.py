"""One tree for all draws, pairs of data, and the verdict on chains."""

import io
import itertools
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from handmade import make_run
from treestick import Tree
from treestick.analysis.consensus import consensus, distance, pair_relations
from treestick.analysis.convergence import disagreements
from treestick.analysis.diagnosis import describe, judge, meets, pair_agreement
from treestick.engine.progress import Progress
from treestick.estimators import agreement
from treestick.inputs import InvalidValue
from treestick.store import RunFolder


def random_tree(seed: int, n_data: int = 12, n_nodes: int = 5) -> Tree:
    random = np.random.default_rng(seed)
    parent = np.r_[-1, random.integers(0, np.arange(1, n_nodes))]
    return Tree(parent, random.integers(0, n_nodes, n_data))


def relation(tree: Tree, i: int, j: int) -> str:
    a, b = int(tree.assignments[i]), int(tree.assignments[j])
    if a == b:
        return "same"
    if a in tree.path(b):
        return "ancestor"
    return "descendant" if b in tree.path(a) else "apart"


def naive_distance(one: Tree, other: Tree) -> float:
    pairs = list(itertools.combinations(range(one.n_data), 2))
    return float(np.mean([relation(one, *pair) != relation(other, *pair) for pair in pairs]))


@pytest.mark.parametrize("seed", range(20))
def test_distance_counts_pairs(seed: int) -> None:
    one, other = random_tree(seed), random_tree(seed + 100, n_nodes=7)
    assert distance(one, other) == pytest.approx(naive_distance(one, other), abs=1e-12)
    assert distance(one, one) == pytest.approx(0.0, abs=1e-12)
    assert distance(one, other) == pytest.approx(distance(other, one), abs=1e-12)


def test_consensus_is_nearest_to_all() -> None:
    draws = [random_tree(seed) for seed in range(15)]
    found = consensus(draws)
    means = [np.mean([naive_distance(a, b) for b in draws if b is not a]) for a in draws]
    assert found.position == int(np.argmin(means))
    assert found.distance == pytest.approx(min(means))
    assert found.tree == draws[found.position]
    assert found.support[0] == 1.0  # all data are below the root, always
    assert ((found.support > 0.0) & (found.support <= 1.0)).all()


def test_support_is_the_share_of_draws_that_have_a_subtree() -> None:
    with_it = Tree([-1, 0, 0], [0, 1, 1, 2, 2, 2])
    without = Tree([-1, 0], [0, 0, 0, 1, 1, 1])
    found = consensus([with_it, with_it, with_it, without])
    assert found.tree == with_it
    np.testing.assert_allclose(found.support, [1.0, (3.0 + 1.0 / 3.0) / 4.0, 1.0])


@pytest.mark.parametrize("seed", range(10))
def test_support_is_the_best_overlap_with_a_subtree(seed: int) -> None:
    draws = [random_tree(10 * seed + k, n_data=9, n_nodes=3 + k) for k in range(4)]
    found = consensus(draws)

    def subtrees(tree: Tree) -> list[set[int]]:
        paths = [set(tree.path(int(node)).tolist()) for node in tree.assignments]
        return [{i for i, path in enumerate(paths) if node in path} for node in tree]

    def overlap(one: set[int], other: set[int]) -> float:
        return len(one & other) / len(one | other) if one | other else 0.0

    expected = [
        np.mean([max(overlap(data, its) for its in subtrees(tree)) for tree in draws])
        for data in subtrees(found.tree)
    ]
    np.testing.assert_allclose(found.support, expected, atol=1e-12)


def test_large_trees_are_compared_without_tables_of_nodes_by_nodes() -> None:
    """Trees of 200,000 nodes, of which such a table has 300 GB; a chain of 300 among them."""
    n = 200_000
    parent = np.r_[-1, np.arange(300), np.zeros(n - 301, dtype=np.int64)]
    one = Tree(parent, np.arange(n))
    other = Tree(parent, np.r_[0, np.arange(2, 301), 1, np.arange(301, n)])
    # The second datum of the chain has gone to its end: it was above 299 data, and is now below.
    assert distance(one, other) == pytest.approx(299 / (n * (n - 1) / 2), rel=1e-9)


def test_trees_of_other_data_are_refused() -> None:
    with pytest.raises(InvalidValue, match="one tree has 12 data, the other 11"):
        distance(random_tree(0), random_tree(0, n_data=11))


def test_the_numbering_of_nodes_does_not_matter() -> None:
    one = Tree([-1, 0, 0], [0, 1, 2, 2])
    other = Tree([-1, 0, 0], [0, 2, 1, 1])
    assert distance(one, other) == 0.0


def test_pair_relations() -> None:
    draws = [random_tree(seed) for seed in range(30)]
    found = pair_relations(draws, 2, 5)
    assert sum(found) == pytest.approx(1.0)
    for name, share in found._asdict().items():
        assert share == np.mean([relation(tree, 2, 5) == name for tree in draws])
    assert pair_relations(draws, 5, 2).ancestor == found.descendant
    with pytest.raises(InvalidValue, match="j=12"):
        pair_relations(draws, 0, 12)
    with pytest.raises(InvalidValue, match="there are no draws"):
        pair_relations([], 0, 1)
    with pytest.raises(InvalidValue, match="there are no draws"):
        consensus([])


# -- the verdict -----------------------------------------------------------------------------------


def test_chains_that_agree() -> None:
    random = np.random.default_rng(0)
    rows = describe({"depth": random.normal(size=(4, 500)), "fixed": np.ones((4, 500))})
    assert rows[0].rhat == pytest.approx(1.0, abs=0.02)
    assert 1500 < rows[0].ess_bulk < 2500
    assert rows[0].mcse == pytest.approx(2000**-0.5, rel=0.2)
    assert np.isnan(rows[1].rhat)
    assert judge(rows, 4, 500, 0.01).is_good
    assert meets(rows, 1.05, 400)
    assert not meets(rows, 1.05, 4000)


def test_chains_that_do_not() -> None:
    random = np.random.default_rng(0)
    apart = random.normal(size=(2, 300)) + np.array([[0.0], [3.0]])
    rows = describe({"depth": apart, "stuck": np.repeat([[1.0], [2.0]], 300, axis=1)})
    verdict = judge(rows, 2, 300, 0.5)
    assert verdict.grade == "bad"
    assert "disagree on depth and stuck" in verdict.lines[0]
    assert "different data together" in verdict.lines[1]
    assert not meets(rows, 1.05, 1)
    one = judge(describe({"depth": random.normal(size=(1, 500))}), 1, 500, float("nan"))
    assert one.grade == "careful"
    assert "There is one chain" in one.lines[-1]
    few = judge(describe({"depth": random.normal(size=(2, 40))}), 2, 40, 0.0)
    assert few.grade == "careful"
    assert "few independent draws" in few.lines[-1]
    none = judge(describe({"depth": random.normal(size=(2, 3))}), 2, 3, 0.0)
    assert (none.grade, none.is_good) == ("bad", False)
    assert "3 draws per chain say nothing" in none.lines[0]


def test_chains_that_stand_still_for_half_of_the_time() -> None:
    trace = np.array([[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0]])
    assert not meets(describe({"depth": trace}), 1.05, 1)
    assert list(disagreements({"depth": trace})) == ["depth"]


def test_pair_agreement() -> None:
    one, other = np.repeat([0, 1], 50), np.tile([0, 1], 50)
    assert pair_agreement([(0, one), (1, one)]) == 0.0
    assert pair_agreement([(0, one), (1, 1 - one)]) == 0.0
    assert pair_agreement([(0, one), (1, other)]) > 0.3
    assert np.isnan(pair_agreement([(0, one), (0, other)]))


def test_agreement_is_told_while_chains_run(tmp_path: Path) -> None:
    make_run(tmp_path, n_draws=8)
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=100)
    with Progress(2, 8, console=console) as progress:
        report = agreement.telling_of_agreement(RunFolder(tmp_path), 2, progress)
        report(0, 1, -1.0, 2)
        assert "R-hat" not in shown.getvalue()  # not yet: so soon, there is nothing new to tell
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(agreement, "SECONDS_BETWEEN", 0.0)
            patch.setattr(agreement, "FOLLOWED", ("complete_data", "n_nodes"))
            report(0, 2, -1.0, 2)
        assert "R-hat after 8 draws: complete_data " in shown.getvalue()
