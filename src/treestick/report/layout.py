"""Where the nodes of a tree and their data go on paper, so that nothing overlaps.

A node is a circle, with its data as a block of squares right below it. Levels are aligned: all
circles of one depth are at one height, and the next level starts below the largest block. Across,
subtrees are moved together until their outlines touch, and a node stands over the middle of its
children (Reingold & Tilford, *Tidier drawings of trees*, 1981, with nodes of different widths).

The outline of a subtree is a list of its left and right ends, level by level from the deepest up,
so that a parent is added at the end of the list. Joining two subtrees walks over the levels that
they share and keeps the longer list, so the whole costs linear time; nothing recurses.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treestick.tree import Tree

RADIUS = 1.0
"""Of a circle; this sets the unit of everything else."""
SQUARE = 0.72
PITCH = 0.95
"""From one square to the next."""
BLOCK_GAP = 0.35
"""Between a circle and its block of squares."""
SIDE_GAP = 0.9
"""Between neighbours."""
LEVEL_GAP = 1.8
"""Between the lowest block of one level and the circles of the next."""

MOST_SQUARES = 10_000
MOST_SQUARES_AT_A_NODE = 1_000

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class Layout(NamedTuple):
    """Positions of the nodes (centres of their circles; y points down) and what is at them."""

    x: Floats
    y: Floats
    n_squares: Integers
    columns: Integers
    """How many squares stand side by side at each node."""
    bottom: Floats
    """Lower end of the circle, or of the block of squares below it."""
    data_per_square: int
    left: float
    right: float
    height: float


def lay_out(tree: Tree) -> Layout:
    """Return where everything goes."""
    share = data_per_square(tree)
    n_squares = -(-tree.n_here // share)
    columns = np.ceil(np.sqrt(n_squares)).astype(np.int64)
    rows = -(-n_squares // np.maximum(columns, 1))
    block_width = np.maximum(columns * PITCH - (PITCH - SQUARE), 0.0)
    block_height = np.where(rows > 0, BLOCK_GAP + rows * PITCH - (PITCH - SQUARE), 0.0)

    node_height = 2 * RADIUS + block_height
    level_height = np.zeros(int(tree.depth.max()) + 1)
    np.maximum.at(level_height, tree.depth, node_height)
    level_top = np.concatenate([[0.0], np.cumsum(level_height + LEVEL_GAP)])
    y = level_top[tree.depth] + RADIUS

    half_width = np.maximum(RADIUS, block_width / 2)
    x = spread(tree, half_width + SIDE_GAP / 2)
    return Layout(
        x=x,
        y=y,
        n_squares=n_squares,
        columns=columns,
        bottom=y - RADIUS + node_height,
        data_per_square=share,
        left=float((x - half_width).min()),
        right=float((x + half_width).max()),
        height=float(level_top[-1] - LEVEL_GAP),
    )


def data_per_square(tree: Tree) -> int:
    """Return how many data one square stands for: 1, 2, 5, 10, ..., as few as can be drawn."""
    share, steps = 1, 0
    while tree.n_data > share * MOST_SQUARES or tree.n_here.max() > share * MOST_SQUARES_AT_A_NODE:
        steps += 1
        share = (1, 2, 5)[steps % 3] * 10 ** (steps // 3)
    return share


def spread(tree: Tree, half_width: Floats) -> Floats:
    """Return x for every node: parents over the middle of their children, outlines touching."""
    half = half_width.tolist()
    offset = [0.0] * tree.n_nodes  # from the parent
    # Outline of the subtree of each node still waiting for its parent: (left ends, right ends,
    # shift), deepest level first; add the shift to every end.
    outlines: list[tuple[list[float], list[float], float] | None] = [None] * tree.n_nodes
    for node in range(tree.n_nodes - 1, -1, -1):
        children = tree.children(node).tolist()
        if not children:
            outlines[node] = ([-half[node]], [half[node]], 0.0)
            continue
        forest = outlines[children[0]]
        outlines[children[0]] = None
        assert forest is not None
        for child in children[1:]:
            subtree = outlines[child]
            outlines[child] = None
            assert subtree is not None
            forest, offset[child] = _join(forest, subtree)
        middle = (offset[children[0]] + offset[children[-1]]) / 2
        for child in children:
            offset[child] -= middle
        lefts, rights, shift = forest
        shift -= middle
        lefts.append(-half[node] - shift)
        rights.append(half[node] - shift)
        outlines[node] = (lefts, rights, shift)
    above = tree.parent.tolist()
    for node in range(1, tree.n_nodes):
        offset[node] += offset[above[node]]
    return np.array(offset)


def _join(
    forest: tuple[list[float], list[float], float], subtree: tuple[list[float], list[float], float]
) -> tuple[tuple[list[float], list[float], float], float]:
    """Move ``subtree`` to the right until it touches ``forest``.

    Return the outline of both, and how far the subtree was moved.
    """
    lefts, rights, shift = forest
    new_lefts, new_rights, new_shift = subtree
    shared = min(len(lefts), len(new_lefts))
    move = max(
        rights[-level] + shift - new_lefts[-level] - new_shift for level in range(1, shared + 1)
    )
    new_shift += move
    if len(new_lefts) > len(lefts):
        # Below the forest, the subtree is the left end too.
        new_lefts[-shared:] = [end + shift - new_shift for end in lefts]
        return (new_lefts, new_rights, new_shift), move
    rights[-shared:] = [end + new_shift - shift for end in new_rights]
    return (lefts, rights, shift), move
