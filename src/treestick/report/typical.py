"""Which data are typical of their node, and in what a node differs from its parent.

Both are read off the parameters that users see (``Tree.node_params``)::

    logit, probability   bits:    log p(x) = x . logit - sum log(1 + exp(logit));  p - p[parent]
    probability          counts:  x . log p, per count;                  p log(p / p[parent])
    mean                 reals:   - sum ((x - mean) / scale)**2;         (mean - mean[parent]) / scale
    weight               measures: no law of a datum;                    w - w[parent]
    topics               documents: as probabilities of words, see :func:`in_words`

``scale`` is the standard deviation of a feature over the data, or over the nodes without data.
"""  # noqa: E501

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick.tree import Tree

ROWS_AT_ONCE = 4096
SMALLEST = 1e-300
LEAST_TOLD = 0.1
"""Of real numbers: less than so many standard deviations from the parent is not told."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class Contrasts(NamedTuple):
    """The features by which nodes differ most from their parents.

    The root, by its own values; or, of real numbers, whose units differ, from the mean of all data.
    """

    feature: Integers
    """Of shape (n_nodes, k), the largest difference first."""
    value: Floats
    at_parent: Floats
    """nan at the root."""
    score: Floats
    """Positive where the node has more of the feature than its parent."""
    place: Floats | None = None
    """Of real numbers: how far the value is from the mean of all data, in standard deviations of
    its feature,"""
    parent_place: Floats | None = None
    """and that of the parent."""


def main_parameter(tree: Tree) -> str | None:
    """Return the name of the parameter with a number for each feature, if there is one."""
    for name in ("probability", "mean", "weight"):
        if name in tree.node_params and tree.node_params[name].ndim == 2:
            return name
    return None


def in_words(tree: Tree, topics: Any) -> Tree:
    """Return a tree of mixtures of topics with probabilities of words; others as they are.

    Parameters
    ----------
    tree : Tree
        With ``topics`` among its parameters: a probability of each topic.
    topics : array of shape (n_topics, n_words)
        Probabilities of words.
    """
    if "topics" not in tree.node_params or topics is None:
        return tree
    mixed = tree.node_params["topics"] @ np.asarray(topics)
    words = {"probability": mixed.astype(np.float32)}
    return Tree(tree.parent, tree.assignments, tree.mass, words, tree.log_likelihood)


def typicality(tree: Tree, rows: Any) -> Floats:
    """Return how probable each datum is under its node: compare data of one node only."""
    name = main_parameter(tree)
    scores = np.zeros(tree.n_data)
    if rows is None or name is None or rows.shape[1] != tree.node_params[name].shape[1]:
        return scores
    values = tree.node_params[name].astype(np.float64)
    if "logit" in tree.node_params:
        slope = tree.node_params["logit"].astype(np.float64)
        constant = -np.logaddexp(0.0, slope).sum(axis=1)
    elif name == "mean":
        slope, constant = values, np.zeros(tree.n_nodes)
    else:
        slope, constant = np.log(np.maximum(values, SMALLEST)), np.zeros(tree.n_nodes)
    scale = _scale(tree, rows) if name == "mean" else None
    for start in range(0, tree.n_data, ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        x = _dense(rows[part])
        at = tree.assignments[part]
        if scale is not None:
            scores[part] = -np.square((x - slope[at]) / scale).sum(axis=1)
        else:
            scores[part] = np.einsum("ij,ij->i", x, slope[at]) + constant[at]
            if "logit" not in tree.node_params:
                scores[part] /= np.maximum(x.sum(axis=1), 1.0)
    return scores


def contrasts(tree: Tree, most: int = 12, rows: Any = None) -> Contrasts | None:
    """Return for each node the ``most`` features in which it differs most from its parent."""
    name = main_parameter(tree)
    if name is None:
        return None
    values = tree.node_params[name].astype(np.float64)
    above = values[np.maximum(tree.parent, 0)]
    centre, scale = np.zeros(values.shape[1]), np.ones(values.shape[1])
    if name == "mean":
        centre, scale = _centre(tree, rows), _scale(tree, rows)
        above[0] = centre
        score = (values - above) / scale
    elif name == "probability" and "logit" not in tree.node_params:
        score = values * np.log(np.maximum(values, SMALLEST) / np.maximum(above, SMALLEST))
    else:
        score = values - above
    if name != "mean":
        score[0] = values[0]
    k = min(most, values.shape[1])
    found = np.argpartition(-np.abs(score), k - 1, axis=1)[:, :k]
    order = np.argsort(-np.abs(np.take_along_axis(score, found, axis=1)), axis=1, kind="stable")
    feature = np.take_along_axis(found, order, axis=1)

    def of_features(table: Floats) -> Floats:
        return np.take_along_axis(table, feature, axis=1)

    at_parent = of_features(above)
    at_parent[0] = np.nan
    places: tuple[Floats, Floats] | None = None
    if name == "mean":
        places = of_features((values - centre) / scale), of_features((above - centre) / scale)
    return Contrasts(
        feature, of_features(values), at_parent, of_features(score), *(places or (None, None))
    )


def _centre(tree: Tree, rows: Any) -> Floats:
    """Return the mean of each feature over the data, or over the nodes without data."""
    found: Floats = np.mean(tree.node_params["mean"] if rows is None else _dense(rows), axis=0)
    return found.astype(np.float64)


def _scale(tree: Tree, rows: Any) -> Floats:
    """Return a standard deviation for each feature, never 0."""
    spread = np.std(tree.node_params["mean"] if rows is None else _dense(rows), axis=0)
    return np.where(spread > 0.0, spread, 1.0)


def _dense(rows: Any) -> Floats:
    made: Any = rows.toarray() if hasattr(rows, "toarray") else rows
    return np.asarray(made, dtype=np.float64)
