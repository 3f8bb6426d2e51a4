"""Fits on small Dask clusters, in scripts of their own, compared with fits on threads.

A script is a function ``main`` of a module in this folder. It runs in a process of its own,
uncompiled in CI and on few data, because the workers would compile for minutes.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from treestick import BernoulliTree, GaussianTree, HDPTree, MultinomialTree, TopicTree

KINDS: dict[str, Any] = {
    "bernoulli": BernoulliTree,
    "gaussian": GaussianTree,
    "multinomial": MultinomialTree,
    "sparse": MultinomialTree,
    "hdp": HDPTree,
    "hdp of counts": partial(HDPTree, component="multinomial"),
    "topics": partial(
        TopicTree, 3, sampler="instantiated", lda_sweeps=12, tree_sweeps=1, thin=1
    ),
    "topics summed out": partial(
        TopicTree, 3, sampler="instantiated", document_move="summed_out", lda_sweeps=0,
        tree_sweeps=1, thin=1,
    ),
}  # fmt: skip
HOW: dict[str, Any] = {
    "n_draws": 3, "burn_in": 2, "n_chains": 2, "random_state": 0, "verbose": 0
}  # fmt: skip


def make_data(kind: str, n_data: int) -> Any:
    """Return data in two groups."""
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1], [n_data // 2, n_data - n_data // 2])
    if kind in ("gaussian", "hdp"):
        return rng.normal(size=(n_data, 3)) * [1.0, 0.1, 30.0] + 4.0 * group[:, None] + 1 / 3
    chance = np.array([0.1, 0.9])[group][:, None]
    if kind == "bernoulli":
        return (rng.random((n_data, 8)) < chance).astype(np.uint8)
    counts = rng.poisson(2.0 * np.where(np.arange(6) < 3, chance, 1.0 - chance))
    return sparse.csr_array(counts) if kind == "sparse" else counts


def save(X: Any, folder: Path, edges: list[int]) -> list[str]:
    """Write rows to files, cut where it is said; return their names."""
    paths, is_sparse = [], bool(sparse.issparse(X))
    for k, (start, stop) in enumerate(zip([0, *edges], [*edges, X.shape[0]], strict=True)):
        path = folder / f"part-{k}"
        if is_sparse:
            sparse.save_npz(path.with_suffix(".npz"), X[start:stop])
            paths.append(f"{path}.npz")
        else:
            np.save(path.with_suffix(".npy"), X[start:stop])
            paths.append(f"{path}.npy")
    return paths


def fit(kind: str, X: Any, **more: Any) -> Any:
    """Return a fitted estimator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few draws do not agree
        return KINDS[kind](**{**HOW, **more}).fit(X)


def check_same(one: Any, other: Any) -> None:
    """Compare all draws of two fits, bit for bit."""
    assert len(one.draws_) == len(other.draws_)
    for a, b in zip(one.draws_, other.draws_, strict=True):
        assert a.parent.tobytes() == b.parent.tobytes()
        np.testing.assert_array_equal(a.assignments, b.assignments)
        assert a.log_likelihood == b.log_likelihood
        for name, values in a.node_params.items():
            assert np.asarray(values).tobytes() == np.asarray(b.node_params[name]).tobytes()
    scalars, others = (fitted.idata_["posterior"].ds for fitted in (one, other))
    for name in scalars.data_vars:
        assert scalars[name].values.tobytes() == others[name].values.tobytes(), name
    assert max(tree.n_nodes for tree in one.draws_) > 1


@contextlib.contextmanager
def local_cluster(n_workers: int, n_threads: int = 1, **options: Any) -> Iterator[tuple[Any, Any]]:
    """Start worker processes; give the cluster and its client."""
    distributed: Any = importlib.import_module("distributed")  # not typed
    with (
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=n_threads, dashboard_address=None,
            **options,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):  # fmt: skip
        yield cluster, client


def wait_until(is_so: Callable[[], bool], seconds: float = 240.0) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it has not come"
        time.sleep(0.02)


def kill_when(is_so: Callable[[], bool], pid: int) -> None:
    """Kill a process as soon as something is so."""
    wait_until(is_so)
    os.kill(pid, signal.SIGKILL)


def has_draws(run_dir: Path) -> bool:
    """Say whether a chain has committed labels."""
    return (run_dir / "chain-0-labels").exists()


def n_committed(run_dir: Path) -> int:
    """Return after how many sweeps a chain has labels."""
    return len(list((run_dir / "chain-0-labels").iterdir()))


def run_script(name: str, *arguments: Any, compiled: bool = False) -> list[str]:
    """Run a function of ``cluster_scripts`` in a process; return the lines that it prints."""
    here = os.path.dirname(__file__)
    call = f"import sys; sys.path.insert(0, {here!r}); import cluster_scripts as s"
    finished = subprocess.run(
        [sys.executable, "-c", f"{call}; s.main()", name, *map(str, arguments)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "0" if compiled else "1"},
        capture_output=True,
        text=True,
        timeout=1800 if compiled else 300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-6000:]
    return finished.stdout.splitlines()
