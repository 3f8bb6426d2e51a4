"""Topic models compared on held-out documents, fold by fold."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from treestick.analysis.heldout import (
    document_completion,
    empirical_likelihood,
    make_folds,
    npmi_coherence,
)
from treestick.analysis.topic_draws import TopicDraw, laplace_multinomial
from treestick.inputs import check_whole_number
from treestick.io import Corpus

TOP_WORDS = 10
TRAINING_SHARE = 0.7


class Scores(NamedTuple):
    """How well draws of topics predict documents."""

    likelihood: float
    """Perplexity by empirical likelihood,"""
    likelihood_error: float
    """its Monte Carlo error,"""
    n_effective: float
    """and on how many pseudo-documents it hangs, for the median document."""
    completion: float
    """Perplexity by document completion,"""
    completion_error: float


class Compared(NamedTuple):
    """How one model did on one fold."""

    fold: int
    model: str
    scores: Scores
    coherence: float
    """Mean NPMI of the topics' top words in the training documents."""


HEAD = f"{'fold':>4}  {'model':22}{'likelihood':>18}{'effective':>12}{'completion':>18}{'NPMI':>8}"


def to_line(row: Compared) -> str:
    """Return scores as a row under ``HEAD``; what is not known is left out."""
    scores = row.scores

    def with_error(value: float, error: float) -> str:
        return f"{value:.1f}" + (f" +- {error:.1f}" if np.isfinite(error) else "")

    return (
        f"{row.fold:4d}  {row.model:22}"
        f"{with_error(scores.likelihood, scores.likelihood_error):>18}"
        f"{scores.n_effective:12.1f}"
        f"{with_error(scores.completion, scores.completion_error):>18}"
        + (f"{row.coherence:8.3f}" if np.isfinite(row.coherence) else "")
    )


def compare(
    corpus: Corpus,
    models: Mapping[str, Any],
    *,
    n_train: int | None = None,
    n_folds: int = 1,
    n_pseudo: int = 100_000,
    seed: int = 0,
) -> Iterator[Compared]:
    """Yield scores of the multinomial and of other models, on each fold.

    Parameters
    ----------
    corpus
        All documents.
    models
        Estimators of topics (:class:`~treestick.LDA`, :class:`~treestick.TopicTree`), by name.
    n_train
        Documents to fit to; the others are held out. 70 % if not given.
    n_folds, n_pseudo, seed
        How many folds; pseudo-documents of the empirical likelihood; what is drawn.
    """
    counts = corpus.counts
    if n_train is None:
        n_train = max(1, int(TRAINING_SHARE * counts.shape[0]))
    folds = make_folds(counts.shape[0], n_train, n_folds, seed)
    check_whole_number("n_pseudo", n_pseudo, 1)
    for model in models.values():
        model.check_parameters()  # all of them, before the first takes its time
    for fold, (train, test) in enumerate(folds):
        baseline: list[TopicDraw] = [laplace_multinomial(counts[train])]
        yield Compared(fold, "multinomial", score(baseline, counts[test], 1, seed), np.nan)
        for name, model in models.items():
            model.fit(counts[train])
            tops = np.argsort(-model.components_, axis=1, kind="stable")[:, :TOP_WORDS]
            coherence = float(npmi_coherence(tops, counts[train]).mean())
            found = score(model.topic_draws_, counts[test], n_pseudo, seed)
            yield Compared(fold, name, found, coherence)


def score(draws: Sequence[TopicDraw], counts: Any, n_pseudo: int, seed: int) -> Scores:
    """Return both perplexities of held-out documents."""
    whole = empirical_likelihood(draws, counts, n_pseudo, seed)
    half = document_completion(draws, counts, seed)
    return Scores(
        whole.perplexity,
        whole.error,
        float(np.median(whole.n_effective)),
        half.perplexity,
        half.error,
    )
