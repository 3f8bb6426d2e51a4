"""Topic models compared on held-out documents, fold by fold."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from treestick.analysis.heldout import (
    document_completion,
    empirical_likelihood,
    make_folds,
    npmi_coherence,
)
from treestick.analysis.topic_draws import TopicDraw, laplace_multinomial
from treestick.estimators import LDA
from treestick.inputs import check_whole_number
from treestick.io import Corpus

TOP_WORDS = 10
TRAINING_SHARE = 0.7


class Scores(NamedTuple):
    """How one model did on one fold."""

    fold: int
    model: str
    likelihood: float
    likelihood_error: float
    n_effective: float
    """Of pseudo-documents, for the median document."""
    completion: float
    completion_error: float
    coherence: float
    """Mean NPMI of the topics' top words in the training documents."""


HEAD = f"{'fold':>4}  {'model':18}{'likelihood':>18}{'effective':>12}{'completion':>18}{'NPMI':>8}"


def to_line(scores: Scores) -> str:
    """Return scores as a row under ``HEAD``; what is not known is left out."""

    def with_error(value: float, error: float) -> str:
        return f"{value:.1f}" + (f" +- {error:.1f}" if np.isfinite(error) else "")

    return (
        f"{scores.fold:4d}  {scores.model:18}"
        f"{with_error(scores.likelihood, scores.likelihood_error):>18}"
        f"{scores.n_effective:12.1f}"
        f"{with_error(scores.completion, scores.completion_error):>18}"
        + (f"{scores.coherence:8.3f}" if np.isfinite(scores.coherence) else "")
    )


def compare(
    corpus: Corpus,
    topics: Sequence[int],
    *,
    n_train: int | None = None,
    n_folds: int = 1,
    n_pseudo: int = 100_000,
    seed: int = 0,
    **options: Any,
) -> Iterator[Scores]:
    """Yield scores of the multinomial and of LDA with each number of topics, on each fold.

    Parameters
    ----------
    corpus
        All documents.
    topics
        Numbers of topics.
    n_train
        Documents to fit to; the others are held out. 70 % if not given.
    n_folds, n_pseudo, seed
        How many folds; pseudo-documents of the empirical likelihood; what is drawn.
    options
        Of :class:`~treestick.LDA`.
    """
    counts = corpus.counts
    if n_train is None:
        n_train = max(1, int(TRAINING_SHARE * counts.shape[0]))
    folds = make_folds(counts.shape[0], n_train, n_folds, seed)
    check_whole_number("n_pseudo", n_pseudo, 1)
    models = [LDA(n_topics, random_state=seed, **options) for n_topics in topics]
    for model in models:
        model.check_parameters()  # all of them, before the first takes its time
    for fold, (train, test) in enumerate(folds):
        baseline: list[TopicDraw] = [laplace_multinomial(counts[train])]
        yield _scores(fold, "multinomial", baseline, counts[test], 1, seed, np.nan)
        for model in models:
            model.fit(counts[train])
            tops = np.stack([model.top_words(k, TOP_WORDS) for k in range(model.n_topics)])
            coherence = float(npmi_coherence(tops, counts[train]).mean())
            name = f"LDA, {model.n_topics} topics"
            yield _scores(fold, name, model.draws_, counts[test], n_pseudo, seed, coherence)


def _scores(
    fold: int, name: str, draws: Any, counts: Any, n_pseudo: int, seed: int, coherence: float
) -> Scores:
    whole = empirical_likelihood(draws, counts, n_pseudo, seed)
    half = document_completion(draws, counts, seed)
    return Scores(
        fold,
        name,
        whole.perplexity,
        whole.error,
        float(np.median(whole.n_effective)),
        half.perplexity,
        half.error,
        coherence,
    )
