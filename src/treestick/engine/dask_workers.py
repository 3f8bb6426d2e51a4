"""Workers of a Dask cluster."""

from __future__ import annotations

import itertools
import pickle
import threading
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from treestick._version import __version__
from treestick.engine.crews import Lost
from treestick.engine.keeping import Group, Making, carry_out
from treestick.inputs import InvalidValue
from treestick.moves.shards import Op

if TYPE_CHECKING:
    from distributed import Client

SECONDS_BETWEEN_LOOKS = 0.5
"""How often it is asked whether a worker that does not answer is still there."""
MOST_IN_TASK = 2**20
"""Bytes; what is larger goes to the worker past the scheduler."""


class DaskWorkers:
    """The workers of a cluster, by the client that is connected to it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._name, self._count = uuid.uuid4().hex, itertools.count()
        self._check_versions()

    def _check_versions(self) -> None:
        def version() -> str | None:  # without treestick, because workers may not have it
            import importlib.metadata

            try:
                return importlib.metadata.version("treestick")
            except importlib.metadata.PackageNotFoundError:
                return None

        for worker, found in self._client.run(version).items():
            if found is None:
                raise InvalidValue(f"the worker {worker} has no treestick; install {__version__}")
            if found != __version__:
                raise InvalidValue(
                    f"the worker {worker} has treestick {found}, and here is {__version__}; "
                    "install one version everywhere"
                )

    def names(self) -> list[str]:
        """Return the addresses of the workers that there are now."""
        return sorted(self._client.scheduler_info(n_workers=-1)["workers"])

    def submit(
        self, worker: str, group: Group, n_before: int, ops: Sequence[Op], making: Making | None
    ) -> Any:
        """Have ops carried out by one worker, and no other."""
        told: Any = (ops, making)
        content = pickle.dumps(told, protocol=5)
        if len(content) > MOST_IN_TASK:
            content = self._client.scatter(content, workers=[worker], hash=False)  # type: ignore[no-untyped-call]
        key = f"treestick-{self._name}-{next(self._count)}"
        future = self._client.submit(
            _carry_out, group, n_before, content, workers=[worker], key=key, pure=False
        )
        return worker, future

    def result(self, submitted: Any) -> Any:
        """Return the answers; raise :class:`Lost` if the worker is gone."""
        from distributed.client import FutureCancelledError
        from distributed.comm.core import CommClosedError
        from distributed.scheduler import KilledWorker

        worker, future = submitted
        # Not result(timeout): of several threads that wait, one may find neither result nor error.
        is_done = threading.Event()
        future.add_done_callback(lambda _: is_done.set())
        while not is_done.wait(SECONDS_BETWEEN_LOOKS):
            if worker not in self.names():
                future.cancel()
                raise Lost(worker)
        try:
            return future.result()
        except (KilledWorker, FutureCancelledError, CommClosedError) as error:
            raise Lost(worker) from error


def _carry_out(group: Group, n_before: int, content: bytes) -> Any:
    ops, making = pickle.loads(content)
    return carry_out(group, n_before, ops, making)
