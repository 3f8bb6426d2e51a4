"""What a run was asked for, as plain JSON, and whether two runs are the same."""

from __future__ import annotations

import datetime
import hashlib
import platform
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from treestick._version import __version__
from treestick.inputs import InvalidType, InvalidValue, Uniform, shown
from treestick.store import DamagedRun, RunFolder, RunLog
from treestick.store.values import arrays_of
from treestick.tree import Tree

FREE = ("n_draws", "n_chains", "n_jobs", "random_state", "verbose", "run_dir", "engine")
"""Parameters that may change when a run goes on; the seed is that of the run."""


def encode_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of an estimator in plain JSON, or say which cannot be stored."""
    return {
        name: _plain(name, value)
        for name, value in parameters.items()
        if name not in ("random_state", "run_dir")
    }


def _plain(name: str, value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, np.generic):
        return _plain(name, value.item())
    if isinstance(value, float):
        return value if np.isfinite(value) else {"float": str(value)}
    if isinstance(value, tuple):
        return {"interval": [_plain(name, end) for end in value]}
    if isinstance(value, Tree):
        return {"tree": value.to_dict()}
    array = np.asarray(value) if isinstance(value, np.ndarray | list) else np.empty(0, dtype=object)
    if array.dtype.kind not in "biuf":
        raise InvalidType(f"{name}={shown(value)} cannot be stored in a run")
    return {"array": array.tolist(), "dtype": array.dtype.str}


def decode_parameters(content: Any) -> dict[str, Any]:
    """Return the parameters that were encoded, or raise :class:`DamagedRun`."""
    if not isinstance(content, dict):
        raise DamagedRun("run.json: the parameters are missing")
    try:
        return {name: _from_plain(value) for name, value in content.items()}
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DamagedRun(f"run.json: the parameters cannot be read: {error}") from error


def _from_plain(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "interval" in value:
        ends = tuple(_from_plain(end) for end in value["interval"])
        return Uniform(*ends) if len(ends) == 2 else ends
    if "float" in value:
        return float(value["float"])
    if "tree" in value:
        return Tree.from_dict(value["tree"])
    dtype = np.dtype(value["dtype"])
    if dtype.kind not in "biuf":
        raise ValueError(f"{dtype} is not a type of numbers")
    return np.array(value["array"], dtype=dtype)


def fingerprint(data: Any) -> str:
    """Return a digest of data as a model sees them."""
    digest = hashlib.sha256()
    for path, array in sorted(arrays_of(data).items()):
        digest.update(f"{path} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    return f"sha256:{digest.hexdigest()}"


def versions() -> dict[str, str]:
    """Return what a run is made with."""
    import numba

    return {
        "treestick": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "platform": f"{sys.platform} {platform.machine()}",
    }


def note_features(estimator: Any, table: Any, names: Sequence[str] | None) -> None:
    """Set number and names of features, as scikit-learn has them; raise if the names are not."""
    validate_data(estimator, table, skip_check_array=True)
    if names is not None:
        estimator.feature_names_in_ = np.asarray(names, dtype=object)


def draw_seed(random_state: Any) -> int:
    """Return the seed of a run."""
    return int(check_random_state(random_state).randint(2**31 - 1))


def as_number(random_state: Any) -> int:
    """Return a number that gives the same seed again when it is the random state: itself if it is.

    None, and generators, are asked for one.
    """
    is_number = isinstance(random_state, int | np.integer)
    return int(random_state) if is_number else draw_seed(random_state)


def claim(estimator: Any, run: RunFolder, job: Any) -> int:
    """Begin a run, or take up the one that is there; return its seed.

    One that is there has to be of the same estimator, parameters and data.
    """
    if run.is_temporary:
        return draw_seed(as_number(estimator.random_state))
    features = BaseEstimator()
    note_features(features, job.known.table, job.known.names)
    wanted: dict[str, Any] = {
        "estimator": type(estimator).__name__,
        "parameters": encode_parameters(estimator.get_params(deep=False)),
        "data": {
            "fingerprint": job.fingerprint(),
            "n_data": job.n_data,
            "n_features": int(features.n_features_in_),
            "feature_names": [str(name) for name in getattr(features, "feature_names_in_", [])],
        },
    }
    run.claim()
    before, log = run.configuration(), RunLog(run.folder)
    if before is None:
        number = as_number(estimator.random_state)
        seed = draw_seed(number)
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        made = {"random_state": number, "seed": seed, "began": now, "made_with": versions()}
        run.describe_data(job.known.ids, job.known.metadata)
        run.configure({**wanted, **made, "source": estimator._source})
        log.write("began", estimator=wanted["estimator"], random_state=number, seed=seed)
        return seed
    check_same(run.folder, before, wanted)
    found, given = before.get("seed"), estimator.random_state
    if type(found) is not int:
        raise DamagedRun(f"{run.folder}: run.json has no seed")
    if isinstance(given, int | np.integer) and draw_seed(given) != found:
        raise InvalidValue(
            f"{run.folder} holds a run with another seed than random_state={shown(given)}; "
            "choose another folder, or random_state=None for the seed of the run"
        )
    run.configure({**before, "parameters": wanted["parameters"]})
    log.write("resumed", draws=run.n_per_chain())
    return found


def check_same(folder: object, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Raise if a run that is there was not asked for the same as the one that is wanted."""
    before, now = there.get("parameters", {}), here["parameters"]
    engines = before.get("engine"), now.get("engine")
    if engines.count("dask") == 1:
        raise InvalidValue(
            f"{folder} holds a run with engine={engines[0]!r}, which cannot go on with "
            f"{engines[1]!r}: where the data are, the state of a chain is; choose another folder"
        )
    for what in ("estimator", "data"):
        old, new = there.get(what), here[what]
        if what == "data":
            old, new = (d.get("fingerprint") if isinstance(d, dict) else d for d in (old, new))
        if old != new:
            raise InvalidValue(
                f"{folder} holds a run with other {what} ({shown(old)}, not {shown(new)}); "
                "choose another folder, or give it the same"
            )
    for name in sorted({*before, *now} - set(FREE)):
        if before.get(name) != now.get(name):
            raise InvalidValue(
                f"{folder} holds a run with {name}={shown(_shown(before.get(name)))}, not "
                f"{shown(_shown(now.get(name)))}; choose another folder, or give it the same"
            )


def _shown(value: Any) -> Any:
    return tuple(value["interval"]) if isinstance(value, dict) and "interval" in value else value
