"""The probability of a tree partition: it sums to one, and trees are drawn as often as it says."""

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest

import naive
from drawn_trees import (
    N_TREES,
    SETTINGS,
    Draw,
    Setting,
    depth_law,
    draw_by_sticks,
    draw_by_urn,
    paths_of,
)
from laws import ALARM, p_law
from treestick import Tree, prior
from treestick.inputs import InvalidType


def partitions(items: tuple[int, ...]) -> Iterator[list[tuple[int, ...]]]:
    """Yield every set partition of ``items``."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for size in range(2 ** len(rest)):
        block = (first, *(x for k, x in enumerate(rest) if size >> k & 1))
        others = tuple(x for k, x in enumerate(rest) if not size >> k & 1)
        for remaining in partitions(others):
            yield [block, *remaining]


def tree_partitions(
    data: tuple[int, ...], depth_left: int
) -> Iterator[list[tuple[int, tuple[int, ...]]]]:
    """Yield every tree partition as a list of (parent, data here), the root first."""
    for choice in range(2 ** len(data)):
        here = tuple(x for k, x in enumerate(data) if choice >> k & 1)
        below = tuple(x for k, x in enumerate(data) if not choice >> k & 1)
        if not below:
            yield [(-1, here)]
        elif depth_left > 0:
            for blocks in partitions(below):
                for subtrees in product_of([(b, depth_left - 1) for b in blocks]):
                    nodes = [(-1, here)]
                    for subtree in subtrees:
                        offset = len(nodes)
                        nodes += [(up + offset if up >= 0 else 0, at) for up, at in subtree]
                    yield nodes


def product_of(
    blocks: list[tuple[tuple[int, ...], int]],
) -> Iterator[list[list[tuple[int, tuple[int, ...]]]]]:
    if not blocks:
        yield []
        return
    for subtree in tree_partitions(*blocks[0]):
        for others in product_of(blocks[1:]):
            yield [subtree, *others]


def all_trees(n: int, deepest: int) -> Iterator[Tree]:
    """Yield every tree partition of ``n`` data down to a depth, siblings in order of arrival."""
    for nodes in tree_partitions(tuple(range(n)), deepest):
        assignments = np.empty(n, dtype=np.int64)
        for node, (_, data) in enumerate(nodes):
            assignments[list(data)] = node
        yield Tree([parent for parent, _ in nodes], assignments)


@pytest.mark.parametrize("setting", [(1.0, 0.5, 0.7), (0.3, 1.0, 2.0), (4.0, 0.2, 0.2)])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_log_probability_sums_to_one(n: int, setting: Setting) -> None:
    """All trees down to a depth are summed; deeper ones have at most n * P(one datum is deeper)."""
    deepest = 6
    total = sum(math.exp(prior.log_probability(t, *setting)) for t in all_trees(n, deepest))
    remainder = n * (1.0 - sum(depth_law(*setting[:2], deepest + 1).values()))
    assert remainder < 3e-4
    assert 1.0 - remainder - 1e-12 <= total <= 1.0 + 1e-12


@pytest.mark.parametrize("draw", [draw_by_urn, draw_by_sticks])
def test_trees_are_drawn_as_often_as_log_probability_says(draw: Draw) -> None:
    setting = (1.0, 0.5, 0.7)
    names, law = {}, {}
    for number, tree in enumerate(all_trees(3, 4)):
        names[partition_name(tree)] = number
        law[number] = math.exp(prior.log_probability(tree, *setting))
    assert len(names) == len(law)
    found = [names.get(partition_name(draw(3, *setting, seed)), -1) for seed in range(N_TREES)]
    assert p_law(found, law) > ALARM


def partition_name(tree: Tree) -> tuple[object, ...]:
    """Name a tree partition: for each datum its depth, for each pair how far they go together."""
    paths = [tree.path(node) for node in tree.assignments.tolist()]
    together = [len(set(a.tolist()) & set(b.tolist())) for a, b in itertools.combinations(paths, 2)]
    return (*(path.size for path in paths), *together)


@pytest.mark.parametrize("setting", [*SETTINGS, (0.1, 0.3, 30.0)])
@pytest.mark.parametrize("seed", [1, 2])
def test_log_probability_is_the_product_of_urn_steps(setting: Setting, seed: int) -> None:
    tree = prior.draw_urn(200, *setting, seed)
    found = prior.log_probability(tree, *setting)
    paths = paths_of(tree)
    assert found == pytest.approx(naive.log_probability_by_steps(paths, *setting), rel=1e-10)
    shuffled = [paths[k] for k in np.random.default_rng(seed).permutation(200)]
    assert found == pytest.approx(naive.log_probability_by_steps(shuffled, *setting), rel=1e-10)


def test_log_probability_counts_the_hull_only() -> None:
    tree = prior.draw_sticks(40, 3.0, 0.5, 1.0, 4, min_mass=0.001)
    hull = prior.draw_sticks(40, 3.0, 0.5, 1.0, 4, min_mass=1.0)
    assert hull.n_nodes < tree.n_nodes
    assert prior.log_probability(tree, 2.0, 0.5, 1.0) == pytest.approx(
        prior.log_probability(hull, 2.0, 0.5, 1.0), rel=1e-13
    )
    assert prior.log_probability(Tree([-1]), 1.0, 0.5, 1.0) == 0.0


def test_log_probability_is_finite_where_alpha_underflows() -> None:
    depth = 5_000
    tree = Tree(np.arange(depth + 1) - 1, [depth])
    found = prior.log_probability(tree, 1.0, 0.5, 1.0)
    # prod_{d < depth} alpha_d / (1 + alpha_d), times 1 / (1 + alpha_depth)
    log_alpha = np.arange(depth + 1) * math.log(0.5)
    expected = log_alpha[:-1].sum() - np.log1p(np.exp(log_alpha)).sum()
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("setting", [(1e9, 1.0, 1e9), (1e-9, 1e-3, 1e-9), (1e-3, 1e-300, 5e-324)])
def test_log_probability_at_extreme_parameters(setting: Setting) -> None:
    tree = Tree([-1, 0, 0, 1], [0, 1, 1, 2, 3])
    steps = naive.log_probability_by_steps(paths_of(tree), *setting)
    assert prior.log_probability(tree, *setting) == pytest.approx(steps, rel=1e-12)


def test_log_probability_needs_a_tree() -> None:
    with pytest.raises(InvalidType, match="not int"):
        prior.log_probability(5, 1.0, 0.5, 1.0)  # type: ignore[arg-type]
