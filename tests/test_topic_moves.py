"""Trees of documents: their moves against exact draws.

Joint-distribution tests as in ``test_moves.py``, with the same alarm for each of some fifty
statistics; fewer than a thousand comparisons of laws in all, with fixed seeds (see ``laws.py``).
"""

import functools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from joint import N_DATA, Move, Sample, draw_joint, fresh_sample, moved_sample, smallest
from laws import ALARM
from planting import planted
from topic_oracles import TopicsOracle, UnboundedOracle
from treestick import chain
from treestick.moves import topics
from treestick.moves.state import State
from treestick.moves.structure.plan import MOVES, move_structure
from treestick.moves.topics import TopicMoves
from treestick.random import make_key
from treestick.tokens.gibbs import COLLAPSED, INSTANTIATED
from treestick.tokens.latent import FOR_START

TASKS = [(0, 3), (3, N_DATA)]
N_MOVED = 1600

ORACLES = {
    "tokens": TopicsOracle(),
    "counts": TopicsOracle(keeps_tokens=False),
    "unbounded": UnboundedOracle(),
    "unbounded, one": UnboundedOracle((1.0, 1.0)),
}
GIVEN = TopicMoves(COLLAPSED, False, 1)
SUMMED_OUT = TopicMoves(COLLAPSED, True, 2)
ALL_AT_ONCE = TopicMoves(INSTANTIATED, False, 2)
TOGETHER = TopicMoves(INSTANTIATED, True, 1)


@functools.cache
def fresh(model: str) -> Sample:
    return fresh_sample(1, ORACLES[model], 5000)


def swept(moves: TopicMoves, schedule: str = "default") -> Move:
    return lambda key, state, data: chain.sweep(
        key, state, data, schedule=schedule, topics=moves
    )[0]  # fmt: skip


def move_of(name: str, module: Any = topics) -> Move:
    def documents(moves: TopicMoves) -> Move:
        return lambda key, state, data: module.move_documents(
            key, state, data, TASKS, 6, 0.02, moves
        )[0]  # fmt: skip

    moves: dict[str, Move] = {
        "tokens": lambda key, state, data: module.move_tokens([key], state, data, GIVEN),
        "tokens, three turns": lambda key, state, data: module.move_tokens(
            [topics.key_of_turn(key, turn) for turn in range(3)], state, data, GIVEN
        ),
        "all tokens": lambda key, state, data: module.move_tokens([key], state, data, ALL_AT_ONCE),
        "prior": lambda key, state, data: module.move_word_prior(key, state),
        "documents": documents(SUMMED_OUT),
        "documents, counts": documents(TOGETHER),
        "sweep": swept(SUMMED_OUT),
        "sweep, given": swept(GIVEN),
        "sweep, counts": swept(TOGETHER),
        "sweep, all tokens": swept(ALL_AT_ONCE),
        "paper": swept(GIVEN, "paper"),
    }
    if name in moves:
        return moves[name]
    return lambda key, state, data: move_structure(key, state, state.latent.seen, {name: 8})[0]


WITHOUT_STICKS = ("sweep", "sweep, given", "sweep, counts", "sweep, all tokens", *MOVES)
QUICK = [("sweep", "tokens")]
EVERY = [
    *((name, "tokens") for name in ("documents", "tokens", "tokens, three turns")),
    *((name, "tokens") for name in ("prior", "sweep, given", "paper")),
    *((name, "counts") for name in ("all tokens", "documents, counts")),
    *((name, "counts") for name in ("sweep, counts", "sweep, all tokens")),
    *((name, "unbounded") for name in ("tokens", "prior", "sweep, given", "paper", *MOVES)),
    *((name, "unbounded, one") for name in ("tokens", "sweep, given", "paper", *MOVES)),
]


def check(name: str, model: str) -> None:
    moved = moved_sample(2, ORACLES[model], move_of(name), N_MOVED, name not in WITHOUT_STICKS)
    p, statistic = smallest(fresh(model), moved)
    assert p > ALARM, f"{statistic}: p = {p:.2g}"


@pytest.mark.parametrize(("name", "model"), QUICK)
def test_move_leaves_the_joint_law_invariant(name: str, model: str) -> None:
    check(name, model)


@pytest.mark.long
@pytest.mark.parametrize(("name", "model"), EVERY)
def test_every_move_leaves_the_joint_law_invariant(name: str, model: str) -> None:
    check(name, model)


BUGS = {
    "tokens keep their topics when the document moves": (
        "documents", "tokens", "treestick.moves.topics",
        "    latent = latent._replace(topics=topics, counts=counts)\n    return moved",
        "    return moved",
    ),
    "tokens are drawn at the node before": (
        "documents", "tokens", "treestick.moves.topics",
        "weights_of(moved.theta, n_topics), moved.assignments, n_topics, 0.0,",
        "weights_of(state.theta, n_topics), state.assignments, n_topics, 0.0,",
    ),
    "lone leaves are drawn as if they had no tokens": (
        "tokens", "tokens", "treestick.moves.topics",
        "statistics[k] = of_documents[d, k]", "statistics[k] = 0.0",
    ),
    "an empty topic is lost with its probability": (
        "tokens", "unbounded", "treestick.moves.new_topics",
        "log_rest = np.logaddexp(log_rest, log_weights[:, k])", "pass",
    ),
    "a new topic belongs to the first document": (
        "tokens", "unbounded", "treestick.moves.new_topics",
        "state.assignments[_document_of(documents, token - 1)], log_weights, log_rest,",
        "state.assignments[0], log_weights, log_rest,",
    ),
}  # fmt: skip


QUICK_BUG = "tokens are drawn at the node before"


@pytest.mark.parametrize(
    "bug", [b if b == QUICK_BUG else pytest.param(b, marks=pytest.mark.long) for b in BUGS]
)
def test_planted_bug_is_caught(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, model, module, correct, wrong = BUGS[bug]
    wrong_module = planted(module, correct, wrong)
    if module.endswith("new_topics"):
        monkeypatch.setattr(topics, "move_tokens_of_measures", wrong_module.move_tokens_of_measures)
        wrong_module = topics
    moved = moved_sample(2, ORACLES[model], move_of(name, wrong_module), N_MOVED, True)
    assert smallest(fresh(model), moved)[0] < ALARM


@pytest.mark.parametrize("moves", [SUMMED_OUT, TOGETHER, ALL_AT_ONCE], ids=str)
def test_threads_and_tasks_change_nothing(moves: TopicMoves) -> None:
    oracle = ORACLES["tokens" if moves.sampler == COLLAPSED else "counts"]
    state, data = draw_joint(np.random.default_rng(0), oracle, 60)
    with ThreadPoolExecutor(2) as pool:
        results: list[State] = []
        for run, n_tasks in ((map, 1), (pool.map, 3)):
            now = state
            for k in range(1, 4):
                own = moves._replace(n_tasks=n_tasks)
                now, _ = chain.sweep(make_key(1, 0, k), now, data, run, topics=own)
            results.append(now)
    for field in ("assignments", "theta"):
        assert np.array_equal(getattr(results[0], field), getattr(results[1], field))
    for a, b in zip(results[0].latent.counts, results[1].latent.counts, strict=True):
        assert np.array_equal(a, b)
    assert np.array_equal(results[0].latent.topics, results[1].latent.topics)


def test_turns_have_streams_of_their_own() -> None:
    """Parts of a sweep's randomness: those of documents, of each turn, and of LDA at the start."""
    parts = [1, *(topics.FIRST_TURN + turn for turn in range(chain.TOKEN_TURNS)), FOR_START]
    assert len(set(parts)) == len(parts)
    assert max(parts) == FOR_START


def test_a_state_with_unbounded_topics_holds_together() -> None:
    state, data = draw_joint(np.random.default_rng(0), ORACLES["unbounded, one"], 40)
    seen = set()
    for k in range(1, 20):
        state, _ = chain.sweep(make_key(1, 0, k), state, data, topics=GIVEN)
        n = state.latent.n_topics
        seen.add(n)
        assert state.theta.shape[1] == state.model.n_outcomes == n + 1
        assert np.allclose(np.exp(state.theta).sum(axis=1), 1.0)
        assert np.all(state.latent.counts.of_topics[:n] > 0.0)
        assert np.array_equal(
            np.bincount(state.latent.topics, minlength=n), state.latent.counts.of_topics[:n]
        )
    assert len(seen) > 1  # topics come and go
