"""The demonstration: a tree of handwritten digits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick.estimators import BernoulliTree
from treestick.report.images import image_tree
from treestick.tree import Tree

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Digits(NamedTuple):
    """A fitted model, and which digit each image shows: the model has not seen that."""

    model: BernoulliTree
    digits: npt.NDArray[np.int64]


def fit_digits(verbose: int = 1) -> Digits:
    """Fit the 1,797 digits of scikit-learn, 8 x 8 pixels, dark or light."""
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    model = BernoulliTree(
        binarize=7,
        diffusion=(0.1, 8.0),
        n_draws=40,
        burn_in=120,
        n_chains=2,
        random_state=0,
        verbose=verbose,
    )
    return Digits(model.fit(images), digits)


def fold(tree: Tree, least: int) -> Tree:
    """Return the tree of the nodes with at least ``least`` data at or below them.

    Data of the others are shown at the nearest node above that is left.
    """
    kept = np.flatnonzero((tree.n_here + tree.n_below >= least) | (tree.parent < 0))
    row = np.full(tree.n_nodes, -1)
    row[kept] = np.arange(kept.size)
    for node in range(1, tree.n_nodes):
        if row[node] < 0:
            row[node] = row[tree.parent[node]]
    parent = tree.parent[kept]
    parent[1:] = row[parent[1:]]
    parameters = {name: values[kept] for name, values in tree.node_params.items()}
    return Tree(parent, row[tree.assignments], tree.mass[kept], parameters)


def describe_nodes(tree: Tree, digits: npt.NDArray[np.int64]) -> list[str]:
    """Return for each node how many images it holds, and of which digits most are."""
    lines = []
    for node in tree:
        shown = digits[tree.data_at(node)]
        if shown.size == 0:
            lines.append("none")
            continue
        counts = np.bincount(shown, minlength=10)
        order = np.argsort(-counts, kind="stable")
        often = [str(d) for d in order if counts[d] >= 0.15 * shown.size]
        lines.append(f"{shown.size}: {' '.join(often[:3])}")
    return lines


def digits_figure(tree: Tree, digits: npt.NDArray[np.int64]) -> Figure:
    """Draw a tree with the mean image of each node."""
    images = tree.node_params["probability"].reshape(-1, 8, 8)
    note = (
        "How dark each pixel is on average at a node; below, its images and their commonest digits"
    )
    return image_tree(tree, images, describe_nodes(tree, digits), note)
