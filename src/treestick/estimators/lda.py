"""LDA: latent Dirichlet allocation by Gibbs sampling."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from treestick.analysis.convergence import disagreements
from treestick.analysis.topic_draws import DirichletDraw
from treestick.engine.threads import count_jobs
from treestick.estimators.configuration import fingerprint
from treestick.estimators.draws import number_draws
from treestick.estimators.idata import BY_DRAW, attributes, stacked
from treestick.estimators.lazy import Lazy
from treestick.estimators.sampled import Job, SampledEstimator, Step
from treestick.estimators.topic_states import Vocabulary, check_topic_state
from treestick.estimators.vectors import to_array
from treestick.estimators.words import TopicsMixin
from treestick.inputs import InvalidValue, check_hyperparameter, check_whole_number, shown
from treestick.moves.tasks import Run
from treestick.random import make_key
from treestick.store import DamagedRun, DrawRecord, RunFolder, Trace
from treestick.tokens.collapsed import TopicCounts, mean_topics
from treestick.tokens.documents import Floats, make_documents
from treestick.tokens.gibbs import (
    COLLAPSED,
    MODES,
    Concentrations,
    TopicState,
    run_gibbs,
)
from treestick.tokens.priors import log_joint

if TYPE_CHECKING:
    import xarray

MOST_PRIOR, LEAST_PRIOR = 1e6, 1e-9
"""Beyond, differences of log-gamma functions lose the digits that decide."""


class LDA(TopicsMixin, SampledEstimator):
    """Latent Dirichlet allocation: topics of words, and documents that mix them.

    A topic is a distribution over words, and every word of a document comes from one of them::

        phi[k] ~ Dir(topic_word_prior, ..., topic_word_prior)
        p[d]   ~ Dir(doc_topic_prior)
        z ~ p[d],  word ~ phi[z]        for each token of document d

    Draws from the posterior are made by Gibbs sampling. Rows of X are documents, columns words, and
    cells counts; X may be sparse, or a :class:`treestick.io.Corpus`.

    A prior is a number (fixed) or an interval ``(low, high)``: a uniform prior, and it is inferred.

    Parameters
    ----------
    n_topics : int, default 20
    doc_topic_prior : float, array of n_topics floats, or (low, high), default (0.001, 10)
        How many topics a document has, the fewer the smaller it is. A number is the same for all
        topics; an interval is inferred for each topic by itself, so that some can be in all
        documents and others in few.
    topic_word_prior : float or (low, high), default (0.001, 1)
        How many words a topic has.
    sampler : {"collapsed", "instantiated"}, default "collapsed"
        Both are exact. The first has topics and proportions integrated out, goes from token to
        token in one thread, and gets further in a sweep. The second draws them, then all tokens at
        once, on ``n_jobs`` threads.
    n_draws : int, default 20
        Draws that are kept of each chain.
    burn_in : int, default 300
        Sweeps before the first of them.
    thin : int, default 10
        Sweeps between them.
    n_chains : int, default 1
        Chains number their topics each in its own way.
    n_jobs : int or None, default None
        Threads; None for all cores. Draws are the same for any number.
    engine : {"threads", "processes"}
        As for :class:`GaussianTree`.
    random_state : int, RandomState or None
        As everywhere in scikit-learn.
    run_dir : path or None
        Folder for the draws, which outlives the process: see :func:`treestick.load_run`. A run that
        is there already goes on. None for a temporary folder.
    verbose : int, default 1
        0 shows no progress.

    Attributes
    ----------
    components_ : array of shape (n_topics, n_features)
        Probabilities of the words in the topics of the best draw, the one with the highest
        log p(words, topics of tokens). Given the topics of tokens they are means, not draws.
    doc_topic_prior_ : array of shape (n_topics,)
        That of the same draw.
    topic_word_prior_ : float
        Posterior mean.
    draws_, topic_draws_ : sequence of DirichletDraw
        The posterior sample, all chains; for :mod:`treestick.analysis.heldout`.
    idata_ : xarray.DataTree
        Priors and log likelihoods by chain and draw, in ArviZ's layout.
    n_iter_ : int
        Sweeps done.

    Examples
    --------
    >>> import numpy as np
    >>> from treestick import LDA
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.multinomial(40, p, 20) for p in ([.5, .5, 0, 0], [0, 0, .5, .5])])
    >>> model = LDA(n_topics=2, burn_in=30, n_draws=5, random_state=0, verbose=0).fit(X)
    >>> sorted(sorted(model.top_words(k, 2).tolist()) for k in range(2))
    [[0, 1], [2, 3]]
    """

    _counted = "topics"
    _compiling = "compiling, some ten seconds; later runs need not ..."
    _stored_types = (TopicState, TopicCounts, Concentrations, Vocabulary)

    def __init__(
        self,
        n_topics: int = 20,
        *,
        doc_topic_prior: Any = (0.001, 10.0),
        topic_word_prior: Any = (0.001, 1.0),
        sampler: str = COLLAPSED,
        n_draws: int = 20,
        burn_in: int = 300,
        thin: int = 10,
        n_chains: int = 1,
        n_jobs: int | None = None,
        engine: str = "threads",
        random_state: Any = None,
        run_dir: Any = None,
        verbose: int = 1,
    ) -> None:
        self.n_topics = n_topics
        self.doc_topic_prior = doc_topic_prior
        self.topic_word_prior = topic_word_prior
        self.sampler = sampler
        self.n_draws = n_draws
        self.burn_in = burn_in
        self.thin = thin
        self.n_chains = n_chains
        self.n_jobs = n_jobs
        self.engine = engine
        self.random_state = random_state
        self.run_dir = run_dir
        self.verbose = verbose

    def _prepare(self, X: Any) -> Job:
        counts = self._read_documents(X)
        concentrations, n_jobs = self.check_parameters()
        documents = make_documents(counts)

        def steps(
            seed: int,
            chain: int,
            run: Run,
            saved: tuple[int, TopicState] | None,
            note: Callable[[str], None],
        ) -> Iterator[Step]:
            state = None if saved is None else saved[1]
            if state is not None:
                check_topic_state(state, documents, concentrations)
            for now in run_gibbs(
                seed, chain, documents, concentrations, self.sampler, run, n_jobs, state
            ):
                alpha, beta = now.concentrations.alpha, now.concentrations.beta
                found = log_joint(now.counts, alpha, beta)
                yield Step(
                    now.sweep, found, alpha.size, partial(_to_record, chain, now, found), now
                )

        constants = Vocabulary(int(counts.shape[1]))
        digest = partial(fingerprint, documents)
        return Job(self._known_of(X), digest, int(counts.shape[0]), constants, steps)

    def _take(self, run: RunFolder, traces: list[Trace], constants: Vocabulary) -> None:
        self._traces = traces
        self.n_iter_ = max(int(trace.sweep[-1]) for trace in traces)
        self.draws_ = self.topic_draws_ = TopicDraws(run, constants.n_words)
        every = {
            name: np.concatenate([t.values[name] for t in traces]) for name in traces[0].values
        }
        best = self.draws_[int(np.argmax(every["log_likelihood"]))]
        self.components_ = best.topics
        self.doc_topic_prior_ = best.doc_topic_prior
        self.topic_word_prior_ = float(np.mean(every["topic_word_prior"]))

    def _check_constants(self, constants: Any) -> None:
        if not isinstance(constants, Vocabulary) or constants.n_words != self.n_features_in_:
            raise DamagedRun(f"the run's vocabulary has not {self.n_features_in_} words")

    def _warn_of_disagreement(self) -> None:
        found = disagreements({"log_likelihood": stacked(self._traces, "log_likelihood")})
        if found:
            warnings.warn(
                f"the chains disagree (R-hat of the log likelihood {found['log_likelihood']:.2f}; "
                "1 is agreement): each has found topics of its own. Run longer, or look at each.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def check_parameters(self) -> tuple[Concentrations, int]:
        """Return priors and number of threads as ``fit`` uses them; raise if they cannot be."""
        if self.sampler not in MODES:
            raise InvalidValue(f"sampler={shown(self.sampler)} is not one of {MODES}")
        self._lengths()
        return self._concentrations(), count_jobs(self.n_jobs)

    def _concentrations(self) -> Concentrations:
        n_topics = check_whole_number("n_topics", self.n_topics, 1, 2**20)
        name, value = "doc_topic_prior", self.doc_topic_prior
        array = None if isinstance(value, tuple) else to_array(value)
        if array is None or array.ndim == 0:
            start, low, high = check_hyperparameter(name, value, most=MOST_PRIOR)
            alpha = np.full(n_topics, start)
        elif array.shape != (n_topics,):
            raise InvalidValue(
                f"{name} has shape {array.shape}; give a number, an interval, or an array with one "
                f"for each of the {n_topics} topics"
            )
        else:
            for k, x in enumerate(array.tolist()):
                check_hyperparameter(f"{name}: topic {k}", x, most=MOST_PRIOR)
            alpha, low, high = array, float(array.min()), float(array.min())
        beta = check_hyperparameter("topic_word_prior", self.topic_word_prior, most=MOST_PRIOR)
        for name, least in (("doc_topic_prior", low), ("topic_word_prior", beta.low)):
            if least < LEAST_PRIOR:
                raise InvalidValue(f"{name}: {least} is below {LEAST_PRIOR}, the least it can be")
        return Concentrations(alpha, low, high, *beta)

    def transform(self, X: Any) -> Floats:
        """Return the mean proportions of the topics of ``components_`` in documents.

        They are averages over a Gibbs sampler with these topics, the same for the same row.

        Parameters
        ----------
        X : as for ``fit``

        Returns
        -------
        array of shape (n_samples, n_topics)
            Rows sum to one.
        """
        counts = self._new_counts(X)
        draw = DirichletDraw(self.components_, self.doc_topic_prior_)
        return draw.infer_proportions(make_key(0), counts)

    def top_words(self, topic: int, n: int = 10) -> npt.NDArray[Any]:
        """Return the ``n`` most probable words of a topic: their names, or else their columns."""
        check_is_fitted(self, "draws_")
        n_topics = self.components_.shape[0]
        topic = check_whole_number("topic", topic, 0, n_topics - 1)
        return self._most_probable(self.components_[topic], n)

    @property
    def idata_(self) -> xarray.DataTree:
        """Priors and log likelihoods of all draws in ArviZ's layout."""
        import xarray

        check_is_fitted(self, "draws_")
        traces = self._traces
        posterior: dict[str, Any] = {
            "doc_topic_prior": ((*BY_DRAW, "topic"), stacked(traces, "doc_topic_prior")),
            "topic_word_prior": (BY_DRAW, stacked(traces, "topic_word_prior")),
        }
        statistics: dict[str, Any] = {"lp": (BY_DRAW, stacked(traces, "log_likelihood"))}
        noted = attributes(traces, self.thin)
        return xarray.DataTree.from_dict(
            {
                "posterior": xarray.Dataset(posterior, attrs=noted),
                "sample_stats": xarray.Dataset(statistics, attrs=noted),
            }
        )


def _to_record(chain: int, state: TopicState, log_likelihood: float) -> DrawRecord:
    nothing = np.empty(0, dtype=np.int64)
    beta = state.concentrations.beta
    return DrawRecord(
        parent=nothing,
        assignments=nothing,
        theta=mean_topics(state.counts, state.concentrations.alpha.size, beta),
        scalars={"topic_word_prior": beta, "log_likelihood": log_likelihood},
        vectors={"doc_topic_prior": state.concentrations.alpha},
        chain=chain,
        sweep=state.sweep,
    )


class TopicDraws(Lazy[DirichletDraw]):
    """The posterior sample: a sequence that reads draws from disk when they are asked for.

    ``chain[k]`` is the chain that draw k comes from.
    """

    def __init__(self, store: RunFolder, n_words: int) -> None:
        self._store, self._n_words = store, n_words
        self.chain, self._draw = number_draws(store)

    def __len__(self) -> int:
        return int(self.chain.size)

    def _read(self, number: int) -> DirichletDraw:
        record = self._store.chain(int(self.chain[number])).read(int(self._draw[number]))
        prior = record.vectors.get("doc_topic_prior", np.empty(0))
        if record.theta.shape != (prior.size, self._n_words):  # compiled code does not check
            raise DamagedRun(f"draw {number}: topics have shape {record.theta.shape}")
        return DirichletDraw(
            record.theta / record.theta.sum(axis=1, keepdims=True),  # stored as float32
            prior,
            record.scalars["topic_word_prior"],
            record.scalars["log_likelihood"],
        )
