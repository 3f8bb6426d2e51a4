"""The scikit-learn face."""

from treestick.estimators.bernoulli import BernoulliTree
from treestick.estimators.gaussian import GaussianTree

__all__ = ["BernoulliTree", "GaussianTree"]
