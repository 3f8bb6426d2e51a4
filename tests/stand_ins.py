"""Small files in place of the data sets that experiments and benchmarks take."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

TILE, ACROSS = 32, 10


def write_codes(path: Path, n: int) -> None:
    """Write codes of 16 bits in three groups, with labels, and a sheet of images in ``thumbs``."""
    random = np.random.default_rng(0)
    group = np.arange(n) % 3
    rates = np.array([[0.1] * 16, [0.9] * 16, [0.1] * 8 + [0.9] * 8])
    bits = random.random((n, 16)) < rates[group]
    np.savez(
        path, packed=np.packbits(bits, axis=1), coarse=group // 2, fine=group,
        coarse_names=["plant", "animal"], fine_names=["tree", "tall_grass", "fish"],
    )  # fmt: skip
    thumbs = path.with_name("thumbs")
    thumbs.mkdir()
    shape = (-(-n // ACROSS) * TILE, ACROSS * TILE, 3)
    sheet = random.integers(0, 256, shape, dtype=np.uint8)
    Image.fromarray(sheet).save(thumbs / "00.png")


def write_papers(folder: Path, n_papers: int) -> None:
    """Write papers of two kinds, and what is known of them."""
    random = np.random.default_rng(0)
    n_words, n_tokens = 12, 15
    kind = np.arange(n_papers)[:, None] % 2
    words = random.integers(0, 6, (n_papers, n_tokens)) + 6 * kind
    edges = n_tokens * np.arange(n_papers + 1)
    np.savez(folder / "nips12.npz", words=words.ravel(), doc_ptr=edges)
    known = {
        "vocab": [f"word{k}" for k in range(n_words)],
        "titles": [f"Paper {k}" for k in range(n_papers)],
        "authors": ["Smith_J", "Jones_K"],
        "doc_authors": [[k % 2] for k in range(n_papers)],
        "year": [1990 + k % 3 for k in range(n_papers)],
    }
    (folder / "nips12_meta.json").write_text(json.dumps(known), "utf-8")


def write_tables(folder: Path) -> None:
    """Write tables of bits and of reals with labels, of three groups."""
    random = np.random.default_rng(0)
    for name, n, width in (("zoo.npz", 60, 21), ("20news_w100.npz", 7000, 20)):
        y = np.arange(n) % 3
        X = random.random((n, width)) < random.random((3, width))[y]
        np.savez(folder / name, X=X.astype(np.uint8), y=y)
    y = np.arange(90) % 3
    np.savez(folder / "uci_glass.npz", X=random.normal(3.0 * y[:, None], 1.0, (90, 9)), y=y)
