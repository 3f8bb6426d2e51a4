"""Fitting to data that are on the workers of a cluster."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import clone

from treestick.chain import run_chain
from treestick.engine.crews import Crew
from treestick.engine.dask_workers import DaskWorkers
from treestick.engine.keeping import Group, Making
from treestick.estimators.draws import to_record
from treestick.estimators.sampled import Job, Known, Step
from treestick.estimators.states import Constants, check_state_elsewhere
from treestick.inputs import InvalidValue, data_errors
from treestick.io.pieces import Source, load, open_source
from treestick.moves.rows import take_rows
from treestick.moves.shards import Op, Shard, cut_rows
from treestick.moves.state import State
from treestick.moves.tasks import Run, block_size, join_in_pairs
from treestick.random import make_key
from treestick.start import first_state_elsewhere
from treestick.store import RunFolder
from treestick.store.labels import LabelFiles
from treestick.whereabouts import Elsewhere

if TYPE_CHECKING:
    from distributed import Client

PATIENCE = 60.0
"""Seconds to wait when there is no worker."""


class Recipe(NamedTuple):
    """How a worker makes shards."""

    estimator: Any
    """Not fitted: it reads rows."""
    units: Any
    pieces: list[Any]
    """Of each shard: its rows, see :mod:`treestick.io.pieces`."""
    labels: LabelFiles
    sweep: int
    """After which labels were committed; 0 if all data are at the root."""


def make_shards(group: Group, recipe: Recipe) -> list[Shard]:
    """Read the rows of a group, and their labels."""
    shards = []
    for (start, stop), piece in zip(group.tasks, recipe.pieces, strict=True):
        try:
            with data_errors():
                values = recipe.estimator._read(load(piece))
        except ValueError as error:
            raise InvalidValue(f"rows from {start} to {stop - 1}: {error}") from error
        data, n_rows = recipe.estimator._encode(recipe.units, values)
        if n_rows != stop - start:
            raise InvalidValue(f"rows from {start} to {stop - 1}: there are {n_rows}")
        labels = np.zeros(n_rows, dtype=np.int64)
        if recipe.sweep > 0:
            labels = recipe.labels.read(recipe.sweep, start, stop)
        shards.append(Shard(start, data, labels, {}))
    return shards


def write_labels(group: Any, n_data: int, files: LabelFiles, sweep: int) -> list[None]:
    """Write the labels of all shards of a group: a question that changes nothing."""
    for shard in group:
        files.write(sweep, shard.first, shard.labels)
    return [None] * len(group)


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
    for array in data:
        found.update(f"{array.dtype.str} {array.shape}\n".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.digest()


def join_digests(one: bytes, other: bytes) -> bytes:
    """Return the digest of two."""
    return hashlib.sha256(one + other).digest()


class Cluster:
    """A client's workers, and the rows that they are given."""

    def __init__(self, client: Client, estimator: Any, X: Any, patience: float) -> None:
        self.workers, self.patience = DaskWorkers(client), patience
        self.estimator = estimator

        def ask(function: Callable[[str], Any], paths: list[str]) -> list[Any]:
            futures = client.map(function, paths, pure=False)
            return list(client.gather(futures))  # type: ignore[no-untyped-call]

        self.source: Source = open_source(X, ask)
        threads = client.scheduler_info(n_workers=-1)["workers"].values()
        self.n_groups = max(sum(worker["nthreads"] for worker in threads), 1)
        self.tasks = cut_rows(self.source.n_rows, self.n_groups)

    def groups(self, chain: str) -> list[Group]:
        """Return the groups of a chain."""
        edges = np.linspace(0, len(self.tasks), min(self.n_groups, len(self.tasks)) + 1).astype(int)
        return [
            Group(chain, k, self.source.n_rows, self.tasks[edges[k] : edges[k + 1]])
            for k in range(edges.size - 1)
        ]

    def crew(self, chain: str, units: Any, labels: LabelFiles, after: Callable[[], Any]) -> Crew:
        """Return the crew of a chain; ``after`` gives ops and sweep of the last commit."""

        def making(group: Group) -> Making:
            n_done, sweep = after()
            pieces = [self.source.piece(start, stop) for start, stop in group.tasks]
            recipe = Recipe(self.estimator, units, pieces, labels, sweep)
            return Making(n_done, make_shards, recipe)

        return Crew(self.workers, self.groups(chain), making, self.patience)


def prepare(estimator: Any, X: Any, run_folder: RunFolder) -> Job:
    """Return what is to be sampled, where the data are on the workers of a cluster."""
    if not estimator._can_be_elsewhere:
        raise InvalidValue(
            f"{type(estimator).__name__}: engine='dask' is for BernoulliTree; use threads"
        )
    if not (isinstance(estimator.init, str) and estimator.init == "root"):
        raise InvalidValue("init: with engine='dask' chains begin with all data at the root")
    cluster = Cluster(find_client(), clone(estimator), X, PATIENCE)
    source = cluster.source
    sticks = estimator._sticks_prior()
    model, units = estimator._make_model_of_columns(source.n_columns)
    burn_in = estimator._lengths().burn_in

    def steps(
        seed: int,
        chain: int,
        run: Run,
        saved: tuple[int, State] | None,
        note: Callable[[str], None],
    ) -> Iterator[Step]:
        note("workers read their data")
        files = run_folder.chain(chain).labels
        last = Last(0, 0 if saved is None else saved[0])

        def after() -> Last:
            return last

        crew = cluster.crew(uuid.uuid4().hex, units, files, after)
        where = Elsewhere(source.n_rows, crew.each)
        if saved is None:
            state = first_state_elsewhere(make_key(seed, chain), model, sticks, where)
        else:
            state = saved[1]
            check_state_elsewhere(state, model, where)
        for swept in run_chain(
            seed, chain, state, where, burn_in, run, estimator.schedule, last.sweep
        ):

            def write(sweep: int = swept.sweep) -> None:
                where.ask(write_labels, files, sweep)

            def written(sweep: int = swept.sweep) -> None:
                nonlocal last
                if not estimator._lengths().is_draw(last.sweep):
                    files.remove(last.sweep)
                last = Last(crew.n_done, sweep)
                crew.committed()

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
        crew = cluster.crew(
            uuid.uuid4().hex, units, LabelFiles(run_folder.folder), lambda: Last(0, 0)
        )
        found: bytes = join_in_pairs(crew.each([Op(digest, ())]), join_digests)
        return f"sha256 of blocks:{found.hex()}"

    known = Known(np.empty((0, source.n_columns)), source.names, None, {})
    return Job(known, fingerprint, source.n_rows, Constants(model, units, sticks), steps)


class Last(NamedTuple):
    """The last commit of a chain: ops until then, and the sweep."""

    n_done: int
    sweep: int


def find_client() -> Client:
    """Return the client that is active."""
    try:
        from distributed import get_client
    except ImportError as error:
        raise InvalidValue(
            "engine='dask' needs dask.distributed: pip install 'treestick[dask]'"
        ) from error
    try:
        return get_client()
    except ValueError as error:
        raise InvalidValue(
            "engine='dask' needs a client: dask.distributed.Client(address), before fit"
        ) from error
