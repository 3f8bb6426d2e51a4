"""Any bytes in a file: readers return data, or raise one line that names the file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treestick.inputs import InputError

PIECES = st.sampled_from([
    b"a,b\n", b"1,2\n", b"id,", b"\t", b'"', b"\n", b"\r\n", b"nan", b"1e999", b"\x93NUMPY", b"PK",
    b"\x01\x00", b"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 1), }", b"\xff\xfe",
    b"%%MatrixMarket matrix coordinate real general\n", b"2 2 1\n", b"1 1 3\n", b"-1 ", b"0:1 ",
    b'{"text": "a b"}\n', b"[[[[", b"\x1f\x8b\x08", b"99999999999999999999 ", b"|O", b"\x00" * 8,
    b'{"a": [1]}', b"[{", b"\x89PNG\r\n\x1a\n", b"\x00\x00\x00\rIHDR", b"GIF89a", b"BM",
])  # fmt: skip
CONTENT = st.lists(PIECES | st.binary(max_size=12), max_size=8).map(b"".join)
N_INPUTS = pytest.mark.parametrize("n", [60, pytest.param(10_000, marks=pytest.mark.long)])


def check_reader(read: Callable[[Path], Any], path: Path, content: bytes) -> None:
    """Read any bytes: data, or one line that names the file."""
    path.write_bytes(content)
    try:
        read(path)
    except InputError as error:
        if str(path) not in str(error) or "\n" in str(error):
            raise AssertionError(f"not one line with the file: {error}") from error


def fuzz_reader(read: Callable[[Path], Any], path: Path, n: int) -> None:
    limited: Any = settings(max_examples=n)
    check = given(CONTENT)(lambda content: check_reader(read, path, content))
    limited(check)()
