"""The subject of a report on a run: its draws, its data if they can be found, and a consensus."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from treestick.analysis.consensus import Consensus, consensus
from treestick.estimators import load_run
from treestick.estimators.commands import prepare_resume
from treestick.inputs import InvalidValue
from treestick.io import read_images, read_metadata
from treestick.report.subject import MOST_DRAWS, Subject, describe

MOST_COMPARED, FEWEST_COMPARED = 40, 5
"""Draws among which the consensus is looked for; if it cannot be as many, there is none."""
MOST_WORK = 2e10
"""Steps of comparing draws with each other, some 3 ns each."""


def describe_run(
    path: Path,
    say: Callable[[str], None],
    *,
    data: Path | None = None,
    images: Path | None = None,
    tile: int | None = None,
    metadata: Path | None = None,
    many: Sequence[str] = (),
    title: str | None = None,
    most_draws: int | None = None,
) -> Subject:
    """Return the subject of a report on a run.

    Parameters
    ----------
    path
        The folder of the run.
    say
        Told what the report does without.
    data
        Where the data are now; where they were at the fit, if not given. If they cannot be found,
        the report has no rows.
    images, tile
        See :func:`treestick.io.read_images`.
    metadata, many
        See :func:`treestick.io.read_metadata`; beside those that the run has.
    title, most_draws
        See :func:`treestick.report.subject.describe`.
    """
    model = load_run(path)
    if not hasattr(model, "tree_"):
        raise InvalidValue(f"{path}: {type(model).__name__} has no tree to report")
    n_data = model.tree_.n_data
    try:
        X = prepare_resume(path, None if data is None else str(data), None)[1]
    except InvalidValue as error:
        if data is not None:
            raise
        say(f"without the rows of the data: {error}")
        X = None
    columns = dict(model.metadata_)
    if metadata is not None:
        columns |= read_metadata(metadata, n_data, many)
    found = _find_consensus(model.draws_)
    if found is None:
        say("without a consensus: the trees are too large to be compared in a minute or so")
    return describe(
        model,
        X,
        title=title,
        images=None if images is None else read_images(images, n_data, tile),
        metadata=columns or None,
        consensus=None if found is None else found.tree,
        support=None if found is None else found.support,
        n_compared=None if found is None else found.n_compared,
        most_draws=MOST_DRAWS if most_draws is None else most_draws,
    )


def _find_consensus(draws: Any) -> Consensus | None:
    """Return the consensus of some draws, fewer if their trees are large; None if too few."""
    last = draws[-1]
    depth = 1.0 + last.depth[last.assignments].mean()
    work = last.n_data * (depth**2 + math.log2(last.n_data + 1))  # cells, and to sort the data
    n_some = min(MOST_COMPARED, len(draws), int(math.sqrt(2.0 * MOST_WORK / work)))
    if n_some < min(FEWEST_COMPARED, len(draws)):
        return None
    chosen = np.unique(np.linspace(0, len(draws) - 1, n_some).astype(int))
    return consensus([draws[int(k)] for k in chosen])
