"""What a run stores of topics beside draws, and whether what is read from it can be trusted."""

from typing import Any, NamedTuple

from treestick.lanes import padded
from treestick.store import DamagedRun
from treestick.tokens.collapsed import TopicCounts
from treestick.tokens.documents import Documents
from treestick.tokens.gibbs import Concentrations, TopicState


class Vocabulary(NamedTuple):
    """What the draws of a run share."""

    n_words: int


def check_topic_state(state: Any, documents: Documents, concentrations: Concentrations) -> None:
    """Raise if a state that was read is not one of these documents: compiled code trusts it."""
    n_topics = concentrations.alpha.size
    is_right = (
        isinstance(state, TopicState)
        and state.concentrations.alpha.shape == (n_topics,)
        and counts_fit(state.counts, state.topics, documents, n_topics, padded(n_topics))
    )
    if not is_right:
        raise DamagedRun("the state of a chain is not one of these documents and topics")


def counts_fit(
    counts: Any, topics: Any, documents: Documents, n_topics: int, n_columns: int
) -> bool:
    """Return whether counts and topics of tokens have the sizes that these documents need."""
    return bool(
        isinstance(counts, TopicCounts)
        and counts.of_documents.shape == (documents.first.size - 1, n_columns)
        and counts.of_words.shape == (documents.n_words, n_columns)
        and counts.of_topics.shape == (n_columns,)
        and topics.shape in ((0,), documents.token_words.shape)
        and 0 <= topics.min(initial=0) <= topics.max(initial=0) < n_topics
    )
