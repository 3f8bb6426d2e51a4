"""What can stand at a node of a figure: images, words, features, columns of metadata.

A block has a height in inches, and draws itself into a box: axes in inches, y pointing down.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from treestick.inputs import InvalidValue, shown
from treestick.report.columns import Column
from treestick.report.folding import Folded
from treestick.report.subject import Subject
from treestick.report.typical import (
    LEAST_TOLD,
    Contrasts,
    contrasts,
    main_parameter,
    typicality,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FONT = 6.2
"""Points: the smallest that is easy to read on paper."""
LINE = 0.112
"""Inches from one line to the next."""
INK, DIM, ACCENT, WARM = "#1c2226", "#667078", "#0f6a8b", "#b4540a"


class Box(NamedTuple):
    """Left, top and width in inches."""

    x: float
    y: float
    width: float


class Content(NamedTuple):
    """What blocks draw from."""

    subject: Subject
    folded: Folded
    typical: npt.NDArray[np.float64]
    contrasts: Contrasts | None

    def data(self, node: int) -> npt.NDArray[np.int64]:
        """Return the data at a node, the most typical first; folded ones follow.

        Numbers are those of the whole tree. Of data that were folded into the node, nobody knows
        how typical of it they are.
        """
        folded = self.folded
        at = folded.data[np.flatnonzero(folded.tree.assignments == node)]
        is_own = self.subject.tree.assignments[at] == folded.nodes[node]
        return at[np.lexsort((-self.typical[at], ~is_own))]


class Block(Protocol):
    """A part of what stands at a node."""

    @property
    def height(self) -> float:
        """In inches."""

    def draw(self, ax: Axes, content: Content, node: int, box: Box) -> None:
        """Draw what it has to say of a node."""


class Picture(NamedTuple):
    """The image that the model has of the node."""

    height: float = 0.6

    def draw(self, ax: Axes, content: Content, node: int, box: Box) -> None:
        """Draw the image in the middle."""
        make = content.subject.picture
        assert make is not None
        image = make(content.folded.tree)[node]
        _show(ax, np.round(255 * image).astype(np.uint8), box, self.height)


class Images(NamedTuple):
    """The images of the most typical data."""

    n: int = 10
    per_row: int = 5
    side: float = 0.24

    @property
    def height(self) -> float:
        """As many rows as needed."""
        return self.side * -(-self.n // self.per_row)

    def draw(self, ax: Axes, content: Content, node: int, box: Box) -> None:
        """Draw them in rows, with a thin line between."""
        images = content.subject.images[content.data(node)[: self.n]]
        if len(images) == 0:
            return
        height, width = images.shape[1:3]
        gap = max(1, width // 16)
        n_rows = -(-self.n // self.per_row)
        mosaic = np.full(
            (n_rows * (height + gap) - gap, self.per_row * (width + gap) - gap, 3), 255, np.uint8
        )
        for k, image in enumerate(images):
            top, left = np.array(divmod(k, self.per_row)) * (height + gap, width + gap)
            tile = image if image.ndim == 3 else image[:, :, None]
            mosaic[top : top + height, left : left + width] = tile
        _show(ax, mosaic, box, self.height)


class Words(NamedTuple):
    """The features that are most common in the data of the node."""

    n: int = 5

    @property
    def height(self) -> float:
        """Two lines."""
        return 2 * LINE

    def draw(self, ax: Axes, content: Content, node: int, box: Box) -> None:
        """Write them, the most common first."""
        subject, data = content.subject, content.data(node)
        if subject.rows is None:
            name = main_parameter(content.folded.tree)
            assert name is not None
            total = content.folded.tree.node_params[name][node]
        else:
            rows = subject.rows[data]
            total = np.asarray(rows.sum(axis=0), dtype=np.float64).ravel()
        order = np.argsort(-total, kind="stable")[: self.n]
        name_of = subject.parameter_name if subject.rows is None else subject.feature_name
        words = [name_of(int(k)) for k in order if total[k] > 0]
        _write_lines(ax, _wrap(words, box.width), box)


class Features(NamedTuple):
    """The features in which the node differs most from its parent."""

    n: int = 5

    @property
    def height(self) -> float:
        """A line for each."""
        return self.n * LINE

    def draw(self, ax: Axes, content: Content, node: int, box: Box) -> None:
        """Write the name, and the value; an arrow says whether it is more than at the parent."""
        found = content.contrasts
        assert found is not None
        for k in range(min(self.n, found.feature.shape[1])):
            y = box.y + (k + 0.5) * LINE
            value, above = found.value[node, k], found.at_parent[node, k]
            score = found.score[node, k]
            more = score > 0
            is_same = found.place is not None and abs(score) < LEAST_TOLD
            sign = " " if np.isnan(above) or is_same else "▲" if more else "▼"
            write(ax, box.x, y, sign, 0.1, size=4.5, color=ACCENT if more else WARM)
            name = content.subject.parameter_name(int(found.feature[node, k]))
            write(ax, box.x + 0.1, y, name, box.width - 0.48)
            write(ax, box.x + box.width, y, two_digits(value), 0.36, color=DIM, ha="right")


def two_digits(value: float) -> str:
    """Return a number in few letters: 39,000 is 3.9e4."""
    digits, _, power = f"{value:.2g}".partition("e")
    return f"{digits}e{int(power)}" if power else digits


class Histogram(NamedTuple):
    """How the data of the node are spread over an ordered column."""

    column: Column
    bars: float = 0.26

    @property
    def height(self) -> float:
        """Bars and a line for the ends."""
        return self.bars + LINE + 0.02

    def draw(self, ax: Axes, content: Content, node: int, box: Box) -> None:
        """Draw bars as high as their share of the most common."""
        from matplotlib.collections import PatchCollection
        from matplotlib.patches import Rectangle

        counts = self.column.counts(content.data(node))
        step = box.width / counts.size
        floor = box.y + self.bars
        heights = self.bars * counts / max(int(counts.max()), 1)
        bars = [
            Rectangle((box.x + (k + 0.1) * step, floor - height), 0.8 * step, height)
            for k, height in enumerate(heights)
        ]
        ax.add_collection(PatchCollection(bars, facecolor=ACCENT, linewidth=0, zorder=3))
        ax.plot([box.x, box.x + box.width], [floor, floor], color=DIM, linewidth=0.4, zorder=3)
        y = floor + 0.01 + LINE / 2
        write(ax, box.x, y, self.column.names[0], box.width / 2, size=5, color=DIM)
        last = self.column.names[-1]
        write(ax, box.x + box.width, y, last, box.width / 2, size=5, color=DIM, ha="right")


class Top(NamedTuple):
    """The most common values of a column."""

    column: Column
    n: int = 5

    @property
    def height(self) -> float:
        """A line for each."""
        return self.n * LINE

    def draw(self, ax: Axes, content: Content, node: int, box: Box) -> None:
        """Write values and how often they are there."""
        counts = self.column.counts(content.data(node))
        for k, which in enumerate(np.argsort(-counts, kind="stable")[: self.n]):
            if counts[which] > 0:
                y = box.y + (k + 0.5) * LINE
                write(ax, box.x, y, self.column.names[which], box.width - 0.28)
                write(ax, box.x + box.width, y, f"{counts[which]:,}", 0.26, color=DIM, ha="right")


def choose_blocks(subject: Subject, show: Sequence[str] | None = None) -> list[Block]:
    """Return the blocks of these names, or those that suit the subject.

    A name is ``picture``, ``images``, ``words``, ``features`` or that of a column of metadata; a
    number may follow, as in ``images:10``.
    """
    if show is not None:
        return [_block(subject, name) for name in show]
    blocks: list[Block] = []
    if subject.picture is not None:
        blocks.append(Picture())
    elif subject.images is not None:
        blocks.append(Images())
    elif main_parameter(subject.tree) is not None:
        blocks.append(Features())
    most = 3 if subject.picture is not None else 5
    return blocks + [_of_column(column, most) for column in subject.columns[:2]]


def _block(subject: Subject, asked: str) -> Block:
    by_name = {column.name: column for column in subject.columns}
    if asked in by_name:
        return _of_column(by_name[asked], 5)
    name, _, number = asked.rpartition(":") if ":" in asked else (asked, "", "")
    if number and not (number.isdecimal() and int(number) > 0):
        raise InvalidValue(f"show={shown(asked)}: {number!r} is not a whole number above 0")
    n = int(number) if number else None
    there = {
        "picture": subject.picture is not None,
        "images": subject.images is not None,
        "words": subject.rows is not None or main_parameter(subject.tree) is not None,
        "features": main_parameter(subject.tree) is not None,
    }
    if name in by_name:
        return _of_column(by_name[name], n or 5)
    if not there.get(name, False):
        possible = [*(known for known, is_there in there.items() if is_there), *by_name]
        raise InvalidValue(
            f"show={shown(asked)} is not there to be shown; "
            f"there is {', '.join(possible) or 'nothing'}"
        )
    if name == "picture":
        return Picture()
    if name == "images":
        return Images(n or 10)
    return Words(n or 5) if name == "words" else Features(n or 5)


def _of_column(column: Column, n: int) -> Block:
    return Histogram(column) if column.ordered else Top(column, min(n, len(column.names)))


def make_content(subject: Subject, folded: Folded) -> Content:
    """Return what blocks need to know of the nodes that are left."""
    typical = typicality(subject.tree, subject.rows)
    rows = None if hasattr(subject.rows, "tocoo") else subject.rows
    return Content(subject, folded, typical, contrasts(folded.tree, rows=rows))


def write(
    ax: Axes, x: float, y: float, text: str, width: float, *, size: float = FONT, **style: Any
) -> None:
    """Write one line in the middle of y, cut to ``width`` inches; signs of TeX mean nothing."""
    style = {"color": INK, "ha": "left", **style}
    ax.text(
        x,
        y,
        _cut(text, width, size),
        fontsize=size,
        va="center_baseline",
        parse_math=False,
        zorder=4,
        **style,
    )


def _cut(text: str, width: float, size: float) -> str:
    if text_width(text[:200], size) <= width:
        return text[:200]
    kept = text[: int(width / size * 200)]
    while kept and text_width(kept + "…", size) > width:
        kept = kept[:-1]
    return kept + "…"


def text_width(text: str, size: float) -> float:
    """Return the width of a line in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    width, _, _ = text_to_path.get_text_width_height_descent(
        text, FontProperties(size=size), ismath=False
    )
    return float(width) / 72.0


def _wrap(words: list[str], width: float) -> list[str]:
    """Put words into lines of this width."""
    lines: list[str] = []
    for word in words:
        joined = f"{lines[-1]}, {word}" if lines else word
        if lines and text_width(joined, FONT) <= width:
            lines[-1] = joined
        else:
            lines.append(word)
    return lines


def _write_lines(ax: Axes, lines: list[str], box: Box) -> None:
    for k, line in enumerate(lines[:2]):
        write(ax, box.x, box.y + (k + 0.5) * LINE, line, box.width)


def _show(ax: Axes, pixels: npt.NDArray[np.uint8], box: Box, height: float) -> None:
    """Show an image in the middle of a box, as large as fits."""
    rows, columns = pixels.shape[:2]
    scale = min(height / rows, box.width / columns)
    left = box.x + (box.width - columns * scale) / 2
    top = box.y + (height - rows * scale) / 2
    extent = (left, left + columns * scale, top + rows * scale, top)
    is_small = rows <= 16
    ax.imshow(
        pixels, extent=extent, cmap="gray", vmin=0, vmax=255, aspect="auto", zorder=3,
        interpolation="nearest" if is_small else "antialiased",
    )  # fmt: skip
