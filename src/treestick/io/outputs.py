"""Tables going out to files that spreadsheets and other programs open.

A text cell of a CSV file that begins with ``=``, ``+``, ``-`` or ``@`` is a formula to a
spreadsheet, and may send data away when somebody opens the file. Such cells, ids for example, get
an apostrophe in front, which spreadsheets do not show. Numbers stay as they are.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treestick.inputs import InvalidValue

if TYPE_CHECKING:
    import pandas as pd

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")
TABLES = (".csv", ".tsv", ".parquet")


def defused(cell: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULAS) else cell


def check_table(path: Path) -> Path:
    """Return ``path`` if a table can be written there: call it before the work, not after."""
    if path.suffix.lower() not in TABLES:
        raise InvalidValue(f"output={str(path)!r} must end in {', '.join(TABLES)}")
    if path.is_dir():
        raise InvalidValue(f"output={str(path)!r} is a folder; name a file")
    if not path.resolve().parent.is_dir():
        raise InvalidValue(f"output={str(path)!r}: there is no folder {str(path.parent)!r}")
    return path


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a data frame without its index, in the format that the ending names."""
    check_table(path)
    if path.suffix.lower() == ".parquet":
        require("pyarrow", "Parquet")
        with aside(path) as new:
            frame.to_parquet(new, index=False)
        return
    safe = frame.rename(columns=defused)
    for name in safe.columns[safe.dtypes.map(lambda kind: kind.kind not in "biuf")]:
        safe[name] = safe[name].map(defused)
    with aside(path) as new:
        safe.to_csv(new, index=False, sep="\t" if path.suffix.lower() == ".tsv" else ",")


def write_text(lines: Iterator[str], path: Path) -> None:
    """Write lines to a file."""
    with aside(path) as new, open(new, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def make_folder(path: Path) -> Path:
    """Return ``path``, a folder from now on."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidValue(
            f"output={str(path)!r} cannot be made a folder: {error.strerror or error}"
        ) from error
    return path


@contextlib.contextmanager
def aside(path: Path) -> Iterator[Path]:
    """Give a name beside ``path`` to write to, and move it there: whole or not at all."""
    target = path.resolve()
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as folder:
            new = Path(folder) / target.name
            yield new
            os.replace(new, target)
    except OSError as error:
        raise InvalidValue(
            f"output={str(path)!r} cannot be written: {error.strerror or error}"
        ) from error


def require(module: str, what: str) -> Any:
    """Import a library that only some formats need, or say how to get it."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InvalidValue(
            f"{what} needs {module}: python -m pip install 'treestick[export]'"
        ) from error
