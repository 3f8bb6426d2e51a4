"""How far chains agree while they run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from treestick.analysis.diagnosis import describe
from treestick.engine.progress import Progress
from treestick.estimators.idata import AGREE_ON
from treestick.store import RunFolder, Trace

FOLLOWED = AGREE_ON
"""As in the warning after a fit; ``diagnose`` has all scalars."""
SECONDS_BETWEEN = 15.0
Report = Callable[[int, int, float, int], None]
"""Takes chain, sweep, log likelihood and number of nodes."""


def rhat_so_far(traces: Sequence[Trace]) -> dict[str, float]:
    """Return R-hat of some scalars over the draws that all chains have; nothing while unknown."""
    shortest = min((len(trace) for trace in traces), default=0)
    shared = {
        str(name): np.stack([trace.values[name][:shortest] for trace in traces])
        for name in FOLLOWED
        if shortest and name in traces[0].values
    }
    return {row.name: row.rhat for row in describe(shared) if not np.isnan(row.rhat)}


def listed(rhat: dict[str, float]) -> str:
    """Return R-hats in one line."""
    return ", ".join(f"{name} {value:.3f}" for name, value in rhat.items())


def telling_of_agreement(run: RunFolder, n_chains: int, progress: Progress) -> Report:
    """Return what updates the display, and says above it now and then how far chains agree."""
    asking = threading.Lock()
    last = time.monotonic()

    def report(chain: int, sweep: int, log_likelihood: float, n_shown: int) -> None:
        nonlocal last
        progress.update(chain, sweep, log_likelihood, n_shown)
        if time.monotonic() - last < SECONDS_BETWEEN or not progress.is_shown:
            return
        if n_chains > 1 and asking.acquire(blocking=False):
            last = time.monotonic()
            traces = [run.chain(k).trace() for k in range(n_chains)]
            rhat = rhat_so_far(traces)
            if rhat:
                n_draws = min(map(len, traces))
                progress.say(f"R-hat after {n_draws} draws: {listed(rhat)} (1 is agreement)")
            asking.release()

    return report
