"""Figures 1 and 2 of the paper, from actual draws.

Figure 1: stick breaking for the Dirichlet process, and interleaved for the tree.
Figure 2: eight draws of fifty data, with different hyperparameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from treestick import prior
from treestick.report.drawing import MARGIN, NODE_COLOUR, draw_layout
from treestick.report.layout import lay_out
from treestick.tree import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Setting(NamedTuple):
    """Hyperparameters and seed of one panel of figure 2."""

    alpha0: float
    decay: float
    gamma: float
    seed: int


PAPER_SETTINGS = (
    Setting(1.0, 0.5, 0.2, 1001),
    Setting(1.0, 1.0, 0.2, 1092),
    Setting(1.0, 1.0, 1.0, 1014),
    Setting(5.0, 0.5, 0.2, 1001),
    Setting(5.0, 1.0, 0.2, 1012),
    Setting(5.0, 0.5, 1.0, 1003),
    Setting(25.0, 0.5, 0.2, 1001),
    Setting(25.0, 0.5, 1.0, 1003),
)
"""The eight settings of the paper, in its order, with the seeds that it names."""

PER_ROW = 3
POINTS_PER_UNIT = 3.6
TITLE_HEIGHT = 5.0
TITLE_WIDTH = 30.0
PANEL_GAP = 3.0


def figure_2(n: int = 50, settings: tuple[Setting, ...] = PAPER_SETTINGS) -> Figure:
    """Draw one tree for each setting, all to the same scale."""
    from matplotlib.figure import Figure

    trees = [prior.draw_urn(n, s.alpha0, s.decay, s.gamma, s.seed) for s in settings]
    layouts = [lay_out(tree) for tree in trees]
    widths = [layout.right - layout.left + 2 * MARGIN for layout in layouts]
    heights = [layout.height + 2 * MARGIN for layout in layouts]
    rows = [range(k, min(k + PER_ROW, len(trees))) for k in range(0, len(trees), PER_ROW)]
    # Titles grow with the drawings, or they would be lost over large ones.
    enlarge = max(1.0, max(widths) / (2 * TITLE_WIDTH))
    title_height, title_width = TITLE_HEIGHT * enlarge, TITLE_WIDTH * enlarge
    row_widths = [sum(max(widths[k], title_width) + PANEL_GAP for k in row) for row in rows]
    row_heights = [max(heights[k] for k in row) + title_height + PANEL_GAP for row in rows]
    total_width, total_height = max(row_widths), sum(row_heights)
    inches = POINTS_PER_UNIT / 72
    figure = Figure(figsize=(total_width * inches, total_height * inches))

    top = 0.0
    for row, row_width, row_height in zip(rows, row_widths, row_heights, strict=True):
        spare = (total_width - row_width) / len(row)
        start = 0.0
        for k in row:
            slot = max(widths[k], title_width) + PANEL_GAP + spare
            left = start + (slot - widths[k]) / 2
            bottom = total_height - top - title_height - heights[k]
            ax = figure.add_axes(
                (
                    left / total_width,
                    bottom / total_height,
                    widths[k] / total_width,
                    heights[k] / total_height,
                )
            )
            draw_layout(ax, trees[k], layouts[k])
            s = settings[k]
            figure.text(
                (start + slot / 2) / total_width,
                (total_height - top - title_height / 2) / total_height,
                f"({'abcdefghijklmnopqrstuvwxyz'[k]})  $\\alpha_0={s.alpha0:g}$, "
                f"$\\lambda={s.decay:g}$, $\\gamma={s.gamma:g}$",
                ha="center",
                va="center",
                fontsize=8 * enlarge,
            )
            start += slot
        top += row_height
    return figure


MIN_MASS = 0.01
"""Children in figure 1 with less than this are not drawn one by one, but as a hatched rest."""
ROWS_OF_PROCESS = 4
KEPT, CHILD, PASSED_ON = NODE_COLOUR, "#f0c27b", "#eeeeee"


def figure_1(
    alpha0: float = 1.5, decay: float = 0.6, gamma: float = 1.0, seed: int = 16258
) -> Figure:
    """Draw the two stick-breaking schematics from one draw of the sticks.

    The default is an actual draw, but not a typical one: its seed was chosen among 20,000 for
    pieces that are large enough to be labelled.
    """
    from matplotlib.figure import Figure

    tree = prior.draw_sticks(0, alpha0, decay, gamma, seed, min_mass=MIN_MASS, max_depth=2)
    figure = Figure(figsize=(7.2, 6.0), layout="constrained")
    upper, lower = figure.subplots(2, 1, height_ratios=(4, 5))
    _draw_process(upper, gamma, seed)
    _draw_tree_process(lower, tree)
    return figure


def _draw_process(ax: Axes, gamma: float, seed: int) -> None:
    """Panel a: keep the left piece, break the right piece again.

    The sticks are those of the root's children in panel b (a node's psi does not depend on
    alpha), here with nothing kept at the root; they are called nu, as the paper does here.
    """
    process = prior.draw_sticks(0, 1e9, 1.0, gamma, seed, min_mass=1e-9, max_depth=1)
    children = process.children(0)
    in_order = children[process.node_params["ordinal"][children] == np.arange(children.size)]
    start = 0.0
    for row, stick in enumerate(process.node_params["psi"][in_order][:ROWS_OF_PROCESS].tolist()):
        length = (1.0 - start) * stick
        _bar(ax, row, start, length, KEPT, rf"$\nu_{row + 1}$")
        _bar(ax, row, start + length, 1.0 - start - length, PASSED_ON, rf"$1-\nu_{row + 1}$")
        start += length
    _finish(ax, [r"$\nu$"] * ROWS_OF_PROCESS, "(a)  Dirichlet process stick breaking")


def _draw_tree_process(ax: Axes, tree: Tree) -> None:
    """Panel b: rows 1, 3, 5 are nu-breaks, rows 2, 4 psi-breaks."""
    nu, left, span = (tree.node_params[name].tolist() for name in ("nu", "left", "span"))
    names = _names(tree)
    deepest = int(tree.depth.max())
    for node in range(tree.n_nodes):
        row = 2 * int(tree.depth[node])
        kept = span[node] * nu[node]
        _bar(ax, row, left[node], kept, KEPT, rf"$\nu_{{{names[node]}}}$")
        _bar(ax, row, left[node] + kept, span[node] - kept, PASSED_ON)
        if row == 2 * deepest:
            continue
        _bar(ax, row + 1, left[node] + kept, span[node] - kept, "white", hatch="//////")
        for child in tree.children(node).tolist():
            name = rf"$\varphi_{{{names[child]}}}$"
            _bar(ax, row + 1, left[child], span[child], CHILD, name)
    breaks = [r"$\psi$" if row % 2 else r"$\nu$" for row in range(2 * deepest + 1)]
    _finish(ax, breaks, "(b)  Tree-structured stick breaking")


def _names(tree: Tree) -> list[str]:
    """Name the nodes as the paper does: the root by the empty string, then 1, 2, 11, 12, ..."""
    ordinal = tree.node_params["ordinal"]
    comma = "," if ordinal.max() >= 9 else ""
    names = [r"\varnothing"]
    for node in range(1, tree.n_nodes):
        above = int(tree.parent[node])
        number = str(ordinal[node] + 1)
        names.append(number if above == 0 else f"{names[above]}{comma}{number}")
    return names


def _bar(
    ax: Axes, row: int, start: float, length: float, colour: str, label: str = "", hatch: str = ""
) -> None:
    """Draw one piece of a stick, with its label if it fits."""
    from matplotlib.patches import Rectangle

    if length < 0.002:
        return

    piece = Rectangle((start, row), length, 0.72, facecolor=colour, edgecolor="#333333")
    piece.set(linewidth=0.5, hatch=hatch)
    ax.add_patch(piece)
    room = 0.075 if "-" in label else 0.055 if "," in label else 0.037
    if label and length > room:
        ax.text(
            start + length / 2,
            row + 0.36,
            label,
            ha="center",
            va="center",
            fontsize=9,
            color="white" if colour == KEPT else "black",
        )


def _finish(ax: Axes, breaks: list[str], title: str) -> None:
    for row, name in enumerate(breaks):
        ax.text(-0.012, row + 0.36, name, ha="right", va="center", fontsize=9)
    ax.set_xlim(-0.03, 1.005)
    ax.set_ylim(len(breaks), -0.1)
    ax.set_title(title, fontsize=9, loc="left")
    ax.axis("off")
