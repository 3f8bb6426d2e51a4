"""The demonstration: a tree of handwritten digits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick.estimators import BernoulliTree
from treestick.report.images import image_tree

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
        n_draws=200,
        burn_in=800,
        n_chains=2,
        random_state=0,
        verbose=verbose,
    )
    return Digits(model.fit(images), digits)


def describe_nodes(fitted: Digits) -> list[str]:
    """Return for each node how many images it holds, and of which digits most are."""
    tree = fitted.model.tree_
    lines = []
    for node in tree:
        shown = fitted.digits[tree.data_at(node)]
        if shown.size == 0:
            lines.append("none")
            continue
        counts = np.bincount(shown, minlength=10)
        order = np.argsort(-counts, kind="stable")
        often = [str(d) for d in order if counts[d] >= 0.15 * shown.size]
        lines.append(f"{shown.size}: {' '.join(often[:3])}")
    return lines


def digits_figure(fitted: Digits) -> Figure:
    """Draw the tree with the mean image of each node."""
    tree = fitted.model.tree_
    images = tree.node_params["probability"].reshape(-1, 8, 8)
    note = (
        "How dark each pixel is on average at a node; below, its images and their commonest digits"
    )
    return image_tree(tree, images, describe_nodes(fitted), note)
