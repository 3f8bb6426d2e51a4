"""The demonstration: a tree of handwritten digits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treestick.estimators import BernoulliTree
from treestick.report.subject import Subject, describe
from treestick.tree import Tree

DARKEST = 16
"""Grey values of the images go from 0 to this."""


class Digits(NamedTuple):
    """A fitted model, its images, and which digit each shows: the model has not seen that."""

    model: BernoulliTree
    images: npt.NDArray[np.float64]
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
    return Digits(model.fit(images), images, digits)


def describe_digits(fitted: Digits) -> Subject:
    """Return the subject of a report: images, their digits, and how dark each node is where."""
    return describe(
        fitted.model,
        fitted.images,
        title="Handwritten digits",
        ids=[f"image {k}" for k in range(len(fitted.images))],
        images=1.0 - fitted.images.reshape(-1, 8, 8) / DARKEST,
        metadata={"digit": [str(digit) for digit in fitted.digits]},
        picture=mean_images,
    )


def mean_images(tree: Tree) -> npt.NDArray[np.float64]:
    """Return how light each pixel is on average at each node."""
    return 1.0 - tree.node_params["probability"].reshape(-1, 8, 8)


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
