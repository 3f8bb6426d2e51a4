"""Real vectors, and hyperparameters with a value for each feature."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from treestick.inputs import (
    InvalidType,
    InvalidValue,
    check_hyperparameter,
    check_positive,
    shown,
)
from treestick.io import read_reals
from treestick.moves.state import Floats
from treestick.moves.tasks import block_size, join_in_pairs

LARGEST = 1e150
"""Data beyond it cannot be squared."""


class Variances(NamedTuple):
    """Where variances start, and between what, for each feature; equal bounds if fixed."""

    start: Floats
    low: Floats
    high: Floats


def read_vectors(X: Any, model: str) -> Floats:
    """Return X as an array of real numbers that can be squared, or raise."""
    if sparse.issparse(X):
        raise InvalidType(
            f"{model} does not take sparse data, which lose their zeros when they are centred; "
            "give X.toarray()"
        )
    values = read_reals(X, model)
    too_large = np.abs(values) > LARGEST
    if too_large.any():
        row, column = (int(k) for k in np.argwhere(too_large)[0])
        name = X.columns[column] if hasattr(X, "columns") else column
        raise InvalidValue(
            f"row {row}, column {name!r}: {values[row, column]:g} is too large to be squared; "
            "rescale this feature"
        )
    return values


class Moments(NamedTuple):
    """What is known of some rows: of each feature, the mean and how far values are from it."""

    n_rows: int
    mean: Floats
    squares: Floats
    """Sum of the squared distances from the mean."""
    largest: Floats
    """Absolute value."""


def moments_of(values: Floats, n_data: int | None = None) -> Moments:
    """Return the moments of rows, which may be some of ``n_data``: a shard of them.

    Blocks of rows are joined over the binary tree (:mod:`treestick.moves.tasks`), so those of all
    rows have the same bits whatever the shards.
    """
    size = int(block_size(values.shape[0] if n_data is None else n_data))
    blocks = (values[start : start + size] for start in range(0, values.shape[0], size))
    joined: Moments = join_in_pairs(map(_moments_of_block, blocks), join_moments)
    return joined


def _moments_of_block(values: Floats) -> Moments:
    from_first = values - values[0]  # nothing is rounded where all are the same
    mean = from_first.mean(axis=0)
    squares = np.square(from_first - mean).sum(axis=0)
    return Moments(values.shape[0], values[0] + mean, squares, np.abs(values).max(axis=0))


def join_moments(one: Moments, other: Moments) -> Moments:
    """Return the moments of all rows of two."""
    n_rows = one.n_rows + other.n_rows
    share = other.n_rows / n_rows
    apart = other.mean - one.mean
    return Moments(
        n_rows,
        one.mean + share * apart,
        one.squares + other.squares + one.n_rows * share * np.square(apart),
        np.maximum(one.largest, other.largest),
    )


def location_and_scale(moments: Moments) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Return mean and standard deviation of each feature, and which are constant.

    The unit of a constant feature is 1; rounding leaves a little in its standard deviation.
    """
    scale = np.sqrt(moments.squares / moments.n_rows)
    is_constant = scale <= np.maximum(1e-13 * moments.largest, 1.0 / LARGEST)
    scale[is_constant] = 1.0
    return moments.mean, scale, is_constant


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
