"""What the parameters of the prior have to be, and how much can be asked for."""

from treestick.inputs import InvalidValue, check_positive, check_real

AT_ONCE = 1_000_000
"""Data that are drawn between two looks at whether the user wants to stop."""
MOST_DATA = 2**48
"""Beyond any memory, as a number of data or of levels; more would not even fit an index."""


def check_stick_parameters(
    alpha0: object, decay: object, gamma: object
) -> tuple[float, float, float]:
    """Return the three as floats, if they give a prior whose masses sum to one."""
    alpha0 = check_positive("alpha0", alpha0)
    decay = check_real("decay", decay)
    if not 0.0 < decay <= 1.0:
        why = "; above 1 the masses of the nodes do not sum to one" if decay > 1.0 else ""
        raise InvalidValue(f"decay={decay} must be above 0 and at most 1{why}")
    return alpha0, decay, check_positive("gamma", gamma)
