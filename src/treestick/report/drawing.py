"""One tree, drawn: circles for nodes, squares for data. Attached to ``Tree`` by the package."""

from __future__ import annotations

import html
import io
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from treestick.report.layout import BLOCK_GAP, LEVEL_GAP, PITCH, RADIUS, SQUARE, Layout, lay_out
from treestick.tree import Tree
from treestick.tree.text import headline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS_PER_UNIT = 5.0
LARGEST_SIDE = 60.0
"""Inches; a larger drawing is scaled down."""
MARGIN = 0.8

NODE_COLOUR = "#0072b2"
DATA_COLOUR = "#d55e00"
EDGE_COLOUR = "#555555"

MOST_NODES_INLINE = 400


def plot(tree: Tree, ax: Axes | None = None) -> Axes:
    """Draw the tree: a circle for each node, hollow if no data stop there, and squares for data.

    Parameters
    ----------
    tree : Tree
        What to draw.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure, as large as the tree needs, if not given.

    Returns
    -------
    matplotlib.axes.Axes
        Write it to a file with ``ax.figure.savefig(...)``.
    """
    layout = lay_out(tree)
    if ax is None:
        ax = _new_figure(layout).axes[0]
    draw_layout(ax, tree, layout)
    return ax


def new_figure(tree: Tree) -> Figure:
    """Return a figure of the tree, as large as it needs."""
    layout = lay_out(tree)
    figure = _new_figure(layout)
    draw_layout(figure.axes[0], tree, layout)
    return figure


def draw_layout(ax: Axes, tree: Tree, layout: Layout) -> None:
    """Draw the tree into ``ax``, in the units of the layout, and set its limits."""
    from matplotlib.collections import EllipseCollection
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    # One path for all edges, one circle used many times, one path for all squares: small files.
    edges = Path.make_compound_path(*(Path(line) for line in _edges(tree, layout)))
    ax.add_patch(PathPatch(edges, facecolor="none", edgecolor=EDGE_COLOUR, linewidth=0.7, zorder=1))
    circles = EllipseCollection(
        [2 * RADIUS],
        [2 * RADIUS],
        [0.0],
        units="xy",
        offsets=np.column_stack([layout.x, layout.y]),
        offset_transform=ax.transData,
        facecolors=np.where(tree.n_here > 0, NODE_COLOUR, "#ffffff").tolist(),
        edgecolors=NODE_COLOUR,
        linewidths=0.8,
        zorder=2,
    )
    ax.add_collection(circles)
    squares = Path.make_compound_path_from_polys(_squares(layout))
    ax.add_patch(PathPatch(squares, facecolor=DATA_COLOUR, linewidth=0, zorder=2))
    ax.set_xlim(layout.left - MARGIN, layout.right + MARGIN)
    ax.set_ylim(layout.height + MARGIN, -MARGIN)
    ax.set_aspect("equal")
    ax.axis("off")
    if layout.data_per_square > 1:
        note = f"one square: up to {layout.data_per_square:,} data"
        ax.text(0, 0, note, transform=ax.transAxes, fontsize=7, va="top", color=EDGE_COLOUR)


def _new_figure(layout: Layout) -> Figure:
    from matplotlib.figure import Figure

    width = layout.right - layout.left + 2 * MARGIN
    height = layout.height + 2 * MARGIN
    scale = min(POINTS_PER_UNIT / 72, LARGEST_SIDE / max(width, height))
    note = 0.2 if layout.data_per_square > 1 else 0.0
    inches = (max(width * scale, 1.6 if note else 0.0), height * scale + note)
    figure = Figure(figsize=inches)
    figure.add_axes((0.0, note / inches[1], 1.0, 1.0 - note / inches[1]))
    return figure


def _edges(tree: Tree, layout: Layout) -> list[npt.NDArray[np.float64]]:
    """Return lines from each parent down to a bar above its children, and from there to them."""
    lines = []
    top = layout.y - RADIUS
    for node in np.flatnonzero(np.bincount(tree.parent[1:], minlength=tree.n_nodes)):
        children = tree.children(int(node))
        bar = top[children[0]] - LEVEL_GAP / 2
        x = layout.x[node]
        ends = layout.x[children]
        lines.append(_line(x, layout.y[node], x, bar))  # behind the circle and its squares
        lines.append(_line(min(x, ends.min()), bar, max(x, ends.max()), bar))
        lines.extend(_line(end, bar, end, top[children[0]]) for end in ends)
    return lines


def _line(x0: float, y0: float, x1: float, y1: float) -> npt.NDArray[np.float64]:
    return np.array([[x0, y0], [x1, y1]])


def _squares(layout: Layout) -> npt.NDArray[np.float64]:
    """Return the corners of all squares: blocks of equal columns, the last row from the left."""
    node = np.repeat(np.arange(layout.x.size), layout.n_squares)
    first = np.cumsum(layout.n_squares) - layout.n_squares
    number = np.arange(node.size) - first[node]
    row, column = np.divmod(number, np.maximum(layout.columns[node], 1))
    centre_x = layout.x[node] + (column - (layout.columns[node] - 1) / 2) * PITCH
    top = layout.y[node] + RADIUS + BLOCK_GAP + row * PITCH
    half = SQUARE / 2
    xs = np.stack([centre_x - half, centre_x + half, centre_x + half, centre_x - half], axis=1)
    ys = np.stack([top, top, top + SQUARE, top + SQUARE], axis=1)
    return np.stack([xs, ys], axis=2)


def to_html(tree: Tree) -> str:
    """Return the tree as HTML for a notebook: a drawing, or text where it would be too large."""
    title = html.escape(headline(tree))
    if tree.n_nodes > MOST_NODES_INLINE:
        content = f"<pre>{html.escape(tree.to_text())}</pre>"
    else:
        content = _inline_svg(new_figure(tree), title)
    return f"<figure><figcaption>{title}</figcaption>{content}</figure>"


def _inline_svg(figure: Figure, title: str) -> str:
    import matplotlib as mpl

    drawn = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "treestick"}):
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    svg = drawn.getvalue()
    return svg[svg.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{title}"', 1)
