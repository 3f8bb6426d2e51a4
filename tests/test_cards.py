"""Figures with content at the nodes: nothing overlaps, pages are not left, folds are told."""

from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from scipy import sparse

import pages
from treestick import Tree, prior
from treestick.inputs import InvalidValue
from treestick.io import Corpus
from treestick.report.blocks import (
    FONT,
    Histogram,
    Images,
    Top,
    choose_blocks,
    text_width,
    two_digits,
)
from treestick.report.cards import A4, card_figure, figures, largest_folds, plan_page
from treestick.report.folding import fold
from treestick.report.saving import save, save_all
from treestick.report.subject import describe, describe_tree
from treestick.report.typical import contrasts, typicality


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def test_cards_stand_apart_on_a_page_of_a4_with_text_inside_them() -> None:
    figure = card_figure(pages.animals(), ["words", "features", "year", "authors:3"])
    width, height = figure.get_size_inches()
    assert min(width, height) <= A4[0]
    assert max(width, height) <= A4[1]
    boxes = [p.get_bbox() for p in figure.axes[0].patches if isinstance(p, FancyBboxPatch)]
    assert len(boxes) == 7
    for k, a in enumerate(boxes):
        assert a.x0 >= 0
        assert a.y0 >= 0
        assert a.x1 <= width
        assert a.y1 <= height
        for b in boxes[:k]:
            assert a.x0 >= b.x1 or b.x0 >= a.x1 or a.y0 >= b.y1 or b.y0 >= a.y1
    inside = figure.axes[0].texts[:-1]  # the title comes last
    for text in inside:
        x, y = text.get_position()
        assert any(b.x0 <= x <= b.x1 + 1e-6 and b.y0 <= y <= b.y1 for b in boxes), text
        size = float(text.get_fontsize())
        assert text_width(text.get_text(), size) <= boxes[0].width
        assert size >= 4.5


@given(
    st.integers(0, 2**32), st.sampled_from([(1.0, 0.5, 0.2), (25.0, 0.5, 1.0), (3.0, 0.9, 20.0)])
)
@settings(max_examples=25)
def test_folding_loses_no_data_and_keeps_the_tree(
    seed: int, setting: tuple[float, float, float]
) -> None:
    tree = prior.draw_urn(300, *setting, seed)
    for passing in (False, True):
        folded = fold(tree, 12, passing=passing)
        assert folded.tree.n_data == 300
        assert folded.nodes.size + folded.n_folded == tree.n_nodes
        assert np.all(folded.tree.n_through[1:] >= 12)
        for node in folded.tree:
            above = folded.nodes[folded.tree.path(node)]
            assert set(above) <= set(tree.path(int(folded.nodes[node])))
        assert bool(folded.statement()) == (folded.n_folded > 0)
        if passing:
            children = np.bincount(folded.tree.parent[1:], minlength=folded.tree.n_nodes)
            lonely = (children == 1) & (folded.tree.n_here < 12)
            assert not lonely[1:].any()


def test_a_subtree_has_its_own_data_only() -> None:
    tree = pages.animal_tree(0)
    part = fold(tree, 0, root=1)
    assert part.nodes.tolist() == [1, 4, 5]
    assert part.tree.parent.tolist() == [-1, 0, 0]
    assert set(tree.assignments[part.data].tolist()) == {1, 4, 5}
    with pytest.raises(InvalidValue, match="root=7 is not a whole number from 0 to 6"):
        fold(tree, 0, root=7)


def test_five_hundred_nodes_become_a_page_that_says_what_was_folded() -> None:
    tree = pages.large().tree
    tree = fold(tree, int(np.sort(tree.n_through)[-500])).tree
    subject = describe_tree(tree, features=[f"word {k}" for k in range(60)])
    figure = card_figure(subject)
    n_cards = sum(isinstance(p, FancyBboxPatch) for p in figure.axes[0].patches)
    assert 5 <= n_cards <= 60
    said = " ".join(texts(figure)[-3:])
    assert "Folded into the nodes above: " in said
    assert f"{tree.n_nodes - n_cards:,} nodes" in said
    larger = card_figure(subject, page="a2")
    assert sum(isinstance(p, FancyBboxPatch) for p in larger.axes[0].patches) > n_cards


def test_what_is_asked_for_is_folded_even_if_there_is_room() -> None:
    subject = pages.animals()
    plan = plan_page(subject, choose_blocks(subject), 60, 0)
    assert plan.folded.nodes.tolist() == [0, 1, 2]
    assert largest_folds(subject, plan, 2) == [1, 2]
    views = figures(subject, min_data=60, n_subtrees=2)
    assert len(views) == 3
    assert texts(views[1])[-1] == "Beasts and stones, the subtree of node 1"


def test_top_images_are_the_most_probable_under_the_node() -> None:
    tree = Tree([-1, 0], [0, 1, 1, 1], node_params={
        "probability": np.array([[0.5, 0.5], [0.9, 0.1]]),
        "logit": np.array([[0.0, 0.0], [2.2, -2.2]]),
    })  # fmt: skip
    rows = np.array([[1, 1], [0, 1], [1, 0], [1, 1]])
    images = np.arange(4, dtype=np.uint8)[:, None, None] * np.full((4, 4), 60, np.uint8)
    subject = describe_tree(tree, rows=rows, images=images)
    scores = typicality(tree, rows)
    expected = np.log([[0.25], [0.1 * 0.1], [0.9 * 0.9], [0.9 * 0.1]]).ravel()
    assert scores == pytest.approx(expected, abs=0.02)
    figure = card_figure(subject, ["images:2"])
    mosaic = np.asarray(figure.axes[0].images[1].get_array())
    assert mosaic[0, 0, 0] == images[2, 0, 0]
    assert mosaic[0, 5, 0] == images[3, 0, 0]


def test_differences_to_the_parent() -> None:
    found = contrasts(pages.animal_tree(0), 3)
    assert found is not None
    assert found.feature[4, 0] == 0
    assert found.score[4, 0] > 0
    assert np.isnan(found.at_parent[0]).all()
    mean = Tree([-1, 0], [0, 1], node_params={"mean": np.array([[0.0, 0.0], [1.0, -30.0]])})
    rows = np.array([[0.0, 0.0], [0.1, 100.0]])
    found = contrasts(mean, 2, rows)
    assert found is not None
    assert found.feature[1].tolist() == [0, 1]  # twenty deviations against less than one
    assert (found.score[1] > 0).tolist() == [True, False]
    assert found.feature[0].tolist() == [0, 1]  # of the root: a deviation each from the mean
    assert found.score[0] == pytest.approx([-1.0, -1.0])
    assert found.place is not None
    assert found.parent_place is not None
    assert found.place[1] == pytest.approx([19.0, -1.6])
    assert found.parent_place[1] == pytest.approx([-1.0, -1.0])
    assert contrasts(Tree([-1], [0])) is None


def test_large_and_small_numbers_in_few_letters() -> None:
    numbers = (39_000.0, -1.5e-5, 0.25, -12.0, 0.0)
    assert [two_digits(number) for number in numbers] == ["3.9e4", "-1.5e-5", "0.25", "-12", "0"]


def test_blocks_by_name() -> None:
    subject = pages.animals()
    kinds = [type(block).__name__ for block in choose_blocks(subject)]
    assert kinds == ["Features", "Top", "Histogram"]
    top, histogram = choose_blocks(subject, ["authors:2", "year"])
    assert isinstance(top, Top)
    assert top.n == 2
    assert isinstance(histogram, Histogram)
    (group,) = choose_blocks(subject, ["group:20"])
    assert isinstance(group, Top)
    assert group.n == 7  # there are no more
    (images,) = choose_blocks(pages.with_images(50), None)
    assert isinstance(images, Images)
    for asked, message in [
        ("images", "there is words, features, group, year, authors"),
        ("months", "is not there to be shown"),
        ("words:x", "'x' is not a whole number above 0"),
    ]:
        with pytest.raises(InvalidValue, match=message):
            choose_blocks(subject, [asked])
    with pytest.raises(InvalidValue, match="page='a5' is not one of a4"):
        card_figure(subject, page="a5")


def test_signs_of_tex_and_long_names_are_text(tmp_path: Path) -> None:
    names = ["$x^2", "\\frac{", "a" * 10_000, *"bcdefgh"]
    subject = pages.animals(features=names, title="100 % of $5")
    figure = card_figure(subject, ["features:3"])
    save(figure, tmp_path / "a.svg")
    written = texts(figure)
    assert "$x^2" in written
    assert any(text.startswith("aaa") and text.endswith("…") for text in written)
    assert "100 % of $5" in written


def test_plot_shows_cards_if_there_is_something_to_show() -> None:
    tree = pages.animal_tree(0)
    ax = tree.plot(show=["features"], features=list(pages.WORDS), title="Words")
    assert sum(isinstance(patch, FancyBboxPatch) for patch in ax.patches) == 7
    plt.close("all")
    with pytest.raises(InvalidValue, match="cards have a figure of their own"):
        tree.plot(Figure().subplots(), show=["features"])


def test_plot_folds_circles_too() -> None:
    tree = pages.animal_tree(0)
    ax = Figure().subplots()
    tree.plot(ax, min_data=60, labels=True)
    assert np.shape(ax.collections[0].get_offsets()) == (3, 2)
    assert ax.get_title().startswith("Folded into the nodes above: 4 nodes with 136 data (57%)")
    ax = Figure().subplots()
    tree.plot(ax, root=1)
    assert np.shape(ax.collections[0].get_offsets()) == (3, 2)


def test_the_smallest_text_can_be_read() -> None:
    assert FONT >= 6


def test_several_figures_are_pages_of_a_pdf_or_files_with_numbers(tmp_path: Path) -> None:
    two = [card_figure(pages.animals(), ["words"], root=root) for root in (0, 1)]
    assert save_all(two, tmp_path / "a.pdf") == [tmp_path / "a.pdf"]
    assert (tmp_path / "a.pdf").read_bytes().count(b"/Type /Page ") == 2
    written = save_all(two, tmp_path / "b.svg")
    assert [path.name for path in written] == ["b.svg", "b-2.svg"]
    assert all(path.stat().st_size > 1_000 for path in written)


def test_a_corpus_brings_its_words_names_and_metadata() -> None:
    counts = sparse.csr_array(np.array([[3, 0], [0, 2], [1, 4]]))
    corpus = Corpus(counts, ["cat", "whale"], ["a", "b", "c"], {"year": [1987, 1988, 1999]})
    model = pages.FakeModel(2)
    model.tree_ = Tree([-1, 0], [0, 1, 1], node_params={"probability": np.full((2, 2), 0.5)})
    model.draws_ = pages.FakeDraws([model.tree_] * 2)
    subject = describe(model, corpus)
    assert subject.ids == ("a", "b", "c")
    assert subject.features == ("cat", "whale")
    assert subject.columns[0].name == "year"
    figure = card_figure(subject, ["words", "year"])
    assert "whale, cat" in texts(figure)


def test_mixtures_of_topics_are_told_in_words() -> None:
    model = pages.FakeModel(4)
    mixtures = {"topics": np.array([[0.5, 0.5], [0.9, 0.1]])}
    trees = [Tree([-1, 0], [0, 1, 1], node_params=mixtures) for _ in range(4)]
    topics = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    model.tree_, model.draws_ = trees[0], pages.FakeDraws(trees)
    model.feature_names_in_ = np.array(["cat", "sea", "whale"], dtype=object)
    model.components_ = topics  # type: ignore[attr-defined]
    swapped = SimpleNamespace(topics=topics[::-1])
    model.topic_draws_ = [swapped] * 4  # type: ignore[attr-defined]
    subject = describe(model, consensus=trees[2], support=[1.0, 0.5])
    assert subject.tree.node_params["probability"][1] == pytest.approx([0.73, 0.1, 0.17])
    assert [shown.name for shown in subject.trees[:2]] == ["best draw", "consensus"]
    (found,) = {shown.contrasts.feature[1, 0] for shown in subject.trees[1:] if shown.contrasts}
    assert subject.feature_name(found) == "whale"
    assert "cat" in texts(card_figure(subject, ["features:1"]))
