"""The scikit-learn face."""

from treestick.estimators.bernoulli import BernoulliTree
from treestick.estimators.gaussian import GaussianTree
from treestick.estimators.hdp import HDPTree
from treestick.estimators.lda import LDA
from treestick.estimators.multinomial import MultinomialTree
from treestick.estimators.runs import load_run
from treestick.estimators.topics import TopicTree

__all__ = [
    "LDA",
    "BernoulliTree",
    "GaussianTree",
    "HDPTree",
    "MultinomialTree",
    "TopicTree",
    "load_run",
]
