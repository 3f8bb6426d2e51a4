"""Data in shards: a chain has the same bits as with all data in one place.

In CI this runs uncompiled, on few data: what moves ask of shards would take minutes to compile. The
long tier compiles it, for all models.
"""

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from treestick import (
    BernoulliTree,
    GaussianTree,
    HDPTree,
    MultinomialTree,
    TopicTree,
    chain,
    contract,
)
from treestick.families.multinomial import Counts
from treestick.models.gaussian import Reals
from treestick.moves import topics_elsewhere
from treestick.moves.rows import join_rows, take_rows
from treestick.moves.shards import Op, Placed, Shard, add_neighbours, cut_rows
from treestick.moves.state import Sticks
from treestick.moves.structure.records import unchanged
from treestick.moves.structure.trials import typed
from treestick.moves.tasks import (
    add_up,
    block_size,
    join_in_pairs,
    join_subtrees,
    make_tasks,
    nothing_waits,
    push,
    sum_range,
    sum_rows,
    sum_terms,
)
from treestick.moves.topics import TopicMoves
from treestick.random import make_key
from treestick.start import check_start, first_state, first_state_elsewhere
from treestick.tokens import gibbs, latent
from treestick.tokens.documents import make_documents
from treestick.whereabouts import Elsewhere

KINDS = [
    "bernoulli", "gaussian", "multinomial", "hdp", "hdp of counts", "topics", "topics summed out"
]  # fmt: skip
STICKS = Sticks(2.0, 1.0, 5.0, 0.5, 0.2, 0.8, 1.0, 0.5, 5.0)


def simulate(kind: str, n_data: int) -> tuple[Any, Any]:
    """Return a model and data in three groups."""
    rng = np.random.default_rng(1)
    group = rng.integers(3, size=n_data)
    estimator: Any
    if kind in ("gaussian", "hdp"):
        estimator = GaussianTree() if kind == "gaussian" else HDPTree()
        x = rng.normal(size=(n_data, 3)) + 4.0 * group[:, None]
    elif kind == "bernoulli":
        estimator = BernoulliTree()
        x = (rng.random((n_data, 16)) < rng.random((3, 16))[group]).astype(int)
    elif kind.startswith("topics"):
        estimator = TopicTree(3)
        x = rng.poisson(rng.random((3, 12))[group] ** 4)
    else:
        is_hdp = kind == "hdp of counts"
        estimator = HDPTree(component="multinomial") if is_hdp else MultinomialTree()
        x = rng.poisson(2.0 * rng.random((3, 6))[group])
    values = estimator._read(x)
    model, units = estimator._make_model(estimator._summarize(values))
    return model, estimator._encode(units, values)[0]


def in_shards(data: Any, labels: Any, n_groups: int) -> Elsewhere:
    """Return the data cut into shards, in groups that are worked on one after the other."""
    shards = [
        Shard(
            start,
            partial(take_rows, data, np.arange(start, stop)),
            labels[start:stop].copy(),
            {},
            {},
        )
        for start, stop in cut_rows(labels.size, n_groups)
    ]
    assert len(shards) >= n_groups
    edges = np.linspace(0, len(shards), n_groups + 1).astype(int)

    def each(ops: list[Op]) -> list[Any]:
        answers: list[Any] = []
        for op in ops:
            answers = []
            for start, stop in itertools.pairwise(edges):
                own = () if op.own is None else (op.own[start:stop],)
                group = shards[start:stop]
                answers += op.function(group, labels.size, *op.arguments, *own)
        return answers

    def along(ops: list[Op], handed: Any) -> Any:
        for start, stop in itertools.pairwise(edges):
            group = shards[start:stop]
            for op in ops[:-1]:
                own = () if op.own is None else (op.own[start:stop],)
                op.function(group, labels.size, *op.arguments, *own)
            last = ops[-1]
            before = [handed] * len(group)
            handed = last.function(group, labels.size, *last.arguments, before)[-1]
        return handed

    return Elsewhere(labels.size, each, along, getattr(data, "base", None))


def numbers_of(group: Any, n_data: int) -> list[Any]:
    return [shard.latent["numbers"] for shard in group]


def check_equal(
    kind: str,
    schedule: str,
    n_groups: int,
    n_data: int,
    n_sweeps: int,
    put: Callable[[Any, Any, int], Elsewhere] = in_shards,
) -> dict[str, int]:
    """Compare a chain over shards with one in one place; return what structural moves did."""
    model, data = simulate(kind, n_data)
    key, start = make_key(3, 0), check_start("root", n_data)
    where = put(data, start.assignments, n_groups)
    topics = there_too = moves = None
    if kind.startswith("topics"):
        beta, n_lda = (0.1, 0.01, 1.0), 0 if n_groups == 2 else 4
        topics = latent.first_topics(3, 0, data, 3, beta, n_lda, gibbs.INSTANTIATED, False)
        there_too = topics_elsewhere.first_topics(3, 0, where, 3, beta, n_lda)
        moves = TopicMoves(gibbs.INSTANTIATED, kind == "topics summed out", 1)
    state = first_state(key, model, STICKS, data, start, topics)
    nowhere = first_state_elsewhere(key, model, STICKS, where, there_too)
    how = (n_sweeps // 2, map, schedule, 0, moves, 1)
    here = chain.run_chain(3, 0, state, data, *how)
    there = chain.run_chain(3, 0, nowhere, where, *how)
    accepted: dict[str, int] = {}
    for one, other in itertools.islice(zip(here, there, strict=True), n_sweeps):
        assert one.info == other.info
        assert one.scores == other.scores
        assert one.state.theta.tobytes() == other.state.theta.tobytes()
        assert one.state.statistics.tobytes() == other.state.statistics.tobytes()
        np.testing.assert_array_equal(where.gather(), one.state.assignments)
        if kind.startswith("hdp"):
            assert one.state.latent.atoms.tobytes() == other.state.latent.atoms.tobytes()
            atom = np.concatenate(where.ask(numbers_of))
            np.testing.assert_array_equal(atom, one.state.latent.atom)
        if topics is not None:
            mine, theirs = one.state.latent, other.state.latent
            assert mine.beta == theirs.beta
            np.testing.assert_array_equal(mine.counts.of_words, theirs.counts.of_words)
            of_documents = np.concatenate(where.ask(numbers_of))
            np.testing.assert_array_equal(of_documents, mine.counts.of_documents)
        for name, counts in one.info.structure.items():
            accepted[name] = accepted.get(name, 0) + sum(counts[1:])
    return accepted


UNCOMPILED = """
import sys
sys.path.insert(0, {tests!r})
from test_shards import check_equal
accepted = check_equal({kind!r}, {schedule!r}, {n_groups}, 60, {n_sweeps})
print(sum(accepted.values()))
"""


@pytest.mark.parametrize(
    ("kind", "schedule", "n_groups", "n_sweeps"),
    [
        ("gaussian", "default", 3, 16),
        ("gaussian", "paper", 17, 5),
        ("hdp", "default", 17, 16),
        ("hdp of counts", "paper", 3, 5),
        ("topics", "default", 3, 16),
        ("topics summed out", "default", 17, 8),
    ],
)
def test_shards_change_no_bit(kind: str, schedule: str, n_groups: int, n_sweeps: int) -> None:
    script = UNCOMPILED.format(
        tests=os.path.dirname(__file__), kind=kind, schedule=schedule, n_groups=n_groups,
        n_sweeps=n_sweeps,
    )  # fmt: skip
    finished = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert schedule == "paper" or int(finished.stdout) >= 10


@pytest.mark.long
@pytest.mark.parametrize("schedule", chain.SCHEDULES)
@pytest.mark.parametrize("n_groups", [2, 17])
@pytest.mark.parametrize("kind", KINDS)
def test_shards_change_no_bit_of_any_model(kind: str, n_groups: int, schedule: str) -> None:
    accepted = check_equal(kind, schedule, n_groups, 300, 200)
    # Where data are few, trees are turned that many data hold in place.
    of_few = check_equal(kind, schedule, min(n_groups, 12), 12, 400)
    never = [name for name, n in accepted.items() if n + of_few[name] == 0]
    assert schedule == "paper" or not never


@settings(max_examples=50)
@given(st.integers(1, 5000), st.integers(1, 20))
def test_rows_are_cut_at_blocks(n_data: int, n_groups: int) -> None:
    tasks = cut_rows(n_data, n_groups)
    rows = int(block_size(n_data))
    assert [start for start, _ in tasks] == [0, *(stop for _, stop in tasks[:-1])]
    assert tasks[-1][1] == n_data
    for start, stop in tasks:
        n_blocks = -(-(stop - start) // rows)
        capacity = 1 << (n_blocks - 1).bit_length()
        assert start % (rows * capacity) == 0  # a subtree of the binary tree
        assert n_blocks == capacity or stop == n_data
    assert len(tasks) <= 12 * n_groups or all(stop - start <= rows for start, stop in tasks)


@settings(max_examples=100)
@given(st.integers(1, 10**6), st.integers(1, 20))
def test_pieces_have_about_as_many_rows(n_data: int, n_groups: int) -> None:
    ends = np.array([0, *(stop for _, stop in cut_rows(n_data, n_groups))])
    even = np.arange(n_groups + 1) * n_data / n_groups
    largest = max(n_data / n_groups / 16, int(block_size(n_data)))
    assert all(np.abs(ends - edge).min() <= largest for edge in even)


@settings(max_examples=50)
@given(st.integers(1, 3000), st.integers(1, 20))
def test_what_shards_have_is_joined_over_the_tree_of_blocks(n_data: int, n_groups: int) -> None:
    rows, tasks = int(block_size(n_data)), cut_rows(n_data, n_groups)
    n_blocks = -(-n_data // rows)

    def join(one: str, other: str) -> str:
        return f"({one} {other})"

    of_shards = (
        join_in_pairs(map(str, range(start // rows, -(-stop // rows))), join)
        for start, stop in tasks
    )
    joined = join_subtrees((start // rows for start, _ in tasks), of_shards, join)
    assert joined == join_in_pairs(map(str, range(n_blocks)), join)


@settings(max_examples=50)
@given(st.integers(1, 400), st.integers(0, 2**32 - 1))
def test_sums_over_some_rows_follow_the_same_tree(n_data: int, seed: int) -> None:
    """Of all rows with a label, of the same rows listed, and of these shard by shard."""
    rng = np.random.default_rng(seed)
    model, _ = simulate("gaussian", 20)
    data = Reals(rng.normal(size=(n_data, 3)) * 10.0 ** rng.integers(-8, 8, size=(n_data, 1)))
    labels = rng.integers(2, size=n_data)
    rows = np.flatnonzero(labels == 1)
    whole = sum_range(model, data, labels, 0, n_data, 2, n_data).spread(2)[1]
    assert sum_rows(model, data, rows, n_data).tobytes() == whole.tobytes()
    terms = np.hstack([data.values, data.values**2])[rows]
    assert sum_terms(terms, rows, n_data).tobytes() == whole.tobytes()
    waiting = nothing_waits(n_data, whole.size)
    for start, stop in cut_rows(n_data, 3):
        own = rows[(rows >= start) & (rows < stop)] - start
        part = take_rows(data, np.arange(start, stop))
        push(waiting, start // int(block_size(n_data)), sum_rows(model, part, own, n_data))
    assert add_up(waiting).tobytes() == whole.tobytes()


@settings(max_examples=50)
@given(st.integers(1, 3000), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_sums_of_neighbours_follow_the_same_tree(n_data: int, n_cut: int, seed: int) -> None:
    """However shards are put together in groups."""
    rng = np.random.default_rng(seed)
    labels = np.zeros(n_data, dtype=np.int64)
    shards = [Shard(a, list, labels[a:b], {}, {}) for a, b in cut_rows(n_data, n_cut)]
    scales = 10.0 ** rng.integers(-9, 9, size=(len(shards), 1))
    vectors = list(rng.normal(size=(len(shards), 2)) * scales)
    where = Elsewhere(n_data, lambda _: [], lambda _, handed: handed)
    rows = int(block_size(n_data))
    blocks = [shard.first // rows for shard in shards]
    whole = join_subtrees(blocks, vectors, np.add)
    assert where.add([*map(Placed, blocks, vectors)]).tobytes() == whole.tobytes()
    edges = [0, *sorted(rng.integers(len(shards) + 1, size=3)), len(shards)]
    joined: list[Any] = []
    for start, stop in itertools.pairwise(edges):
        if start < stop:
            joined += add_neighbours(shards[start:stop], n_data, vectors[start:stop], False)
    assert where.add(joined).tobytes() == whole.tobytes()
    together = add_neighbours(shards, n_data, vectors, False)
    n_sums = sum(placed is not None for placed in together)
    assert n_sums <= (-(-n_data // rows)).bit_length()
    whole_numbers = [np.rint(1e6 * vector / np.abs(vector).max()) for vector in vectors]
    first, *others = add_neighbours(shards, n_data, whole_numbers, True)
    assert first is not None
    assert first.block == 0
    assert first.sums.tolist() == np.sum(whole_numbers, axis=0).tolist()
    assert others == [None] * (len(shards) - 1)


@pytest.mark.parametrize("kind", ["gaussian", "bernoulli", "multinomial"])
def test_models_say_whether_their_statistics_are_whole(kind: str) -> None:
    model, data = simulate(kind, 50)
    sums = sum_rows(model, data, np.arange(50), 50)
    are_whole = bool(np.all(sums == np.rint(sums)))
    assert are_whole == contract.registered(type(model)).has_whole_statistics


def test_entities_keep_their_type_on_the_way_through_python() -> None:
    before: Any = unchanged()
    record = typed(before._replace(entity=2**63 + 1))
    assert isinstance(record.entity, np.uint64)
    assert record.entity == 2**63 + 1


def test_blocks_are_small_where_data_are_few() -> None:
    assert [int(block_size(n)) for n in (1, 16, 33, 34, 300, 10**6)] == [1, 1, 1, 2, 16, 2048]
    assert all(start % block_size(10**5) == 0 for start, _ in make_tasks(10**5))


def test_rows_of_documents_are_taken_and_joined() -> None:
    counts = np.array([[0, 2, 1], [0, 0, 0], [3, 0, 0], [1, 1, 1]])

    def encode(x: Any) -> Any:
        return make_documents(sparse.csr_array(x))

    def check(found: Any, rows: list[int]) -> None:
        for one, other in zip(found, encode(counts[rows]), strict=True):
            np.testing.assert_array_equal(one, other)
            assert np.asarray(one).dtype == np.asarray(other).dtype

    documents = encode(counts)
    taken = take_rows(documents, np.array([3, 1, 0, 3]))
    check(taken, [3, 1, 0, 3])
    check(take_rows(documents, np.array([], dtype=np.int64)), [])
    check(
        join_rows([taken, take_rows(documents, np.array([2])), documents]),
        [3, 1, 0, 3, 2, 0, 1, 2, 3],
    )


def test_rows_of_counts_are_taken_and_joined() -> None:
    dense = np.array([[0, 2, 1], [0, 0, 0], [3, 0, 0], [1, 1, 1]])
    estimator = MultinomialTree()

    def encode(x: Any) -> Counts:
        data: Counts = estimator._encode(None, estimator._read(x))[0]
        return data

    def decode(data: Counts) -> Any:
        entries = [slice(at, at + n) for at, n in zip(data.start, data.n_entries, strict=True)]
        found = np.zeros((data.start.size, 3))
        for row, part in zip(found, entries, strict=True):
            row[data.outcomes[part]] = data.counts[part]
        return found

    data = encode(sparse.csr_array(dense))
    taken = take_rows(data, np.array([3, 1, 0, 3]))
    np.testing.assert_array_equal(decode(taken), dense[[3, 1, 0, 3]])
    np.testing.assert_array_equal(taken.total, dense[[3, 1, 0, 3]].sum(axis=1))
    joined = join_rows([taken, take_rows(data, np.array([2])), encode(dense[:2])])
    np.testing.assert_array_equal(decode(joined), dense[[3, 1, 0, 3, 2, 0, 1]])
