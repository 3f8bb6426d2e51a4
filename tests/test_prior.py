"""What draws from the prior are, and what is not accepted."""

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import naive
from drawn_trees import Draw, draw_by_sticks, draw_by_urn, paths_of, relation
from treestick import Tree, prior
from treestick.inputs import InvalidType, InvalidValue


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
