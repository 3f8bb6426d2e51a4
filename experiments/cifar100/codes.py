"""The codes of CIFAR-100, and fits of trees to them that go on where they were stopped.

Priors are those of the paper, section 5. A quarter of the sweeps is burn-in, in which step sizes
adapt; of the rest, draws at even distances are kept, a hundred at most.
"""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from treestick import BernoulliTree
from treestick.report.saving import write_whole

PRIORS: dict[str, Any] = {
    "alpha0": (10.0, 50.0),
    "decay": (0.05, 0.8),
    "gamma": (1.0, 10.0),
    "diffusion": (0.01, 1.0),
}
MOST_DRAWS = 100


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
    X: npt.NDArray[np.uint8], run: Path, n_sweeps: int, n_chains: int, seed: int, n_jobs: int | None
) -> BernoulliTree:
    """Return the tree of a run, which goes on if it is there already.

    An interrupt ends the sweep, saves it, and is raised.
    """
    model = BernoulliTree(
        **PRIORS, **lengths(n_sweeps), n_chains=n_chains, n_jobs=n_jobs, random_state=seed,
        run_dir=run,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the report says how far chains agree
        warnings.filterwarnings("ignore", "interrupted", RuntimeWarning)  # said below
        model.fit(X)
    if len(model.draws_) < n_chains * model.n_draws:
        raise KeyboardInterrupt
    return model


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
