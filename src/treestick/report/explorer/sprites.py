"""Many small images in a few large ones.

A sheet is a WebP image of tiles, row by row. Small drawings are kept exactly; photographs are
compressed, and if that is not enough made smaller, until the page has room for them.
"""

from __future__ import annotations

import io
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick.report.explorer.chunks import Chunks, Reference

LARGEST_TILE = 48
"""Pixels; larger images are made smaller."""
EXACT_TILE = 16
"""Pixels; images up to this are kept exactly."""
TILES_PER_ROW = 32
BYTES_FOR_IMAGES = 12_500_000
"""In base64 that is 17 MB."""
QUALITIES = (80, 65, 50, 35, 20, 10)

Pixels = npt.NDArray[np.uint8]


class Tiles(NamedTuple):
    """Images of one size, at most ``LARGEST_TILE`` on a side."""

    images: Pixels
    """Shape (n, height, width, 3)."""
    exact: bool


def make_tiles(images: npt.NDArray[Any]) -> Tiles:
    """Return images in colour and of a size that fits on a sheet."""
    from PIL import Image

    n, height, width = images.shape[:3]
    exact = max(height, width) <= EXACT_TILE
    if images.ndim == 3:
        images = np.repeat(images[..., None], 3, axis=3)
    if max(height, width) <= LARGEST_TILE:
        return Tiles(images, exact)
    shrink = LARGEST_TILE / max(height, width)
    size = (max(round(width * shrink), 1), max(round(height * shrink), 1))
    smaller = np.empty((n, size[1], size[0], 3), dtype=np.uint8)
    for k in range(n):
        smaller[k] = np.asarray(Image.fromarray(images[k]).resize(size, Image.Resampling.BOX))
    return Tiles(smaller, exact)


def add_sheets(chunks: Chunks, tiles: Tiles, budget: int = BYTES_FOR_IMAGES) -> Reference:
    """Add sheets with all tiles in their order, and return how to find them."""
    quality = None if tiles.exact else _quality(tiles, budget)
    while not tiles.exact and quality is None:
        tiles = tiles._replace(images=tiles.images[:, ::2, ::2])
        quality = _quality(tiles, budget)
    _, height, width = tiles.images.shape[:3]
    packed = [_to_webp(sheet, quality) for sheet in _sheets(tiles)]
    return {
        "width": width,
        "height": height,
        "perRow": TILES_PER_ROW,
        "perSheet": TILES_PER_ROW**2,
        "exact": tiles.exact,
        "sheets": [chunks.add_bytes(sheet, compress=False) for sheet in packed],
    }


def _sheets(tiles: Tiles) -> list[Pixels]:
    per_sheet = TILES_PER_ROW**2
    starts = range(0, len(tiles.images), per_sheet)
    return [tiles.images[start : start + per_sheet] for start in starts]


def _quality(tiles: Tiles, budget: int) -> int | None:
    """Return the best quality with which all sheets fit, as some of them go; None if with none."""
    some = _sheets(tiles)
    some = some[:: max(len(some) // 3, 1)]
    share = len(tiles.images) / sum(len(sheet) for sheet in some)
    for quality in QUALITIES:
        if share * sum(len(_to_webp(sheet, quality)) for sheet in some) < 0.92 * budget:
            return quality
    return None


def _to_webp(images: Pixels, quality: int | None) -> bytes:
    from PIL import Image

    n, height, width, _ = images.shape
    n_rows = -(-n // TILES_PER_ROW)
    sheet = np.zeros((n_rows * TILES_PER_ROW, height, width, 3), dtype=np.uint8)
    sheet[:n] = images
    sheet = sheet.reshape(n_rows, TILES_PER_ROW, height, width, 3).transpose(0, 2, 1, 3, 4)
    picture = Image.fromarray(sheet.reshape(n_rows * height, TILES_PER_ROW * width, 3))
    written = io.BytesIO()
    if quality is None:
        picture.save(written, "WEBP", lossless=True, quality=100)
    else:
        picture.save(written, "WEBP", quality=quality)
    return written.getvalue()
