"""Sequences whose elements are made when they are asked for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar, overload

from treestick.inputs import InvalidType

T = TypeVar("T")


class Lazy(Sequence[T]):
    """A sequence of draws: ``len``, indices from either end, slices (lists) and loops."""

    @abstractmethod
    def _read(self, number: int) -> T:
        """Return one element, numbered from 0."""

    @overload
    def __getitem__(self, position: int) -> T: ...
    @overload
    def __getitem__(self, position: slice) -> list[T]: ...
    def __getitem__(self, position: int | slice) -> T | list[T]:
        if isinstance(position, slice):
            return [self._read(k) for k in range(*position.indices(len(self)))]
        if not hasattr(position, "__index__"):
            raise InvalidType(f"draws are numbered, not named: {position!r}")
        number = position.__index__()
        if not -len(self) <= number < len(self):
            raise IndexError(f"there is no draw {number}: there are {len(self)} draws")
        return self._read(number % len(self))
