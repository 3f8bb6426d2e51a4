"""Each structural move alone, from exact draws: what it changes, it changes back as often.

Three data have a posterior over tree partitions that is known exactly (``exact.py``). Given the
partition, the means of Gaussian nodes are jointly Gaussian; multinomial nodes are given customers,
and then their probabilities from the top. So states are drawn exactly, and a move is applied to
each of them, more than once, so that what it hands on from one proposal to the next matters too.
Then

- statistics of tree and parameters have not changed on average (invariance);
- tree partitions turn into each other as often as the other way round (detailed balance, which
  every move has by itself; Bowker's test). Several single data, which are chosen together, do not
  have it: those are compared by the first line, and one alone by both.

Before and after are compared within each draw, so nothing is lost to how much draws differ, and
nothing depends on whether a move alone reaches all trees. A proposal takes microseconds: the loop
is compiled, and calls moves through a pointer, so that it is compiled once for all of them.

In CI, a Hastings term off by a fifth is caught in each move: the moves with a planted error take
half a minute to compile, the draws a few seconds. In the long tier the term is off by 1 %, and
there are a hundred times as many draws: a minute or so for each move. All of this is with Gaussian
nodes; multinomial ones, whose proposals are not exact and whose weights therefore matter, are in
the long tier alone.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
import pytest
from numba import types

from exact import CountSetting, Floats, Setting, enumerate_posterior, seatings
from joint import counts_of
from laws import ALARM, p_balanced, p_no_drift
from planting import planted_function
from treestick import Tree
from treestick._jit import compiled
from treestick.models.gaussian import Reals
from treestick.moves.state import Integers, State
from treestick.moves.structure import hull as on
from treestick.moves.structure.hull import Hull, loosen
from treestick.moves.structure.plan import MOVES
from treestick.moves.structure.regraft import REFITTED
from treestick.moves.structure.singles import SMALL_LEAVES, move_singles
from treestick.moves.tasks import make_tasks, sum_statistics
from treestick.random import Key, make_key
from treestick.tree.table import NULL, count_data, make_table, place_child

SETTING = Setting(
    x=np.array([[-0.6], [0.3], [0.9]]),
    alpha0=1.5, decay=0.25, gamma=0.8,
    persistence=0.9, diffusion=0.6, noise=0.5, root_variance=1.0,
)  # fmt: skip
"""All moves are accepted often, and numbers of nodes vary much: 1 to 4 are common."""
COUNTS = CountSetting(
    x=np.array([[1, 0], [0, 1], [2, 0]]),
    alpha0=1.2, decay=0.15, gamma=0.8,
    concentration=1.5, persistence=0.8,
)  # fmt: skip
SETTINGS: dict[str, Setting | CountSetting] = {"gaussian": SETTING, "multinomial": COUNTS}
DEEPEST = {"gaussian": 5, "multinomial": 4}
ROOM = 28
"""Nodes of a hull: up to 16 at first, and up to three more with each of four proposals."""
N_TIMES = {move_singles.__name__: 4}
"""How often a move is applied, if not twice. Of four single data, several may be of one node, and
one may be chosen more than twice."""
MOST_AT_ONCE = 1_000_000


# -- exact draws -----------------------------------------------------------------------------------


class Starts(NamedTuple):
    """For every tree partition: its hull, and the law of its parameters.

    Of Gaussian nodes these are ``means + roots @ normals``.
    """

    nodes: npt.NDArray[Any]
    labels: npt.NDArray[np.int32]
    counts: Integers
    statistics: Floats
    means: Floats
    roots: Floats


class StartsOfCounts(NamedTuple):
    """The same for multinomial nodes, whose law is a mixture over the customers of all nodes."""

    nodes: npt.NDArray[Any]
    labels: npt.NDArray[np.int32]
    counts: Integers
    statistics: Floats
    first: Integers
    """Of every tree partition: its first entry below; they end where those of the next begin."""
    cumulated: Floats
    """Probabilities, summed up over the entries of one partition."""
    customers: npt.NDArray[np.int8]
    """Of every entry: of each node, how many there are for each outcome."""


class Bench(NamedTuple):
    """What is computed once."""

    trees: list[Tree]
    probabilities: Floats
    deeper: float
    starts: Any
    hull: Hull
    number_of: Integers
    """The number of the tree partition with each code; deeper ones have the last number of all."""


def law_of_means(tree: Tree) -> tuple[Floats, Floats]:
    """Return means, and a square root of the covariance, of the nodes' parameters given the data.

    From the precision matrix: the density is a product over edges and data.
    """
    precision, pull = np.zeros((tree.n_nodes, tree.n_nodes)), np.zeros(tree.n_nodes)
    precision[0, 0] = 1.0 / SETTING.root_variance
    for node in range(1, tree.n_nodes):
        edge = np.zeros(tree.n_nodes)
        edge[node], edge[tree.parent[node]] = 1.0, -SETTING.persistence
        precision += np.outer(edge, edge) / SETTING.diffusion
    for x, node in zip(SETTING.x[:, 0], tree.assignments, strict=True):
        precision[node, node] += 1.0 / SETTING.noise
        pull[node] += x / SETTING.noise
    covariance = np.linalg.inv(precision)
    return covariance @ pull, np.linalg.cholesky(covariance)


def data_of(case: str) -> Any:
    setting = SETTINGS[case]
    return counts_of(setting.x) if isinstance(setting, CountSetting) else Reals(setting.x)


def to_hull(case: str, tree: Tree) -> Hull:
    setting = SETTINGS[case]
    table = make_table(tree.n_nodes)
    n_children = np.zeros(tree.n_nodes, dtype=np.int64)
    for parent in tree.parent[1:]:
        place_child(table, parent, n_children[parent])
        n_children[parent] += 1
    table.entity[:] = np.arange(tree.n_nodes) + 1
    assignments = np.array(tree.assignments, dtype=np.int64)
    count_data(table, assignments)
    state = State(
        table, assignments, np.zeros((tree.n_nodes, setting.x.shape[1])), np.empty((0, 0)),
        setting.model(), setting.sticks(),
    )  # fmt: skip
    state = sum_statistics(state, data_of(case), make_tasks(assignments.size))
    return loosen(state, ROOM - tree.n_nodes)


@functools.cache
def bench(case: str) -> Bench:
    trees, probabilities, deeper = enumerate_posterior(SETTINGS[case], DEEPEST[case])
    hulls = [to_hull(case, tree) for tree in trees]
    same = (
        np.stack([np.asarray(hull.nodes) for hull in hulls]),
        np.stack([hull.labels for hull in hulls]),
        np.stack([hull.counts for hull in hulls]),
        np.stack([hull.statistics for hull in hulls]),
    )
    starts: Any
    if case == "gaussian":
        starts = Starts(*same, np.zeros((len(trees), ROOM)), np.zeros((len(trees), ROOM, ROOM)))
        for k, tree in enumerate(trees):
            n = tree.n_nodes
            starts.means[k, :n], starts.roots[k, :n, :n] = law_of_means(tree)
    else:
        first, cumulated, customers = [0], [], []
        for tree in trees:
            found = list(seatings(COUNTS, tree))
            weights = np.cumsum([weight for _, weight in found])
            cumulated.append(weights / weights[-1])
            first.append(first[-1] + len(found))
            of_tree = np.zeros((len(found), ROOM, 2), dtype=np.int8)
            of_tree[:, : tree.n_nodes] = [seated for seated, _ in found]
            customers.append(of_tree)
        starts = StartsOfCounts(
            *same, np.array(first), np.concatenate(cumulated), np.concatenate(customers)
        )
    codes = np.array([code_of(hull) for hull in hulls])
    assert np.unique(codes).size == codes.size
    number_of = np.full(8**6, len(trees))
    number_of[codes] = np.arange(len(trees))
    return Bench(trees, probabilities, deeper, starts, hulls[0], number_of)


# -- the loop --------------------------------------------------------------------------------------


@compiled
def code_of(hull: Hull) -> int:
    """Return a number that names the partition: depths, and how far each pair goes together."""
    code = 0
    for i in range(hull.labels.size):
        for j in range(i + 1):
            shared = 0
            a = on.node_of(hull, i)
            while a != NULL:
                b = on.node_of(hull, j)
                while b != NULL and b != a:
                    b = hull.nodes[b].parent
                shared += b != NULL
                a = hull.nodes[a].parent
            code = 8 * code + min(shared, 7)
    return code


OF_PARAMETERS = ("root", "root squared", "theta squared", "theta of two")


@compiled
def draw_means(rng: Any, starts: Starts, start: int, hull: Hull) -> None:
    """Draw the parameters of Gaussian nodes."""
    normals = np.empty(hull.nodes.size)
    for k in range(hull.counts[0]):
        normals[k] = rng.standard_normal()
        hull.theta[k, 0] = starts.means[start, k]
        for j in range(k + 1):
            hull.theta[k, 0] += starts.roots[start, k, j] * normals[j]


@compiled
def draw_probabilities(rng: Any, starts: StartsOfCounts, start: int, hull: Hull) -> None:
    """Draw customers, then the log probabilities of multinomial nodes given them, from the top."""
    entry, last = starts.first[start], starts.first[start + 1] - 1
    dart = rng.random()
    while entry < last and starts.cumulated[entry] < dart:
        entry += 1
    c, eta = COUNTS.concentration, COUNTS.persistence
    for k in range(hull.counts[0]):
        total = 0.0
        for w in range(2):
            shape = c
            if k > 0:
                parent = hull.nodes[k].parent
                shape *= eta * np.exp(hull.theta[parent, w]) + 0.5 * (1.0 - eta)
            # Of a small shape a, the gamma draw is that of a + 1 times u**(1 / a).
            more = starts.customers[entry, k, w] + shape
            hull.theta[k, w] = np.log(rng.standard_gamma(more + 1.0)) + np.log(rng.random()) / more
            total += np.exp(hull.theta[k, w])
        for w in range(2):
            hull.theta[k, w] -= np.log(total)


@compiled
def measure_means(hull: Hull, out: Floats) -> None:
    """Write the statistics of the parameters."""
    root = hull.theta[0, 0]
    first, second = hull.theta[on.node_of(hull, 0), 0], hull.theta[on.node_of(hull, 1), 0]
    out[0], out[1], out[2], out[3] = root, root * root, first * first, first * second


@compiled
def measure_probabilities(hull: Hull, out: Floats) -> None:
    """Write the same of probabilities."""
    root = np.exp(hull.theta[0, 0])
    first = np.exp(hull.theta[on.node_of(hull, 0), 0])
    second = np.exp(hull.theta[on.node_of(hull, 1), 0])
    out[0], out[1], out[2], out[3] = root, root * root, first * first, first * second


def make_loop(draw: Callable[..., None], measure: Callable[..., None]) -> Callable[..., int]:
    """Return the loop for one kind of parameters."""

    def move_many(
        move: Callable[..., Integers],
        key: Key,
        model: Any,
        data: Any,
        sticks: Any,
        hull: Hull,
        kind: int,
        n_times: int,
        rng: np.random.Generator,
        starts: Any,
        chosen: Integers,
        number_of: Integers,
        flows: Integers,
        changes: Floats,
    ) -> int:
        """Draw the parameters of each of the chosen partitions, apply the move, count what changed.

        ``flows`` counts from where to where, ``changes`` sums up changes and their squares. Return
        how many proposals were made.
        """
        before, after = np.empty(changes.shape[1]), np.empty(changes.shape[1])
        n_made = 0
        for n in range(chosen.size):
            start = chosen[n]
            for k in range(hull.nodes.size):
                hull.nodes[k] = starts.nodes[start, k]
            hull.labels[:] = starts.labels[start]
            hull.counts[:] = starts.counts[start]
            hull.statistics[:] = starts.statistics[start]
            draw(rng, starts, start, hull)
            measure(hull, before)
            draw_key = Key(key.seed, key.chain, np.uint64(n), key.purpose, key.entity)
            n_made += move(draw_key, model, data, sticks, hull, kind, 0, n_times)[0]
            measure(hull, after)
            flows[start, number_of[code_of(hull)]] += 1
            for k in range(before.size):
                change = after[k] - before[k]
                changes[0, k] += change
                changes[1, k] += change * change
        return n_made

    return move_many


LOOPS = {
    "gaussian": make_loop(draw_means, measure_means),
    "multinomial": make_loop(draw_probabilities, measure_probabilities),
}


def arguments(case: str, kind: int, seed: int, n_times: int) -> tuple[Any, ...]:
    """Return what a move is called with, but for the number of the first proposal."""
    setting, hull = SETTINGS[case], bench(case).hull
    return make_key(seed), setting.model(), data_of(case), setting.sticks(), hull, kind, n_times


@functools.cache
def loop(case: str) -> Callable[..., int]:
    """Return the loop, compiled for any move given as a pointer."""
    of_move = [numba.typeof(value) for value in arguments(case, 0, 0, 1)]
    signature = types.int64[::1](*of_move, types.int64)
    n = len(bench(case).trees)
    others = (
        np.random.default_rng(), bench(case).starts, np.empty(0, dtype=np.int64),
        bench(case).number_of, np.empty((n, n + 1), dtype=np.int64),
        np.empty((2, len(OF_PARAMETERS))),
    )  # fmt: skip
    of_loop = types.int64(types.FunctionType(signature), *of_move, *map(numba.typeof, others))
    return numba.njit(of_loop, nogil=True, error_model="numpy")(LOOPS[case])  # type: ignore[no-any-return]


# -- what is compared ------------------------------------------------------------------------------


def describe(tree: Tree) -> dict[str, float]:
    """Return statistics of a tree partition."""
    depth = tree.depth[tree.assignments]
    is_shared = ~np.isin(np.arange(tree.n_nodes), tree.parent) & (tree.n_here > 1)
    is_shared[0] = False
    return {
        "nodes": tree.n_nodes,
        "sum of depths": int(depth.sum()),
        "depth": int(tree.depth.max()),
        "empty nodes": int(np.sum(tree.n_here == 0)),
        "children of the root": int(np.sum(tree.parent == 0)),
        "nodes with data": np.unique(tree.assignments).size,
        "empty root": int(tree.n_here[0] == 0),
        "data that share a leaf": int(tree.n_here[is_shared].sum()),
    }


@functools.cache
def descriptions(case: str) -> dict[str, Floats]:
    each = [describe(tree) for tree in bench(case).trees]
    return {name: np.array([d[name] for d in each], dtype=float) for name in each[0]}


def p_values(
    case: str, move: Callable[..., Integers], kind: int, n: int, seed: int, n_times: int
) -> dict[str, float]:
    """p-value of each statistic after the move was applied to ``n`` exact draws."""
    rng, about = np.random.default_rng(seed), bench(case)
    n_trees = len(about.trees)
    flows = np.zeros((n_trees, n_trees + 1), dtype=np.int64)
    changes = np.zeros((2, len(OF_PARAMETERS)))
    move(*arguments(case, kind, seed, 0), 0)  # pointers are to what is compiled
    n_made = 0
    for part, first in enumerate(range(0, n, MOST_AT_ONCE)):
        size = min(MOST_AT_ONCE, n - first)
        chosen = rng.choice(n_trees, size=size, p=about.probabilities)
        key, *others = arguments(case, kind, seed, n_times)
        key = key._replace(chain=np.uint64(part))
        n_made += loop(case)(
            move, key, *others, rng, about.starts, chosen, about.number_of, flows, changes
        )
    assert n_made == n * n_times
    # Those that were or are deeper than was enumerated: they are too few to matter.
    assert about.deeper * n < 10.0
    flows = flows[:, :-1]
    i, j = np.nonzero(flows)
    sums = {name: (float(x), float(y)) for name, x, y in zip(OF_PARAMETERS, *changes, strict=True)}
    for name, values in descriptions(case).items():
        change = values[j] - values[i]
        sums[name] = float(np.sum(flows[i, j] * change)), float(np.sum(flows[i, j] * change**2))
    # Some statistics a move leaves as they are.
    result = {name: p_no_drift(*pair) for name, pair in sums.items() if pair[1] > 0.0}
    if move.__name__ != move_singles.__name__ or n_times == 1:
        result["flows"] = p_balanced(flows)
    return result


def smallest(
    case: str, move: Callable[..., Integers], kind: int, n: int, seed: int, n_times: int = 0
) -> tuple[float, str]:
    n_times = n_times or N_TIMES.get(move.__name__, 2)
    return min((p, name) for name, p in p_values(case, move, kind, n, seed, n_times).items())


# -- tests -----------------------------------------------------------------------------------------


class Term(NamedTuple):
    """A term of an acceptance ratio, as it stands in a file, and the same off by ``FACTOR``."""

    module: str
    correct: str
    wrong: str
    n_millions: float
    """Draws that show a factor of 1.01, at seven standard errors or so."""


SPLIT = Term(
    "split_merge",
    "        p += 0.25\n    return math.log(p)\n",
    "        p += 0.25\n    return math.log(p) - math.log(FACTOR)\n",
    5.0,
)
TERMS = {
    "smart_split": SPLIT,
    "smart_merge": SPLIT,
    "insert": Term(
        "insert",
        "    return math.log(n_pool / (3.0 * hull.counts[DATA]))",
        "    return math.log(n_pool / (3.0 * hull.counts[DATA])) - math.log(FACTOR)",
        10.0,
    ),
    "regraft": Term(
        "regraft",
        "log_p[count] = along[row] + own[depth]",
        "log_p[count] = along[row] + own[depth] + math.log(FACTOR) * depth",
        15.0,
    ),
    "refitted_regraft": Term(
        "regraft",
        "    log_ratio += log_p[chosen] - log_p[now]",
        "    log_ratio += log_p[chosen] - log_p[now]"
        " + math.log(FACTOR) * (hull.nodes[new].depth - hull.nodes[old].depth)",
        15.0,
    ),
    "swap": Term(
        "swap",
        "    return on.log_tree(",
        "    return np.log(FACTOR) * (hull.nodes[a].n_here > hull.nodes[b].n_here) + on.log_tree(",
        30.0,
    ),
    "reroot": Term(
        "reroot",
        "        total += np.log((row.n_here + row.n_below) / above.n_below)",
        "        total += np.log(FACTOR) * row.n_here"
        " + np.log((row.n_here + row.n_below) / above.n_below)",
        10.0,
    ),
    "singles": Term(
        "singles",
        "log_chain - logs.log_stop[depth + levels] + for_new",
        "log_chain - logs.log_stop[depth + levels] + for_new + math.log(FACTOR)",
        4.0,
    ),
    "leaf_singles": Term(
        "singles",
        "    hull.labels[n] = label\n    return log_ratio\n",
        "    hull.labels[n] = label\n"
        "    return log_ratio + (math.log(FACTOR) if had else -math.log(FACTOR))\n",
        6.0,
    ),
}
"""For each move one that is wrong both ways, as it would be if it had been derived wrongly."""
SHARE_IN_CI = 0.01
"""For as clear a sign, a fifth needs 330 times fewer draws than 1 %."""


@functools.cache
def planted_move(term: Term, function_name: str, factor: float) -> Callable[..., Integers]:
    wrong = term.wrong.replace("FACTOR", str(factor))
    name = f"treestick.moves.structure.{term.module}"
    move: Callable[..., Integers] = planted_function(name, function_name, term.correct, wrong)
    return move


def check_move(name: str, share: float, case: str = "gaussian") -> None:
    p, statistic = smallest(case, *MOVES[name], int(1e6 * share * TERMS[name].n_millions), 1)
    assert p > ALARM, f"{statistic}: p = {p:.2g}"


def check_bug(name: str, factor: float, share: float, case: str = "gaussian") -> None:
    move, kind = MOVES[name]
    buggy = planted_move(TERMS[name], move.__name__, factor)
    p, statistic = smallest(case, buggy, kind, int(1e6 * share * TERMS[name].n_millions), 1)
    assert p < ALARM, f"not caught: {statistic}: p = {p:.2g}"


@pytest.mark.parametrize("name", MOVES)
def test_move_is_balanced(name: str) -> None:
    check_move(name, SHARE_IN_CI)


@pytest.mark.parametrize("name", MOVES)
def test_a_hastings_term_off_by_a_fifth_is_caught(name: str) -> None:
    check_bug(name, 1.2, SHARE_IN_CI)


@pytest.mark.parametrize("name", ["singles", "leaf_singles"])
def test_one_single_is_balanced(name: str) -> None:
    n = int(1e6 * SHARE_IN_CI * TERMS[name].n_millions)
    p, statistic = smallest("gaussian", *MOVES[name], n, 1, n_times=1)
    assert p > ALARM, f"{statistic}: p = {p:.2g}"


@functools.cache
def planted_singles(correct: str, wrong: str) -> Callable[..., Integers]:
    move: Callable[..., Integers] = planted_function(
        "treestick.moves.structure.singles", "move_singles", correct, wrong
    )
    return move


VARIANTS = {
    "leaves with two data are given": (
        "most = MOST_AT_LEAF if kind == SMALL_LEAVES else 0",
        "most = 1 if kind == SMALL_LEAVES else 0",
    ),
    "leaves that are weighted by an estimate": (
        "contract.prepare_leaf(model, above, n_here, hull.statistics[row], theta, prepared)",
        "contract.prepare(model, theta, prepared)",
    ),
    "chains of one node": ("min(LEVELS, contract", "min(1, contract"),
}
"""Three data are few: this lets leaves change between integrated out and given; the ratio matter,
which is 1 for Gaussian leaves; and data stay that are at the end of long chains."""


@pytest.mark.parametrize("variant", VARIANTS)
def test_leaf_singles_are_balanced_in_other_ways(variant: str) -> None:
    move = planted_singles(*VARIANTS[variant])
    p, statistic = smallest("gaussian", move, SMALL_LEAVES, 100_000, 1)
    assert p > ALARM, f"{statistic}: p = {p:.2g}"


SINGLES_BUGS = {
    "a datum that is chosen twice is counted once": (
        "desk.n_times[0] = np.sum(chosen[k:] == chosen[k])",
        "desk.n_times[0] = 1",
    ),
    "of choices at a node only one is counted": (
        "            n_chosen = of_nodes[row]\n",
        "            n_chosen = min(of_nodes[row], 1)\n",
    ),
    "those that have moved are counted where they go": (
        "desk.n_chosen[row] += desk.n_times[0] - 1",
        "desk.n_chosen[row] += desk.n_times[0]",
    ),
    "data of small nodes are chosen more often, and it is not counted": (
        "0.5 / n_data + 0.5 / (n_some * n_here)",
        "0.5 / n_data + 0.0 * (n_some * n_here)",
    ),
    "the chances of the others are forgotten": (
        "            for_new -= _log_chance(desk.log_chances, n_data, n_some, n_here)\n",
        "            for_new -= _log_of_chance(n_data, n_some + 1, n_here)\n",
    ),
    "chances are kept where the number of nodes with data has changed": (
        "    if desk.n_some[1] != n_some:\n",
        "    if desk.n_some[1] == 0:\n",
    ),
    "chains below leaves that are integrated out": (
        "parent != 0 and over.n_children == 1 and over.n_here <= most",
        "parent != 0 and over.n_children == 1 and over.n_here <= 0 * most",
    ),
}


@pytest.mark.parametrize("bug", SINGLES_BUGS)
def test_planted_bug_in_singles_is_caught(bug: str) -> None:
    p, statistic = smallest(
        "gaussian", planted_singles(*SINGLES_BUGS[bug]), SMALL_LEAVES, 400_000, 1
    )
    assert p < ALARM, f"not caught: {statistic}: p = {p:.2g}"


WAY_BACK = Term(
    "regraft",
    "        log_ratio += _log_proposal(model, hull, c, parents, log_p, new)[now]",
    "        log_ratio += _log_proposal(model, hull, c, parents, log_p, new)[now]"
    " + math.log(FACTOR) * (hull.nodes[new].depth - hull.nodes[old].depth)",
    60.0,
)
"""It is not asked for where the ratio is too small without it, so its errors show less."""


def test_a_wrong_way_back_of_regraft_is_caught() -> None:
    buggy = planted_move(WAY_BACK, "move_regraft", 1.2)
    n = int(1e6 * SHARE_IN_CI * WAY_BACK.n_millions)
    p, statistic = smallest("gaussian", buggy, REFITTED, n, 1)
    assert p < ALARM, f"not caught: {statistic}: p = {p:.2g}"


def test_regraft_is_balanced_where_it_compares_few_parents() -> None:
    """Small trees have fewer parents than are compared; here, the present one may be left out."""
    move = planted_function(
        "treestick.moves.structure.regraft", "move_regraft",
        "least_of_best(score, MOST_COMPARED)", "least_of_best(score, 2)",
    )  # fmt: skip
    n = int(1e6 * SHARE_IN_CI * TERMS["refitted_regraft"].n_millions)
    p, statistic = smallest("gaussian", move, REFITTED, n, 1)
    assert p > ALARM, f"{statistic}: p = {p:.2g}"


@pytest.mark.long
@pytest.mark.parametrize("case", SETTINGS)
@pytest.mark.parametrize("name", MOVES)
def test_move_is_balanced_with_many_draws(name: str, case: str) -> None:
    check_move(name, 1.0, case)


@pytest.mark.long
@pytest.mark.parametrize("case", SETTINGS)
@pytest.mark.parametrize("name", MOVES)
def test_a_hastings_term_off_by_a_hundredth_is_caught(name: str, case: str) -> None:
    check_bug(name, 1.01, 1.0, case)


@pytest.mark.long
@pytest.mark.parametrize("name", MOVES)
def test_a_hastings_term_off_by_a_fifth_is_caught_with_counts(name: str) -> None:
    check_bug(name, 1.2, SHARE_IN_CI, "multinomial")
