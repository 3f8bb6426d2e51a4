"""TopicTree: documents in a tree, each node with its own mixture of topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from treestick.engine.threads import count_jobs
from treestick.estimators.base import TreeEstimator
from treestick.estimators.documents import (
    DocumentUnits,
    Summary,
    TreeDraws,
    join_summaries,
    summarize,
)
from treestick.estimators.sampled import Job, Lengths
from treestick.estimators.states import check_constants
from treestick.estimators.tables import TablesMixin
from treestick.estimators.words import TopicsMixin, check_some
from treestick.inputs import (
    InvalidValue,
    check_hyperparameter,
    check_positive,
    check_whole_number,
    data_errors,
    shown,
)
from treestick.io import Corpus
from treestick.models.multinomial import Multinomial
from treestick.moves import topics_elsewhere
from treestick.moves.shards import Shards
from treestick.moves.state import Floats
from treestick.moves.tasks import Run
from treestick.moves.topics import TopicMoves
from treestick.prior.parameters import MOST_DATA
from treestick.random import make_key
from treestick.store import RunFolder
from treestick.tokens.documents import Documents, check_tokens, make_documents
from treestick.tokens.gibbs import COLLAPSED, MODES
from treestick.tokens.latent import TokenTopics, first_topics

SUMMED_OUT, GIVEN = "summed_out", "given"
DOCUMENT_MOVES = (SUMMED_OUT, GIVEN)
FIRST_TOPICS = 20
"""Topics to begin with where their number is unbounded."""
SWEEPS_UNKEPT = 10
"""Of LDA on a cluster: then topics of tokens are written, and questions before are forgotten."""
LEAST, MOST = 1e-6, 1e6
"""Beyond, differences of log-gamma functions lose the digits that decide."""


class TopicTree(TopicsMixin, TablesMixin, TreeEstimator):
    """A tree of documents: every node has a mixture of topics, and every document a node.

    A topic is a distribution over words. Mixtures go down the tree by Dirichlet diffusion, and the
    words of a document come from the mixture of its node::

        phi[k]   ~ Dir(topic_word_prior, ..., topic_word_prior)
        p[root]  ~ Dir(root_concentration, ..., root_concentration)
        p[child] ~ Dir(concentration * (persistence * p[parent] + (1 - persistence) / n_topics))
        z ~ p[node of d],  word ~ phi[z]        for each token of document d

    So documents at a node have the same mixture, those at its children similar ones. Rows of X are
    documents, columns words, and cells counts; X may be sparse, or a :class:`treestick.io.Corpus`,
    whose words, ids and metadata stay with the model.

    A chain goes through four phases: topics by LDA, which has no tree (``lda_sweeps``); the tree,
    with the topics of all words as they are (``tree_sweeps``); everything (``burn_in``); and draws.

    A hyperparameter is a number (fixed) or an interval ``(low, high)``: a uniform prior, and it is
    inferred.

    Parameters
    ----------
    n_topics : int or None, default 20
        None for as many as the documents need: nodes then hold random measures on infinitely many
        topics, p[root] ~ DP(concentration * H) and p[child] ~ DP(concentration * (persistence *
        p[parent] + (1 - persistence) * H)), where H brings new topics, and a last topic, with all
        words alike, stands for those that no word has.
    alpha0, decay, gamma : float or (low, high)
        The prior on trees: ``alpha0 * decay**depth`` says how much goes deeper, ``gamma`` how many
        children a node has.
    concentration : float or (low, high), default (1, 1000)
        How near children are to their parents. It begins at ``n_topics``, or the nearest bound.
    root_concentration : float or None, default 1
        Shape of the root's law; None is ``concentration``, as in the paper. Not used if
        ``n_topics`` is None.
    persistence : float or (low, high), from 0 to 1, default 1
        How much of the parent is in the mean of a child; the rest is uniform, or new topics if
        ``n_topics`` is None.
    topic_word_prior : float or (low, high), default (0.001, 1)
        How many words a topic has.
    sampler : {"collapsed", "instantiated"}, default "collapsed"
        Of the topics of words, as for :class:`LDA`. Both are exact; the second uses ``n_jobs``
        threads, or the workers of ``engine="dask"``, and is not for ``n_topics=None``.
    document_move : {"given", "summed_out"}, default "given"
        Whether documents move given the topics of their words, or with these summed out. Both are
        exact. The second is not for ``n_topics=None``.
    lda_sweeps, tree_sweeps : int, default 200 and 100
        Lengths of the first two phases.
    n_draws, burn_in, thin, n_chains, init, schedule, n_jobs, engine, random_state, run_dir, verbose
        As for :class:`GaussianTree`.

    Attributes
    ----------
    tree_ : Tree
        The draw with the highest complete-data likelihood. ``node_params`` holds ``topics``: the
        mixture of each node.
    components_ : array of shape (n_topics, n_features)
        The topics of ``tree_``: probabilities of words, means given the topics of all tokens.
    labels_ : array of shape (n_samples,)
        The node of each document in ``tree_``.
    draws_, idata_, n_iter_
        As for :class:`GaussianTree`.
    topic_draws_ : sequence of TreeDraw
        The same draws, for :mod:`treestick.analysis.heldout`.
    ids_, metadata_
        Of the documents, if they came as a corpus.
    alpha0_, decay_, gamma_, concentration_, persistence_, topic_word_prior_ : float
        Posterior means.

    Examples
    --------
    >>> from treestick import TopicTree, io
    >>> texts = ["cats chase mice", "mice fear cats", "stocks and bonds", "bonds beat stocks"]
    >>> corpus = io.read_texts(texts * 5, stop_words=["and"])
    >>> model = TopicTree(2, n_chains=1, n_draws=10, random_state=0, verbose=0).fit(corpus)
    >>> sorted(sorted(model.top_words(topic=k, n=2).tolist()) for k in range(2))
    [['bonds', 'stocks'], ['cats', 'mice']]
    """

    def __init__(
        self,
        n_topics: int | None = 20,
        *,
        alpha0: Any = (1.0, 50.0),
        decay: Any = (0.05, 0.8),
        gamma: Any = (0.5, 10.0),
        concentration: Any = (1.0, 1000.0),
        root_concentration: float | None = 1.0,
        persistence: Any = 1.0,
        topic_word_prior: Any = (0.001, 1.0),
        sampler: str = COLLAPSED,
        document_move: str = GIVEN,
        lda_sweeps: int = 200,
        tree_sweeps: int = 100,
        n_draws: int = 50,
        burn_in: int = 200,
        thin: int = 5,
        n_chains: int = 2,
        init: Any = "root",
        schedule: str = "default",
        n_jobs: int | None = None,
        engine: str = "threads",
        random_state: Any = None,
        run_dir: Any = None,
        verbose: int = 1,
    ) -> None:
        self.n_topics = n_topics
        self.alpha0 = alpha0
        self.decay = decay
        self.gamma = gamma
        self.concentration = concentration
        self.root_concentration = root_concentration
        self.persistence = persistence
        self.topic_word_prior = topic_word_prior
        self.sampler = sampler
        self.document_move = document_move
        self.lda_sweeps = lda_sweeps
        self.tree_sweeps = tree_sweeps
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

    _stored_types = (DocumentUnits,)
    _can_be_elsewhere = True

    # -- fitting -----------------------------------------------------------------------------------

    def _read(self, X: Any) -> sparse.csr_array:
        return self._counts_of(X.counts if isinstance(X, Corpus) else X)

    def _summarize(self, values: sparse.csr_array, n_data: int | None = None) -> Summary:
        return summarize(values)

    @staticmethod
    def _join_summaries(one: Summary, other: Summary) -> Summary:
        return join_summaries(one, other)

    def _n_topics_first(self) -> int:
        if self.n_topics is None:
            return FIRST_TOPICS
        return check_whole_number("n_topics", self.n_topics, 1, 2**20)

    def _make_model(self, summary: Summary) -> tuple[Multinomial, DocumentUnits]:
        with data_errors():
            check_some(int(summary.totals.sum()))
            check_tokens(*summary)
        for name, value, known in (
            ("sampler", self.sampler, MODES),
            ("document_move", self.document_move, DOCUMENT_MOVES),
        ):
            if value not in known:
                raise InvalidValue(f"{name}={shown(value)} is not one of {known}")
        is_measure = self.n_topics is None
        for name, value, possible in (
            ("sampler", self.sampler, COLLAPSED),
            ("document_move", self.document_move, GIVEN),
        ):
            if is_measure and value != possible:
                raise InvalidValue(
                    f"{name}={value!r} needs a number of topics; give n_topics, or "
                    f"{name}={possible!r}"
                )
        check_whole_number("lda_sweeps", self.lda_sweeps, 0)
        self._beta()
        n_topics = self._n_topics_first()
        _, low, high = check_hyperparameter("concentration", self.concentration, most=MOST)
        if low < LEAST:
            raise InvalidValue(f"concentration={shown(self.concentration)} is below {LEAST:g}")
        root = 0.0
        if self.root_concentration is not None:
            root = check_positive("root_concentration", self.root_concentration, MOST)
        return Multinomial(
            float(np.clip(n_topics, low, high)), low, high,
            *check_hyperparameter(
                "persistence", self.persistence, most=1.0, may_be_zero=not is_measure
            ),
            n_topics + is_measure, root, is_measure,
        ), DocumentUnits(summary.totals)  # fmt: skip

    def check_parameters(self) -> None:
        """Raise if a parameter cannot be; ``fit`` does the same first."""
        self._make_model(Summary(np.array([1]), np.array([1])))
        self._lengths()

    def _beta(self) -> tuple[float, float, float]:
        found = check_hyperparameter("topic_word_prior", self.topic_word_prior, most=MOST)
        if found.low < LEAST:
            raise InvalidValue(
                f"topic_word_prior={shown(self.topic_word_prior)} is below {LEAST:g}"
            )
        return found

    @staticmethod
    def _encode(units: DocumentUnits, values: sparse.csr_array) -> tuple[Documents, int]:
        return make_documents(values), values.shape[0]

    def _lengths(self) -> Lengths:
        lengths = super()._lengths()
        n_fixed = check_whole_number("tree_sweeps", self.tree_sweeps, 0)
        return lengths._replace(burn_in=lengths.burn_in + n_fixed)

    def _first_latent(
        self,
        seed: int,
        chain: int,
        model: Multinomial,
        data: Documents,
        run: Run,
        note: Callable[[str], None],
    ) -> TokenTopics:
        return first_topics(
            seed, chain, data, self._n_topics_first(), self._beta(), self.lda_sweeps, self.sampler,
            model.is_measure, run, count_jobs(self.n_jobs),
            lambda sweep: note(f"LDA {sweep}/{self.lda_sweeps}"),
        )  # fmt: skip

    def _prepare_elsewhere(self, X: Any, run: RunFolder) -> Job:
        if not isinstance(X, Corpus):
            return super()._prepare_elsewhere(X, run)
        return super()._prepare_elsewhere(X.counts, run)._replace(known=self._known_of(X))

    def _check_elsewhere(self) -> None:
        self.check_parameters()
        if self.n_topics is None:
            raise InvalidValue(
                "TopicTree: with engine='dask', n_topics must be a number: how many topics there "
                "are is found out token by token, in one place; use threads for n_topics=None"
            )
        if self.sampler == COLLAPSED:
            raise InvalidValue(
                "TopicTree: engine='dask' needs sampler='instantiated'; 'collapsed' moves one "
                "token after the other, in one place"
            )

    def _first_latent_elsewhere(
        self,
        seed: int,
        chain: int,
        where: Shards,
        note: Callable[[str], None],
        keep: Callable[[int, TokenTopics], None],
    ) -> TokenTopics:
        def after_sweep(sweep: int, latent: TokenTopics) -> None:
            note(f"LDA {sweep}/{self.lda_sweeps}")
            if sweep % SWEEPS_UNKEPT == 0:
                keep(sweep, latent)

        return topics_elsewhere.first_topics(
            seed, chain, where, self._n_topics_first(), self._beta(), self.lda_sweeps, after_sweep
        )

    def _more_moves(self) -> dict[str, Any]:
        sums_out = self.document_move == SUMMED_OUT
        moves = TopicMoves(self.sampler, sums_out, count_jobs(self.n_jobs))
        return {"topics": moves, "n_fixed": self.tree_sweeps}

    def _check_constants(self, constants: Any) -> None:
        n_topics = self._n_topics_first()
        check_constants(constants, self.n_features_in_, n_topics + (self.n_topics is None))

    def _atom_width(self) -> int:
        return int(self.n_features_in_)

    def _finish(self) -> None:
        super()._finish()
        self.topic_draws_ = TreeDraws(self.draws_)
        self._best_draw = self.topic_draws_[self._best]
        self.components_ = self._best_draw.topics

    @staticmethod
    def _describe_nodes(units: DocumentUnits, theta: Floats) -> Mapping[str, npt.ArrayLike]:
        return {"topics": np.exp(theta)}

    def _described(self) -> list[str]:
        more = ["topic_word_prior"] + ["n_topics"] * (self.n_topics is None)
        return [*super()._described(), *more]

    def _describe_hyperparameter(self, name: str, values: Floats) -> Floats:
        return values

    # -- new documents -----------------------------------------------------------------------------

    def transform(self, X: Any) -> Floats:
        """Return the mean proportions of the topics of ``components_`` in documents.

        Averages over where the document may belong in ``tree_``, an unseen node included.

        Parameters
        ----------
        X : as for ``fit``

        Returns
        -------
        array of shape (n_samples, n_topics)
            Rows sum to one.
        """
        counts = self._new_counts(X)
        return np.asarray(self._best_draw.infer(make_key(0), counts)[0])

    def predict_proba(self, X: Any) -> Floats:
        """Return the posterior over the nodes of ``tree_``, and a last column for a new node.

        Parameters
        ----------
        X : as for ``fit``

        Returns
        -------
        array of shape (n_samples, n_nodes + 1)
            Rows sum to one. They are averages over a Gibbs sampler, the same for the same row.
        """
        counts = self._new_counts(X)
        return np.asarray(self._best_draw.infer(make_key(0), counts)[1])

    def sample(self, n_samples: int = 1, random_state: Any = None) -> sparse.csr_array:
        """Draw documents from the posterior predictive, as long as those of the training data.

        Parameters
        ----------
        n_samples : int
            How many.
        random_state : int, RandomState or None
            As everywhere in scikit-learn.
        """
        check_is_fitted(self, "draws_")
        n_samples = check_whole_number("n_samples", n_samples, 1, MOST_DATA)
        rng = check_random_state(random_state)
        key = make_key(int(rng.randint(2**31 - 1)))
        chosen = np.sort(rng.randint(len(self.draws_), size=n_samples))
        lengths = self._units.totals[rng.randint(self._units.totals.size, size=n_samples)]
        rows = []
        for position in np.unique(chosen):
            draw = self.topic_draws_[int(position)]
            wanted = lengths[chosen == position]
            proportions = draw.draw_proportions(key, wanted.size)
            for n, p in zip(wanted, proportions @ draw.topics, strict=True):
                rows.append(sparse.csr_array(rng.multinomial(n, p / p.sum())[None]))
        found: sparse.csr_array = sparse.vstack(rows, format="csr")[rng.permutation(n_samples)]
        return found
