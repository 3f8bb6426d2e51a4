"""The exact posterior over tree partitions of a few Gaussian data, by enumeration.

With Gaussian nodes the means integrate out: given a tree, data are jointly Gaussian, and two data
covary by what their nodes share on the way from the root. So the posterior probability of every
tree partition down to a depth is known, among all that are no deeper.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from test_prior_probability import all_trees
from treestick import Tree, prior
from treestick.models.gaussian import Gaussian
from treestick.moves.state import Sticks

Floats = npt.NDArray[np.float64]


class Setting(NamedTuple):
    """Data and hyperparameters, all known."""

    x: Floats
    alpha0: float
    decay: float
    gamma: float
    persistence: float
    diffusion: float
    noise: float
    root_variance: float

    def model(self) -> Gaussian:
        """Return the model, its hyperparameters fixed."""
        one = np.ones(self.x.shape[1])
        return Gaussian(
            self.persistence, self.persistence, self.persistence,
            self.diffusion * one, self.diffusion * one, self.diffusion * one,
            self.noise * one, self.noise * one, self.noise * one,
            False, self.root_variance * one, 0.0,
        )  # fmt: skip

    def sticks(self) -> Sticks:
        """Return the hyperparameters of the stick prior, fixed."""
        a, d, g = self.alpha0, self.decay, self.gamma
        return Sticks(a, a, a, d, d, d, g, g, g)


def log_evidence(setting: Setting, tree: Tree) -> float:
    """Return the log density of the data given the tree, all means integrated out."""
    n, n_dimensions = setting.x.shape
    paths = [tree.path(int(node)).tolist() for node in tree.assignments]
    covariance = setting.noise * np.eye(n)
    for i, j in itertools.product(range(n), repeat=2):
        shared = len(set(paths[i]) & set(paths[j]))
        # The variance of the last common node, shrunk along what follows on both ways.
        variance = setting.root_variance
        for _ in range(shared - 1):
            variance = setting.persistence**2 * variance + setting.diffusion
        apart = len(paths[i]) + len(paths[j]) - 2 * shared
        covariance[i, j] += variance * setting.persistence**apart
    _, log_determinant = np.linalg.slogdet(2 * math.pi * covariance)
    squares = np.sum(setting.x * np.linalg.solve(covariance, setting.x))
    return -0.5 * float(squares + n_dimensions * log_determinant)


class Posterior(NamedTuple):
    """Tree partitions down to a depth, and their probabilities among themselves."""

    trees: list[Tree]
    probabilities: Floats
    deeper: float
    """No more than this is the share of deeper ones."""


def enumerate_posterior(setting: Setting, deepest: int) -> Posterior:
    """Return the posterior over all tree partitions down to a depth.

    Of deeper ones only the prior probability is known. No tree gives the data a density above that
    of noise alone at its peak, so their posterior probability has a bound.
    """
    n, n_dimensions = setting.x.shape
    trees = list(all_trees(n, deepest))
    stick_parameters = (setting.alpha0, setting.decay, setting.gamma)
    log_prior = np.array([prior.log_probability(tree, *stick_parameters) for tree in trees])
    weights = np.exp(log_prior + [log_evidence(setting, tree) for tree in trees])
    highest = (2.0 * math.pi * setting.noise) ** (-0.5 * n * n_dimensions)
    unseen = max(1.0 - math.fsum(np.exp(log_prior)), 0.0) + 1e-14  # rounding
    total = math.fsum(weights)
    return Posterior(trees, weights / total, unseen * highest / total)
