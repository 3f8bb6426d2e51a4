"""Many trees from the prior, what is asked of them, and the closed forms that they must follow."""

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

import naive
from treestick import Tree, prior

N_TREES = 20_000
N_DATA = 12
SETTINGS = [(1.0, 0.5, 0.2), (5.0, 1.0, 0.5), (25.0, 0.5, 1.0)]

Integers = npt.NDArray[np.int64]
Draw = Callable[[int, float, float, float, int], Tree]
Setting = tuple[float, float, float]


def draw_by_urn(n: int, alpha0: float, decay: float, gamma: float, seed: int) -> Tree:
    return prior.draw_urn(n, alpha0, decay, gamma, seed)


def draw_by_sticks(n: int, alpha0: float, decay: float, gamma: float, seed: int) -> Tree:
    return prior.draw_sticks(n, alpha0, decay, gamma, seed, min_mass=1.0)


def statistics(draw: Draw, setting: Setting) -> dict[str, Integers]:
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
def drawn(method: str, setting: Setting) -> dict[str, Integers]:
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


def paths_of(tree: Tree) -> list[naive.Path]:
    return [tuple(tree.path(node).tolist()[1:]) for node in tree.assignments.tolist()]
