"""Exact draws from the joint law of everything, for joint-distribution tests (Geweke 2004).

The tree is drawn by throwing data at sticks that are broken as needed, in plain Python with NumPy's
generator: an oracle that shares no code with the moves. A replication starts from such a draw,
applies a move several times with the data redrawn in between, and must end in the law it began in.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from laws import p_same
from treestick.families.multinomial import Counts
from treestick.models.bernoulli import Bernoulli, Bits
from treestick.models.gaussian import Gaussian, Reals
from treestick.models.multinomial import Multinomial
from treestick.moves.state import State, Sticks, seen_by
from treestick.moves.tasks import make_tasks, sum_statistics
from treestick.random import Key, make_key
from treestick.tree.table import NodeTable, count_data, make_table, place_child

Rng = np.random.Generator
Move = Callable[[Key, State, Any], State]

STEP = 0.9
"""Leapfrog step of the Hamiltonian move: long, so that a good part of its
proposals is rejected, but not so long that it is unstable."""
N_DATA = 7
N_DIMENSIONS = 2
STICKS = Sticks(0.0, 0.5, 4.0, 0.0, 0.1, 0.8, 0.0, 0.5, 2.0)


def _between(rng: Rng, low: Any, high: Any) -> Any:
    return low + rng.random(np.shape(low)) * (high - low)


def draw_sticks_parameters(rng: Rng, bounds: Sticks = STICKS) -> Sticks:
    """Draw alpha0, decay and gamma from their priors."""
    return bounds._replace(
        alpha0=float(_between(rng, bounds.alpha0_low, bounds.alpha0_high)),
        decay=float(_between(rng, bounds.decay_low, bounds.decay_high)),
        gamma=float(_between(rng, bounds.gamma_low, bounds.gamma_high)),
    )


# -- models: priors and data, by NumPy -------------------------------------------------------------


class Oracle:
    """Draws a model's hyperparameters, parameters and data."""

    def __init__(self, n_dimensions: int = N_DIMENSIONS) -> None:
        self.n_dimensions = n_dimensions

    def draw_model(self, rng: Rng) -> Any:
        raise NotImplementedError

    def draw_root(self, rng: Rng, model: Any) -> Any:
        raise NotImplementedError

    def draw_child(self, rng: Rng, model: Any, parent: Any) -> Any:
        raise NotImplementedError

    def draw_data(self, rng: Rng, model: Any, theta: Any) -> Any:
        raise NotImplementedError

    def values(self, data: Any) -> Any:
        """Return the data as numbers."""
        raise NotImplementedError

    def parameters(self, theta: Any) -> Any:
        """Return theta as numbers to be compared."""
        return theta

    def extras(self, model: Any) -> dict[str, float]:
        """Return hyperparameters to be compared."""
        raise NotImplementedError

    # What a model with variables of its own for each datum overrides:

    def draw_all(
        self, rng: Rng, model: Any, table: NodeTable, n_nodes: int, assignments: Any
    ) -> tuple[Any, Any, Any]:
        """Draw what is at the nodes of a tree; return the model, theta and what data have."""
        theta = np.empty((n_nodes, self.n_dimensions))
        theta[0] = self.draw_root(rng, model)
        for k in range(1, n_nodes):
            theta[k] = self.draw_child(rng, model, theta[table.parent[k]])
        return model, theta, None

    def redraw_data(self, rng: Rng, state: State) -> tuple[State, Any]:
        """Draw data given everything else."""
        return state, self.draw_data(rng, state.model, state.theta[state.assignments])

    def compared(self, state: State) -> Any:
        """Return numbers of each node to be compared."""
        return self.parameters(state.theta)

    def more(self, state: State) -> dict[str, float]:
        """Return what is to be compared beside them."""
        return self.extras(state.model)


class GaussianOracle(Oracle):
    """The Gaussian model."""

    def __init__(self, shared_noise: bool = False, n_dimensions: int = N_DIMENSIONS) -> None:
        super().__init__(n_dimensions)
        self.shared_noise = shared_noise

    def draw_model(self, rng: Rng) -> Gaussian:
        one = np.ones(self.n_dimensions)
        noise = _between(rng, 0.2 * one, 1.5 * one)
        return Gaussian(
            float(_between(rng, 0.3, 1.1)), 0.3, 1.1,
            _between(rng, 0.2 * one, 2.0 * one), 0.2 * one, 2.0 * one,
            noise[0] * one if self.shared_noise else noise, 0.2 * one, 1.5 * one,
            self.shared_noise, 2.0 * one, 0.5,
        )  # fmt: skip

    def draw_root(self, rng: Rng, model: Gaussian) -> Any:
        return np.sqrt(model.root_variance) * rng.normal(size=self.n_dimensions)

    def draw_child(self, rng: Rng, model: Gaussian, parent: Any) -> Any:
        step = np.sqrt(model.diffusion) * rng.normal(size=self.n_dimensions)
        return model.persistence * parent + step

    def draw_data(self, rng: Rng, model: Gaussian, theta: Any) -> Reals:
        return Reals(theta + np.sqrt(model.noise) * rng.normal(size=theta.shape))

    def values(self, data: Reals) -> Any:
        return data.values

    def extras(self, model: Gaussian) -> dict[str, float]:
        return {
            "persistence": model.persistence,
            "diffusion": float(model.diffusion[0]),
            "diffusion_1": float(model.diffusion[1]),
            "noise": float(model.noise[0]),
            "noise_1": float(model.noise[1]),
        }


class BernoulliOracle(Oracle):
    """The Bernoulli model."""

    def draw_model(self, rng: Rng) -> Bernoulli:
        one = np.ones(self.n_dimensions)
        diffusion = _between(rng, 0.2 * one, 2.0 * one)
        return Bernoulli(diffusion, 0.2 * one, 2.0 * one, 0.5 * one, 2.0 * one, STEP)

    def draw_root(self, rng: Rng, model: Bernoulli) -> Any:
        step = np.sqrt(model.root_variance) * rng.normal(size=self.n_dimensions)
        return model.root_mean + step

    def draw_child(self, rng: Rng, model: Bernoulli, parent: Any) -> Any:
        return parent + np.sqrt(model.diffusion) * rng.normal(size=self.n_dimensions)

    def draw_data(self, rng: Rng, model: Bernoulli, theta: Any) -> Bits:
        bits = rng.random(theta.shape) < special.expit(theta)
        return Bits(np.packbits(bits, axis=1, bitorder="little"))

    def values(self, data: Bits) -> Any:
        return np.unpackbits(data.packed, axis=1, bitorder="little")[:, : self.n_dimensions]

    def extras(self, model: Bernoulli) -> dict[str, float]:
        return {"diffusion": float(model.diffusion[0]), "diffusion_1": float(model.diffusion[1])}


class MultinomialOracle(Oracle):
    """The multinomial model, with rows of few tokens or none."""

    def __init__(
        self, persistence: tuple[float, float] = (0.2, 0.95), root_concentration: float = 0.0
    ) -> None:
        super().__init__(3)
        self.persistence, self.root_concentration = persistence, root_concentration

    def draw_model(self, rng: Rng) -> Multinomial:
        persistence = float(_between(rng, *self.persistence))
        return Multinomial(
            float(_between(rng, 0.3, 4.0)), 0.3, 4.0, persistence, *self.persistence, 3,
            self.root_concentration,
        )  # fmt: skip

    def draw_root(self, rng: Rng, model: Multinomial) -> Any:
        return log_dirichlet(rng, np.full(3, model.root_concentration or model.concentration))

    def draw_child(self, rng: Rng, model: Multinomial, parent: Any) -> Any:
        eta = model.persistence
        shapes = model.concentration * (eta * np.exp(parent) + (1.0 - eta) / 3)
        return log_dirichlet(rng, np.maximum(shapes, 1e-280))

    def draw_data(self, rng: Rng, model: Multinomial, theta: Any) -> Counts:
        totals = (3 * np.arange(len(theta)) + 3) % 5
        rows = [rng.multinomial(n, np.exp(t)) for n, t in zip(totals, theta, strict=True)]
        return counts_of(np.array(rows))

    def values(self, data: Counts) -> Any:
        return dense_counts(data, 3)

    def parameters(self, theta: Any) -> Any:
        """Return probabilities; many are 0 or 1 but for rounding, which is not compared."""
        return np.round(np.exp(theta), 9)

    def extras(self, model: Multinomial) -> dict[str, float]:
        result = {"concentration": model.concentration}
        if model.persistence_low < model.persistence_high:
            result["persistence"] = model.persistence
        return result


def log_dirichlet(rng: Rng, shapes: Any) -> Any:
    """Return the logarithm of a draw, at least -1000."""
    logs = np.log(rng.gamma(shapes + 1.0)) + np.log(rng.random(shapes.shape)) / shapes
    return np.maximum(logs - special.logsumexp(logs), -1000.0)


def counts_of(rows: Any) -> Counts:
    """Return rows of counts in the form of the model."""
    rows = np.asarray(rows)
    where, outcomes = np.nonzero(rows)
    n_entries = np.count_nonzero(rows, axis=1)
    total = rows.sum(axis=1)
    log_coefficient = special.gammaln(total + 1.0) - special.gammaln(rows + 1.0).sum(axis=1)
    return Counts(
        np.cumsum(n_entries) - n_entries, n_entries, outcomes.astype(np.int32),
        rows[where, outcomes].astype(float), total, log_coefficient,
    )  # fmt: skip


def dense_counts(data: Counts, n_outcomes: int) -> Any:
    """Return the counts as an array."""
    rows = np.zeros((data.total.size, n_outcomes))
    for n, (start, count) in enumerate(zip(data.start, data.n_entries, strict=True)):
        entries = slice(start, start + count)
        rows[n, data.outcomes[entries]] = data.counts[entries]
    return rows


# -- the joint draw --------------------------------------------------------------------------------


class _Node:
    def __init__(self, rng: Rng, sticks: Sticks, parent: "_Node | None", ordinal: int) -> None:
        self.parent, self.ordinal = parent, ordinal
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.nu = rng.beta(1.0, sticks.alpha0 * sticks.decay**self.depth)
        self.psi = 1.0 if parent is None else rng.beta(1.0, sticks.gamma)
        self.children: list[_Node] = []
        self.n_through = 0


def _throw(rng: Rng, sticks: Sticks, root: _Node) -> _Node:
    node = root
    while True:
        node.n_through += 1
        if rng.random() < node.nu:
            return node
        position = 0
        while True:
            if position == len(node.children):
                node.children.append(_Node(rng, sticks, node, position))
            if rng.random() < node.children[position].psi:
                break
            position += 1
        node = node.children[position]


def draw_joint(rng: Rng, oracle: Oracle, n_data: int = N_DATA) -> tuple[State, Any]:
    """Draw hyperparameters, sticks, tree, parameters and data; return the state and the data."""
    sticks, model = draw_sticks_parameters(rng), oracle.draw_model(rng)
    root = _Node(rng, sticks, None, 0)
    places = [_throw(rng, sticks, root) for _ in range(n_data)]
    hull: list[_Node] = []
    others: list[_Node] = []
    stack = [root]
    while stack:
        node = stack.pop()
        hull.append(node)
        with_data = [child for child in node.children if child.n_through]
        last = with_data[-1].ordinal if with_data else -1
        others += [c for c in node.children if not c.n_through and c.ordinal < last]
        stack += reversed(with_data)
    table = make_table(len(hull) + len(others))
    row = {id(node): k for k, node in enumerate(hull + others)}
    for node in hull + others:
        if node.parent is not None:
            place_child(table, row[id(node.parent)], node.ordinal)
    table.psi[:] = [node.psi for node in hull + others]
    table.nu[: len(hull)] = [node.nu for node in hull]
    table.entity[:] = rng.integers(2**63, size=len(row))
    assignments = np.array([row[id(node)] for node in places], dtype=np.int64)
    count_data(table, assignments)
    model, theta, latent = oracle.draw_all(rng, model, table, len(hull), assignments)
    state = State(table, assignments, theta, np.empty((0, 0)), model, sticks, latent)
    return with_data_redrawn(rng, oracle, state)


def with_data_redrawn(rng: Rng, oracle: Oracle, state: State) -> tuple[State, Any]:
    """Redraw the data given everything else."""
    state, data = oracle.redraw_data(rng, state)
    tasks = make_tasks(state.assignments.size)
    return sum_statistics(state, seen_by(state, data), tasks), data


# -- what is compared ------------------------------------------------------------------------------


def summary(oracle: Oracle, state: State, data: Any, with_sticks: bool) -> dict[str, float]:
    """Return statistics of everything together that do not depend on labels of nodes."""
    table, where, n_nodes = state.table, state.assignments, state.n_nodes
    depth = table.depth[:n_nodes]
    theta, more = oracle.compared(state), oracle.more(state)
    first = theta[where[0]]
    x = oracle.values(data)
    above, node = set(), int(where[1])
    while node != -1:
        above.add(node)
        node = int(table.parent[node])
    of_root = [k for k in range(1, n_nodes) if table.parent[k] == 0]
    result = {
        "nodes": n_nodes,
        "depth": int(depth.max()),
        "at_root": int(table.n_here[0]),
        "same": int(where[0] == where[1]),
        "above": int(where[0]) in above and where[0] != where[1],
        "children": len(of_root),
        "root": float(theta[0, 0]),
        "root_1": float(theta[0, 1]),
        "theta": float(first[0]),
        "theta_squared": float(first[1] ** 2),
        "x_theta": float(np.sum((x[0] - 0.3) * first)),
        "x_other": float(np.sum((x[0] - 0.3) * theta[where[1]])),
        "sum_x_theta": float(np.sum(x[:, 0])) * float(first[0]),
        "step": float(np.sum((first - theta[max(int(table.parent[where[0]]), 0)]) ** 2)),
        "alpha0": state.sticks.alpha0,
        "decay": state.sticks.decay,
        "gamma": state.sticks.gamma,
        "alpha0_depth": state.sticks.alpha0 * float(depth[where].mean()),
        "decay_depth": state.sticks.decay * int(depth.max()),
        "gamma_children": state.sticks.gamma * len(of_root),
        **more,
    }
    for name, value in more.items():
        result[f"{name}_step"] = value * result["step"]
        result[f"{name}_spread"] = value * float(np.sum((x[0] - first) ** 2))
    if with_sticks:
        n_through = table.n_here + table.n_below
        psi = [table.psi[k] for k in of_root]
        phi, rest, child = np.zeros(table.psi.size), 1.0, int(table.first_child[0])
        while child != -1:
            phi[child], rest = rest * table.psi[child], rest * (1.0 - table.psi[child])
            child = int(table.next_sibling[child])
        result |= {
            "nu": float(table.nu[0]),
            "nu_here": float(table.nu[0]) * int(table.n_here[0]),
            "nu_first": float(table.nu[where[0]]),
            "nu_above": float(table.nu[max(int(table.parent[where[0]]), 0)]),
            "psi_first": float(table.psi[where[0]]),
            "ordinal_first": int(table.ordinal[where[0]]),
            "log_psi": math.fsum(math.log(p) for p in psi),
            "psi_through": math.fsum(table.psi[k] * n_through[k] for k in of_root),
            "phi_through": math.fsum(phi[k] * n_through[k] for k in of_root),
            "phi_squared": math.fsum(phi**2),
            "phi_rest": rest,
            "psi_here": math.fsum(table.psi[k] * table.n_here[k] for k in of_root),
            "ordinals": int(sum(table.ordinal[k] for k in of_root)),
            "ordinal_through": int(sum(table.ordinal[k] * n_through[k] for k in of_root)),
            "first_through": int(n_through[int(table.first_child[0])]) if of_root else -1,
            "gamma_psi": state.sticks.gamma * math.fsum(psi),
        }
    return result


Sample = dict[str, npt.NDArray[np.float64]]


def _gathered(summaries: list[dict[str, float]]) -> Sample:
    return {name: np.array([s[name] for s in summaries], dtype=float) for name in summaries[0]}


def fresh_sample(seed: int, oracle: Oracle, n: int, with_sticks: bool = True) -> Sample:
    """Summaries of exact draws."""
    rng = np.random.default_rng(seed)
    drawn = (draw_joint(rng, oracle) for _ in range(n))
    return _gathered([summary(oracle, *pair, with_sticks) for pair in drawn])


def moved_sample(
    seed: int, oracle: Oracle, move: Move, n: int, with_sticks: bool, n_times: int = 4
) -> Sample:
    """Summaries of exact draws to which the move was applied, data redrawn in between.

    Not after the last time: data that were redrawn would fit any parameters.
    """
    rng = np.random.default_rng(seed)
    summaries = []
    for replication in range(n):
        state, data = draw_joint(rng, oracle)
        for time in range(n_times):
            if time > 0:
                state, data = with_data_redrawn(rng, oracle, state)
            state = move(make_key(seed, replication, time + 1), state, data)
        size = int(state.table.size[0])
        assert np.unique(state.table.entity[:size]).size == size
        summaries.append(summary(oracle, state, data, with_sticks))
    return _gathered(summaries)


def p_values(first: Sample, second: Sample) -> dict[str, float]:
    """p-value of each statistic: chi-square for whole numbers, Kolmogorov and Smirnov for others.

    Statistics that only one of the samples has are left out.
    """
    result = {}
    for name in first.keys() & second.keys():
        a, b = first[name], second[name]
        whole = np.all(a == np.round(a)) and np.all(b == np.round(b))
        result[name] = p_same(a, b) if whole else float(stats.ks_2samp(a, b).pvalue)
    return result


def smallest(first: Sample, second: Sample) -> tuple[float, str]:
    """Return the smallest p-value, and of what."""
    return min((p, name) for name, p in p_values(first, second).items())
