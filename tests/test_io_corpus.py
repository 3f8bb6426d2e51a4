"""Readers of corpora: each form gives the same counts, and bad input gets one clear line."""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.io import mmwrite

from treestick import io
from treestick.inputs import InputError, InvalidType, InvalidValue

TEXTS = ["the cat sat", "the dog, the DOG", "cat and dog"]
WORDS = ["and", "cat", "dog", "sat", "the"]
TABLE = np.array([[0, 1, 0, 1, 1], [0, 0, 2, 0, 2], [1, 1, 1, 0, 0]], dtype=float)
META = {"title": ["a", "b", "c"], "year": [1999, 2001, 2001]}


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def check(corpus: io.Corpus, words: list[str] = WORDS) -> None:
    np.testing.assert_array_equal(corpus.counts.toarray(), TABLE)
    assert corpus.vocabulary == words


def test_lists_of_texts() -> None:
    corpus = io.read_texts(TEXTS, metadata=META)
    check(corpus)
    assert corpus.ids == ["0", "1", "2"]
    assert corpus.metadata == META
    assert repr(corpus) == "Corpus: 3 documents, 5 words, 10 tokens; title, year"
    framed = io.read_texts(TEXTS, ids=["x", "y", "z"], metadata=pd.DataFrame(META))
    assert framed.ids == ["x", "y", "z"]
    assert framed.metadata == META


def test_options_of_the_vectorizer() -> None:
    assert io.read_texts(TEXTS, stop_words="english").vocabulary == ["cat", "dog", "sat"]
    assert io.read_texts(TEXTS, min_df=3 / 3 - 0.4).vocabulary == ["cat", "dog", "the"]
    again = io.read_texts(["dog bird"], vocabulary=WORDS)
    assert again.counts.toarray().tolist() == [[0, 0, 1, 0, 0]]


def test_folders(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name, text in zip(["a.txt", "b/c.txt", "d.txt"], TEXTS, strict=True):
        write(tmp_path / name, text)
    write(tmp_path / "readme.md", "not a document")
    corpus = io.read_folder(tmp_path, metadata=META)
    check(corpus)
    assert corpus.ids == ["a.txt", "b/c.txt", "d.txt"]


def test_json_lines(tmp_path: Path) -> None:
    rows = [{"text": t, "name": f"n{k}", "year": k} for k, t in enumerate(TEXTS)]
    del rows[1]["year"]
    content = "\n".join(map(json.dumps, rows)) + "\n\n"
    corpus = io.read_jsonl(write(tmp_path / "x.jsonl", content), id="name")
    check(corpus)
    assert corpus.ids == ["n0", "n1", "n2"]
    assert corpus.metadata == {"year": [0, None, 2]}
    packed = write(tmp_path / "x.jsonl.gz", gzip.compress(content.encode()))
    assert io.read_jsonl(packed).ids == ["1", "2", "3"]


def test_tables_with_texts(tmp_path: Path) -> None:
    content = 'body,year,code\nthe cat sat,1999,007\n"the dog,\nthe DOG",2001,1\ncat and dog,0,2\n'
    path = write(tmp_path / "x.csv", b"\xef\xbb\xbf" + content.encode())
    corpus = io.read_csv(path, text="body")
    check(corpus)
    assert corpus.metadata == {"year": [1999, 2001, 0], "code": ["007", "1", "2"]}
    assert corpus.ids == ["2", "4", "5"]
    tabs = write(tmp_path / "x.tsv", content.replace(",", "\t").replace("dog\t\n", "dog,\n"))
    check(io.read_csv(tabs, text="body", delimiter="\t"))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.coo_matrix])
def test_matrices(form: Callable[[Any], Any]) -> None:
    check(io.read_matrix(form(TABLE), WORDS, metadata=META))
    assert io.read_matrix(form(TABLE)).vocabulary == ["0", "1", "2", "3", "4"]


def test_data_frames() -> None:
    check(io.read_matrix(pd.DataFrame(TABLE, columns=WORDS)))


def test_matrix_market(tmp_path: Path) -> None:
    path, words = tmp_path / "x.mtx", write(tmp_path / "words.txt", "\n".join(WORDS) + "\n")
    mmwrite(path, sparse.csr_array(TABLE))
    check(io.read_matrix_market(path, words))
    mmwrite(path, sparse.csr_array(TABLE.T))
    check(io.read_matrix_market(path, WORDS, transposed=True))


LDA_C = "3 1:1 3:1 4:1\n2 2:2 4:2\n3 0:1 1:1 2:1\n"
DOCWORD = "3\n5\n8\n1 2 1\n1 4 1\n1 5 1\n2 3 2\n2 5 2\n3 1 1\n3 2 1\n3 3 1\n"


def test_lda_c(tmp_path: Path) -> None:
    path = write(tmp_path / "x.ldac", LDA_C)
    check(io.read_lda_c(path, WORDS))
    check(io.read_lda_c(path), ["0", "1", "2", "3", "4"])
    path = write(tmp_path / "y.ldac", "0\n" + LDA_C.replace("\n", "\r\n"))
    assert io.read_lda_c(path, WORDS).counts.toarray()[0].tolist() == [0] * 5


def test_docword(tmp_path: Path) -> None:
    check(io.read_docword(write(tmp_path / "x.txt", DOCWORD), WORDS))
    packed = write(tmp_path / "x.txt.gz", gzip.compress(DOCWORD.encode()))
    check(io.read_docword(packed, WORDS))


@given(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=6))
def test_bags_survive_the_way_to_a_file(rows: list[list[int]]) -> None:
    import tempfile

    table = np.array(rows)
    if table.sum() == 0:
        return
    where = np.argwhere(table)
    lda_c = "".join(
        f"{np.count_nonzero(r)} " + " ".join(f"{w}:{r[w]}" for w in np.flatnonzero(r)) + "\n"
        for r in table
    )
    docword = f"{len(table)}\n4\n{len(where)}\n" + "".join(
        f"{d + 1} {w + 1} {table[d, w]}\n" for d, w in where
    )
    with tempfile.TemporaryDirectory() as folder:
        one = io.read_lda_c(write(Path(folder) / "a", lda_c), ["a", "b", "c", "d"])
        other = io.read_docword(write(Path(folder) / "b", docword))
    np.testing.assert_array_equal(one.counts.toarray(), table)
    np.testing.assert_array_equal(other.counts.toarray(), table)


# -- what cannot be read ---------------------------------------------------------------------------

BAD_LINES: list[tuple[str, str, str]] = [
    ("lda_c", "", "is empty: there are no documents"),
    ("lda_c", "0\n0\n", "all 2 documents are empty"),
    ("lda_c", LDA_C + "\n1 0:1\n", "line 4: empty"),
    ("lda_c", LDA_C + "2 0:1\n", "line 4: it says 2 words and has 1"),
    ("lda_c", "1 0:1\n1 a:1\n", "line 2: 'a' is not a whole number"),
    ("lda_c", "1 0:1\n1 0:-1\n", "line 2: '-1' is not a whole number"),
    ("lda_c", "1 0:1\n1 01\n", "line 2: '01' is not word:count"),
    ("lda_c", "1 0:1\n1 7:1\n", "has word 7 .* and the vocabulary only 5"),
    ("lda_c", f"1 0:{10**30}\n", "line 1: .* is too large"),
    ("docword", "", "is empty"),
    ("docword", "3\n5\n", "the first three lines"),
    ("docword", "3\nfive\n8\n", "line 2: 'five' is not a whole number"),
    ("docword", DOCWORD + "1 1 1\n", "line 3: it says 8 entries and the file has 9"),
    ("docword", DOCWORD.replace("2 5 2", "2 5"), "line 8: '2 5' is not three numbers"),
    ("docword", DOCWORD.replace("2 5 2", "4 5 2"), "line 8: there is no document 4; there are 3"),
    ("docword", DOCWORD.replace("2 5 2", "2 0 2"), "line 8: there is no word 0; there are 5"),
    ("docword", DOCWORD.replace("2 5 2", "2 5 x"), "line 8: 'x' is not a whole number"),
    ("jsonl", "", "is empty: there are no documents"),
    ("jsonl", '{"text": "cat"}\n{"text"\n', "line 2: not JSON"),
    ("jsonl", '{"text": "cat"}\n[1]\n', "line 2: .* is not an object"),
    ("jsonl", '{"text": "cat"}\n\n{"body": "x"}\n', "line 3: there is no 'text'; there are body"),
    ("jsonl", '{"text": 5}\n', "line 1: 5 is not a text"),
    ("csv", "", "is empty: there are no documents"),
    ("csv", "a,b\ncat,dog\n", "there is no column 'text'; there are a, b"),
    ("csv", "text,b\ncat\n", "line 2: 1 cells under 2 names"),
    ("csv", 'text\n"cat\n', "line 2: "),
    ("matrix_market", "", "x: "),
    ("matrix_market", "%%MatrixMarket matrix coordinate real general\n1 5 1\n1 1 0.5\n",
     "row 0, column 0: 0.5 is not a count"),
]  # fmt: skip


@pytest.mark.parametrize(("reader", "content", "message"), BAD_LINES)
def test_bad_lines(tmp_path: Path, reader: str, content: str, message: str) -> None:
    path = write(tmp_path / "x", content)
    more = {"vocabulary": WORDS} if reader in ("lda_c", "docword", "matrix_market") else {}
    with pytest.raises(InputError, match=message) as caught:
        getattr(io, f"read_{reader}")(path, **more)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("reader", ["lda_c", "docword", "jsonl", "csv", "matrix_market"])
def test_files_that_are_not_there(tmp_path: Path, reader: str) -> None:
    with pytest.raises(InvalidValue, match="cannot be read: No such file"):
        getattr(io, f"read_{reader}")(tmp_path / "nothing")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = write(tmp_path / "x.txt", b"caf\xe9 cat")
    where = re.escape(f"{path}: byte 0xe9 at offset 3 is not utf-8")
    with pytest.raises(InvalidValue, match=where):
        io.read_folder(tmp_path)
    assert io.read_folder(tmp_path, encoding="latin-1").vocabulary == ["café", "cat"]
    with pytest.raises(InvalidValue, match="encoding='klingon' is not known"):
        io.read_folder(tmp_path, encoding="klingon")
    for reader in (io.read_jsonl, io.read_csv):
        with pytest.raises(InvalidValue, match="offset 3"):
            reader(path)
    with pytest.raises(InvalidValue, match="offset 3"):
        io.read_matrix(TABLE, path)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: io.read_texts([]), "is empty: there are no documents"),
        (lambda: io.read_texts(["", " "]), "2 documents: empty vocabulary"),
        (lambda: io.read_texts("one text"), "give a list"),
        (lambda: io.read_texts(["a", 5]), "document 1: 5 is not a text"),  # type: ignore[list-item]
        (lambda: io.read_texts(TEXTS, frills=1), "unexpected keyword argument 'frills'"),
        (lambda: io.read_texts(TEXTS, min_df=5), "3 documents: .*min_df"),
        (lambda: io.read_texts(TEXTS, ids=["a"]), "1 ids for 3 documents"),
        (lambda: io.read_texts(TEXTS, metadata={"y": [1]}), "metadata 'y' has 1 rows for 3"),
        (lambda: io.read_texts(TEXTS, metadata={"y": "abc"}), "is not a column"),
        (lambda: io.read_texts(TEXTS, metadata=[1, 2, 3]), "neither a mapping"),
        (lambda: io.read_texts(["bird"], vocabulary=WORDS), "all 1 documents are empty"),
        (lambda: io.read_matrix(TABLE, WORDS[:4]), "5 different words and the vocabulary 4"),
        (lambda: io.read_matrix(TABLE, ["a", "b", "c", "d", "a"]), "'a' more than once"),
        (lambda: io.read_matrix(0 * TABLE), "all 3 documents are empty"),
        (lambda: io.read_matrix(-TABLE), "row 0, column 1: -1.0 is not a count"),
        (lambda: io.read_folder("/nowhere/at/all"), "no such folder"),
    ],
)
def test_bad_arguments(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, InvalidValue | InvalidType)


def test_folders_without_texts(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"there are no \.txt files"):
        io.read_folder(tmp_path)


def test_unknown_words_are_dropped_with_a_warning() -> None:
    corpus = io.read_texts(["cat bird cat", "dog fish bird"])
    with pytest.warns(UserWarning, match="3 of 6 tokens were dropped: 2 different words"):
        counts = io.known_counts(corpus, WORDS)
    assert counts.toarray().tolist() == [[0, 2, 0, 0, 0], [0, 0, 1, 0, 0]]
    np.testing.assert_array_equal(io.known_counts(io.read_texts(TEXTS), WORDS).toarray(), TABLE)
    with pytest.raises(InvalidValue, match="a vocabulary mismatch"):
        io.known_counts(io.read_texts(["bird fish"]), WORDS)
