"""Chains and their sweeps on the threads of this process.

Compiled code runs without the GIL, so threads are enough. How many there are changes nothing but
the time: chains are independent, and a sweep gives the same bits for any number of threads.

The main thread computes nothing while other threads run. It waits, so that an interrupt (Ctrl-C)
finds it in Python: the chains then finish their sweep and end. However the waiting ends, no chain
begins another sweep.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from treestick._jit import deferred_interrupts
from treestick.inputs import InvalidValue, check_whole_number
from treestick.moves.tasks import Run

State = TypeVar("State")
"""Where a chain is after a sweep."""
MakeChain = Callable[[int, Run], Iterator[State]]
"""Takes the number of a chain and what runs its tasks; returns the chain."""


def count_jobs(n_jobs: int | None) -> int:
    """Return a number of threads: all cores for None, as many less as a negative number says."""
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    n_cores = n_cores or 1
    if n_jobs is None:
        return n_cores
    n_jobs = check_whole_number("n_jobs", n_jobs, -(2**31), 2**31)
    if n_jobs == 0:
        raise InvalidValue("n_jobs=0 is not a number of threads; use None for all cores")
    return n_jobs if n_jobs > 0 else max(n_cores + 1 + n_jobs, 1)


def run_chains(
    make_chain: MakeChain[State],
    n_sweeps: Mapping[int, int],
    n_jobs: int | None,
    after_sweep: Callable[[int, State], None],
) -> bool:
    """Run chains for some sweeps each, and say whether they were interrupted.

    ``n_sweeps`` goes from the number of a chain to that of its sweeps. ``after_sweep`` gets the
    number of the chain and where it is, from the chain's own thread. On an interrupt the sweeps
    that have begun are finished and handed over. An error in one chain ends all, and is raised.
    """
    if not n_sweeps:
        return False
    n_threads = count_jobs(n_jobs)
    n_together = min(len(n_sweeps), n_threads)
    stop = threading.Event()

    def run_one(place: int, chain: int) -> None:
        n_inner = n_threads // n_together + (place < n_threads % n_together)
        with _runner(n_inner) as run:
            swept = make_chain(chain, run)
            for _ in range(n_sweeps[chain]):
                if stop.is_set():
                    return
                after_sweep(chain, next(swept))

    with ThreadPoolExecutor(n_together, thread_name_prefix="treestick-chain") as chains:
        try:
            running, interrupted = _wait_for(
                lambda: [chains.submit(run_one, *which) for which in enumerate(n_sweeps)], stop
            )
        finally:
            stop.set()
    for job in running:
        job.result()  # which raises what went wrong
    return interrupted


def _wait_for(
    start: Callable[[], list[Future[None]]], stop: threading.Event
) -> tuple[list[Future[None]], bool]:
    """Start jobs and wait until all have ended or one has failed; an interrupt sets ``stop``.

    Return the jobs, and whether there was an interrupt.
    """
    running: list[Future[None]] = []
    interrupted = False
    while True:
        try:
            if not running:
                # A pool loses the thread in whose start it is interrupted, and would not join it.
                with deferred_interrupts():
                    running = start()
            # Not for ever at once: a signal that another thread has taken is seen after the wait.
            done, waiting = wait(running, timeout=0.5, return_when=FIRST_EXCEPTION)
            if not waiting or any(job.exception() is not None for job in done):
                return running, interrupted
        except KeyboardInterrupt:
            interrupted = True
            stop.set()


class _runner:
    """Gives something like ``map`` that uses ``n`` threads."""

    def __init__(self, n: int) -> None:
        self._pool = ThreadPoolExecutor(n, thread_name_prefix="treestick-sweep") if n > 1 else None

    def __enter__(self) -> Run:
        return map if self._pool is None else self._pool.map

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()
