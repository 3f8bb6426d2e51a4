"""Commands on runs: fit, resume, status, diagnose, predict, export."""

import time
from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from treestick.cli import signals
from treestick.cli.options import WholeNumber, say
from treestick.inputs import InvalidValue

if TYPE_CHECKING:
    from treestick.estimators.commands import Source, Status

FAILED, NOT_CONVERGED = 1, 4
Folder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")]
IdColumn = Annotated[
    str | None, typer.Option("--id", help="Column with names of rows. Default: a first one 'id'.")
]
Drop = Annotated[list[str] | None, typer.Option(help="Column to leave out; may be given again.")]
Header = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Whether line 1 has names of columns.")
]
Encoding = Annotated[str, typer.Option(help="Encoding of text files.")]
Form = Annotated[str | None, typer.Option(help="Format of documents: folder, jsonl, csv, mtx ...")]
Words = Annotated[Path | None, typer.Option(help="File with a word on each line; for documents.")]
Text = Annotated[str | None, typer.Option(help="Field or column with the texts of documents.")]
Scheduler = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Scheduler of a Dask cluster: tcp://host:8786."),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Exit with 4 if the chains have not converged.")
]


def fit(
    data: Annotated[
        str,
        typer.Argument(
            help="Table (.csv, .tsv, .parquet, .npy, .npz, .mtx) or documents. With --scheduler a "
            "pattern of files, in quotes: 'part-*.npy' (or .parquet, .npz, .zarr), or of URLs: "
            "'s3://bucket/part-*.npy'."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="RUN", help="Folder to make.")],
    model: Annotated[
        str, typer.Option(help="auto, gaussian, bernoulli, multinomial, hdp, topics or lda.")
    ] = "auto",
    draws: Annotated[int | None, WholeNumber(help="Draws to keep, per chain.")] = None,
    burn_in: Annotated[int | None, WholeNumber(help="Sweeps before the first draw.")] = None,
    thin: Annotated[int | None, WholeNumber(help="Sweeps from draw to draw.")] = None,
    chains: Annotated[int | None, WholeNumber(help="Number of chains.")] = None,
    seed: Annotated[int | None, WholeNumber(help="The same seed, the same draws.")] = None,
    jobs: Annotated[int | None, WholeNumber(help="Threads. Default: all cores.")] = None,
    engine: Annotated[
        str | None, typer.Option(help="Where chains run: processes (default) or threads.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with parameters: alpha0 = [1, 50] ...")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Go on until e.g. rhat=1.05,ess=400; see --max-draws.")
    ] = None,
    max_draws: Annotated[
        int | None, WholeNumber(help="Most draws per chain with --until. Default 10 x --draws.")
    ] = None,
    id: IdColumn = None,
    drop: Drop = None,
    header: Header = None,
    format: Form = None,
    vocabulary: Words = None,
    text: Text = None,
    encoding: Encoding = "utf-8",
    scheduler: Scheduler = None,
    strict: Strict = False,
) -> None:
    """Fit a tree to data, into the folder of a run that can be resumed."""
    from treestick.estimators import choice, commands

    given = {"n_draws": draws, "burn_in": burn_in, "thin": thin, "n_chains": chains,
             "random_state": seed, "n_jobs": jobs, "engine": engine}  # fmt: skip
    from_file = {} if config is None else choice.read_config(config)
    model = choice.check_model(from_file.pop("model", model) if model == "auto" else model)
    parameters = from_file | {k: value for k, value in given.items() if value is not None}
    goal = None if until is None else commands.parse_goal(until)
    if goal is None and max_draws is not None:
        raise InvalidValue(f"max-draws={max_draws} has no effect without --until")
    words = None if vocabulary is None else str(vocabulary)
    source = commands.Source(data, format, words, text, id, drop or [], header, encoding)
    if (output / "run.json").exists():
        raise InvalidValue(
            f"{output} holds a run already; go on with `treestick resume {output}`, or choose "
            "another folder"
        )
    parameters["run_dir"] = str(output)
    if scheduler is None:
        estimator, X = commands.prepare(source, model, {"engine": "processes"} | parameters, say)
    else:
        estimator, X = commands.prepare_elsewhere(source, model, parameters)
    _run(estimator, X, output, goal, max_draws, strict, scheduler)


def resume(
    run: Folder,
    draws: Annotated[int | None, WholeNumber(help="New number of draws per chain, in all.")] = None,
    data: Annotated[
        str | None, typer.Option(help="The data, if they have been moved since.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="As for fit.")] = None,
    max_draws: Annotated[int | None, WholeNumber(help="As for fit.")] = None,
    scheduler: Scheduler = None,
    strict: Strict = False,
) -> None:
    """Go on with a run that was stopped, or extend it."""
    from treestick.estimators import commands

    goal = None if until is None else commands.parse_goal(until)
    estimator, X = commands.prepare_resume(run, data, draws, scheduler is not None)
    if goal is None and draws is None and commands.status(run).is_complete:
        say(f"{run} is complete; --draws with more than {estimator.n_draws} extends it")
    _run(estimator, X, run, goal, max_draws, strict, scheduler)


def _run(
    estimator: Any,
    X: Any,
    output: Path,
    goal: Any,
    max_draws: int | None,
    strict: bool,
    scheduler: str | None,
) -> None:
    from treestick.analysis.diagnosis import diagnose
    from treestick.estimators import commands

    try:
        with signals.terminable():
            interrupted = commands.fit(estimator, X, goal, max_draws, say, scheduler)
    except KeyboardInterrupt:
        say(f"stopped before the first draw; `treestick resume {output}` goes on")
        raise typer.Exit(signals.exit_code()) from None
    print(f"{output}: {commands.found_by(estimator)}")
    if interrupted:
        say(f"stopped; `treestick resume {output}` goes on")
        raise typer.Exit(signals.exit_code())
    if estimator._died:
        say(f"`treestick resume {output}` completes what is missing")
        raise typer.Exit(FAILED)
    print(f"Next: treestick diagnose {output}, treestick report {output}")
    if strict and not diagnose(estimator).verdict.is_good:
        say("the chains have not converged")
        raise typer.Exit(NOT_CONVERGED)


def status(
    run: Folder,
    watch: Annotated[
        bool, typer.Option("--watch", help="Every second again, until the run ends.")
    ] = False,
) -> None:
    """Say how far a run is, also while it runs in another process."""
    from rich.live import Live

    from treestick.estimators import commands

    found = commands.status(run)
    if not watch:
        Console().print(_status_table(found))
        return
    with Live(_status_table(found)) as live:
        while found.owner is not None:
            time.sleep(1.0)
            found = commands.status(run)
            live.update(_status_table(found))


def _status_table(found: "Status") -> Table:
    if found.owner is not None:
        now = f"running, process {found.owner}"
    else:
        now = "complete" if found.is_complete else "stopped; `treestick resume` goes on"
    agree = ", ".join(f"{name} {rhat:.3f}" for name, rhat in found.rhat.items())
    table = Table(
        title=f"{found.estimator}: {now}",
        title_justify="left",
        caption=f"R-hat so far: {agree}" if agree else None,
        caption_justify="left",
    )
    for column in ("chain", "draws", "sweeps", "log likelihood"):
        table.add_column(column, justify="right")
    for chain in found.chains:
        table.add_row(
            str(chain.chain),
            f"{chain.n_draws}/{chain.n_wanted}",
            f"{chain.sweep}/{chain.n_sweeps}",
            f"{chain.log_likelihood:.1f}",
        )
    return table


def diagnose(run: Folder, strict: Strict = False) -> None:
    """Say whether the draws of a run can be believed: R-hat, effective draws, and a verdict."""
    from treestick.analysis import diagnosis
    from treestick.estimators import load_run

    found = diagnosis.diagnose(load_run(run))
    table = Table()
    for column in ("scalar", "mean", "sd", "R-hat", "ESS bulk", "ESS tail", "MCSE"):
        table.add_column(column, justify="left" if column == "scalar" else "right")
    for row in found.rows:
        counts = (f"{row.ess_bulk:.0f}", f"{row.ess_tail:.0f}")
        values = (f"{row.mean:.4g}", f"{row.sd:.3g}", f"{row.rhat:.3f}")
        table.add_row(row.name, *values, *counts, f"{row.mcse:.2g}")
    Console().print(table)
    if not isnan(found.gap):
        print(
            f"Pair agreement: chains differ by {found.gap:.3f} on how often two data are together."
        )
    for line in found.verdict.lines:
        print(line)
    if strict and not found.verdict.is_good:
        raise typer.Exit(NOT_CONVERGED)


def predict(
    run: Folder,
    data: Annotated[Path, typer.Argument(metavar="NEW", help="New data, like those of the fit.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="File to write: .csv, .tsv or .parquet.")
    ],
    id: IdColumn = None,
    drop: Drop = None,
    header: Header = None,
    format: Form = None,
    vocabulary: Words = None,
    text: Text = None,
    encoding: Encoding = "utf-8",
) -> None:
    """Write the node of each row of new data, its probability, and the log density."""
    from treestick.estimators import commands
    from treestick.io.outputs import check_table, write_table

    check_table(output)
    words = None if vocabulary is None else str(vocabulary)
    source: Source = commands.Source(
        str(data), format, words, text, id, drop or [], header, encoding
    )
    table = commands.predict(run, source)
    write_table(table, output)
    print(f"wrote {output}: {len(table)} rows")


def export(
    run: Folder,
    format: Annotated[
        str, typer.Option(help="newick, json, graphml, dot, parquet, zarr or netcdf.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File, or for parquet and zarr a folder."),
    ] = None,
    draw: Annotated[str, typer.Option(help="best, all, or a number from 0.")] = "best",
) -> None:
    """Write trees of a run for other programs."""
    from treestick.estimators import exports, load_run
    from treestick.estimators.runs import open_run

    if format not in exports.FORMATS:
        raise InvalidValue(f"format={format!r} is not one of {', '.join(exports.FORMATS)}")
    target = Path(f"{run.name or 'run'}-{draw}.{ENDINGS[format]}") if output is None else output
    exports.export(load_run(run), open_run(run)[0].ids(), format, draw, target)
    print(f"wrote {target}")


ENDINGS = {"newick": "nwk", "json": "jsonl", "graphml": "graphml", "dot": "dot",
           "parquet": "parquet", "zarr": "zarr", "netcdf": "nc"}  # fmt: skip
COMMANDS: Sequence[Any] = (fit, resume, status, diagnose, predict, export)
