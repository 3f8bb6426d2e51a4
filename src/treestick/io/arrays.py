"""Tables that users hand to an estimator, read into the arrays that the samplers work on.

A table is a list of rows, anything that NumPy takes for a 2-D array, a pandas data frame, or a
SciPy sparse matrix or array. Rules:

1. Nothing is guessed. Text that looks like a number, dates, complex numbers with no imaginary part
   and masked cells are errors; booleans, fractions and decimals are numbers.
2. A bad cell gets one line with its row and column, its value and what is needed. It is the first
   one in reading order, whatever is wrong with it.
3. Rows are read a block at a time. Beyond what was given and what is returned this takes some 32 MB
   (or one row, if that is more). Two things are copied as a whole before: lists, into an array, and
   sparse formats other than CSR, into CSR. Sparse counts stay sparse throughout.

The messages about shapes, complex numbers, containers and negative counts hold the words that
scikit-learn's estimator checks ask for.
"""

import math
import numbers
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treestick.inputs import InputError, InvalidType, InvalidValue, check_real, shown

BLOCK_CELLS = 2**19
"""Cells read at a time: a boxed number with its pointer takes 40 bytes, which makes 20 MB."""


REAL, BIT, COUNT = "real", "bit", "count"
NEEDED = {REAL: "finite numbers", BIT: "0 or 1", COUNT: "whole numbers >= 0"}
MOST_COUNT = 2**40
"""Sums of a few thousand of them are still exact in float64."""


def read_reals(X: Any, model: str, names: Sequence[str] | None = None) -> NDArray[np.float64]:
    """Return a table of finite numbers as a new array.

    Parameters
    ----------
    X
        A table, see the head of this module.
    model
        Who needs the numbers, for the messages.
    names
        Names of the columns, for the messages. The default is the names that ``X`` has, if any.

    Returns
    -------
    ndarray of float64, C-contiguous
        It shares no memory with ``X``.
    """
    table = _table(X, model)
    reals = np.empty(table.shape)
    for rows, values in _blocks(table, model, _names(X, names)):
        reals[rows] = values
    return reals


def read_bits(
    X: Any, model: str, binarize: float | None = None, names: Sequence[str] | None = None
) -> tuple[NDArray[np.uint8], int]:
    """Return a table of bits, eight to a byte, and its number of columns.

    Parameters
    ----------
    X, model, names
        As in :func:`read_reals`.
    binarize
        Numbers above it become 1 and the others 0, the cells that a sparse table leaves out
        included. Without it, every cell has to be 0 or 1.

    Returns
    -------
    packed : ndarray of uint8, shape (n_rows, ceil(n_columns / 8))
        Column ``j`` is bit ``j % 8`` of byte ``j // 8``, the lowest bit first. The bits after the
        last column are 0.
    n_columns : int
    """
    threshold = 0.5 if binarize is None else check_real("binarize", binarize)
    table = _table(X, model)
    n_rows, n_columns = table.shape
    packed = np.empty((n_rows, -(-n_columns // 8)), dtype=np.uint8)
    kind = BIT if binarize is None else REAL
    for rows, values in _blocks(table, model, _names(X, names), kind):
        packed[rows] = np.packbits(values > threshold, axis=1, bitorder="little")
    return packed, n_columns


def read_counts(X: Any, model: str, names: Sequence[str] | None = None) -> sparse.csr_array:
    """Return a table of whole numbers, 0 or more, as a new sparse array of float64.

    Parameters are those of :func:`read_reals`. In the result, columns ascend within a row, and
    every cell stands once, if it is not 0.
    """
    table, labels = _table(X, model), _names(X, names)
    is_sparse: bool = sparse.issparse(table)
    if not is_sparse:
        blocks = [sparse.csr_array(values) for _, values in _blocks(table, model, labels, COUNT)]
        return sparse.csr_array(sparse.vstack(blocks, format="csr"))
    counts: Any = sparse.csr_array(table, copy=True)
    counts.sum_duplicates()
    values = _values(counts.data)
    good = _are_good(values, COUNT)
    for entry in np.flatnonzero(~good).tolist():
        row = int(np.searchsorted(counts.indptr, entry, side="right")) - 1
        cell, column = counts.data[entry], int(counts.indices[entry])
        raise _error(cell, _fault(cell, model, COUNT), row, column, labels)
    if counts.data.dtype.kind == "c":
        raise _complex_error(model)
    result = sparse.csr_array((values, counts.indices, counts.indptr), shape=counts.shape)
    result.eliminate_zeros()
    return result


def _names(X: Any, names: Sequence[str] | None) -> Sequence[object]:
    if names is None:
        names = getattr(X, "columns", None)
    return () if names is None else names


def _table(X: Any, model: str) -> Any:
    """Return ``X`` as an array, a CSR matrix or a data frame, with at least one row and column."""
    is_sparse: bool = sparse.issparse(X)
    if is_sparse or hasattr(X, "iloc"):
        table = X
    elif np.ma.is_masked(X):
        table = np.where(X.mask, None, X.data)
    else:
        table = _array(X, model)
    _check_shape(X, table.shape, model)
    return table.tocsr() if is_sparse else table


def _array(X: Any, model: str) -> NDArray[Any]:
    try:
        array = np.asarray(X)
    except ValueError:  # rows, or cells, of several lengths
        if not isinstance(X, Sequence):
            raise
        return _objects(X, model)
    # Beside one text, NumPy turns all the numbers of a list into texts.
    if array.ndim == 2 and array.dtype.kind in "US" and isinstance(X, Sequence):
        return _objects(X, model)
    return array


def _objects(X: Sequence[Any], model: str) -> NDArray[np.object_]:
    """Return the cells of ``X`` as they are, if all rows have the same number of them."""
    rows = [row if isinstance(row, Collection) else [row] for row in X]
    width = len(rows[0])
    cells = np.empty((len(rows), width), dtype=object)
    for i, row in enumerate(rows):
        if len(row) != width:
            raise InvalidValue(
                f"row {i} has length {len(row)} and row 0 has length {width}; "
                f"{model} needs rows of one length"
            )
        for j, cell in enumerate(row):
            cells[i, j] = cell
    return cells


def _check_shape(X: object, shape: tuple[int, ...], model: str) -> None:
    if len(shape) == 0:
        raise InvalidType(
            f"Expected 2D array, got {shown(X)} instead; {model} needs a table of rows and columns"
        )
    if len(shape) == 1:
        raise InvalidValue(
            f"Expected 2D array, got 1D array instead (shape={shape}). Reshape your data: "
            "array.reshape(-1, 1) if it is one column, array.reshape(1, -1) if it is one row"
        )
    if len(shape) > 2:
        raise InvalidValue(
            f"Found array with dim {len(shape)}, while dim <= 2 is required by {model}"
        )
    for size, what in zip(shape, ("sample(s)", "feature(s)"), strict=True):
        if size == 0:
            raise InvalidValue(
                f"Found array with 0 {what} (shape={shape}) while a minimum of 1 is required by "
                f"{model}"
            )


def _blocks(
    table: Any, model: str, names: Sequence[object], kind: str = REAL
) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Yield the numbers of some rows at a time, checked to be of a kind."""
    n_rows, n_columns = table.shape
    step = max(1, BLOCK_CELLS // n_columns)
    is_sparse: bool = sparse.issparse(table)
    is_complex = False
    for start in range(0, n_rows, step):
        rows = slice(start, start + step)
        part = table.iloc[rows] if hasattr(table, "iloc") else table[rows]
        cells = part.toarray() if is_sparse else np.asarray(part)
        values = _values(cells)
        good = _are_good(values, kind)
        if not good.all():
            raise _first_fault(cells, ~good, start, model, names, kind)
        is_complex |= cells.dtype.kind == "c"
        yield rows, values
    if is_complex:
        raise _complex_error(model)


def _complex_error(model: str) -> InputError:
    return InvalidValue(
        "Complex data not supported: all the imaginary parts are 0; "
        f"give {model} only the real parts"
    )


def _are_good(values: NDArray[np.float64], kind: str) -> NDArray[np.bool]:
    if kind == BIT:
        good = (values == 0) | (values == 1)
    elif kind == COUNT:
        good = (values >= 0) & (values <= MOST_COUNT) & (values == np.floor(values))
    else:
        good = np.isfinite(values)
    return np.asarray(good)


def _values(cells: NDArray[Any]) -> NDArray[np.float64]:
    """Return the cells as numbers; NaN stands where a fault has to be looked for."""
    if cells.dtype.kind == "c":
        cells = np.where(cells.imag == 0, cells.real, np.nan)
    if cells.dtype.kind in "biuf" or (
        cells.dtype.kind == "O" and all(map(_is_number, set(map(type, cells.ravel().tolist()))))
    ):
        try:
            with np.errstate(all="ignore"):  # what does not fit becomes inf, and is found
                return cells.astype(np.float64, copy=False)
        except (OverflowError, ValueError):
            pass
    return np.full(cells.shape, np.nan)


def _is_number(kind: type) -> bool:
    # NumPy counts its time spans among the integers.
    return issubclass(kind, numbers.Real | Decimal | np.bool) and not issubclass(
        kind, np.timedelta64
    )


def _first_fault(
    cells: NDArray[Any],
    suspect: NDArray[np.bool],
    start: int,
    model: str,
    names: Sequence[object],
    kind: str,
) -> InputError:
    """Return the error for the first of the suspect cells that has a fault."""
    places = np.flatnonzero(suspect).tolist()
    place, fault = next((k, fault) for k in places if (fault := _fault(cells.flat[k], model, kind)))
    row, column = divmod(place, cells.shape[1])
    return _error(cells.flat[place], fault, start + row, column, names)


def _error(
    cell: object, fault: str | None, row: int, column: int, names: Sequence[object]
) -> InputError:
    name = names[column] if column < len(names) else column
    label = shown(str(name)) if isinstance(name, str) else column
    error = InvalidType if _is_container(cell) else InvalidValue
    return error(f"row {row}, column {label}: {fault}")


def _fault(cell: Any, model: str, kind: str) -> str | None:
    """Return what is wrong with a cell, and what the model needs, or None if nothing is."""
    needs = f"{model} needs {NEEDED[kind]}"
    if not _is_number(type(cell)):
        return f"{_why_no_number(cell)}; {needs}"
    try:
        value = float(cell)
    except OverflowError:
        value = math.inf
    except ValueError:  # a decimal that is a signalling NaN
        value = math.nan
    if math.isnan(value):
        return f"the value is NaN; {needs}"
    if math.isinf(value):
        fault = value if cell == value else "too large for float64 (it becomes inf)"
        return f"the value is {fault}; {needs}"
    if kind == BIT and value not in (0, 1):
        return f"{_written(cell)} is not a bit; {needs} (or set binarize)"
    if kind == COUNT and value < 0:
        return f"{_written(cell)} is not a count (Negative values in data); {needs}"
    if kind == COUNT and value != math.floor(value):
        return f"{_written(cell)} is not a count; {needs}"
    if kind == COUNT and value > MOST_COUNT:
        return f"{_written(cell)} is too large for a count (at most 2**40); {needs}"
    return None


def _why_no_number(cell: Any) -> str:
    import pandas as pd  # slow to import, and only wanted here

    if isinstance(cell, complex | np.complexfloating):
        return f"Complex data not supported: {_written(cell)} is not a real number"
    if _is_container(cell):
        # scikit-learn asks for a TypeError with Python's words on arguments, string and number.
        return (
            f"{_written(cell)} is not a number: a cell of the argument must be neither a container "
            "nor a string but a number"
        )
    if pd.api.types.is_scalar(cell) and pd.isna(cell):
        return f"the value is missing ({_written(cell)})"
    return f"{_written(cell)} is not a number"


def _is_container(cell: object) -> bool:
    return isinstance(cell, Collection) and not isinstance(cell, str | bytes)


def _written(cell: object) -> str:
    """Return a cell as its user would write it: ``0.5``, not ``np.float64(0.5)``."""
    if isinstance(cell, np.character):
        cell = cell.item()
    return str(cell) if isinstance(cell, np.generic) else shown(cell)
