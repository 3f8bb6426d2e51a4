"""Fitting to data that are on the workers of a cluster."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import clone

from treestick.chain import Swept, run_chain
from treestick.engine.crews import Crew, wait_for_workers
from treestick.engine.dask_workers import DaskWorkers, find_client
from treestick.engine.holding import Name, the_holder
from treestick.engine.keeping import Group, Making
from treestick.estimators.draws import to_record
from treestick.estimators.sampled import Job, Known, SampledEstimator, Step
from treestick.estimators.states import (
    Constants,
    check_counts_elsewhere,
    check_nodes_elsewhere,
)
from treestick.inputs import InputError, InvalidValue, data_errors
from treestick.io.pieces import Source, open_source, parts
from treestick.moves import atoms_elsewhere, topics_elsewhere
from treestick.moves.rows import join_rows, take_rows
from treestick.moves.shards import Op, Shard, cut_rows
from treestick.moves.state import State
from treestick.moves.tasks import LARGEST_BLOCK, Run, Task, block_size, join_in_pairs, join_subtrees
from treestick.random import make_key
from treestick.start import first_state_elsewhere
from treestick.store import DamagedRun, RunFolder
from treestick.store.labels import LabelFiles
from treestick.store.values import arrays_of
from treestick.tokens.documents import MOST_OF_ONE
from treestick.tokens.latent import TokenTopics
from treestick.whereabouts import Elsewhere

if TYPE_CHECKING:
    from distributed import Client

PATIENCE = 60.0
"""Seconds to wait when there is no worker."""
MOST_BITS = 2**28
"""Of a shard in memory."""
ROWS_AT_ONCE = 2 * LARGEST_BLOCK
"""So many are read from files at a time. It is a power of two of blocks, as shards are."""


class Numbers(NamedTuple):
    """What a model adds to each datum, in files, and how a shard gets it back."""

    files: LabelFiles
    sweep: int
    """After which they were committed."""
    width: int
    """So many there are of each datum,"""
    limit: int
    """and all are below."""
    shared: Any
    """What nodes share."""
    see: Callable[[Shard, Any, Any], None]
    """Takes a shard, its numbers, and what nodes share; lets the shard have them."""


class Last(NamedTuple):
    """The last commit of a chain: ops until then, and the sweep."""

    n_done: int
    sweep: int
    numbers: Numbers | None = None


class Recipe(NamedTuple):
    """How a worker makes shards."""

    fit: str
    """Names the fit among all that a worker may know."""
    estimator: Any
    """Not fitted: it reads rows."""
    units: Any
    pieces: list[Any]
    """Of each shard: its rows, see :mod:`treestick.io.pieces`."""
    labels: LabelFiles
    sweep: int
    """After which labels were committed; 0 if all data are at the root."""
    numbers: Numbers | None
    """What was committed beside labels."""


def make_shards(group: Group, recipe: Recipe) -> list[Shard]:
    """Read the rows of a group, and their labels."""
    shards, holder = [], the_holder()
    for task, piece in zip(group.tasks, recipe.pieces, strict=True):
        name = Name(recipe.fit, task[0])
        holder.put(name, partial(_encode, recipe, task, piece))
        labels = np.zeros(task[1] - task[0], dtype=np.int64)
        if recipe.sweep > 0:
            labels = recipe.labels.read(recipe.sweep, *task)
        shard = Shard(task[0], partial(holder.get, name), labels, {}, {})
        if recipe.numbers is not None:
            _give_numbers(shard, recipe.numbers)
        shards.append(shard)
    return shards


def _give_numbers(shard: Shard, committed: Numbers) -> None:
    """Let a shard have the numbers that were committed."""
    files, sweep, width, limit, shared, see = committed
    start, n_data = shard.first, shard.labels.size
    found = files.read(sweep, start * width, (start + n_data) * width)
    if found.min() < 0 or found.max() >= limit:  # compiled code does not check
        raise DamagedRun(f"{files.folder}: data from {start} on have what is not there")
    see(shard, found if width == 1 else found.reshape(n_data, width), shared)


def _encode(recipe: Recipe, task: Task, piece: Any) -> Any:
    """Return rows in the form of the compiled model; before that, they need more memory."""
    encoded = [recipe.estimator._encode(recipe.units, values)[0]
               for values in _read(recipe.estimator, task, piece)]  # fmt: skip
    return encoded[0] if len(encoded) == 1 else join_rows(encoded)


def _read(estimator: Any, task: Task, piece: Any) -> Iterator[Any]:
    """Yield the rows of a shard, some at a time, as the estimator reads them."""
    start, stop = task
    for table in parts(piece, ROWS_AT_ONCE):
        n_rows = table.shape[0]
        try:
            values = estimator._read(table)
        except InputError as error:
            with data_errors():
                raise type(error)(f"rows from {start} to {start + n_rows - 1}: {error}") from error
        yield values
        start += n_rows
    if start != stop:
        with data_errors():
            raise InvalidValue(f"rows from {task[0]} to {stop - 1}: there are {start - task[0]}")


def make_unread(group: Group, recipe: Recipe) -> list[Shard]:
    """Return shards of which the rows are read, some at a time, when they are asked for."""
    none = np.empty(0, dtype=np.int64)
    return [
        Shard(task[0], partial(_read, recipe.estimator, task, piece), none, {}, {})
        for task, piece in zip(group.tasks, recipe.pieces, strict=True)
    ]


def summarize(group: Any, n_data: int, estimator: Any) -> list[Any]:
    """Return what is known of the rows of each shard, to make the model from."""
    return [
        join_in_pairs(
            (estimator._summarize(values, n_data) for values in shard.data),
            estimator._join_summaries,
        )
        for shard in group
    ]


def write_labels(
    group: Any, n_data: int, files: LabelFiles, numbers: LabelFiles, sweep: int
) -> list[None]:
    """Write the labels of all shards of a group, and what else they have of their data.

    That is a question that changes nothing.
    """
    for shard in group:
        files.write(sweep, shard.first, shard.labels)
        write_numbers(shard, numbers, sweep)
    return [None] * len(group)


def write_all_numbers(group: Any, n_data: int, files: LabelFiles, sweep: int) -> list[None]:
    """Write what shards have of their data beside labels."""
    for shard in group:
        write_numbers(shard, files, sweep)
    return [None] * len(group)


def write_numbers(shard: Shard, files: LabelFiles, sweep: int) -> None:
    """Write what a model adds to the data of a shard, if it does."""
    if "numbers" in shard.latent:
        numbers = shard.latent["numbers"]
        width = numbers.size // shard.labels.size
        files.write(sweep, shard.first * width, numbers.reshape(-1).astype(np.int64))


def digest(group: Any, n_data: int) -> list[bytes]:
    """Return a digest of the data of each shard: of its blocks, joined over the binary tree."""
    size = int(block_size(n_data))
    return [
        join_in_pairs(
            (
                _digest_of(take_rows(shard.data, np.arange(start, min(start + size, n_rows))))
                for start in range(0, n_rows, size)
            ),
            join_digests,
        )
        for shard in group
        for n_rows in [shard.labels.size]
    ]


def _digest_of(data: Any) -> bytes:
    found = hashlib.sha256()
    for array in arrays_of(data).values():
        found.update(f"{array.dtype.str} {array.shape}\n".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.digest()


def join_digests(one: bytes, other: bytes) -> bytes:
    """Return the digest of two."""
    return hashlib.sha256(one + other).digest()


def cut_evenly(tasks: Sequence[Task], n_groups: int) -> list[int]:
    """Return where groups of shards begin and end, so that they have about as many rows each.

    None is empty: there are no more groups than shards.
    """
    ends = np.array([stop for _, stop in tasks])
    edges = [0]
    for k in range(1, n_groups):
        nearest = int(np.argmin(np.abs(ends * n_groups - k * ends[-1]))) + 1
        edges.append(min(max(nearest, edges[-1] + 1), len(tasks) - n_groups + k))
    return [*edges, len(tasks)]


class Cluster:
    """A client's workers, and the rows that they are given."""

    def __init__(self, client: Client, estimator: Any, X: Any, patience: float) -> None:
        self.workers, self.patience = DaskWorkers(client), patience
        self.estimator, self.fit = estimator, uuid.uuid4().hex
        wait_for_workers(self.workers, patience)
        with data_errors():
            self.source: Source = open_source(X, self.workers.all_of)
        most_rows = MOST_BITS // (estimator._bits_per_cell * self.source.n_columns)
        self.tasks = cut_rows(self.source.n_rows, max(self.workers.n_threads(), 1), most_rows)

    def close(self) -> None:
        """Have workers forget what they keep."""
        self.workers.close(self.fit)

    def blocks(self) -> list[int]:
        """Return the first block of each shard."""
        return [start // int(block_size(self.source.n_rows)) for start, _ in self.tasks]

    def groups(self, chain: str, n_threads: int) -> list[Group]:
        """Return the groups of a chain: one for each thread, if there are enough shards."""
        n_groups = min(max(n_threads, 1), len(self.tasks))
        edges = cut_evenly(self.tasks, n_groups)
        return [
            Group(chain, k, n_groups, self.source.n_rows, self.tasks[edges[k] : edges[k + 1]])
            for k in range(n_groups)
        ]

    def crew(
        self,
        chain: str,
        units: Any,
        labels: LabelFiles,
        after: Callable[[], Last],
        make: Callable[[Group, Recipe], list[Shard]] = make_shards,
    ) -> Crew:
        """Return a crew; ``after`` gives ops and sweep of the last commit."""

        def making(group: Group) -> Making:
            last = after()
            pieces = [self.source.piece(start, stop) for start, stop in group.tasks]
            recipe = Recipe(
                self.fit, self.estimator, units, pieces, labels, last.sweep, last.numbers
            )
            return Making(last.n_done, make, recipe)

        groups = partial(self.groups, f"{self.fit} {chain}")
        return Crew(self.workers, groups, making, self.patience)

    def summary(self, labels: LabelFiles) -> Any:
        """Return what is known of all rows."""
        found = self.estimator._summary_of_columns(self.source.n_columns)
        if found is not None:
            return found
        crew = self.crew("summary", None, labels, lambda: Last(0, 0), make_unread)
        each = crew.each([Op(summarize, (self.estimator,))])
        return join_subtrees(self.blocks(), each, self.estimator._join_summaries)


def prepare(estimator: Any, X: Any, run_folder: RunFolder) -> Job:
    """Return what is to be sampled, where the data are on the workers of a cluster."""
    if not estimator._can_be_elsewhere:
        raise InvalidValue(
            f"{type(estimator).__name__}: engine='dask' is for {', '.join(_able())}; use threads"
        )
    estimator._check_elsewhere()
    if not (isinstance(estimator.init, str) and estimator.init == "root"):
        raise InvalidValue("init: with engine='dask' chains begin with all data at the root")
    cluster = Cluster(find_client(), clone(estimator), X, PATIENCE)
    source = cluster.source
    sticks = estimator._sticks_prior()
    model, units = estimator._make_model(cluster.summary(LabelFiles(run_folder.folder)))
    burn_in, more = estimator._lengths().burn_in, estimator._more_moves()

    def steps(
        seed: int,
        chain: int,
        run: Run,
        saved: tuple[int, State] | None,
        note: Callable[[str], None],
    ) -> Iterator[Step]:
        note("workers read their data")
        files, numbers = run_folder.chain(chain).labels, run_folder.chain(chain).numbers
        first_numbers = LabelFiles(numbers.folder / "first")
        last = Last(0, 0)

        def after() -> Last:
            return last

        def commit(sweep: int, committed: Numbers | None) -> None:
            nonlocal last
            before, last = last, Last(crew.n_done, sweep, committed)
            crew.committed()
            if not estimator._lengths().is_draw(before.sweep):
                files.remove(before.sweep)
            if before.numbers is not None:
                before.numbers.files.remove(before.numbers.sweep)

        def keep(number: int, latent: Any) -> None:
            where.ask(write_all_numbers, first_numbers, number)
            commit(0, _numbers_of(latent, first_numbers, number))

        crew = cluster.crew(str(chain), units, files, after)
        base = getattr(units, "base", None)
        where = Elsewhere(source.n_rows, crew.each, crew.along, base)
        if saved is None:
            latent = estimator._first_latent_elsewhere(seed, chain, where, note, keep)
            state = first_state_elsewhere(make_key(seed, chain), model, sticks, where, latent)
        else:
            sweep, state = saved
            n_words = source.n_columns if "topics" in more else None
            check_nodes_elsewhere(state, model, base, n_words)
            last = Last(0, sweep, _numbers_of(state.latent, numbers, sweep))
            check_counts_elsewhere(state, where)
        for swept in run_chain(
            seed, chain, state, where, burn_in, run, estimator.schedule, last.sweep, **more
        ):

            def write(sweep: int = swept.sweep) -> None:
                where.ask(write_labels, files, numbers, sweep)

            def written(swept: Swept = swept) -> None:
                commit(swept.sweep, _numbers_of(swept.state.latent, numbers, swept.sweep))

            yield Step(
                swept.sweep,
                swept.scores.complete_data,
                swept.state.n_nodes,
                partial(to_record, chain, swept),
                swept.state,
                write,
                written,
            )

    def fingerprint() -> str:
        crew = cluster.crew("digest", units, LabelFiles(run_folder.folder), lambda: Last(0, 0))
        each = crew.each([Op(digest, ())])
        found: bytes = join_subtrees(cluster.blocks(), each, join_digests)
        return f"sha256 of blocks:{found.hex()}"

    known = Known(np.empty((0, source.n_columns)), source.names, None, {})
    constants = Constants(model, units, sticks)
    return Job(known, fingerprint, source.n_rows, constants, steps, cluster.close)


def _numbers_of(latent: Any, files: LabelFiles, sweep: int) -> Numbers | None:
    """Return where it is written what the model adds to each datum, if it does."""
    if latent is None:
        return None
    if isinstance(latent, TokenTopics):
        width, limit = latent.counts.of_words.shape[1], MOST_OF_ONE + 1
        return Numbers(files, sweep, width, limit, latent.n_topics, topics_elsewhere.see)
    atoms = latent.atoms
    return Numbers(files, sweep, 1, atoms.shape[0], atoms, atoms_elsewhere.see)


def _able() -> list[str]:
    """Return the names of the estimators whose data can be in shards."""
    known = SampledEstimator._known
    return sorted(name for name, kind in known.items() if getattr(kind, "_can_be_elsewhere", False))
