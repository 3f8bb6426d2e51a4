"""What chains leave behind: a run directory with their draws, and what continuing them needs."""

from treestick.store.chain_file import CONSTANTS, STATE, ChainFile
from treestick.store.errors import CannotWrite, DamagedRun, RunInUse
from treestick.store.log import RunLog
from treestick.store.records import DrawRecord, Trace
from treestick.store.run import RunFolder

__all__ = [
    "CONSTANTS",
    "STATE",
    "CannotWrite",
    "ChainFile",
    "DamagedRun",
    "DrawRecord",
    "RunFolder",
    "RunInUse",
    "RunLog",
    "Trace",
]
