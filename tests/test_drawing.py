"""Drawings: nothing overlaps, nothing is lost, and files are whole or not there."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path as MatplotlibPath

from treestick import Tree, prior
from treestick.inputs import InvalidValue
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
@settings(max_examples=60, deadline=None, derandomize=True)
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
    notes = [text.get_text() for text in tree.plot().texts]
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
    assert np.all(np.diff(plan.x[tree.depth == tree.depth.max()]) > 0)
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


def test_figure_1_draws_the_sticks_it_drew() -> None:
    tree = prior.draw_sticks(0, 1.5, 0.6, 1.0, 16258, min_mass=0.01, max_depth=2)
    upper, lower = prior_figures.figure_1(1.5, 0.6, 1.0, 16258).axes
    kept, rest = upper.patches[:2]
    assert kept.get_width() == pytest.approx(tree.node_params["psi"][1])  # type: ignore[attr-defined]
    assert kept.get_width() + rest.get_width() == pytest.approx(1.0)  # type: ignore[attr-defined]
    root = lower.patches[0]
    assert root.get_width() == pytest.approx(tree.mass[0])  # type: ignore[attr-defined]
    assert {text.get_text() for text in lower.texts} >= {r"$\nu$", r"$\psi$", r"$\varphi_{1}$"}


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
        ("tree.gif", "must end in .svg, .png, .pdf"),
        ("tree", "must end in"),
        ("nowhere/tree.svg", "there is no folder"),
        ("folder.svg", "is a folder"),
    ],
)
def test_bad_names(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(InvalidValue, match=message):
        save(Figure(), tmp_path / name)


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
