"""What the command line does with runs: fit from a file, go on, say how far, predict."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from treestick.analysis.diagnosis import describe, meets, scalars_of
from treestick.engine import dask_workers
from treestick.estimators.agreement import rhat_so_far
from treestick.estimators.choice import AUTO, MODELS, OF_DOCUMENTS, choose, make_estimator
from treestick.estimators.runs import load_run, open_run, unfitted
from treestick.estimators.sampled import DASK, SampledEstimator
from treestick.inputs import InvalidValue, check_positive, check_whole_number, data_errors, shown
from treestick.io import Choice, Corpus, read_corpus, read_table
from treestick.io.remote import is_url

if TYPE_CHECKING:
    import pandas as pd


class Source(NamedTuple):
    """Where data come from."""

    path: str
    format: str | None = None
    vocabulary: str | None = None
    text: str | None = None
    id: str | None = None
    drop: list[str] = []  # noqa: RUF012 - never changed
    header: bool | None = None
    encoding: str = "utf-8"

    def named(self) -> dict[str, Any]:
        """Return the source as a run notes it, to be found from any folder."""
        path = self.path if is_url(self.path) else str(Path(self.path).resolve())
        return {**self._asdict(), "path": path}


class Goal(NamedTuple):
    """When to stop."""

    rhat: float
    ess: float


def read_data(source: Source, is_corpus: bool, before: Source | None = None) -> Any:
    """Return a table, or a corpus of documents.

    What was said of columns of the data ``before`` holds for those that are there again.
    """
    if is_url(source.path):
        raise InvalidValue(
            f"{source.path}: a URL is for the workers of a cluster (--scheduler); without one, "
            "fetch the file first"
        )
    with data_errors():
        if is_corpus:
            return read_corpus(
                source.path,
                source.format,
                vocabulary=source.vocabulary,
                text=source.text,
                encoding=source.encoding,
            )
        choice = Choice(source.id, source.drop, source.header, source.encoding)
        if before is not None:
            choice = choice._replace(usual_id=before.id, usual_drop=before.drop)
        return read_table(source.path, choice)


def is_corpus(source: Source, model: str) -> bool:
    """Return whether data are documents: the model says so, or the form of the file."""
    if model != AUTO:
        return model in OF_DOCUMENTS
    path = Path(source.path)
    name = path.name.removesuffix(".gz")
    given = source.format or source.text or source.vocabulary
    return bool(given) or path.is_dir() or name.endswith((".jsonl", ".ldac", ".lda-c"))


def prepare(
    source: Source, model: str, parameters: Mapping[str, Any], say: Callable[[str], None]
) -> tuple[SampledEstimator, Any]:
    """Return an unfitted estimator and its data."""
    if parameters.get("engine") == DASK:
        raise InvalidValue(f"engine={DASK!r} needs a cluster: --scheduler ADDRESS")
    X = read_data(source, is_corpus(source, model))
    if model == AUTO:
        model, reason = choose(X)
        say(f"{MODELS[model].__name__}, because {reason}; --model names another")
    estimator = make_estimator(model, parameters)
    estimator._source = source.named()
    return estimator, X


def prepare_elsewhere(
    source: Source, model: str, parameters: Mapping[str, Any]
) -> tuple[SampledEstimator, Any]:
    """Return an unfitted estimator, and a pattern of files that the workers of a cluster read."""
    if model == AUTO:
        raise InvalidValue(
            "model: the data are read by the workers of the scheduler; name a model, such as "
            "--model bernoulli"
        )
    for name, default in Source._field_defaults.items():
        if getattr(source, name) != default:
            raise InvalidValue(
                f"{name}={shown(getattr(source, name))} has no effect with --scheduler"
            )
    if parameters.get("engine", DASK) != DASK:
        raise InvalidValue(f"engine={shown(parameters['engine'])}: with --scheduler it is {DASK}")
    estimator = make_estimator(model, {**parameters, "engine": DASK})
    estimator._source = source.named()
    return estimator, estimator._source["path"]


def prepare_resume(
    path: Path, data: str | None, n_draws: int | None, is_elsewhere: bool = False
) -> tuple[SampledEstimator, Any]:
    """Return the estimator of a run, and its data, read again from where they were.

    If they are elsewhere, that is their pattern of files.
    """
    _, configuration = open_run(path)
    model = unfitted(path, configuration)
    if n_draws is not None:
        if check_whole_number("draws", n_draws, 1) < model.n_draws:
            raise InvalidValue(
                f"draws={n_draws} is fewer than the {model.n_draws} that {path} was asked for; "
                "a run can only grow"
            )
        model.set_params(n_draws=n_draws)
    source = _noted_source(configuration)
    if source is None:
        raise InvalidValue(
            f"{path}: the run was begun from Python, where its data are; go on with fit(X) of an "
            f"estimator with run_dir={str(path)!r}"
        )
    model._source = source._asdict()
    if data is not None:
        source = source._replace(path=data)
    if is_elsewhere != (getattr(model, "engine", None) == DASK):
        raise InvalidValue(
            f"{path}: the run is not one of a cluster; go on without --scheduler"
            if is_elsewhere
            else f"{path}: the run is one of a cluster; go on with --scheduler ADDRESS"
        )
    if is_elsewhere:
        return model, source.path
    names = {kind.__name__: name for name, kind in MODELS.items()}
    X = read_data(source, names.get(type(model).__name__) in OF_DOCUMENTS)
    return model, X


def _noted_source(configuration: Mapping[str, Any]) -> Source | None:
    """Return where the data of a run are; None if it was begun from Python."""
    noted = configuration.get("source")
    if not isinstance(noted, dict) or noted.keys() - set(Source._fields):
        return None
    return Source(**noted)


def fit(
    model: SampledEstimator,
    X: Any,
    goal: Goal | None = None,
    max_draws: int | None = None,
    say: Callable[[str], None] = print,
    scheduler: str | None = None,
) -> bool:
    """Fit, and go on until a goal is met if there is one; return whether it was interrupted.

    A goal is looked at when all chains have ``n_draws``, twice as many, three times and so on, so
    that the same seed stops at the same draw. ``scheduler`` is the address of a cluster's.
    """
    if scheduler is not None:
        with dask_workers.connect(scheduler, is_default=True):
            return fit(model, X, goal, max_draws, say)
    if goal is None:
        return model.fit(X)._interrupted
    step = check_whole_number("draws", model.n_draws, 1)
    most = check_whole_number("max-draws", 10 * step if max_draws is None else max_draws, step)
    while True:
        is_last = model.n_draws + step > most
        with warnings.catch_warnings():
            if not is_last:
                warnings.simplefilter("ignore", ConvergenceWarning)
            if model.fit(X)._interrupted:
                return True
        rows = describe(scalars_of(model.idata_))
        worst = max((row.rhat for row in rows if not np.isnan(row.rhat)), default=float("nan"))
        fewest = min((row.ess_bulk for row in rows if row.ess_bulk > 0), default=float("nan"))
        say(f"{model.n_draws} draws: R-hat up to {worst:.3f}, {fewest:.0f} effective draws or more")
        if is_last or meets(rows, *goal):
            return False
        model.set_params(n_draws=model.n_draws + step)


def found_by(model: SampledEstimator) -> str:
    """Say in a line what a fit has found."""
    traces = model._traces
    found = " + ".join(str(len(trace)) for trace in traces) + " draws"
    if not hasattr(model, "tree_"):
        return found
    sizes = np.concatenate([trace.values["n_nodes"] for trace in traces])
    low, high = np.quantile(sizes, (0.05, 0.95), method="nearest")
    best = model.tree_.n_nodes
    return (
        f"{found}; the best tree has {best} {'node' if best == 1 else 'nodes'}, "
        f"nine in ten draws have {low:.0f} to {high:.0f}"
    )


def parse_goal(text: str) -> Goal:
    """Return the goal that is written like ``rhat=1.05,ess=400``."""
    found = {"rhat": float("inf"), "ess": 0.0}
    for part in text.split(","):
        name, _, number = part.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = float("nan")
        if name.strip() not in found or not value > 0:
            raise InvalidValue(f"until={shown(text)} is not like rhat=1.05,ess=400")
        found[name.strip()] = check_positive(name.strip(), value)
    return Goal(**found)


class ChainStatus(NamedTuple):
    """How far a chain is."""

    chain: int
    n_draws: int
    n_wanted: int
    sweep: int
    n_sweeps: int
    log_likelihood: float


class Status(NamedTuple):
    """How far a run is."""

    estimator: str
    owner: int | None
    """The process that writes it, if one does."""
    chains: list[ChainStatus]
    rhat: dict[str, float]
    """Of some scalars so far; nothing while there are too few draws to tell."""

    @property
    def is_complete(self) -> bool:
        """Whether all draws that were asked for are there."""
        return all(chain.n_draws >= chain.n_wanted for chain in self.chains)


def status(path: Path) -> Status:
    """Return how far a run is; it may be running in another process."""
    run, configuration = open_run(path)
    model = unfitted(path, configuration)
    lengths = model._lengths()
    chains = []
    traces = [run.chain(number).trace() for number in range(lengths.n_chains)]
    for number, trace in enumerate(traces):
        n_draws, sweep = run.chain(number).progress()
        last = trace.values.get("log_likelihood", np.empty(0))
        chains.append(
            ChainStatus(
                number,
                n_draws,
                lengths.n_draws,
                sweep,
                lengths.n_sweeps,
                float(last[-1]) if last.size else float("nan"),
            )
        )
    return Status(type(model).__name__, run.owner(), chains, rhat_so_far(traces))


def predict(path: Path, source: Source) -> pd.DataFrame:
    """Return for each row of new data its id, node, probabilities and log density."""
    import pandas as pd

    model = load_run(path)
    names = {kind.__name__: name for name, kind in MODELS.items()}
    before = _noted_source(open_run(path)[1])
    X = read_data(source, names.get(type(model).__name__) in OF_DOCUMENTS, before)
    with data_errors():
        if not isinstance(X, Corpus):
            X = _columns_of_fit(model, X, source.path)
        densities = model.score_samples(X)
        found: dict[str, Any]
        if hasattr(model, "tree_"):
            proba = model.predict_proba(X)
            nodes = np.argmax(proba[:, :-1], axis=1)
            found = {
                "node": nodes,
                "probability": proba[np.arange(nodes.size), nodes],
                "new_node": proba[:, -1],
            }
        else:
            shares = model.transform(X)
            found = {f"topic_{k}": shares[:, k] for k in range(shares.shape[1])}
    if isinstance(X, Corpus):
        ids: Any = X.ids
    else:
        ids = X.index if hasattr(X, "index") else range(densities.size)
    return pd.DataFrame({"id": list(ids), **found, "log_density": densities})


def _columns_of_fit(model: Any, X: Any, path: str) -> Any:
    """Return new rows with the columns of the fit, in its order; raise if they are others."""
    wanted = getattr(model, "feature_names_in_", None)
    if wanted is None or not hasattr(X, "columns"):
        if X.shape[1] != model.n_features_in_:
            raise InvalidValue(
                f"{path}: there are {X.shape[1]} columns; the run has {model.n_features_in_}"
            )
        return X
    missing = [name for name in wanted if name not in X.columns]
    if missing:
        raise InvalidValue(f"{path}: there is no column {shown(missing[0])}, which the run has")
    more = [name for name in X.columns if name not in set(wanted)]
    if more:
        raise InvalidValue(
            f"{path}: the run has no column {shown(more[0])}; leave it out (--drop), or say that "
            "it has names of rows (--id)"
        )
    return X[list(wanted)]
