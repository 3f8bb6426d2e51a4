"""What commands share: numbers among the options, lines on standard error, compilation."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import typer


def say(message: str) -> None:
    """Print a line on standard error."""
    print(f"treestick: {message}", file=sys.stderr)


@contextmanager
def telling_of_compilation() -> Iterator[None]:
    """Say so if something has to be compiled."""
    from treestick._jit import on_first_compile

    with on_first_compile(lambda: say("compiling for up to a minute; later runs need not ...")):
        yield


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number") from None


WholeNumber = partial(typer.Option, parser=_whole_number, metavar="INTEGER")
Number = partial(typer.Option, parser=_number, metavar="NUMBER")
