"""How far the chains are: one line for each, on standard error or in a notebook.

Logs stay clean: where standard error is neither a terminal nor a notebook, nothing is written.
Rich is imported when a display begins.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Display
    from rich.progress import ProgressColumn, Task, TaskID


class Progress:
    """A display of running chains, shown within a ``with`` block.

    Parameters
    ----------
    n_chains : int
        Number of chains; each has a line.
    n_sweeps : int
        Number of sweeps that each chain will do.
    quiet : bool, default False
        Show nothing.
    console : rich.console.Console, optional
        Where to show it, if that is a terminal or a notebook. Standard error if not given.
    counted : str, default "nodes"
        What there is a number of at the end of a line.
    """

    def __init__(
        self,
        n_chains: int,
        n_sweeps: int,
        quiet: bool = False,
        console: Console | None = None,
        counted: str = "nodes",
    ) -> None:
        self._n_chains = n_chains
        self._n_sweeps = n_sweeps
        self._quiet = quiet
        self._console = console
        self._counted = counted
        self._display: Display | None = None
        self._tasks: list[TaskID] = []

    def __enter__(self) -> Self:
        if self._quiet:
            return self
        console = self._console or _standard_error()
        if not (console.is_terminal or console.is_jupyter):
            return self
        from rich.progress import Progress as Display

        # Rich moves what is printed meanwhile above the lines, but to the display's stream: what
        # somebody sends from standard output to a file must not end up on standard error.
        self._display = Display(
            *_columns(self._counted),
            console=console,
            expand=True,
            redirect_stdout=_is_terminal(sys.stdout),
        )
        self._tasks = [
            self._display.add_task(
                _name(chain), total=self._n_sweeps, log_likelihood="-", n_nodes="-"
            )
            for chain in range(self._n_chains)
        ]
        self._display.start()
        return self

    def update(self, chain: int, sweep: int, log_likelihood: float, n_nodes: int) -> None:
        """Tell how far a chain is. Any thread may call this after every sweep: it only takes notes.

        Parameters
        ----------
        chain : int
            Which chain, from 0.
        sweep : int
            How many sweeps it has done.
        log_likelihood : float
            Its complete-data log likelihood.
        n_nodes : int
            Number of nodes in its tree, or what else is counted.
        """
        display = self._display  # which another thread may be taking away
        if display is not None:
            display.update(
                self._tasks[chain],
                description=_name(chain),
                completed=sweep,
                log_likelihood=f"{log_likelihood:.1f}",
                n_nodes=str(n_nodes),
            )

    def note(self, chain: int, words: str) -> None:
        """Show a few words beside the name of a chain until its next sweep: what it does now."""
        display = self._display
        if display is not None:
            display.update(self._tasks[chain], description=f"{_name(chain)}: {words}")

    @property
    def is_shown(self) -> bool:
        """Whether there is a display."""
        return self._display is not None

    def say(self, line: str) -> None:
        """Show a line above the display, where there is one."""
        display = self._display
        if display is not None:
            display.console.print(line, style="dim", highlight=False)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._display is None:
            return
        try:
            self._display.refresh()  # in a notebook, rich would not show the last state
        finally:
            self._display.stop()
            self._display = None


def _name(chain: int) -> str:
    return f"chain {chain + 1}"


def _is_terminal(stream: object) -> bool:
    # Python without a console has None for its streams, and notebooks have their own kinds.
    is_terminal = getattr(stream, "isatty", None)
    return bool(is_terminal and is_terminal())


def _standard_error() -> Console:
    from rich.console import Console

    # By itself, rich takes a log for a terminal when FORCE_COLOR is set, as many CI services do.
    return Console(stderr=True, force_terminal=_is_terminal(sys.stderr))


def _columns(counted: str) -> list[ProgressColumn]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column
    from rich.text import Text

    class SpeedColumn(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            if speed is None:
                return Text("-/s")
            return Text(f"{speed:.1f}/s" if speed >= 10.0 else f"{speed:.2g}/s")

    # Short, so that all of it fits 80 columns: "/s" is sweeps per second, the last is time left.
    return [
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("log likelihood {task.fields[log_likelihood]}"),
        TextColumn(f"{{task.fields[n_nodes]}} {counted}"),
        SpeedColumn(table_column=Column(no_wrap=True)),
        TimeRemainingColumn(),
    ]
