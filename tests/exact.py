"""The exact posterior over tree partitions of a few data, by enumeration.

With Gaussian nodes the means integrate out: given a tree, data are jointly Gaussian, and two data
covary by what their nodes share on the way from the root. With few tokens, the probabilities of
multinomial nodes integrate out too: to a sum over what tables can pass from each node to its parent
(see :mod:`treestick.diffusions.dirichlet`). So the posterior probability of every tree partition
down to a depth is known, among all that are no deeper.
"""

import functools
import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from test_prior_probability import all_trees
from treestick import Tree, prior
from treestick.models.gaussian import Gaussian
from treestick.models.multinomial import Multinomial
from treestick.moves.state import Sticks

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


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


# -- counts ----------------------------------------------------------------------------------------


class CountSetting(NamedTuple):
    """Rows of counts and hyperparameters, all known."""

    x: Integers
    alpha0: float
    decay: float
    gamma: float
    concentration: float
    persistence: float

    def model(self) -> Multinomial:
        """Return the model, its hyperparameters fixed."""
        c, eta = self.concentration, self.persistence
        return Multinomial(c, c, c, eta, eta, eta, self.x.shape[1])

    def sticks(self) -> Sticks:
        """Return the hyperparameters of the stick prior, fixed."""
        a, d, g = self.alpha0, self.decay, self.gamma
        return Sticks(a, a, a, d, d, d, g, g, g)


@functools.cache
def stirling(n: int, t: int) -> float:
    """Return in how many ways n customers sit at t tables."""
    if n == t:
        return 1.0
    if t == 0 or t > n:
        return 0.0
    return stirling(n - 1, t - 1) + (n - 1) * stirling(n - 1, t)


@functools.cache
def ways(
    counts: tuple[int, ...], concentration: float, persistence: float
) -> dict[tuple[int, ...], float]:
    """Return what can pass from a node with these customers to its parent, and each's weight.

    The weight is such that with p the parent's probabilities, the sum over s of weight times the
    product of p**s is the probability of the customers in one order, the node's integrated out.
    """
    c, eta, n_outcomes = concentration, persistence, len(counts)
    per_outcome = [
        [
            math.fsum(
                stirling(n, t) * c**t * math.comb(t, s) * eta**s
                * ((1.0 - eta) / n_outcomes) ** (t - s)
                for t in range(s, n + 1)
            )
            for s in range(n + 1)
        ]
        for n in counts
    ]  # fmt: skip
    constant = math.gamma(c) / math.gamma(c + sum(counts))
    found = {}
    for passed in itertools.product(*(range(n + 1) for n in counts)):
        weight = constant * math.prod(w[s] for w, s in zip(per_outcome, passed, strict=True))
        if weight > 0.0:
            found[passed] = weight
    return found


def seatings(
    setting: CountSetting, tree: Tree
) -> Iterator[tuple[tuple[tuple[int, ...], ...], float]]:
    """Yield the customers that all nodes can have, and the probability of these and the data.

    The root's probabilities are integrated out as well; the order of tokens is known.
    """
    c, eta = setting.concentration, setting.persistence
    n_outcomes = setting.x.shape[1]
    own = np.zeros((tree.n_nodes, n_outcomes), dtype=np.int64)
    np.add.at(own, tree.assignments, setting.x)

    def up(node: int, customers: Integers, weight: float) -> Iterator[tuple[Integers, float]]:
        if node == 0:
            n = customers[0]
            weight *= math.gamma(n_outcomes * c) / math.gamma(n_outcomes * c + n.sum())
            weight *= math.prod(math.gamma(c + k) / math.gamma(c) for k in n)
            yield customers, weight
            return
        here = tuple(int(k) for k in customers[node])
        for passed, factor in ways(here, c, eta).items():
            after = customers.copy()
            after[tree.parent[node]] += passed
            yield from up(node - 1, after, weight * factor)

    for customers, weight in up(tree.n_nodes - 1, own, 1.0):
        yield tuple(tuple(int(k) for k in row) for row in customers), weight


def log_evidence_of_counts(setting: CountSetting, tree: Tree) -> float:
    """Return the log probability of the data given the tree, in one order of the tokens."""
    return math.log(math.fsum(weight for _, weight in seatings(setting, tree)))


# -- trees -----------------------------------------------------------------------------------------


class Posterior(NamedTuple):
    """Tree partitions down to a depth, and their probabilities among themselves."""

    trees: list[Tree]
    probabilities: Floats
    deeper: float
    """No more than this is the share of deeper ones."""


def enumerate_posterior(setting: Setting | CountSetting, deepest: int) -> Posterior:
    """Return the posterior over all tree partitions down to a depth.

    Of deeper ones only the prior probability is known. No tree gives the data a density above that
    of noise alone at its peak, or a probability above 1, so there is a bound for their posterior
    probability.
    """
    n, n_dimensions = setting.x.shape
    trees = list(all_trees(n, deepest))
    stick_parameters = (setting.alpha0, setting.decay, setting.gamma)
    log_prior = np.array([prior.log_probability(tree, *stick_parameters) for tree in trees])
    if isinstance(setting, CountSetting):
        evidence = [log_evidence_of_counts(setting, tree) for tree in trees]
        highest = 1.0
    else:
        evidence = [log_evidence(setting, tree) for tree in trees]
        highest = (2.0 * math.pi * setting.noise) ** (-0.5 * n * n_dimensions)
    weights = np.exp(log_prior + evidence)
    unseen = max(1.0 - math.fsum(np.exp(log_prior)), 0.0) + 1e-14  # rounding
    total = math.fsum(weights)
    return Posterior(trees, weights / total, unseen * highest / total)
