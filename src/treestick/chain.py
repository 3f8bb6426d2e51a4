"""One chain: its sweep, and its draws one after the other.

A sweep applies each move once. The default schedule keeps no sticks between sweeps::

    sticks and order from scratch -> assignments, pruned -> parameters -> hyperparameters
    -> structural moves

where assignments are drawn over many nodes at once for all data, and by slice sampling for some of
them, others in each sweep. Where nodes hold measures, slice sampling is over node and atom, for all
data, and the atoms follow. Documents move with the topics of their tokens summed out, or given
these; then the tokens follow. ``schedule="paper"`` has the paper's moves of these, and keeps sticks
and order in the state::

    order -> assignments, pruned -> parameters -> hyperparameters, stick lengths

Every number is a function of (seed, chain, sweep) and the state before, so a chain that goes on
from a stored state goes on as if it had never stopped.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from treestick import contract
from treestick._jit import compiled
from treestick.moves.assignments import Slots
from treestick.moves.hyperparameters import move_hyperparameters, move_ordered
from treestick.moves.order import move_order
from treestick.moves.parameters import move_model_hyperparameters, move_parameters
from treestick.moves.redraw import move_redraw
from treestick.moves.state import Floats, State
from treestick.moves.tasks import Run, Task
from treestick.moves.topics import TopicMoves, key_of_turn, move_word_prior
from treestick.prior.density import log_partition
from treestick.random import Key, make_key
from treestick.tree.table import NodeTable
from treestick.whereabouts import Elsewhere, Here

SCHEDULES = ("default", "paper")
MOST_CANDIDATES = 4096
"""Nodes compared at once. Data at others are moved by slice sampling and structural moves only."""
MOST_SLICED = 100
"""Data that are moved by slice sampling in a sweep of the default schedule. In deep trees, most of
its points fall on unseen nodes, and each takes as long as a thousand likelihoods."""


TOKEN_TURNS = 8
"""How often the topics of all tokens are moved in a sweep."""
MOST_SINGLE_DOCUMENTS = 50
"""Documents that are moved one by one in a sweep in which their tokens are moved, too."""
MANY = 10_000
"""Data from which on the two ways to move single ones take turns."""


class SweepInfo(NamedTuple):
    """What a sweep observed."""

    acceptance: float
    """Share of the parameter proposals that were accepted."""
    tries: float
    """Points thrown per datum until it had its node."""
    n_candidates: int
    """Nodes that were compared at once."""
    structure: dict[str, tuple[int, ...]]
    """Of each structural move: how many were proposed, and how many accepted."""


class Scores(NamedTuple):
    """Logarithms of densities of a state."""

    data: float
    """Of the data, given their nodes' parameters."""
    partition: float
    """Of the tree partition, sticks integrated out."""
    parameters: float
    """Of the nodes' parameters, and of what nodes share."""

    @property
    def complete_data(self) -> float:
        """Of data and assignments, given the parameters: what the best single tree maximises.

        Deviation from the paper: sticks are integrated out, rather than given.
        """
        return self.data + self.partition

    @property
    def joint(self) -> float:
        """Of everything; the uniform priors of the hyperparameters add a constant."""
        return self.data + self.partition + self.parameters


class Swept(NamedTuple):
    """A chain after one of its sweeps."""

    sweep: int
    state: State
    scores: Scores
    info: SweepInfo


def sweep(
    key: Key,
    state: State,
    data: Any,
    run: Run = map,
    schedule: str = "default",
    adapting: bool = False,
    spare: list[Slots] | None = None,
    topics: TopicMoves | None = None,
) -> tuple[State, SweepInfo]:
    """Apply each move of the schedule once.

    ``data`` are those of the model, or :class:`~treestick.whereabouts.Elsewhere`. ``spare`` is
    memory that sweeps hand on, ``topics`` how those of tokens are moved; None if they stay or there
    are none.
    """
    where = data if isinstance(data, Elsewhere) else Here(data, state.assignments.size, run, spare)
    n_data = where.n_data
    has_atoms = contract.registered(type(state.model)).has_atoms
    n_candidates = 0
    counts: dict[str, tuple[int, ...]] = {}
    state = move_order(key, state) if schedule == "paper" else move_redraw(key, state)
    if topics is not None and topics.sums_out:
        state, n_candidates = where.move_documents(
            key, state, MOST_CANDIDATES, 1.0 / n_data, topics
        )
    elif schedule != "paper":
        state, n_candidates = where.move_candidates(key, state, MOST_CANDIDATES, 1.0 / n_data)
    if has_atoms:
        state, tries = where.move_places(key, state)
        if schedule != "paper":
            state = where.move_atoms_of_data(key, state)
        state = where.move_atoms(key, state)
    else:
        part = None if schedule == "paper" else _part_to_slice(n_data, int(key.sweep))
        state, tries = where.move_assignments(key, state, part)
    if topics is not None:
        turns = [key_of_turn(key, turn) for turn in range(TOKEN_TURNS)]
        state = where.move_tokens(turns, state, topics)
        state = move_word_prior(key, state)
    state = where.sum_statistics(state)
    state, acceptance = move_parameters(key, state, adapting, run)
    state = move_model_hyperparameters(key, state)
    if schedule == "paper":
        state = move_ordered(key, state)
    else:
        state = move_hyperparameters(key, state)
        plan = plan_for(n_data, adapting, int(key.sweep))
        if topics is not None:
            for name in ("singles", "leaf_singles"):
                plan[name] = min(plan[name], MOST_SINGLE_DOCUMENTS // 2)
        state, counts = where.move_structure(key, state, plan)
    return state, SweepInfo(acceptance, tries, n_candidates, counts)


def _part_to_slice(n_data: int, sweep: int) -> Task:
    """Return the rows whose turn it is."""
    n_turns = -(-n_data // MOST_SLICED)
    turn = sweep % n_turns
    return turn * n_data // n_turns, (turn + 1) * n_data // n_turns


def plan_for(n_data: int, adapting: bool, sweep: int) -> dict[str, int]:
    """Return how many structural moves of each kind a sweep makes.

    With few data there are fewer, because little can change; with many, there are as many whatever
    their number, so that they take less than half of a sweep where it takes long. Nodes that are
    missing between others are what chains find last, so up to some thousands of data there are
    three times as many inserts, and twice as many refitted regrafts. Single data are moved in two
    ways, half of them each. While burning in, many data get more splits, for from the root to
    hundreds of nodes it takes as many, and fewer moves of single data; and few of these are with
    leaves integrated out, which take long and matter where the tree is nearly right. Many data have
    trees of thousands of nodes, with all of which single data are compared; so from ``MANY`` on the
    two ways take turns, by Thue and Morse's sequence, of which every second, third or n-th sweep
    has both. The plan must not depend on the state: a move that is repeated as often as the state
    likes leaves another law invariant.
    """
    few = min(2 + n_data // 100, 8)
    many = max(few, min(3 * few, 100_000 // n_data))
    singles = max(min(n_data // 2, 125), min(n_data // 8, 250), 10)
    if adapting:
        singles = min(singles, max(1_000_000 // n_data, 100))
    plan = {
        "smart_split": max(few, min(n_data // 200, 200)) if adapting else few,
        "smart_merge": few,
        "insert": many,
        "regraft": few // 2,
        "refitted_regraft": max(few // 2, many // 3),
        "swap": few // 2,
        "reroot": few // 2,
        "singles": singles // 2,
        "leaf_singles": singles // 16 if adapting else singles - singles // 2,
    }
    if n_data >= MANY:
        plan["singles" if sweep.bit_count() % 2 else "leaf_singles"] = 0
    return plan


def scores(state: State) -> Scores:
    """Return the densities of a state. O(nodes x dimensions)."""
    data, parameters = _score(state.model, state.table, state.statistics, state.theta)
    sticks = state.sticks
    partition = log_partition(state.table, sticks.alpha0, sticks.decay, sticks.gamma)
    if state.latent is None:
        return Scores(float(data), float(partition), float(parameters))
    return Scores(
        float(data) + state.latent.log_data,
        float(partition),
        float(parameters) + state.latent.log_prior,
    )


@compiled
def _score(model: Any, table: NodeTable, statistics: Floats, theta: Floats) -> tuple[float, float]:
    data = 0.0
    for node in range(theta.shape[0]):
        data += contract.log_likelihood_of_sums(
            model, theta[node], table.n_here[node], statistics[node]
        )
    return data, contract.log_prior(model, table, theta)


def run_chain(
    seed: int,
    chain: int,
    state: State,
    data: Any,
    burn_in: int,
    run: Run = map,
    schedule: str = "default",
    after: int = 0,
    topics: TopicMoves | None = None,
    n_fixed: int = 0,
) -> Iterator[Swept]:
    """Yield the chain after each sweep, for ever; sweeps are numbered from ``after`` + 1.

    Step sizes adapt in the first ``burn_in`` sweeps and stay as they are from then on. Topics of
    tokens stay in the first ``n_fixed``, and are moved as ``topics`` says from then on.
    """
    number = after
    spare: list[Slots] = []
    while True:
        number += 1
        key = make_key(seed, chain, number)
        of_tokens = topics if number > n_fixed else None
        state, info = sweep(key, state, data, run, schedule, number <= burn_in, spare, of_tokens)
        yield Swept(number, state, scores(state), info)
