"""The prior: closed forms, two constructions with one law, and a probability that sums to one."""

import itertools
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import naive
from laws import ALARM, p_law, p_same, p_symmetric
from planting import planted
from treestick import Tree, prior
from treestick.inputs import InvalidType, InvalidValue

N_TREES = 20_000
N_DATA = 12
SETTINGS = [(1.0, 0.5, 0.2), (5.0, 1.0, 0.5), (25.0, 0.5, 1.0)]

Integers = npt.NDArray[np.int64]
Draw = Callable[[int, float, float, float, int], Tree]


def draw_by_urn(n: int, alpha0: float, decay: float, gamma: float, seed: int) -> Tree:
    return prior.draw_urn(n, alpha0, decay, gamma, seed)


def draw_by_sticks(n: int, alpha0: float, decay: float, gamma: float, seed: int) -> Tree:
    return prior.draw_sticks(n, alpha0, decay, gamma, seed, min_mass=1.0)


def statistics(draw: Draw, setting: tuple[float, float, float]) -> dict[str, Integers]:
    """Draw many trees, and return for each what does not depend on how nodes are numbered."""
    rows = []
    for seed in range(N_TREES):
        tree = draw(N_DATA, *setting, seed)
        depth = tree.depth[tree.assignments]
        rows.append(
            (
                tree.n_nodes,
                np.count_nonzero(tree.n_here),
                depth.max(),
                depth[0],
                depth[-1],
                relation(tree, 0, 1),
                relation(tree, N_DATA - 2, N_DATA - 1),
                triple(tree, (0, 1, 2)),
                triple(tree, (N_DATA - 1, N_DATA - 2, N_DATA - 3)),
                tree.children(0).size,
                tree.n_here.max(),
            )
        )
    names = (
        "nodes",
        "occupied nodes",
        "largest depth",
        "depth of the first datum",
        "depth of the last datum",
        "relation of the first two",
        "relation of the last two",
        "relations of the first three",
        "relations of the last three",
        "children of the root",
        "largest node",
    )
    return dict(zip(names, np.array(rows).T, strict=True))


def relation(tree: Tree, a: int, b: int) -> int:
    """Say how two data stand: 0 same node, 1 a above b, 2 b above a, 3 neither."""
    x, y = tree.assignments[[a, b]].tolist()
    if x == y:
        return 0
    if x in tree.path(y):
        return 1
    return 2 if y in tree.path(x) else 3


def triple(tree: Tree, data: tuple[int, int, int]) -> int:
    a, b, c = data
    return 16 * relation(tree, a, b) + 4 * relation(tree, b, c) + relation(tree, a, c)


@cache
def drawn(method: str, setting: tuple[float, float, float]) -> dict[str, Integers]:
    return statistics({"urn": draw_by_urn, "sticks": draw_by_sticks}[method], setting)


def depth_law(alpha0: float, decay: float, most: int = 40) -> dict[int, float]:
    """P(depth = d) = 1/(1+alpha_d) * prod_{j<d} alpha_j/(1+alpha_j)."""
    law, goes_on = {}, 1.0
    for d in range(most):
        alpha = alpha0 * decay**d
        law[d] = goes_on / (1 + alpha)
        goes_on *= alpha / (1 + alpha)
    return law


def share_probability(alpha0: float, decay: float, gamma: float, depth: int = 0) -> float:
    """P(two data share a node): P(a) = 2/((1+a)(2+a)) + a/(a+2) * P(decay*a)/(1+gamma)."""
    if depth == 400:
        return 0.0
    a = alpha0 * decay**depth
    deeper = share_probability(alpha0, decay, gamma, depth + 1)
    return 2 / ((1 + a) * (2 + a)) + a / (a + 2) * deeper / (1 + gamma)


# -- closed forms, and agreement of the constructions --------------------------------------------


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("method", ["urn", "sticks"])
def test_closed_forms(method: str, setting: tuple[float, float, float]) -> None:
    for name, p in closed_form_p_values(drawn(method, setting), setting).items():
        assert p > ALARM, name


def closed_form_p_values(
    found: dict[str, Integers], setting: tuple[float, float, float]
) -> dict[str, float]:
    alpha0, decay, _ = setting
    together = share_probability(*setting)
    return {
        "depth of the first datum": p_law(
            found["depth of the first datum"], depth_law(alpha0, decay)
        ),
        "depth of the last datum": p_law(
            found["depth of the last datum"], depth_law(alpha0, decay)
        ),
        "first two share a node": p_law(found["relation of the first two"] == 0, {1: together}),
        "last two share a node": p_law(found["relation of the last two"] == 0, {1: together}),
    }


@pytest.mark.parametrize("setting", SETTINGS)
def test_urn_and_sticks_agree_in_law(setting: tuple[float, float, float]) -> None:
    urn, sticks = drawn("urn", setting), drawn("sticks", setting)
    for name in urn:
        assert p_same(urn[name], sticks[name]) > ALARM, name


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("method", ["urn", "sticks"])
def test_the_law_does_not_change_when_the_data_are_permuted(
    method: str, setting: tuple[float, float, float]
) -> None:
    for name, p in exchange_p_values(drawn(method, setting)).items():
        assert p > ALARM, name


def exchange_p_values(found: dict[str, Integers]) -> dict[str, float]:
    """Compare first and last data within each tree: swapping them must not change the law."""
    names = ("depth of the {} datum", "relation of the {} two", "relations of the {} three")
    return {
        name: p_symmetric(found[name.format("first")], found[name.format("last")]) for name in names
    }


def test_the_urn_agrees_with_the_naive_oracle() -> None:
    import random

    setting = SETTINGS[0]
    urn = drawn("urn", setting)
    generator = random.Random(1)
    n_nodes, n_occupied, largest = [], [], []
    for _ in range(5_000):
        root, paths = naive.draw_urn(N_DATA, *setting, generator)
        nodes = [node for _, node in naive.walk(root)]
        n_nodes.append(len(nodes))
        n_occupied.append(sum(node["n_here"] > 0 for node in nodes))
        largest.append(max(len(path) for path in paths))
    assert p_same(urn["nodes"], n_nodes) > ALARM
    assert p_same(urn["occupied nodes"], n_occupied) > ALARM
    assert p_same(urn["largest depth"], largest) > ALARM


# -- planted bugs --------------------------------------------------------------------------------

URN_WITH_N_BELOW = (
    "dart -= table.n_here[child] + table.n_below[child]",
    "dart -= table.n_below[child]",
)
URN_ONE_TOO_DEEP = ("        alpha = alpha0\n", "        alpha = alpha0 * decay\n")
STICKS_ONE_TOO_DEEP = (
    "_stick(stream, alpha0 * math.exp(table.depth[node] * math.log(decay)))",
    "_stick(stream, alpha0 * math.exp((table.depth[node] + 1) * math.log(decay)))",
)
STICKS_NOT_NESTED = (
    "                left_over *= 1.0 - table.psi[child]\n                if dart",
    "                left_over -= table.psi[child]\n                if dart",
)


@pytest.mark.parametrize(
    ("method", "bug", "setting"),
    [
        ("urn", URN_WITH_N_BELOW, SETTINGS[0]),
        ("urn", URN_ONE_TOO_DEEP, SETTINGS[0]),
        ("sticks", STICKS_ONE_TOO_DEEP, SETTINGS[0]),
        ("sticks", STICKS_NOT_NESTED, SETTINGS[2]),
    ],
    ids=["n_below for n_through", "urn one too deep", "sticks one too deep", "psi as phi"],
)
def test_planted_bugs_are_caught(
    method: str, bug: tuple[str, str], setting: tuple[float, float, float]
) -> None:
    wrong: ModuleType = planted("treestick.prior", *bug)

    def draw_wrong(n: int, alpha0: float, decay: float, gamma: float, seed: int) -> Tree:
        if method == "urn":
            tree: Tree = wrong.draw_urn(n, alpha0, decay, gamma, seed)
        else:
            tree = wrong.draw_sticks(n, alpha0, decay, gamma, seed, min_mass=1.0)
        return tree

    found = statistics(draw_wrong, setting)
    other = drawn("sticks" if method == "urn" else "urn", setting)
    assert min(closed_form_p_values(found, setting).values()) < ALARM, "closed forms"
    assert min(p_same(found[name], other[name]) for name in found) < ALARM, "urn against sticks"
    if bug is URN_WITH_N_BELOW:
        assert min(exchange_p_values(found).values()) < ALARM, "permuted data"


def test_a_bug_can_only_be_planted_where_its_line_is() -> None:
    with pytest.raises(ValueError, match="stands 0 times"):
        planted("treestick.prior", "no such line", "")


# -- the probability of a tree partition ---------------------------------------------------------


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
def test_log_probability_sums_to_one(n: int, setting: tuple[float, float, float]) -> None:
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


def paths_of(tree: Tree) -> list[naive.Path]:
    return [tuple(tree.path(node).tolist()[1:]) for node in tree.assignments.tolist()]


@pytest.mark.parametrize("setting", [*SETTINGS, (0.1, 0.3, 30.0)])
@pytest.mark.parametrize("seed", [1, 2])
def test_log_probability_is_the_product_of_urn_steps(
    setting: tuple[float, float, float], seed: int
) -> None:
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
def test_log_probability_at_extreme_parameters(setting: tuple[float, float, float]) -> None:
    tree = Tree([-1, 0, 0, 1], [0, 1, 1, 2, 3])
    steps = naive.log_probability_by_steps(paths_of(tree), *setting)
    assert prior.log_probability(tree, *setting) == pytest.approx(steps, rel=1e-12)


# -- what the draws are --------------------------------------------------------------------------


def test_mass_of_an_urn_draw_is_the_next_datum() -> None:
    setting = (3.0, 0.6, 0.8)
    tree = prior.draw_urn(80, *setting, seed=8)
    root = naive.new_node()
    for path in paths_of(tree):
        node = root
        for ordinal in path:
            node = node["children"].setdefault(ordinal, naive.new_node())
        node["n_here"] += 1
    expected = {}
    for path, _ in naive.walk(root):
        node, reached = root, 1.0
        for depth, ordinal in enumerate(path):
            reached *= 1 - naive.stop_probability(node, depth, *setting[:2])
            reached *= naive.child_probability(node, node["children"][ordinal], setting[2])
            node = node["children"][ordinal]
        expected[path] = reached * naive.stop_probability(node, len(path), *setting[:2])
    found = {tuple(tree.path(k).tolist()[1:]): tree.mass[k] for k in tree}
    assert found.keys() == expected.keys()
    for path in found:
        assert found[path] == pytest.approx(expected[path], rel=1e-12)
    assert 0.5 < tree.mass.sum() < 1.0


def test_a_longer_draw_goes_on_with_the_same_draw() -> None:
    short, long = (prior.draw_urn(n, 2.0, 0.7, 1.0, seed=5) for n in (60, 5_000))
    assert long.n_nodes > 64 * 4  # the table has grown several times
    for a in range(60):
        for b in range(a):
            assert relation(short, a, b) == relation(long, a, b)


def test_one_seed_one_tree() -> None:
    assert prior.draw_urn(500, 5.0, 0.5, 1.0, 1) == prior.draw_urn(500, 5.0, 0.5, 1.0, 1)
    assert prior.draw_urn(500, 5.0, 0.5, 1.0, 1) != prior.draw_urn(500, 5.0, 0.5, 1.0, 2)


def test_sticks_are_looked_up_not_drawn_in_turn() -> None:
    """What is asked for, data or small nodes, does not change the sticks."""
    setting = (4.0, 0.6, 1.0, 3)
    fine = prior.draw_sticks(0, *setting, min_mass=1e-4)
    for coarse in (
        prior.draw_sticks(0, *setting, min_mass=0.01),
        prior.draw_sticks(0, *setting, min_mass=0.01, max_depth=3),
        prior.draw_sticks(50, *setting, min_mass=1.0),
    ):
        fine_nodes = interval_table(fine)
        for name, values in interval_table(coarse).items():
            if name in fine_nodes:
                assert values == fine_nodes[name]
    coarse = prior.draw_sticks(0, *setting, min_mass=0.01)
    wanted = {name for name, values in interval_table(fine).items() if values[2] >= 0.01}
    assert interval_table(coarse).keys() == wanted
    shallow = prior.draw_sticks(0, *setting, min_mass=0.01, max_depth=3)
    assert interval_table(shallow).keys() == {name for name in wanted if len(name) <= 3}


def interval_table(tree: Tree) -> dict[tuple[int, ...], tuple[float, ...]]:
    ordinal = tree.node_params["ordinal"]
    params = [tree.node_params[name] for name in ("nu", "left", "span")]
    return {
        tuple(ordinal[tree.path(k)].tolist()[1:]): tuple(float(p[k]) for p in params) for k in tree
    }


def test_stick_intervals_nest() -> None:
    tree = prior.draw_sticks(200, 4.0, 0.6, 1.0, 3, min_mass=0.001)
    left, span = tree.node_params["left"], tree.node_params["span"]
    np.testing.assert_allclose(tree.mass, tree.node_params["nu"] * span)
    for node in tree:
        end = left[node] + tree.mass[node]
        for child in tree.children(node).tolist():
            assert left[child] >= end - 1e-12
            end = left[child] + span[child]
        assert end <= left[node] + span[node] + 1e-12
    assert np.all((span >= 0.001) | (tree.n_through > 0))


@pytest.mark.parametrize("draw", [draw_by_urn, draw_by_sticks])
def test_no_data_and_one_datum(draw: Draw) -> None:
    empty = draw(0, 1.0, 0.5, 1.0, 1)
    assert (empty.n_nodes, empty.n_data) == (1, 0)
    assert draw(1, 1.0, 0.5, 1.0, 1).n_data == 1


def test_no_limit_on_depth_or_width() -> None:
    deep = prior.draw_urn(20, 2_000.0, 1.0, 1e-6, 1)
    assert deep.depth.max() > 2_000
    deep = prior.draw_sticks(20, 2_000.0, 1.0, 1e-6, 1, min_mass=1.0)
    assert deep.depth.max() > 2_000
    wide = prior.draw_urn(5_000, 1e9, 1e-9, 1e5, 1)
    assert wide.children(0).size > 4_000
    wide = prior.draw_sticks(300, 1e9, 1e-9, 3e3, 1, min_mass=1.0)
    assert wide.children(0).size > 250


# -- bad input -----------------------------------------------------------------------------------

GOOD = {"n": 5, "alpha0": 1.0, "decay": 0.5, "gamma": 1.0, "seed": 1}


@pytest.mark.parametrize("draw", [prior.draw_urn, prior.draw_sticks])
@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("n", -1, InvalidValue),
        ("n", 2.0, InvalidType),
        ("n", True, InvalidType),
        ("alpha0", -1.0, InvalidValue),
        ("alpha0", 0.0, InvalidValue),
        ("alpha0", math.nan, InvalidValue),
        ("alpha0", math.inf, InvalidValue),
        ("alpha0", 10**400, InvalidValue),
        ("alpha0", np.ones((3, 3)), InvalidType),
        ("alpha0", "1", InvalidType),
        ("decay", 0.0, InvalidValue),
        ("decay", 1.01, InvalidValue),
        ("decay", math.nan, InvalidValue),
        ("decay", None, InvalidType),
        ("gamma", -0.1, InvalidValue),
        ("gamma", math.nan, InvalidValue),
        ("gamma", 1j, InvalidType),
        ("seed", 0.5, InvalidType),
        ("seed", "x", InvalidType),
        ("seed", -1, InvalidValue),
        ("seed", 2**64, InvalidValue),
    ],
)
def test_bad_parameters(
    draw: Callable[..., Tree], name: str, value: object, error: type[Exception]
) -> None:
    with pytest.raises(error) as caught:
        draw(**{**GOOD, name: value})
    message = str(caught.value)
    assert message.startswith(f"{name}=")
    assert message.startswith(f"{name}={repr(value)[:20].split()[0]}")
    assert len(message) < 200
    assert "\n" not in message
    assert isinstance(caught.value, ValueError | TypeError)


@pytest.mark.parametrize(
    ("name", "value"),
    [("min_mass", 0.0), ("min_mass", 1.5), ("max_depth", -1), ("max_depth", 2**70)],
)
def test_bad_limits(name: str, value: float) -> None:
    with pytest.raises(InvalidValue, match=f"{name}="):
        prior.draw_sticks(**GOOD, **{name: value})  # type: ignore[arg-type]


def test_sticks_that_cannot_be_broken_one_by_one_are_refused() -> None:
    with pytest.raises(InvalidValue, match=r"gamma=1e\+17 is too large for draw_sticks"):
        prior.draw_sticks(1, 1.0, 0.5, 1e17, 1)


def test_log_probability_needs_a_tree() -> None:
    with pytest.raises(InvalidType, match="not int"):
        prior.log_probability(5, 1.0, 0.5, 1.0)  # type: ignore[arg-type]


INTERRUPTED = """
import os, signal, threading, time
from treestick import prior
draw = getattr(prior, {name!r})
draw(10, 25.0, 0.5, 1.0, 1)
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    for seed in range(10_000):
        draw(1_500_000, 25.0, 0.5, 1.0, seed)
except KeyboardInterrupt:
    print("stopped")
print(draw(3, 25.0, 0.5, 1.0, 1).n_data)
"""


@pytest.mark.parametrize("name", ["draw_urn", "draw_sticks"])
@pytest.mark.skipif(sys.platform == "win32", reason="os.kill means something else there")
def test_an_interrupt_stops_a_draw_and_nothing_else(name: str) -> None:
    """Numba ends the process with a segmentation fault if it is not kept from seeing it."""
    script = INTERRUPTED.format(name=name)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "stopped\n3\n", "")


def test_numpy_numbers_are_numbers() -> None:
    numbers: list[Any] = [np.int32(5), np.float32(1), np.float64(0.5), np.int64(1), np.uint64(1)]
    found = prior.draw_urn(*numbers)
    assert found == prior.draw_urn(**GOOD)  # type: ignore[arg-type]
