"""Figure 3 of the paper with its three levels of detail, and traces of the chains."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from treestick.report.blocks import choose_blocks
from treestick.report.cards import card_figure, largest_folds, plan_page
from treestick.report.saving import save, save_all
from treestick.report.subject import Subject

LEAST = (250, 50, 10)
"""Images at or below a node of each level of detail."""
N_VIEWS = 3
MARGIN = 40
"""Pixels between views."""


def views(subject: Subject, show: list[str]) -> list[list[Figure]]:
    """Return the figures of the three levels: the tree, three subtrees, a part of each of them."""
    blocks = choose_blocks(subject, show)

    def inside(root: int, level: int, n: int) -> list[int]:
        plan = plan_page(subject, blocks, LEAST[level], root)
        return largest_folds(subject, plan, n)

    second = inside(0, 0, N_VIEWS)
    third = [node for root in second for node in inside(root, 1, 1)]
    roots = [[0], second, third]
    return [
        [card_figure(subject, show, least, root) for root in of_level]
        for least, of_level in zip(LEAST, roots, strict=True)
    ]


def draw_figure3(subject: Subject, show: list[str], out: Path) -> list[Path]:
    """Write all views as pages of ``figure3.pdf``, and in three rows as ``figure3.png``."""
    levels = views(subject, show)
    every = [figure for level in levels for figure in level]
    written = save_all(every, out / "figure3.pdf")
    parts = out / "figure3-views"
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
    sheet.save(out / "figure3.png")
    return [*written, out / "figure3.png"]


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
        "log likelihood of data and tree": statistics["complete_data"].values,
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
