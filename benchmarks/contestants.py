"""Methods that a user would choose among, for reals, bits and documents.

Each is a function of a split, a seed and :class:`Effort`, and returns a :class:`Fitted`: clusters
of the rows to fit, as labels or as a tree, and what computes the held-out density, which is not
timed.
Settings are what a user would take who does not know the answer: numbers of components are large
for methods that leave some empty, and else chosen by a criterion of the method. Only linkages are
told the number of classes, for the cut.
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.cluster import HDBSCAN
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.model_selection import GridSearchCV

from counts import log_coefficients
from densities import mixture_densities, ward_tree
from mixtures import fit_dp, fit_em
from problems import BITS, DOCUMENTS, REALS, Split
from treestick import LDA, BernoulliTree, GaussianTree, MultinomialTree, TopicTree, Tree
from treestick.analysis.heldout import document_completion, halves
from treestick.analysis.topic_draws import DirichletDraw

MOST_COMPONENTS = 30
MOST_VALIDATED = 15
"""Components that cross-validation chooses among."""
N_TOPICS = 20
MOST_COMPLETED = 20
"""Draws, at even distances, by which documents are completed."""
SIZES = (5, 10, 20, 40, 80)
"""Numbers of components that EM chooses among, by a fifth of its rows."""


class Effort(NamedTuple):
    """How long chains are: sweeps before the first draw, and draws. Samplers of others get both."""

    burn_in: int
    n_draws: int


class Fitted(NamedTuple):
    """What a method found."""

    tree: Tree | None
    """With the rows to fit; flat clusters are the children of the root."""
    labels: npt.NDArray[Any] | None
    score: Callable[[], float] | None
    """Returns nats per row held out; of documents per word of their second half given the first."""


Contestant = Callable[[Split, int, Effort], Fitted]


def flat(labels: npt.NDArray[Any]) -> Tree:
    """Return clusters as children of a root; data of none (-1) are at the root."""
    names, codes = np.unique(labels[labels >= 0], return_inverse=True)
    nodes = np.zeros(labels.size, dtype=np.int64)
    nodes[labels >= 0] = codes + 1
    return Tree([-1] + [0] * names.size, nodes)


def _of_labels(labels: npt.NDArray[Any], score: Callable[[], float] | None = None) -> Fitted:
    return Fitted(flat(labels), labels, score)


# -- rows of numbers -------------------------------------------------------------------------------


def bayesian_mixture(split: Split, seed: int, effort: Effort) -> Fitted:
    """Fit scikit-learn's variational DP mixture; its predictive is Student's t in each feature."""
    model = BayesianGaussianMixture(
        n_components=MOST_COMPONENTS, covariance_type="diag", n_init=3, max_iter=1000,
        random_state=seed,
    ).fit(split.train)  # fmt: skip
    return _of_labels(
        model.predict(split.train),
        lambda: float(mixture_densities(model, split.test)["predictive"].mean()),
    )


def mixture_by_bic(split: Split, seed: int, effort: Effort) -> Fitted:
    """Fit Gaussian mixtures with diagonal covariances, and take the one with the best BIC."""
    fits = [
        GaussianMixture(size, covariance_type="diag", n_init=3, random_state=seed).fit(split.train)
        for size in range(1, MOST_COMPONENTS + 1)
    ]
    best = min(fits, key=lambda fit: fit.bic(split.train))
    return _of_labels(best.predict(split.train), lambda: float(best.score(split.test)))


def mixture_by_validation(split: Split, seed: int, effort: Effort) -> Fitted:
    """Choose size and shape of a Gaussian mixture by cross-validation.

    By BIC, full covariances would have so many components that some are singular.
    """
    search = GridSearchCV(
        GaussianMixture(n_init=3, random_state=seed),
        {"covariance_type": ["diag", "full"], "n_components": range(1, MOST_VALIDATED + 1)},
    ).fit(split.train)
    best = search.best_estimator_
    return _of_labels(best.predict(split.train), lambda: float(best.score(split.test)))


def _linkage(method: Any, metric: Any) -> Contestant:
    def fit(split: Split, seed: int, effort: Effort) -> Fitted:
        X = split.train.astype(np.float64)
        labels = None
        if split.labels is not None:
            n_classes = np.unique(split.labels).size
            labels = fcluster(linkage(X, method, metric), float(n_classes), "maxclust")
        return Fitted(ward_tree(X, method, metric), labels, None)

    return fit


def _hdbscan(metric: str) -> Contestant:
    def fit(split: Split, seed: int, effort: Effort) -> Fitted:
        return _of_labels(HDBSCAN(metric=metric, copy=True).fit_predict(split.train))

    return fit


def bernoulli_em(split: Split, seed: int, effort: Effort) -> Fitted:
    """Fit Bernoulli mixtures by EM; their size is that which is best for a fifth of the rows."""
    X = split.train.astype(np.float64)
    cut = len(X) // 5

    def fit(rows: Any, size: int) -> Any:
        random = np.random.default_rng(seed)
        fits = [fit_em(rows, size, 300, random, at_rows=True) for _ in range(3)]
        return max(fits, key=lambda found: found.fit)

    sizes = [size for size in SIZES if size < len(X) - cut]
    best = max(sizes, key=lambda size: fit(X[cut:], size).log_densities(X[:cut]).mean())
    found = fit(X, best)
    return _of_labels(found.labels(X), lambda: float(found.log_densities(split.test).mean()))


def bernoulli_dp(split: Split, seed: int, effort: Effort) -> Fitted:
    """Fit a Dirichlet process mixture of bits, variational."""
    X = split.train.astype(np.float64)
    random = np.random.default_rng(seed)
    size = min(max(SIZES), len(X))
    fits = [fit_dp(X, size, 300, random, at_rows=True) for _ in range(3)]
    found = max(fits, key=lambda one: one.fit)
    return _of_labels(found.labels(X), lambda: float(found.log_densities(split.test).mean()))


def _tree(kind: Any) -> Contestant:
    def fit(split: Split, seed: int, effort: Effort) -> Fitted:
        model = _sampled(kind, seed, effort).fit(split.train)
        return Fitted(model.tree_, model.labels_, lambda: float(model.score(split.test)))

    return fit


def _sampled(kind: Any, seed: int, effort: Effort, **settings: Any) -> Any:
    """Return one of our estimators, in one thread, with a draw after each sweep."""
    return kind(
        burn_in=effort.burn_in, n_draws=effort.n_draws, thin=1, n_chains=2, n_jobs=1,
        random_state=seed, verbose=0, **settings,
    )  # fmt: skip


# -- documents -------------------------------------------------------------------------------------


def _completed(draws: Any, test: Any) -> Callable[[], float]:
    """Return what computes the log probability of a word of the second half of a document."""
    some = draws[:: -(-len(draws) // MOST_COMPLETED)]
    return lambda: -float(np.log(document_completion(some, test).perplexity))


def sklearn_lda(split: Split, seed: int, effort: Effort) -> Fitted:
    """Fit scikit-learn's variational LDA."""
    model = LatentDirichletAllocation(N_TOPICS, max_iter=50, random_state=seed).fit(split.train)
    topics = model.components_ / model.components_.sum(axis=1, keepdims=True)
    draw = DirichletDraw(topics, np.full(N_TOPICS, model.doc_topic_prior_))
    labels = np.argmax(model.transform(split.train), axis=1)
    return _of_labels(labels, _completed([draw], split.test))


def _tomotopy(split: Split, seed: int, effort: Effort, kind: str, **settings: Any) -> Any:
    """Return a trained model of tomotopy: as many sweeps as ours, one worker."""
    import tomotopy

    model = getattr(tomotopy, kind)(seed=seed, **settings)
    X = split.train
    for row in range(X.shape[0]):
        cells = slice(X.indptr[row], X.indptr[row + 1])
        words = np.repeat(X.indices[cells], X.data[cells].astype(int))
        model.add_doc([str(word) for word in words.tolist()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of its own about workers
        model.train(effort.burn_in + effort.n_draws, workers=1)
    return model


def _to_draw(model: Any, n_words: int) -> DirichletDraw:
    """Return topics of tomotopy, whose words are in an order of its own."""
    place = np.array([int(word) for word in model.used_vocabs])
    topics = np.zeros((model.k, n_words))
    for topic in range(model.k):
        topics[topic, place] = model.get_topic_word_dist(topic)
    return DirichletDraw(topics, np.asarray(model.alpha, dtype=np.float64))


def _most_common_topic(model: Any) -> npt.NDArray[Any]:
    return np.array([np.argmax(document.get_topic_dist()) for document in model.docs])


def tomotopy_lda(split: Split, seed: int, effort: Effort) -> Fitted:
    """Fit LDA, its prior optimised, by collapsed Gibbs sampling."""
    model = _tomotopy(split, seed, effort, "LDAModel", k=N_TOPICS)
    draw = _to_draw(model, split.train.shape[1])
    return _of_labels(_most_common_topic(model), _completed([draw], split.test))


def tomotopy_hdp(split: Split, seed: int, effort: Effort) -> Fitted:
    """Fit an HDP, whose number of topics is inferred; it is scored as the LDA that it ends with."""
    model = _tomotopy(split, seed, effort, "HDPModel")
    as_lda, _ = model.convert_to_lda()
    draw = _to_draw(as_lda, split.train.shape[1])
    return _of_labels(_most_common_topic(model), _completed([draw], split.test))


def tomotopy_hlda(split: Split, seed: int, effort: Effort) -> Fitted:
    """Fit hierarchical LDA of depth 3: a document is where the deepest of its words are."""
    model = _tomotopy(split, seed, effort, "HLDAModel", depth=3)
    ends = [max({int(t) for t in document.topics}, key=model.level) for document in model.docs]
    row: dict[int, int] = {}
    parents: list[int] = []

    def place(topic: int) -> int:
        if topic not in row:
            above = -1 if model.level(topic) == 0 else place(int(model.parent_topic(topic)))
            row[topic] = len(parents)
            parents.append(above)
        return row[topic]

    nodes = np.array([place(end) for end in ends])
    return Fitted(Tree(parents, nodes), nodes, None)


def topic_tree(split: Split, seed: int, effort: Effort) -> Fitted:
    """Fit TopicTree."""
    model = _sampled(TopicTree, seed, effort, n_topics=N_TOPICS).fit(split.train)
    return Fitted(model.tree_, model.labels_, _completed(model.topic_draws_, split.test))


def lda(split: Split, seed: int, effort: Effort) -> Fitted:
    """Fit our LDA."""
    model = _sampled(LDA, seed, effort, n_topics=N_TOPICS).fit(split.train)
    labels = np.argmax(model.transform(split.train), axis=1)
    return _of_labels(labels, _completed(model.topic_draws_, split.test))


def multinomial_tree(split: Split, seed: int, effort: Effort) -> Fitted:
    """Fit MultinomialTree: a document is of one node, so completion is a ratio of densities."""
    model = _sampled(MultinomialTree, seed, effort).fit(split.train)

    def score() -> float:
        seen, hidden = halves(split.test, 0)
        log_p = [model.score_samples(X) - log_coefficients(X) for X in (split.test, seen)]
        return float((log_p[0] - log_p[1]).sum() / hidden.sum())

    return Fitted(model.tree_, model.labels_, score)


CONTESTANTS: dict[str, dict[str, Contestant]] = {
    REALS: {
        "**GaussianTree**": _tree(GaussianTree),
        "BayesianGaussianMixture, 30, diagonal": bayesian_mixture,
        "GaussianMixture by BIC, diagonal": mixture_by_bic,
        "GaussianMixture by cross-validation, diagonal or full": mixture_by_validation,
        "Ward": _linkage("ward", "euclidean"),
        "average linkage": _linkage("average", "euclidean"),
        "HDBSCAN": _hdbscan("euclidean"),
    },
    BITS: {
        "**BernoulliTree**": _tree(BernoulliTree),
        "Bernoulli mixture by EM": bernoulli_em,
        "DP Bernoulli mixture, variational": bernoulli_dp,
        "Ward": _linkage("ward", "euclidean"),
        "average linkage, Hamming": _linkage("average", "hamming"),
        "HDBSCAN, Hamming": _hdbscan("hamming"),
    },
    DOCUMENTS: {
        "**TopicTree**": topic_tree,
        "**MultinomialTree**": multinomial_tree,
        "**LDA**": lda,
        "scikit-learn, LDA": sklearn_lda,
        "tomotopy, LDA": tomotopy_lda,
        "tomotopy, HDP": tomotopy_hdp,
        "tomotopy, hLDA": tomotopy_hlda,
    },
}
"""By kind of data. Ours stand out; the first is what others are compared with."""
