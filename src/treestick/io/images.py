"""Images of the data: an array, a folder with one file for each, or sheets of tiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from treestick.inputs import InvalidValue, check_whole_number
from treestick.io.npy import read_npy

ENDINGS = (".png", ".webp", ".jpg", ".jpeg", ".gif", ".bmp")
SIDE = 48
"""Pixels of the longer side, to which single images are made smaller."""

Pixels = npt.NDArray[np.uint8]


def read_images(path: str | Path, n_data: int, tile: int | None = None) -> Pixels:
    """Return an image for each datum, in the order of the data.

    Parameters
    ----------
    path
        A ``.npy`` file with an array of shape (n_data, height, width) or (n_data, height, width,
        3); or an image or a folder of images, taken in the order of their names.
    n_data
        How many there have to be.
    tile
        Width and height of the tiles, if the files are sheets: tile after tile along each row,
        file after file. Otherwise each file is one image.
    """
    where = Path(path)
    if not where.exists():
        raise InvalidValue(f"{path}: there is no such file or folder")
    if where.suffix == ".npy":
        return _check_number(path, read_npy(where), n_data)
    names = sorted(where.iterdir()) if where.is_dir() else [where]
    names = [name for name in names if name.suffix.lower() in ENDINGS]
    if not names:
        raise InvalidValue(f"{path}: there are no images ({', '.join(ENDINGS)})")
    if tile is None:
        if len(names) != n_data:
            raise InvalidValue(
                f"{path} has {len(names)} images for {n_data} data; if they are sheets, give the "
                "size of a tile"
            )
        return np.stack([_small(name) for name in names])
    check_whole_number("tile", tile, 1)
    sheets = [_tiles(name, tile) for name in names]
    total = sum(len(sheet) for sheet in sheets)
    if total < n_data:
        raise InvalidValue(f"{path} has {total} tiles for {n_data} data")
    return np.concatenate(sheets)[:n_data]


def _check_number(path: str | Path, images: Any, n_data: int) -> Pixels:
    if images.dtype.kind not in "biuf":
        raise InvalidValue(f"{path}: an array of {images.dtype} is not one of images")
    if images.ndim not in (3, 4) or len(images) != n_data:
        raise InvalidValue(f"{path}: shape {images.shape} is not that of {n_data} images")
    return np.asarray(images)


def _open(name: Path) -> Any:
    from PIL import Image

    try:
        with Image.open(name) as image:
            return image.convert("RGB")
    except Exception as error:  # of another library's readers, which have many
        line = " ".join(str(error).split())
        raise InvalidValue(f"{name}: not an image that can be read ({line[:200]})") from error


def _small(name: Path) -> Pixels:
    """Return an image in a square, white around it."""
    from PIL import Image, ImageOps

    image = ImageOps.pad(_open(name), (SIDE, SIDE), Image.Resampling.LANCZOS, color="white")
    return np.asarray(image)


def _tiles(name: Path, side: int) -> Pixels:
    pixels = np.asarray(_open(name))
    rows, columns = pixels.shape[0] // side, pixels.shape[1] // side
    if (rows * side, columns * side) != pixels.shape[:2]:
        raise InvalidValue(
            f"{name}: {pixels.shape[1]} x {pixels.shape[0]} pixels are not whole tiles of {side}"
        )
    cut = pixels.reshape(rows, side, columns, side, 3).transpose(0, 2, 1, 3, 4)
    return cut.reshape(rows * columns, side, side, 3)
