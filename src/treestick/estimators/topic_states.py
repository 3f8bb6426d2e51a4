"""What a run stores of topics beside draws, and whether what is read from it can be trusted."""

from typing import Any, NamedTuple

from treestick.lanes import padded
from treestick.store import DamagedRun
from treestick.tokens.documents import Documents
from treestick.tokens.gibbs import Concentrations, TopicState


class Vocabulary(NamedTuple):
    """What the draws of a run share."""

    n_words: int


def check_topic_state(state: Any, documents: Documents, concentrations: Concentrations) -> None:
    """Raise if a state that was read is not one of these documents: compiled code trusts it."""
    n_topics, n_documents = concentrations.alpha.size, documents.first.size - 1
    room = padded(n_topics)
    is_right = (
        isinstance(state, TopicState)
        and state.concentrations.alpha.shape == (n_topics,)
        and state.counts.of_documents.shape == (n_documents, room)
        and state.counts.of_words.shape == (documents.n_words, room)
        and state.counts.of_topics.shape == (room,)
        and state.topics.size in (0, documents.token_words.size)
        and 0 <= state.topics.min(initial=0) <= state.topics.max(initial=0) < n_topics
    )
    if not is_right:
        raise DamagedRun("the state of a chain is not one of these documents and topics")
