"""Drawings: nothing overlaps, nothing is lost, and files are whole or not there."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path as MatplotlibPath

from treestick import Tree, prior
from treestick.inputs import InvalidType, InvalidValue
from treestick.report import drawing, layout, prior_figures
from treestick.report.layout import RADIUS, SIDE_GAP, SQUARE
from treestick.report.saving import save

LONG = 100_000


def boxes(tree: Tree) -> npt.NDArray[np.float64]:
    """Return (left, right, top, bottom) of every node with its data."""
    plan = layout.lay_out(tree)
    found = np.stack([plan.x - RADIUS, plan.x + RADIUS, plan.y - RADIUS, plan.y + RADIUS], axis=1)
    corners = drawing._squares(plan)
    owner = np.repeat(np.arange(tree.n_nodes), plan.n_squares)
    np.minimum.at(found[:, 0], owner, corners[:, :, 0].min(axis=1))
    np.maximum.at(found[:, 1], owner, corners[:, :, 0].max(axis=1))
    np.maximum.at(found[:, 3], owner, corners[:, :, 1].max(axis=1))
    return found


def assert_apart(tree: Tree) -> None:
    found = boxes(tree)
    for depth in range(int(tree.depth.max()) + 1):
        level = found[tree.depth == depth]
        level = level[np.argsort(level[:, 0])]
        assert np.all(level[1:, 0] - level[:-1, 1] >= SIDE_GAP - 1e-6)
        deeper = found[tree.depth == depth + 1]
        if deeper.size:
            assert deeper[:, 2].min() > level[:, 3].max()


@given(
    st.integers(0, 2**32),
    st.integers(0, 300),
    st.sampled_from([(1.0, 0.5, 0.2), (5.0, 1.0, 1.0), (25.0, 0.5, 1.0), (3.0, 0.9, 20.0)]),
)
@settings(max_examples=60)
def test_nothing_overlaps(seed: int, n: int, setting: tuple[float, float, float]) -> None:
    tree = prior.draw_urn(n, *setting, seed)
    assert_apart(tree)
    plan = layout.lay_out(tree)
    for node in tree:
        children = tree.children(node)
        if children.size:
            middle = (plan.x[children[0]] + plan.x[children[-1]]) / 2
            assert plan.x[node] == pytest.approx(middle, abs=1e-6)
            assert np.all(np.diff(plan.x[children]) > 0)


def test_a_thousand_data_are_a_thousand_squares_apart() -> None:
    tree = prior.draw_urn(1_000, 25.0, 0.5, 1.0, 1)
    assert_apart(tree)
    plan = layout.lay_out(tree)
    assert plan.data_per_square == 1
    centres = drawing._squares(plan).mean(axis=1)
    assert len(centres) == 1_000
    gaps = np.abs(centres[:, None, :] - centres[None, :, :]).max(axis=2)
    np.fill_diagonal(gaps, np.inf)
    assert gaps.min() > SQUARE


def test_many_data_share_squares_and_the_drawing_says_so() -> None:
    tree = Tree([-1, 0, 0], [0] * 2_400 + [1] * 7)
    plan = layout.lay_out(tree)
    assert plan.data_per_square == 5
    assert plan.n_squares.tolist() == [480, 2, 0]
    notes = [text.get_text() for text in drawing.new_figure(tree).axes[0].texts]
    assert notes == ["one square: up to 5 data"]
    assert layout.data_per_square(Tree([-1], [0] * 1_000)) == 1
    assert layout.data_per_square(Tree([-1], [0] * 1_001)) == 2


@pytest.mark.parametrize(
    "parent",
    [np.arange(LONG) - 1, np.r_[-1, np.zeros(LONG, dtype=int)]],
    ids=["chain", "star"],
)
def test_long_and_wide_trees_have_a_layout(parent: npt.NDArray[np.int64]) -> None:
    tree = Tree(parent, [0])
    plan = layout.lay_out(tree)
    assert np.all(np.isfinite(plan.x))
    if tree.depth.max() == 1:
        assert np.all(np.diff(plan.x[1:]) > 0)
    else:
        assert np.ptp(plan.x) < 1e-9
        assert np.all(np.diff(plan.y) > 0)
    figure = drawing.new_figure(Tree(parent[:3_000], [0]))
    assert max(figure.get_size_inches()) <= drawing.LARGEST_SIDE + 1


def n_squares(ax: Axes) -> int:
    squares = ax.patches[1]
    assert isinstance(squares, PathPatch)
    return int(np.count_nonzero(squares.get_path().codes == MatplotlibPath.CLOSEPOLY))


def test_plot_draws_into_given_axes() -> None:
    ax = Figure().subplots()
    tree = prior.draw_urn(30, 5.0, 0.5, 1.0, 1)
    assert tree.plot(ax) is ax
    assert np.shape(ax.collections[0].get_offsets()) == (tree.n_nodes, 2)
    assert n_squares(ax) == 30


def corners(path: MatplotlibPath) -> npt.NDArray[np.float64]:
    is_corner = np.asarray(path.codes) != MatplotlibPath.CLOSEPOLY
    return np.compress(is_corner, np.asarray(path.vertices, dtype=np.float64), axis=0)


def test_labels_stay_inside_their_circles() -> None:
    tree = prior.draw_urn(60, 25.0, 0.5, 1.0, 1)
    ax = drawing.new_figure(tree, labels=True).axes[0]
    plan = layout.lay_out(tree)
    points = np.concatenate([corners(letters.get_path()) for letters in ax.patches[2:]])
    assert len(points) > tree.n_nodes
    centres = np.column_stack([plan.x, plan.y])
    distance = np.linalg.norm(points[:, None, :] - centres[None, :, :], axis=2).min(axis=1)
    assert distance.max() < RADIUS
    with pytest.raises(InvalidValue, match="2 labels for"):
        tree.plot(Figure().subplots(), labels=["a", "b"])
    tree.plot(Figure().subplots(), labels=[""] * tree.n_nodes)
    with pytest.raises(InvalidType, match="not str"):
        drawing.plot("tree")  # type: ignore[arg-type]


def test_figure_2_has_the_eight_settings_of_the_paper() -> None:
    figure = prior_figures.figure_2()
    assert len(figure.axes) == 8
    assert [n_squares(ax) for ax in figure.axes] == [50] * 8
    titles = [text.get_text() for text in figure.texts]
    assert titles[0] == r"(a)  $\alpha_0=1$, $\lambda=0.5$, $\gamma=0.2$"
    assert titles[7] == r"(h)  $\alpha_0=25$, $\lambda=0.5$, $\gamma=1$"
    boxes = [ax.get_position() for ax in figure.axes]
    for k, a in enumerate(boxes):
        assert a.x0 >= 0
        assert a.x1 <= 1
        assert a.y0 >= 0
        assert a.y1 <= 1
        for b in boxes[:k]:
            assert a.x0 >= b.x1 or b.x0 >= a.x1 or a.y0 >= b.y1 or b.y0 >= a.y1


@pytest.mark.parametrize(
    "setting", [(1.5, 0.6, 1.0, 16258), (1.5, 0.6, 1.0, 2), (9.0, 0.5, 5.0, 1)]
)
def test_figure_1_draws_the_sticks_it_drew(setting: tuple[float, float, float, int]) -> None:
    tree = prior.draw_sticks(0, *setting, min_mass=1e-6, max_depth=2)
    upper, lower = prior_figures.figure_1(*setting).axes
    bars = [bar for bar in upper.patches if isinstance(bar, Rectangle)]
    first = tree.children(0)[:3]
    assert tree.node_params["ordinal"][first].tolist() == [0, 1, 2]
    start = 0.0
    for row, stick in enumerate(tree.node_params["psi"][first]):
        (kept,) = (bar for bar in bars if bar.get_y() == row and bar.get_x() == start)
        assert kept.get_width() == pytest.approx((1 - start) * stick)
        start += kept.get_width()
    root = lower.patches[0]
    assert isinstance(root, Rectangle)
    assert root.get_width() == pytest.approx(tree.mass[0])


def test_figure_1_tells_the_twelfth_child_from_the_second_of_the_first() -> None:
    few = Tree([-1, 0, 1], node_params={"ordinal": [0, 0, 1]})
    many = Tree([-1, 0, 1, 0], node_params={"ordinal": [0, 0, 1, 11]})
    assert prior_figures._names(few)[1:] == ["1", "12"]
    assert prior_figures._names(many)[1:] == ["1", "1,2", "12"]


# -- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "start"),
    [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF"), ("PNG", b"\x89PNG")],
)
def test_the_same_figure_gives_the_same_bytes(tmp_path: Path, ending: str, start: bytes) -> None:
    tree = prior.draw_urn(50, 5.0, 0.5, 0.2, 1001)
    first, second = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
    save(drawing.new_figure(tree), first)
    save(drawing.new_figure(tree), second)
    assert first.read_bytes().startswith(start)
    assert first.read_bytes() == second.read_bytes()
    assert sorted(tmp_path.iterdir()) == [first, second]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tree.gif", "must end in .svg, .png or .pdf"),
        ("tree", "must end in"),
        ("nowhere/tree.svg", "there is no folder"),
        ("folder.svg", "is a folder"),
    ],
)
def test_bad_names(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(InvalidValue, match=message):
        save(Figure(), tmp_path / name)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "real.svg", tmp_path / "link.svg"
    link.symlink_to(target)
    save(drawing.new_figure(Tree([-1])), link)
    assert link.is_symlink()
    assert target.read_bytes().startswith(b"<?xml")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    class Broken(Figure):
        def savefig(self, *arguments: object, **options: object) -> None:
            Path(str(arguments[0])).write_text("half")
            raise OSError(28, "No space left on device")

    path = tmp_path / "tree.svg"
    path.write_text("old")
    with pytest.raises(InvalidValue, match=r"tree\.svg' cannot be written: No space left"):
        save(Broken(), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
