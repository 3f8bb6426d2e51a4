"""Write a figure or a page to a file, whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from treestick.inputs import InvalidValue

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".svg", ".png", ".pdf")


def check_output(path: Path, endings: tuple[str, ...] = ENDINGS) -> Path:
    """Return ``path`` if a file can be written there: call it before the work, not after."""
    if path.suffix.lower() not in endings:
        *others, last = endings
        needed = f"{', '.join(others)} or {last}" if others else last
        raise InvalidValue(f"output={str(path)!r} must end in {needed}")
    if path.is_dir():
        raise InvalidValue(f"output={str(path)!r} is a folder; name a file")
    if not path.parent.is_dir():
        raise InvalidValue(f"output={str(path)!r}: there is no folder {str(path.parent)!r}")
    if path.exists() and not os.access(path, os.W_OK):
        raise InvalidValue(f"output={str(path)!r} exists and may not be overwritten")
    return path


def save(figure: Figure, path: Path) -> None:
    """Write ``figure`` in the format that the ending names.

    It is written aside and moved into place, so a reader sees the old file or the new one. The
    same figure gives the same bytes: no dates, no random names inside.
    """
    import matplotlib as mpl

    check_output(path)
    ending = path.suffix.lower()
    metadata: dict[str, str | None] = {}
    if ending == ".svg":
        metadata = {"Date": None}
    elif ending == ".pdf":
        metadata = {"CreationDate": None}

    def write(aside: str) -> None:
        with mpl.rc_context({"svg.hashsalt": "treestick"}):
            figure.savefig(aside, format=ending[1:], dpi=150, metadata=metadata)

    write_whole(path, write)


def save_all(figures: Sequence[Figure], path: Path) -> list[Path]:
    """Write figures to the pages of one PDF, or to files with numbers; return what was written."""
    from matplotlib.backends.backend_pdf import PdfPages

    check_output(path)
    if len(figures) == 1:
        save(figures[0], path)
        return [path]
    if path.suffix.lower() == ".pdf":

        def write(aside: str) -> None:
            with PdfPages(aside, metadata={"CreationDate": None}) as pages:
                for figure in figures:
                    pages.savefig(figure)

        write_whole(path, write)
        return [path]
    names = [path, *(path.with_stem(f"{path.stem}-{k}") for k in range(2, len(figures) + 1))]
    for figure, name in zip(figures, names, strict=True):
        save(figure, name)
    return names


def write_whole(path: Path, write: Callable[[str], object]) -> None:
    """Let ``write`` make a file aside, and move it into place: old or new, never a part."""
    target = path.resolve()  # of a link, what it points to
    try:
        handle, aside = tempfile.mkstemp(
            dir=target.parent, prefix=f".{target.stem}-", suffix=path.suffix.lower()
        )
        os.close(handle)
        try:
            write(aside)
            os.chmod(aside, _usual_mode())
            os.replace(aside, target)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(aside)
            raise
    except OSError as error:
        reason = error.strerror or error
        raise InvalidValue(f"output={str(path)!r} cannot be written: {reason}") from error


def _usual_mode() -> int:
    """Return the permissions of a new file; temporary ones are for their owner alone."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
