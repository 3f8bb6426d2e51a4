"""How a tree goes with labels that it has not seen.

The *dendrogram purity* (Heller & Ghahramani 2005) is a mean over all pairs of data with the same
label: of that label's share among the data at or below their lowest common ancestor. It is 1 if
every label has a subtree for itself. Here data may sit at inner nodes: such a datum has its node as
common ancestor with all that is at or below it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from treestick.inputs import InvalidValue
from treestick.tree import Tree

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def label_counts(tree: Tree, labels: npt.ArrayLike, below: bool = False) -> Integers:
    """Return how many data of each label are at each node.

    Parameters
    ----------
    tree : Tree
    labels : array of shape (n_data,)
        Anything that can be sorted.
    below : bool
        Whether to count data below a node too.

    Returns
    -------
    array of shape (n_nodes, n_labels)
        Columns in the order of ``numpy.unique``.
    """
    values = np.asarray(labels)
    if values.shape != (tree.n_data,):
        raise InvalidValue(f"labels have shape {values.shape} for {tree.n_data} data")
    names, codes = np.unique(values, return_inverse=True)
    counts = np.zeros((tree.n_nodes, names.size), dtype=np.int64)
    np.add.at(counts, (tree.assignments, codes), 1)
    if below:
        for node in range(tree.n_nodes - 1, 0, -1):
            counts[tree.parent[node]] += counts[node]
    return counts


def dendrogram_purity(tree: Tree, labels: npt.ArrayLike) -> float:
    """Return the mean purity of the lowest common ancestors of all pairs with one label.

    All pairs are counted, none is drawn. Without any pair of one label it is nan. A tree that knows
    nothing of the labels has about the share of the label that the first of two data has.

    Parameters
    ----------
    tree : Tree
    labels : array of shape (n_data,)

    Examples
    --------
    >>> from treestick import Tree
    >>> dendrogram_purity(Tree([-1, 0, 0], [1, 1, 2, 2]), ["a", "a", "b", "b"])
    1.0
    >>> dendrogram_purity(Tree([-1], [0, 0, 0, 0]), ["a", "a", "b", "b"])
    0.5
    """
    through = label_counts(tree, labels, below=True).astype(np.float64)
    pairs = through * (through - 1.0) / 2.0
    meeting = pairs.copy()
    np.subtract.at(meeting, tree.parent[1:], pairs[1:])
    purity = through / np.maximum(through.sum(axis=1, keepdims=True), 1.0)
    total = meeting.sum()
    return float((meeting * purity).sum() / total) if total > 0.0 else float("nan")


def label_entropy(tree: Tree, labels: npt.ArrayLike) -> float:
    """Return the entropy of the label of a datum whose node is known, in nats.

    Beside the entropy of the labels themselves, it says how much nodes tell of them.
    """
    counts = label_counts(tree, labels).astype(np.float64)
    here = np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    share = np.maximum(counts / here, 1e-300)
    return float(-(counts * np.log(share)).sum() / max(tree.n_data, 1))
