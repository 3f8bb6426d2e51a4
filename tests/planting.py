"""Plant a bug in a copy of a module, to show that the tests would catch it."""

import importlib
import types
from pathlib import Path


def planted(module_name: str, correct: str, wrong: str) -> types.ModuleType:
    """Return a copy of the module in which one line of source is replaced.

    The copy has no file, so its compiled functions are not cached; everything that it imports is
    the real thing. A line that is no longer there, or is there twice, is an error: a planted bug
    that plants nothing would let its test pass for ever.
    """
    module = importlib.import_module(module_name)
    assert module.__file__ is not None
    source = Path(module.__file__).read_text(encoding="utf-8")
    if source.count(correct) != 1:
        raise ValueError(f"{correct!r} stands {source.count(correct)} times in {module_name}")
    copy = types.ModuleType(f"planted_{module_name.replace('.', '_')}")
    exec(compile(source.replace(correct, wrong), "<planted>", "exec"), copy.__dict__)
    return copy
