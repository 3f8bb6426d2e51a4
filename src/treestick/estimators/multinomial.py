"""MultinomialTree: rows of counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import gammaln
from sklearn.utils import Tags

from treestick.estimators.base import TreeEstimator
from treestick.inputs import check_hyperparameter
from treestick.io import read_counts
from treestick.models.multinomial import Counts, Multinomial
from treestick.moves.state import Floats, Integers

MOST_CONCENTRATION = 1e6
"""Beyond, differences of log-gamma functions lose the digits that decide."""


class Units(NamedTuple):
    """What is kept of the data that a model was fitted to."""

    n_outcomes: int
    totals: Integers
    """Of each row: the sum of its counts."""
    is_sparse: bool


class MultinomialTree(TreeEstimator):
    """A tree of clusters of count vectors: words in documents, species at sites, answers.

    Every node has a probability for each feature. They go down the tree by Dirichlet diffusion,
    and the counts of a row are multinomial with those of its node::

        p[root]  ~ Dir(concentration, ..., concentration)
        p[child] ~ Dir(concentration * (persistence * p[parent] + (1 - persistence) / n_features))
        x        ~ Multinomial(sum of x, p[node of x])

    Rows may have any sums, also 0; the sums are taken as given. Data may be sparse, and stay so.

    A hyperparameter is a number (fixed) or an interval ``(low, high)``: a uniform prior, and it is
    inferred.

    Parameters
    ----------
    alpha0, decay, gamma : float or (low, high)
        The prior on trees: ``alpha0 * decay**depth`` says how much goes deeper, ``gamma`` how many
        children a node has.
    concentration : float or (low, high), default (1, 1000)
        How near children are to their parents: p[child] varies like shares among so many tokens.
        It is the shape of the root's law as well, so far below 1 a tree without children, whose
        root has few features, is a trap.
    persistence : float or (low, high), from 0 to 1, default 1
        How much of the parent is in the mean of a child; the rest is uniform. With 1, what has
        probability 0 at a node has it in the whole subtree.
    n_draws, burn_in, thin, n_chains, init, schedule, n_jobs, random_state, verbose
        As for :class:`GaussianTree`.

    Attributes
    ----------
    tree_ : Tree
        The draw with the highest complete-data likelihood. ``node_params`` holds ``probability``
        of the features at each node.
    labels_, draws_, idata_, n_iter_
        As for :class:`GaussianTree`.
    alpha0_, decay_, gamma_, concentration_, persistence_ : float
        Posterior means.

    Examples
    --------
    >>> import numpy as np
    >>> from treestick import MultinomialTree
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.multinomial(20, p, 30) for p in ([.6, .3, .1], [.1, .1, .8])])
    >>> model = MultinomialTree(n_draws=20, burn_in=100, n_chains=1, random_state=0, verbose=0)
    >>> model.fit(X).tree_.node_params["probability"].shape == (model.tree_.n_nodes, 3)
    True
    """

    def __init__(
        self,
        *,
        alpha0: Any = (1.0, 50.0),
        decay: Any = (0.05, 0.8),
        gamma: Any = (0.5, 10.0),
        concentration: Any = (1.0, 1000.0),
        persistence: Any = 1.0,
        n_draws: int = 500,
        burn_in: int = 500,
        thin: int = 1,
        n_chains: int = 2,
        init: Any = "root",
        schedule: str = "default",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 1,
    ) -> None:
        self.alpha0 = alpha0
        self.decay = decay
        self.gamma = gamma
        self.concentration = concentration
        self.persistence = persistence
        self.n_draws = n_draws
        self.burn_in = burn_in
        self.thin = thin
        self.n_chains = n_chains
        self.init = init
        self.schedule = schedule
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags

    def _read(self, X: Any) -> tuple[sparse.csr_array, bool]:
        return read_counts(X, type(self).__name__), bool(sparse.issparse(X))

    def _make_model(self, values: tuple[sparse.csr_array, bool]) -> tuple[Multinomial, Units]:
        counts, is_sparse = values
        n_outcomes = int(counts.shape[1])
        model = Multinomial(
            *check_hyperparameter("concentration", self.concentration, most=MOST_CONCENTRATION),
            *check_hyperparameter("persistence", self.persistence, most=1.0, may_be_zero=True),
            n_outcomes,
        )
        totals = _row_sums(counts, counts.data).astype(np.int64)
        return model, Units(n_outcomes, totals, is_sparse)

    @staticmethod
    def _encode(units: Units, values: tuple[sparse.csr_array, bool]) -> tuple[Counts, int]:
        counts = values[0]
        total = _row_sums(counts, counts.data)
        return Counts(
            counts.indptr[:-1].astype(np.int64),
            np.diff(counts.indptr).astype(np.int64),
            counts.indices.astype(np.int32),
            counts.data.astype(np.float64),
            total.astype(np.int64),
            gammaln(total + 1.0) - _row_sums(counts, gammaln(counts.data + 1.0)),
        ), int(counts.shape[0])

    @staticmethod
    def _make_room(units: Units, n: int, rng: np.random.RandomState) -> Counts:
        """Return room for rows whose totals are those of rows of the training data."""
        total = units.totals[rng.randint(units.totals.size, size=n)]
        room = np.minimum(total, units.n_outcomes)
        return Counts(
            np.cumsum(room) - room,
            np.zeros(n, dtype=np.int64),
            np.zeros(room.sum(), dtype=np.int32),
            np.zeros(room.sum()),
            total,
            np.zeros(n),
        )

    @staticmethod
    def _decode(units: Units, data: Counts) -> npt.NDArray[np.int64] | sparse.csr_array:
        indptr = np.concatenate([[0], np.cumsum(data.n_entries)])
        entries = np.arange(indptr[-1]) + np.repeat(data.start - indptr[:-1], data.n_entries)
        counts = sparse.csr_array(
            (data.counts[entries].astype(np.int64), data.outcomes[entries], indptr),
            shape=(data.total.size, units.n_outcomes),
        )
        return counts if units.is_sparse else counts.toarray()

    @staticmethod
    def _describe_nodes(units: Units, theta: Floats) -> Mapping[str, npt.ArrayLike]:
        return {"probability": np.exp(theta)}

    def _describe_hyperparameter(self, name: str, values: Floats) -> Floats:
        return values


def _row_sums(counts: sparse.csr_array, values: Floats) -> Floats:
    """Return the sums of values, one for each entry, over the rows."""
    n_rows = counts.shape[0]
    rows = np.repeat(np.arange(n_rows), np.diff(counts.indptr))
    return np.asarray(np.bincount(rows, weights=values, minlength=n_rows), dtype=np.float64)
