"""The command that shows a run: a page to explore, or a figure."""

from pathlib import Path
from typing import Annotated, Any

import typer

from treestick.cli.options import WholeNumber, say
from treestick.cli.runs import Folder
from treestick.inputs import InvalidValue


def report(
    run: Folder,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Page to write. Default RUN/report.html.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Write a figure instead: .pdf, .svg or .png.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="The data, if they have been moved since the fit.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="Images of the data: a folder, a sheet or an .npy file.")
    ] = None,
    tile: Annotated[
        int | None, WholeNumber(help="Side of a tile in pixels, if images are sheets of tiles.")
    ] = None,
    metadata: Annotated[
        Path | None, typer.Option(help="Columns beside the data: .csv, .tsv, .json or .jsonl.")
    ] = None,
    many: Annotated[
        list[str] | None, typer.Option(help="Column with several values, apart by ';'.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Written above. Default: the model.")] = None,
    draws: Annotated[
        int | None, WholeNumber(help="Most draws in the page, at even distances. Default 40.")
    ] = None,
    show: Annotated[
        list[str] | None,
        typer.Option(help="On a figure: images, words, features or a column; may be given again."),
    ] = None,
    min_data: Annotated[
        int | None, WholeNumber(help="On a figure: fold nodes with fewer data at or below them.")
    ] = None,
    root: Annotated[int | None, WholeNumber(help="On a figure: the subtree of this node.")] = None,
    subtrees: Annotated[
        int | None, WholeNumber(help="Add figures of so many subtrees, with a fifth of --min-data.")
    ] = None,
    page: Annotated[str | None, typer.Option(help="Largest page of a figure, a4 to a0.")] = None,
) -> None:
    """Write a page to explore the tree of a run in a browser, or a figure of it."""
    from treestick.report.explorer import page as pages
    from treestick.report.runs import describe_run
    from treestick.report.saving import check_output

    only_figure = {"show": show, "min_data": min_data, "root": root, "page": page,
                   "n_subtrees": subtrees}  # fmt: skip
    options: dict[str, Any] = {k: v for k, v in only_figure.items() if v is not None}
    target = run / "report.html" if output is None else output
    if figure is not None:
        if output is not None:
            raise InvalidValue("output is for a page and figure for a figure; give one of them")
        check_output(figure)
    else:
        if output is not None:
            check_output(output, pages.ENDINGS)
        for name in options:
            raise InvalidValue(f"{name} has no effect without --figure")
    subject = describe_run(
        run, say, data=data, images=images, tile=tile, metadata=metadata, many=many or [],
        title=title, most_draws=draws,
    )  # fmt: skip
    if figure is not None:
        from treestick.report.cards import figures
        from treestick.report.saving import save_all

        for path in save_all(figures(subject, **options), figure):
            print(f"wrote {path}")
        return
    size = pages.write_page(subject, target)
    print(f"wrote {target.resolve()} ({size / 1e6:.1f} MB); open it in a browser")
