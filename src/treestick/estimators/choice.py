"""Which estimator, by name or by the data, and its parameters from a file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from treestick.estimators.bernoulli import BernoulliTree
from treestick.estimators.gaussian import GaussianTree
from treestick.estimators.hdp import HDPTree
from treestick.estimators.lda import LDA
from treestick.estimators.multinomial import MultinomialTree
from treestick.estimators.sampled import SampledEstimator
from treestick.estimators.topics import TopicTree
from treestick.inputs import InvalidValue, shown
from treestick.io import Corpus

AUTO = "auto"
MODELS: dict[str, type[SampledEstimator]] = {
    "gaussian": GaussianTree,
    "bernoulli": BernoulliTree,
    "multinomial": MultinomialTree,
    "hdp": HDPTree,
    "topics": TopicTree,
    "lda": LDA,
}
"""By the name that the command line has. A model of documents is for texts as well."""
OF_DOCUMENTS = ("topics", "lda")


class Chosen(NamedTuple):
    """A model, and why."""

    name: str
    reason: str


def choose(X: Any) -> Chosen:
    """Return the model that suits data by what their values are."""
    if isinstance(X, Corpus):
        return Chosen(OF_DOCUMENTS[0], "the data are documents")
    is_sparse: bool = sparse.issparse(X)
    values = X.data if is_sparse else np.asarray(X)
    if values.dtype.kind not in "biuf":
        return Chosen("gaussian", "there are values that are not numbers")
    if np.isin(values, (0, 1)).all():
        return Chosen("bernoulli", "all values are 0 or 1")
    if (values >= 0).all() and (values == np.floor(values)).all():
        return Chosen(
            "multinomial",
            "all values are whole numbers >= 0: they are taken for counts, which are compared "
            "within rows",
        )
    kind = "negative" if (values < 0).any() else "fractional"
    return Chosen("gaussian", f"there are {kind} numbers")


def check_model(name: str) -> str:
    """Return the name of a model, or raise."""
    if name not in (AUTO, *MODELS):
        raise InvalidValue(f"model={shown(name)} is not one of {', '.join((AUTO, *MODELS))}")
    return name


def make_estimator(name: str, parameters: Mapping[str, Any]) -> SampledEstimator:
    """Return an unfitted estimator; names of parameters that it does not have are errors."""
    kind = MODELS[name]
    known = kind().get_params(deep=False)
    for given in parameters:
        if given not in known:
            raise InvalidValue(
                f"{given}={shown(parameters[given])}: {kind.__name__} has no such parameter; it "
                f"has {', '.join(known)}"
            )
    return kind(**parameters)


def read_config(path: Path) -> dict[str, Any]:
    """Return what a TOML file says: names of parameters and values, intervals as pairs."""
    try:
        content = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise InvalidValue(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidValue(f"{path}: is not TOML: {error}") from error
    return {name: _parameter(value) for name, value in content.items()}


def _parameter(value: Any) -> Any:
    is_interval = isinstance(value, list) and len(value) == 2
    if is_interval:
        return tuple(value)
    return np.array(value) if isinstance(value, list) else value
