"""One tree, drawn: circles for nodes, squares for data. Attached to ``Tree`` by the package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treestick.inputs import InvalidType, InvalidValue
from treestick.report.layout import BLOCK_GAP, LEVEL_GAP, PITCH, RADIUS, SQUARE, Layout, lay_out
from treestick.tree import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS_PER_UNIT = (5.0, 12.0)
"""Small trees are drawn larger, within these bounds, to fill ..."""
USUAL_SIDE = 4.0
"""... so many inches."""
LARGEST_SIDE = 60.0
"""Inches; a larger drawing is scaled down."""
MARGIN = 0.8

NODE_COLOUR = "#0072b2"
DATA_COLOUR = "#d55e00"
EDGE_COLOUR = "#555555"


def plot(
    tree: Tree,
    ax: Axes | None = None,
    *,
    labels: bool | Sequence[object] = False,
    min_data: int | None = None,
    root: int = 0,
    show: Sequence[str] | None = None,
    page: str = "a4",
    **known: Any,
) -> Axes:
    """Draw the tree.

    By itself, a tree is drawn with a circle for each node, hollow if no data stop there, and
    squares for data. With ``show``, or with anything known of the data, each node is a card that
    shows what it holds, and what does not fit on the page is folded.

    Parameters
    ----------
    tree : Tree
        What to draw.
    ax : matplotlib.axes.Axes, optional
        Where to draw circles and squares; a new figure of pyplot's, as large as the tree needs, if
        not given. Cards have a figure of their own.
    labels : bool or sequence, default=False
        What to write into the circles: True for the numbers of the nodes, or a label for each.
    min_data : int, optional
        Fold nodes with fewer data at or below them into those above.
    root : int, default=0
        Draw the subtree of this node.
    show : sequence of str, optional
        What is on the cards: ``picture``, ``images``, ``words``, ``features``, or names of metadata
        columns; a number may follow, as in ``images:10``.
    page : str, default="a4"
        The largest page for cards, a4 to a0.
    known
        What is known of the data: ``title``, ``rows``, ``features``, ``images``, ``metadata`` and
        ``picture``, as in :func:`treestick.report.subject.describe_tree`.

    Returns
    -------
    matplotlib.axes.Axes
        Write it to a file with ``ax.figure.savefig(...)``.
    """
    if not isinstance(tree, Tree):
        raise InvalidType(f"tree must be a treestick.Tree, not {type(tree).__name__}")
    if show is not None or known:
        return _plot_cards(tree, ax, labels, min_data, root, show, page, known)
    from treestick.report.folding import fold

    part = fold(tree, min_data or 0, root)
    if labels is True:
        labels = part.nodes.tolist()
    elif labels is not False and part.tree.n_nodes < tree.n_nodes == len(labels):
        labels = [labels[node] for node in part.nodes]
    layout = lay_out(part.tree)
    if ax is None:
        import matplotlib.pyplot as plt

        ax = _add_axes(plt.figure(), layout)
    draw_layout(ax, part.tree, layout, labels)
    if part.n_folded:
        ax.set_title(part.statement(), fontsize=7, color=EDGE_COLOUR, wrap=True)
    return ax


def _plot_cards(
    tree: Tree,
    ax: Axes | None,
    labels: bool | Sequence[object],
    min_data: int | None,
    root: int,
    show: Sequence[str] | None,
    page: str,
    known: dict[str, Any],
) -> Axes:
    import matplotlib.pyplot as plt

    from treestick.report.cards import draw_figure
    from treestick.report.subject import describe_tree

    if ax is not None or labels is not False:
        raise InvalidValue("cards have a figure of their own, and no labels: leave out both")
    return draw_figure(plt.figure(), describe_tree(tree, **known), show, min_data, root, page)


def new_figure(tree: Tree, *, labels: bool | Sequence[object] = False) -> Figure:
    """Return a figure of the tree, as large as it needs; pyplot does not know of it."""
    from matplotlib.figure import Figure

    layout = lay_out(tree)
    figure = Figure()
    draw_layout(_add_axes(figure, layout), tree, layout, labels)
    return figure


def draw_layout(
    ax: Axes, tree: Tree, layout: Layout, labels: bool | Sequence[object] = False
) -> None:
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
    if labels is not False:
        names = range(tree.n_nodes) if labels is True else labels
        _write_labels(ax, tree, layout, names)
    ax.set_xlim(layout.left - MARGIN, layout.right + MARGIN)
    ax.set_ylim(layout.height + MARGIN, -MARGIN)
    ax.set_aspect("equal")
    ax.axis("off")
    if layout.data_per_square > 1:
        note = f"one square: up to {layout.data_per_square:,} data"
        ax.text(0, 0, note, transform=ax.transAxes, fontsize=7, va="top", color=EDGE_COLOUR)


def _add_axes(figure: Figure, layout: Layout) -> Axes:
    """Set the size of ``figure`` to what the layout needs, and return axes that fill it."""
    width = layout.right - layout.left + 2 * MARGIN
    height = layout.height + 2 * MARGIN
    longest = max(width, height)
    scale = np.clip(72 * USUAL_SIDE / longest, *POINTS_PER_UNIT) / 72
    scale = min(scale, LARGEST_SIDE / longest)
    note = 0.2 if layout.data_per_square > 1 else 0.0
    inches = (max(width * scale, 1.6 if note else 0.0), height * scale + note)
    figure.set_size_inches(inches)
    return figure.add_axes((0.0, note / inches[1], 1.0, 1.0 - note / inches[1]))


def _write_labels(ax: Axes, tree: Tree, layout: Layout, labels: Sequence[object]) -> None:
    """Write into each circle, as outlines of letters, so that they scale with the drawing."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path
    from matplotlib.textpath import TextPath

    if len(labels) != tree.n_nodes:
        raise InvalidValue(f"{len(labels)} labels for {tree.n_nodes} nodes")
    letters: dict[bool, list[Path]] = {True: [], False: []}
    for node, label in enumerate(labels):
        if not str(label).strip():
            continue
        outline = TextPath((0, 0), str(label), size=1.3)
        box = outline.get_extents()
        shrink = min(1.0, 1.7 * RADIUS / max(box.width, 1e-9))
        vertices = (outline.vertices - (box.p0 + box.p1) / 2) * (shrink, -shrink)
        moved = Path(vertices + np.array([layout.x[node], layout.y[node]]), outline.codes)
        letters[bool(tree.n_here[node] > 0)].append(moved)
    for occupied, outlines in letters.items():
        if outlines:
            path = Path.make_compound_path(*outlines)
            colour = "#ffffff" if occupied else NODE_COLOUR
            ax.add_patch(PathPatch(path, facecolor=colour, linewidth=0, zorder=3))


def _edges(tree: Tree, layout: Layout) -> list[npt.NDArray[np.float64]]:
    """Return lines from each parent down to a bar above its children, and from there to them."""
    lines = []
    top = layout.y - RADIUS
    for node in np.flatnonzero(np.bincount(tree.parent[1:], minlength=tree.n_nodes)):
        children = tree.children(int(node))
        bar = top[children[0]] - LEVEL_GAP / 2
        x = layout.x[node]
        ends = layout.x[children]
        lines.append(_line(x, layout.bottom[node], x, bar))
        lines.append(_line(min(x, ends.min()), bar, max(x, ends.max()), bar))
        lines.extend(_line(end, bar, end, top[children[0]]) for end in ends)
    return lines


def _line(x0: float, y0: float, x1: float, y1: float) -> npt.NDArray[np.float64]:
    return np.array([[x0, y0], [x1, y1]])


def _squares(layout: Layout) -> npt.NDArray[np.float64]:
    """Return the corners of all squares: blocks of equal rows, the last one centred."""
    node = np.repeat(np.arange(layout.x.size), layout.n_squares)
    first = np.cumsum(layout.n_squares) - layout.n_squares
    number = np.arange(node.size) - first[node]
    columns = layout.columns[node]
    row, column = np.divmod(number, columns)
    in_row = np.minimum(columns, layout.n_squares[node] - row * columns)
    centre_x = layout.x[node] + (column - (in_row - 1) / 2) * PITCH
    top = layout.y[node] + RADIUS + BLOCK_GAP + row * PITCH
    half = SQUARE / 2
    xs = np.stack([centre_x - half, centre_x + half, centre_x + half, centre_x - half], axis=1)
    ys = np.stack([top, top, top + SQUARE, top + SQUARE], axis=1)
    return np.stack([xs, ys], axis=2)


def to_html(tree: Tree) -> str:
    """Return the explorer of the tree for a notebook, or text where it would be too large."""
    from treestick.report.explorer.inline import to_html

    return to_html(tree)
