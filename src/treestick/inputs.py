"""Errors for bad input, and the checks of single numbers.

Every message is one line that says what was given, under which name, and what is needed, so that
the command line can print it as it is. Both errors are what Python programmers expect
(``ValueError``, ``TypeError``); their common base lets the command line tell a user's slip, which
gets one line, from a bug of ours, which keeps its traceback.
"""

import math
import numbers


class InputError(Exception):
    """What the user gave cannot be used. The message is one line."""


class InvalidValue(InputError, ValueError):
    """The type is right, the value is not."""


class InvalidType(InputError, TypeError):
    """The value has the wrong type."""


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
