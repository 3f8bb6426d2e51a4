"""Figure 3 of the paper with its three levels of detail, and traces of the chains.

The figure is drawn twice: with the most typical images of each node, as in the paper, and with the
mean of all images at or below it, which says what they have in common and shows no image itself.
"""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from treestick import Tree
from treestick.report.cards import card_figure
from treestick.report.saving import save, save_all
from treestick.report.subject import Subject

LEAST = (250, 50, 10)
"""Images at or below a node of each level of detail."""
PAGES = ("a1", "a3", "a4")
"""Of views of each level, at most."""
PAGES_OF_MEANS = ("a2", "a4", "a4")
"""The same for cards with one image instead of ten."""
MEAN = "mean image"
N_VIEWS = 3
LARGEST = 0.15
"""Share of the images of a view that a subtree has at most."""
MARGIN = 40
"""Pixels between views."""


def subtrees(tree: Tree, root: int, least: int, n: int) -> list[int]:
    """Return subtrees of a view with most to see: nodes with at least so many images.

    They are the largest with at most a part of its images (``LARGEST``), so none is in another.
    """
    through = tree.n_through
    is_small = through <= LARGEST * through[root]
    n_shown = (through >= least).astype(np.int64)
    for node in range(tree.n_nodes - 1, 0, -1):
        n_shown[tree.parent[node]] += n_shown[node]
    inside = np.zeros(tree.n_nodes, dtype=np.bool_)
    inside[root] = True
    for node in range(root + 1, tree.n_nodes):
        inside[node] = inside[tree.parent[node]]
    inside[root] = False
    found = np.flatnonzero(inside & is_small & ~is_small[tree.parent])
    return [int(node) for node in found[np.argsort(-n_shown[found], kind="stable")[:n]]]


def with_means(subject: Subject) -> Subject:
    """Return the subject with one tree, whose nodes show the mean of the images at or below them.

    Nodes with fewer images than the last level of detail shows are black.
    """
    tree, images = subject.tree, subject.images
    total = np.zeros((tree.n_nodes, *images.shape[1:]), dtype=np.float32)
    np.add.at(total, tree.assignments, images)
    for node in range(tree.n_nodes - 1, 0, -1):
        total[tree.parent[node]] += total[node]
    through = tree.n_through
    total[through < LEAST[-1]] = 0.0
    total /= 255.0 * np.maximum(through, 1).reshape(-1, *[1] * (total.ndim - 1))
    known = Tree(tree.parent, tree.assignments, tree.mass, {MEAN: total}, tree.log_likelihood)
    shown = subject.trees[0]._replace(tree=known)
    return subject._replace(trees=(shown,), picture=lambda tree: tree.node_params[MEAN])


def views(subject: Subject, show: list[str], pages: tuple[str, ...]) -> list[list[Figure]]:
    """Return the figures of the three levels: the tree, three subtrees, a part of each of them."""
    second = subtrees(subject.tree, 0, LEAST[1], N_VIEWS)
    third = [part for root in second for part in subtrees(subject.tree, root, LEAST[2], 1)]
    return [
        [card_figure(subject, show, least, root, page) for root in roots]
        for least, page, roots in zip(LEAST, pages, ([0], second, third), strict=True)
    ]


def draw_figure3(
    subject: Subject, show: list[str], out: Path, name: str = "figure3",
    pages: tuple[str, ...] = PAGES,
) -> list[Path]:  # fmt: skip
    """Write all views as pages of ``figure3.pdf``, and in three rows as ``figure3.png``."""
    levels = views(subject, show, pages)
    every = [figure for level in levels for figure in level]
    written = save_all(every, out / f"{name}.pdf")
    parts = out / f"{name}-views"
    parts.mkdir(exist_ok=True)
    rows = []
    for k, level in enumerate(levels, start=1):
        row = []
        for j, figure in enumerate(level, start=1):
            save(figure, parts / f"level-{k}-{j}.png")
            with Image.open(parts / f"level-{k}-{j}.png") as image:
                row.append(image.convert("RGB"))
        if row:
            rows.append(row)
    sheet = _in_rows(rows)
    sheet.save(out / f"{name}.png")
    return [*written, out / f"{name}.png"]


def _in_rows(rows: list[list[Image.Image]]) -> Image.Image:
    """Return images in rows, as in the paper; those of a row from the top, in the middle."""
    widths = [sum(image.width + MARGIN for image in row) - MARGIN for row in rows]
    heights = [max(image.height for image in row) for row in rows]
    size = (max(widths) + 2 * MARGIN, sum(heights) + MARGIN * (len(rows) + 1))
    sheet = Image.new("RGB", size, "white")
    y = MARGIN
    for row, width, height in zip(rows, widths, heights, strict=True):
        x = (size[0] - width) // 2
        for image in row:
            sheet.paste(image, (x, y))
            x += image.width + MARGIN
        y += height + MARGIN
    return sheet


def draw_traces(model: Any, path: Path) -> None:
    """Draw log likelihood, nodes and depth of each chain against its sweeps."""
    idata = model.idata_
    posterior, statistics = idata["posterior"], idata["sample_stats"]
    shown = {
        "log likelihood\nof data and tree": statistics["complete_data"].values,
        "nodes": posterior["n_nodes"].values,
        "depth": posterior["depth"].values,
        "seconds per sweep": seconds_per_sweep(model),
    }
    noted = posterior.attrs
    n_draws = posterior.sizes["draw"]
    sweep = noted["sweep_of_first_draw"] + noted["thin"] * np.arange(n_draws)
    figure = Figure(figsize=(9, 8), layout="constrained")
    for ax, (name, values) in zip(figure.subplots(4, 1, sharex=True), shown.items(), strict=True):
        for chain, line in enumerate(values):
            ax.plot(sweep[-len(line) :], line, label=f"chain {chain + 1}", linewidth=1.2)
        ax.set_ylabel(name)
        ax.spines[["top", "right"]].set_visible(False)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("sweep")
    figure.axes[0].legend(frameon=False)
    save(figure, path)


def seconds_per_sweep(model: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the time between draws, by chain, divided by the sweeps between them."""
    seconds = model.idata_["sample_stats"]["seconds"].values
    return np.asarray(np.diff(seconds, axis=1) / model.thin)
