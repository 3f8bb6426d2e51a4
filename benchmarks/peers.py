"""What a user would pick instead, measured beside us in one run: density, purity, time, memory.

    python benchmarks/peers.py --out peers.md
    python benchmarks/peers.py --data FOLDER --out peers.md

Every fit is a process of its own with one thread, so that memory and CPU time are those of that fit
alone; a fit to a few rows before it has everything loaded and compiled. Splits and seeds are fixed:
a table shows the median over seeds (lowest to highest), also of differences and ratios seed by
seed. Data are some that ship with dependencies or are simulated; those of ``--data`` are added if
their files are there (``problems.py``). Methods are in ``contestants.py``. Last comes how well our
own moves mix: effective draws per second of scalars without labels, with all moves and without each
of them.
"""

import argparse
import importlib
import multiprocessing
import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
N_TO_WARM_UP = 60
MIXING_DATA, MIXING_NODES = 500, 20
MIXING_CHAINS = 4
"""Together: one chain that has not been everywhere takes its few places for all there are."""
SLOW = "nips"
"""Takes an hour; compared only when it is named."""


class Measured(NamedTuple):
    """One fit. None is what a method does not have, or what cannot be measured here."""

    held_out: float | None
    purity: float | None
    rand: float | None
    """Adjusted Rand index of the clusters with the labels."""
    seconds: float
    """Of CPU time."""
    megabytes: float | None
    """Of memory at the peak, beyond what the process had before the fit."""
    nodes: int


def measure(
    problem: str, name: str, folder: Path | None, seed: int, burn_in: int, n_draws: int
) -> Measured:
    """Fit one method to one split, in a process of its own."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.metrics import adjusted_rand_score

    from contestants import CONTESTANTS, Effort
    from problems import load_split
    from treestick.analysis.purity import dendrogram_purity

    warnings.simplefilter("ignore", ConvergenceWarning)
    split = load_split(problem, folder, seed)
    contestant = CONTESTANTS[split.kind][name]
    few = slice(0, min(N_TO_WARM_UP, split.train.shape[0]))
    labels = None if split.labels is None else split.labels[few]
    contestant(split._replace(train=split.train[few], labels=labels), seed, Effort(2, 2))
    before = memory_in_use()
    began = time.process_time()
    found = contestant(split, seed, Effort(burn_in, n_draws))
    seconds = time.process_time() - began
    peak = memory_at_peak()
    purity = rand = None
    if split.labels is not None and found.labels is not None and found.tree is not None:
        purity = dendrogram_purity(found.tree, split.labels)
        rand = float(adjusted_rand_score(split.labels, found.labels))
    return Measured(
        found.score() if found.score is not None else None,
        purity,
        rand,
        seconds,
        None if before is None or peak is None else peak - before,
        0 if found.tree is None else found.tree.n_nodes,
    )


def memory_in_use() -> float | None:
    """Return the megabytes of this process, and have its peak start from here; Linux only."""
    reset = Path("/proc/self/clear_refs")
    if not reset.exists():
        return None
    reset.write_text("5")
    return _status("VmRSS:")


def memory_at_peak() -> float | None:
    """Return the most megabytes since the reset."""
    return _status("VmHWM:") if Path("/proc/self/status").exists() else None


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def compare(problem: str, options: argparse.Namespace) -> Iterator[str]:
    """Yield the rows of the table of one problem, as they come."""
    from contestants import CONTESTANTS
    from problems import DOCUMENTS, PROBLEMS, load_split

    split = load_split(problem, options.data, 0)
    n_classes = "no labels" if split.labels is None else f"{len(set(split.labels))} classes"
    of = "nats per word" if split.kind == DOCUMENTS else "nats per row"
    yield (
        f"| {problem}: {split.train.shape[0]:,} x {split.train.shape[1]:,} {split.kind}, "
        f"{n_classes} | held out, {of} | first row ahead by | dendrogram purity | ARI | nodes | "
        "CPU s | of the first row's | MB |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    ours: list[Measured] = []
    for name in CONTESTANTS[PROBLEMS[problem].kind]:
        found = [
            apart(measure, problem, name, options.data, seed, *options.sweeps)
            for seed in range(options.seeds)
        ]
        ours = ours or found
        both = list(zip(ours, found, strict=True))
        cells = [
            spread([one.held_out for one in found], 2),
            spread([_ahead(a, b) for a, b in both if found is not ours], 2),
            spread([one.purity for one in found], 2),
            spread([one.rand for one in found], 2),
            spread([one.nodes for one in found], 0),
            f"{statistics.median(one.seconds for one in found):.2f}",
            spread([b.seconds / a.seconds for a, b in both if found is not ours], 3),
            spread([one.megabytes for one in found], 0),
        ]
        yield f"| {name} | {' | '.join(cells)} |"
    yield ""


def _ahead(one: Measured, other: Measured) -> float | None:
    if one.held_out is None or other.held_out is None:
        return None
    return one.held_out - other.held_out


def apart(function: Callable[..., Measured], *arguments: Any) -> Measured:
    """Call a function in a new process, which begins with the methods imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["contestants"])
    with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
        return pool.submit(function, *arguments).result()


def spread(values: Sequence[float | None], digits: int) -> str:
    """Return the median (lowest to highest) as text; nothing if it is not known."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    median = f"{statistics.median(known):.{digits}f}"
    low, high = f"{min(known):.{digits}f}", f"{max(known):.{digits}f}"
    space = "\N{NO-BREAK SPACE}"
    return median if low == high else f"{median} ({low}{space}to{space}{high})"


def mixing_table(seconds: float, seed: int) -> Iterator[str]:
    """Yield the table of effective draws per CPU second with all moves, and without each."""
    import numpy as np

    import mixing
    from treestick.analysis.convergence import effective_draws
    from treestick.moves.structure.plan import MOVES

    truth, data, _ = mixing.problem(seed, MIXING_DATA, MIXING_NODES)
    pairs = mixing.draw_pairs(seed, MIXING_DATA)
    settings: dict[str, list[str]] = {
        "all moves": [],
        **{f"without {name}": ["--without", name] for name in MOVES},
    }
    settings["the paper's moves"] = ["--schedule", "paper"]
    yield (
        f"| effective draws per CPU s, {MIXING_CHAINS} chains of {seconds:g} s, {MIXING_DATA} x "
        f"256 bits near a tree of {MIXING_NODES} nodes | {' | '.join(mixing.COMPARED)} | "
        "R-hat of nodes | sweeps per CPU s | log joint, mean of the second halves |"
    )
    yield "|---|---|---|---|---|---|---|"
    for name, words in settings.items():
        chains = []
        for chain in range(MIXING_CHAINS):
            options = mixing.make_parser().parse_args(
                ["run", "--out", ".", "--seconds", str(seconds), "--seed", str(seed),
                 "--chain", str(chain), *words]
            )  # fmt: skip
            chains.append(mixing.follow(truth, data, options, pairs).traces)
        length = min(len(one["nodes"]) for one in chains) // 2
        ends = {
            what: np.array([one[what][-length:] for one in chains], dtype=float)
            for what in ("seconds", *mixing.COMPARED)
        }
        spent = (ends["seconds"][:, -1] - ends["seconds"][:, 0]).sum()
        rates = [effective_draws(ends[what]) / spent for what in mixing.COMPARED]
        yield (
            f"| {name} | {' | '.join(f'{rate:.2g}' for rate in rates)} | "
            f"{mixing.rhat(ends['nodes']):.2f} | {MIXING_CHAINS * (length - 1) / spent:.1f} | "
            f"{ends['log joint'].mean():.0f} |"
        )


def try_bnpy() -> str:
    """Return whether bnpy can be compared here."""
    try:
        bnpy = importlib.import_module("bnpy")
    except ImportError as error:
        return f"bnpy is not compared: it is not installed here ({error})."
    import numpy as np

    data = bnpy.data.XData(np.random.default_rng(0).normal(size=(50, 2)))
    try:
        bnpy.run(data, "DPMixtureModel", "DiagGauss", "VB", K=2, nLap=2, doSaveToDisk=False)
    except AttributeError as error:  # of Python or NumPy, which have left its names behind
        return f"bnpy is not compared: it is installed, but does not run here ({error})."
    return "bnpy runs here, but is not among the methods yet."


def conditions(options: argparse.Namespace) -> str:
    """Return in words how the tables were made."""
    import importlib.metadata as installed

    names = ("treestick", "scikit-learn", "tomotopy", "numpy")
    versions = ", ".join(f"{name} {installed.version(name)}" for name in names)
    return (
        f"Medians of {options.seeds} splits and seeds (lowest to highest; not of CPU s); four "
        f"fifths of the rows to fit; our chains 2 with burn_in={options.sweeps[0]} and "
        f"n_draws={options.sweeps[1]} (TopicTree after the sweeps of LDA that it begins with), "
        "tomotopy as many sweeps; one "
        f"thread; {versions}, Python {platform.python_version()}, {platform.system()} "
        f"{platform.machine()}. MB is memory at the peak beyond what the process had before the "
        "fit. ARI is that of the clusters that a method gives, for trees of nodes; linkages are "
        "cut at the true number of classes. Of documents, half of the words are predicted from the "
        "other half."
    )


def pair(text: str) -> tuple[int, int]:
    """Return two whole numbers with a comma between them."""
    first, second = text.split(",")
    return int(first), int(second)


def main() -> None:
    """Run all, print, and write what was printed."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--data", type=Path, help="folder with npz files")
    parser.add_argument("--problems", nargs="+", help="which; all that are there if not given")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sweeps", type=pair, default=(300, 300), help="burn_in,n_draws")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of each chain for mixing; 0 to leave it out"
    )
    parser.add_argument("--out", type=Path, help="file for the tables")
    options = parser.parse_args()
    os.environ.update(dict.fromkeys(THREADS, "1"))  # before NumPy, here and in the processes
    beside = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.getenv("PYTHONPATH")]))
    os.environ["PYTHONPATH"] = beside  # for what the server of processes imports first
    from problems import PROBLEMS, available

    chosen = options.problems or [name for name in available(options.data) if name != SLOW]
    if unknown := set(chosen) - set(PROBLEMS):
        parser.error(f"{', '.join(unknown)}: problems are {', '.join(PROBLEMS)}")
    lines: list[str] = []

    def tell(line: str) -> None:
        print(line, flush=True)
        lines.append(line)
        if options.out is not None:
            options.out.write_text("\n".join(lines) + "\n", "utf-8")

    tell(conditions(options) + "\n")
    tell(try_bnpy() + "\n")
    for problem in chosen:
        for line in compare(problem, options):
            tell(line)
    if options.seconds > 0.0:
        for line in mixing_table(options.seconds, 0):
            tell(line)


if __name__ == "__main__":
    main()
