"""Hyperparameters with a value for each feature."""

from typing import Any, NamedTuple

import numpy as np

from treestick.inputs import InvalidValue, check_hyperparameter, check_positive, shown
from treestick.moves.state import Floats


class Variances(NamedTuple):
    """Where variances start, and between what, for each feature; equal bounds if fixed."""

    start: Floats
    low: Floats
    high: Floats


def to_array(value: Any) -> Floats | None:
    """Return ``value`` as an array, or None if it is not one of real numbers."""
    try:
        array = np.asarray(value)
    except ValueError:  # rows of several lengths
        return None
    return array.astype(np.float64) if array.dtype.kind in "iuf" else None


def check_vector(name: str, value: Any, n_features: int) -> Floats:
    """Return a number, or an array of one for each feature, as such an array."""
    array = to_array(value)
    if array is None or array.shape not in ((), (n_features,)):
        raise InvalidValue(
            f"{name}={shown(value)} is not a number, nor an array with one for each of the "
            f"{n_features} features"
        )
    vector = np.array(np.broadcast_to(array, n_features))
    if not np.isfinite(vector).all():
        raise InvalidValue(f"{name}={shown(value)} is not finite")
    return vector


def check_variances(name: str, value: Any, n_features: int, most: float = np.inf) -> Variances:
    """Return a number, an interval, or an array of numbers for each feature, up to ``most``."""
    if isinstance(value, tuple) or np.isscalar(value) or value is None:
        bounds = check_hyperparameter(name, value, most)
        return Variances._make(np.full(n_features, bound) for bound in bounds)
    vector = check_vector(name, value, n_features)
    for k, variance in enumerate(vector.tolist()):
        check_positive(f"{name}: feature {k}", variance, most)
    return Variances(vector, vector, vector)


def check_fixed(name: str, value: Any) -> None:
    """Raise if ``value`` is an interval."""
    if isinstance(value, tuple):
        raise InvalidValue(f"{name}={shown(value)}: it cannot be inferred; give a number")
