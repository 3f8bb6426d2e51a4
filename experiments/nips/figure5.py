"""Figure 5 of the paper: trees of documents against LDA, on held-out papers of NIPS 1-12.

    python experiments/nips/figure5.py nips12.npz --out results [--quick] [--folds N] [--topics K]

The file has ``words`` (the word of each token, documents one after the other) and ``doc_ptr``
(where each begins, and the end). Ten random partitions into 1,200 papers to fit to and 540 to
predict, 10 to 100 topics, by five models: the Laplace-smoothed multinomial, LDA with
doc_topic_prior = 50 / K (Griffiths & Steyvers 2004), LDA with an inferred prior for each topic,
TopicTree, and TopicTree with the paper's moves. Perplexity per word, by empirical likelihood
with 100,000 pseudo-documents (the paper's measure) and by document completion.

Every result is a line of ``results/scores.jsonl`` as soon as it is there; what is there already is
not done again, so an interrupted run goes on where it was, partition by partition. At the end come
``table.md`` and ``figure5.png``. ``--quick``: two partitions, 20 and 50 topics, fewer sweeps.
``--folds`` and ``--topics`` say how many partitions, and which numbers of topics, instead.
"""

import argparse
import json
import multiprocessing
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from figure4 import PAPERS_MOVES, beginning
from treestick import LDA, TopicTree
from treestick.analysis.heldout import make_folds
from treestick.analysis.topic_draws import laplace_multinomial
from treestick.report.topic_scores import score

N_TRAIN = 1200
MULTINOMIAL, FIXED, INFERRED, TREE = "multinomial", "LDA, 50/K", "LDA, inferred", "TopicTree"
PAPERS = "TopicTree, paper's moves"
MODELS = (FIXED, INFERRED, PAPERS, TREE)
MEASURES = {"likelihood": "empirical likelihood", "completion": "document completion"}
COLOURS = {FIXED: "#b0b0b0", INFERRED: "#4477aa", PAPERS: "#e0b080", TREE: "#cc6644"}


class Lengths(NamedTuple):
    """How long chains are."""

    lda_sweeps: int
    tree_sweeps: int
    burn_in: int
    n_draws: int
    thin: int


class Plan(NamedTuple):
    """How much is done."""

    folds: int
    topics: tuple[int, ...]
    lengths: Lengths


FULL = Plan(10, tuple(range(10, 101, 10)), Lengths(1000, 500, 500, 50, 10))
QUICK = Plan(2, (20, 50), Lengths(150, 50, 150, 10, 5))


class Job(NamedTuple):
    """One fit and its scores."""

    fold: int
    model: str
    n_topics: int


def read(path: str) -> sparse.csr_array:
    """Return the counts of the corpus."""
    with np.load(path) as content:
        words, edges = content["words"].astype(np.int64), content["doc_ptr"]
    rows = np.repeat(np.arange(edges.size - 1), np.diff(edges))
    shape = (edges.size - 1, int(words.max()) + 1)
    return sparse.csr_array((np.ones(words.size), (rows, words)), shape=shape)


def make_model(job: Job, lengths: Lengths) -> Any:
    """Return the estimator of a job; all have the same number of sweeps before the first draw."""
    shared: dict[str, Any] = {
        "n_draws": lengths.n_draws, "thin": lengths.thin, "n_jobs": 1, "n_chains": 1,
        "random_state": job.fold, "verbose": 0,
    }  # fmt: skip
    if job.model in (TREE, PAPERS):
        schedule = PAPERS_MOVES if job.model == PAPERS else "default"
        return TopicTree(
            job.n_topics, lda_sweeps=lengths.lda_sweeps, tree_sweeps=lengths.tree_sweeps,
            burn_in=lengths.burn_in, init=beginning(schedule, N_TRAIN, job.fold),
            schedule=schedule, **shared,
        )  # fmt: skip
    prior = {"doc_topic_prior": 50.0 / job.n_topics} if job.model == FIXED else {}
    burn_in = lengths.lda_sweeps + lengths.tree_sweeps + lengths.burn_in
    return LDA(job.n_topics, burn_in=burn_in, **prior, **shared)


def run(path: str, job: Job, lengths: Lengths) -> dict[str, Any]:
    """Fit one model to one fold, and score it."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    counts = read(path)
    train, test = make_folds(counts.shape[0], N_TRAIN, job.fold + 1)[job.fold]
    began = time.process_time()
    more: dict[str, Any] = {}
    if job.model == MULTINOMIAL:
        draws: Any = [laplace_multinomial(counts[train])]
    else:
        model = make_model(job, lengths).fit(counts[train])
        draws = model.topic_draws_
        if job.model in (TREE, PAPERS):
            more = {
                "nodes": float(np.mean([tree.n_nodes for tree in model.draws_])),
                "depth": float(np.mean([tree.depth.max() for tree in model.draws_])),
                "concentration": model.concentration_,
            }
    fitted = time.process_time()
    found = score(draws, counts[test], 1 if job.model == MULTINOMIAL else 100_000, job.fold)
    return {
        **job._asdict(), **found._asdict(), **more, "fit_seconds": fitted - began,
        "score_seconds": time.process_time() - fitted, "lengths": list(lengths),
    }  # fmt: skip


def jobs(plan: Plan) -> Iterator[Job]:
    """Yield all jobs, fold by fold, in each the longest first, so that processes end together."""
    for fold in range(plan.folds):
        for model in reversed(MODELS):
            for n_topics in sorted(plan.topics, reverse=True):
                yield Job(fold, model, n_topics)
        yield Job(fold, MULTINOMIAL, 1)


def to_line(result: dict[str, Any]) -> str:
    """Return a result as a line of JSON: what is not known (errors of a single draw) is null."""
    known = {k: None if isinstance(v, float) and np.isnan(v) else v for k, v in result.items()}
    return json.dumps(known, allow_nan=False)


def from_line(line: str) -> dict[str, Any]:
    """Return the result of a line, nan for null."""
    return {k: np.nan if v is None else v for k, v in json.loads(line).items()}


def load(path: Path, plan: Plan) -> dict[Job, dict[str, Any]]:
    """Return the results of this plan that are there."""
    found, wanted = {}, set(jobs(plan))
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            result = from_line(line)
            job = Job(result["fold"], result["model"], result["n_topics"])
            if job in wanted and result["lengths"] == list(plan.lengths):
                found[job] = result
    return found


def table(results: dict[Job, dict[str, Any]], plan: Plan) -> Iterator[str]:
    """Yield the rows of a table: means over folds, and their standard deviations."""
    yield "| model | K | empirical likelihood | completion | effective | nodes | CPU s to fit |"
    yield "|---|---|---|---|---|---|---|"
    every = [(MULTINOMIAL, 1), *((model, k) for k in plan.topics for model in MODELS)]
    for model, n_topics in every:
        rows = [results[Job(fold, model, n_topics)] for fold in range(plan.folds)]

        def spread(name: str, rows: list[dict[str, Any]] = rows) -> str:
            values = [row[name] for row in rows]
            return f"{np.mean(values):.0f} ± {np.std(values, ddof=1):.0f}"

        nodes = f"{np.mean([r['nodes'] for r in rows]):.0f}" if "nodes" in rows[0] else ""
        effective = np.mean([row["n_effective"] for row in rows])
        seconds = np.mean([row["fit_seconds"] for row in rows])
        yield (
            f"| {model} | {n_topics if model != MULTINOMIAL else ''} | {spread('likelihood')} | "
            f"{spread('completion')} | {effective:.1f} | {nodes} | {seconds:.0f} |"
        )


def draw(results: dict[Job, dict[str, Any]], plan: Plan, path: Path) -> None:
    """Draw both panels, for both measures."""
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    axes = figure.subplots(2, 2, width_ratios=(1, 1.2))
    for (left, right), (measure, name) in zip(axes, MEASURES.items(), strict=True):
        floor = 0.8 * min(result[measure] for result in results.values())
        for model in MODELS:
            gains = np.array([
                [results[Job(f, MULTINOMIAL, 1)][measure] - results[Job(f, model, k)][measure]
                 for k in plan.topics] for f in range(plan.folds)
            ])  # fmt: skip
            left.errorbar(
                plan.topics, gains.mean(axis=0), gains.std(axis=0, ddof=1), label=model,
                color=COLOURS[model], marker="o", markersize=4, capsize=3,
            )  # fmt: skip
        left.set(xlabel="topics", ylabel="improvement over the multinomial", title=f"a) {name}")
        for place, model in enumerate((MULTINOMIAL, *MODELS)):
            topics = (1,) if model == MULTINOMIAL else plan.topics
            for fold in range(plan.folds):
                best = min(topics, key=lambda k: results[Job(fold, model, k)][measure])
                height = results[Job(fold, model, best)][measure]
                x = fold + 0.16 * (place - 2)
                right.bar(x, height, 0.15, color=COLOURS.get(model, "#dddddd"),
                          label=model if fold == 0 else None)  # fmt: skip
                if model != MULTINOMIAL:
                    right.text(x, 1.01 * floor, best, ha="center", va="bottom", fontsize=7,
                               rotation="vertical",
                               color="white" if model in (INFERRED, TREE) else "black")  # fmt: skip
        right.set(
            xlabel="fold", ylabel="best perplexity per word", title=f"b) {name}",
            xticks=range(plan.folds), ylim=(floor, None),
        )  # fmt: skip
    figure.legend(
        *axes[0, 1].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False,
        title="in bars: number of topics",
    )  # fmt: skip
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def number_of_folds(text: str) -> int:
    """Return the number of partitions: two at least, for their spread."""
    if int(text) < 2:
        raise argparse.ArgumentTypeError(f"{text}: two partitions at least, for their spread")
    return int(text)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what says how much is done."""
    parser.add_argument("--quick", action="store_true", help="shorter chains, and less of these:")
    parser.add_argument("--folds", type=number_of_folds, help="partitions (10; quick: 2)")
    parser.add_argument("--topics", type=int, nargs="+", help="10 to 100 (quick: 20 and 50)")
    parser.add_argument("--processes", type=int, default=2, help="that fit side by side (2)")


def make_plan(options: argparse.Namespace) -> Plan:
    """Return what the options ask for."""
    plan = QUICK if options.quick else FULL
    topics = tuple(sorted(options.topics or plan.topics))
    return plan._replace(folds=options.folds or plan.folds, topics=topics)


def compare(data: str, out: Path, plan: Plan, processes: int) -> str:
    """Run what is not there yet; then the table, which is returned, and the figure."""
    out.mkdir(parents=True, exist_ok=True)
    scores = out / "scores.jsonl"
    results = load(scores, plan)
    missing = [job for job in jobs(plan) if job not in results]
    began = time.perf_counter()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, spawn, max_tasks_per_child=1) as pool:
        running = {pool.submit(run, data, job, plan.lengths): job for job in missing}
        for done in as_completed(running):
            result = done.result()
            results[running[done]] = result
            with scores.open("a", encoding="utf-8") as file:
                file.write(to_line(result) + "\n")
            print(
                f"{time.perf_counter() - began:6.0f} s  fold {result['fold']}  "
                f"{result['model']:14} K = {result['n_topics']:3}  "
                f"{result['likelihood']:7.1f}  {result['completion']:7.1f}", flush=True,
            )  # fmt: skip
    lines = "\n".join(table(results, plan))
    print(lines)
    (out / "table.md").write_text(lines + "\n", encoding="utf-8")
    draw(results, plan, out / "figure5.png")
    return lines


def main() -> None:
    """Parse, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="nips12.npz")
    parser.add_argument("--out", type=Path, default=Path("nips-results"))
    add_options(parser)
    options = parser.parse_args()
    compare(options.data, options.out, make_plan(options), options.processes)


if __name__ == "__main__":
    main()
