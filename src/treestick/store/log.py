"""What happened to a run and when: ``log.jsonl``, a JSON object on each line."""

import datetime
import json
import os
import threading
from pathlib import Path
from typing import Any

LOG = "log.jsonl"


class RunLog:
    """Appends lines to the log of a run. Any thread may write; a line is written at once.

    The log is for people: a line that cannot be written (a full disk) is left out, for the run
    itself says what is wrong with the disk.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOG
        self._mutex = threading.Lock()

    def write(self, event: str, **details: Any) -> None:
        """Write that something happened."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "event": event, "process": os.getpid(), **details})
        with self._mutex:
            try:
                with open(self._path, "a", encoding="utf-8") as file:
                    file.write(f"{line}\n")
            except OSError:
                return
