"""The page without a browser: what is in the file, how large it is, and that nothing breaks out."""

import base64
import hashlib
import io
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import pages
from treestick import Tree
from treestick.analysis.diagnosis import diagnose
from treestick.inputs import InvalidValue
from treestick.report.explorer import make_page, sprites, write_page
from treestick.report.explorer.chunks import Chunks, to_json
from treestick.report.explorer.contents import page_order, row_in_words
from treestick.report.explorer.inline import to_html
from treestick.report.explorer.sprites import add_sheets, make_tiles
from treestick.report.subject import describe, describe_tree

MEGABYTE = 1_000_000
ARRAYS = {"u1": np.uint8, "u2": np.uint16, "u4": np.uint32, "f4": np.float32}


def contents_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="contents">(.*?)</script>', page, re.S)
    assert found is not None
    read: dict[str, Any] = json.loads(found.group(1))
    return read


def chunk(page: str, number: int) -> bytes:
    found = re.search(rf'<script type="text/plain" id="chunk-{number}">([^<]*)</script>', page)
    assert found is not None
    return zlib.decompress(base64.b64decode(found.group(1)))


def array(page: str, reference: dict[str, Any]) -> Any:
    return np.frombuffer(chunk(page, reference["chunk"]), ARRAYS[reference["type"]])


def test_the_policy_allows_nothing_but_our_own_scripts_and_style() -> None:
    page = make_page(pages.animals())
    found = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert found is not None
    policy = dict(part.split(" ", 1) for part in found.group(1).split("; "))
    assert policy["default-src"] == "'none'"
    assert "unsafe" not in found.group(1)
    assert policy.keys() == {"default-src", "script-src", "style-src", "base-uri", "form-action"}
    inside = [*re.findall(r"<script>(.*?)</script>", page, re.S)]
    inside += re.findall(r"<style>(.*?)</style>", page, re.S)
    allowed = (policy["script-src"] + " " + policy["style-src"]).split()
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in inside]
    assert allowed == [f"'sha256-{digest}'" for digest in digests]


def test_the_page_names_no_address() -> None:
    page = make_page(pages.animals())
    assert set(re.findall(r"https?://[^\s\"')]*", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"(src|href)=", page)


def test_no_name_leaves_its_place() -> None:
    page = make_page(pages.hostile())
    plain = make_page(pages.animals())
    assert page.count("</script>") - plain.count("</script>") == (
        page.count("chunk-") - plain.count("chunk-")
    )
    assert "<img" not in page
    assert "<!--" not in page
    assert "<title>&lt;/script&gt;&lt;script&gt;" in page
    contents = contents_of(page)
    assert contents["title"] == pages.HOSTILE[1]
    ids = json.loads(chunk(page, contents["ids"]))
    assert sorted(set(ids)) == sorted(set(pages.HOSTILE))


def test_json_holds_no_sign_of_html_and_no_nan() -> None:
    written = to_json({"a<b": ["&", "</script>", "\u2028"], "n": [float("nan"), np.float64(1.5)]})
    assert not set(written) & set("<>&\u2028")
    assert json.loads(written) == {"a<b": ["&", "</script>", "\u2028"], "n": [None, 1.5]}


@pytest.mark.parametrize(
    ("values", "kind"),
    [([0, 255], "u1"), ([256], "u2"), ([2**16], "u4"), ([0.5, 1.5], "f4"), ([], "u1")],
)
def test_arrays_take_the_smallest_type(values: list[float], kind: str) -> None:
    chunks = Chunks()
    stored = np.array(values) if values else np.array([], dtype=np.int64)
    reference = chunks.add_array(stored)
    assert reference["type"] == kind
    assert array(chunks.to_html(), reference).tolist() == values


def test_data_are_ordered_by_node_and_the_most_typical_come_first() -> None:
    tree = Tree(
        [-1, 0, 0, 1],
        [2, 0, 3, 1, 1, 2],
        node_params={"mean": np.array([[0.0], [5.0], [9.0], [7.0]])},
    )
    rows = np.array([[9.5], [0.0], [7.0], [5.9], [5.1], [9.1]])
    order = page_order(describe_tree(tree, rows=rows))
    assert order.tolist() == [1, 4, 3, 2, 5, 0]
    page = make_page(describe_tree(tree, rows=rows, ids="abcdef"))
    contents = contents_of(page)
    assert json.loads(chunk(page, contents["ids"])) == list("bedcfa")
    assert array(page, contents["trees"][0]["assignments"]).tolist() == [0, 1, 1, 3, 2, 2]


def test_rows_are_written_in_words() -> None:
    tree = Tree([-1], [0, 0])
    bits = describe_tree(tree, rows=np.array([[1, 0, 1], [0, 0, 0]]), features=["a", "b", "c"])
    assert [row_in_words(bits, bits.rows, n) for n in (0, 1)] == ["a, c", ""]
    floats = bits._replace(rows=bits.rows.astype(float))
    assert row_in_words(floats, floats.rows, 0) == "a, c"
    reals = describe_tree(tree, rows=np.array([[0.25, 0.0], [1e6, -2.0]]))
    assert row_in_words(reals, reals.rows, 1) == "feature 0 1e+06, feature 1 -2"
    wide = describe_tree(tree, rows=np.ones((2, 20)) * np.arange(20))
    assert row_in_words(wide, wide.rows, 0).startswith("feature 19 19, feature 18 18")
    assert row_in_words(wide, wide.rows, 0).endswith(" and 3 more")


@pytest.mark.parametrize("agree", [True, False])
def test_the_page_says_of_the_chains_what_diagnose_says(agree: bool) -> None:
    shown = contents_of(make_page(pages.animals(agree=agree)))["diagnostics"]
    found = diagnose(pages.FakeModel(agree=agree))
    assert (shown["verdict"], shown["lines"]) == found.verdict
    assert shown["verdict"] == ("good" if agree else "bad")
    assert [trace["name"] for trace in shown["traces"]] == [row.name for row in found.rows]
    assert shown["sweep"][:2] == [101, 103]


def test_many_draws_are_thinned_and_the_page_says_so() -> None:
    model = pages.FakeModel(500)
    subject = describe(model, most_draws=25)
    assert len(subject.trees) == 26
    assert subject.note.startswith("25 of 500 draws of the posterior are in this page")
    names = [shown.name for shown in subject.trees]
    assert names[:2] == ["best draw", "chain 1, draw 1"]
    assert names[-1] == "chain 2, draw 250"
    assert contents_of(make_page(subject))["note"] == subject.note
    assert len(make_page(describe(model))) < MEGABYTE


def test_the_page_says_among_how_many_draws_the_consensus_is() -> None:
    model = pages.FakeModel(50)
    shown = describe(model, consensus=model.tree_, n_compared=40)
    assert shown.note.endswith(" The consensus was looked for among 40 of 50 draws.")
    assert contents_of(make_page(shown))["note"] == shown.note
    assert "consensus" not in describe(model, consensus=model.tree_, n_compared=50).note


def test_draws_beyond_the_room_are_left_out_and_the_page_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("treestick.report.explorer.contents.BYTES_FOR_DRAWS", 4_000)
    contents = contents_of(make_page(pages.animals(n_draws=12)))
    n_left_out = 13 - len(contents["trees"])
    assert n_left_out > 0
    assert "draws of the posterior were to be in this page" in contents["note"]
    assert contents["note"].endswith(f" {n_left_out} of these are left out to keep it small.")


def test_images_are_compressed_until_there_is_room() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (600, 32, 32, 3))  # takes most room
    images = noise.astype(np.uint8)
    sizes = {}
    for budget in (1_200_000, 300_000, 60_000):
        chunks = Chunks()
        reference = add_sheets(chunks, make_tiles(images), budget)
        sizes[budget] = reference["width"]
        assert chunks.size < 1.34 * budget
    assert sizes[1_200_000] == 32
    assert sizes[60_000] < 32


def test_small_drawings_are_kept_exactly() -> None:
    images = pages.with_images(40, 8).images
    sheet = sprites._to_webp(make_tiles(images).images, None)
    pixels = np.asarray(Image.open(io.BytesIO(sheet)))
    assert pixels.shape == (16, 256, 3)
    assert np.array_equal(pixels[8:16, 8:16, 0], images[33])


@pytest.mark.long
def test_fifty_thousand_thumbnails_and_forty_draws_stay_below_25_megabytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n_data = 50_000
    images = rng.integers(0, 256, (n_data, 8, 8, 3), dtype=np.uint8)
    images = images.repeat(4, axis=1).repeat(4, axis=2)
    parent = np.r_[-1, np.arange(999) // 3]
    model = pages.FakeModel(2)
    model.draws_ = pages.FakeDraws(Tree(parent, rng.integers(0, 1000, n_data)) for _ in range(500))
    model.tree_ = model.draws_[0]
    subject = describe(model, images=images, features=None)
    assert write_page(subject, tmp_path / "large.html") < 25 * MEGABYTE


def test_a_notebook_does_not_grow_without_end() -> None:
    tree = pages.animal_tree(0)
    assert len(to_html(tree)) < 0.3 * MEGABYTE
    big = pages.large().tree
    assert len(to_html(big)) < 3.5 * MEGABYTE


def test_what_does_not_fit_together_is_an_error() -> None:
    tree = pages.animal_tree(0)
    for known, message in [
        ({"ids": ["a"]}, "1 ids for 240 data"),
        ({"texts": ["a"] * 3}, "3 texts for 240 data"),
        ({"features": ["a"]}, "1 names for 10 features"),
        ({"images": np.zeros((3, 8, 8))}, "3 images for 240 data"),
        ({"images": np.zeros((240, 8))}, "images have shape"),
        ({"metadata": {"year": [1]}}, "column 'year' has 1 values for 240 data"),
        ({"rows": np.zeros((2, 10))}, "2 rows for 240 data"),
    ]:
        with pytest.raises(InvalidValue, match=message):
            describe_tree(tree, **known)  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="support has shape"):
        pages.animals(support=[1.0])
    with pytest.raises(InvalidValue, match=r"must end in \.html"):
        write_page(describe_tree(tree), Path("page.txt"))


@pytest.mark.parametrize(
    ("values", "ordered", "names", "first"),
    [
        ([1999, 1997, None], True, ("1997", "1998", "1999"), [2]),
        (["b", "a", "b"], False, ("b", "a"), [0]),
        ([["x", "y"], [], ["y"]], False, ("y", "x"), [1, 0]),
        ([True, False, True], True, ("0", "1"), [1]),
        ([None, None, None], False, (), []),
    ],
)
def test_columns_by_what_they_hold(
    values: list[Any], ordered: bool, names: tuple[str, ...], first: list[int]
) -> None:
    (column,) = describe_tree(Tree([-1], [0, 0, 0]), metadata={"c": values}).columns
    assert (column.ordered, column.names) == (ordered, names)
    assert column.codes[column.starts[0] : column.starts[1]].tolist() == first
    every = column.counts(np.arange(3))
    assert every.sum() == column.codes.size


def test_numbers_are_put_into_bins() -> None:
    values = np.linspace(0.0, 1.0, 33).tolist()
    (column,) = describe_tree(Tree([-1], [0] * 33), metadata={"c": values}).columns
    assert column.ordered
    assert len(column.names) == 16
    assert column.counts(np.arange(33)).tolist() == [2] * 15 + [3]


def test_numbers_of_components_do_not_get_the_names_of_features() -> None:
    tree = Tree([-1, 0], [0, 1], node_params={"weight": np.array([[0.9, 0.1], [0.2, 0.8]])})
    subject = describe_tree(tree, rows=np.ones((2, 3)), features=["a", "b", "c"])
    assert subject.parameter_name(1) == "component 1"
    contents = contents_of(make_page(subject))
    assert (contents["features"], contents["kind"]) == (None, "component")
