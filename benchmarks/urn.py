"""``draw_urn`` against plain Python, and its cost against the number of children it looks at.

Two opponents, both run side by side with ``draw_urn`` in every round:

- the naive oracle of the tests, nested dictionaries that count everything anew at every step. Its
  cost per datum grows with the tree, so it gets only as many data as it can do in seconds;
- the same nested dictionaries with stored counts: the urn as one would write it in Python.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from treestick import Tree, prior
from treestick.prior.urn import fill_urn
from treestick.random import make_key

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import naive

ALPHA0, DECAY, GAMMA = 25.0, 0.5, 1.0
ROUNDS = 3


def python_urn(n: int, generator: random.Random) -> dict[str, Any]:
    """Let data go down the urn, in plain Python with stored counts."""
    root: dict[str, Any] = {"n_here": 0, "n_below": 0, "children": []}
    for _ in range(n):
        node, alpha = root, ALPHA0
        while True:
            n_here, n_below = node["n_here"], node["n_below"]
            if generator.random() < (n_here + 1) / (n_here + n_below + alpha + 1):
                break
            node["n_below"] += 1
            dart = generator.random() * (n_below + GAMMA)
            for child in node["children"]:
                dart -= child["n_here"] + child["n_below"]
                if dart < 0:
                    break
            else:
                child = {"n_here": 0, "n_below": 0, "children": []}
                node["children"].append(child)
            node, alpha = child, alpha * DECAY
        node["n_here"] += 1
    return root


def seconds(work: Callable[..., object], *arguments: object) -> float:
    """Return how long ``work`` takes."""
    start = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - start


def looked_at(tree: Tree) -> tuple[float, float]:
    """Return the mean number of levels that a datum came through, and of children looked at.

    Siblings are in the order of arrival, and the urn looks at them in this order: to enter child
    number k it looks at k of them, whenever it does so.
    """
    position = np.zeros(tree.n_nodes)
    for node in tree:
        children = tree.children(node)
        position[children] = position[node] + np.arange(1, children.size + 1)
    nodes = tree.assignments
    return float(tree.depth[nodes].mean()) + 1.0, float(position[nodes].mean())


def compare(n: int, n_naive: int) -> None:
    """Print how many times faster ``draw_urn`` is, per datum."""
    print(f"## Against plain Python (alpha0 {ALPHA0:g}, decay {DECAY:g}, gamma {GAMMA:g})\n")
    print("| opponent | its data | draw_urn's data | its us per datum | ours | times faster |")
    print("|---|---|---|---|---|---|")
    opponents: dict[str, tuple[int, Callable[[int], object]]] = {
        "naive oracle, counts anew": (
            n_naive,
            lambda seed: naive.draw_urn(n_naive, ALPHA0, DECAY, GAMMA, random.Random(seed)),
        ),
        "plain Python, counts stored": (n, lambda seed: python_urn(n, random.Random(seed))),
    }
    for name, (n_theirs, draw) in opponents.items():
        theirs, ours, ratios = [], [], []
        for seed in range(ROUNDS):
            theirs.append(seconds(draw, seed) / n_theirs)
            ours.append(seconds(prior.draw_urn, n, ALPHA0, DECAY, GAMMA, seed) / n)
            ratios.append(theirs[-1] / ours[-1])
        print(
            f"| {name} | {n_theirs:,} | {n:,} | {1e6 * statistics.median(theirs):.2f} "
            f"| {1e6 * statistics.median(ours):.3f} "
            f"| {statistics.median(ratios):.0f} ({min(ratios):.0f} to {max(ratios):.0f}) |"
        )


def scale(sizes: list[int]) -> None:
    """Print ns per datum, of the urn alone and with its tree, beside what it looks at."""
    print("\n## Cost per datum and what it looks at\n")
    print("| data | gamma | nodes | levels | children looked at | urn alone | per look | all |")
    print("|---|---|---|---|---|---|---|---|")
    for gamma in (1.0, 10.0, 100.0):
        for n in sizes:
            parameters = (n, ALPHA0, DECAY, gamma)
            alone, whole = [], []
            for seed in range(ROUNDS):
                # Small draws are repeated, so that a round lasts long enough to be timed.
                for _ in range(max(1, sizes[-1] // (10 * n))):
                    alone.append(1e9 / n * seconds(fill_urn, make_key(seed), *parameters))
                    whole.append(1e9 / n * seconds(prior.draw_urn, *parameters, seed))
            tree = prior.draw_urn(*parameters, 0)
            levels, children = looked_at(tree)
            ns = statistics.median(alone)
            print(
                f"| {n:,} | {gamma:g} | {tree.n_nodes:,} | {levels:.1f} | {children:.1f} "
                f"| {ns:.0f} | {ns / (levels + children):.1f} | {statistics.median(whole):.0f} |"
            )


def main() -> None:
    """Parse the sizes and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("-n", type=int, default=1_000_000, help="data for draw_urn")
    parser.add_argument("--naive", type=int, default=2_000, help="data for the naive oracle")
    options = parser.parse_args()
    prior.draw_urn(10, ALPHA0, DECAY, GAMMA, 0)  # compile
    compare(options.n, options.naive)
    scale([options.n // 100, options.n // 10, options.n])


if __name__ == "__main__":
    main()
