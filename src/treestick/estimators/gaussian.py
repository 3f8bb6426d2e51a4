"""GaussianTree: real vectors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick.estimators.base import TreeEstimator
from treestick.estimators.vectors import (
    Moments,
    Variances,
    check_fixed,
    check_variances,
    check_vector,
    join_moments,
    location_and_scale,
    moments_of,
    read_vectors,
    to_array,
)
from treestick.inputs import InvalidValue, check_hyperparameter, shown
from treestick.models.gaussian import Gaussian, Reals, rotated
from treestick.moves.state import Floats

DIFFUSION = (1e-3, 4.0)
NOISE = (1e-4, 4.0)
"""Bounds of the default priors, in units of each feature's variance."""
FARTHEST = 1e4
"""From the data to the root's prior mean, in standard deviations: draws are stored in float32."""
LEAST = {"noise": 1e-10, "diffusion": 1e-100, "root_variance": 1e-100}
MOST = 1e100
"""Bounds of variances, in units of each feature's variance: digits are lost beyond them."""


class Units(NamedTuple):
    """Coordinates in which the model is diagonal and of unit scale.

    Each feature is measured from the root's prior mean in units of its standard deviation. A full
    covariance is diagonal in the basis of its eigenvectors, where noise that is the same for all
    features remains so; then all features share one unit.
    """

    offset: Floats
    scale: Floats
    rotation: Floats | None
    """The eigenvectors, in columns."""


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
        How much of the parent's mean a child keeps (eta in the paper), from 0 to 1; one for all
        features.
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
        Prior variance of the root. None: the variance of each feature. With a matrix for
        ``diffusion`` there is one for all features; None is then the mean of their variances.
    n_draws : int, default 500
        Draws that are kept, per chain.
    burn_in : int, default 500
        Sweeps before the first draw.
    thin : int, default 1
        Sweeps from one draw to the next.
    n_chains : int, default 2
        Independent chains, run at once.
    init : "root", array of int or Tree, default "root"
        Where chains begin: all data at the root; a label for each row, as clustering gives them
        (rows of one label share a child of the root, negative labels stay at the root); or a tree
        whose ``assignments`` are those of the rows, such as ``tree_`` of an earlier fit. Parameters
        of its nodes are estimated anew.
    schedule : {"default", "paper"}
        What a sweep does. "paper" has the paper's moves of data, sticks and order. The default
        compares many nodes at once for each datum, and adds moves that change the tree: splits,
        merges, inserted nodes, subtrees that move.
    n_jobs : int or None
        Number of threads; None for all cores, -1 likewise. It changes nothing but the time.
    engine : {"threads", "processes", "dask"}
        Where chains run: on threads of this process, or each in a process of its own, where one
        that dies leaves the others alone (scripts then need ``if __name__ == "__main__":``), or on
        the workers of the Dask cluster that this process is a client of. It changes no draw.
    random_state : int, RandomState or None
        The same number gives the same draws, bit for bit.
    run_dir : path or None
        Folder for the draws, which outlives the process: see :func:`treestick.load_run`. A run that
        is there already goes on. None for a temporary folder.
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

    _stored_types = (Units,)
    _can_be_elsewhere = True

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
        init: Any = "root",
        schedule: str = "default",
        n_jobs: int | None = None,
        engine: str = "threads",
        random_state: Any = None,
        run_dir: Any = None,
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
        self.init = init
        self.schedule = schedule
        self.n_jobs = n_jobs
        self.engine = engine
        self.random_state = random_state
        self.run_dir = run_dir
        self.verbose = verbose

    def _read(self, X: Any) -> Floats:
        return read_vectors(X, type(self).__name__)

    def _summarize(self, values: Floats, n_data: int | None = None) -> Moments:
        return moments_of(values, n_data)

    @staticmethod
    def _join_summaries(one: Moments, other: Moments) -> Moments:
        return join_moments(one, other)

    def _make_model(self, summary: Moments) -> tuple[Gaussian, Units]:
        n_features = summary.mean.size
        mean, scale, is_constant = location_and_scale(summary)
        noise = None if self.noise is None else check_variances("noise", self.noise, n_features)
        if noise is not None:  # the unit of a constant feature is that of its noise
            scale[is_constant] = np.sqrt(noise.start[is_constant])
        diffusion, rotation = self.diffusion, None
        matrix = to_array(diffusion)
        if matrix is not None and matrix.ndim == 2:
            for name in ("noise", "root_variance"):
                value = getattr(self, name)
                if not (value is None or np.isscalar(value) or isinstance(value, tuple)):
                    raise InvalidValue(
                        f"{name}={shown(value)}: with a matrix for diffusion there is one for all "
                        "features; give a number"
                    )
            scale[:] = math.sqrt(np.mean(scale**2))
            diffusion, rotation = _eigen(matrix, n_features)
        check_fixed("root_variance", self.root_variance)
        root_variance = _in_units("root_variance", self.root_variance, 1.0, scale)
        model = Gaussian(
            *check_hyperparameter("persistence", self.persistence, most=1.0, may_be_zero=True),
            *_in_units("diffusion", diffusion, DIFFUSION, scale),
            *_in_units("noise", self.noise, NOISE, scale),
            rotation is not None,
            root_variance.start,
            float(np.log(scale).sum()),
        )
        offset = mean
        if self.root_mean is not None:
            offset = check_vector("root_mean", self.root_mean, n_features)
            _check_distance(offset, mean, scale)
        return model, Units(offset, scale, rotation)

    @staticmethod
    def _encode(units: Units, values: Floats) -> tuple[Reals, int]:
        values = values - units.offset
        if units.rotation is not None:
            values = rotated(values, units.rotation)
        values /= units.scale
        return Reals(values), values.shape[0]

    @staticmethod
    def _make_room(units: Units, n: int, rng: np.random.RandomState) -> Reals:
        return Reals(np.empty((n, units.scale.size)))

    @staticmethod
    def _decode(units: Units, data: Reals) -> Floats:
        values = data.values * units.scale
        if units.rotation is not None:
            values = rotated(values, np.ascontiguousarray(units.rotation.T))
        return np.asarray(values + units.offset)

    @staticmethod
    def _describe_nodes(units: Units, theta: Floats) -> Mapping[str, npt.ArrayLike]:
        return {"mean": GaussianTree._decode(units, Reals(theta))}

    def _described(self) -> list[str]:
        # A matrix is fixed, and has no value for each feature.
        return ["persistence", "noise", *(["diffusion"] if self._units.rotation is None else [])]

    def _describe_hyperparameter(self, name: str, values: Floats) -> Floats:
        return values if name == "persistence" else values * self._units.scale**2


def _in_units(name: str, value: Any, default: Any, scale: Floats) -> Variances:
    """Return a variance for each feature in units of the model, which defaults are given in."""
    if value is None:
        return check_variances(name, default, scale.size)
    given = check_variances(name, value, scale.size)
    with np.errstate(over="ignore"):
        result = Variances._make(bound / scale**2 for bound in given)
    wrong = np.flatnonzero((result.low < LEAST[name]) | (result.high > MOST))
    if wrong.size:
        k = int(wrong[0])
        raise InvalidValue(
            f"{name}={shown(value)} is {result.start[k]:.1g} times the variance of feature {k}; "
            f"it must be from {LEAST[name]:g} to {MOST:g} times"
        )
    return result


def _check_distance(root_mean: Floats, mean: Floats, scale: Floats) -> None:
    """Raise if the root's prior mean is farther from the data than digits reach."""
    with np.errstate(over="ignore"):
        distance = np.abs(root_mean - mean) / scale
    k = int(np.argmax(distance))
    if not distance[k] <= FARTHEST:
        raise InvalidValue(
            f"root_mean is {distance[k]:.1g} standard deviations of feature {k} away from its "
            f"mean; it must be within {FARTHEST:g}, or None for that mean"
        )


def _eigen(matrix: Floats, n_features: int) -> tuple[Floats, Floats]:
    """Return eigenvalues and eigenvectors of a covariance, or raise."""
    if matrix.shape != (n_features, n_features):
        raise InvalidValue(
            f"diffusion has shape {matrix.shape}; a covariance of {n_features} features has "
            f"{(n_features, n_features)}"
        )
    if not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T, rtol=1e-8, atol=0.0):
        raise InvalidValue("diffusion is not a symmetric matrix of finite numbers")
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    if values[0] <= 1e-13 * values[-1]:  # rounding moves an eigenvalue of 0 by less
        raise InvalidValue(
            f"diffusion is not positive definite: its eigenvalues go from {values[0]:g} to "
            f"{values[-1]:g}"
        )
    return values, np.ascontiguousarray(vectors)
