"""What can be wrong with a run, beyond a user's slip. Messages are one line."""

from treestick.inputs import InvalidValue


class DamagedRun(InvalidValue):
    """Files of a run are not as they were written. The message says what is still readable."""


class RunInUse(InvalidValue):
    """Another process writes the run."""


class CannotWrite(InvalidValue):
    """The disk is full, or does not let us write. What was committed before is safe."""
