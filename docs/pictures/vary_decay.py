"""What decay does."""

from what_parameters_do import vary

vary("decay", [0.1, 0.5, 0.9], seed=12)
