"""Tables in files: CSV and TSV with names and ids, Parquet, NumPy's, MatrixMarket.

What is returned goes to an estimator as it is: a data frame whose columns have names, and whose
index has the ids, an array, or a sparse array. Nothing is guessed: which line has the names and
which column the ids can be said, and where it is not clear it has to be.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treestick.inputs import InvalidValue, shown
from treestick.io.corpus import decode, listed
from treestick.io.npy import read_npy, read_npz
from treestick.io.unpacking import check_extent, read_bytes

if TYPE_CHECKING:
    import pandas as pd

OTHERS = (";", "\t", "|", ",")
"""What stands between cells in files of other programs."""
OF_IDS = ("", "id")
"""Names of a first column that has ids, in small letters."""

MISSING = ("", "na", "n/a", "null", "none", "?", "-", ".")
"""How other programs write that there is no value; "nan" is a number that models refuse."""


class Choice(NamedTuple):
    """Which parts of a table are data."""

    id: str | None = None
    """The column with names of rows."""
    drop: Sequence[str] = ()
    """Columns to leave out."""
    header: bool | None = None
    """Whether the first line has the names of columns; None if it has to be clear."""
    encoding: str = "utf-8"
    usual_id: str | None = None
    """The column with names of rows where it is there and no other is named."""
    usual_drop: Sequence[str] = ()
    """Columns to leave out where they are there."""


def read_table(path: str | Path, choice: Choice | None = None) -> Any:
    """Return the table in a file; its ending says the format."""
    choice = Choice() if choice is None else choice
    if not Path(path).is_file():
        raise InvalidValue(f"{path}: there is no such file")
    ending = Path(path).name.removesuffix(".gz").rpartition(".")[2].lower()
    if ending not in READERS:
        raise InvalidValue(
            f"{path}: the name does not say its format; it should end in one of "
            f"{', '.join(READERS)}"
        )
    return READERS[ending](path, choice)


def _read_csv(path: str | Path, choice: Choice) -> pd.DataFrame:
    return _read_delimited(path, choice, ",")


def _read_tsv(path: str | Path, choice: Choice) -> pd.DataFrame:
    return _read_delimited(path, choice, "\t")


def _read_delimited(path: str | Path, choice: Choice, delimiter: str) -> pd.DataFrame:
    import pandas as pd

    content = decode(read_bytes(path), path, choice.encoding).removeprefix("\ufeff")
    lines = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter, strict=True)
    csv.field_size_limit(2**31 - 1)
    try:
        rows = [(lines.line_num, cells) for cells in lines if cells]
    except csv.Error as error:
        raise InvalidValue(f"{path}, line {lines.line_num}: {error}") from error
    if not rows:
        raise InvalidValue(f"{path} is empty")
    names = _names(path, choice, rows[0][1])
    if choice.header is not False:
        rows = rows[1:]
    if not rows:
        raise InvalidValue(f"{path}: there are names and no rows")
    kept, id_place = _places(path, choice, names)
    values = np.empty((len(rows), len(kept)))
    for k, (line, cells) in enumerate(rows):
        if len(cells) != len(names):
            _check_separator(path, names)
            raise InvalidValue(f"{path}, line {line}: {len(cells)} cells under {len(names)} names")
        try:
            values[k] = [float(cells[place]) for place in kept]
        except ValueError:
            _check_separator(path, names)
            raise _bad_cell(path, line, cells, names, kept) from None
    ids = None if id_place is None else _ids(path, [cells[id_place] for _, cells in rows])
    columns = [names[place] for place in kept]
    return pd.DataFrame(values, index=ids, columns=columns)


def _names(path: str | Path, choice: Choice, first: list[str]) -> list[str]:
    if choice.header is False:
        return [str(k) for k in range(len(first))]
    if choice.header is None and all(_is_number(cell) for cell in first):
        raise InvalidValue(
            f"{path}, line 1: these are numbers; say whether they are names of columns (--header) "
            "or data (--no-header)"
        )
    names = [cell.strip() for cell in first]
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice:
        raise InvalidValue(f"{path}, line 1: two columns have the name {shown(min(twice))}")
    return names


def _check_separator(path: str | Path, names: list[str]) -> None:
    """Raise if what cannot be read as a table may be one with other separators."""
    other = next((mark for mark in OTHERS if mark in names[0]), None)
    if len(names) == 1 and other is not None:
        raise InvalidValue(
            f"{path}, line 1: one column, {shown(names[0])}; if {other!r} stands between columns, "
            "save the file with commas there (.csv) or tabs (.tsv), and with points in numbers"
        )


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _places(path: str | Path, choice: Choice, names: list[str]) -> tuple[list[int], int | None]:
    """Return which columns are data, and which one has the ids."""
    for name in (*choice.drop, *([] if choice.id is None else [choice.id])):
        if name not in names:
            raise InvalidValue(f"{path}: there is no column {name!r}; there are {listed(names)}")
    id_place = None
    if choice.id is not None:
        id_place = names.index(choice.id)
    elif choice.usual_id in names:
        id_place = names.index(choice.usual_id)
    elif choice.header is not False and names[0].lower() in OF_IDS:
        id_place = 0
    dropped = {*choice.drop, *choice.usual_drop}
    kept = [k for k, name in enumerate(names) if k != id_place and name not in dropped]
    if not kept:
        raise InvalidValue(f"{path}: no columns are left to be data")
    return kept, id_place


def _bad_cell(
    path: str | Path, line: int, cells: list[str], names: list[str], kept: list[int]
) -> InvalidValue:
    place = next(k for k in kept if not _is_number(cells[k]))
    where = f"{path}, line {line}, column {shown(names[place])}"
    if cells[place].strip().lower() in MISSING:
        return InvalidValue(
            f"{where}: a value is missing ({shown(cells[place])}); fill it in, or leave out the "
            "row, or the column (--drop)"
        )
    return InvalidValue(
        f"{where}: {shown(cells[place])} is not a number; if the column has names of rows, say so "
        "(--id), or leave it out (--drop)"
    )


def _ids(path: str | Path, ids: list[str]) -> list[str]:
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            raise InvalidValue(f"{path}: two rows have the id {shown(name)}")
        seen.add(name)
    return ids


def _read_parquet(path: str | Path, choice: Choice) -> pd.DataFrame:
    import pandas as pd

    try:
        frame = pd.read_parquet(path)
    except ImportError as error:
        message = f"{path}: Parquet needs pyarrow: python -m pip install 'treestick[export]'"
        raise InvalidValue(message) from error
    except Exception as error:  # of another library's reader, which has many
        line = " ".join(str(error).split())
        raise InvalidValue(f"{path}: cannot be read as Parquet: {line[:200]}") from error
    frame.columns = frame.columns.map(str)
    names = list(frame.columns)
    if not names:
        raise InvalidValue(f"{path}: there are no columns")
    kept, id_place = _places(path, choice._replace(header=True), names)
    if id_place is not None:
        frame.index = pd.Index(_ids(path, [str(name) for name in frame.iloc[:, id_place]]))
    return frame.iloc[:, kept]


def _read_npy(path: str | Path, choice: Choice) -> Any:
    return _without_columns(path, choice, read_npy(path))


def _read_npz(path: str | Path, choice: Choice) -> Any:
    return _without_columns(path, choice, read_npz(path))


def _read_matrix_market(path: str | Path, choice: Choice) -> Any:
    return _without_columns(path, choice, read_mtx(path))


def _without_columns(path: str | Path, choice: Choice, table: Any) -> Any:
    if choice.id is not None or choice.drop:
        raise InvalidValue(f"{path}: columns have no names in this format")
    return table


def read_mtx(path: str | Path) -> Any:
    """Return the sparse table in a MatrixMarket file."""
    from scipy import sparse
    from scipy.io import mminfo, mmread

    content = read_bytes(path)
    try:
        n_rows, n_columns, n_entries, form, field, _ = mminfo(io.BytesIO(content))
        check_extent(path, n_rows, n_columns)
        if 2 * n_entries > len(content) + 2:  # a digit and a blank for each, at least
            raise InvalidValue(f"{path}: the head says {n_entries} entries, more than there is")
        if field == "complex":
            raise InvalidValue(f"{path}: complex numbers are not supported")
        found: Any = mmread(io.BytesIO(content), spmatrix=False)
    except (ValueError, OverflowError, TypeError, MemoryError) as error:
        if isinstance(error, InvalidValue):
            raise
        raise InvalidValue(f"{path}: {' '.join(str(error).split())}") from error
    if 0 in found.shape:
        raise InvalidValue(f"{path} is empty: its shape is {found.shape}")
    return found if form == "array" else sparse.csr_array(found)


READERS: dict[str, Callable[[str | Path, Choice], Any]] = {
    "csv": _read_csv,
    "tsv": _read_tsv,
    "parquet": _read_parquet,
    "npy": _read_npy,
    "npz": _read_npz,
    "mtx": _read_matrix_market,
}
