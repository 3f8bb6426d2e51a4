"""GaussianTree: real vectors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from treestick.estimators.base import TreeEstimator
from treestick.estimators.vectors import Variances, check_fixed, check_variances, check_vector
from treestick.inputs import InvalidValue, check_hyperparameter, shown
from treestick.io import read_reals
from treestick.models.gaussian import Gaussian, Reals, rotated
from treestick.moves.state import Floats

DIFFUSION = (1e-3, 4.0)
NOISE = (1e-4, 4.0)
"""Bounds of the default priors, in units of each feature's variance."""
LARGEST = 1e150


class GaussianTree(TreeEstimator):
    """A tree of Gaussian clusters, for real vectors.

    Node means go down the tree by Gaussian diffusion, and data are Gaussian around the mean of
    their node::

        mean[root]  ~ N(root_mean, root_variance)
        mean[child] ~ N(root_mean + persistence * (mean[parent] - root_mean), diffusion)
        x           ~ N(mean[node of x], noise)

    A hyperparameter is a number (fixed), an array with a number for each feature (fixed), or an
    interval ``(low, high)``: a uniform prior, and it is inferred, for each feature by itself.

    Parameters
    ----------
    alpha0, decay, gamma : float or (low, high)
        The prior on trees: ``alpha0 * decay**depth`` says how much goes deeper, ``gamma`` how many
        children a node has.
    persistence : float or (low, high), default 1.0
        How much of the parent's mean a child keeps (eta in the paper); one for all features.
    diffusion : float, array, (low, high) or None
        Variance of the step from parent to child. A symmetric positive definite matrix of shape
        (n_features, n_features) is the full covariance of the step (Lambda in the paper), fixed.
        None: inferred between 0.001 and 4 times each feature's variance.
    noise : float, array, (low, high) or None
        Variance of data around the mean of their node. None: inferred between 0.0001 and 4 times
        each feature's variance. With a matrix for ``diffusion`` there is one noise for all
        features.
    root_mean : float, array or None
        Prior mean of the root. None: the mean of each feature.
    root_variance : float, array or None
        Prior variance of the root. None: the variance of each feature.
    n_draws : int, default 500
        Draws that are kept, per chain.
    burn_in : int, default 500
        Sweeps before the first draw.
    thin : int, default 1
        Sweeps from one draw to the next.
    n_chains : int, default 2
        Independent chains, run at once.
    schedule : {"default", "paper"}
        "paper" keeps stick lengths and the order of children from sweep to sweep, as the paper
        does, instead of drawing both from scratch.
    n_jobs : int or None
        Number of threads; None for all cores, -1 likewise. It changes nothing but the time.
    random_state : int, RandomState or None
        The same number gives the same draws, bit for bit.
    verbose : int, default 1
        0 for no progress bar. It appears in terminals and notebooks only.

    Attributes
    ----------
    tree_ : Tree
        The draw with the highest complete-data likelihood. ``node_params["mean"]`` holds the means.
    labels_ : array of int
        Node of each datum in ``tree_``.
    draws_ : sequence of Tree
        The posterior sample, all chains.
    idata_ : xarray.DataTree
        Scalars by chain and draw, in ArviZ's layout.
    alpha0_, decay_, gamma_, persistence_, diffusion_, noise_ : float or array
        Posterior means.
    n_iter_ : int
        Sweeps that were run per chain.

    Examples
    --------
    >>> import numpy as np
    >>> from treestick import GaussianTree
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2)) + np.repeat([[0, 0], [9, 9]], 50, axis=0)
    >>> model = GaussianTree(n_draws=20, burn_in=100, n_chains=1, random_state=0, verbose=0).fit(X)
    >>> bool(model.score(X) > -5.5)
    True
    """

    def __init__(
        self,
        *,
        alpha0: Any = (1.0, 50.0),
        decay: Any = (0.05, 0.8),
        gamma: Any = (0.5, 10.0),
        persistence: Any = 1.0,
        diffusion: Any = None,
        noise: Any = None,
        root_mean: Any = None,
        root_variance: Any = None,
        n_draws: int = 500,
        burn_in: int = 500,
        thin: int = 1,
        n_chains: int = 2,
        schedule: str = "default",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 1,
    ) -> None:
        self.alpha0 = alpha0
        self.decay = decay
        self.gamma = gamma
        self.persistence = persistence
        self.diffusion = diffusion
        self.noise = noise
        self.root_mean = root_mean
        self.root_variance = root_variance
        self.n_draws = n_draws
        self.burn_in = burn_in
        self.thin = thin
        self.n_chains = n_chains
        self.schedule = schedule
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _read(self, X: Any) -> Floats:
        values = read_reals(X, type(self).__name__)
        too_large = np.abs(values) > LARGEST
        if too_large.any():
            row, column = np.argwhere(too_large)[0]
            raise InvalidValue(
                f"row {row}, column {column}: {values[row, column]:g} is too large to be squared; "
                "rescale this feature"
            )
        return values

    def _make_model(self, values: Floats) -> Gaussian:
        """Choose coordinates in which the model is diagonal and of unit scale, and build it there.

        Each feature is measured from the root's prior mean in units of its standard deviation. A
        full covariance is diagonal in the basis of its eigenvectors, where noise that is the same
        for all features remains so; then all features share one unit.
        """
        n_features = values.shape[1]
        mean = values.mean(axis=0)
        spread = values.std(axis=0)
        # Rounding leaves a little in a feature that is constant: its unit is 1.
        spread[spread <= 1e-13 * np.abs(values).max(axis=0)] = 1.0
        self._offset = (
            mean
            if self.root_mean is None
            else check_vector("root_mean", self.root_mean, n_features)
        )
        self._scale, self._rotation = spread, None
        is_full = np.ndim(self.diffusion) == 2
        if is_full:
            covariance = _covariance(self.diffusion, n_features)
            self._scale = np.full(n_features, math.sqrt(np.mean(spread**2)))
            eigenvalues, self._rotation = np.linalg.eigh(covariance / self._scale[0] ** 2)
            diffusion = Variances(eigenvalues, eigenvalues, eigenvalues)
            for name in ("noise", "root_variance"):
                if np.ndim(getattr(self, name)) > 0 and not isinstance(getattr(self, name), tuple):
                    raise InvalidValue(
                        f"{name}: with a matrix for diffusion there is one {name} for all "
                        "features; give a number, an interval or None"
                    )
        else:
            diffusion = self._per_feature("diffusion", self.diffusion, DIFFUSION)
        noise = self._per_feature("noise", self.noise, NOISE)
        check_fixed("root_variance", self.root_variance)
        root_variance = self._per_feature("root_variance", self.root_variance, 1.0)
        return Gaussian(
            *check_hyperparameter("persistence", self.persistence, may_be_zero=True),
            *diffusion,
            *noise,
            is_full,
            root_variance.start,
            float(np.log(self._scale).sum()),
        )

    def _per_feature(self, name: str, value: Any, default: Any) -> Variances:
        """Return a variance for each feature in units of the model, which defaults are given in."""
        if value is None:
            return check_variances(name, default, self._scale.size)
        given = check_variances(name, value, self._scale.size)
        return Variances._make(bound / self._scale**2 for bound in given)

    def _encode(self, values: Floats) -> tuple[Reals, int]:
        values = values - self._offset
        if self._rotation is not None:
            values = rotated(values, self._rotation)
        values /= self._scale
        return Reals(values), values.shape[0]

    def _make_room(self, n: int) -> Reals:
        return Reals(np.empty((n, self._scale.size)))

    def _decode(self, data: Reals) -> Floats:
        values = data.values * self._scale
        if self._rotation is not None:
            values = rotated(values, np.ascontiguousarray(self._rotation.T))
        return np.asarray(values + self._offset)

    def _describe_nodes(self, theta: Floats) -> Mapping[str, npt.ArrayLike]:
        return {"mean": self._decode(Reals(theta))}

    def _described(self) -> list[str]:
        # A matrix is fixed, and has no value for each feature.
        return ["persistence", "noise", *(["diffusion"] if self._rotation is None else [])]

    def _describe_hyperparameter(self, name: str, values: Floats) -> Floats:
        return values if name == "persistence" else values * self._scale**2


def _covariance(value: Any, n_features: int) -> Floats:
    try:
        matrix = np.array(value, dtype=np.float64)
    except (ValueError, TypeError):
        raise InvalidValue(f"diffusion={shown(value)} is not a matrix of numbers") from None
    if matrix.shape != (n_features, n_features):
        raise InvalidValue(
            f"diffusion has shape {matrix.shape}; a covariance of {n_features} features has "
            f"{(n_features, n_features)}"
        )
    if not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T, rtol=1e-8, atol=0.0):
        raise InvalidValue("diffusion is not a symmetric matrix of finite numbers")
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if smallest <= 0.0:
        raise InvalidValue(
            f"diffusion is not positive definite: its smallest eigenvalue is {smallest:g}"
        )
    return 0.5 * (matrix + matrix.T)
