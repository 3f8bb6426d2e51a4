"""Dendrogram purity against a count of all pairs, with data at inner nodes."""

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from treestick import Tree
from treestick.analysis.purity import dendrogram_purity, label_counts, label_entropy
from treestick.inputs import InvalidValue


def random_tree(random: np.random.Generator, n_data: int, n_nodes: int) -> Tree:
    parent = np.r_[-1, random.integers(0, np.arange(1, n_nodes))]
    return Tree(parent, random.integers(0, n_nodes, n_data))


def naive_purity(tree: Tree, labels: npt.NDArray[Any]) -> float:
    paths = [[int(node) for node in tree.path(int(at))] for at in tree.assignments]
    found = []
    for i, j in itertools.combinations(range(tree.n_data), 2):
        if labels[i] != labels[j]:
            continue
        meeting = max(set(paths[i]) & set(paths[j]), key=lambda node: tree.depth[node])
        inside = [n for n in range(tree.n_data) if meeting in paths[n]]
        found.append(np.mean(labels[inside] == labels[i]))
    return float(np.mean(found))


@pytest.mark.parametrize("seed", range(10))
def test_purity_is_the_mean_over_pairs(seed: int) -> None:
    random = np.random.default_rng(seed)
    tree = random_tree(random, 20, 7)
    labels = random.choice(["a", "b", "c"], 20)
    assert dendrogram_purity(tree, labels) == pytest.approx(naive_purity(tree, labels), abs=1e-12)


def test_no_pair_has_no_purity() -> None:
    assert np.isnan(dendrogram_purity(Tree([-1], [0, 0]), ["a", "b"]))


def test_counts_at_and_below() -> None:
    tree = Tree([-1, 0, 1], [0, 1, 2, 2])
    assert label_counts(tree, [3, 5, 5, 5]).tolist() == [[1, 0], [0, 1], [0, 2]]
    assert label_counts(tree, [3, 5, 5, 5], below=True).tolist() == [[1, 3], [0, 3], [0, 2]]
    with pytest.raises(InvalidValue, match=r"labels have shape \(3,\) for 4 data"):
        label_counts(tree, [1, 2, 3])


def test_entropy_is_that_of_labels_within_nodes() -> None:
    tree = Tree([-1, 0], [0, 0, 1, 1])
    assert label_entropy(tree, ["a", "b", "c", "c"]) == pytest.approx(np.log(2.0) / 2.0)
    assert label_entropy(tree, ["a", "a", "b", "b"]) == 0.0
