"""Randomness from a key: the words are Philox's, the laws are right, and order does not matter."""

import itertools
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from laws import ALARM, p_law, p_mean
from treestick import random
from treestick._jit import compiled
from treestick.inputs import InvalidType, InvalidValue

Floats = npt.NDArray[np.float64]
word = st.integers(0, 2**64 - 1)


@given(seed=word, chain=word, sweep=word, purpose=word, entity=word)
@settings(max_examples=200)
def test_words_are_those_of_numpys_philox(
    seed: int, chain: int, sweep: int, purpose: int, entity: int
) -> None:
    stream = random.open_stream(random.make_key(seed, chain, sweep, purpose, entity))
    ours = [int(random.next_word(stream)) for _ in range(13)]
    philox = np.random.Philox(
        key=np.array([seed, chain], dtype=np.uint64),
        counter=np.array([0, entity, purpose, sweep], dtype=np.uint64),
    )
    assert ours == philox.random_raw(13).tolist()


def test_reopening_starts_the_stream_of_the_new_key() -> None:
    key, other = random.make_key(1, entity=5), random.make_key(1, entity=6)
    stream = random.open_stream(key)
    random.next_word(stream)
    random.reopen(stream, other)
    fresh = random.open_stream(other)
    assert [random.next_word(stream) for _ in range(9)] == [
        random.next_word(fresh) for _ in range(9)
    ]


def test_a_stream_can_be_opened_behind_words_that_others_draw() -> None:
    key = random.make_key(5, 1, 2)
    stream = random.open_stream(key)
    words = [int(random.next_word(stream)) for _ in range(20)]
    for n in range(12):
        later = random.open_at(key, n)
        assert [int(random.next_word(later)) for _ in range(8)] == words[n : n + 8]


# -- laws ----------------------------------------------------------------------------------------


@compiled
def many_uniforms(key: random.Key, out: Floats) -> None:
    stream = random.open_stream(key)
    for k in range(out.size):
        out[k] = random.uniform(stream)


@compiled
def many_open_uniforms(key: random.Key, out: Floats) -> None:
    stream = random.open_stream(key)
    for k in range(out.size):
        out[k] = random.uniform_open(stream)


@compiled
def many_exponentials(key: random.Key, out: Floats) -> None:
    stream = random.open_stream(key)
    for k in range(out.size):
        out[k] = random.exponential(stream)


@compiled
def many_normals(key: random.Key, out: Floats) -> None:
    stream = random.open_stream(key)
    for k in range(out.size):
        out[k] = random.normal(stream)


@compiled
def many_log_gammas(key: random.Key, out: Floats, shape: float) -> None:
    stream = random.open_stream(key)
    for k in range(out.size):
        out[k] = random.log_gamma(stream, shape)


@compiled
def many_gammas(key: random.Key, out: Floats, shape: float) -> None:
    stream = random.open_stream(key)
    for k in range(out.size):
        out[k] = random.gamma(stream, shape)


@compiled
def many_betas(key: random.Key, out: Floats, a: float, b: float) -> None:
    stream = random.open_stream(key)
    for k in range(out.size):
        out[k] = random.beta(stream, a, b)


@compiled
def many_log_betas(key: random.Key, logs: Floats, log_rests: Floats, a: float, b: float) -> None:
    stream = random.open_stream(key)
    for k in range(logs.size):
        logs[k], log_rests[k] = random.log_beta(stream, a, b)


@compiled
def many_dirichlets(key: random.Key, out: Floats, concentrations: Floats) -> None:
    stream = random.open_stream(key)
    for k in range(out.shape[0]):
        random.dirichlet(stream, concentrations, out[k])


@compiled
def many_categoricals(key: random.Key, out: npt.NDArray[np.int64], weights: Floats) -> None:
    stream = random.open_stream(key)
    for k in range(out.size):
        out[k] = random.categorical(stream, weights)


@compiled
def first_uniform_of_each(keys: npt.NDArray[np.uint64], out: Floats) -> None:
    for k in range(out.size):
        key = random.Key(keys[k, 0], keys[k, 1], keys[k, 2], keys[k, 3], keys[k, 4])
        out[k] = random.uniform(random.open_stream(key))


def draw(fill: Callable[..., None], *parameters: float, n: int = 100_000) -> Floats:
    out = np.empty(n)
    fill(random.make_key(20260), out, *parameters)
    return out


@pytest.mark.parametrize(
    ("fill", "law"),
    [
        (many_uniforms, stats.uniform()),
        (many_open_uniforms, stats.uniform()),
        (many_exponentials, stats.expon()),
        (many_normals, stats.norm()),
    ],
)
def test_plain_laws(fill: Callable[..., None], law: stats.rv_continuous) -> None:
    drawn = draw(fill)
    assert stats.kstest(drawn, law.cdf).pvalue > ALARM
    for power in (1, 2):
        assert p_mean(drawn**power, float(law.moment(power))) > ALARM
    # Neighbours in a stream are independent.
    assert stats.pearsonr(drawn[:-1], drawn[1:]).pvalue > ALARM


def test_layers_of_the_ziggurat_end_at_zero_and_its_tail_is_normal() -> None:
    heights, edges = random._HEIGHTS, random._EDGES
    areas = edges[1:-1] * np.diff(heights[1:])
    np.testing.assert_allclose(areas, areas[0], rtol=1e-9)  # the last one too: it closes at x = 0
    np.testing.assert_allclose(edges[0] * heights[1], areas[0], rtol=1e-12)
    drawn = np.abs(draw(many_normals, n=2_000_000))
    last = random._LAST_EDGE
    for edge in (edges[200], edges[20], edges[2], last, last + 0.2):
        expected = 2.0 * stats.norm.sf(edge)
        assert stats.binomtest(int(np.sum(drawn > edge)), drawn.size, expected).pvalue > ALARM
    law = stats.truncnorm(last, np.inf)
    assert stats.kstest(drawn[drawn > last], law.cdf).pvalue > ALARM


@pytest.mark.parametrize("shape", [0.01, 0.3, 1.0, 2.5, 40.0, 1e6])
def test_gamma(shape: float) -> None:
    drawn = draw(many_gammas, shape)
    assert stats.kstest(drawn, stats.gamma(shape).cdf).pvalue > ALARM
    assert p_mean(drawn, shape) > ALARM
    if shape > 1.0:  # below, squares are too skewed for a normal mean
        assert p_mean((drawn - shape) ** 2, shape) > ALARM


def test_gamma_in_logarithms_reaches_where_gamma_underflows() -> None:
    shape = 1e-3  # more than a third of the variates are below 1e-150, some below 1e-1000
    logs = draw(many_log_gammas, shape)
    assert logs.min() < -2500
    # Near 0 the distribution function is g**shape / Gamma(1 + shape), up to a factor 1 + O(g).
    near_zero = logs[logs < -30]
    cdf = np.exp(shape * near_zero - math.lgamma(1 + shape))
    most = math.exp(-30 * shape - math.lgamma(1 + shape))
    assert stats.kstest(cdf / most, stats.uniform().cdf).pvalue > ALARM


@pytest.mark.parametrize(
    ("a", "b"), [(1.0, 3.0), (0.2, 0.1), (30.0, 2.0), (1.0, 0.05), (500.0, 1e4)]
)
def test_beta(a: float, b: float) -> None:
    drawn = draw(many_betas, a, b)
    law = stats.beta(a, b)
    # Where the law has its mass within rounding of 1, compare the cells that can be told apart.
    edges = law.ppf(np.linspace(0, 1, 21)[1:-1])
    edges = np.unique(edges[edges < 1 - 1e-12])
    probabilities = np.diff([0.0, *law.cdf(edges), 1.0])
    cell = np.searchsorted(edges, drawn, side="left")
    assert p_law(cell, dict(enumerate(probabilities))) > ALARM
    assert p_mean(drawn, a / (a + b)) > ALARM


def test_log_beta_keeps_both_ends() -> None:
    logs, log_rests = np.empty(20_000), np.empty(20_000)
    many_log_betas(random.make_key(3), logs, log_rests, 1.0, 1e-3)
    np.testing.assert_allclose(np.logaddexp(logs, log_rests), 0.0, atol=1e-12)
    # 1 - x is U**1000 here: its logarithm is exponential with mean 1000, far below rounding of x.
    assert stats.kstest(-log_rests / 1000, stats.expon().cdf).pvalue > ALARM
    many_log_betas(random.make_key(3), logs, log_rests, 1e-320, 3e-320)
    assert set(np.unique(np.exp(logs))) == {0.0, 1.0}
    assert p_law(np.exp(logs), {0: 0.75, 1: 0.25}) > ALARM


def test_dirichlet() -> None:
    concentrations = np.array([0.5, 2.0, 0.0, 1.5])
    drawn = np.empty((100_000, 4))
    many_dirichlets(random.make_key(5), drawn, concentrations)
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0, rtol=1e-12)
    total = concentrations.sum()
    assert np.all(drawn[:, 2] == 0.0)
    for k in (0, 1, 3):
        marginal = stats.beta(concentrations[k], total - concentrations[k])
        assert stats.kstest(drawn[:, k], marginal.cdf).pvalue > ALARM
    assert p_mean(drawn[:, 0] * drawn[:, 1], 0.5 * 2.0 / (total * (total + 1))) > ALARM


@pytest.mark.parametrize("scale", [1e-3, 1e-320])
def test_dirichlet_with_tiny_concentrations_chooses_one(scale: float) -> None:
    drawn = np.empty((50_000, 3))
    many_dirichlets(random.make_key(6), drawn, scale * np.array([1.0, 2.0, 5.0]))
    assert np.all(np.isfinite(drawn))
    assert p_mean(drawn[:, 2], 5 / 8) > ALARM
    assert np.mean(drawn.max(axis=1) > 0.99) > 0.97


def test_categorical() -> None:
    weights = np.array([0.0, 3.0, 1.0, 0.0, 6.0, 0.0])
    drawn = np.empty(100_000, dtype=np.int64)
    many_categoricals(random.make_key(7), drawn, weights)
    assert set(np.unique(drawn)) == {1, 2, 4}
    assert p_law(drawn, {1: 0.3, 2: 0.1, 4: 0.6}) > ALARM


@pytest.mark.parametrize("weights", [[0.0, 0.0], [1.0, math.nan], [1.0, math.inf], [2.0, -1.0], []])
def test_categorical_refuses_what_is_no_law(weights: list[float]) -> None:
    stream = random.open_stream(random.make_key(1))
    with pytest.raises(ValueError, match="weights of a categorical draw must"):
        random.categorical(stream, np.array(weights))


def test_beta_needs_a_shape_above_zero() -> None:
    stream = random.open_stream(random.make_key(1))
    with pytest.raises(ValueError, match="shape above 0"):
        random.beta(stream, 0.0, 0.0)
    assert random.beta(stream, 0.0, 1.0) == 0.0
    assert random.beta(stream, 1.0, 0.0) == 1.0


@pytest.mark.parametrize("shape", [-1.0, math.nan, math.inf])
def test_gamma_refuses_a_negative_shape(shape: float) -> None:
    with pytest.raises(ValueError, match="shape"):
        random.gamma(random.open_stream(random.make_key(1)), shape)


def test_open_uniforms_cannot_reach_the_ends() -> None:
    stream = random.open_stream(random.make_key(1))
    random.next_word(stream)
    for word_given, closed, open_ends in (
        (0, 0.0, 2.0**-53),
        (2**64 - 1, 1 - 2.0**-53, 1 - 2.0**-53),
    ):
        for draw_one, expected in ((random.uniform, closed), (random.uniform_open, open_ends)):
            stream[6:10] = word_given  # the words of the current block
            stream[10] = 0
            assert draw_one(stream) == expected
            assert expected < 1.0


# -- keys ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", range(5))
def test_streams_of_neighbouring_keys_are_independent(field: int) -> None:
    keys = np.full((100_000, 5), 7, dtype=np.uint64)
    keys[:, field] = np.arange(100_000)
    first = np.empty(100_000)
    first_uniform_of_each(keys, first)
    assert stats.kstest(first, stats.uniform().cdf).pvalue > ALARM
    assert stats.pearsonr(first[:-1], first[1:]).pvalue > ALARM
    pairs = np.floor(first[:-1] * 8) * 8 + np.floor(first[1:] * 8)
    assert p_law(pairs[::2], dict.fromkeys(range(64), 1 / 64)) > ALARM


def test_every_field_matters() -> None:
    key = random.make_key(1, 2, 3, 4, 5)
    words = {int(random.next_word(random.open_stream(key)))}
    for field in key._fields:
        other = key._replace(**{field: np.uint64(99)})
        words.add(int(random.next_word(random.open_stream(other))))
    assert len(words) == 6


def test_children_have_entities_of_their_own() -> None:
    entities = set()
    for seed, chain, sweep, parent in itertools.product((1, 2), (0, 3), (0, 1), (0, 12345)):
        key = random.make_key(seed, chain, sweep)
        entities |= {int(random.child_entity(key, parent, k)) for k in range(500)}
    assert len(entities) == 2 * 2 * 2 * 2 * 500


def test_the_same_key_gives_the_same_values_in_any_thread_and_order() -> None:
    def values(entity: int) -> list[float]:
        out = np.empty(200)
        many_gammas(random.make_key(11, entity=entity), out, 0.7)
        return out.tolist()

    entities = list(range(300))
    serial = {entity: values(entity) for entity in entities}
    shuffled = np.random.default_rng(0).permutation(entities).tolist()
    for n_threads in (2, 5):
        with ThreadPoolExecutor(n_threads) as pool:
            assert dict(zip(shuffled, pool.map(values, shuffled), strict=True)) == serial


SCRIPT = """
import json, sys
import numpy as np
from treestick import random, prior
stream = random.open_stream(random.make_key(2**63, 1, 2, 3, 2**64 - 1))
words = [int(random.next_word(stream)) for _ in range(50)]
floats = [draw(stream) for draw in (random.uniform, random.normal, random.exponential)]
floats += [random.gamma(stream, a) for a in (0.01, 0.5, 3.0)]
floats += [random.beta(stream, 2.0, 0.5), *random.log_beta(stream, 1.0, 1e-3)]
out = np.empty(3)
random.dirichlet(stream, np.array([0.1, 2.0, 3.0]), out)
floats += out.tolist()
words += [int(random.child_entity(random.make_key(4), 8, 9)), random.categorical(stream, out)]
urn = prior.draw_urn(60, 5.0, 0.5, 1.0, 9)
sticks = prior.draw_sticks(60, 5.0, 0.5, 1.0, 9)
trees = [t.parent.tolist() + t.assignments.tolist() for t in (urn, sticks)]
print(json.dumps([words, floats + urn.mass.tolist() + sticks.mass.tolist(), trees]))
"""


def test_another_process_and_the_uncompiled_code_draw_the_same() -> None:
    """Compiled exp and log differ from Python's in the last bit; words and trees must not."""

    def run(**environment: str) -> list[list[float]]:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        result: list[list[float]] = json.loads(done.stdout)
        return result

    compiled_run, plain_run = run(), run(NUMBA_DISABLE_JIT="1")
    assert compiled_run == run()
    assert compiled_run[0] == plain_run[0]
    assert compiled_run[2] == plain_run[2]
    np.testing.assert_allclose(compiled_run[1], plain_run[1], rtol=1e-12)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seeds_out_of_range(seed: int) -> None:
    with pytest.raises(InvalidValue, match=f"seed={seed} is not a whole number from 0 to"):
        random.make_key(seed)


@pytest.mark.parametrize("seed", [1.0, "1", None, True])
def test_seeds_of_a_wrong_type(seed: object) -> None:
    with pytest.raises(InvalidType, match="seed="):
        random.make_key(seed)  # type: ignore[arg-type]
