"""What all estimators that run Markov chains share: fitting, into a run that can go on later."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from sklearn.base import BaseEstimator, clone

from treestick._jit import on_first_compile
from treestick.engine.processes import Ended, run_processes
from treestick.engine.progress import Progress
from treestick.engine.threads import count_jobs, run_chains
from treestick.estimators.agreement import Report, telling_of_agreement
from treestick.estimators.configuration import claim, note_features
from treestick.inputs import InvalidType, InvalidValue, check_whole_number, shown
from treestick.moves.tasks import Run
from treestick.store import CONSTANTS, STATE, DrawRecord, RunFolder, RunLog, Trace

DASK = "dask"
ENGINES = ("threads", "processes", DASK)
SECONDS_UNTOLD = 0.1
"""Between two lines that the process of a chain tells."""
SECONDS_UNSAVED = 5.0
"""Between draws, the state of a chain is saved when it was not for so long."""


def _nothing() -> None:
    """Do nothing: all that is to be written is here."""


class Step(NamedTuple):
    """A chain after a sweep."""

    sweep: int
    log_likelihood: float
    n_shown: int
    """Number of nodes, or what else is counted."""
    record: Callable[[], DrawRecord]
    """Makes the draw."""
    state: Any
    """All that the chain needs to go on: named tuples, arrays and numbers."""
    write: Callable[[], None] = _nothing
    """Writes what is not here, before the draw or the state is written."""
    written: Callable[[], None] = _nothing
    """Is told that they are."""


class Lengths(NamedTuple):
    """How long chains run."""

    n_draws: int
    burn_in: int
    thin: int
    n_chains: int

    @property
    def n_sweeps(self) -> int:
        """Sweeps of each chain, from its first to its last."""
        return self.burn_in + self.n_draws * self.thin

    def is_draw(self, sweep: int) -> bool:
        """Return whether a draw is kept after a sweep."""
        return sweep > self.burn_in and (sweep - self.burn_in) % self.thin == 0


class Known(NamedTuple):
    """What is known of data beside their values."""

    table: Any
    """The data as scikit-learn validates them."""
    names: list[str] | None
    """Of features, where the table does not have them."""
    ids: list[str] | None
    """Names of the data."""
    metadata: dict[str, list[Any]]
    """Columns with a value for each datum, which no model looks at."""


class Job(NamedTuple):
    """What is to be sampled."""

    known: Known
    fingerprint: Callable[[], str]
    """Returns a digest of the data."""
    n_data: int
    constants: Any
    """What the fitted estimator needs beside draws: a named tuple."""
    steps: Callable[[int, int, Run, tuple[int, Any] | None, Callable[[str], None]], Iterator[Step]]
    """Takes seed, chain, what runs tasks, the sweep and state to go on from, and what shows a few
    words on what is done before the first sweep; runs the chain."""
    close: Callable[[], None] = _nothing
    """Is called when chains have ended, whatever their end."""


class SampledEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators. A subclass prepares a job, and takes what was drawn."""

    if TYPE_CHECKING:  # set by the constructors of subclasses, as scikit-learn wants it
        n_draws: int
        burn_in: int
        thin: int
        n_chains: int
        n_jobs: int | None
        random_state: Any
        verbose: int
    run_dir: Any = None
    engine: str = "threads"

    _interrupted: bool = False
    """Whether the last fit was."""
    _died: Mapping[int, str] = MappingProxyType({})
    """Chains of the last fit that failed, and why."""
    _source: dict[str, Any] | None = None
    """Where data come from: the command line notes it in the run, to find them again."""
    _counted: ClassVar[str] = "nodes"
    _compiling: ClassVar[str] = "compiling ..."
    _stored_types: ClassVar[tuple[type, ...]] = ()
    """Named tuples of the subclass that are part of states and constants."""
    _known: ClassVar[dict[str, type[SampledEstimator]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        SampledEstimator._known[cls.__name__] = cls

    @abstractmethod
    def _prepare(self, X: Any) -> Job:
        """Check data and parameters; return what is to be sampled."""

    def _prepare_elsewhere(self, X: Any, run: RunFolder) -> Job:
        """Do the same where data are on the workers of a cluster."""
        raise InvalidValue(f"{type(self).__name__}: engine='dask' is for trees; use threads")

    @abstractmethod
    def _take(self, run: RunFolder, traces: list[Trace], constants: Any) -> None:
        """Set the fitted attributes."""

    @abstractmethod
    def _warn_of_disagreement(self) -> None:
        """Warn if chains disagree."""

    @classmethod
    def _types(cls) -> tuple[type, ...]:
        """Return the named tuples that may be in a stored state."""
        return cls._stored_types

    def _check_constants(self, constants: Any) -> None:
        """Raise :class:`DamagedRun` if constants that were read do not fit each other."""

    def fit(self, X: Any, y: object = None) -> Self:
        """Draw from the posterior given ``X``.

        An interrupt (Ctrl-C) ends the chains after their present sweep; the draws so far are kept,
        and the estimator is fitted with them. Before the first draw there is nothing to keep, and
        the interrupt is raised. A fit that fails leaves the estimator as it was.

        With ``run_dir``, draws go to that folder. If it holds a run of the same data and
        parameters, that run goes on: an interrupted one is completed, with the same draws as if it
        had never stopped, and a larger ``n_draws`` extends it.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            The data. Sparse matrices where the class says so.
        y : ignored
            Present by convention.

        Returns
        -------
        self
        """
        lengths = self._lengths()
        with contextlib.closing(RunFolder(_folder(self.run_dir))) as run:
            job = self._prepare_elsewhere(X, run) if self.engine == DASK else self._prepare(X)
            known = job.known
            try:
                # Now for the errors, later for what it sets.
                note_features(BaseEstimator(), known.table, known.names)
                seed = claim(self, run, job)
                ended = self._sample(run, job, X, seed, lengths)
            finally:
                job.close()
        self._interrupted, self._died = ended
        traces = read_traces(run)
        if not traces and self._died:
            raise InvalidValue(f"no chain has drawn anything: {_listed(self._died)}")
        if not traces:
            raise KeyboardInterrupt
        note_features(self, known.table, known.names)
        self.ids_, self.metadata_ = known.ids, known.metadata
        self._take(run, traces, job.constants)
        # Warnings last: where they are errors, the estimator is fitted all the same.
        if self._interrupted:
            kept = ", ".join(str(len(trace)) for trace in traces)
            warnings.warn(
                f"interrupted: fitted with the draws so far ({kept} of {lengths.n_draws} per "
                "chain)",
                RuntimeWarning,
                stacklevel=2,
            )
        if self._died:
            warnings.warn(
                f"{_listed(self._died)}; fitted with the others, and fit with the same run_dir "
                "completes it",
                RuntimeWarning,
                stacklevel=2,
            )
        self._warn_of_disagreement()
        return self

    def _sample(self, run: RunFolder, job: Job, X: Any, seed: int, lengths: Lengths) -> Ended:
        """Run all chains."""
        quiet, counted = not self.verbose, self._counted
        with (
            Progress(lengths.n_chains, lengths.n_sweeps, quiet, counted=counted) as progress,
            on_first_compile(lambda: progress.say(self._compiling)),
            _logged(run) as ended,
        ):
            report = telling_of_agreement(run, lengths.n_chains, progress)
            if self.engine == "processes" and lengths.n_chains > 1:
                ended.append(sample_in_processes(self, run, X, seed, report, progress))
            else:
                chains = range(lengths.n_chains)
                interrupted = sample(self, run, job, seed, chains, report, progress.note)
                ended.append(Ended(interrupted, {}))
        return ended[0]

    def _lengths(self) -> Lengths:
        count_jobs(self.n_jobs)
        if self.engine not in ENGINES:
            raise InvalidValue(f"engine={shown(self.engine)} is not one of {ENGINES}")
        return Lengths(
            check_whole_number("n_draws", self.n_draws, 1),
            check_whole_number("burn_in", self.burn_in, 0),
            check_whole_number("thin", self.thin, 1),
            check_whole_number("n_chains", self.n_chains, 1, 2**31),
        )


class Stopped(Exception):
    """A chain was asked to stop; what it had is saved."""


def sample(
    estimator: SampledEstimator,
    run: RunFolder,
    job: Job,
    seed: int,
    chains: Iterable[int],
    report: Report,
    note: Callable[[int, str], None],
) -> bool:
    """Run chains to their ends, from where they are; say whether they were interrupted.

    ``report`` gets chain, sweep, log likelihood and number of nodes after each sweep; ``note`` a
    chain and a few words on what it does before its first.
    """
    lengths = estimator._lengths()
    saved = {k: _saved(estimator, run, k) for k in chains}
    done = {chain: 0 if at is None else at[0] for chain, at in saved.items()}
    left = {chain: lengths.n_sweeps - n for chain, n in done.items() if n < lengths.n_sweeps}
    before = {chain: _seconds(run, chain) for chain in left}
    last_saved = dict.fromkeys(left, time.monotonic())
    began = time.perf_counter()

    def make_chain(chain: int, tasks: Run) -> Iterator[Step]:
        if not run.is_temporary and done[chain] == 0:
            run.chain(chain).save(CONSTANTS, 0, job.constants)
        return job.steps(seed, chain, tasks, saved.pop(chain), partial(note, chain))

    def after_sweep(chain: int, step: Step) -> None:
        state = None if run.is_temporary else step.state
        is_draw = lengths.is_draw(step.sweep)
        # What is elsewhere is written even if nothing here is: it is not kept in mind any longer.
        has_more = state is not None or step.write is not _nothing
        is_due = has_more and time.monotonic() - last_saved[chain] > SECONDS_UNSAVED
        if is_draw or is_due:
            step.write()
            if is_draw:
                seconds = before[chain] + time.perf_counter() - began
                run.append(step.record(), seconds, state)
            elif state is not None:
                run.chain(chain).save(STATE, step.sweep, state)
            step.written()
            last_saved[chain] = time.monotonic()
        report(chain, step.sweep, step.log_likelihood, step.n_shown)

    return run_chains(make_chain, left, estimator.n_jobs, after_sweep)


def sample_in_processes(
    estimator: SampledEstimator,
    run: RunFolder,
    X: Any,
    seed: int,
    report: Report,
    progress: Progress,
) -> Ended:
    """Run each chain in a process of its own."""
    n_chains, n_threads = estimator.n_chains, count_jobs(estimator.n_jobs)
    n_together = min(n_chains, n_threads)
    copy = clone(estimator).set_params(n_jobs=max(n_threads // n_together, 1))

    def heard(chain: int, told: tuple[str, tuple[Any, ...]]) -> bool:
        kind, content = told
        hearing: dict[str, Callable[..., None]] = {
            "swept": partial(report, chain),
            "note": partial(progress.note, chain),
            "say": progress.say,
        }
        hearing[kind](*content)
        return kind == "swept"

    n_sweeps = estimator._lengths().n_sweeps
    left = [k for k in range(n_chains) if run.chain(k).progress()[1] < n_sweeps]
    arguments = {k: (copy, X, run.folder, seed, k) for k in left}
    return run_processes(_sample_one, arguments, n_together, heard)


def _sample_one(
    tell: Callable[[Any], None],
    is_stopped: Callable[[], bool],
    estimator: SampledEstimator,
    X: Any,
    folder: Path,
    seed: int,
    chain: int,
) -> None:
    """Run one chain, in its process."""
    last_told = 0.0

    def now_and_then(kind: str, chain: int, *content: Any) -> None:
        nonlocal last_told
        if is_stopped():
            raise Stopped
        if time.monotonic() - last_told > SECONDS_UNTOLD:
            last_told = time.monotonic()
            tell((kind, content))

    run = RunFolder(folder)
    report, note = partial(now_and_then, "swept"), partial(now_and_then, "note")
    with (
        contextlib.closing(run),
        contextlib.suppress(Stopped),
        on_first_compile(lambda: tell(("say", (estimator._compiling,)))),
    ):
        sample(estimator, run, estimator._prepare(X), seed, [chain], report, note)


def _saved(estimator: SampledEstimator, run: RunFolder, chain: int) -> tuple[int, Any] | None:
    return None if run.is_temporary else run.chain(chain).load(STATE, estimator._types())


def _seconds(run: RunFolder, chain: int) -> float:
    seconds = run.chain(chain).trace().seconds
    return float(seconds[-1]) if seconds.size else 0.0


@contextlib.contextmanager
def _logged(run: RunFolder) -> Iterator[list[Ended]]:
    """Write the end of sampling, which is put into the list, to the run's log."""
    ended: list[Ended] = []
    if run.is_temporary:
        yield ended
        return
    log = RunLog(run.folder)
    try:
        yield ended
    except BaseException as error:
        log.write("failed", error=f"{type(error).__name__}: {error}")
        raise
    for interrupted, died in ended:
        log.write("interrupted" if interrupted else "ended", draws=run.n_per_chain(), died=died)


def _listed(died: Mapping[int, str]) -> str:
    return "; ".join(f"chain {chain} died: {reason}" for chain, reason in died.items())


def read_traces(run: RunFolder) -> list[Trace]:
    """Return the scalars of all chains that have draws."""
    traces = [run.chain(chain).trace() for chain in range(len(run.n_per_chain()))]
    return [trace for trace in traces if len(trace)]


def ids_of(X: Any) -> list[str] | None:
    """Return the names of the rows of a data frame, if they are more than numbers in order."""
    index = getattr(X, "index", None)
    if index is None or callable(index) or type(index).__name__ == "RangeIndex":
        return None
    return [str(name) for name in index]


def _folder(run_dir: Any) -> Path | None:
    if run_dir is None:
        return None
    if not isinstance(run_dir, str | os.PathLike):
        raise InvalidType(f"run_dir={shown(run_dir)} is not a folder")
    return Path(run_dir)
