"""Plant a bug in a copy of a module, to show that the tests would catch it."""

import importlib
import types
from pathlib import Path
from typing import Any


def checked_source(module_name: str, correct: str) -> str:
    """Return the source of a module, or raise if ``correct`` does not stand in it exactly once."""
    module = importlib.import_module(module_name)
    assert module.__file__ is not None
    source = Path(module.__file__).read_text(encoding="utf-8")
    if source.count(correct) != 1:
        raise ValueError(f"{correct!r} stands {source.count(correct)} times in {module_name}")
    return source


def planted(module_name: str, correct: str, wrong: str) -> types.ModuleType:
    """Return a copy of the module in which one line of source is replaced.

    The copy has no file, so its compiled functions are not cached; everything that it imports is
    the real thing. A line that is no longer there, or is there twice, is an error: a planted bug
    that plants nothing would let its test pass for ever.
    """
    source = checked_source(module_name, correct)
    copy = types.ModuleType(f"planted_{module_name.replace('.', '_')}")
    exec(compile(source.replace(correct, wrong), "<planted>", "exec"), copy.__dict__)
    return copy


def planted_function(module_name: str, function_name: str, correct: str, wrong: str) -> Any:
    """Return one compiled function of a module with a bug planted in it.

    Of what it calls, only functions in which the bug is, or that call such, are copies; the others
    are the module's own and come from the cache.
    """
    module, copy = importlib.import_module(module_name), planted(module_name, correct, wrong)
    codes = {
        name: function.py_func.__code__
        for name, function in vars(copy).items()
        if getattr(function, "__module__", None) == copy.__name__ and hasattr(function, "py_func")
    }

    def is_changed(name: str) -> bool:
        own, other = codes[name], getattr(module, name).py_func.__code__
        return any(
            getattr(own, a) != getattr(other, a) for a in ("co_code", "co_consts", "co_names")
        )

    copies: set[str] = set()
    found = {name for name in codes if is_changed(name)}
    while found:
        copies |= found
        found = {
            name for name in codes.keys() - copies if copies.intersection(codes[name].co_names)
        }
    if function_name not in copies:
        raise ValueError(f"{function_name} does not call what was changed")
    for name in codes.keys() - copies:
        setattr(copy, name, getattr(module, name))
    return getattr(copy, function_name)
