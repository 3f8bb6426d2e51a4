"""What a run directory costs: writing every sweep of 50,000 x 256 bits, opening 1,000 draws.

Both schedules, one thread, every sweep kept (thin = 1), with the state that continuing needs. The
chain starts at the true tree. Times of writing are taken around the append itself, within the same
run as the sweeps.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from sweep import simulate
from treestick.chain import run_chain
from treestick.estimators.draws import to_record
from treestick.estimators.sampled import read_traces
from treestick.store import RunFolder


def writing(folder: Path, schedule: str, n_sweeps: int) -> None:
    """Print the time of sweeps, and of writing what they give."""
    state, data = simulate(50_000, 40)
    run = RunFolder(folder)
    run.claim()
    sweeps, writes = [], []
    chain = run_chain(1, 0, state, data, 0, map, schedule)
    next(chain)  # which may compile
    for _ in range(n_sweeps):
        start = time.perf_counter()
        swept = next(chain)
        middle = time.perf_counter()
        run.append(to_record(0, swept), 0.0, swept.state)
        sweeps.append(middle - start)
        writes.append(time.perf_counter() - middle)
    run.close()
    size = sum(path.stat().st_size for path in folder.iterdir()) / n_sweeps
    share = sum(writes) / sum(sweeps)
    sweep, write = 1e3 * statistics.median(sweeps), 1e3 * statistics.mean(writes)
    print(
        f"| {schedule} | {sweep:.1f} | {write:.2f} "
        f"| {1e3 * max(writes):.1f} | {100 * share:.1f} % | {size / 1e3:.0f} |"
    )


def opening(folder: Path, n_draws: int) -> None:
    """Print the time until the scalars of all draws are there, and until one draw is."""
    state, data = simulate(50_000, 40)
    swept = next(run_chain(1, 0, state, data, 0, map, "paper"))
    record = to_record(0, swept)
    run = RunFolder(folder)
    run.claim()
    for sweep in range(n_draws):
        run.append(record._replace(sweep=sweep), 0.0, swept.state)
    run.close()
    start = time.perf_counter()
    traces = read_traces(RunFolder(folder))
    middle = time.perf_counter()
    RunFolder(folder).chain(0).read(n_draws // 2)
    end = time.perf_counter()
    print(f"\n{len(traces[0])} draws: scalars {middle - start:.2f} s, a draw {end - middle:.3f} s")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweeps", type=int, default=40)
    parser.add_argument("--draws", type=int, default=1000)
    options = parser.parse_args()
    print("| schedule | sweep, ms (median) | write, ms (mean) | write, ms (most) | share | KB |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for schedule in ("paper", "default"):
            writing(Path(folder) / schedule, schedule, options.sweeps)
        opening(Path(folder) / "opening", options.draws)


if __name__ == "__main__":
    main()
