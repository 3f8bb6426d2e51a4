"""Tables in files: what is read, one line for what cannot be, and limits on memory."""

import gzip
import io
import time
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.io import mmwrite

from any_bytes import N_INPUTS, fuzz_reader
from treestick.inputs import InvalidValue
from treestick.io import Choice, read_corpus, read_table
from treestick.io.outputs import defused, write_table

X = np.array([[1.0, 0.0], [0.0, 2.5], [0.0, 0.0]])


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def npy(array: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


# -- what is read ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz"])
def test_delimited(tmp_path: Path, ending: str) -> None:
    text = "\ufeffid,legs,wings\n'a',1,0\n=b,0,2.5\n\nc,0,0\n"
    text = text.replace(",", "\t") if ending == "tsv" else text
    content = gzip.compress(text.encode()) if ending.endswith("gz") else text.encode()
    frame = read_table(write(tmp_path / f"data.{ending}", content))
    assert frame.index.tolist() == ["'a'", "=b", "c"]
    assert frame.columns.tolist() == ["legs", "wings"]
    np.testing.assert_array_equal(frame, X)


def test_ids_columns_and_heads_can_be_said(tmp_path: Path) -> None:
    path = write(tmp_path / "data.csv", "legs,name,kind\n1,ant,7\n0,bee,8\n")
    frame = read_table(path, Choice(id="name", drop=["kind"]))
    assert (frame.index.tolist(), frame.columns.tolist()) == (["ant", "bee"], ["legs"])
    path = write(tmp_path / "plain.csv", "1,2\n3,4\n")
    np.testing.assert_array_equal(read_table(path, Choice(header=False)), [[1, 2], [3, 4]])
    assert read_table(path, Choice(header=True)).columns.tolist() == ["1", "2"]
    frame.reset_index(names="id").to_parquet(tmp_path / "data.parquet")
    pd.testing.assert_frame_equal(read_table(tmp_path / "data.parquet"), frame, check_names=False)


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays(tmp_path: Path, order: Any) -> None:
    np.save(tmp_path / "a.npy", np.asarray(X, order=order))
    np.savez_compressed(tmp_path / "a.npz", X=X, y=np.arange(3))
    sparse.save_npz(tmp_path / "s.npz", sparse.csr_array(X))
    mmwrite(tmp_path / "a.mtx", sparse.coo_array(X))
    for name in ("a.npy", "a.npz"):
        np.testing.assert_array_equal(read_table(tmp_path / name), X)
    for name in ("s.npz", "a.mtx"):
        table = read_table(tmp_path / name)
        assert isinstance(table, sparse.csr_array)
        np.testing.assert_array_equal(table.toarray(), X)


# -- one line for what cannot be read --------------------------------------------------------------

BAD: dict[str, tuple[str, bytes, str]] = {
    "empty": ("d.csv", b"", "is empty"),
    "names only": ("d.csv", b"a,b\n", "there are names and no rows"),
    "short line": ("d.csv", b"a,b\n1,2\n3\n", "line 3: 1 cells under 2 names"),
    "text": ("d.csv", b"a,b\n1,2\n3,x\n", "line 3, column 'b': 'x' is not a number"),
    "nothing": ("d.csv", b"a,b\n1,2\n3,\n", "line 3, column 'b': a value is missing \\(''\\)"),
    "not there": ("d.csv", b"a,b\n1,2\n3,NA\n", "column 'b': a value is missing \\('NA'\\)"),
    "semicolons": ("d.csv", b"a;b\n1.5;2\n", "line 1: one column, 'a;b'; if ';' stands between"),
    "commas": ("d.csv", b"a;b\n1,5;2\n", "line 1: one column, 'a;b'; if ';' stands between"),
    "no tabs": ("d.tsv", b"a,b\n1,2\n", "line 1: one column, 'a,b'; if ',' stands between"),
    "two names": ("d.csv", b"a,a\n1,2\n", "line 1: two columns have the name 'a'"),
    "two ids": ("d.csv", b"id,a\nx,1\nx,2\n", "two rows have the id 'x'"),
    "numbers first": ("d.csv", b"1,2\n3,4\n", "line 1: these are numbers; say whether"),
    "bytes": ("d.csv", b"a\n\xff\n", "byte 0xff at offset 2 is not utf-8"),
    "quote": ("d.csv", b'a\n"1\n', "line 2: unexpected end of data"),
    "no gzip": ("d.csv.gz", b"a,b\n1,2\n", "cannot be unpacked"),
    "half a gzip": ("d.csv.gz", gzip.compress(b"a\n1\n" * 99)[:-4], "cannot be unpacked"),
    "ending": ("d.xls", b"", "the name does not say its format"),
    "no npy": ("d.npy", b"hello", "the head is not that of an array"),
    "objects": ("d.npy", npy(np.array([[{}]]), allow_pickle=True), "is not one of numbers"),
    "cut npy": ("d.npy", npy(X)[:-8], r"48 bytes; there are 40 at offset 128"),
    "records": ("d.npy", npy(np.zeros(2, dtype="i4,f8")), "is not one of numbers"),
    "no zip": ("d.npz", b"hello", "is not an archive"),
    "no mtx": ("d.mtx", b"hello", "d.mtx: "),
    "terabytes": (
        "d.mtx", b"%%MatrixMarket matrix array real general\n1000000 1000000\n1\n",
        "entries, more than there is"),
    "rows": (
        "d.mtx", b"%%MatrixMarket matrix coordinate real general\n999999999 2 1\n1 1 1\n",
        "999999999 rows and 2 columns; there may be at most"),
    "no parquet": ("d.parquet", b"PAR1PAR1", "cannot be read as Parquet"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_one_line(tmp_path: Path, what: str) -> None:
    name, content, said = BAD[what]
    path = write(tmp_path / name, content)
    with pytest.raises(InvalidValue, match=said) as caught:
        read_table(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_with_line_breaks_stay_on_one_line(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv", b'"a\n,b"\nx\n')
    for read in (lambda: read_corpus(path), lambda: read_table(path, Choice(id="c"))):
        with pytest.raises(InvalidValue, match=r"there is no column .*; there are a ,b$"):
            read()


def forged_npy(shape: tuple[int, ...], dtype: str = "<f8") -> bytes:
    head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    padded = head.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode() + b"\0" * 16


@pytest.mark.parametrize("shape", [(2**40, 2), (2**62, 4), (-1, -2), (0, 2**60), (2**60, 0)])
def test_a_forged_shape_costs_nothing(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = write(tmp_path / "d.npy", forged_npy(shape))
    with pytest.raises(InvalidValue, match=str(path)):
        read_table(path)


def bomb(path: Path) -> Path:
    """Write an archive of 100 KB with an array of 100 MB in it."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", npy(np.zeros((12_000_000, 1))))
    return path


@pytest.mark.parametrize("ending", ["npz", "csv.gz"])
def test_what_expands_beyond_measure_is_not_unpacked(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"d.{ending}"
    if ending == "npz":
        bomb(path)
    else:
        path.write_bytes(gzip.compress(b"0," * 50_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidValue, match="unpacks to more than"):
            read_table(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2.5 * max(2**26, 200 * path.stat().st_size)


# -- any bytes -------------------------------------------------------------------------------------

TABLES = ("csv", "tsv", "csv.gz", "npy", "npz", "mtx", "parquet")
DOCUMENTS = ("jsonl", "csv", "mtx", "lda-c", "docword")


@N_INPUTS
@pytest.mark.parametrize("ending", TABLES)
def test_any_bytes_are_a_table_or_refused(tmp_path: Path, ending: str, n: int) -> None:
    fuzz_reader(read_table, tmp_path / f"data.{ending}", n)


@N_INPUTS
@pytest.mark.parametrize("form", DOCUMENTS)
def test_any_bytes_are_a_corpus_or_refused(tmp_path: Path, form: str, n: int) -> None:
    fuzz_reader(lambda path: read_corpus(path, form), tmp_path / "data", n)


def test_a_single_column_may_have_any_name(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a;b\n1.5\n2\n")
    assert read_table(tmp_path / "d.csv")["a;b"].tolist() == [1.5, 2.0]


def test_many_columns_take_no_longer_than_few(tmp_path: Path) -> None:
    n = 50_000
    rows = [",".join(f"c{k}" for k in range(n)), ",".join(["1.5"] * n)]
    (tmp_path / "d.csv").write_text("\n".join(rows))
    began = time.process_time()
    assert read_table(tmp_path / "d.csv").shape == (1, n)
    assert time.process_time() - began < 10.0  # comparing each with each took minutes


# -- going out -------------------------------------------------------------------------------------


def test_formulas_are_defused(tmp_path: Path) -> None:
    ids = ["=1+1", "+x", "-x", "@x", "plain", "\tx", "'=", ""]
    frame = pd.DataFrame({"id": ids, "=name": np.arange(8.0) - 4.0})
    write_table(frame, tmp_path / "out.csv")
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "id,'=name"
    assert lines[1:5] == ["'=1+1,-4.0", "'+x,-3.0", "'-x,-2.0", "'@x,-1.0"]
    assert lines[5:7] == ["plain,0.0", "'\tx,1.0"]
    write_table(frame, tmp_path / "out.parquet")  # where a text is a text
    assert pd.read_parquet(tmp_path / "out.parquet")["id"].tolist() == ids
    assert defused(-1.5) == -1.5
    with pytest.raises(InvalidValue, match="must end in"):
        write_table(frame, tmp_path / "out.xls")
    with pytest.raises(InvalidValue, match="there is no folder"):
        write_table(frame, tmp_path / "no" / "out.csv")
