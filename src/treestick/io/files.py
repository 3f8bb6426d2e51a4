"""A corpus from a file or folder, whichever form it has."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from treestick.inputs import InvalidValue, shown
from treestick.io.bags import read_docword, read_lda_c, read_matrix_market
from treestick.io.corpus import Corpus
from treestick.io.texts import read_csv, read_folder, read_jsonl

Reader = Callable[..., Corpus]
OF_TEXTS: dict[str, Reader] = {"folder": read_folder, "jsonl": read_jsonl, "csv": read_csv}
OF_COUNTS: dict[str, Reader] = {
    "mtx": read_matrix_market,
    "lda-c": read_lda_c,
    "docword": read_docword,
}
FORMATS = (*OF_TEXTS, *OF_COUNTS)


def read_corpus(
    path: str | Path,
    format: str | None = None,
    *,
    vocabulary: Any = None,
    text: str | None = None,
    encoding: str = "utf-8",
    **options: Any,
) -> Corpus:
    """Return the corpus of a file or folder.

    Parameters
    ----------
    path
        A folder of .txt files, or a file.
    format
        One of ``FORMATS``. If not given, it goes by the name: a folder, .jsonl, .csv, .mtx, .ldac
        or .lda-c, or a name that begins with docword; .gz may follow.
    vocabulary
        A list of words, or a file with a word on each line; for formats that hold numbers of words.
    text
        The field or column with the texts; for jsonl and csv.
    encoding
        Of the file or files.
    options
        Of scikit-learn's ``CountVectorizer``, for formats that hold texts.
    """
    if not Path(path).exists():
        raise InvalidValue(f"{path}: there is no such file or folder")
    form = _form(Path(path)) if format is None else format
    if form not in FORMATS:
        raise InvalidValue(
            f"{path}: the name does not say its format; give one of {', '.join(FORMATS)}"
            if format is None
            else f"format={shown(format)} is not one of {', '.join(FORMATS)}"
        )
    if form in OF_COUNTS:
        for name, value in (("text", text), *options.items()):
            if value is not None:
                raise InvalidValue(f"{name}={shown(value)} has no effect on format {form}")
        return OF_COUNTS[form](path, vocabulary, encoding=encoding)
    if vocabulary is not None:
        raise InvalidValue(f"vocabulary has no effect on format {form}, which holds the words")
    if text is not None:
        if form == "folder":
            raise InvalidValue(f"text={shown(text)} has no effect on format folder")
        options = {"text": text, **options}
    return OF_TEXTS[form](path, encoding=encoding, **options)


def _form(path: Path) -> str:
    name = path.name.removesuffix(".gz")
    if path.is_dir():
        return "folder"
    if name.startswith("docword"):
        return "docword"
    ending = name.rpartition(".")[2]
    return {"ldac": "lda-c"}.get(ending, ending)
