"""A fitted estimator from a run on disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from treestick.estimators.configuration import decode_parameters
from treestick.estimators.sampled import SampledEstimator, read_traces
from treestick.inputs import InvalidType, InvalidValue, shown
from treestick.store import CONSTANTS, DamagedRun, RunFolder


def open_run(path: str | os.PathLike[str]) -> tuple[RunFolder, dict[str, Any]]:
    """Return the run in a folder, and what it was asked for."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidType(f"path={shown(path)} is not a folder")
    run = RunFolder(Path(path))
    configuration = run.configuration()
    if configuration is None:
        raise InvalidValue(f"{path}: there is no run (no run.json)")
    return run, configuration


def unfitted(path: str | os.PathLike[str], configuration: dict[str, Any]) -> SampledEstimator:
    """Return an estimator with the parameters of a run."""
    name = configuration.get("estimator")
    kind: Any = SampledEstimator._known.get(name) if isinstance(name, str) else None
    if kind is None:
        raise InvalidValue(
            f"{path}: the run is of {shown(name)}, which is not known here; import the module that "
            "defines it first"
        )
    parameters = decode_parameters(configuration.get("parameters"))
    unknown = parameters.keys() - kind().get_params(deep=False).keys()
    if unknown:
        raise DamagedRun(f"{path}: {name} has no parameter {shown(min(unknown))}")
    model: SampledEstimator = kind(**parameters, run_dir=str(path))
    return model


def load_run(path: str | os.PathLike[str]) -> Any:
    """Return the fitted estimator of a run, with the draws that are there now.

    Draws are read when they are asked for. Nothing that the run names is executed: its files hold
    numbers, and the class is looked up among those that are known.

    Parameters
    ----------
    path : path
        The folder that was given as ``run_dir``.

    Returns
    -------
    fitted estimator
        Of the class that was fitted. ``fit`` with the same data goes on with the run.
    """
    run, configuration = open_run(path)
    model = unfitted(path, configuration)
    traces = read_traces(run)
    if not traces:
        raise InvalidValue(f"{path}: the run has no draws yet; resume it")
    data = configuration.get("data")
    if not isinstance(data, dict) or type(data.get("n_features")) is not int:
        raise DamagedRun(f"{path}: run.json does not say what the data were")
    model.n_features_in_ = data["n_features"]
    names = data.get("feature_names")
    if isinstance(names, list) and names:
        if len(names) != model.n_features_in_:
            raise DamagedRun(f"{path}: {len(names)} names for {model.n_features_in_} features")
        model.feature_names_in_ = np.asarray([str(name) for name in names], dtype=object)
    found = run.chain(traces[0].chain).load(CONSTANTS, model._types())
    if found is None:
        raise DamagedRun(f"{path}: chain {traces[0].chain} has no constants")
    model.ids_, model.metadata_ = run.ids(), run.metadata()
    n_data = data.get("n_data")
    for what, column in {"ids": model.ids_, **model.metadata_}.items():
        if column is not None and len(column) != n_data:
            raise DamagedRun(f"{path}: {what}: {len(column)} values for {n_data} data")
    model._check_constants(found[1])
    model._take(run, traces, found[1])
    return model
