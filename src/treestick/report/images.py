"""A tree of pictures: one image at each node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from treestick.inputs import InvalidValue
from treestick.report.drawing import EDGE_COLOUR, MARGIN
from treestick.report.layout import RADIUS, lay_out
from treestick.tree import Tree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INCHES_PER_UNIT = 0.3
CAPTION_HEIGHT = 0.9
"""In units of the layout: what is left free below the images of the last level."""


def image_tree(
    tree: Tree, images: npt.ArrayLike, captions: Sequence[str] | None = None, note: str = ""
) -> Figure:
    """Return a figure of the tree with an image at each node, and a caption below it.

    Parameters
    ----------
    tree : Tree
        What to draw; every node of it.
    images : array of shape (n_nodes, height, width)
        Grey values, 0 for white to 1 for black.
    captions : sequence of str, optional
        A short line for each node.
    note : str, optional
        What the reader should know, written below the tree.
    """
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    pictures = np.asarray(images, dtype=np.float64)
    if pictures.ndim != 3 or len(pictures) != tree.n_nodes:
        raise InvalidValue(
            f"images have shape {pictures.shape}; {tree.n_nodes} nodes need "
            f"({tree.n_nodes}, height, width)"
        )
    # Without data, a node takes a circle: the image goes where the circle would be.
    layout = lay_out(Tree(tree.parent))
    width = layout.right - layout.left + 2 * MARGIN
    height = layout.height + CAPTION_HEIGHT + 2 * MARGIN
    figure = Figure(figsize=(width * INCHES_PER_UNIT, height * INCHES_PER_UNIT), dpi=200)
    ax = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    child, parent = np.arange(1, tree.n_nodes), tree.parent[1:]
    below = RADIUS + (CAPTION_HEIGHT if captions is not None else 0.0)
    starts = np.column_stack([layout.x[parent], layout.y[parent] + below])
    ends = np.column_stack([layout.x[child], layout.y[child] - RADIUS])
    edges = LineCollection(list(np.stack([starts, ends], axis=1)), colors=EDGE_COLOUR)
    edges.set_linewidth(0.7)
    ax.add_collection(edges)
    for node in range(tree.n_nodes):
        x, y = layout.x[node], layout.y[node]
        box = (x - RADIUS, x + RADIUS, y + RADIUS, y - RADIUS)
        ax.imshow(pictures[node], cmap="Greys", vmin=0.0, vmax=1.0, extent=box)
        corner = (x - RADIUS, y - RADIUS)
        frame = Rectangle(corner, 2 * RADIUS, 2 * RADIUS, fill=False, edgecolor="#aaaaaa")
        frame.set_linewidth(0.5)
        ax.add_patch(frame)
        if captions is not None:
            ax.text(
                x, y + RADIUS + 0.15, captions[node], ha="center", va="top", fontsize=5.5,
                color="black",
            )  # fmt: skip
    ax.text(0.01, 0.01, note, transform=ax.transAxes, fontsize=5.5, color=EDGE_COLOUR)
    ax.set_xlim(layout.left - MARGIN, layout.right + MARGIN)
    ax.set_ylim(layout.height + CAPTION_HEIGHT + MARGIN, -MARGIN)
    ax.set_aspect("equal")
    ax.axis("off")
    return figure
