"""A run on disk: what was asked for, and the draws of all chains.

In the folder of a run::

    run.json          what is fitted to what, with which parameters and seed, by which versions
    chain-0.sqlite    draws and state of a chain, see treestick.store.chain_file
    ids.json          names of the data, where they have any
    metadata.json     columns of what is known of them, where there are any
    log.jsonl         what happened when
    run.lock          the process that writes

``run.json`` is written whole or not at all. Its format has a version: a minor one adds, a major one
changes. What an older minor version wrote can be read; what a newer one wrote cannot.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from treestick.inputs import InvalidValue, check_whole_number
from treestick.store.chain_file import ChainFile
from treestick.store.errors import CannotWrite, DamagedRun
from treestick.store.lock import Lock, owner_of
from treestick.store.records import DrawRecord

FORMAT, VERSION = "treestick.run", (1, 0)
RUN, IDS, METADATA, LOCK = "run.json", "ids.json", "metadata.json", "run.lock"
MOST_BYTES = 2**28
"""Of a JSON file: a larger one is none of ours."""


class RunFolder:
    """The folder of a run.

    Any thread may append and read at any time. One process writes; copies and pickles carry all
    draws with them, and unpack them into a temporary folder.

    Parameters
    ----------
    folder : Path, optional
        Where the files are. What it holds already stays. If not given, a temporary folder, which
        is removed with the object or when the interpreter exits.

    Attributes
    ----------
    folder : Path
        Where the files are.

    Examples
    --------
    >>> import numpy as np
    >>> run = RunFolder()
    >>> parent, assignments = np.array([-1, 0]), np.array([1, 1, 0])
    >>> theta = np.array([[0.5], [2.0]])
    >>> run.append(DrawRecord(parent, assignments, theta, {"gamma": 0.2}, {}, chain=1, sweep=10))
    >>> run.n_per_chain()
    [0, 1]
    >>> run.chain(1).read(0).scalars
    {'gamma': 0.2}
    """

    folder: Path

    def __init__(self, folder: Path | None = None) -> None:
        self._start(folder)

    def _start(self, folder: Path | None) -> None:
        self.is_temporary = folder is None
        if folder is None:
            with _in_one_line("the temporary folder", "written"):
                self.folder = Path(tempfile.mkdtemp(prefix="treestick-")).resolve()
        else:
            self.folder = Path(folder).resolve()
        self._process = os.getpid()
        self._mutex = threading.Lock()
        self._chains: dict[int, ChainFile] = {}
        self._held: list[Lock] = []
        unneeded = self.folder if folder is None else None
        weakref.finalize(self, _finish, self._chains, self._held, unneeded, self._process)

    # -- writing -----------------------------------------------------------------------------------

    def claim(self) -> None:
        """Make the folder if needed, and keep other processes from writing, until ``close``."""
        with _in_one_line(self.folder, "written"):
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder):
                pass  # to learn now that it cannot be written, not after hours of burn-in
            if not self._held:
                self._held.append(Lock(self.folder / LOCK))

    def configure(self, configuration: dict[str, Any]) -> None:
        """Write what the run is, in place of what was written before."""
        self._write(RUN, {"format": FORMAT, "version": list(VERSION), **configuration})

    def describe_data(self, ids: Sequence[str] | None, metadata: Mapping[str, Any]) -> None:
        """Write names of the data and columns of what is known of them, if there are any.

        Values that JSON does not have are written as text.
        """
        if ids is not None:
            self._write(IDS, list(ids))
        if metadata:
            self._write(METADATA, {name: _plain(column) for name, column in metadata.items()})

    def _write(self, name: str, content: Any) -> None:
        path = self.folder / name
        with _in_one_line(path, "written"):
            aside = path.with_suffix(".new")
            with open(aside, "w", encoding="utf-8") as file:
                json.dump(content, file, indent=1, ensure_ascii=False, allow_nan=False)
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, path)

    def append(self, record: DrawRecord, seconds: float = 0.0, state: Any = None) -> None:
        """Write one draw at the end of its chain, and the state that the chain goes on from."""
        check_whole_number("sweep", record.sweep, 0)
        self.chain(check_whole_number("chain", record.chain, 0)).append(record, seconds, state)

    def close(self) -> None:
        """End writing, so that no file stays open. Reading needs no more; an append opens anew."""
        with self._mutex:
            _close(self._chains, self._held)

    # -- reading -----------------------------------------------------------------------------------

    def configuration(self) -> dict[str, Any] | None:
        """Return what the run is, or None if nothing is there yet."""
        if not (self.folder / RUN).exists():
            return None
        found = self._load(RUN)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise DamagedRun(f"{self.folder / RUN}: is not the description of a run")
        version = found.get("version")
        if not (
            isinstance(version, list) and len(version) == 2 and all(type(n) is int for n in version)
        ):
            raise DamagedRun(f"{self.folder / RUN}: version {version!r} is none")
        if version[0] != VERSION[0] or version[1] > VERSION[1]:
            there, here = (".".join(map(str, v)) for v in (version, VERSION))
            raise InvalidValue(
                f"{self.folder}: the run has format {there} and this treestick reads {here}; "
                "use the version of treestick that wrote it, or a newer one"
            )
        return found

    def ids(self) -> list[str] | None:
        """Return the names of the data, or None if they have none."""
        if not (self.folder / IDS).exists():
            return None
        found = self._load(IDS)
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            raise DamagedRun(f"{self.folder / IDS}: is not a list of names")
        return found

    def metadata(self) -> dict[str, list[Any]]:
        """Return columns of what is known of the data."""
        if not (self.folder / METADATA).exists():
            return {}
        found = self._load(METADATA)
        if not isinstance(found, dict) or not all(isinstance(c, list) for c in found.values()):
            raise DamagedRun(f"{self.folder / METADATA}: does not hold columns")
        return found

    def _load(self, name: str) -> Any:
        path = self.folder / name
        with _in_one_line(path, "read"):
            if path.stat().st_size > MOST_BYTES:
                raise DamagedRun(f"{path}: has {path.stat().st_size} bytes, too many for a run")
            content = path.read_bytes()
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise DamagedRun(f"{path}: is not JSON: {error}") from error

    def chain(self, number: int) -> ChainFile:
        """Return the file of a chain, whether it has begun or not."""
        with self._mutex:
            if number not in self._chains:
                path = self.folder / f"chain-{number}.sqlite"
                self._chains[number] = ChainFile(path, number, not self.is_temporary)
            return self._chains[number]

    def n_per_chain(self) -> list[int]:
        """Return how many draws each chain has; 0 for a chain that has not begun."""
        chains = self._numbers()
        counts = [0] * (max(chains, default=-1) + 1)
        for chain in chains:
            counts[chain] = self.chain(chain).n_draws()
        return counts

    def owner(self) -> int | None:
        """Return the process that writes the run now, or None."""
        return owner_of(self.folder / LOCK)

    def _numbers(self) -> list[int]:
        names = (path.stem.removeprefix("chain-") for path in self.folder.glob("chain-*.sqlite"))
        return sorted(int(name) for name in names if name.isdecimal() and len(name) < 10)

    # -- copies ------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return {"chains": {chain: self.chain(chain).content() for chain in self._numbers()}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._start(None)
        for chain, content in state["chains"].items():
            self.chain(chain).path.write_bytes(content)


def _close(chains: dict[int, ChainFile], held: list[Lock]) -> None:
    for chain in chains.values():
        chain.close()
    while held:
        held.pop().release()


def _finish(
    chains: dict[int, ChainFile], held: list[Lock], unneeded: Path | None, process: int
) -> None:
    """Clean up after a run; its copy in a forked process leaves everything to the original."""
    if os.getpid() != process:
        return
    _close(chains, held)
    if unneeded is not None:
        # A file that a reader removes at the same moment must not keep the others.
        shutil.rmtree(unneeded, ignore_errors=True)


@contextlib.contextmanager
def _in_one_line(path: Path | str, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind = CannotWrite if done == "written" else InvalidValue
        raise kind(f"{path}: cannot be {done}: {error.strerror or error}") from error


def _plain(value: Any) -> Any:
    """Return a value as JSON can have it."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "item"):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return None if isinstance(value, float) else str(value)
