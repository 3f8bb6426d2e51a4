"""Families of laws for the atoms of a measure, each with a conjugate base measure H.

An atom is a row ``phi`` of floats. A family is one file: a named tuple with the parameters of H,
a compiled function for each entry of :class:`Family`, and one call of :func:`register`. Functions
are chosen by the type of that tuple, as in :mod:`treestick.contract`. ``values`` are the data in
the form that suits the family; datum ``n`` is row n.
"""

# mypy: disable-error-code="empty-body"
# The functions below that have only a docstring are replaced by the decorator above them.

from collections.abc import Callable
from typing import Any, NamedTuple

from treestick._jit import standing_for


class Family(NamedTuple):
    """The functions of one family. All are compiled, and described by their namesakes below."""

    sizes: Callable[..., Any]
    draw_atom: Callable[..., Any]
    log_atom: Callable[..., Any]
    log_density: Callable[..., Any]
    log_marginal: Callable[..., Any]
    add_to_atom: Callable[..., Any]
    draw_atom_given: Callable[..., Any]
    simulate_at: Callable[..., Any]


_families: dict[type, Family] = {}


def register(base: type, family: Family) -> None:
    """Make a family known by the class of its base measure."""
    _families[base] = family


_stands_for_the_families = standing_for(_families)


@_stands_for_the_families
def sizes(base: Any) -> tuple[int, int]:
    """Return how many floats an atom takes, and the statistics of its data."""


@_stands_for_the_families
def draw_atom(stream: Any, base: Any, phi: Any) -> None:
    """Write a draw from H into ``phi``."""


@_stands_for_the_families
def log_atom(base: Any, phi: Any) -> float:
    """Return the log density of H at ``phi``."""


@_stands_for_the_families
def log_density(base: Any, values: Any, n: int, phi: Any) -> float:
    """Return the log density of datum ``n`` at an atom, constants included."""


@_stands_for_the_families
def log_marginal(base: Any, values: Any, n: int) -> float:
    """Return the log density of datum ``n`` at an atom drawn from H, integrated over it."""


@_stands_for_the_families
def add_to_atom(base: Any, values: Any, n: int, statistics: Any) -> None:
    """Add datum ``n`` to the statistics of its atom."""


@_stands_for_the_families
def draw_atom_given(stream: Any, base: Any, statistics: Any, phi: Any) -> None:
    """Write a draw of an atom given its data into ``phi``."""


@_stands_for_the_families
def simulate_at(stream: Any, base: Any, phi: Any, values: Any, n: int) -> None:
    """Overwrite datum ``n`` by a draw at an atom."""
