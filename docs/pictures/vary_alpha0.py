"""What alpha0 does."""

from what_parameters_do import vary

vary("alpha0", [0.5, 5.0, 50.0], seed=11)
