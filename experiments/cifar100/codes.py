"""The codes of CIFAR-100, and fits of trees to them that go on where they were stopped.

Priors are those of the paper, section 5. A quarter of the sweeps is burn-in, in which step sizes
adapt; of the rest, draws at even distances are kept, a hundred at most. Chains begin with all
images at the root, but those of the paper's moves, which would not leave it, with a draw from
the prior.
"""

import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from treestick import BernoulliTree
from treestick.estimators.commands import status
from treestick.prior import draw_urn
from treestick.report.saving import write_whole

PRIORS: dict[str, Any] = {
    "alpha0": (10.0, 50.0),
    "decay": (0.05, 0.8),
    "gamma": (1.0, 10.0),
    "diffusion": (0.01, 1.0),
}
PAPERS_MOVES = "paper"
START = {"alpha0": 10.0, "decay": 0.425, "gamma": 1.0}
"""Of the draw from the prior: with more nodes, the paper's moves take them away only slowly."""
MOST_DRAWS = 100
FEWEST_TIMED = 20
"""Sweeps at once by which their time is known: starting would count too much in fewer."""


class Codes(NamedTuple):
    """The data, and labels that no model sees."""

    X: npt.NDArray[np.uint8]
    labels: dict[str, npt.NDArray[np.str_]]
    """Names of classes: ``coarse`` and ``fine``."""


def read(path: Path) -> Codes:
    """Return what is in the file: ``packed`` bits; labels as numbers, and their names."""
    with np.load(path, allow_pickle=False) as file:
        labels = {
            kind: np.char.replace(file[f"{kind}_names"], "_", " ")[file[kind]]
            for kind in ("coarse", "fine")
        }
        return Codes(np.unpackbits(file["packed"], axis=1), labels)


def split(n_data: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the rows to fit to and a tenth to predict: of 50,000 codes, 45,000 and 5,000."""
    order = np.random.default_rng(0).permutation(n_data)
    return order[: n_data - n_data // 10], order[n_data - n_data // 10 :]


def lengths(n_sweeps: int) -> dict[str, int]:
    """Return burn-in, number of draws and sweeps between them; together the sweeps asked for."""
    after = n_sweeps - n_sweeps // 4
    thin = -(-after // MOST_DRAWS)
    n_draws = after // thin
    return {"burn_in": n_sweeps - n_draws * thin, "n_draws": n_draws, "thin": thin}


def fit(
    X: npt.NDArray[np.uint8], run: Path, n_sweeps: int, n_chains: int, seed: int,
    n_jobs: int | None, schedule: str = "default",
) -> BernoulliTree:  # fmt: skip
    """Return the tree of a run, which goes on if it is there already.

    An interrupt ends the sweep, saves it, and is raised.
    """
    start = draw_urn(len(X), **START, seed=seed) if schedule == PAPERS_MOVES else "root"
    model = BernoulliTree(
        **PRIORS, **lengths(n_sweeps), n_chains=n_chains, init=start, schedule=schedule,
        n_jobs=n_jobs, random_state=seed, run_dir=run,
    )  # fmt: skip
    began, done = time.process_time(), sweeps_done(run)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the report says how far chains agree
        warnings.filterwarnings("ignore", "interrupted", RuntimeWarning)  # said below
        model.fit(X)
    if (n_new := sweeps_done(run) - done) > 0:
        with cpu_file(run).open("a", encoding="utf-8") as file:
            line = {"sweeps": n_new, "cpu_seconds": time.process_time() - began}
            file.write(json.dumps(line) + "\n")
    if len(model.draws_) < n_chains * model.n_draws:
        raise KeyboardInterrupt
    return model


def sweeps_done(run: Path) -> int:
    """Return how many sweeps a run has, of all chains."""
    return sum(chain.sweep for chain in status(run).chains) if (run / "run.json").exists() else 0


def cpu_file(run: Path) -> Path:
    """Return where the CPU time of sweeps is noted, each time that a run has gone on."""
    return run.with_name(f"{run.name}-cpu.jsonl")


def cpu_per_sweep(run: Path) -> float | None:
    """Return CPU seconds per sweep, where it went on for some; None if it never did."""
    lines = [line for line in _cpu_times(run) if line["sweeps"] >= FEWEST_TIMED]
    n_sweeps = sum(line["sweeps"] for line in lines)
    return sum(line["cpu_seconds"] for line in lines) / n_sweeps if lines else None


def cpu_seconds(run: Path) -> float | None:
    """Return CPU seconds of a run; None if they are not known of all sweeps."""
    lines = _cpu_times(run)
    if sum(line["sweeps"] for line in lines) < sweeps_done(run):
        return None
    return sum(line["cpu_seconds"] for line in lines)


def _cpu_times(run: Path) -> list[dict[str, float]]:
    if not cpu_file(run).exists():
        return []
    return [json.loads(line) for line in cpu_file(run).read_text("utf-8").splitlines()]


def kept(path: Path, settings: dict[str, Any], compute: Callable[[], Any]) -> Any:
    """Return the result in a file if it is of these settings; else compute it and write it."""
    if path.exists():
        before = json.loads(path.read_text("utf-8"))
        if before["settings"] == settings:
            return before["found"]
    found = compute()
    text = json.dumps({"settings": settings, "found": found}, allow_nan=False, indent=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda aside: Path(aside).write_text(text + "\n", "utf-8"))
    return found
