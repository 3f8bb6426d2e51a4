"""The laws of the prior: closed forms, one law by two constructions, bugs that are caught."""

import random

import pytest

import naive
from drawn_trees import (
    N_DATA,
    SETTINGS,
    Integers,
    Setting,
    depth_law,
    drawn,
    share_probability,
    statistics,
)
from laws import ALARM, p_law, p_same, p_symmetric
from planting import planted
from treestick import Tree


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("method", ["urn", "sticks"])
def test_closed_forms(method: str, setting: Setting) -> None:
    for name, p in closed_form_p_values(drawn(method, setting), setting).items():
        assert p > ALARM, name


def closed_form_p_values(found: dict[str, Integers], setting: Setting) -> dict[str, float]:
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
def test_urn_and_sticks_agree_in_law(setting: Setting) -> None:
    urn, sticks = drawn("urn", setting), drawn("sticks", setting)
    for name in urn:
        assert p_same(urn[name], sticks[name]) > ALARM, name


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("method", ["urn", "sticks"])
def test_the_law_does_not_change_when_the_data_are_permuted(method: str, setting: Setting) -> None:
    for name, p in exchange_p_values(drawn(method, setting)).items():
        assert p > ALARM, name


def exchange_p_values(found: dict[str, Integers]) -> dict[str, float]:
    """Compare first and last data within each tree: swapping them must not change the law."""
    names = ("depth of the {} datum", "relation of the {} two", "relations of the {} three")
    return {
        name: p_symmetric(found[name.format("first")], found[name.format("last")]) for name in names
    }


def test_the_urn_agrees_with_the_naive_oracle() -> None:
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
    "stick(stream, alpha0 * math.exp(table.depth[node] * math.log(decay)))",
    "stick(stream, alpha0 * math.exp((table.depth[node] + 1) * math.log(decay)))",
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
def test_planted_bugs_are_caught(method: str, bug: tuple[str, str], setting: Setting) -> None:
    wrong = planted(f"treestick.prior.{method}", *bug)

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
        planted("treestick.prior.urn", "no such line", "")
