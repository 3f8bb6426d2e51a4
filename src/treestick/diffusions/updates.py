"""The update of all probabilities of a tree through tables: what Dirichlet models share."""

from typing import Any

import numpy as np
import numpy.typing as npt

from treestick._jit import compiled
from treestick.diffusions import dirichlet, hdp
from treestick.random import Key, Purpose, key_for, key_of_part, open_stream
from treestick.tree.table import NodeTable

Floats = npt.NDArray[np.float64]


@compiled
def update(
    key: Key,
    model: Any,
    base: dirichlet.Base,
    table: NodeTable,
    statistics: Floats,
    theta: Floats,
    is_moving: bool,
) -> tuple[float, float]:
    """Replace the probabilities of all nodes by tables, from below, and draw them anew, from above.

    Let theta have its law given the data. For a leaf e, forget theta[e] and draw its tables t[e]
    given its data and its parent's theta: now all other theta and t[e] have the law that they have
    in the model in which theta[e] is integrated out and t[e] is a variable. In it, the tables that
    pass are like data of the parent. So the same can be done with the next node, whose children
    have all become tables, and so on up to the root, for which no tables are needed. Then all t
    have their law given the data, with no theta left. Downwards, theta[root] given its customers
    is Dir(shapes + customers), and so is each child's given its parent's; what is drawn are theta
    given t, so theta has its law again. Each step forgets a variable before others are drawn given
    the rest, which is why theta[e] must not be used after its tables are drawn (partially collapsed
    Gibbs sampling, van Dyk & Park 2008).

    If it ``is_moving``, concentration and persistence, with bounds that are fields of the model
    too, are moved given the tables, with no theta left, which would hold them; they are returned,
    and used from there on. Where the base measure has a rest, the first outcomes are atoms, whose
    homes are drawn as well (:mod:`treestick.diffusions.hdp`).

    ``statistics`` begin with the counts of the outcomes. Linear in nodes x outcomes, and in the
    logarithm of counts.
    """
    key = key_of_part(key, hdp.MOVING if is_moving else hdp.UPDATING)
    counts = np.empty(theta.shape)
    for node in range(theta.shape[0]):
        for w in range(theta.shape[1]):
            counts[node, w] = statistics[node, w]
    customers = counts.copy()
    concentration, persistence = model.concentration, model.persistence
    n_tables, n_passed = dirichlet.seat(
        key, concentration, persistence, base, table, theta, customers
    )
    stream = open_stream(key_for(key, Purpose.MODEL_HYPERPARAMETERS, 0))
    if is_moving:
        concentration = dirichlet.draw_concentration(
            stream, concentration, model.concentration_low, model.concentration_high, base,
            n_tables, customers,
        )  # fmt: skip
        persistence = dirichlet.draw_persistence(
            stream, persistence, model.persistence_low, model.persistence_high,
            n_passed, n_tables - n_passed,
        )  # fmt: skip
    if base.rest >= 0:
        hdp.draw_homes(stream, concentration, persistence, table, counts, customers)
    dirichlet.draw_all(key, concentration, persistence, base, table, customers, theta)
    return concentration, persistence
