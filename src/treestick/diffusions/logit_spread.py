"""Move on each diffusion together with the logits of small nodes, whose steps are held instead.

A node with few data, or none, knows little of its logit beyond that it is a step away from its
parent's. Given all logits, though, a diffusion is known as well as if each of these steps had been
seen: small nodes hold it where it is, and are drawn with it where it is. So it hardly moves, and
with it the number of small nodes. Here their steps in units of the diffusion are held, and their
logits follow (a non-centred parameterisation; Papaspiliopoulos, Roberts & Sköld 2007):

    theta[k] = theta[parent] + sqrt(v) e[k]        for the small nodes k, called S.

In the variables (v, e of S, theta of all others), where Jacobian and density of e cancel,

    log p(w) = w + sum over k not in S of  -w/2 - (theta[k] - theta[parent])**2 / (2 v)
                 + sum over k in S of  log f(data of k | theta[k])  + constant,      w = log v,

in which the logits of S depend on v. The root is not in S, and has no such term. S is a function of
tree and counts, which stay. A slice move in w, from the bounds inwards as in
:func:`treestick.diffusions.gaussian.draw_variance`; eight dimensions at once, which are independent
given all else. O(nodes x dimensions) for each try.

Of log(1 + e**t) = max(t, 0) + log(1 + e**-|t|), to be summed over data, the last are taken together
as the logarithm of a product.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from treestick._jit import compiled
from treestick.packs import (
    WIDTH,
    any_less,
    exp,
    fill,
    larger,
    load,
    log,
    size,
    smaller,
    store,
    where_less,
)
from treestick.random import Key, Purpose, Stream, exponential, key_for, open_stream, uniform
from treestick.tree.table import NodeTable

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

MOST_IN_SMALL = 8
"""Data of a node in S. About as many say as much of a logit as a diffusion of 1/2 does."""
MOST_FACTORS = 1000 - MOST_IN_SMALL
"""Before their product is turned into its logarithm: far from where floats end."""


@compiled
def spread_move(key: Key, model: Any, table: NodeTable, statistics: Floats, theta: Floats) -> None:
    """Overwrite ``model.diffusion``, and the logits of small nodes."""
    n_nodes, n_dimensions = theta.shape
    is_small = table.n_here[:n_nodes] <= MOST_IN_SMALL
    is_small[0] = False
    places, steps = np.empty((n_nodes, WIDTH)), np.empty((n_nodes, WIDTH))
    sums = np.empty((n_nodes, WIDTH))  # nearer to each other than in ``statistics``
    lanes = np.empty(WIDTH)
    for d in range(0, n_dimensions, WIDTH):
        low, high = load(model.diffusion_low, d, 1.0), load(model.diffusion_high, d, 1.0)
        if not any_less(low, high):
            continue
        for node in range(n_nodes):
            place = load(theta[node], d, 0.0)
            store(places[node], 0, place)
            store(sums[node], 0, load(statistics[node], d, 0.0))
            if node > 0:
                store(steps[node], 0, place - load(theta[table.parent[node]], d, 0.0))
        stream = open_stream(key_for(key, Purpose.SPREAD, d))
        now = log(load(model.diffusion, d, 1.0))
        level = _log_target(table, sums, is_small, places, steps, now, now)
        for lane in range(WIDTH):
            lanes[lane] = exponential(stream)
        level = level - load(lanes, 0, 0.0)
        left, right = log(low), log(high)
        while True:
            candidate = left + (right - left) * _uniforms(stream, lanes)
            found = _log_target(table, sums, is_small, places, steps, now, candidate)
            if not any_less(found, level):
                break
            # Lanes that are done wait for the others; one whose slice is narrower than the floats
            # around ``now`` stays there.
            shrunk_left = where_less(candidate, now, candidate, left)
            shrunk_right = where_less(candidate, now, right, candidate)
            is_left = where_less(shrunk_left, shrunk_right, shrunk_left, now)
            is_right = where_less(shrunk_left, shrunk_right, shrunk_right, now)
            left = where_less(found, level, is_left, candidate)
            right = where_less(found, level, is_right, candidate)
        store(model.diffusion, d, smaller(larger(exp(candidate), low), high))
        for node in range(n_nodes):
            if is_small[node]:
                store(theta[node], d, load(places[node], 0, 0.0))


@compiled
def _uniforms(stream: Stream, lanes: Floats) -> Any:
    for lane in range(WIDTH):
        lanes[lane] = uniform(stream)
    return load(lanes, 0, 0.0)


@compiled
def _log_target(
    table: NodeTable,
    sums: Floats,
    is_small: Flags,
    places: Floats,
    steps: Floats,
    now: Any,
    candidate: Any,
) -> Any:
    """Return log p at ``candidate``; ``places`` become the logits there."""
    longer = exp(0.5 * (candidate - now))
    sharpness = -0.5 * exp(-candidate)
    result = candidate
    squares = fill(0.0)
    factor, n_factors = fill(1.0), 0  # of (1 + e**-|logit|), at most 2, whose log is still to come
    for node in range(1, places.shape[0]):
        above = load(places[table.parent[node]], 0, 0.0)
        if is_small[node]:
            place = above + longer * load(steps[node], 0, 0.0)
            store(places[node], 0, place)
            n_here = table.n_here[node]
            if n_here > 0:
                result = result + load(sums[node], 0, 0.0) * place
                result = result - n_here * larger(place, 0.0)
                one = 1.0 + exp(-size(place))
                for _ in range(n_here):
                    factor = factor * one
                n_factors += n_here
                if n_factors > MOST_FACTORS:
                    result = result - log(factor)
                    factor, n_factors = fill(1.0), 0
        else:
            away = load(places[node], 0, 0.0) - above
            squares = squares + away * away
            result = result - 0.5 * candidate
    return result - log(factor) + sharpness * squares
