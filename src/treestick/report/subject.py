"""What a report is about: trees, the data at their nodes, and how the chains went.

:class:`Subject` is all that figures and pages know. :func:`describe` makes one from a fitted
estimator, :func:`describe_tree` from a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick.analysis.diagnosis import Diagnosis, diagnose
from treestick.inputs import InvalidValue, check_whole_number
from treestick.io import Corpus
from treestick.report.columns import Column, read_columns
from treestick.report.typical import Contrasts, contrasts, in_words, main_parameter
from treestick.tree import Tree

MOST_DRAWS = 40
N_CONTRASTS = 6
"""Words kept of each node of a draw."""

Picture = Callable[[Tree], npt.NDArray[Any]]
"""Takes a tree; returns an image for each node, 0 dark to 1: shape (n_nodes, height, width) or
(n_nodes, height, width, 3)."""


class Shown(NamedTuple):
    """A tree that can be looked at."""

    name: str
    tree: Tree
    support: npt.NDArray[np.float64] | None = None
    """How often each node is found in the posterior, 0 to 1."""
    contrasts: Contrasts | None = None
    """In what nodes differ from their parents, where the tree itself does not say it."""


class Subject(NamedTuple):
    """What a report knows. The trees all hold the same data, in the same order."""

    title: str
    trees: tuple[Shown, ...]
    """The first is shown first."""
    note: str = ""
    """Which of the draws these are."""
    ids: tuple[str, ...] | None = None
    """Names of the data; their numbers if None."""
    features: tuple[str, ...] | None = None
    """Names of the features; their numbers if None."""
    rows: Any = None
    """The data, an array or sparse matrix with a row for each."""
    texts: tuple[str, ...] | None = None
    images: Any = None
    """Shape (n_data, height, width) or (n_data, height, width, 3), uint8."""
    columns: tuple[Column, ...] = ()
    picture: Picture | None = None
    diagnosis: Diagnosis | None = None

    @property
    def tree(self) -> Tree:
        """The tree that is shown first."""
        return self.trees[0].tree

    def feature_name(self, feature: int) -> str:
        """Return the name of a feature of the data."""
        return f"feature {feature}" if self.features is None else self.features[feature]

    @property
    def parameter_names(self) -> tuple[str, ...] | None:
        """What the numbers of a node are of: features, if they have names; not of components."""
        return None if main_parameter(self.tree) == "weight" else self.features

    @property
    def parameter_kind(self) -> str:
        """What numbers of a node are of, where that has no names."""
        return "component" if main_parameter(self.tree) == "weight" else "feature"

    def parameter_name(self, k: int) -> str:
        """Return what the k-th number of a node is of."""
        names = self.parameter_names
        return f"{self.parameter_kind} {k}" if names is None else names[k]


def describe(
    model: Any,
    X: Any = None,
    *,
    title: str | None = None,
    consensus: Tree | None = None,
    support: npt.ArrayLike | None = None,
    n_compared: int | None = None,
    most_draws: int = MOST_DRAWS,
    **known: Any,
) -> Subject:
    """Return the subject of a report on a fitted estimator.

    Parameters
    ----------
    model : fitted estimator
        With ``tree_``, ``draws_`` and ``idata_``.
    X : array, sparse matrix, data frame or corpus, optional
        The data that it was fitted to, for rows and for what is typical of a node. A data frame
        brings names of rows, a corpus those of documents, its words and its metadata.
    title : str, optional
        The name of the model, if not given.
    consensus : Tree, optional
        A tree made of all draws; it is shown beside the best.
    support : array of shape (n_nodes of the consensus, or else of ``tree_``,), optional
        How often each of its nodes is found in the posterior, 0 to 1.
    n_compared : int, optional
        Among how many draws the consensus was looked for, if not among all.
    most_draws : int, default=40
        How many draws can be looked at; they are chosen at even distances.
    known
        What else is known of the data: ``ids``, ``features``, ``texts``, ``images``, ``metadata``
        and ``picture``, as in :func:`describe_tree`.
    """
    check_whole_number("most_draws", most_draws, 0)
    draws = model.draws_
    shares = None if support is None else np.asarray(support, dtype=np.float64)
    best = in_words(model.tree_, getattr(model, "components_", None))
    trees = [Shown("best draw", best, shares if consensus is None else None)]
    chosen = np.unique(np.linspace(0, len(draws) - 1, min(most_draws, len(draws))).astype(int))
    some = [_draw(model, int(k)) for k in chosen]
    if consensus is not None:
        told = next((shown.contrasts for shown in some if shown.tree == consensus), None)
        trees.append(Shown("consensus", consensus, shares, told))
    trees += some
    note = (
        f"All {len(draws):,} draws of the posterior are in this page."
        if chosen.size == len(draws)
        else f"{chosen.size} of {len(draws):,} draws of the posterior are in this page, "
        "at even distances; the diagnostics are of all."
    )
    if consensus is not None and n_compared is not None and n_compared < len(draws):
        note += f" The consensus was looked for among {n_compared} of {len(draws):,} draws."
    found = _known_of(X, model)
    known = found | {name: value for name, value in known.items() if value is not None}
    rows = _rows(X)
    binarize = getattr(model, "binarize", None)
    if rows is not None and binarize is not None:
        rows = rows > binarize
    subject = describe_tree(best, title or type(model).__name__, rows=rows, **known)
    return _check(subject._replace(trees=tuple(trees), note=note, diagnosis=diagnose(model)))


def describe_tree(
    tree: Tree,
    title: str | None = None,
    *,
    rows: Any = None,
    ids: Sequence[object] | None = None,
    features: Sequence[object] | None = None,
    texts: Sequence[str] | None = None,
    images: Any = None,
    metadata: Mapping[str, Sequence[Any]] | None = None,
    picture: Picture | None = None,
) -> Subject:
    """Return the subject of a report on one tree.

    Parameters
    ----------
    tree : Tree
    title : str, optional
        Written above it.
    rows : array, sparse matrix or data frame, optional
        The data.
    ids, features : sequence, optional
        Names of the data and of the features; numbers if not given.
    texts : sequence of str, optional
        What there is to read of each datum.
    images : array of shape (n_data, height, width) or (n_data, height, width, 3), optional
        What there is to see of each datum: uint8, or float from 0 to 1.
    metadata : mapping of str to sequence, or data frame, optional
        Columns: numbers, labels, or lists of labels, one entry for each datum.
    picture : callable, optional
        Takes a tree and returns an image for each node, shape (n_nodes, height, width) or
        (n_nodes, height, width, 3), from 0 to 1; else nodes show images of their data.
    """
    return _check(
        Subject(
            title or "Tree",
            (Shown("tree", tree),),
            "",
            None if ids is None else tuple(map(str, ids)),
            None if features is None else tuple(map(str, features)),
            _rows(rows),
            None if texts is None else tuple(map(str, texts)),
            None if images is None else _pixels(images),
            read_columns(metadata, tree.n_data),
            picture,
        )
    )


def _draw(model: Any, k: int) -> Shown:
    """Return a draw; where nodes mix topics, with its contrasts in words, which take less room."""
    tree = model.draws_[k]
    found = None
    if "topics" in tree.node_params:
        found = contrasts(in_words(tree, model.topic_draws_[k].topics), N_CONTRASTS)
    return Shown(_draw_name(model.draws_, k), tree, None, found)


def _draw_name(draws: Any, k: int) -> str:
    chain = np.asarray(draws.chain)
    return f"chain {chain[k] + 1}, draw {int(np.sum(chain[:k] == chain[k])) + 1}"


def _known_of(X: Any, model: Any) -> dict[str, Any]:
    """Return what data and model know of names and metadata."""
    if isinstance(X, Corpus):
        return {"ids": X.ids, "features": X.vocabulary, "metadata": X.metadata}
    ids = list(X.index) if hasattr(X, "iloc") else getattr(model, "ids_", None)
    metadata = getattr(model, "metadata_", None)
    return {
        "ids": ids,
        "features": getattr(model, "feature_names_in_", None),
        "metadata": metadata or None,
    }


def _rows(X: Any) -> Any:
    """Return a sparse matrix by rows as it is, all else as an array; a corpus by its counts."""
    counts = X.counts if isinstance(X, Corpus) else X
    if hasattr(counts, "tocsr"):
        return counts.tocsr()
    return None if counts is None else np.asarray(counts)


def _pixels(images: Any) -> npt.NDArray[np.uint8]:
    array = np.asarray(images)
    if array.ndim not in (3, 4) or (array.ndim == 4 and array.shape[3] != 3):
        raise InvalidValue(
            f"images have shape {array.shape}; (n_data, height, width) or "
            "(n_data, height, width, 3) is needed"
        )
    if array.dtype.kind == "f":
        array = np.round(255 * np.clip(array, 0.0, 1.0))
    return array.astype(np.uint8)


def _check(subject: Subject) -> Subject:
    n_data = subject.tree.n_data
    for name in ("ids", "texts", "images", "rows"):
        value = getattr(subject, name)
        found = None if value is None else value.shape[0] if hasattr(value, "shape") else len(value)
        if found is not None and found != n_data:
            raise InvalidValue(f"{found} {name} for {n_data} data")
    parameter = main_parameter(subject.tree)
    if subject.features is not None and parameter is not None:
        n_features = subject.tree.node_params[parameter].shape[1]
        if parameter != "weight" and len(subject.features) != n_features:
            raise InvalidValue(f"{len(subject.features)} names for {n_features} features")
    for shown in subject.trees:
        if shown.tree.n_data != n_data:
            raise InvalidValue(f"{shown.name} has {shown.tree.n_data} data instead of {n_data}")
        if shown.support is not None and shown.support.shape != (shown.tree.n_nodes,):
            raise InvalidValue(
                f"support has shape {shown.support.shape} for {shown.tree.n_nodes} nodes"
            )
    return subject
