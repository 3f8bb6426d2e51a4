"""Which sources compiled code can depend on: what its module imports, and what that imports.

Rule 1. Sources are read once, when the package is imported; stamps tell later that one has changed.
Rule 2. A module depends on itself and on every module of the package that its import statements
name, wherever they stand: in functions and under ``if TYPE_CHECKING`` too.
``from a import b`` names the module ``a.b`` where there is one, and ``a`` where there is none.
Rule 3. What has a package at hand can reach everything below it, whoever imported that:
``from a import b`` with a package ``a.b``, ``from a import *``, ``import a.b`` (which binds ``a``).
All of it counts.
Rule 4. On the way to ``a.b.c`` Python runs the ``__init__`` of ``a`` and of ``a.b``. They count
with their own contents, for they might change things, but not with what they import, because
nothing comes from there by name. (Else everything would depend on what ``treestick/__init__.py``
imports.) Where something is taken from an ``__init__``, it is a module like any other.
Rule 5. A module that uses ``importlib`` may import by any name, and depends on everything.
"""

import ast
import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parent


class Source(NamedTuple):
    """A source file as it was when the package was imported."""

    path: Path
    stamp: tuple[int, int] | None
    content: bytes


def stamp_of(path: Path) -> tuple[int, int] | None:
    """Return time of change and size of a file; None if it is gone."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size


def _read() -> dict[str, Source]:
    sources = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        sources[name] = Source(path, stamp_of(path), path.read_bytes())
    return sources


SOURCES = _read()
"""By the name of the module. None are found where the package is inside a zip file."""


def have_changed(modules: frozenset[str]) -> bool:
    """Say whether sources of some of these modules changed since the package was imported."""
    return any(stamp_of(SOURCES[name].path) != SOURCES[name].stamp for name in modules)


@functools.cache
def digest(modules: frozenset[str]) -> str:
    """Return a digest of the names and contents of these modules."""
    total = hashlib.sha256()
    for name in sorted(modules):
        total.update(f"{name} {len(SOURCES[name].content)}\n".encode())
        total.update(SOURCES[name].content)
    return total.hexdigest()[:24]


@functools.cache
def closure(modules: frozenset[str]) -> frozenset[str]:
    """Return all modules that code in these modules can depend on, themselves included."""
    found: set[str] = set()
    left = list(modules)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left.extend(_imports(name))
    parts = [name.split(".") for name in found]
    on_the_way = {".".join(some[:n]) for some in parts for n in range(1, len(some))}
    return frozenset(found | (on_the_way & SOURCES.keys()))


@functools.cache
def _imports(module: str) -> frozenset[str]:
    """Return the modules that import statements in ``module`` name (rules 2, 3 and 5)."""
    named: set[str] = set()
    for statement in _statements(ast.parse(SOURCES[module].content)):
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                named |= _reached_by(alias.name if alias.asname else alias.name.split(".")[0])
        elif isinstance(statement, ast.ImportFrom):
            start = _start(module, statement)
            for alias in statement.names:
                inner = start if alias.name == "*" else f"{start}.{alias.name}"
                named |= _reached_by(inner) or ({start} & SOURCES.keys())
    return frozenset(named)


def _start(module: str, statement: ast.ImportFrom) -> str:
    """Return the full name behind ``from``, in a statement of ``module``."""
    around = module.split(".")
    # One dot is the package itself in an __init__, and the package around it elsewhere.
    n_up = statement.level - (SOURCES[module].path.name == "__init__.py")
    above = around[: len(around) - n_up] if statement.level else []
    return ".".join([*above, statement.module] if statement.module else above)


def _reached_by(name: str) -> frozenset[str]:
    """Return the modules that whoever has the module ``name`` can reach through it."""
    if name.split(".")[0] == "importlib":
        name = PACKAGE.name
    if name not in SOURCES:
        return frozenset()
    return frozenset(other for other in SOURCES if f"{other}.".startswith(f"{name}."))


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements, at any level. Expressions hold none, and would take long."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield child
            yield from _statements(child)
