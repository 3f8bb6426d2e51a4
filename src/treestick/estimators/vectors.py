"""Hyperparameters with a value for each feature."""

from typing import Any, NamedTuple

import numpy as np

from treestick.inputs import InvalidValue, check_hyperparameter, shown
from treestick.moves.state import Floats


class Variances(NamedTuple):
    """Where variances start, and between what, for each feature; equal bounds if fixed."""

    start: Floats
    low: Floats
    high: Floats


def check_vector(name: str, value: Any, n_features: int) -> Floats:
    """Return a number, or an array of one for each feature, as such an array."""
    try:
        vector = np.array(np.broadcast_to(np.asarray(value, dtype=np.float64), n_features))
    except (ValueError, TypeError):
        raise InvalidValue(
            f"{name}={shown(value)} is not a number, nor an array with one for each of the "
            f"{n_features} features"
        ) from None
    if not np.isfinite(vector).all():
        raise InvalidValue(f"{name}={shown(value)} is not finite")
    return vector


def check_variances(name: str, value: Any, n_features: int) -> Variances:
    """Return a number, an interval, or an array of numbers for each feature."""
    if isinstance(value, tuple) or np.ndim(value) == 0:
        bounds = check_hyperparameter(name, value)
        return Variances._make(np.full(n_features, bound) for bound in bounds)
    vector = check_vector(name, value, n_features)
    wrong = np.flatnonzero(vector <= 0.0)
    if wrong.size:
        k = int(wrong[0])
        raise InvalidValue(f"{name}: feature {k} has {vector[k]}; a variance is above 0")
    return Variances(vector, vector, vector)


def check_fixed(name: str, value: Any) -> None:
    """Raise if ``value`` is an interval."""
    if isinstance(value, tuple):
        raise InvalidValue(f"{name}={shown(value)}: it cannot be inferred; give a number")
