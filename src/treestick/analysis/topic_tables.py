"""Tables of what topics and nodes of a tree of documents are about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treestick.inputs import InvalidValue, shown
from treestick.tree import Tree

if TYPE_CHECKING:
    import pandas as pd

LEAST_GAIN = 1e-3
"""Words by which a node differs from its parent by less are not worth mentioning."""
Floats = npt.NDArray[np.float64]
TopWords = Callable[[Floats, int], npt.NDArray[Any]]
"""Takes a number for each word, and how many; returns the words with the highest."""


def _join(words: npt.NDArray[Any]) -> str:
    return " ".join(str(word) for word in words)


def topics_table(tree: Tree, topics: Floats, top: TopWords, n_words: int) -> pd.DataFrame:
    """Return a row for each topic: its share of the documents, and its most probable words."""
    import pandas as pd

    mixtures = np.asarray(tree.node_params["topics"])
    share = tree.n_here @ mixtures / tree.n_here.sum()
    words = [_join(top(row, n_words)) for row in topics]
    table = pd.DataFrame({"share": share, "words": words})
    return table.rename_axis("topic").sort_values("share", ascending=False)


def nodes_table(
    tree: Tree, topics: Floats, top: TopWords, n_words: int, least: int
) -> pd.DataFrame:
    """Return a row for each node with at least so many documents at it or below it.

    ``words`` are those that the node's mixture has most of, ``more`` those by which it differs most
    from its parent's: p * log(p / p of the parent).
    """
    import pandas as pd

    mixtures = np.asarray(tree.node_params["topics"])
    through = tree.n_here + tree.n_below
    rows = np.flatnonzero(through >= least)
    table: dict[str, list[Any]] = {
        name: [] for name in ("node", "parent", "depth", "here", "below", "topics", "words", "more")
    }
    for node in rows.tolist():
        parent = int(tree.parent[node])
        p = mixtures[node] @ topics
        main = np.argsort(-mixtures[node], kind="stable")[:3]
        main = main[mixtures[node, main] >= 0.05]
        table["node"].append(node)
        table["parent"].append(parent)
        table["depth"].append(int(tree.depth[node]))
        table["here"].append(int(tree.n_here[node]))
        table["below"].append(int(tree.n_below[node]))
        table["topics"].append(" ".join(f"{k}:{mixtures[node, k]:.0%}" for k in main))
        table["words"].append(_join(top(p, n_words)))
        gain = np.zeros_like(p) if parent < 0 else p * np.log(p / (mixtures[parent] @ topics))
        n_more = min(n_words, int(np.count_nonzero(gain > LEAST_GAIN)))
        table["more"].append(_join(top(gain, n_more)) if n_more else "")
    return pd.DataFrame(table).set_index("node")


def counts_by(tree: Tree, metadata: Mapping[str, Sequence[Any]], column: str) -> pd.DataFrame:
    """Return how many documents at each node have each value of a column of metadata.

    Where a value is a list (authors), the document counts for each of its elements. Documents
    without a value (None) are left out.
    """
    import pandas as pd

    if column not in metadata:
        known = f"; there are {', '.join(metadata)}" if metadata else ": there are no metadata"
        raise InvalidValue(f"column={shown(column)} is not among the metadata{known}")
    values = pd.Series(list(metadata[column]), name=column)
    nodes = pd.Series(tree.assignments, name="node")
    pairs = pd.DataFrame({"node": nodes, column: values}).explode(column).dropna()
    return pd.crosstab(pairs["node"], pairs[column])
