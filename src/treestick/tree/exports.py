"""What other programs read: networkx, Newick, pandas, and plain dictionaries for JSON.

None of these recurse: a chain of 100,000 nodes is written like any other tree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treestick.inputs import InvalidType, InvalidValue

if TYPE_CHECKING:
    import networkx
    import pandas as pd

    from treestick.tree.public import Tree

FORMAT = "treestick.tree/1"

COLUMNS = {
    "parent": "row of the parent, -1 at the root",
    "depth": "0 at the root",
    "n_here": "how many data stop at the node",
    "n_below": "how many data pass through the node and stop deeper",
    "mass": "probability that a new datum stops at the node",
}
"""The columns that every tree has, and what they mean."""


def to_networkx(tree: Tree) -> networkx.DiGraph:
    """Return a directed graph, edges from parent to child, columns as node attributes."""
    try:
        import networkx
    except ImportError as error:
        message = "to_networkx needs networkx: python -m pip install 'treestick[export]'"
        raise ImportError(message) from error
    graph = networkx.DiGraph()
    columns = {name: getattr(tree, name) for name in COLUMNS if name != "parent"}
    # Plain numbers and lists: other programs' formats know nothing of NumPy.
    listed = {name: values.tolist() for name, values in {**columns, **tree.node_params}.items()}
    for k in range(tree.n_nodes):
        graph.add_node(k, **{name: values[k] for name, values in listed.items()})
    graph.add_edges_from((int(above), k) for k, above in enumerate(tree.parent) if above >= 0)
    return graph


def to_newick(
    tree: Tree, node_labels: Sequence[object] | None, data_labels: Sequence[object] | None
) -> str:
    """Return the tree in Newick format, every node labelled."""
    if node_labels is None:
        node_labels = range(tree.n_nodes)
    if len(node_labels) != tree.n_nodes:
        raise InvalidValue(f"{len(node_labels)} node_labels for {tree.n_nodes} nodes")
    data_at: list[list[str]] = [[] for _ in range(tree.n_nodes)]
    if data_labels is not None:
        if len(data_labels) != tree.n_data:
            raise InvalidValue(f"{len(data_labels)} data_labels for {tree.n_data} data")
        for label, node in zip(data_labels, tree.assignments.tolist(), strict=True):
            data_at[node].append(_newick_label(label))

    parts: list[str] = []
    # Entries are nodes still to be opened, or text to be written when what is above is done.
    waiting: list[int | str] = [0]
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, str):
            parts.append(entry)
            continue
        label = _newick_label(node_labels[entry])
        below: list[int | str] = [*data_at[entry], *tree.children(entry).tolist()]
        if not below:
            parts.append(label)
            continue
        parts.append("(")
        waiting.append(f"){label}")
        for k, child in enumerate(reversed(below)):
            if k > 0:
                waiting.append(",")
            waiting.append(child)
    return "".join(parts) + ";"


def _newick_label(name: object) -> str:
    """Quote what Newick would read as its own signs; an underscore unquoted means a blank there."""
    label = str(name)
    if re.fullmatch(r"[^\s()\[\]{}/\\,;:=*'\"`+<>_-]+", label):
        return label
    return "'" + label.replace("'", "''") + "'"


def to_pandas(tree: Tree) -> pd.DataFrame:
    """Return a data frame with a row for each node. Vectors take a column per component."""
    import pandas as pd

    columns: dict[str, Any] = {name: getattr(tree, name) for name in COLUMNS}
    for name, values in tree.node_params.items():
        if values.ndim == 1:
            columns[name] = values
            continue
        for index in np.ndindex(values.shape[1:]):
            columns[f"{name}[{', '.join(map(str, index))}]"] = values[(slice(None), *index)]
    return pd.DataFrame(columns, index=pd.RangeIndex(tree.n_nodes, name="node"))


def to_dict(tree: Tree) -> dict[str, Any]:
    """Return plain lists and numbers, ready for strict JSON: nan and inf become strings."""
    return {
        "format": FORMAT,
        "parent": tree.parent.tolist(),
        "assignments": tree.assignments.tolist(),
        "mass": _plain(tree.mass),
        "node_params": {
            name: {"dtype": values.dtype.str, "shape": list(values.shape), "values": _plain(values)}
            for name, values in tree.node_params.items()
        },
        "log_likelihood": _plain(np.array([tree.log_likelihood]))[0],
    }


def from_dict(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``Tree`` from what :func:`to_dict` wrote."""
    if not isinstance(content, Mapping) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, Mapping) else type(content).__name__
        raise InvalidValue(f"not a tree written by to_dict: format is {found!r}, not {FORMAT!r}")
    missing = {"parent", "assignments", "mass", "node_params", "log_likelihood"} - content.keys()
    if missing:
        raise InvalidValue(f"not a whole tree: {', '.join(sorted(missing))} missing")
    params = {}
    try:
        for name, stored in content["node_params"].items():
            values = np.array(stored["values"], dtype=stored["dtype"])
            params[name] = values.reshape(stored["shape"])
        return {
            "parent": content["parent"],
            "assignments": content["assignments"],
            "mass": np.array(content["mass"], dtype=np.float64),
            "node_params": params,
            "log_likelihood": float(content["log_likelihood"]),
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidValue(
            f"not a tree written by to_dict: {type(error).__name__} {error}"
        ) from error


def _plain(values: Any) -> list[Any]:
    """Return a flat list that strict JSON can hold; ``float`` reads 'nan' and 'inf' back."""
    if values.dtype.kind not in "biuf":
        raise InvalidType(f"an array of {values.dtype} cannot be written as plain numbers")
    flat = values.ravel()
    listed: list[Any] = flat.tolist()
    if flat.dtype.kind == "f":
        for k in np.flatnonzero(~np.isfinite(flat)):
            listed[k] = str(listed[k])
    return listed
