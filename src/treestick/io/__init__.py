"""Data coming in: ``arrays`` reads tables, ``texts`` and ``bags`` read documents."""

from treestick.io.arrays import read_bits, read_counts, read_reals
from treestick.io.bags import read_docword, read_lda_c, read_matrix, read_matrix_market
from treestick.io.corpus import Corpus, known_counts
from treestick.io.files import read_corpus
from treestick.io.images import read_images
from treestick.io.metadata import read_metadata
from treestick.io.tables import Choice, read_table
from treestick.io.texts import read_csv, read_folder, read_jsonl, read_texts

__all__ = [
    "Choice",
    "Corpus",
    "known_counts",
    "read_bits",
    "read_corpus",
    "read_counts",
    "read_csv",
    "read_docword",
    "read_folder",
    "read_images",
    "read_jsonl",
    "read_lda_c",
    "read_matrix",
    "read_matrix_market",
    "read_metadata",
    "read_reals",
    "read_table",
    "read_texts",
]
