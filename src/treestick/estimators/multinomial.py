"""MultinomialTree: rows of counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils import Tags

from treestick.estimators.base import TreeEstimator
from treestick.estimators.counts import (
    CountUnits,
    Rows,
    decode,
    encode,
    join_units,
    make_room,
    read_rows,
    units_of,
)
from treestick.families.multinomial import Counts
from treestick.inputs import check_hyperparameter, check_positive
from treestick.models.multinomial import Multinomial
from treestick.moves.state import Floats

MOST_CONCENTRATION = 1e6
"""Beyond, differences of log-gamma functions lose the digits that decide."""


class MultinomialTree(TreeEstimator):
    """A tree of clusters of count vectors: words in documents, species at sites, answers.

    Every node has a probability for each feature. They go down the tree by Dirichlet diffusion,
    and the counts of a row are multinomial with those of its node::

        p[root]  ~ Dir(root_concentration, ..., root_concentration)
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
    root_concentration : float or None, default 1
        Shape of the root's law; 1 is uniform over all probabilities. None is ``concentration``, as
        in the paper. That is a trap: where children need a large one, the root has all features
        alike, so a tree of few nodes with a small one wins at the start.
    persistence : float or (low, high), from 0 to 1, default 1
        How much of the parent is in the mean of a child; the rest is uniform. With 1, what has
        probability 0 at a node has it in the whole subtree.
    n_draws, burn_in, thin, n_chains, init, schedule, n_jobs, engine, random_state, run_dir, verbose
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

    _stored_types = (CountUnits,)
    _can_be_elsewhere = True

    def __init__(
        self,
        *,
        alpha0: Any = (1.0, 50.0),
        decay: Any = (0.05, 0.8),
        gamma: Any = (0.5, 10.0),
        concentration: Any = (1.0, 1000.0),
        root_concentration: float | None = 1.0,
        persistence: Any = 1.0,
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
        self.concentration = concentration
        self.root_concentration = root_concentration
        self.persistence = persistence
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
        tags.input_tags.positive_only = True
        return tags

    def _read(self, X: Any) -> Rows:
        return read_rows(X, type(self).__name__)

    def _summarize(self, values: Rows, n_data: int | None = None) -> CountUnits:
        return units_of(values)

    @staticmethod
    def _join_summaries(one: CountUnits, other: CountUnits) -> CountUnits:
        return join_units(one, other)

    def _make_model(self, summary: CountUnits) -> tuple[Multinomial, CountUnits]:
        units = summary
        model = Multinomial(
            *check_hyperparameter("concentration", self.concentration, most=MOST_CONCENTRATION),
            *check_hyperparameter("persistence", self.persistence, most=1.0, may_be_zero=True),
            units.n_outcomes,
            0.0
            if self.root_concentration is None
            else check_positive("root_concentration", self.root_concentration, MOST_CONCENTRATION),
        )
        return model, units

    @staticmethod
    def _encode(units: CountUnits, values: Rows) -> tuple[Counts, int]:
        return encode(values)

    @staticmethod
    def _make_room(units: CountUnits, n: int, rng: np.random.RandomState) -> Counts:
        return make_room(units, n, rng)

    @staticmethod
    def _decode(units: CountUnits, data: Counts) -> npt.NDArray[np.int64] | sparse.csr_array:
        return decode(units, data)

    @staticmethod
    def _describe_nodes(units: CountUnits, theta: Floats) -> Mapping[str, npt.ArrayLike]:
        return {"probability": np.exp(theta)}

    def _describe_hyperparameter(self, name: str, values: Floats) -> Floats:
        return values
