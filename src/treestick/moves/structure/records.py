"""What structural moves find out at one stage and need at a later one."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treestick._jit import compiled
from treestick.moves.state import Floats, Integers
from treestick.tree.table import NULL


class Sides(NamedTuple):
    """What a launch has found of A and B."""

    theta: Floats
    prepared: Floats
    lean: float
    """How much likelier B is, from how many there are."""
    is_swapped: bool
    """Which of the two is called B is a coin's choice."""


class Merged(NamedTuple):
    """Two nodes put together for a try, and what they were."""

    a: int
    b: int
    q: int
    children: Integers
    """All that A has now,"""
    adopted: npt.NDArray[np.bool_]
    """and which of them were of B."""
    n_given: int
    """Data that were of B."""
    entity: np.uint64
    theta: Floats
    statistics: Floats
    """Of A and of B."""
    log_ratio: float
    """Of the acceptance, but for the probability c of the sides."""
    level: float
    """What it has to exceed."""


class Pool(NamedTuple):
    """The data of some nodes, in ascending order."""

    rows: Integers
    source: Integers
    """Of each: the place of its node,"""
    takes: npt.NDArray[np.bool_]
    """and whether B has it."""


class Targets(NamedTuple):
    """Nodes that data of B may go to."""

    theta: Floats
    prepared: Floats
    log_weights: Floats
    """From how many data they have."""


class Lead(NamedTuple):
    """What a launch has found of the nodes around and, in the last row, of B."""

    theta: Floats
    prepared: Floats
    lean: Floats
    """Of each node: how much likelier B is, from how many there are."""


class Going(NamedTuple):
    """A node that is to go."""

    b: int
    children: Integers
    parents: Integers
    """Where they are to hang."""
    around: Integers
    """Where its data may go."""
    log_proposed: float


class Changed(NamedTuple):
    """A node born, or gone, for a try; and what the nodes around it were."""

    b: int
    p: int
    entity: np.uint64
    children: Integers
    """Of B,"""
    parents: Integers
    """and where they hang without it."""
    rows: Integers
    """Nodes whose parameters are drawn anew; where B is gone, it is the last of them."""
    theta: Floats
    statistics: Floats
    log_ratio: float
    """Of the acceptance, but for the probability of what data do that is asked last."""
    level: float
    """What it has to exceed."""


@compiled
def unchanged() -> Changed:
    """Return that nothing was changed."""
    none, nothing = np.empty(0, dtype=np.int64), np.empty((0, 0))
    return Changed(NULL, NULL, np.uint64(0), none, none, none, nothing, nothing, -math.inf, 0.0)
