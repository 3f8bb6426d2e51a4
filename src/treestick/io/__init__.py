"""Data coming in: ``arrays`` reads the tables that users hand to the estimators."""

from treestick.io.arrays import read_bits, read_counts, read_reals

__all__ = ["read_bits", "read_counts", "read_reals"]
