"""Arrays as bytes, and back without trust.

Rule 1. An array is stored as little-endian bytes in C order, beside its dtype and shape; nothing is
pickled.
Rule 2. Disk space is what counts there: whole numbers take the smallest signed type that fits, and
parameters float32, unless a value is too large or too small for that. In memory types must not
depend on values, because compiled code is compiled for each: what is read has a type that the
reader names.
Rule 3. A dtype is one of a few, and a shape has to agree with the number of bytes before an array
is made of them. A forged one costs nothing.
"""

import json
import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

DTYPES = ("|b1", "|i1", "|u1", "<i2", "<i4", "<i8", "<u8", "<f4", "<f8")
MOST_AXES = 4
Array = npt.NDArray[Any]


class Packed(NamedTuple):
    """An array as it is stored."""

    dtype: str
    shape: str
    """As JSON."""
    content: bytes


class Unreadable(ValueError):
    """Bytes are not those of an array."""


def smallest(values: Array) -> Array:
    """Return whole numbers in the smallest signed type that has them."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    return values.astype(np.min_scalar_type(min(low, ~high)))  # ~high < 0 fits where high does


def single(values: Array) -> Array:
    """Return floats as float32, unless that lacks the range."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = values.astype(np.float32)
    lost = (np.isinf(rounded) != np.isinf(values)) | ((rounded == 0.0) != (values == 0.0))
    return values if lost.any() else rounded


def whole_or_single(values: Array) -> Array:
    """Return floats as whole numbers if that is what they are, else as float32."""
    whole = values.astype(np.int64) if np.abs(values).max(initial=0.0) < 2.0**53 else None
    return single(values) if whole is None or (whole != values).any() else smallest(whole)


def lossless(values: Array) -> Array:
    """Return whole numbers in the smallest type, whatever their own; anything else as it is."""
    if values.dtype.kind == "i":
        return smallest(values)
    if values.dtype.kind != "f" or not np.abs(values).max(initial=0.0) < 2.0**53:
        return values
    whole = values.astype(np.int64)
    is_same = (whole == values) & (np.signbit(values) == (whole < 0))  # -0.0 is not 0
    return smallest(whole) if is_same.all() else values


def pack(array: Array) -> Packed:
    """Return the bytes of an array, its dtype as it is."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if little.dtype.str not in DTYPES:
        raise TypeError(f"an array of {array.dtype} cannot be stored")
    return Packed(little.dtype.str, json.dumps(little.shape), little.tobytes())


def unpack(packed: Packed, dtype: npt.DTypeLike | None = None) -> Array:
    """Return an array of its own memory, as ``dtype`` if given, or raise :class:`Unreadable`."""
    if packed.dtype not in DTYPES or not isinstance(packed.content, bytes):
        raise Unreadable(f"{packed.dtype!r} is not a type of stored arrays")
    try:
        shape = json.loads(packed.shape)
    except (TypeError, ValueError, RecursionError) as error:
        raise Unreadable(f"{packed.shape!r} is not a shape") from error
    if not (
        isinstance(shape, list)
        and len(shape) <= MOST_AXES
        and all(type(n) is int and n >= 0 for n in shape)
    ):
        raise Unreadable(f"{packed.shape!r} is not a shape")
    n_bytes = math.prod(shape) * np.dtype(packed.dtype).itemsize
    if n_bytes != len(packed.content):
        raise Unreadable(f"shape {shape} takes {n_bytes} bytes; there are {len(packed.content)}")
    if math.prod(max(n, 1) for n in shape) > 2**48:  # a length of 0 makes up for any others
        raise Unreadable(f"shape {shape} is too long")
    array: Array = np.frombuffer(packed.content, packed.dtype).reshape(shape)
    if packed.dtype == "|b1" and (np.frombuffer(packed.content, np.uint8) > 1).any():
        raise Unreadable("there are truth values that are neither true nor false")
    with np.errstate(invalid="ignore"):
        return array.astype(array.dtype if dtype is None else dtype)
