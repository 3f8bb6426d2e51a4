"""The node table against the naive oracle, over random sequences of operations."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from naive import Path, find, n_below, new_node, prune, walk
from treestick.tree import table as tables
from treestick.tree.table import NULL, NodeTable

LONG = 100_000


class TableAgainstOracle(RuleBasedStateMachine):
    """The table and the nested dictionaries go through the same operations."""

    def __init__(self) -> None:
        super().__init__()
        self.table = tables.make_table(1)
        self.oracle = new_node()
        self.paths: list[Path] = [()]

    def pick(self, number: int) -> int:
        return number % len(self.paths)

    @rule(number=st.integers(0, 999), ordinal=st.integers(0, 12))
    def add_child(self, number: int, ordinal: int) -> None:
        parent = self.pick(number)
        children = find(self.oracle, self.paths[parent])["children"]
        if ordinal in children:
            with pytest.raises(ValueError, match="ordinal already"):
                tables.add_child(self.table, parent, ordinal)
            return
        self.table, node = tables.add_child(self.table, parent, ordinal)
        children[ordinal] = new_node()
        self.paths.append((*self.paths[parent], ordinal))
        assert node == len(self.paths) - 1

    @rule(number=st.integers(0, 999))
    def append_child(self, number: int) -> None:
        parent = self.pick(number)
        children = find(self.oracle, self.paths[parent])["children"]
        ordinal = max(children, default=-1) + 1
        assert tables.next_ordinal(self.table, parent) == ordinal
        self.table, _ = tables.add_child(self.table, parent, ordinal)
        children[ordinal] = new_node()
        self.paths.append((*self.paths[parent], ordinal))

    @rule(number=st.integers(0, 999), change=st.integers(-2, 3))
    def add_data(self, number: int, change: int) -> None:
        row = self.pick(number)
        node = find(self.oracle, self.paths[row])
        if node["n_here"] + change < 0:
            with pytest.raises(ValueError, match="fewer data"):
                tables.add_data(self.table, row, change)
            return
        tables.add_data(self.table, row, change)
        node["n_here"] += change

    @rule()
    def recount(self) -> None:
        rows = [k for k, path in enumerate(self.paths) for _ in range(self.count(path))]
        self.table.n_here[: len(self.paths)] = 77
        tables.count_data(self.table, np.array(rows[::-1], dtype=np.int64))

    def count(self, path: Path) -> int:
        return int(find(self.oracle, path)["n_here"])

    @rule(room=st.integers(0, 40))
    def grow(self, room: int) -> None:
        self.table = tables.grow(self.table, room)
        assert self.table.parent.size == max(room, len(self.paths))

    @rule()
    def prune(self) -> None:
        self.table, new_row = tables.prune_to_hull(self.table)
        prune(self.oracle)
        left = {path for path, _ in walk(self.oracle)}
        kept = [path in left for path in self.paths]
        assert (new_row != NULL).tolist() == kept
        self.paths = [path for path, is_kept in zip(self.paths, kept, strict=True) if is_kept]
        assert new_row[new_row != NULL].tolist() == list(range(len(self.paths)))

    @rule()
    def sort(self) -> None:
        order = tables.depth_first_order(self.table)
        self.paths = [self.paths[k] for k in order]
        assert self.paths == [path for path, _ in walk(self.oracle)]
        self.table, new_row = tables.take(self.table, order)
        assert new_row[order].tolist() == list(range(order.size))

    @rule()
    def sort_by_level(self) -> None:
        order = tables.breadth_first_order(self.table)
        self.paths = [self.paths[k] for k in order]
        assert self.paths == sorted(self.paths, key=lambda path: (len(path), path))
        self.table, _ = tables.take(self.table, order)

    @rule(a=st.integers(0, 999), b=st.integers(0, 999))
    def compare(self, a: int, b: int) -> None:
        a, b = self.pick(a), self.pick(b)
        # Tuples are in the order of a dictionary: a prefix first, then number by number.
        assert tables.precedes(self.table, a, b) == (self.paths[a] < self.paths[b])

    @invariant()
    def agree(self) -> None:
        tables.check(self.table)
        assert self.table.size[0] == len(self.paths)
        for row, path in enumerate(self.paths):
            node = find(self.oracle, path)
            assert self.table.depth[row] == len(path)
            assert self.table.n_here[row] == node["n_here"]
            assert self.table.n_below[row] == n_below(node)
            if row > 0:
                assert self.paths[self.table.parent[row]] == path[:-1]
                assert self.table.ordinal[row] == path[-1]


TestTableAgainstOracle = TableAgainstOracle.TestCase
TestTableAgainstOracle.settings = settings(max_examples=60, stateful_step_count=40)


def chain(length: int) -> NodeTable:
    table, node = tables.make_table(1), 0
    for _ in range(length):
        table, node = tables.add_child(table, node, 0)
    return table


def star(n_children: int) -> NodeTable:
    table = tables.make_table(1)
    for ordinal in range(n_children):
        table, _ = tables.add_child(table, 0, ordinal)
    return table


def test_a_long_chain() -> None:
    table = chain(LONG)
    assert table.depth[LONG] == LONG
    assert tables.precedes(table, 0, LONG)
    assert not tables.precedes(table, LONG, LONG - 1)
    tables.add_data(table, LONG // 2, 3)
    tables.check(table)
    assert tables.depth_first_order(table).tolist() == list(range(LONG + 1))
    assert tables.breadth_first_order(table).tolist() == list(range(LONG + 1))
    pruned, _ = tables.prune_to_hull(table)
    tables.check(pruned)
    assert pruned.size[0] == LONG // 2 + 1


def test_a_node_with_many_children() -> None:
    table = star(LONG)
    # Order by number, not by text: "999" comes after "1000" as text.
    assert tables.precedes(table, 1 + 999, 1 + 1000)
    assert tables.precedes(table, 1 + 9_999, 1 + 10_000)
    assert not tables.precedes(table, LONG, 1)
    for node in range(1, LONG + 1, 2):
        tables.add_data(table, node, 1)
    tables.check(table)
    backwards = np.concatenate([[0], np.arange(LONG, 0, -1)])
    reordered, _ = tables.take(table, backwards)
    tables.check(reordered)
    assert tables.depth_first_order(reordered).tolist() == backwards.tolist()
    pruned, _ = tables.prune_to_hull(reordered)
    tables.check(pruned)
    assert pruned.size[0] == LONG // 2 + 1


@pytest.mark.parametrize(
    ("column", "row", "value", "rule"),
    [
        ("parent", 0, 1, "the root has no parent"),
        ("parent", 2, 3, "parents come before children"),
        ("parent", 2, -1, "parents come before children"),
        ("depth", 2, 5, "one deeper"),
        ("depth", 0, 1, "depth and ordinal 0"),
        ("ordinal", 1, 9, "ordinals grow"),
        ("ordinal", 3, -1, "ordinals are 0 or more"),
        ("next_sibling", 0, 1, "the root has no sibling"),
        ("next_sibling", 1, NULL, "last_child ends the list"),
        ("next_sibling", 2, 1, "listed once"),
        ("first_child", 0, 2, "in the list of its parent"),
        ("first_child", 0, 3, "know their parent"),
        ("last_child", 1, NULL, "last_child ends the list"),
        ("n_here", 3, -1, "counts are 0 or more"),
        ("n_here", 3, 5, "n_below sums"),
        ("n_below", 0, 7, "n_below sums"),
        ("nu", 1, 1.5, "sticks are shares"),
        ("psi", 2, -0.1, "sticks are shares"),
        ("size", 0, 9, "no more rows"),
        ("psi", 0, 0.3, "all mass enters the root"),
        ("n_here", 5, 1, "room is blank"),
        ("first_child", 4, 0, "room is blank"),
        ("nu", 7, 0.5, "room is blank"),
    ],
)
def test_check_finds_every_broken_rule(column: str, row: int, value: float, rule: str) -> None:
    table = tables.make_table(8)
    for parent, ordinal in ((0, 0), (0, 1), (1, 0)):
        table, _ = tables.add_child(table, parent, ordinal)
    tables.add_data(table, 3, 1)
    tables.check(table)
    getattr(table, column)[row] = value
    with pytest.raises(AssertionError, match=rule):
        tables.check(table)


@pytest.mark.parametrize("rows", [[1, 0], [0, 3], [0, 1, 1], []])
def test_take_refuses_rows_that_are_no_tree(rows: list[int]) -> None:
    table = tables.make_table(8)
    for parent, ordinal in ((0, 0), (0, 1), (1, 0)):
        table, _ = tables.add_child(table, parent, ordinal)
    with pytest.raises(ValueError, match="rows must"):
        tables.take(table, np.array(rows, dtype=np.int64))


@pytest.mark.parametrize("parent", [-1, 1])
def test_a_child_needs_a_parent_in_the_table(parent: int) -> None:
    with pytest.raises(IndexError, match="parent"):
        tables.add_child(tables.make_table(4), parent, 0)
