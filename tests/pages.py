"""Subjects of reports made by hand: a fitted estimator that nobody had to fit."""

from pathlib import Path
from typing import Any

import numpy as np
import xarray

from treestick import Tree
from treestick.report.explorer import write_page
from treestick.report.subject import Subject, describe, describe_tree

N_DATA = 240
WORDS = ("cat", "dog", "whale", "oak", "fern", "moss", "iron", "gold", "salt", "wind")

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "<!--<script>",
    '=HYPERLINK("http://localhost/","here")',
    "\u0645\u0631\u062d\u0628\u0627 \u202eright to left",
    "x" * 10_000,
    "$\\frac{1}{2}$ & \u2028 '\" `",
    "lone \ud800 surrogate",
)


class FakeDraws(list[Tree]):
    """Trees of two chains, one after the other."""

    @property
    def chain(self) -> Any:
        return np.repeat([0, 1], len(self) // 2)


class FakeModel:
    """What a report asks of a fitted estimator. Chains agree, or not."""

    def __init__(self, n_draws: int = 12, agree: bool = True) -> None:
        self.draws_ = FakeDraws(animal_tree(seed) for seed in range(n_draws))
        self.tree_ = animal_tree(0)
        self.feature_names_in_ = np.array(WORDS, dtype=object)
        rng = np.random.default_rng(0)
        per_chain = max(n_draws // 2, 200)
        shift = np.zeros((2, 1)) if agree else np.array([[0.0], [30.0]])
        traces = {
            name: (("chain", "draw"), rng.normal(size=(2, per_chain)) + shift)
            for name in ("alpha0", "gamma", "n_nodes", "depth")
        }
        scores = {"lp": (("chain", "draw"), rng.normal(size=(2, per_chain)) + shift)}
        attributes = {"sweep_of_first_draw": 101, "thin": 2}
        self.idata_ = xarray.DataTree.from_dict(
            {
                "posterior": xarray.Dataset(traces, attrs=attributes),
                "sample_stats": xarray.Dataset(scores),
            }
        )


def animal_tree(seed: int) -> Tree:
    """Seven nodes: animals, plants and minerals below the root, two kinds of animals, one more."""
    rng = np.random.default_rng(seed)
    parent = [-1, 0, 0, 0, 1, 1, 2]
    at = np.arange(N_DATA) % 7
    moved = rng.random(N_DATA) < 0.05 * (seed > 0)
    at = np.where(moved, rng.integers(0, 7, N_DATA), at)
    probability = np.full((7, len(WORDS)), 0.1)
    words = {1: (0, 1, 2), 2: (3, 4, 5), 3: (6, 7, 8), 4: (0,), 5: (2,), 6: (4,)}
    for node, common in words.items():
        probability[node, list(common)] += 0.3
        probability[node] /= probability[node].sum()
    mass = np.bincount(at, minlength=7) / (N_DATA + 1)
    return Tree(parent, at, mass, {"probability": probability})


def animals(**changed: Any) -> Subject:
    """Return documents of ten words, with years, groups and authors."""
    model = FakeModel(changed.pop("n_draws", 12), changed.pop("agree", True))
    rng = np.random.default_rng(1)
    at = model.tree_.assignments
    rows = rng.poisson(10 * model.tree_.node_params["probability"][at])
    known = {
        "title": "Beasts and stones",
        "ids": [f"page {k}" for k in range(N_DATA)],
        "metadata": {
            "group": [("none", "animal", "plant", "stone", "cat", "whale", "fern")[k] for k in at],
            "year": (1987 + np.arange(N_DATA) % 13).tolist(),
            "authors": [[f"Author {k % 9}", f"Author {k % 5}"] for k in range(N_DATA)],
        },
        "support": np.linspace(1.0, 0.4, 7),
        **changed,
    }
    return describe(model, rows, **known)


def with_images(n_data: int, side: int = 8, colour: bool = False) -> Subject:
    """Return a tree of forty nodes with images of noise, each of another brightness."""
    rng = np.random.default_rng(2)
    parent = np.r_[-1, np.arange(39) // 3]
    at = rng.integers(0, 40, n_data)
    shape = (n_data, side, side, 3) if colour else (n_data, side, side)
    level = (np.arange(n_data) * 37 % 200).reshape(-1, *[1] * (len(shape) - 1))
    images = (level + rng.integers(0, 56, shape)).astype(np.uint8)
    return describe_tree(Tree(parent, at), "Images", images=images)


def wines() -> Subject:
    """Return real numbers of very different size; nodes differ in both directions."""
    mean = np.array([[13.0, 2.4, 750.0], [14.8, 1.7, 752.0], [11.5, 2.4, 420.0]])
    tree = Tree([-1, 0, 0], np.arange(30) % 3, node_params={"mean": mean})
    rows = mean[tree.assignments] + np.random.default_rng(4).normal(size=(30, 3)) * [0.5, 0.2, 100]
    return describe_tree(tree, "Wines", rows=rows, features=["alcohol", "ash", "proline"])


def hostile() -> Subject:
    """Return a subject in which every name that a user can give is hostile."""
    names = [HOSTILE[k % len(HOSTILE)] for k in range(N_DATA)]
    return animals(
        title=HOSTILE[1],
        ids=names,
        texts=names[::-1],
        features=[HOSTILE[k % len(HOSTILE)] for k in range(len(WORDS))],
        metadata={HOSTILE[0]: names, HOSTILE[1]: [[name, "other"] for name in names]},
    )


def large() -> Subject:
    """Return a tree of 5,000 nodes with words, and 50,000 data."""
    rng = np.random.default_rng(3)
    n_nodes = 5_000
    above = [int(rng.integers(max(0, k // 4 - 3), max(1, k // 3))) for k in range(1, n_nodes)]
    at = rng.integers(0, n_nodes, 50_000)
    probability = rng.dirichlet(np.ones(60), n_nodes).astype(np.float32)
    mass = np.bincount(at, minlength=n_nodes) / at.size
    tree = Tree([-1, *above], at, mass, {"probability": probability})
    return describe_tree(tree, "Large", features=[f"word {k}" for k in range(60)])


def save_page(subject: Subject, folder: Path, name: str) -> Path:
    """Write the page of a subject."""
    path = folder / f"{name}.html"
    write_page(subject, path)
    return path
