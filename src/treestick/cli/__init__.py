"""The command line: parses and calls, nothing more.

A user's slip gives one line on standard error and exit code 2, bad data 3, a damaged run 5, a disk
that cannot be written 1; 4 is for chains that have not converged where that was asked for, 130 and
143 for signals. A traceback is a bug of ours.
"""

import errno
import io
import os
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from treestick._version import __version__
from treestick.cli import report, runs, signals
from treestick.cli.options import Number, WholeNumber, say, telling_of_compilation
from treestick.inputs import InputError, InvalidValue, data_errors

LEAST_IN_DEMO = 40

app = typer.Typer(
    name="treestick",
    help="Hierarchies by tree-structured stick breaking: infer them from data, and see them.",
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    pretty_exceptions_enable=False,
)

FAILED, USAGE, BAD_DATA, DAMAGED = 1, 2, 3, 5

PRIOR_DEFAULTS: dict[str, Any] = {"alpha0": 1.0, "decay": 0.5, "gamma": 0.2, "n": 50, "seed": 1001}


def main() -> None:
    """Run the command line and exit."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without the signs of a tree
    warnings.showwarning = _show_warning
    try:
        code = app(prog_name="treestick", standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        code = _fail(error.format_message(), error.exit_code)
    except InputError as error:
        code = _fail(str(error), _code_of(error))
    except KeyboardInterrupt:
        code = _fail("stopped", signals.exit_code())
    except MemoryError:
        code = _fail("there is not enough memory for this: ask for fewer data, or a shallower tree")
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        # Standard output is full or gone; what is still in its buffer would fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        reader_left = isinstance(error, BrokenPipeError)  # as `head` does: no fault of anybody's
        code = 1 if reader_left else _fail(f"cannot write the output: {error.strerror}")
    sys.exit(code)


def _fail(message: str, code: int = USAGE) -> int:
    say(message)
    return code


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    say(str(message))


def _code_of(error: InputError) -> int:
    from treestick.store.errors import CannotWrite, DamagedRun

    if isinstance(error, DamagedRun):
        return DAMAGED
    if isinstance(error, CannotWrite):
        return FAILED
    return BAD_DATA if error.is_of_data else USAGE


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"treestick {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _treestick(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(USAGE)


@app.command()
def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the pictures; made if needed.")
    ] = Path("treestick-demo"),
) -> None:
    """Fit a tree to 1,797 handwritten digits, print it, and make a page to explore it."""
    with telling_of_compilation():
        from treestick.report import demo as digits
        from treestick.report.cards import card_figure
        from treestick.report.explorer import write_page
        from treestick.report.folding import fold
        from treestick.report.saving import save

        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidValue(f"output={str(output)!r}: {error.strerror}") from error
        print("Fitting a BernoulliTree to 1,797 handwritten digits, 64 bits each ...", flush=True)
        fitted = digits.fit_digits()
        model, tree = fitted.model, fitted.model.tree_
        branches = fold(tree, LEAST_IN_DEMO).tree
        subject = digits.describe_digits(fitted)
        page, picture = output / "digits.html", output / "digits.png"
        save(card_figure(subject), picture)
        write_page(subject, page)
        print(f"The best of {len(model.draws_)} draws has {tree.n_nodes} nodes in all.")
        print(f"Its branches with at least {LEAST_IN_DEMO} images, smaller ones folded into them:")
        print(branches)
        table = Table(title="What they hold", title_justify="left")
        for column in ("node", "depth", "images: most common digits"):
            table.add_column(column, justify="right" if column != "images" else "left")
        for node, line in enumerate(digits.describe_nodes(branches, fitted.digits)):
            table.add_row(str(node), str(branches.depth[node]), line)
        Console().print(table)
        print("The model has not seen which digit an image shows.")
        print(f"\nA figure of it: {picture}\nAll of it, to explore in a browser: {page.resolve()}")


@app.command("prior")
def draw_prior(
    alpha0: Annotated[float | None, Number(help="How deep data go; above 0. Default 1.")] = None,
    decay: Annotated[
        float | None,
        Number(help="alpha(depth) = alpha0 * decay**depth; in (0, 1]. Default 0.5."),
    ] = None,
    gamma: Annotated[
        float | None, Number(help="How many children nodes have; above 0. Default 0.2.")
    ] = None,
    n: Annotated[int | None, WholeNumber("-n", help="Number of data. Default 50.")] = None,
    seed: Annotated[
        int | None, WholeNumber(help="The same seed gives the same tree. Default 1001.")
    ] = None,
    paper_figure: Annotated[
        int | None, WholeNumber(help="Draw figure 1 or 2 of the paper instead of one tree.")
    ] = None,
    labels: Annotated[
        bool, typer.Option("--labels", help="Write the number of each node into its circle.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File to write: .svg, .png or .pdf. Else print text."),
    ] = None,
) -> None:
    """Draw a tree from the prior, and print it or write a picture of it."""
    options = {"alpha0": alpha0, "decay": decay, "gamma": gamma, "n": n, "seed": seed}
    given: dict[str, Any] = {k: value for k, value in options.items() if value is not None}
    with telling_of_compilation():
        from treestick import prior
        from treestick.report import prior_figures
        from treestick.report.drawing import new_figure
        from treestick.report.saving import check_output, save

        if output is not None:
            check_output(output)
        if paper_figure is None:
            tree = prior.draw_urn(**{**PRIOR_DEFAULTS, **given})
            if output is None:
                print(tree)  # which names the nodes by their numbers
                return
            figure = new_figure(tree, labels=labels)
        elif paper_figure not in (1, 2):
            raise InvalidValue(f"paper-figure={paper_figure} is not 1 or 2")
        elif output is None:
            raise InvalidValue(f"paper-figure={paper_figure} needs a file to write: -o FILE")
        elif labels:
            raise InvalidValue(f"labels has no effect on paper-figure {paper_figure}")
        else:
            draw = prior_figures.figure_1 if paper_figure == 1 else prior_figures.figure_2
            without_effect = given.keys() & ({"n"} if paper_figure == 1 else given.keys() - {"n"})
            for name in sorted(without_effect):
                raise InvalidValue(
                    f"{name}={given[name]} has no effect on paper-figure {paper_figure}"
                )
            figure = draw(**given)
        save(figure, output)
        print(f"wrote {output}")


@app.command()
def evaluate(
    corpus: Annotated[
        Path,
        typer.Argument(help="Folder of .txt files, or a file: .jsonl, .csv, .mtx, .ldac, docword."),
    ],
    topics: Annotated[
        list[int] | None,
        WholeNumber("-k", "--topics", help="Number of topics; may be given again. Default 20."),
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="Format, if the name does not say it: folder, jsonl, csv ...")
    ] = None,
    vocabulary: Annotated[
        Path | None, typer.Option(help="File with a word on each line; for numbers of words.")
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="Field or column with the texts. Default text.")
    ] = None,
    encoding: Annotated[str, typer.Option(help="Encoding of the files.")] = "utf-8",
    train: Annotated[
        int | None, WholeNumber(help="Documents to fit to; others are held out. Default 70 %.")
    ] = None,
    folds: Annotated[int | None, WholeNumber(help="Random partitions. Default 1.")] = None,
    pseudo: Annotated[int | None, WholeNumber(help="Pseudo-documents. Default 100000.")] = None,
    burn_in: Annotated[int | None, WholeNumber(help="Sweeps before draws. Default 300.")] = None,
    draws: Annotated[int | None, WholeNumber(help="Draws, 10 sweeps apart. Default 20.")] = None,
    sampler: Annotated[str, typer.Option(help="collapsed or instantiated.")] = "collapsed",
    tree: Annotated[bool, typer.Option(help="Whether TopicTree is among the models.")] = True,
    seed: Annotated[int, WholeNumber(help="The same seed, the same scores.")] = 0,
) -> None:
    """Fit topic models to part of a corpus, and score the rest: perplexity per word, and NPMI."""

    def given(**options: Any) -> dict[str, Any]:
        return {name: value for name, value in options.items() if value is not None}

    with telling_of_compilation():
        from treestick.estimators import LDA, TopicTree
        from treestick.io import read_corpus
        from treestick.report.topic_scores import HEAD, compare, to_line

        with data_errors():
            found = read_corpus(corpus, format, vocabulary=vocabulary, text=text, encoding=encoding)
        options = given(
            burn_in=burn_in, n_draws=draws, thin=10, sampler=sampler, random_state=seed, n_chains=1
        )
        models: dict[str, Any] = {}
        for k in topics or [20]:
            models[f"LDA, {k} topics"] = LDA(k, **options)
            if tree:
                models[f"TopicTree, {k} topics"] = TopicTree(k, **options)
        scores = compare(
            found, models, seed=seed, **given(n_train=train, n_folds=folds, n_pseudo=pseudo)
        )
        first = next(scores)  # which finds what cannot be done, before anything is printed
        print(found)
        print(HEAD)
        for scores_of_one in (first, *scores):
            print(to_line(scores_of_one), flush=True)


for command in (*runs.COMMANDS, report.report):
    app.command()(command)
