"""Workers of a Dask cluster.

A sweep asks many short questions, and an answer by way of the scheduler takes some 10 ms. So the
client asks workers itself, over the connections that Dask has for that.

Rule 1. A worker that does not answer is asked for at the scheduler; one that is not there is lost.
Rule 2. A scheduler that does not answer has no workers. One that comes back at its address is
connected to again, and then has other ones.
"""

from __future__ import annotations

import asyncio
import importlib.util
import pickle
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from treestick._version import __version__
from treestick.engine import holding, keeping
from treestick.engine.crews import Lost
from treestick.engine.keeping import Group, Making, carry_out
from treestick.inputs import InputError, InvalidValue
from treestick.moves.shards import Op

if TYPE_CHECKING:
    from distributed import Client

SECONDS_BETWEEN_LOOKS = 0.5
"""How often it is asked whether a worker that does not answer is still there."""
SECONDS_TO_CONNECT = 10.0
MOST_PLAIN = 2**24
"""Bytes that are sent as they are; where there are more, Dask cuts them up."""
SHARE_FOR_ROWS = 0.4
"""Of the memory that a worker may still use when the first rows come. All else that it needs, most
of all while it compiles and while it reads rows, is in what remains."""


def find_client() -> Client:
    """Return the client that is active, or raise."""
    _need_dask()
    from distributed import get_client

    try:
        return get_client()
    except ValueError as error:
        raise InvalidValue(
            "engine='dask' needs a client: dask.distributed.Client(address), before fit"
        ) from error


def connect(address: str, seconds: float = SECONDS_TO_CONNECT, is_default: bool = False) -> Client:
    """Return a client of a scheduler, which may become the active one, or raise."""
    _need_dask()
    from distributed import Client

    try:
        return Client(address, timeout=seconds, set_as_default=is_default)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:  # nobody is there, or it is no address
        raise InvalidValue(
            f"scheduler {address}: no answer for {seconds:g} s; is it running, and can it be "
            "reached from here?"
        ) from error


def _need_dask() -> None:
    if importlib.util.find_spec("distributed") is None:
        raise InvalidValue("engine='dask' needs dask.distributed: pip install 'treestick[dask]'")


class Pickled(NamedTuple):
    """What is sent of an op, but for arguments of shards."""

    op: Op
    """So that no other has its place in memory."""
    content: bytes


class DaskWorkers:
    """The workers of a cluster, by the client that is connected to it.

    ``n_sent`` and ``n_received`` are the bytes of all questions and answers so far.
    """

    def __init__(self, client: Client) -> None:
        self._client, self._is_own = client, False
        self._address = str(client.scheduler.address)  # type: ignore[union-attr]
        self._ready: set[str] = set()
        self.n_sent, self.n_received = 0, 0
        self._told: dict[tuple[int, int], Pickled] = {}
        self._mutex = threading.Lock()
        self._check_versions()

    def _check_versions(self) -> None:
        def version() -> str | None:  # sent as it stands, because workers may have no treestick
            import importlib.metadata

            try:
                return importlib.metadata.version("treestick")
            except importlib.metadata.PackageNotFoundError:
                return None

        for worker, found in self._client.run(version).items():
            check_version(found, worker, __version__)

    def identity(self) -> dict[str, dict[str, Any]]:
        """Return what the scheduler knows of each worker that there is now, by its address."""
        with self._mutex:
            if self._client.status == "closed":  # it gave up
                try:
                    self._client, self._is_own = connect(self._address), True
                except InvalidValue:
                    return {}
            client = self._client
        try:
            found = client.sync(client.scheduler.identity, n_workers=-1)  # type: ignore[no-untyped-call, union-attr]
        except OSError:
            return {}
        workers: dict[str, dict[str, Any]] = found["workers"]
        return workers

    def names(self) -> list[str]:
        """Return the addresses of the workers that there are now."""
        return sorted(self.identity())

    def n_threads(self) -> int:
        """Return how many threads they have together."""
        return sum(int(worker["nthreads"]) for worker in self.identity().values())

    def submit(
        self, worker: str, group: Group, n_before: int, ops: Sequence[Op], making: Making | None
    ) -> Any:
        """Have ops carried out by one worker, and no other."""
        client = self._client
        if client.status == "closed":
            nobody: Future[Any] = Future()
            nobody.set_exception(ConnectionError(self._address))
            return worker, nobody
        content = pickle.dumps((group, n_before, self._pickled(ops), making), protocol=5)
        loop: Any = client.loop
        asked = self._ask(client, worker, content)
        return worker, asyncio.run_coroutine_threadsafe(asked, loop.asyncio_loop)

    def _pickled(self, ops: Sequence[Op]) -> list[tuple[bytes, Any]]:
        """Return ops as they are sent: what all are told alike is pickled once."""
        before, told = self._told, {}
        for op in ops:
            name = id(op.function), id(op.arguments)
            told[name] = before.get(name) or Pickled(op, pickle.dumps(op[:2], protocol=5))
        self._told = told
        return [(told[id(op.function), id(op.arguments)].content, op.own) for op in ops]

    async def _ask(self, client: Any, worker: str, content: bytes) -> Any:
        """Ask a worker, past the scheduler, and return its answer."""
        there = client.rpc(worker)
        if worker not in self._ready:
            await there.run(function=pickle.dumps(_make_ready), args=pickle.dumps((__version__,)))
            self._ready.add(worker)
        told = await there.treestick(content=_sent(content))
        self.n_sent += len(content)
        self.n_received += len(told["content"])
        return pickle.loads(told["content"])

    def result(self, submitted: Any) -> Any:
        """Return the answers; raise :class:`Lost` if the worker is gone."""
        worker, asked = submitted
        while True:
            try:
                answer = asked.result(SECONDS_BETWEEN_LOOKS)
            except (OSError, CancelledError) as error:
                # No answer yet, or no connection; what goes wrong in the worker is in the answer.
                if isinstance(error, TimeoutError) and not asked.done() and worker in self.names():
                    continue
                asked.cancel()
                self._ready.discard(worker)
                raise Lost(worker) from error
            except ModuleNotFoundError as error:
                if (error.name or "").partition(".")[0] == "treestick":
                    check_version(None, worker, __version__)
                raise
            if isinstance(answer, Failed):
                raise answer.error
            return answer

    def all_of(self, function: Callable[[Any], Any], arguments: Sequence[Any]) -> list[Any]:
        """Return what a function of a module gives for each argument, whichever worker does it."""
        futures = self._client.map(function, arguments, pure=False)
        return list(self._client.gather(futures))  # type: ignore[no-untyped-call]

    def close(self, fit: str) -> None:
        """Have workers forget what they keep of a fit; nobody waits until they have."""
        from distributed import fire_and_forget

        if self._client.status != "running":
            return
        for worker in self.names():
            forgetting = self._client.submit(_forget, fit, workers=[worker], pure=False)
            fire_and_forget(forgetting)  # type: ignore[no-untyped-call]
        if self._is_own:
            self._client.close()  # type: ignore[no-untyped-call]


def check_version(found: str | None, worker: str, here: str) -> None:
    """Raise if a worker has another version than the client, or none."""
    if found is None:
        raise InvalidValue(f"the worker {worker} has no treestick; install {here} there")
    if found != here:
        raise InvalidValue(
            f"the worker {worker} has treestick {found}, and here is {here}; install one version "
            "everywhere"
        )


# -- on the worker ---------------------------------------------------------------------------------


class Failed(NamedTuple):
    """The answer of a worker where an op has raised an error."""

    error: Exception


_pool: ThreadPoolExecutor | None = None
"""Not that of Dask's tasks: these may have to load what an op waits for."""
_scheduler: str | None = None
"""The address that this worker knows it by."""


def _make_ready(version: str, dask_worker: Any) -> None:
    """Have this worker listen to what :meth:`DaskWorkers.submit` sends."""
    global _pool, _scheduler
    _scheduler = dask_worker.scheduler.address
    check_version(__version__, dask_worker.address, version)
    if _pool is None:
        _pool = ThreadPoolExecutor(
            dask_worker.state.nthreads, thread_name_prefix="treestick-shards"
        )
        limit = dask_worker.memory_manager.memory_limit
        if limit:
            left = max(limit - dask_worker.monitor.proc.memory_info().rss, 0)
            holding.set_limits(SHARE_FOR_ROWS * left, dask_worker.local_directory)
    dask_worker.handlers["treestick"] = _hear


def compute(collection: Any) -> Any:
    """Return the value of a collection of Dask, computed on the cluster of this worker."""
    from distributed import get_client

    return get_client(_scheduler).compute(collection, sync=True)  # type: ignore[no-untyped-call]


async def _hear(content: bytes) -> dict[str, Any]:
    """Carry out what a client sends, on a thread, and return what it is told."""
    told = await asyncio.get_running_loop().run_in_executor(_pool, _carry_out, content)
    return {"status": "OK", "content": _sent(told)}


def _sent(content: bytes) -> Any:
    """Return bytes as Dask sends them: as they are, which is quicker, unless they are many."""
    if len(content) < MOST_PLAIN:
        return content
    from distributed.protocol.serialize import Serialize

    return Serialize(content)  # type: ignore[no-untyped-call]


def _carry_out(content: bytes) -> bytes:
    try:
        group, n_before, told, making = pickle.loads(content)
        ops = [Op(*pickle.loads(of_all))._replace(own=own) for of_all, own in told]
        answer: Any = carry_out(group, n_before, ops, making)
    except InputError as error:
        answer = Failed(error)
    except Exception:  # which need not be of a kind that can be sent
        answer = Failed(RuntimeError(f"on a worker:\n{traceback.format_exc()}"))
    return pickle.dumps(answer, protocol=5)


def _forget(fit: str) -> None:
    keeping.forget(fit)
    holding.the_holder().forget(fit)
