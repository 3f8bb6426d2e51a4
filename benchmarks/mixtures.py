"""Mixtures of bits that trees are compared with: by EM, and a variational Dirichlet process.

Arithmetic is in the precision of the data: float32 halves the time for large data.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, logsumexp

Reals = npt.NDArray[np.floating[Any]]
Rng = np.random.Generator


class BernoulliMixture(NamedTuple):
    """A mixture of independent bits."""

    log_weights: Reals
    probabilities: Reals
    """Of a one: a row for each component."""
    fit: float
    """Log density of the rows that it was fitted to, nats per row; of expectations for a DP."""

    def log_densities(self, X: Reals) -> npt.NDArray[np.float64]:
        """Return the log density of each row."""
        joint = log_joint(X, self.log_weights, self.probabilities)
        return np.asarray(logsumexp(joint, axis=1), dtype=np.float64)

    def labels(self, X: Reals) -> npt.NDArray[np.int64]:
        """Return the most probable component of each row."""
        joint = log_joint(X, self.log_weights, self.probabilities)
        return np.asarray(np.argmax(joint, axis=1))


def log_joint(X: Reals, log_weights: Reals, probabilities: Reals) -> Reals:
    """Return the log density of each row with each component."""
    return _joint(X, log_weights, np.log(probabilities), np.log1p(-probabilities))


def _joint(X: Reals, log_weights: Reals, log_one: Reals, log_zero: Reals) -> Reals:
    return np.asarray(X @ (log_one - log_zero).T + log_zero.sum(axis=1) + log_weights)


def independent(X: Reals) -> BernoulliMixture:
    """Return one component: half a one and half a zero added to each feature."""
    p = (X.sum(axis=0) + 0.5) / (len(X) + 1.0)
    return BernoulliMixture(np.zeros(1), p[None], math.nan)


def first_shares(X: Reals, n_components: int, rng: Rng, at_rows: bool) -> Reals:
    """Return random shares of components in rows, or those of components around random rows.

    Random shares are nearly the same for all components where rows are many; then it takes long
    until they differ.
    """
    if not at_rows:
        return rng.dirichlet(np.ones(n_components), size=len(X)).astype(X.dtype)
    centres = X[rng.choice(len(X), n_components, replace=False)]
    joint = log_joint(X, np.zeros(n_components, X.dtype), 0.25 + centres / 2)
    return np.exp(joint - logsumexp(joint, axis=1, keepdims=True))


def fit_em(
    X: Reals,
    n_components: int,
    n_steps: int,
    rng: Rng,
    tolerance: float = 1e-6,
    at_rows: bool = False,
) -> BernoulliMixture:
    """Return the mixture that EM finds, after at most so many steps.

    Maximum a posteriori, with half a one and half a zero added to each component and feature.
    ``tolerance`` is the least gain of a step, nats per row.
    """
    shares = first_shares(X, n_components, rng, at_rows)
    total = -math.inf
    for _ in range(n_steps):
        sizes = shares.sum(axis=0)
        log_weights = np.log((sizes + 1.0) / (sizes.sum() + n_components))
        probabilities = (shares.T @ X + 0.5) / (sizes[:, None] + 1.0)
        joint = log_joint(X, log_weights, probabilities)
        density = logsumexp(joint, axis=1)
        shares = np.exp(joint - density[:, None])
        before, total = total, float(density.mean(dtype=np.float64))
        if total - before < tolerance:
            break
    return BernoulliMixture(log_weights, probabilities, total)


def fit_dp(
    X: Reals,
    n_components: int,
    n_steps: int,
    rng: Rng,
    tolerance: float = 1e-6,
    at_rows: bool = False,
) -> BernoulliMixture:
    """Return the predictive of a Dirichlet process mixture, by variational Bayes.

    Truncated stick breaking (Blei & Jordan 2006): Beta(1/2, 1/2) for each bit of each component, a
    concentration with prior Gamma(1, 1). Components are put in the order of their sizes after each
    step, which raises the bound. The predictive is exact under the variational posterior: means of
    weights and of probabilities.
    """
    shares = first_shares(X, n_components, rng, at_rows)
    concentration, before = 1.0, -math.inf
    for _ in range(n_steps):
        shares = shares[:, np.argsort(-shares.sum(axis=0))]
        sizes = shares.sum(axis=0, dtype=np.float64)
        ones = (shares.T @ X).astype(np.float64)
        a, b = 1.0 + sizes, concentration + sizes.sum() - np.cumsum(sizes)
        log_stop, log_pass = digamma(a) - digamma(a + b), digamma(b) - digamma(a + b)
        log_stop[-1] = 0.0  # the last takes all that is left
        concentration = n_components / (1.0 - log_pass[:-1].sum())
        log_weights = log_stop + np.concatenate([[0.0], np.cumsum(log_pass[:-1])])
        p, q = 0.5 + ones, 0.5 + sizes[:, None] - ones
        log_one, log_zero = digamma(p) - digamma(p + q), digamma(q) - digamma(p + q)
        joint = _joint(X, *(part.astype(X.dtype) for part in (log_weights, log_one, log_zero)))
        density = logsumexp(joint, axis=1)
        shares = np.exp(joint - density[:, None])
        total = float(density.mean(dtype=np.float64))
        if abs(total - before) < tolerance:
            break
        before = total
    stop = a / (a + b)
    stop[-1] = 1.0
    weights = stop * np.concatenate([[1.0], np.cumprod(1.0 - stop[:-1])])
    means = (p / (p + q)).astype(X.dtype)
    log_means = np.log(np.maximum(weights, 1e-300)).astype(X.dtype)
    return BernoulliMixture(log_means, means, total)
