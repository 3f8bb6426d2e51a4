"""A node model for documents whose tokens' topics are summed out, topics given.

A document at a node with the probabilities p of the topics has the probability

    f(words | p, phi) = prod_w  (sum_k p[k] * phi[k, w]) ** n_w.

Nodes are those of another model, ``inner``, which says how p goes down the tree; this one only has
what moving documents between nodes takes. What is prepared of a node are the logarithms of the
sums, one for each word, so a document costs as much as its different words, whatever their topics.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treestick import contract
from treestick._jit import compiled
from treestick.diffusions.dirichlet import LEAST
from treestick.families.multinomial import Counts
from treestick.wide import ABREAST

Floats = npt.NDArray[np.float64]


class Mixed(NamedTuple):
    """A model of topic probabilities, and the topics."""

    inner: Any
    phi: Floats
    """Probabilities of the words, a row for each topic."""


@compiled
def widths(model: Mixed) -> tuple[int, int, int]:
    """Theta: as within. Prepared: a logarithm for each word. No statistics."""
    return contract.widths(model.inner)[0], model.phi.shape[1], 0


@compiled
def draw_child(stream: Any, model: Mixed, parent: Floats, theta: Floats) -> None:
    """Draw the log probabilities of a child."""
    contract.draw_child(stream, model.inner, parent, theta)


@compiled
def prepare(model: Mixed, theta: Floats, prepared: Floats) -> None:
    """Write the logarithms of the words' probabilities."""
    prepared[:] = 0.0
    for k in range(model.phi.shape[0]):
        p, row = math.exp(theta[k]), model.phi[k]
        for w in range(prepared.size):
            prepared[w] += p * row[w]
    for w in range(prepared.size):
        prepared[w] = math.log(prepared[w]) if prepared[w] > 0.0 else LEAST


@compiled
def log_likelihood(model: Mixed, data: Counts, n: int, prepared: Floats) -> float:
    """Return the log probability of the words of document ``n``."""
    total = data.log_coefficient[n]
    for e in range(data.start[n], data.start[n] + data.n_entries[n]):
        total += data.counts[e] * prepared[data.outcomes[e]]
    return total


@compiled
def log_likelihoods(
    model: Mixed, data: Counts, first: int, last: int, prepared: Floats, out: Floats
) -> None:
    """Write the log probabilities of the words of documents at several nodes."""
    for n in range(first, last):
        logs = out[n - first]
        for k in range(ABREAST):
            logs[k] = data.log_coefficient[n]
        for e in range(data.start[n], data.start[n] + data.n_entries[n]):
            count, row = data.counts[e], data.outcomes[e]
            for k in range(ABREAST):
                logs[k] += count * prepared[row, k]


contract.register(
    contract.partial_model(
        "mixed",
        Mixed,
        widths=widths,
        draw_child=draw_child,
        prepare=prepare,
        log_likelihood=log_likelihood,
        log_likelihoods=log_likelihoods,
    )
)
