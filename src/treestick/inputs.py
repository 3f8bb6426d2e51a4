"""Errors for bad input, and the checks of single numbers.

Every message is one line that says what was given, under which name, and what is needed, so that
the command line can print it as it is. Both errors are what Python programmers expect
(``ValueError``, ``TypeError``); their common base lets the command line tell a user's slip, which
gets one line, from a bug of ours, which keeps its traceback.
"""

import contextlib
import math
import numbers
from collections.abc import Iterator
from typing import NamedTuple


class InputError(Exception):
    """What the user gave cannot be used. The message is one line."""

    is_of_data = False
    """Whether the data are wrong, rather than what was asked for."""


class InvalidValue(InputError, ValueError):
    """The type is right, the value is not."""


class InvalidType(InputError, TypeError):
    """The value has the wrong type."""


@contextlib.contextmanager
def data_errors() -> Iterator[None]:
    """Mark errors that are raised within as those of data."""
    try:
        yield
    except InputError as error:
        error.is_of_data = True
        raise


def shown(value: object) -> str:
    """Return ``value`` as it was written, on one short line."""
    line = " ".join(repr(value).split())
    return line if len(line) <= 60 else f"{line[:57]}..."


def check_whole_number(name: str, value: object, low: int, high: int | None = None) -> int:
    """Return ``value`` as an int, if it is a whole number from ``low`` to ``high``."""
    needed = f"a whole number >= {low}" if high is None else f"a whole number from {low} to {high}"
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InvalidType(f"{name}={shown(value)} is not {needed}")
    number = int(value)
    if number < low or (high is not None and number > high):
        raise InvalidValue(f"{name}={shown(number)} is not {needed}")
    return number


def check_real(name: str, value: object) -> float:
    """Return ``value`` as a float, if it is a finite real number."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidType(f"{name}={shown(value)} is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidValue(f"{name}={shown(value)} is not a finite number")
    return number


def check_positive(name: str, value: object, most: float = math.inf) -> float:
    """Return ``value`` as a float, if it is a finite number above zero and at most ``most``."""
    number = check_real(name, value)
    if not 0.0 < number <= most:
        limits = "above 0" if most == math.inf else f"above 0 and at most {most:g}"
        raise InvalidValue(f"{name}={number} must be {limits}")
    return number


class Uniform(NamedTuple):
    """A uniform prior on an interval: the hyperparameter is inferred.

    Wherever a hyperparameter is asked for, the tuple ``(low, high)`` means the same, and a number
    means that it is fixed.
    """

    low: float
    high: float


class Bounded(NamedTuple):
    """A hyperparameter: where it starts, and between what; equal bounds if it is fixed."""

    start: float
    low: float
    high: float


def check_hyperparameter(
    name: str, value: object, most: float = math.inf, may_be_zero: bool = False
) -> Bounded:
    """Return a number or the two ends of an interval, if they are above 0 and at most ``most``.

    An inferred one starts at the geometric mean of its bounds (in the middle, where they may be 0).
    """
    if not isinstance(value, tuple):
        number = _check_bound(name, value, most, may_be_zero)
        return Bounded(number, number, number)
    if len(value) != 2:
        raise InvalidValue(f"{name}={shown(value)} is not an interval; give (low, high)")
    low = _check_bound(f"{name}: low end", value[0], most, may_be_zero)
    high = _check_bound(f"{name}: high end", value[1], most, may_be_zero)
    if not low < high:
        raise InvalidValue(f"{name}={shown(tuple(value))}: the low end must be below the high end")
    start = 0.5 * (low + high) if may_be_zero else math.sqrt(low) * math.sqrt(high)
    return Bounded(start, low, high)


def _check_bound(name: str, value: object, most: float, may_be_zero: bool) -> float:
    if may_be_zero and check_real(name, value) == 0.0:
        return 0.0
    return check_positive(name, value, most)
