"""Held-out density of the codes: the tree, mixtures of Bernoulli distributions, a DP mixture.

All are fitted to the same nine tenths of the rows and predict the rest; nats per image.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import account
import beside  # noqa: F401
import codes
from densities import average, held_out, to_bits
from mixtures import fit_dp, fit_em, independent
from treestick import Tree

Bytes = npt.NDArray[np.uint8]

TOLERANCE = 1e-4
"""Nats per image that a step of a mixture has to gain."""


def tree(
    X: Bytes, test: Bytes, run: Path, n_sweeps: int, seed: int, n_jobs: int | None, schedule: str,
    other: Tree,
) -> dict[str, Any]:  # fmt: skip
    """Return what one chain predicts, by its draws one by one, and averaged.

    Its best tree is compared with another one of the same images.
    """
    model = codes.fit(X, run, n_sweeps, 1, seed, n_jobs, schedule)
    data = to_bits(test)
    n_draws = len(model.draws_)
    chosen = np.unique(np.linspace(0, n_draws - 1, min(n_draws, 20)).astype(int)).tolist()
    by_draw = np.array([held_out(model.draws_.mixture(k), data, len(test)) for k in chosen])
    singles = by_draw.mean(axis=1)
    found = average(by_draw)
    densities = np.logaddexp.reduce(by_draw, axis=0) - np.log(len(chosen))
    return {
        "name": f"tree, {n_sweeps} sweeps, {len(chosen)} draws averaged",
        "held_out": found,
        "error": float(densities.std(ddof=1) / np.sqrt(len(test))),
        "one_draw": [float(singles.min()), float(singles.mean()), float(singles.max())],
        "cpu_seconds": codes.cpu_seconds(run),
        "nodes": int(model.draws_[-1].n_nodes),
        "in_common": account.compare(model.tree_, other),
    }


def _mixture(kind: str, size: int, X: Bytes, test: Bytes, n_steps: int) -> dict[str, Any]:
    rows, new = X.astype(np.float32), test.astype(np.float32)
    began = time.process_time()
    rng = np.random.default_rng(0)
    if kind == "independent":
        found, name = independent(rows.astype(np.float64)), "independent bits"
    elif kind == "dp":
        found = fit_dp(rows, size, n_steps, rng, TOLERANCE, at_rows=True)
        name = f"Dirichlet process mixture, variational, at most {size} components"
    else:
        found = fit_em(rows, size, n_steps, rng, TOLERANCE, at_rows=True)
        name = f"Bernoulli mixture by EM, {size} components"
    taken = time.process_time() - began
    densities = found.log_densities(new)
    used = np.unique(found.labels(rows)).size
    return {
        "name": name,
        "held_out": float(densities.mean()),
        "error": float(densities.std(ddof=1) / np.sqrt(len(test))),
        "cpu_seconds": taken,
        "nodes": int(used),
    }


def mixtures(
    X: Bytes, test: Bytes, folder: Path, sizes: tuple[int, ...], n_steps: int, digest: str
) -> Iterator[dict[str, Any]]:
    """Yield what each mixture predicts; what is in the folder is not done again."""
    for kind, size in (("independent", 1), *(("em", size) for size in sizes), ("dp", max(sizes))):
        settings = {"kind": kind, "size": size, "n_steps": n_steps, "data": digest}

        def compute(kind: str = kind, size: int = size) -> dict[str, Any]:
            return _mixture(kind, size, X, test, n_steps)

        yield codes.kept(folder / f"{kind}-{size}.json", settings, compute)
