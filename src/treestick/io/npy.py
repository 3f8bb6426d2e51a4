"""NumPy's files, read without trust: no objects, and no array larger than the file."""

import io
import math
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from scipy import sparse

from treestick.inputs import InvalidValue, shown
from treestick.io.unpacking import check_extent, read_bytes, unpack_archive

SPARSE = ("data", "indices", "indptr", "shape", "format")
"""What ``scipy.sparse.save_npz`` writes."""


def read_npy(path: str | Path) -> Any:
    """Return the array in an .npy file."""
    return _parse(read_bytes(path), str(path))


def read_npz(path: str | Path) -> Any:
    """Return the only array in an .npz file, the one named X, or a sparse table of SciPy's."""
    return parse_npz(read_bytes(path), path)


def parse_npz(content: bytes, path: str | Path) -> Any:
    """Return the same from the content of a file."""
    arrays = {
        name.removesuffix(".npy"): _parse(of_one, f"{path}, {name}")
        for name, of_one in unpack_archive(content, path)
    }
    if set(SPARSE) <= arrays.keys():
        return _sparse(path, arrays)
    if "X" in arrays:
        return arrays["X"]
    if len(arrays) != 1:
        names = ", ".join(map(shown, list(arrays)[:5])) or "none"
        raise InvalidValue(f"{path}: has {len(arrays)} arrays ({names}); name one of them X")
    return next(iter(arrays.values()))


def read_head(file: IO[bytes], where: str) -> tuple[tuple[int, ...], bool, Any]:
    """Return shape, whether it is stored by columns, and type of the array that follows."""
    try:
        version = npy.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise InvalidValue(f"{where}: format {version} of NumPy is not known")
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, is_fortran, dtype = read_header(file)
    except InvalidValue:
        raise
    except Exception as error:  # a header is a Python expression, and can be wrong in many ways
        line = " ".join(str(error).split())
        raise InvalidValue(f"{where}: the head is not that of an array: {line}") from error
    if dtype.kind not in "biufUS" or dtype.hasobject:
        raise InvalidValue(f"{where}: an array of {dtype} is not one of numbers")
    return shape, is_fortran, dtype


def _parse(content: bytes, where: str) -> Any:
    file = io.BytesIO(content)
    shape, is_fortran, dtype = read_head(file, where)
    n_bytes = math.prod(shape) * dtype.itemsize
    if n_bytes != len(content) - file.tell() or any(n < 0 for n in shape):
        raise InvalidValue(
            f"{where}: the head says {shape} of {dtype}, {n_bytes} bytes; there are "
            f"{len(content) - file.tell()} at offset {file.tell()}"
        )
    if dtype.itemsize == 0 or max(shape, default=0) > n_bytes:
        raise InvalidValue(f"{where}: the array is empty ({shape} of {dtype})")
    flat = np.frombuffer(content, dtype, offset=file.tell())
    return flat.reshape(shape, order="F" if is_fortran else "C")


def _sparse(path: str | Path, arrays: dict[str, Any]) -> Any:
    form = arrays["format"].tobytes().decode("utf-32" if arrays["format"].dtype.kind == "U" else
                                             "ascii", "replace")  # fmt: skip
    if form not in ("csr", "csc"):
        raise InvalidValue(f"{path}: a sparse table of format {shown(form)}; save it as csr")
    if arrays["shape"].shape != (2,) or arrays["shape"].dtype.kind not in "iu":
        raise InvalidValue(f"{path}: the shape {shown(arrays['shape'])} is none")
    n_rows, n_columns = (int(n) for n in arrays["shape"])
    check_extent(path, n_rows, n_columns)
    kind = sparse.csr_array if form == "csr" else sparse.csc_array
    try:
        table: Any = kind(
            (arrays["data"], arrays["indices"], arrays["indptr"]), shape=(n_rows, n_columns)
        )
        table.check_format(full_check=True)
    except (ValueError, TypeError, OverflowError, IndexError) as error:
        raise InvalidValue(f"{path}: not a sparse table: {' '.join(str(error).split())}") from error
    return table
