"""What comes beside the data: images and columns of metadata."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from any_bytes import N_INPUTS, fuzz_reader
from treestick.inputs import InvalidValue
from treestick.io import read_images, read_metadata


def colours(n: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.arange(n * 3, dtype=np.uint8).reshape(n, 1, 1, 3) * np.full((4, 4, 1), 2, np.uint8)


def test_sheets_are_cut_into_tiles_row_by_row_file_by_file(tmp_path: Path) -> None:
    images = colours(12)
    for number in range(2):
        tiles = images[6 * number : 6 * number + 6].reshape(2, 3, 4, 4, 3)
        sheet = tiles.transpose(0, 2, 1, 3, 4).reshape(8, 12, 3)
        Image.fromarray(sheet).save(tmp_path / f"{number}.png")
    (tmp_path / "notes.txt").touch()
    assert np.array_equal(read_images(tmp_path, 11, tile=4), images[:11])
    with pytest.raises(InvalidValue, match="has 12 tiles for 13 data"):
        read_images(tmp_path, 13, tile=4)
    with pytest.raises(InvalidValue, match="12 x 8 pixels are not whole tiles of 5"):
        read_images(tmp_path, 2, tile=5)
    with pytest.raises(InvalidValue, match="has 2 images for 12 data; if they are sheets"):
        read_images(tmp_path, 12)


def test_single_files_and_arrays(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    for k, image in enumerate(colours(3)):
        Image.fromarray(image).save(folder / f"{k}.png")
    read = read_images(folder, 3)
    assert read.shape == (3, 48, 48, 3)
    assert np.array_equal(read[:, 20, 20], colours(3)[:, 0, 0])
    np.save(tmp_path / "images.npy", colours(3))
    assert np.array_equal(read_images(tmp_path / "images.npy", 3), colours(3))
    with pytest.raises(InvalidValue, match="is not that of 4 images"):
        read_images(tmp_path / "images.npy", 4)
    (tmp_path / "bad.png").write_bytes(b"no image")
    with pytest.raises(InvalidValue, match=r"bad\.png: not an image that can be read"):
        read_images(tmp_path / "bad.png", 1)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InvalidValue, match="there are no images"):
        read_images(empty, 1)
    with pytest.raises(InvalidValue, match="there is no such file or folder"):
        read_images(tmp_path / "nowhere", 1)


def test_columns_from_all_formats(tmp_path: Path) -> None:
    expected = {"year": [1987, 1999], "authors": [["A", "B"], ["C"]]}
    table = tmp_path / "m.csv"
    table.write_text("year,authors\n1987,A; B\n1999,C\n")
    assert read_metadata(table, 2, many=["authors"]) == expected
    lines = tmp_path / "m.jsonl"
    rows = [{"year": 1987, "authors": ["A", "B"]}, {"year": 1999, "authors": ["C"]}]
    lines.write_text("\n".join(map(json.dumps, rows)))
    assert read_metadata(lines, 2) == expected
    for content in (rows, expected):
        whole = tmp_path / "m.json"
        whole.write_text(json.dumps(content))
        assert read_metadata(whole, 2) == expected


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("m.csv", "year\n1\n", "column 'year' has 1 values for 2 data"),
        ("m.csv", "", "m.csv: "),
        ("m.json", "{", "m.json: "),
        ("m.json", "3", "a list of objects or an object of lists"),
        ("m.txt", "a", "must end in .csv"),
        ("m.json", "[" * 100_000, "m.json: maximum recursion"),
        ("m.csv", "a,b\n1,2,3\n4,5,6\n", "m.csv: "),
    ],
)
def test_bad_columns_get_one_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InvalidValue, match=message) as caught:
        read_metadata(path, 2)
    assert "\n" not in str(caught.value)
    with pytest.raises(InvalidValue, match="there is no such file"):
        read_metadata(tmp_path / "nowhere.csv", 2)


@N_INPUTS
@pytest.mark.parametrize("ending", ["csv", "tsv", "json", "jsonl"])
def test_any_bytes_are_columns_or_refused(tmp_path: Path, ending: str, n: int) -> None:
    fuzz_reader(lambda path: read_metadata(path, 1), tmp_path / f"m.{ending}", n)


@N_INPUTS
@pytest.mark.parametrize("ending", ["npy", "png", "gif", "bmp", "jpg", "webp"])
def test_any_bytes_are_images_or_refused(tmp_path: Path, ending: str, n: int) -> None:
    fuzz_reader(lambda path: read_images(path, 1), tmp_path / f"i.{ending}", n)
