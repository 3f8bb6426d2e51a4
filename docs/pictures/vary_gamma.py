"""What gamma does."""

from what_parameters_do import vary

vary("gamma", [0.1, 0.5, 3.0], seed=13)
