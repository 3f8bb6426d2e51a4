"""Gibbs move: the topic of each token in turn, topics integrated out, two documents at a time.

The move of :mod:`treestick.tokens.collapsed`, with the tokens in another order. Documents are cut
in two halves with about as many tokens. Two readers go through one half each and take turns: a
token of the first half, one of the second, the next of the first, and so on. What is left when one
has come to its end is moved in turn. Any fixed order of the tokens leaves the posterior invariant.

Why. A draw is a long chain of operations, each of which waits for the one before it, and the next
token of a document waits for the end of the chain. A token of another document need not: all that
it sees of the first is that two of the n_k have changed by 1. So both draws are made at once, the
second as if the first token had stayed where it was, and then it is made sure that this makes no
difference: every token is drawn as if its turn came after all those before it.

**When it makes none.** Let the first token go from topic i to j, N[k] = n_k + V beta. Of the
second's weights w[k] two change: w[i] by the factor N[i] / (N[i] - 1), w[j] by N[j] / (N[j] + 1);
if its own topic, which is left out of the counts, is one of them, by (N[i] - 1) / (N[i] - 2) or
(N[j] - 1) / N[j]. With x = 1 / N[i] + 1 / N[j], N after the change, none of these factors is
further from 1 than 1.5 x, as long as x is at most 1/3. So cumulative sums, the total, and the share
u * total at which the draw falls each change by at most 1.5 x * total. A draw further than 3 x *
total from the cumulative sums next to it, and rounding besides, is the same with the new weights;
any other one is made again, and all are where x > 1/3. If both tokens are of one word, its counts
change too, and the draw is made again. With twenty thousand tokens of a topic that is one token in
400.
"""

import numpy as np

from treestick._jit import compiled, inlined
from treestick.lanes import (
    LANES,
    Floats32,
    add,
    count_at_most,
    drawn_entry,
    fetch,
    fill,
    load,
    offsets,
    replaced,
    store,
)
from treestick.random import Key
from treestick.tokens.collapsed import (
    AHEAD,
    NOWHERE,
    Desk,
    Drawn,
    Index,
    TopicCounts,
    Topics,
    change_topic,
    draw_topic,
    lay_out,
    longest,
    make_desk,
    prepare_topics,
    weigh,
    weight_without,
)
from treestick.tokens.collapsed import move_tokens as move_in_turn
from treestick.tokens.documents import Documents, Integers, Numbers

ROUNDING = np.float32(2.0**-22)
"""Of the total, for each addition on the way to a cumulative sum: one a block, and ten more."""
_LANES = np.uint64(LANES)


@inlined
def draw_two(
    topics: Topics,
    desk_1: Desk,
    row_1: int,
    old_1: Index,
    u_1: np.float32,
    desk_2: Desk,
    row_2: int,
    old_2: Index,
    u_2: np.float32,
) -> tuple[Drawn, Drawn]:
    """Do what ``draw_topic`` does for two tokens, step by step for both."""
    width = topics.inverse.size
    without_1 = weight_without(topics, desk_1, row_1, old_1)
    without_2 = weight_without(topics, desk_2, row_2, old_2)
    sums_1 = sums_2 = fill(np.float32(0.0))
    for block in range(0, width, LANES):
        weights_1 = weigh(topics, desk_1, row_1, block)
        weights_2 = weigh(topics, desk_2, row_2, block)
        sums_1 = add(sums_1, replaced(weights_1, old_1 - block, without_1))
        sums_2 = add(sums_2, replaced(weights_2, old_2 - block, without_2))
        store(desk_1.running, block + LANES, sums_1)
        store(desk_2.running, block + LANES, sums_2)
    before_1, total_1 = offsets(sums_1)
    before_2, total_2 = offsets(sums_2)
    limit_1, limit_2 = u_1 * total_1, u_2 * total_2
    place_1 = place_2 = 0
    for block in range(LANES, width + LANES, LANES):
        place_1 += count_at_most(add(before_1, load(desk_1.running, block)), limit_1)
        place_2 += count_at_most(add(before_2, load(desk_2.running, block)), limit_2)
    return Drawn(place_1, limit_1, total_1, before_1), Drawn(place_2, limit_2, total_2, before_2)


@inlined
def distance(topics: Topics, desk: Desk, drawn: Drawn, new: Index, before: Floats32) -> np.float32:
    """Return how far the draw fell from the cumulative sums next to it.

    ``before`` is room for a vector, and is overwritten.
    """
    store(before, 0, drawn.before)
    behind = before[np.uint64(new) % _LANES] + desk.running[np.uint64(new + LANES)] - drawn.limit
    if drawn.place == 0:
        return behind
    last = topics.order[np.uint64(drawn.place - 1)]
    ahead = drawn.limit - before[np.uint64(last) % _LANES] - desk.running[np.uint64(last + LANES)]
    return min(behind, ahead)


@inlined
def reach(topics: Topics, old: Index, new: Index) -> np.float32:
    """Return how far from the edge draws stay the same, of the total, after this change: 3 x."""
    x = topics.inverse[np.uint64(old)] + topics.inverse[np.uint64(new)]
    return np.float32(3.0) * x


@compiled
def move_tokens(
    key: Key,
    documents: Documents,
    weights: Floats32,
    row_of: Integers,
    s: Floats32,
    beta: float,
    topics: Numbers,
    counts: TopicCounts,
) -> int:
    """Redraw the topic of each token; ``topics`` and ``counts`` are overwritten.

    Return how many draws were made again.
    """
    edges, words, width = documents.first_token, documents.token_words, counts.of_words.shape[1]
    n_documents = edges.size - 1
    middle = cut_in_half(documents)
    shared, room = prepare_topics(counts, documents.n_words, beta), np.empty(LANES, np.float32)
    n_longest = longest(documents, 0, n_documents)
    rounding = ROUNDING * np.float32(width // LANES + 10)
    desk_1, desk_2 = make_desk(counts, weights, n_longest), make_desk(counts, weights, n_longest)
    # Of each reader: the next document, the next token, and where the document at hand begins and
    # ends.
    d_1, token_1, start_1, end_1 = 0, edges[0], edges[0], edges[0]
    d_2, token_2, start_2, end_2 = middle, edges[middle], edges[middle], edges[middle]
    n_again = 0
    while True:
        while token_1 == end_1 and d_1 < middle:
            desk_1 = lay_out(key, desk_1, documents, d_1, weights[row_of[d_1]], s[d_1], counts)
            start_1, end_1 = edges[d_1], edges[d_1 + 1]
            d_1 += 1
        while token_2 == end_2 and d_2 < n_documents:
            desk_2 = lay_out(key, desk_2, documents, d_2, weights[row_of[d_2]], s[d_2], counts)
            start_2, end_2 = edges[d_2], edges[d_2 + 1]
            d_2 += 1
        n_steps = min(end_1 - token_1, end_2 - token_2)
        if n_steps == 0:
            break
        for _ in range(n_steps):
            # Unsigned indices: compiled code need not look for negative ones.
            at_1, at_2 = np.uint64(token_1), np.uint64(token_2)
            row_1, row_2 = np.int64(words[at_1]) * width, np.int64(words[at_2]) * width
            old_1, old_2 = np.int64(topics[at_1]), np.int64(topics[at_2])
            u_1 = desk_1.uniforms[np.uint64(token_1 - start_1)]
            u_2 = desk_2.uniforms[np.uint64(token_2 - start_2)]
            if token_2 + AHEAD < words.size:  # the first reader's tokens come before
                soon_1 = np.int64(words[np.uint64(token_1 + AHEAD)]) * width
                soon_2 = np.int64(words[np.uint64(token_2 + AHEAD)]) * width
                for block in range(0, width, LANES):
                    fetch(shared.of_words, soon_1 + block)
                    fetch(shared.of_words, soon_2 + block)
            drawn_1, drawn_2 = draw_two(
                shared, desk_1, row_1, old_1, u_1, desk_2, row_2, old_2, u_2
            )
            new_1 = drawn_entry(desk_1.running, shared.order, drawn_1.place)
            new_2 = drawn_entry(desk_2.running, shared.order, drawn_2.place)
            far, margin = distance(shared, desk_2, drawn_2, new_2, room), rounding
            if new_1 != old_1:
                topics[at_1] = new_1
                change_topic(shared, desk_1, row_1, old_1, new_1)
                margin += reach(shared, old_1, new_1)
            if far <= margin * drawn_2.total or row_1 == row_2:
                drawn_2 = draw_topic(shared, desk_2, row_2, old_2, u_2)
                new_2 = drawn_entry(desk_2.running, shared.order, drawn_2.place)
                n_again += 1
            if new_2 != old_2:
                topics[at_2] = new_2
                change_topic(shared, desk_2, row_2, old_2, new_2)
            token_1 += 1
            token_2 += 1
    for d, last, token in ((d_1, middle, token_1), (d_2, n_documents, token_2)):
        move_in_turn(
            key, documents, weights, row_of, s, beta, topics, counts, max(d - 1, 0), last, NOWHERE,
            token,
        )  # fmt: skip
    return n_again


@compiled
def cut_in_half(documents: Documents) -> int:
    """Return the first document of the second half, by tokens."""
    edges = documents.first_token
    half = edges[-1] / 2.0
    middle = np.searchsorted(edges, half)
    if middle > 0 and half - edges[middle - 1] < edges[middle] - half:
        middle -= 1
    return middle
