"""Data that methods are compared on: some that ship with dependencies or are simulated, some files.

A split is drawn from a seed: four fifths of the rows to fit, the rest to predict. Labels are for
purity alone. Reals are standardised by the rows to fit; of counts, words that are not among these
are left out.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.datasets import load_digits, load_wine

import counts
import densities
import topics

REALS, BITS, DOCUMENTS = "reals", "bits", "documents"
MOST_ROWS = 4000
"""Of a file: more would take methods with a table of distances too much memory."""


class Split(NamedTuple):
    """Rows to fit and to predict."""

    kind: str
    train: Any
    test: Any
    labels: npt.NDArray[Any] | None
    """Of the rows to fit."""


class Problem(NamedTuple):
    """What is compared on."""

    kind: str
    load: Callable[[Path | None], tuple[Any, npt.NDArray[Any] | None]]
    """Takes the folder with files; returns rows and labels."""
    file: str | None = None


def _wine(folder: Path | None) -> tuple[Any, Any]:
    X, y = load_wine(return_X_y=True)
    return X, y


def _simulated_reals(folder: Path | None) -> tuple[Any, Any]:
    found = densities.simulate(0)
    return np.concatenate([found.X, found.test]), found.nodes


def _digits(folder: Path | None) -> tuple[Any, Any]:
    X, y = load_digits(return_X_y=True)
    return (X > 7).astype(np.uint8), y


def _simulated_documents(folder: Path | None) -> tuple[Any, Any]:
    X, truth, _ = counts.simulate(600, 12, 40)
    return X, np.asarray(truth.assignments)


def _reuters(folder: Path | None) -> tuple[Any, Any]:
    import lda.datasets

    return sparse.csr_array(lda.datasets.load_reuters().astype(float)), None


def _file(name: str) -> Callable[[Path | None], tuple[Any, Any]]:
    def load(folder: Path | None) -> tuple[Any, Any]:
        if folder is None:
            raise SystemExit(f"{name} is needed: say with --data in which folder it is")
        with np.load(folder / name) as file:
            X, y = file["X"], file["y"]
        if len(X) > MOST_ROWS:  # any, for files may be sorted by class
            rows = np.random.default_rng(0).choice(len(X), MOST_ROWS, replace=False)
            X, y = X[rows], y[rows]
        return X, y

    return load


def _nips(folder: Path | None) -> tuple[Any, Any]:
    if folder is None:
        raise SystemExit("nips12.npz is needed: say with --data in which folder it is")
    return topics.read(str(folder / "nips12.npz")), None


PROBLEMS = {
    "wine": Problem(REALS, _wine),
    "simulated reals": Problem(REALS, _simulated_reals),
    "glass": Problem(REALS, _file("uci_glass.npz"), "uci_glass.npz"),
    "digits": Problem(BITS, _digits),
    "zoo": Problem(BITS, _file("zoo.npz"), "zoo.npz"),
    "20news": Problem(BITS, _file("20news_w100.npz"), "20news_w100.npz"),
    "simulated documents": Problem(DOCUMENTS, _simulated_documents),
    "reuters": Problem(DOCUMENTS, _reuters),
    "nips": Problem(DOCUMENTS, _nips, "nips12.npz"),
}


def available(folder: Path | None) -> list[str]:
    """Return the problems whose data are there."""
    return [
        name
        for name, problem in PROBLEMS.items()
        if problem.file is None or (folder is not None and (folder / problem.file).exists())
    ]


def load_split(name: str, folder: Path | None, seed: int) -> Split:
    """Return a problem cut in two, by the seed."""
    kind = PROBLEMS[name].kind
    X, y = PROBLEMS[name].load(folder)
    order = np.random.default_rng(seed).permutation(X.shape[0])
    cut = X.shape[0] - X.shape[0] // 5
    train, test = X[order[:cut]], X[order[cut:]]
    if kind == REALS:
        mean, scale = train.mean(axis=0), train.std(axis=0)
        scale = np.where(scale > 0.0, scale, 1.0)
        train, test = (train - mean) / scale, (test - mean) / scale
    elif kind == DOCUMENTS:
        known = np.flatnonzero(np.asarray(train.sum(axis=0)).ravel() > 0)
        train, test = sparse.csr_array(train[:, known]), sparse.csr_array(test[:, known])
        test = test[np.flatnonzero(test.sum(axis=1) > 1)]  # half of one token says nothing
    return Split(kind, train, test, None if y is None else np.asarray(y)[order[:cut]])
