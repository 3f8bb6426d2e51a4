"""States of chains as stored values: named tuples in named tuples, with arrays and numbers.

What is stored is a *structure*, plain JSON, and the arrays that it refers to by name. A structure
names types, but nothing is imported or called for that: the reader says which named tuples may be
there, and their fields have to be the same.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from treestick.store.arrays import Array, Packed, Unreadable, lossless, pack, unpack


class Stored(NamedTuple):
    """A value as it is stored."""

    structure: str
    arrays: dict[str, Packed]


def store_value(value: Any) -> Stored:
    """Return a nested named tuple as a structure and arrays, bit for bit."""
    arrays: dict[str, Packed] = {}
    structure = _written(value, "value", arrays)
    return Stored(json.dumps(structure), arrays)


def _written(value: Any, path: str, arrays: dict[str, Packed]) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return {"float": float(value).hex()}
    if isinstance(value, np.ndarray):
        arrays[path] = pack(lossless(value))
        return {"array": path, "dtype": value.dtype.newbyteorder("<").str}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = {
            name: _written(part, f"{path}.{name}", arrays)
            for name, part in zip(value._fields, value, strict=True)
        }
        return {"type": type(value).__name__, "fields": fields}
    raise TypeError(f"{path}: {type(value).__name__} cannot be stored")


def restore_value(stored: Stored, types: Iterable[type]) -> Any:
    """Return the value that was stored, or raise :class:`Unreadable`.

    ``types`` are the named tuples that may be in it.
    """
    try:
        structure = json.loads(stored.structure)
        return _restored(structure, stored.arrays, {kind.__name__: kind for kind in types})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        if isinstance(error, Unreadable):
            raise
        raise Unreadable(f"a state is not as it was written ({error})") from error


def _restored(structure: Any, arrays: Mapping[str, Packed], types: Mapping[str, type]) -> Any:
    if structure is None or isinstance(structure, bool | int):
        return structure
    if "float" in structure:
        return float.fromhex(structure["float"])
    if "array" in structure:
        return unpack(arrays[structure["array"]], _known_dtype(structure["dtype"]))
    kind: Any = types.get(structure["type"])
    if kind is None or list(kind._fields) != list(structure["fields"]):
        raise Unreadable(f"a state has {structure['type']!r}, which this model does not")
    return kind(*(_restored(part, arrays, types) for part in structure["fields"].values()))


def _known_dtype(name: str) -> np.dtype[Any]:
    if name not in ("|b1", "|u1", "<i4", "<i8", "<u8", "<f4", "<f8"):
        raise Unreadable(f"{name!r} is not a type of arrays in states")
    return np.dtype(name)


def arrays_of(value: Any, path: str = "value") -> dict[str, Array]:
    """Return all arrays in a nested named tuple, by their path."""
    if isinstance(value, np.ndarray):
        return {path: value}
    found: dict[str, Array] = {}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        for name, part in zip(value._fields, value, strict=True):
            found |= arrays_of(part, f"{path}.{name}")
    return found
