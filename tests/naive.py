"""The naive oracle: a tree as nested dictionaries, slow and obviously right.

A node is ``{"n_here": int, "children": {ordinal: node}}`` and is named by its path, the ordinals
from the root down. Nothing is stored that can be counted: how many data are below a node is found
by walking over all of it, every time.
"""

import math
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

Node = dict[str, Any]
Path = tuple[int, ...]
_ROOT: Path = ()
Number = Any
"""A float, or a fraction where the result has to be exact."""


def new_node() -> Node:
    return {"n_here": 0, "children": {}}


def find(root: Node, path: Path) -> Node:
    node = root
    for ordinal in path:
        node = node["children"][ordinal]
    return node


def n_through(node: Node) -> int:
    count: int = node["n_here"]
    return count + sum(n_through(child) for child in node["children"].values())


def n_below(node: Node) -> int:
    return n_through(node) - int(node["n_here"])


def walk(node: Node, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Yield all paths and nodes in depth-first order."""
    yield path, node
    for ordinal in sorted(node["children"]):
        yield from walk(node["children"][ordinal], (*path, ordinal))


def prune(node: Node) -> None:
    """Remove what has no data at or below it (but not the node itself)."""
    node["children"] = {k: child for k, child in node["children"].items() if n_through(child) > 0}
    for child in node["children"].values():
        prune(child)


def stop_probability(node: Node, depth: int, alpha0: Number, decay: Number) -> Number:
    alpha = alpha0 * decay**depth
    probability: Number = (node["n_here"] + 1) / (n_through(node) + alpha + 1)
    return probability


def child_probability(node: Node, child: Node | None, gamma: Number) -> Number:
    weight = gamma if child is None else n_through(child)
    return weight / (n_below(node) + gamma)


def draw_urn(
    n: int, alpha0: float, decay: float, gamma: float, generator: random.Random
) -> tuple[Node, list[Path]]:
    """Let ``n`` data go down the urn of the paper's section 2, word for word."""
    root = new_node()
    paths: list[Path] = []
    for _ in range(n):
        node, path = root, _ROOT
        while generator.random() >= stop_probability(node, len(path), alpha0, decay):
            node, path = _choose_child(node, path, gamma, generator)
        node["n_here"] += 1
        paths.append(path)
    return root, paths


def _choose_child(
    node: Node, path: Path, gamma: float, generator: random.Random
) -> tuple[Node, Path]:
    dart = generator.random()
    for ordinal, child in node["children"].items():
        dart -= child_probability(node, child, gamma)
        if dart < 0:
            return child, (*path, ordinal)
    ordinal = len(node["children"])
    node["children"][ordinal] = new_node()
    return node["children"][ordinal], (*path, ordinal)


def log_probability_by_steps(
    paths: Sequence[Path], alpha0: float, decay: float, gamma: float
) -> float:
    """Return the log of the product of the urn's steps that put each datum where it is.

    The steps are exact fractions: floating point has no 1 - p for a p within 1e-16 of 1.
    """
    a, d, g = Fraction(alpha0), Fraction(decay), Fraction(gamma)
    root, steps = new_node(), []
    for path in paths:
        node = root
        for depth, ordinal in enumerate(path):
            steps.append(1 - stop_probability(node, depth, a, d))
            steps.append(child_probability(node, node["children"].get(ordinal), g))
            node = node["children"].setdefault(ordinal, new_node())
        steps.append(stop_probability(node, len(path), a, d))
        node["n_here"] += 1
    return math.fsum(math.log(step.numerator) - math.log(step.denominator) for step in steps)
