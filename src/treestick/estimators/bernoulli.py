"""BernoulliTree: vectors of bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn.utils import Tags

from treestick.estimators.base import TreeEstimator
from treestick.estimators.vectors import check_fixed, check_variances, check_vector
from treestick.io import read_bits
from treestick.models.bernoulli import FIRST_STEP, Bernoulli, Bits
from treestick.moves.state import Floats

LARGEST = 1e6
"""Variance of a logit: far below it all probabilities are 0 or 1, and above it moves take long."""


class BernoulliTree(TreeEstimator):
    """A tree of clusters of binary vectors.

    Every node has a real number for each feature, which goes down the tree by Gaussian diffusion;
    the logistic function makes it the probability of a one::

        logit[root]  ~ N(root_mean, root_variance)
        logit[child] ~ N(logit[parent], diffusion)
        P(x = 1)     = 1 / (1 + exp(-logit[node of x]))

    A hyperparameter is a number (fixed), an array with a number for each feature (fixed), or an
    interval ``(low, high)``: a uniform prior, and it is inferred, for each feature by itself. Data
    may be sparse.

    Parameters
    ----------
    alpha0, decay, gamma : float or (low, high)
        The prior on trees: ``alpha0 * decay**depth`` says how much goes deeper, ``gamma`` how many
        children a node has.
    diffusion : float, array or (low, high), default (0.01, 4)
        Variance of the step from parent to child.
    root_mean : float or array, default 0
        Prior mean of the root's logits.
    root_variance : float or array, default 3
        Prior variance of the root's logits; 3 makes the prior of a probability about flat.
    binarize : float or None
        Numbers above it become 1, others 0. None: data must be 0 and 1.
    n_draws, burn_in, thin, n_chains, init, schedule, n_jobs, engine, random_state, run_dir, verbose
        As for :class:`GaussianTree`.

    Attributes
    ----------
    tree_ : Tree
        The draw with the highest complete-data likelihood. ``node_params`` holds ``probability``
        and ``logit`` of the features at each node.
    labels_, draws_, idata_, n_iter_
        As for :class:`GaussianTree`.
    alpha0_, decay_, gamma_, diffusion_ : float or array
        Posterior means.

    Examples
    --------
    >>> import numpy as np
    >>> from treestick import BernoulliTree
    >>> rng = np.random.default_rng(0)
    >>> X = (rng.random((60, 8)) < np.repeat([[0.1], [0.9]], 30, axis=0)).astype(int)
    >>> model = BernoulliTree(n_draws=20, burn_in=100, n_chains=1, random_state=0, verbose=0).fit(X)
    >>> model.predict_proba(X).shape == (60, model.tree_.n_nodes + 1)
    True
    """

    _can_be_elsewhere = True
    _bits_per_cell = 1

    def __init__(
        self,
        *,
        alpha0: Any = (1.0, 50.0),
        decay: Any = (0.05, 0.8),
        gamma: Any = (0.5, 10.0),
        diffusion: Any = (0.01, 4.0),
        root_mean: Any = 0.0,
        root_variance: Any = 3.0,
        binarize: float | None = None,
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
        self.diffusion = diffusion
        self.root_mean = root_mean
        self.root_variance = root_variance
        self.binarize = binarize
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

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _read(self, X: Any) -> tuple[npt.NDArray[np.uint8], int]:
        return read_bits(X, type(self).__name__, self.binarize)

    def _summarize(
        self, values: tuple[npt.NDArray[np.uint8], int], n_data: int | None = None
    ) -> int:
        return values[1]

    def _summary_of_columns(self, n_columns: int) -> int:
        return n_columns

    def _make_model(self, summary: int) -> tuple[Bernoulli, int]:
        n_features = summary
        check_fixed("root_variance", self.root_variance)
        root_variance = check_variances("root_variance", self.root_variance, n_features, LARGEST)
        model = Bernoulli(
            *check_variances("diffusion", self.diffusion, n_features, LARGEST),
            check_vector("root_mean", self.root_mean, n_features),
            root_variance.start,
            FIRST_STEP,
        )
        return model, n_features

    @staticmethod
    def _encode(units: int, values: tuple[npt.NDArray[np.uint8], int]) -> tuple[Bits, int]:
        return Bits(values[0]), values[0].shape[0]

    @staticmethod
    def _make_room(units: int, n: int, rng: np.random.RandomState) -> Bits:
        return Bits(np.zeros((n, (units + 7) // 8), dtype=np.uint8))

    @staticmethod
    def _decode(units: int, data: Bits) -> npt.NDArray[np.uint8]:
        return np.unpackbits(data.packed, axis=1, bitorder="little", count=units)

    @staticmethod
    def _describe_nodes(units: int, theta: Floats) -> Mapping[str, npt.ArrayLike]:
        return {"probability": expit(theta), "logit": theta}

    def _describe_hyperparameter(self, name: str, values: Floats) -> Floats:
        return values
