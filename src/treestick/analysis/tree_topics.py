"""A draw of a tree of documents, as held-out scores see it: new documents in a given tree.

By the urn, a new document stops at a node of the tree or in an unseen subtree below one: a mixture
over components (:mod:`treestick.analysis.components`). In each, the probabilities p of the topics
are those of the node, or, where they are integrated out (nodes without children, unseen nodes),
Dirichlet. So the topics z of a document's tokens have, given its component c,

    multinomial:                  p(z = k | others) ~ p_c[k] * phi[k, w]
    Dirichlet with shapes a_c:    p(z = k | others) ~ (a_c[k] + n_k) * phi[k, w]

and given z the component has probabilities proportional to its weight times that of the counts n of
z. :func:`infer` alternates between the two. :func:`log_probabilities` puts words in one by one, as
in :mod:`treestick.tokens.inference`, with the component summed out::

    p(words) = E prod_i  sum_k phi[k, w_i] sum_c P(c | z before i) E[p[k] | c, z before i]

which is unbiased but for components that are left out as soon as their share is negligible.

Where topics are unbounded, the rest of a measure counts as one more topic with the mean of the
prior, 1 / V for each word.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from treestick import packs
from treestick._jit import compiled, deferred_interrupts
from treestick.analysis.components import Components, draw_parameters, make_components
from treestick.analysis.topic_draws import INFERENCE_BURN_IN, INFERENCE_SWEEPS, ranges
from treestick.lanes import Floats32, drawing_order, make_running
from treestick.moves.state import Floats, Sticks
from treestick.packs import WIDTH
from treestick.random import (
    Key,
    Purpose,
    categorical,
    key_for,
    make_key,
    open_stream,
    reopen,
)
from treestick.store import DamagedRun
from treestick.tokens.collapsed import NOWHERE
from treestick.tokens.documents import PER_BLOCK, Documents, fill_uniforms, make_documents
from treestick.tokens.inference import by_word, draw_topic
from treestick.tree.table import NodeTable

COMPONENT_EVERY = 5
"""Sweeps over the tokens of a new document until its component is drawn again."""
LEFT_OUT = 1e-12
"""Share of a component that is left out while words are put in."""
CHECK_EVERY = 32
"""Words after which components are looked through for those to be left out."""
SMALLEST = 1e-300
"""Proportions and shapes are taken as this at least."""
FARTHEST = -700.0
"""Logarithm of a share, against the largest, that is taken as 0."""
_ONE = np.float32(1.0)


class Places(NamedTuple):
    """Where a new document can be: components, and the law of its topic proportions there."""

    log_weight: Floats
    is_given: npt.NDArray[np.bool_]
    """Whether the proportions are known, or else Dirichlet."""
    shapes: Floats
    """Of each component: proportions, or the shapes of the Dirichlet law; a row each."""
    total: Floats
    """Sums of the rows."""
    given: Floats
    """1 where the proportions are known, 0 elsewhere."""
    by_topic: Floats
    """A row for each topic and a last one for their total: shapes of all components,"""
    of_one: Floats
    """log a - log Gamma(a + 1) of these, or, where they are given, the logarithm alone."""


@compiled
def make_places(components: Components) -> Places:
    """Return the components of a mixture of multinomials (:mod:`treestick.models.multinomial`)."""
    n, n_topics = components.prepared.shape[0], components.prepared.shape[1] - 1
    is_given, shapes = np.empty(n, dtype=np.bool_), np.empty((n, n_topics))
    for c in range(n):
        is_given[c] = components.prepared[c, 0] == 0.0
        for k in range(n_topics):
            shapes[c, k] = math.exp(components.prepared[c, 1 + k])
    return places_of(components.log_weight, is_given, shapes)


@compiled
def places_of(log_weight: Floats, is_given: npt.NDArray[np.bool_], shapes: Floats) -> Places:
    """Return components with these laws, and what weighing them needs."""
    n, n_topics = shapes.shape
    total = np.zeros(n)
    by_topic, of_one = np.empty((n_topics + 1, n)), np.zeros((n_topics + 1, n))
    given = np.zeros(n)
    for c in range(n):
        given[c] = 1.0 if is_given[c] else 0.0
        for k in range(n_topics):
            total[c] += shapes[c, k]
        for k in range(n_topics + 1):
            a = max(shapes[c, k] if k < n_topics else total[c], SMALLEST)
            by_topic[k, c] = a
            if not is_given[c]:
                of_one[k, c] = math.log(a) - math.lgamma(a + 1.0)
            elif k < n_topics:
                of_one[k, c] = math.log(a)
    return Places(log_weight, is_given, shapes, total, given, by_topic, of_one)


@compiled
def _weigh(places: Places, n_k: Floats32, n_tokens: int, p: Floats) -> None:
    """Write the probabilities of the components given counts of topics, up to a factor.

    With n > 0 of a topic, a component that is given has the factor p**n for it, others have
    Gamma(a + n) / Gamma(a); the total divides by its own.
    """
    n_topics = places.shapes.shape[1]
    p[:] = places.log_weight
    for k in range(n_topics + 1):
        n, sign = (np.float64(n_k[k]), 1.0) if k < n_topics else (np.float64(n_tokens), -1.0)
        if n == 0.0:
            continue
        shapes, of_one = places.by_topic[k], places.of_one[k]
        for c in range(0, p.size, WIDTH):
            one = packs.load(of_one, c, 0.0)
            rising = one + packs.log_gamma(packs.load(shapes, c, 1.0) + n)
            factor = packs.where_less(0.0, packs.load(places.given, c, 0.0), n * one, rising)
            packs.store(p, c, packs.load(p, c, 0.0) + sign * factor)
    largest = p.max()
    for c in range(0, p.size, WIDTH):
        below = packs.load(p, c, 0.0) - largest
        packs.store(p, c, packs.where_less(below, FARTHEST, 0.0, packs.exp(below)))


@compiled
def infer(
    key: Key,
    documents: Documents,
    places: Places,
    n_nodes: int,
    phi: Floats32,
    burn_in: int,
    n_sweeps: int,
    first: int,
    last: int,
    proportions: Floats,
    nodes: Floats,
) -> None:
    """Write mean proportions and the probabilities of nodes, for documents ``first`` to ``last``.

    ``phi`` has a row for each word, padded. ``nodes`` has a column for each node and a last one for
    a new one. A chain begins with topics that only the document itself decides.
    """
    n_topics, width, rows = places.shapes.shape[1], phi.shape[1], phi.reshape(-1)
    running, order = make_running(width), drawing_order(width)
    factor, n_k = np.zeros(width, dtype=np.float32), np.zeros(width, dtype=np.float32)
    p = np.empty(places.log_weight.size)
    stream = open_stream(key)
    for d in range(first, last):
        n_tokens = documents.first_token[d + 1] - documents.first_token[d]
        uniforms = np.empty(n_tokens + PER_BLOCK, dtype=np.float32)
        topics = np.full(n_tokens, NOWHERE, dtype=np.int64)
        proportions[d], nodes[d] = 0.0, 0.0
        n_k[:] = 0.0
        reopen(stream, key_for(key, Purpose.NEW_DOCUMENT, 0))
        component, n_weighed = NOWHERE, 0
        for sweep in range(burn_in + n_sweeps):
            if sweep >= COMPONENT_EVERY and sweep % COMPONENT_EVERY == 0:
                _weigh(places, n_k, n_tokens, p)
                component = categorical(stream, p)
                if sweep >= burn_in:
                    n_weighed += 1
                    total = p.sum()
                    for c in range(p.size):
                        nodes[d, min(c, n_nodes)] += p[c] / total
            is_given = component != NOWHERE and places.is_given[component]
            for k in range(n_topics):
                own = 1.0 if component == NOWHERE else places.shapes[component, k]
                factor[k] = own + (0.0 if is_given else n_k[k])
            fill_uniforms(key, Purpose.TOKENS, sweep, n_tokens, uniforms)
            token = 0
            for cell in range(documents.first[d], documents.first[d + 1]):
                row = np.int64(documents.words[cell]) * width
                for _ in range(documents.counts[cell]):
                    old = topics[token]
                    counted = NOWHERE if is_given else old
                    k, _ = draw_topic(factor, rows, row, counted, uniforms[token], running, order)
                    if k != old:
                        topics[token] = k
                        n_k[k] += _ONE
                        if not is_given:
                            factor[k] += _ONE
                        if old != NOWHERE:
                            n_k[old] -= _ONE
                            if not is_given:
                                factor[old] -= _ONE
                    token += 1
            if sweep >= burn_in:
                total = 1.0 if is_given else places.total[component] + n_tokens
                for k in range(n_topics):
                    share = places.shapes[component, k] + (0.0 if is_given else n_k[k])
                    proportions[d, k] += share / (total * n_sweeps)
        nodes[d] /= n_weighed


@compiled
def log_probabilities(
    key: Key,
    documents: Documents,
    places: Places,
    phi: Floats32,
    first: int,
    last: int,
    out: Floats,
) -> None:
    """Write an estimate of log p(words) for the documents from ``first`` to before ``last``.

    Words are sequences: no multinomial coefficient.
    """
    n_topics, width, rows = places.shapes.shape[1], phi.shape[1], phi.reshape(-1)
    running, order = make_running(width), drawing_order(width)
    factor = np.zeros(width, dtype=np.float32)
    n_k, mean = np.zeros(n_topics), np.empty(n_topics)
    share = np.empty(places.log_weight.size)
    active = np.empty(share.size, dtype=np.int64)
    for d in range(first, last):
        n_tokens = documents.first_token[d + 1] - documents.first_token[d]
        uniforms = np.empty(n_tokens + PER_BLOCK, dtype=np.float32)
        fill_uniforms(key, Purpose.TOKENS, 0, n_tokens, uniforms)
        n_k[:] = 0.0
        n_active, total = share.size, 0.0
        for c in range(share.size):
            active[c] = c
            share[c] = math.exp(places.log_weight[c])
            total += share[c]
        for c in range(share.size):
            share[c] /= total
        token, found = 0, 0.0
        for cell in range(documents.first[d], documents.first[d + 1]):
            row = np.int64(documents.words[cell]) * width
            for _ in range(documents.counts[cell]):
                mean[:] = 0.0
                for i in range(n_active):
                    c = active[i]
                    if places.is_given[c]:
                        for k in range(n_topics):
                            mean[k] += share[c] * places.shapes[c, k]
                    else:
                        scale = share[c] / (places.total[c] + token)
                        for k in range(n_topics):
                            mean[k] += scale * (places.shapes[c, k] + n_k[k])
                for k in range(n_topics):
                    factor[k] = mean[k]
                k, weight = draw_topic(factor, rows, row, NOWHERE, uniforms[token], running, order)
                found += math.log(np.float64(weight))
                kept, total = 0, 0.0
                for i in range(n_active):
                    c = active[i]
                    if places.is_given[c]:
                        share[c] *= places.shapes[c, k] / mean[k]
                    else:
                        own = (places.shapes[c, k] + n_k[k]) / (places.total[c] + token)
                        share[c] *= own / mean[k]
                n_k[k] += 1.0
                token += 1
                if token % CHECK_EVERY == 0:
                    for i in range(n_active):
                        if share[active[i]] > LEFT_OUT:
                            active[kept] = active[i]
                            total += share[active[i]]
                            kept += 1
                    n_active = kept
                    for i in range(n_active):
                        share[active[i]] /= total
        out[d] = found


@compiled
def _draw_proportions(
    key: Key,
    model: Any,
    table: NodeTable,
    theta: Floats,
    statistics: Floats,
    sticks: Sticks,
    n: int,
) -> Floats:
    """Return the proportions of ``n`` new documents; that of i is a function of the key and i."""
    out = np.empty((n, theta.shape[1]))
    stream = open_stream(key)
    for i in range(n):
        reopen(stream, key_for(key, Purpose.PSEUDO_DOCUMENT, i))
        draw_parameters(stream, model, table, theta, statistics, sticks, out[i])
        for k in range(out.shape[1]):
            out[i, k] = math.exp(out[i, k])
    return out


class TreeDraw:
    """A posterior draw of a tree of documents.

    Parameters
    ----------
    mixture : Mixture
        What prediction needs of a draw; ``atoms`` are the topics, a row each.
    number : int
        Of the draw: what has to be drawn for its unseen nodes is a function of it.
    """

    def __init__(self, mixture: Any, number: int) -> None:
        self._mixture, self._number = mixture, number
        topics = mixture.atoms / mixture.atoms.sum(axis=1, keepdims=True)  # stored as float32
        if mixture.model.is_measure:
            topics = np.vstack((topics, np.full(topics.shape[1], 1.0 / topics.shape[1])))
        if topics.shape[0] != mixture.theta.shape[1]:  # compiled code does not check
            raise DamagedRun(f"draw {number}: {topics.shape[0]} topics at nodes with others")
        self.topics: Floats = topics
        self._phi: Floats32 | None = None
        self._places: Places | None = None

    def draw_proportions(self, key: Key, n: int) -> Floats:
        """Return proportions of ``n`` pseudo-documents."""
        table, theta, statistics, model, sticks, _ = self._mixture
        with deferred_interrupts():
            return _draw_proportions(key, model, table, theta, statistics, sticks, n)

    def infer_proportions(self, key: Key, counts: sparse.csr_array) -> Floats:
        """Return posterior means of proportions, given this tree and its topics."""
        return self.infer(key, counts)[0]

    def infer(self, key: Key, counts: sparse.csr_array) -> tuple[Floats, Floats]:
        """Return mean proportions, and the probabilities of the nodes and of a new one."""
        documents, n_nodes = make_documents(counts), self._mixture.theta.shape[0]
        proportions = np.empty((counts.shape[0], self.topics.shape[0]))
        nodes = np.empty((counts.shape[0], n_nodes + 1))
        places, phi = self._prepared()
        for first, last in ranges(documents.first_token):
            with deferred_interrupts():
                infer(
                    key, documents, places, n_nodes, phi, INFERENCE_BURN_IN, INFERENCE_SWEEPS,
                    first, last, proportions, nodes,
                )  # fmt: skip
        return proportions, nodes

    def log_probabilities(self, key: Key, counts: sparse.csr_array) -> Floats:
        """Return unbiased estimates of p(words of a document), as logarithms."""
        documents, out = make_documents(counts), np.empty(counts.shape[0])
        places, phi = self._prepared()
        for first, last in ranges(documents.first_token):
            with deferred_interrupts():
                log_probabilities(key, documents, places, phi, first, last, out)
        return out

    def _prepared(self) -> tuple[Places, Floats32]:
        if self._places is None or self._phi is None:
            table, theta, statistics, model, sticks, _ = self._mixture
            with deferred_interrupts():
                key = make_key(0, chain=self._number)
                made = make_components(key, model, table, theta, statistics, sticks)
                self._places = make_places(made)
            self._phi = by_word(self.topics)
        return self._places, self._phi
