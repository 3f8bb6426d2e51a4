"""A tree in a few lines of text: the repr, and what the command line prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from treestick.tree.public import Tree


def headline(tree: Tree) -> str:
    """Return one line: how many nodes and data, how deep."""
    nodes = f"{tree.n_nodes:,} node" + "s" * (tree.n_nodes != 1)
    return f"Tree: {nodes}, {tree.n_data:,} data, depth {tree.depth.max()}"


def draw(tree: Tree, max_nodes: int) -> str:
    """Draw the ``max_nodes`` nodes that hold most at or below them, and count what is left out."""
    n_within = _with_all_below(tree, np.ones(tree.n_nodes))
    within = _with_all_below(tree, tree.n_here if tree.n_data else np.nan_to_num(tree.mass))
    # Nothing above a node holds less than it does, and rows break ties in favour of parents: with
    # a node, everything above it is shown.
    shown = np.zeros(tree.n_nodes, dtype=np.bool_)
    shown[np.argsort(-within, kind="stable")[:max_nodes]] = True
    lines = []
    # What is still to be written: a line, and the node whose children follow it with an indent.
    waiting: list[tuple[str, int | None, str]] = [(f"0  {_content(tree, 0)}", 0, "")]
    while waiting:
        line, node, indent = waiting.pop()
        lines.append(line)
        if node is None:
            continue
        children = tree.children(node)
        hidden = children[~shown[children]]
        following: list[tuple[str, int | None, str]] = [
            (f"{indent}├─ {child}  {_content(tree, child)}", child, f"{indent}│  ")
            for child in children[shown[children]].tolist()
        ]
        if hidden.size:
            n_nodes = int(n_within[hidden].sum())
            more = f"{n_nodes:,} more node" + "s" * (n_nodes != 1)
            held = _amount(tree, within[hidden].sum())
            following.append((f"{indent}├─ … {more}, {held}", None, ""))
        if following:
            line, child_or_none, _ = following[-1]
            last = f"{indent}└{line[len(indent) + 1 :]}"
            following[-1] = (last, child_or_none, f"{indent}   ")
        waiting.extend(reversed(following))
    return "\n".join(lines)


def _content(tree: Tree, node: int) -> str:
    """Say how much is at a node and below it: data, or mass if the tree has no data."""
    if tree.n_data == 0:
        return _amount(tree, tree.mass[node])
    below = int(tree.n_below[node])
    return f"{int(tree.n_here[node]):,} here" + (f", {below:,} below" if below else "")


def _amount(tree: Tree, amount: float) -> str:
    if tree.n_data:
        return f"{int(amount):,} data"
    return "empty" if np.isnan(amount) else f"mass {amount:.3g}"


def _with_all_below(tree: Tree, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Add to each node's value those of everything below it."""
    total, above = values.tolist(), tree.parent.tolist()
    for k in range(tree.n_nodes - 1, 0, -1):
        total[above[k]] += total[k]
    return np.array(total)
