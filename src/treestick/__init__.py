"""Bayesian inference of hierarchies by tree-structured stick breaking.

>>> import treestick
>>> tree = treestick.prior.draw_urn(50, alpha0=5.0, decay=0.5, gamma=0.2, seed=1001)
>>> tree.n_data
50
"""

from importlib import import_module
from typing import Any

from treestick._version import __version__
from treestick.inputs import Uniform
from treestick.report import drawing as _drawing
from treestick.tree import Tree

__all__ = [
    "LDA",
    "BernoulliTree",
    "GaussianTree",
    "HDPTree",
    "MultinomialTree",
    "TopicTree",
    "Tree",
    "Uniform",
    "__version__",
    "load_run",
    "prior",
]

# Drawing needs more than the class itself, which lies below it: attached here (see ARCHITECTURE).
Tree.plot = _drawing.plot
Tree._repr_html_ = _drawing.to_html


def __getattr__(name: str) -> Any:
    """Import the parts that need compiled code when they are first used."""
    if name == "prior":
        return import_module("treestick.prior")
    if name in (
        "BernoulliTree",
        "GaussianTree",
        "HDPTree",
        "LDA",
        "MultinomialTree",
        "TopicTree",
        "load_run",
    ):
        return getattr(import_module("treestick.estimators"), name)
    raise AttributeError(f"module 'treestick' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
