"""What topics and nodes of a fitted tree of documents are about: words, and tables of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from treestick.analysis import topic_tables as tables
from treestick.inputs import InvalidValue, check_whole_number
from treestick.tree import Tree

if TYPE_CHECKING:
    import pandas as pd

    from treestick.moves.state import Floats


class TablesMixin:
    """Needs a fitted ``tree_`` whose nodes mix the topics of ``components_``."""

    if TYPE_CHECKING:
        tree_: Tree
        components_: Floats
        metadata_: dict[str, list[Any]]

        def _most_probable(self, p: Floats, n: int) -> npt.NDArray[Any]: ...

    def top_words(
        self, *, topic: int | None = None, node: int | None = None, n: int = 10
    ) -> npt.NDArray[Any]:
        """Return the ``n`` most probable words of a topic, or of a node of ``tree_``.

        Their names if the documents came as a corpus or a data frame, else their columns.
        """
        check_is_fitted(self, "draws_")
        if (topic is None) == (node is None):
            raise InvalidValue("give either a topic or a node")
        if topic is not None:
            topic = check_whole_number("topic", topic, 0, self.components_.shape[0] - 1)
            return self._most_probable(self.components_[topic], n)
        node = check_whole_number("node", node, 0, self.tree_.n_nodes - 1)
        return self._most_probable(self.tree_.node_params["topics"][node] @ self.components_, n)

    def topics_table(self, n_words: int = 8) -> pd.DataFrame:
        """Return a table of topics: their share of all documents, and their words."""
        check_is_fitted(self, "draws_")
        return tables.topics_table(self.tree_, self.components_, self._most_probable, n_words)

    def nodes_table(self, min_documents: int = 1, n_words: int = 8) -> pd.DataFrame:
        """Return a table of the nodes of ``tree_`` with so many documents at or below them.

        ``words`` are the most probable, ``more`` those by which a node differs from its parent.
        """
        check_is_fitted(self, "draws_")
        return tables.nodes_table(
            self.tree_, self.components_, self._most_probable, n_words, min_documents
        )

    def counts_by(self, column: str) -> pd.DataFrame:
        """Return how many documents at each node have each value of a column of metadata.

        Where a value is a list (authors), the document counts for each of its elements.
        """
        check_is_fitted(self, "draws_")
        return tables.counts_by(self.tree_, self.metadata_, column)

    def summary(self, min_documents: int = 1, n_words: int = 8) -> None:
        """Print both tables."""
        print(self.topics_table(n_words).to_string(float_format="{:.3f}".format))
        print()
        print(self.nodes_table(min_documents, n_words).to_string())
