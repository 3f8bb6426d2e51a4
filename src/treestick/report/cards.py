"""Figures for paper: a tree with something to see at each node, on at most a page of A4.

The tree grows to the right or down, whichever shows more of it; cards of one depth are in line, and
do not overlap (`layout.spread`). What does not fit at a size that can be read is folded, the
smallest first (`folding`), and the figure says so.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick.inputs import InvalidValue, shown
from treestick.report.blocks import (
    DIM,
    FONT,
    INK,
    LINE,
    Block,
    Box,
    Content,
    Images,
    Picture,
    Top,
    choose_blocks,
    make_content,
    text_width,
    write,
)
from treestick.report.folding import Folded, fold
from treestick.report.layout import spread
from treestick.report.subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

A4 = (7.5, 10.9)
"""Without margins, in inches."""
PAGES = ("a4", "a3", "a2", "a1", "a0")
"""Each twice as large as the one before."""
PADDING = 0.06
SIDE_GAP = 0.12
"""Between cards of one depth."""
LEVEL_GAP = 0.3
"""Between depths."""
HEAD, FOOT = 0.3, 0.3
"""For the title and for what was folded."""
WIDE, NARROW = 1.2, 0.74
"""Widths of cards: with words or rows of images, and with a picture only."""
CARD, EDGE, FLOW = "#ffffff", "#c9c5bc", "#c3d9e0"

Floats = npt.NDArray[np.float64]


class Plan(NamedTuple):
    """Where cards go: left ends and tops, all of one size."""

    folded: Folded
    grows_down: bool
    x: Floats
    y: Floats
    width: float
    height: float
    size: tuple[float, float]
    """Of the figure, in inches."""


def card_figure(
    subject: Subject,
    show: Sequence[str] | None = None,
    min_data: int | None = None,
    root: int = 0,
    page: str = "a4",
) -> Figure:
    """Return a figure of the subject's first tree; pyplot does not know of it.

    Parameters
    ----------
    subject : Subject
    show : sequence of str, optional
        What stands at each node, from the top: ``picture``, ``images``, ``words``, ``features``,
        or names of metadata columns; a number may follow, as in ``images:10``.
    min_data : int, optional
        Nodes with fewer data at or below them are folded, and more if the page asks for it.
    root : int
        Draw the subtree of this node.
    page : str
        The largest page, a4 to a0.
    """
    from matplotlib.figure import Figure

    figure = Figure()
    draw_figure(figure, subject, show, min_data, root, page)
    return figure


def draw_figure(
    figure: Figure,
    subject: Subject,
    show: Sequence[str] | None,
    min_data: int | None,
    root: int,
    page: str,
) -> Axes:
    """Draw into an empty figure, as :func:`card_figure` says; return its axes."""
    blocks = choose_blocks(subject, show)
    plan = plan_page(subject, blocks, min_data or 1, root, page)
    width, height = plan.size
    figure.set_size_inches(width, height)
    ax = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    draw_cards(ax, make_content(subject, plan.folded), blocks, plan)
    where = "" if root == 0 else f", the subtree of node {root}"
    write(ax, 0.1, 0.14, subject.title + where, width - 0.2, size=9, weight="bold")
    statement = textwrap.wrap(plan.folded.statement(), max(int((width - 0.2) * 21), 20))
    for k, line in enumerate(statement):
        y = height - 0.04 - (len(statement) - k - 0.5) * LINE
        write(ax, 0.1, y, line, width - 0.2, color=DIM)
    ax.set_xlim(0.0, width)
    ax.set_ylim(height, 0.0)
    ax.axis("off")
    return ax


def largest_folds(subject: Subject, plan: Plan, n: int) -> list[int]:
    """Return the nodes of a plan, the root left out, into which most data were folded."""
    own = subject.tree.n_here[plan.folded.nodes]
    folded = plan.folded.tree.n_here - own
    folded[0] = 0
    order = np.argsort(-folded, kind="stable")[:n]
    return [int(plan.folded.nodes[k]) for k in order if folded[k] > 0]


def figures(
    subject: Subject,
    show: Sequence[str] | None = None,
    min_data: int | None = None,
    root: int = 0,
    page: str = "a4",
    n_subtrees: int = 0,
) -> list[Figure]:
    """Return the figure of a tree, and one for each of its subtrees with most in the folds."""
    plan = plan_page(subject, choose_blocks(subject, show), min_data or 1, root, page)
    views = [root, *largest_folds(subject, plan, n_subtrees)]
    least = [min_data] + [None if min_data is None else -(-min_data // 5)] * (len(views) - 1)
    return [card_figure(subject, show, m, view, page) for m, view in zip(least, views, strict=True)]


def plan_page(
    subject: Subject, blocks: Sequence[Block], min_data: int, root: int, page: str = "a4"
) -> Plan:
    """Fold as little as makes the tree fit on a page."""
    if page not in PAGES:
        raise InvalidValue(f"page={shown(page)} is not one of {', '.join(PAGES)}")
    scale = np.sqrt(2.0) ** PAGES.index(page)
    room = (A4[0] * scale, A4[1] * scale)
    plans = [_best_plan(subject, blocks, min_data, root, down, room) for down in (False, True)]
    return min(plans, key=lambda plan: plan.folded.n_folded)


def _best_plan(
    subject: Subject,
    blocks: Sequence[Block],
    min_data: int,
    root: int,
    grows_down: bool,
    room: tuple[float, float],
) -> Plan:
    sizes = np.unique(subject.tree.n_through)
    steps = [min_data, *sizes[sizes > min_data].tolist()]
    plan = _plan(subject, blocks, steps[0], root, grows_down)
    low, high = 0, len(steps) - 1
    if _fits(plan, room) or high == 0:
        return plan
    while low < high - 1:  # what is at `low` is too large
        middle = (low + high) // 2
        if _fits(_plan(subject, blocks, steps[middle], root, grows_down), room):
            high = middle
        else:
            low = middle
    return _plan(subject, blocks, steps[high], root, grows_down)


def _plan(
    subject: Subject, blocks: Sequence[Block], min_data: int, root: int, grows_down: bool
) -> Plan:
    folded = fold(subject.tree, min_data, root, passing=True)
    tree = folded.tree
    width = max(_width(block) for block in blocks) if blocks else WIDE
    width += 2 * PADDING
    height = LINE + sum(block.height + 0.04 for block in blocks) + 2 * PADDING
    across = width if grows_down else height
    middle = spread(tree, np.full(tree.n_nodes, (across + SIDE_GAP) / 2))
    side: Floats = np.asarray(middle - middle.min(), dtype=np.float64)
    level = np.float64((height if grows_down else width) + LEVEL_GAP) * tree.depth
    x = (side if grows_down else level) + 0.1
    y = (level if grows_down else side) + HEAD
    size = (max(float(x.max() + width + 0.1), 3.2), float(y.max() + height + FOOT))
    return Plan(folded, grows_down, x, y, width, height, size)


def _width(block: Block) -> float:
    if isinstance(block, Images):
        return block.side * min(block.n, block.per_row)
    return NARROW if isinstance(block, Picture | Top) and _is_narrow(block) else WIDE


def _is_narrow(block: Picture | Top) -> bool:
    return isinstance(block, Picture) or all(len(name) <= 5 for name in block.column.names)


def _fits(plan: Plan, room: tuple[float, float]) -> bool:
    """Whether a plan fits on a page, upright or across."""
    small, large = sorted(plan.size)
    return small <= room[0] and large <= room[1]


def draw_cards(ax: Axes, content: Content, blocks: Sequence[Block], plan: Plan) -> None:
    """Draw edges as wide as the share of the data, and on them the cards."""
    from matplotlib.patches import FancyBboxPatch, PathPatch
    from matplotlib.path import Path

    tree = plan.folded.tree
    for child in range(1, tree.n_nodes):
        curve = Path(
            _edge(plan, int(tree.parent[child]), child),
            [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
        )
        share = tree.n_through[child] / max(tree.n_data, 1)
        width = 0.6 + 8.0 * np.sqrt(share)
        ax.add_patch(PathPatch(curve, facecolor="none", edgecolor=FLOW, linewidth=width))
    for node in tree:
        corner = (plan.x[node], plan.y[node])
        ax.add_patch(
            FancyBboxPatch(
                corner, plan.width, plan.height, boxstyle="round,pad=0,rounding_size=0.05",
                facecolor=CARD, edgecolor=EDGE, linewidth=0.6, zorder=2,
            )
        )  # fmt: skip
        _fill(ax, content, blocks, plan, node)


def _edge(plan: Plan, parent: int, child: int) -> list[tuple[float, float]]:
    """Return the points of a curve from the end of one card to the start of another."""
    if plan.grows_down:
        x0, x1 = plan.x[parent] + plan.width / 2, plan.x[child] + plan.width / 2
        y0, y1 = plan.y[parent] + plan.height, plan.y[child]
        bend = 0.55 * (y1 - y0)
        return [(x0, y0), (x0, y0 + bend), (x1, y1 - bend), (x1, y1)]
    x0, x1 = plan.x[parent] + plan.width, plan.x[child]
    y0, y1 = plan.y[parent] + plan.height / 2, plan.y[child] + plan.height / 2
    bend = 0.55 * (x1 - x0)
    return [(x0, y0), (x0 + bend, y0), (x1 - bend, y1), (x1, y1)]


def _fill(ax: Axes, content: Content, blocks: Sequence[Block], plan: Plan, node: int) -> None:
    tree = plan.folded.tree
    x, width = plan.x[node] + PADDING, plan.width - 2 * PADDING
    y = plan.y[node] + PADDING
    here, below = int(tree.n_here[node]), int(tree.n_below[node])
    name = str(plan.folded.nodes[node])
    counts = f"{here:,} here"
    longer = f"{counts}, {below:,} below"
    if below and text_width(longer, FONT) < width - 0.3:
        counts = longer
    write(ax, x, y + LINE / 2, counts, width - 0.25, color=INK, size=FONT - 0.5, weight="bold")
    write(ax, x + width, y + LINE / 2, name, 0.3, color=DIM, size=FONT - 1.5, ha="right")
    y += LINE + 0.04
    for block in blocks:
        block.draw(ax, content, node, Box(x, y, width))
        y += block.height + 0.04
