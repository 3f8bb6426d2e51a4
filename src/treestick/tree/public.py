"""The public, read-only ``Tree``: columns of nodes, and the node of each datum."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from treestick.inputs import InvalidType, InvalidValue, check_whole_number
from treestick.tree import exports, text

if TYPE_CHECKING:
    import networkx
    import pandas as pd
    from matplotlib.axes import Axes

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Tree:
    """A tree with data at its nodes. Read-only: arrays cannot be written, attributes not set.

    Node k is row k of every column; row 0 is the root, and parents come before children.

    Parameters
    ----------
    parent : array of int, shape (n_nodes,)
        Parent of each node: -1 at the root, else a smaller row.
    assignments : array of int, shape (n_data,)
        Node of each datum.
    mass : array of float, shape (n_nodes,), optional
        Probability pi of each node: that a new datum stops there. What is missing to one belongs to
        nodes that are not in the tree. Unknown (nan) if not given.
    node_params : mapping of str to array, optional
        Parameters of the nodes; row k of each array belongs to node k.
    log_likelihood : float, optional
        Complete-data log likelihood; nan if not given.

    Attributes
    ----------
    depth : array of int
        Depth of each node, 0 at the root.
    n_here : array of int
        How many data stop at each node.
    n_below : array of int
        How many data pass through each node and stop deeper.

    Examples
    --------
    >>> tree = Tree([-1, 0, 0, 1], assignments=[0, 3, 3, 2, 1])
    >>> tree
    Tree: 4 nodes, 5 data, depth 2
    0  1 here, 4 below
    ├─ 1  1 here, 2 below
    │  └─ 3  2 here
    └─ 2  1 here
    >>> tree.path(3)
    array([0, 1, 3])
    >>> tree.to_newick()
    '((3)1,2)0;'
    """

    __slots__ = (
        "_child_start",
        "_children",
        "assignments",
        "depth",
        "log_likelihood",
        "mass",
        "n_below",
        "n_here",
        "node_params",
        "parent",
    )

    parent: Integers
    depth: Integers
    n_here: Integers
    n_below: Integers
    mass: Floats
    node_params: Mapping[str, npt.NDArray[Any]]
    assignments: npt.NDArray[np.signedinteger[Any]]
    log_likelihood: float
    _children: Integers
    _child_start: Integers

    # Drawing needs matplotlib and lives in `report`, which attaches these to the class.
    plot: ClassVar[Callable[..., Axes]]
    _repr_html_: ClassVar[Callable[..., str]]

    def __init__(
        self,
        parent: npt.ArrayLike,
        assignments: npt.ArrayLike = (),
        mass: npt.ArrayLike | None = None,
        node_params: Mapping[str, npt.ArrayLike] | None = None,
        log_likelihood: float = float("nan"),
    ) -> None:
        parents = _integers("parent", parent)
        rows = np.arange(parents.size)
        if parents.size == 0 or parents[0] != -1:
            raise InvalidValue("parent: row 0 must be the root, with parent -1")
        wrong = np.flatnonzero((parents[1:] < 0) | (parents[1:] >= rows[1:]))
        if wrong.size:
            k = int(wrong[0]) + 1
            raise InvalidValue(
                f"parent: row {k} has parent {parents[k]}; parents come before children, "
                f"so it must be from 0 to {k - 1}"
            )
        nodes = _integers("assignments", assignments)
        wrong = np.flatnonzero((nodes < 0) | (nodes >= parents.size))
        if wrong.size:
            n = int(wrong[0])
            raise InvalidValue(
                f"assignments: datum {n} is at node {nodes[n]}, but the nodes are 0 to "
                f"{parents.size - 1}"
            )
        n_here = np.bincount(nodes, minlength=parents.size)
        depth, n_below = _down_and_up(parents, n_here)

        masses = np.full(parents.size, np.nan) if mass is None else np.array(mass, dtype=np.float64)
        if masses.shape != parents.shape:
            raise InvalidValue(f"mass has shape {masses.shape}, but there are {parents.size} nodes")
        wrong = np.flatnonzero((masses < 0.0) | (masses > 1.0))
        if wrong.size:
            k = int(wrong[0])
            raise InvalidValue(f"mass: node {k} has {masses[k]}; a mass is from 0 to 1, or nan")
        params = {}
        for name, values in (node_params or {}).items():
            if name in exports.COLUMNS:
                raise InvalidValue(f"node_params: {name!r} is the name of a column of the tree")
            params[name] = _read_only(np.array(values))
            if params[name].shape[:1] != parents.shape:
                raise InvalidValue(
                    f"node_params[{name!r}] has shape {params[name].shape}, but there are "
                    f"{parents.size} nodes"
                )

        smallest = np.min_scalar_type(-parents.size)
        order = np.argsort(parents, kind="stable")
        self._set("parent", _read_only(parents))
        self._set("depth", _read_only(depth))
        self._set("n_here", _read_only(n_here))
        self._set("n_below", _read_only(n_below))
        self._set("mass", _read_only(masses))
        self._set("node_params", MappingProxyType(params))
        self._set("assignments", _read_only(nodes.astype(smallest)))
        self._set("log_likelihood", float(log_likelihood))
        # Children of k: a slice of `_children`, in the order of their rows.
        self._set("_children", _read_only(order[1:]))
        starts = np.searchsorted(parents[order[1:]], np.arange(parents.size + 1))
        self._set("_child_start", _read_only(starts))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Tree is read-only: {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Tree is read-only: {name!r} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        params = dict(self.node_params)
        return Tree, (self.parent, self.assignments, self.mass, params, self.log_likelihood)

    @property
    def n_nodes(self) -> int:
        """Number of nodes in the tree."""
        return int(self.parent.size)

    @property
    def n_data(self) -> int:
        """Number of data in the tree."""
        return int(self.assignments.size)

    @property
    def n_through(self) -> Integers:
        """How many data stop at each node or pass through it."""
        return self.n_here + self.n_below

    def __len__(self) -> int:
        return self.n_nodes

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.n_nodes))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        return (
            np.array_equal(self.parent, other.parent)
            and np.array_equal(self.assignments, other.assignments)
            and np.array_equal(self.mass, other.mass, equal_nan=True)
            and np.array_equal(self.log_likelihood, other.log_likelihood, equal_nan=True)
            and self.node_params.keys() == other.node_params.keys()
            and all(_same(v, other.node_params[k]) for k, v in self.node_params.items())
        )

    __hash__ = None  # type: ignore[assignment]

    def children(self, node: int) -> Integers:
        """Return the children of ``node``, in the order of their rows."""
        k = self._check_node(node)
        return self._children[self._child_start[k] : self._child_start[k + 1]]

    def path(self, node: int) -> Integers:
        """Return the nodes from the root down to ``node``, both included."""
        k = self._check_node(node)
        path = np.empty(self.depth[k] + 1, dtype=np.int64)
        for position in range(path.size - 1, -1, -1):
            path[position] = k
            k = int(self.parent[k])
        return path

    def data_at(self, node: int) -> Integers:
        """Return the numbers of the data that stop at ``node``."""
        return np.flatnonzero(self.assignments == self._check_node(node))

    def _check_node(self, node: int) -> int:
        return check_whole_number("node", node, 0, self.n_nodes - 1)

    def to_networkx(self) -> networkx.DiGraph:
        """Return a directed graph, edges from parent to child, columns as node attributes."""
        return exports.to_networkx(self)

    def to_newick(
        self,
        node_labels: Sequence[object] | None = None,
        data_labels: Sequence[object] | None = None,
    ) -> str:
        """Return the tree in Newick format, every node labelled.

        Parameters
        ----------
        node_labels : sequence, optional
            A label for each node; its row if not given.
        data_labels : sequence, optional
            If given, each datum becomes a leaf below its node, under its label.
        """
        return exports.to_newick(self, node_labels, data_labels)

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with a row for each node. Vectors take a column per component."""
        return exports.to_pandas(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, ready for JSON; :meth:`from_dict` reads them back."""
        return exports.to_dict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Tree:
        """Return the tree that :meth:`to_dict` wrote."""
        return cls(**exports.from_dict(content))

    def to_text(self, max_nodes: int = 20) -> str:
        """Draw the tree in text; beyond ``max_nodes``, name how much is left out."""
        return text.draw(self, check_whole_number("max_nodes", max_nodes, 1))

    def __repr__(self) -> str:
        return f"{text.headline(self)}\n{self.to_text()}"


def _integers(name: str, values: npt.ArrayLike) -> Integers:
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidValue(f"{name} must have one dimension, not {array.ndim}")
    if array.size and array.dtype.kind not in "iu":
        raise InvalidType(f"{name} must hold whole numbers, not {array.dtype}")
    return array.astype(np.int64)


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.setflags(write=False)
    return array


def _same(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")


def _down_and_up(parent: Integers, n_here: Integers) -> tuple[Integers, Integers]:
    """Return the depth of each node and the number of data below it, by two passes over rows."""
    above, here = parent.tolist(), n_here.tolist()
    depth, below = [0] * len(above), [0] * len(above)
    for k in range(1, len(above)):
        depth[k] = depth[above[k]] + 1
    for k in range(len(above) - 1, 0, -1):
        below[above[k]] += here[k] + below[k]
    return np.array(depth, dtype=np.int64), np.array(below, dtype=np.int64)
