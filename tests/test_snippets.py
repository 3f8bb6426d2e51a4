"""Python on pages of the manual runs as it is printed.

Examples with ``>>>`` are doctests (``test_package.py``), and those of docs/add_a_model.md have a
test of their own. The others speak of a reader's data and models: here these are small ones.
"""

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from stand_ins import write_codes
from treestick import BernoulliTree, TopicTree
from treestick.io.corpus import make_corpus

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = {"add_a_model"}
LARGE = 50_000
"""Images, of which one page speaks."""

Names = dict[str, Any]


def blocks(page: str) -> list[str]:
    """Return the blocks of a page that are no doctests."""
    found = BLOCK.findall((DOCS / f"{page}.md").read_text("utf-8"))
    return [block for block in found if ">>>" not in block]


def fitted(X: Any, burn_in: int = 60) -> Any:
    return BernoulliTree(n_draws=4, burn_in=burn_in, n_chains=1, random_state=0, verbose=0).fit(X)


def digits() -> Names:
    """Return images of digits, their bits, and a tree of them."""
    images = load_digits().images[:400] / 16.0
    X = (images.reshape(400, 64) > 0.5).astype(np.uint8)
    return {"X": X, "images": images, "model": fitted(X), "columns": [f"p{k}" for k in range(64)]}


def told(n: int) -> Names:
    """Return what is known of n data."""
    return {
        "names": [f"row {k}" for k in range(n)],
        "texts": [f"a text of {k}" for k in range(n)],
        "years": [1990 + k % 3 for k in range(n)],
        "labels": ["odd" if k % 2 else "" for k in range(n)],
        "lists_of_names": [[f"author {k % 5}"] * (k % 3 > 0) for k in range(n)],
    }


def documents() -> Names:
    """Return documents with authors and years, and a tree of them."""
    random = np.random.default_rng(0)
    counts = sparse.csr_array(random.poisson(1.0, (120, 9)).astype(float))
    known = told(120)
    metadata = {"authors": known["lists_of_names"], "year": known["years"]}
    corpus = make_corpus(counts, [f"word{k}" for k in range(9)], None, metadata)
    model = TopicTree(
        3,
        n_draws=4,
        burn_in=20,
        lda_sweeps=20,
        tree_sweeps=5,
        n_chains=1,
        random_state=0,
        verbose=0,
    )
    return {"corpus": corpus, "model": model.fit(corpus)}


def many_images(folder: Path) -> Names:
    """Return a model of as many codes as the page has images, which are in a folder."""
    write_codes(folder / "codes.npz", LARGE)
    with np.load(folder / "codes.npz") as file:
        codes = np.unpackbits(file["packed"], axis=1)
    return {"codes": codes, "model": fitted(codes, burn_in=10)}


def of_images(folder: Path) -> list[Names]:
    return [digits()]


def of_report(folder: Path) -> list[Names]:
    return [digits() | told(400), {}, many_images(folder), documents()]


def of_runs(folder: Path) -> list[Names]:
    X = digits()["X"][:60]
    return [{"X": X, "X_new": X[:5]}, {}]


READERS: dict[str, Callable[[Path], list[Names]]] = {
    "images": of_images, "report": of_report, "runs": of_runs,
}  # fmt: skip
"""What a reader of each page has, block by block; blocks may use names of those before."""


def test_every_page_with_python_is_run() -> None:
    pages = {page.stem for page in DOCS.glob("*.md") if blocks(page.stem)}
    assert pages == {*READERS, *ELSEWHERE, "big_data"}


@pytest.mark.long
@pytest.mark.parametrize("page", READERS)
def test_what_is_printed_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    warnings.simplefilter("ignore", ConvergenceWarning)
    names: Names = {}
    for text, more in zip(blocks(page), READERS[page](tmp_path), strict=True):
        names |= more
        exec(compile(text, f"{page}.md", "exec"), names)


@pytest.mark.long
def test_a_cluster_is_asked_as_printed(tmp_path: Path) -> None:
    from dask.distributed import LocalCluster

    (text,) = blocks("big_data")
    X = digits()["X"][:80]
    for k in range(2):
        np.save(tmp_path / f"part-{k}.npy", X[40 * k : 40 * k + 40])
    warnings.simplefilter("ignore", ConvergenceWarning)
    names: Names = {}
    make: Any = LocalCluster  # has no types
    with make(2, threads_per_worker=1, dashboard_address=":0") as cluster:
        here = text.replace("tcp://scheduler:8786", cluster.scheduler_address)
        exec(here.replace("/data", str(tmp_path)), names)
        names["client"].close()
    assert names["model"].tree_.n_data == 80
