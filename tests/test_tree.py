"""The public Tree: read-only, checked, and exported without recursion."""

import io
import itertools
import json
import pickle
import re
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treestick import Tree, prior
from treestick.inputs import InvalidType, InvalidValue

LONG = 100_000


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    n_nodes = draw(st.integers(1, 30))
    parent = [-1] + [draw(st.integers(0, k - 1)) for k in range(1, n_nodes)]
    assignments = draw(st.lists(st.integers(0, n_nodes - 1), max_size=20))
    number = st.floats(allow_nan=True, allow_infinity=True)
    share = st.floats(0, 1) | st.just(np.nan)
    mass = draw(st.none() | st.lists(share, min_size=n_nodes, max_size=n_nodes))
    values = draw(st.lists(st.floats(width=32), min_size=2 * n_nodes, max_size=2 * n_nodes))
    params: dict[str, Any] = {
        "theta": np.array(values, dtype=np.float32).reshape(n_nodes, 2)
        if draw(st.booleans())
        else np.arange(n_nodes, dtype=np.int16),
        "flag": np.arange(n_nodes) % 2 == 0,
    }
    return Tree(parent, np.array(assignments, dtype=np.int64), mass, params, draw(number))


@pytest.fixture
def small() -> Tree:
    params = {"theta": np.arange(8.0).reshape(4, 2), "scale": np.arange(4)}
    return Tree([-1, 0, 0, 1], [0, 3, 3, 2, 1], [0.4, 0.2, 0.1, 0.2], params, -12.5)


def chain() -> Tree:
    return Tree(np.arange(LONG) - 1, [0, LONG - 1])


def star() -> Tree:
    return Tree(np.r_[-1, np.zeros(LONG, dtype=int)], [0, LONG, LONG])


def test_columns(small: Tree) -> None:
    assert small.depth.tolist() == [0, 1, 1, 2]
    assert small.n_here.tolist() == [1, 1, 1, 2]
    assert small.n_below.tolist() == [4, 2, 0, 0]
    assert small.n_through.tolist() == [5, 3, 1, 2]
    assert small.children(0).tolist() == [1, 2]
    assert small.children(3).tolist() == []
    assert small.path(3).tolist() == [0, 1, 3]
    assert small.data_at(3).tolist() == [1, 2]
    assert (len(small), small.n_nodes, small.n_data, list(small)) == (4, 4, 5, [0, 1, 2, 3])
    assert small.log_likelihood == -12.5


@given(trees())
@settings(max_examples=150)
def test_counts_children_and_paths_fit_together(tree: Tree) -> None:
    assert tree.n_here.sum() == tree.n_data == tree.n_through[0]
    listed = [child for node in tree for child in tree.children(node).tolist()]
    assert sorted(listed) == list(range(1, tree.n_nodes))
    for node in tree:
        below = [k for k in tree if k != node and node in tree.path(k)]
        assert tree.n_below[node] == tree.n_here[below].sum()
        path = tree.path(node).tolist()
        assert len(path) == tree.depth[node] + 1
        assert path[0] == 0
        assert path[-1] == node
        assert all(tree.parent[b] == a for a, b in itertools.pairwise(path))
        assert tree.data_at(node).size == tree.n_here[node]


def test_nothing_can_be_written(small: Tree) -> None:
    columns = [
        getattr(small, n) for n in ("parent", "depth", "n_here", "n_below", "mass", "assignments")
    ]
    for column in [*columns, small.node_params["theta"], small.children(0)]:
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1
    with pytest.raises(AttributeError, match="'mass' cannot be set"):
        small.mass = np.zeros(4)
    with pytest.raises(AttributeError, match="'mass' cannot be deleted"):
        del small.mass
    with pytest.raises(TypeError):
        small.node_params["theta"] = np.zeros(4)  # type: ignore[index]


def test_the_callers_arrays_stay_theirs() -> None:
    parent, mass, theta = np.array([-1, 0]), np.array([0.5, 0.4]), np.array([1.0, 2.0])
    tree = Tree(parent, [1], mass, {"theta": theta})
    parent[1] = mass[0] = theta[0] = 7
    assert (tree.parent[1], tree.mass[0], tree.node_params["theta"][0]) == (0, 0.5, 1.0)


def test_assignments_take_the_smallest_type() -> None:
    assert Tree([-1, 0], [0, 1]).assignments.dtype == np.int8
    assert Tree(np.r_[-1, np.zeros(200, dtype=int)], [200]).assignments.dtype == np.int16
    assert star().assignments.dtype == np.int32


# -- exports -------------------------------------------------------------------------------------


@given(trees())
@settings(max_examples=150)
def test_dict_json_and_pickle_give_the_tree_back(tree: Tree) -> None:
    written = json.dumps(tree.to_dict(), allow_nan=False)
    for copy in (Tree.from_dict(json.loads(written)), pickle.loads(pickle.dumps(tree))):
        assert copy == tree
        for name, values in tree.node_params.items():
            assert copy.node_params[name].dtype == values.dtype
            assert copy.node_params[name].shape == values.shape


def test_equality_sees_every_column(small: Tree) -> None:
    def changed(**change: Any) -> Tree:
        arguments = {
            "parent": small.parent,
            "assignments": small.assignments,
            "mass": small.mass,
            "node_params": small.node_params,
            "log_likelihood": small.log_likelihood,
        }
        return Tree(**{**arguments, **change})

    assert changed() == small
    assert changed(parent=[-1, 0, 0, 2]) != small
    assert changed(assignments=[0, 3, 3, 2, 2]) != small
    assert changed(mass=[0.4, 0.2, 0.1, 0.1]) != small
    assert changed(node_params={}) != small
    assert changed(node_params={**small.node_params, "scale": np.ones(4)}) != small
    assert changed(log_likelihood=0.0) != small
    assert small != "tree"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "format is None"),
        ({"format": "other"}, "format is 'other'"),
        ([1], "format is 'list'"),
        ({"format": "treestick.tree/1"}, "missing"),
        ({**Tree([-1]).to_dict(), "node_params": []}, "AttributeError"),
        ({**Tree([-1]).to_dict(), "node_params": {"t": {}}}, "KeyError 'values'"),
        ({**Tree([-1]).to_dict(), "log_likelihood": "x"}, "ValueError"),
        ({**Tree([-1]).to_dict(), "parent": [0]}, "row 0 must be the root"),
    ],
)
def test_from_dict_refuses_what_is_no_tree(content: Any, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        Tree.from_dict(content)


def test_networkx(small: Tree) -> None:
    graph = small.to_networkx()
    assert sorted(graph.edges) == [(0, 1), (0, 2), (1, 3)]
    assert graph.nodes[3]["n_here"] == 2
    assert graph.nodes[3]["theta"] == [6.0, 7.0]
    assert graph.nodes[1]["mass"] == 0.2
    for node in small:
        json.dumps(graph.nodes[node])


def test_pandas(small: Tree) -> None:
    frame = small.to_pandas()
    columns = ["parent", "depth", "n_here", "n_below", "mass", "theta[0]", "theta[1]", "scale"]
    assert frame.columns.tolist() == columns
    assert frame.index.name == "node"
    assert frame.to_numpy()[3].tolist() == [1, 2, 2, 0, 0.2, 6.0, 7.0, 3]


def parse_newick(text: str) -> dict[str, str | None]:
    """Return the parent label of each label; a reader of its own, for trees with unique labels."""
    tokens = re.findall(r"'(?:[^']|'')*'|[(),;]|[^(),;']+", text)
    parents: dict[str, str | None] = {}
    open_groups: list[list[str]] = [[]]
    for k, token in enumerate(tokens):
        if token == "(":
            open_groups.append([])
        elif token not in "),;":
            label = token[1:-1].replace("''", "'") if token.startswith("'") else token
            if tokens[k - 1] == ")":
                for child in open_groups.pop():
                    parents[child] = label
            open_groups[-1].append(label)
    (root,) = open_groups[0]
    return {**parents, root: None}


@given(trees())
@settings(max_examples=100)
def test_newick_is_the_tree(tree: Tree) -> None:
    parents = parse_newick(tree.to_newick())
    expected = {str(k): None if k == 0 else str(tree.parent[k]) for k in tree}
    assert parents == expected
    names = [f"x (it's {k})" for k in tree]
    data = [f"row {n}" for n in range(tree.n_data)]
    parents = parse_newick(tree.to_newick(names, data))
    assert parents == {
        **{names[k]: None if k == 0 else names[tree.parent[k]] for k in tree},
        **{data[n]: names[node] for n, node in enumerate(tree.assignments)},
    }


def test_newick_text(small: Tree) -> None:
    assert small.to_newick() == "((3)1,2)0;"
    assert small.to_newick(list("abcd")) == "((d)b,c)a;"
    assert small.to_newick(np.arange(4) + 10).startswith("((13)11,12)10")  # type: ignore[arg-type]
    with_data = small.to_newick(list("abcd"), ["cat", "dog's", "x y", "a_b", "5"])
    assert with_data == "(cat,(5,('dog''s','x y')d)b,('a_b')c)a;"


def test_newick_labels_must_fit(small: Tree) -> None:
    with pytest.raises(InvalidValue, match="3 node_labels for 4 nodes"):
        small.to_newick(["a", "b", "c"])
    with pytest.raises(InvalidValue, match="1 data_labels for 5 data"):
        small.to_newick(data_labels=["a"])


@pytest.mark.parametrize("make", [chain, star])
def test_long_and_wide_trees_go_everywhere(make: Any) -> None:
    tree = make()
    assert tree.path(tree.n_nodes - 1).size == tree.depth.max() + 1
    assert tree.to_newick().count("(") == np.count_nonzero(np.bincount(tree.parent[1:]))
    assert len(tree.to_pandas()) == tree.n_nodes
    assert tree.to_networkx().number_of_edges() == tree.n_nodes - 1
    assert Tree.from_dict(json.loads(json.dumps(tree.to_dict()))) == tree
    assert pickle.loads(pickle.dumps(tree)) == tree
    assert len(repr(tree).splitlines()) < 45
    assert np.isfinite(prior.log_probability(tree, 1.0, 0.5, 1.0))


# -- text ----------------------------------------------------------------------------------------


def test_text_shows_what_is_left_out() -> None:
    tree = Tree([-1, 0, 0, 1, 0, 4], [0, 3, 3, 3, 2, 1, 1, 5])
    assert tree.to_text(max_nodes=3) == (
        "0  1 here, 7 below\n├─ 1  2 here, 3 below\n│  └─ 3  3 here\n└─ … 3 more nodes, 2 data"
    )
    assert "mass 0.25" in repr(Tree([-1, 0], mass=[0.5, 0.25]))
    assert repr(Tree([-1])) == "Tree: 1 node, 0 data, depth 0\n0  empty"
    with pytest.raises(InvalidValue, match="max_nodes=0"):
        tree.to_text(max_nodes=0)


@given(trees(), st.integers(1, 40))
@settings(max_examples=100)
def test_text_counts_every_node_once(tree: Tree, max_nodes: int) -> None:
    lines = tree.to_text(max_nodes).splitlines()
    hidden = [int(m[1]) for line in lines if (m := re.search(r"… (\d+) more node", line))]
    shown = len(lines) - len(hidden)
    assert shown == min(max_nodes, tree.n_nodes)
    assert shown + sum(hidden) == tree.n_nodes


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"parent": []}, InvalidValue, "row 0 must be the root"),
        ({"parent": [0]}, InvalidValue, "row 0 must be the root"),
        ({"parent": [-1, 1]}, InvalidValue, "row 1 has parent 1"),
        ({"parent": [-1, 0, -1]}, InvalidValue, "row 2 has parent -1"),
        ({"parent": [-1.0, 0.0]}, InvalidType, "whole numbers, not float64"),
        ({"parent": [[-1]]}, InvalidValue, "one dimension"),
        ({"parent": [-1], "assignments": [0, 1]}, InvalidValue, "datum 1 is at node 1"),
        ({"parent": [-1], "assignments": [-1]}, InvalidValue, "datum 0 is at node -1"),
        ({"parent": [-1], "mass": [0.1, 0.2]}, InvalidValue, r"mass has shape \(2,\)"),
        ({"parent": [-1, 0], "mass": [0.1, 1.2]}, InvalidValue, "node 1 has 1.2"),
        ({"parent": [-1, 0], "mass": [-0.1, 0.2]}, InvalidValue, "node 0 has -0.1"),
        ({"parent": [-1], "node_params": {"t": [1, 2]}}, InvalidValue, r"node_params\['t'\]"),
        ({"parent": [-1], "node_params": {"mass": [1]}}, InvalidValue, "'mass' is the name of"),
        ({"parent": [-1], "node_params": {"t": 1.0}}, InvalidValue, r"node_params\['t'\]"),
    ],
)
def test_bad_columns(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        Tree(**arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("node", [-1, 4])
def test_a_node_that_is_not_there(small: Tree, node: int) -> None:
    for ask in (small.children, small.path, small.data_at):
        with pytest.raises(InvalidValue, match=f"node={node} is not a whole number from 0 to 3"):
            ask(node)


def test_objects_cannot_be_written_as_numbers() -> None:
    tree = Tree([-1], node_params={"name": np.array(["a"])})
    with pytest.raises(InvalidType, match="cannot be written as plain numbers"):
        tree.to_dict()


def test_html_is_the_explorer_in_a_frame_of_its_own(small: Tree) -> None:
    html = small._repr_html_()
    assert html.startswith('<iframe title="Tree: 4 nodes, 5 data, depth 2" sandbox="allow-scripts"')
    assert "<script" not in html  # but escaped, inside the frame
    large = Tree(np.r_[-1, np.zeros(20_000, dtype=int)], [0])
    assert "<pre>" in large._repr_html_()
    assert "more nodes" in large._repr_html_()


def test_a_drawing_can_be_saved_as_matplotlib_does(small: Tree) -> None:
    file = io.BytesIO()
    figure = small.plot().get_figure(root=True)
    assert figure is plt.gcf()  # so that notebooks show it
    figure.savefig(file, format="png")
    plt.close(figure)
    assert file.getvalue().startswith(b"\x89PNG")
