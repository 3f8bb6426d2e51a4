"""Likelihoods at the nodes: one file each. Importing this package registers them all."""

from treestick.models import bernoulli, gaussian, multinomial

__all__ = ["bernoulli", "gaussian", "multinomial"]
