"""Tables read into arrays: every form gives the same, and a bad cell is named."""

import importlib
import tracemalloc
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from treestick.inputs import InputError, InvalidType, InvalidValue
from treestick.io import arrays, read_bits, read_counts, read_reals

Form = Callable[[NDArray[np.int64]], Any]
Read = Callable[..., Any]

BITS = np.random.default_rng(3).integers(0, 2, size=(9, 13))


class OnlyAnArray:
    """What scikit-learn's checks pass: NumPy may convert it, and nothing else."""

    def __init__(self, data: NDArray[Any]) -> None:
        self.data = data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.data.astype(dtype or self.data.dtype)

    def __array_function__(self, func: Any, *_: Any) -> Any:
        raise TypeError(f"no {func.__name__} here")


def read_only(X: NDArray[Any]) -> NDArray[Any]:
    X = X.copy()
    X.flags.writeable = False
    return X


def boxed(X: NDArray[Any]) -> NDArray[np.object_]:
    kinds = [int, float, bool, np.int8, np.float32, np.bool, Fraction, Decimal]
    cells = X.astype(object)
    for place, cell in enumerate(X.ravel().tolist()):
        cells.flat[place] = kinds[place % len(kinds)](cell)
    return cells


def frame(*dtypes: str) -> Form:
    def build(X: NDArray[Any]) -> pd.DataFrame:
        columns = {
            f"c{j}": pd.Series(column).astype(dtypes[j % len(dtypes)])  # type: ignore[call-overload]
            for j, column in enumerate(X.T)
        }
        return pd.DataFrame(columns)

    return build


def with_duplicates(X: NDArray[Any]) -> sparse.coo_array:
    row, column = np.nonzero(X)
    data = np.r_[np.full(len(row), 3), np.full(len(row), -2)]
    return sparse.coo_array((data, (np.r_[row, row], np.r_[column, column])), shape=X.shape)


FORMS: dict[str, Form] = {
    "list": lambda X: X.tolist(),
    "tuple of arrays": tuple,
    "C order": np.ascontiguousarray,
    "Fortran order": np.asfortranarray,
    "every other row, backwards": lambda X: np.repeat(X, 2, axis=0)[::-2][::-1],
    "read-only": read_only,
    "byte-swapped": lambda X: X.astype(">f8"),
    "matrix": lambda X: np.ma.asarray(X).view(np.matrix),
    "masked, nothing hidden": np.ma.asarray,
    "objects": boxed,
    "only __array__": OnlyAnArray,
    "frame": frame("int64"),
    "frame of several types": frame("int64", "float32", "bool"),
    "frame of objects": frame("object", "float64"),
    "nullable frame": frame("Int64", "boolean", "Float32"),
    "categories": frame("category"),
    "sparse frame": frame("Sparse[int64]"),
    "duplicates to be summed": with_duplicates,
}
for dtype in ("bool", "int8", "uint64", "float16", "float32", "float64", "longdouble"):
    FORMS[dtype] = lambda X, dtype=dtype: X.astype(dtype)  # type: ignore[misc]
for layout in ("csr", "csc", "coo", "lil", "dok", "dia", "bsr"):
    for kind in ("array", "matrix"):
        FORMS[f"{layout}_{kind}"] = getattr(sparse, f"{layout}_{kind}")
FORMS["sparse booleans"] = lambda X: sparse.csc_array(X.astype(bool))


@pytest.fixture(params=["one block", "a row at a time", "uneven blocks"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    size = {"one block": arrays.BLOCK_CELLS, "a row at a time": 1, "uneven blocks": 4 * 13 + 1}
    monkeypatch.setattr(arrays, "BLOCK_CELLS", size[request.param])


def message(read: Read, X: Any, model: str = "AnyTree", **options: Any) -> str:
    """Return the one line with which ``read`` refuses ``X``."""
    with pytest.raises(InputError) as caught:
        read(X, model, **options)
    line = str(caught.value)
    assert "\n" not in line
    return line


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same(form: str) -> None:
    X = FORMS[form](BITS)
    reals = read_reals(X, "GaussianTree")
    assert reals.dtype == np.float64
    assert reals.flags.c_contiguous
    assert reals.flags.writeable
    np.testing.assert_array_equal(reals, BITS)
    for binarize in (None, 0.0, 0.5):
        packed, n_columns = read_bits(X, "BernoulliTree", binarize)
        assert n_columns == 13
        np.testing.assert_array_equal(
            packed, np.packbits(BITS, axis=1, bitorder="little"), strict=True
        )


def test_a_memory_map_is_read(tmp_path: Path) -> None:
    path = tmp_path / "X.npy"
    np.save(path, BITS)
    X = np.load(path, mmap_mode="r")
    assert isinstance(X, np.memmap)
    assert type(read_reals(X, "GaussianTree")) is np.ndarray
    np.testing.assert_array_equal(read_reals(X, "GaussianTree"), BITS)
    assert read_bits(X, "BernoulliTree")[0].tolist() == read_bits(BITS, "BernoulliTree")[0].tolist()


def test_reals_keep_their_value_and_are_a_copy() -> None:
    X = np.random.default_rng(4).normal(size=(6, 3))
    for form in (X, X.tolist(), pd.DataFrame(X), sparse.csr_array(X), X.astype(object)):
        np.testing.assert_array_equal(read_reals(form, "GaussianTree"), X, strict=True)
    assert not np.shares_memory(read_reals(X, "GaussianTree"), X)
    mixed = [[Fraction(1, 4), Decimal("0.1")], [True, 2**70]]
    assert read_reals(mixed, "GaussianTree").tolist() == [[0.25, 0.1], [1.0, 2.0**70]]


@given(st.data())
@settings(max_examples=150)
def test_bits_are_unpacked_to_what_they_were(data: st.DataObject) -> None:
    n_rows, n_columns = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 40))
    cells = st.lists(st.integers(0, 1), min_size=n_rows * n_columns, max_size=n_rows * n_columns)
    X = np.array(data.draw(cells)).reshape(n_rows, n_columns)
    form = data.draw(st.sampled_from(["list", "bool", "Fortran order", "frame", "csc_array"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "BLOCK_CELLS", data.draw(st.integers(1, 200)))
        packed, width = read_bits(FORMS[form](X), "BernoulliTree")
    assert packed.shape == (n_rows, (n_columns + 7) // 8)
    assert width == n_columns
    unpacked = np.unpackbits(packed, axis=1, bitorder="little")
    np.testing.assert_array_equal(unpacked[:, :n_columns], X)
    assert not unpacked[:, n_columns:].any()


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("binarize", [-1.5, -1, -0.5, 0, 0.25, 1, 2])
def test_binarize_is_a_threshold_also_for_cells_left_out(binarize: float) -> None:
    X = np.random.default_rng(5).integers(-2, 3, size=(9, 13)).astype(float)
    expected = np.packbits(np.greater(X, binarize), axis=1, bitorder="little")
    for form in (X, X.astype(object), pd.DataFrame(X), sparse.csr_array(X), sparse.coo_matrix(X)):
        np.testing.assert_array_equal(read_bits(form, "BernoulliTree", binarize)[0], expected)


def test_binarize_compares_in_float64() -> None:
    # In float32, 0.1 is not above itself; as the float64 that it is, it is above 0.1.
    assert read_bits(np.array([[0.1]], dtype=np.float32), "B", binarize=0.1)[0].item() == 1
    assert message(read_bits, BITS, binarize=np.nan) == "binarize=nan is not a finite number"
    assert message(read_bits, BITS, binarize="0") == "binarize='0' is not a number"


INF = "the value is too large for float64 (it becomes inf)"
CONTAINER = "is not a number: a cell of the argument must be neither a container nor a string but"
BAD_CELLS: list[tuple[Any, str]] = [
    (np.nan, "the value is NaN"),
    (np.float32("nan"), "the value is NaN"),
    (Decimal("NaN"), "the value is NaN"),
    (Decimal("sNaN"), "the value is NaN"),
    (np.inf, "the value is inf"),
    (-np.inf, "the value is -inf"),
    (10**400, INF),
    (-(10**5000), INF),
    (Decimal("1e400"), INF),
    (np.longdouble("1e400"), INF),
    ("cat", "'cat' is not a number"),
    ("1", "'1' is not a number"),
    (np.str_("a\nb"), r"'a\nb' is not a number"),
    (b"cat", "b'cat' is not a number"),
    (1 + 2j, "Complex data not supported: (1+2j) is not a real number"),
    (np.complex64(1), "Complex data not supported: (1+0j) is not a real number"),
    (None, "the value is missing (None)"),
    (pd.NA, "the value is missing (<NA>)"),
    (pd.NaT, "the value is missing (NaT)"),
    (np.datetime64("NaT"), "the value is missing (NaT)"),
    (date(2020, 2, 3), "datetime.date(2020, 2, 3) is not a number"),
    (np.datetime64("2020-02-03", "ns"), "2020-02-03T00:00:00.000000000 is not a number"),
    (pd.Timestamp(2020, 2, 3), "Timestamp('2020-02-03 00:00:00') is not a number"),
    (timedelta(3), "datetime.timedelta(days=3) is not a number"),
    (np.timedelta64(3, "s"), "3 seconds is not a number"),
    ({"foo": "bar"}, f"{{'foo': 'bar'}} {CONTAINER} a number"),
    ([1, 2], f"[1, 2] {CONTAINER} a number"),
]


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_counts(form: str) -> None:
    counts = read_counts(FORMS[form](BITS), "MultinomialTree")
    assert isinstance(counts, sparse.csr_array)
    assert counts.dtype == np.float64
    assert counts.has_canonical_format
    assert counts.nnz == np.count_nonzero(BITS)
    np.testing.assert_array_equal(counts.toarray(), BITS)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("cell", [-1, 0.5, -0.5, 2.0**41])
def test_what_is_not_a_count_is_named(cell: float) -> None:
    X = 3.0 * BITS
    X[7, 2] = X[7, 9] = X[8, 0] = cell
    for form in (X, X.tolist(), X.astype(object), pd.DataFrame(X), sparse.lil_array(X)):
        line = message(read_counts, form, "MultinomialTree")
        assert line.startswith(f"row 7, column 2: {X[7, 2]}")
        assert line.endswith("; MultinomialTree needs whole numbers >= 0")
    X[7, 2] = np.nan
    for form in (X, sparse.csr_array(X)):
        assert message(read_counts, form, "A") == (
            "row 7, column 2: the value is NaN; A needs whole numbers >= 0"
        )


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize(("cell", "fault"), BAD_CELLS, ids=lambda value: str(type(value)))
def test_a_bad_cell_among_objects_is_named(cell: Any, fault: str) -> None:
    X = boxed(BITS)
    X[7, 2] = cell
    X[7, 5] = X[8, 1] = -np.inf
    kind = InvalidType if isinstance(cell, dict | list) else InvalidValue
    named = pd.DataFrame(X, columns=[f"c{j}" for j in range(13)])
    for form, column in ((X, "2"), (X.tolist(), "2"), (named, "'c2'")):
        at = f"row 7, column {column}: {fault};"
        with pytest.raises(kind):
            read_reals(form, "GaussianTree")
        assert (
            message(read_reals, form, "GaussianTree") == f"{at} GaussianTree needs finite numbers"
        )
        assert message(read_bits, form, "BernoulliTree") == f"{at} BernoulliTree needs 0 or 1"
        assert message(read_bits, form, "B", binarize=0) == f"{at} B needs finite numbers"


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize(
    ("cell", "dtype", "fault"),
    [
        (np.nan, "float16", "the value is NaN"),
        (np.nan, "float64", "the value is NaN"),
        (np.inf, "float32", "the value is inf"),
        (-np.inf, "float64", "the value is -inf"),
        (np.longdouble("1e400"), "longdouble", INF),
        (1 + 2j, "complex64", "Complex data not supported: (1+2j) is not a real number"),
    ],
)
def test_a_bad_cell_of_a_typed_array_is_named(cell: Any, dtype: str, fault: str) -> None:
    X = BITS.astype(dtype)
    X[7, 2] = X[8, 0] = cell
    forms: list[Any] = [X, np.asfortranarray(X), pd.DataFrame(X)]
    if dtype != "float16":  # which SciPy does not store
        forms += [sparse.csr_array(X), sparse.csc_matrix(X), sparse.coo_array(X)]
    for form in forms:
        at = f"row 7, column 2: {fault};"
        assert (
            message(read_reals, form, "GaussianTree") == f"{at} GaussianTree needs finite numbers"
        )
        assert message(read_bits, form, "BernoulliTree") == f"{at} BernoulliTree needs 0 or 1"
        assert message(read_bits, form, "B", binarize=0) == f"{at} B needs finite numbers"


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("cell", [-1, 2, 0.5, 1.0000000001])
def test_what_is_not_a_bit_is_named(cell: float) -> None:
    X = BITS.astype(type(cell))
    X[7, 2] = X[7, 9] = cell
    line = f"row 7, column 2: {cell} is not a bit; BernoulliTree needs 0 or 1 (or set binarize)"
    for form in (X, X.tolist(), X.astype(object), pd.DataFrame(X), sparse.lil_array(X)):
        assert message(read_bits, form, "BernoulliTree") == line


def test_arrays_that_hold_no_numbers() -> None:
    needs = "AnyTree needs finite numbers"
    dates = np.array([["2020-02-03"], ["NaT"]], dtype="datetime64[ns]")
    assert message(read_reals, dates) == (
        f"row 0, column 0: 2020-02-03T00:00:00.000000000 is not a number; {needs}"
    )
    assert message(read_reals, dates[1:] - dates[1]) == (
        f"row 0, column 0: the value is missing (NaT); {needs}"
    )
    assert message(read_reals, np.array([["1", "cat"]])) == (
        f"row 0, column 0: '1' is not a number; {needs}"
    )
    for real in (np.ones((2, 2), dtype=complex), sparse.eye_array(2, dtype=np.complex64)):
        assert message(read_reals, real) == (
            "Complex data not supported: all the imaginary parts are 0; "
            "give AnyTree only the real parts"
        )
    cells = np.ones((2, 2), dtype=object)
    cells[1, 0] = OnlyAnArray(np.ones(2))
    assert message(read_reals, cells).startswith("row 1, column 0: <")
    hidden = np.ma.array([[1, 2], [3, 4]], mask=[[False, False], [False, True]])
    assert message(read_reals, hidden) == (f"row 1, column 1: the value is missing (None); {needs}")


def test_columns_of_frames() -> None:
    X = pd.DataFrame({"legs": pd.array([4, 0, None], dtype="Int64"), "name": ["a", "b", "c"]})
    needs = "AnyTree needs finite numbers"
    assert message(read_reals, X) == f"row 0, column 'name': 'a' is not a number; {needs}"
    assert message(read_reals, X[["legs"]]) == f"row 2, column 'legs': the value is NaN; {needs}"
    X["name"] = 1.5
    assert message(read_reals, X) == f"row 2, column 'legs': the value is missing (<NA>); {needs}"
    X["legs"] = pd.to_datetime(pd.Series(["2020", "2021", None]))
    assert message(read_reals, X[::-1]) == (
        f"row 0, column 'legs': the value is missing (NaT); {needs}"
    )
    X = pd.DataFrame({"tocsr": [1], "toarray": [1], "iloc": [1], "columns": [7]})
    assert message(read_bits, X).startswith("row 0, column 'columns': 7 is not a bit")


def test_names_of_columns() -> None:
    X = np.array([[0, 1], [1, 5]])

    def column(table: Any, names: Any = None) -> str:
        return message(read_bits, table, names=names).split(": 5 is not")[0]

    assert column(X) == "row 1, column 1"
    assert column(X, ["tail", "legs"]) == "row 1, column 'legs'"
    assert column(X, np.array(["tail", "legs"])) == "row 1, column 'legs'"
    assert (
        column(X, np.array(["tail", "two\nlines"], dtype=object)) == r"row 1, column 'two\nlines'"
    )
    assert column(sparse.csr_array(X), ["tail", "legs"]) == "row 1, column 'legs'"
    assert column(X, ["too few"]) == "row 1, column 1"
    assert column(pd.DataFrame(X)) == "row 1, column 1"
    assert column(pd.DataFrame(X, index=[8, 9], columns=[10, 20])) == "row 1, column 1"
    assert column(pd.DataFrame(X, columns=["tail", "legs"])) == "row 1, column 'legs'"
    assert column(pd.DataFrame(X, columns=["a", "b"]), ["tail", "legs"]) == "row 1, column 'legs'"


def test_the_first_bad_cell_in_reading_order_is_named() -> None:
    assert message(read_bits, [[0, 1], [1, 3], ["cat", 1]]).startswith("row 1, column 1: 3 is not")
    assert message(read_bits, [[0, "cat"], [1, 3]]).startswith("row 0, column 1: 'cat' is not")
    X = pd.DataFrame({"a": [0, np.nan], "b": ["cat", "dog"]})
    assert message(read_reals, X).startswith("row 0, column 'b': 'cat' is not")


def test_a_bad_cell_far_down_is_named() -> None:
    X = np.zeros((arrays.BLOCK_CELLS, 3))
    X[-2, 1] = np.inf
    row = f"row {arrays.BLOCK_CELLS - 2}, column 1: the value is inf;"
    for form in (X, pd.DataFrame(X), sparse.csr_array(X)):
        assert message(read_reals, form).startswith(row)
        assert message(read_bits, form).startswith(row)


@pytest.mark.parametrize("read", [read_reals, read_bits])
def test_shapes(read: Read) -> None:
    X: Any
    for X in ([1, 2], np.ones(2), pd.Series([1, 2]), sparse.coo_array(np.ones(2))):
        assert message(read, X) == (
            "Expected 2D array, got 1D array instead (shape=(2,)). Reshape your data: "
            "array.reshape(-1, 1) if it is one column, array.reshape(1, -1) if it is one row"
        )
    for X in (np.ones((2, 2, 2)), [[[1]]], sparse.coo_array(np.ones((2, 2, 2)))):
        assert message(read, X) == ("Found array with dim 3, while dim <= 2 is required by AnyTree")
    for shape, what in (((0, 3), "0 sample(s)"), ((3, 0), "0 feature(s)")):
        X = np.empty(shape)
        for form in (X, pd.DataFrame(X), sparse.csr_array(X)):
            assert message(read, form) == (
                f"Found array with {what} (shape={shape}) while a minimum of 1 is required by "
                "AnyTree"
            )
    for X in (None, 3, "text", {"a": [1]}):
        with pytest.raises(InvalidType):
            read(X, "AnyTree")
        assert message(read, X) == (
            f"Expected 2D array, got {X!r} instead; AnyTree needs a table of rows and columns"
        )
    assert message(read, [[1, 0], [1, 0], [1]]) == (
        "row 2 has length 1 and row 0 has length 2; AnyTree needs rows of one length"
    )
    assert "row 1 has length 2 and row 0 has length 1;" in message(read, [1, [1, 0]])


@pytest.mark.parametrize(
    ("form", "binarize"), [("sparse", None), ("sparse", -1.0), ("dense", None), ("frame", 0.0)]
)
def test_memory_is_bounded(form: str, binarize: float | None) -> None:
    n_rows, n_columns = 5_000, 10_000
    build: dict[str, Callable[[], Any]] = {
        "sparse": lambda: sparse.eye_array(n_rows, n_columns, format="csr"),
        "dense": lambda: np.asfortranarray(np.eye(n_rows, n_columns, dtype=np.uint8)),
        "frame": lambda: pd.DataFrame(np.eye(n_rows, n_columns, dtype=np.int8)),
    }
    X = build[form]()
    tracemalloc.start()
    try:
        packed, _ = read_bits(X, "BernoulliTree", binarize)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert np.bitwise_count(packed).sum() == (n_rows * n_columns if binarize == -1 else n_rows)
    # The smallest dense copy, a byte to a cell, would take 50 MB.
    assert peak - packed.nbytes < 32e6


CHECKS = """check_complex_data check_dtype_object check_estimators_dtypes check_estimators_nan_inf
check_estimators_empty_data_messages check_estimator_sparse_tag check_estimator_sparse_array
check_estimator_sparse_matrix check_f_contiguous_array_estimator check_fit1d check_fit2d_1feature
check_fit2d_1sample check_fit2d_predict1d check_n_features_in check_n_features_in_after_fitting
check_readonly_memmap_input"""


@pytest.mark.parametrize("name", CHECKS.split())
@pytest.mark.parametrize("read", [read_reals, read_bits])
def test_scikit_learn_accepts_the_errors(name: str, read: Read) -> None:
    checks: Any = importlib.import_module("sklearn.utils.estimator_checks")
    base: Any = importlib.import_module("sklearn.base").BaseEstimator
    validation: Any = importlib.import_module("sklearn.utils.validation")
    options = {"binarize": 0.5} if read is read_bits else {}

    class Probe(base):  # type: ignore[misc]
        """An estimator that reads, and does nothing else."""

        def __sklearn_tags__(self) -> Any:
            tags = super().__sklearn_tags__()
            tags.input_tags.sparse = True
            return tags

        def fit(self, X: Any, y: object = None) -> "Probe":
            read(X, "Probe", **options)
            validation.validate_data(self, X, skip_check_array=True)
            return self

        def predict(self, X: Any) -> NDArray[np.float64]:
            read(X, "Probe", **options)
            validation.validate_data(self, X, reset=False, skip_check_array=True)
            return np.zeros(X.shape[0])

    getattr(checks, name)("Probe", Probe())
