"""Randomness from a key: a compiled Philox4x64-10 and the distributions drawn from it.

Everything random in treestick is a pure function of a :class:`Key`

    (seed, chain, sweep, purpose, entity)

and never of the order in which work happens to run. Theory of operation: Philox (Salmon, Moraes,
Dror & Shaw, *Parallel random numbers: as easy as 1, 2, 3*, 2011) maps a counter of four words and a
key of two to four random words, and different counters or keys give independent words. The five
fields and the number of the block fill these six words exactly, so no two keys share a stream::

    key = (seed, chain)        counter = (block, entity, purpose, sweep)

Rule 1. A stream is opened from a key by whoever needs it, used, and forgotten. Its words are those
of ``numpy.random.Philox(key=[seed, chain], counter=[0, entity, purpose, sweep])``, bit for bit.
Rule 2. Two uses of randomness for the same entity in one sweep have different purposes.
Rule 3. A node that no datum has visited needs no storage: the entity of its ``ordinal``-th child is
a word drawn from its own (:func:`child_entity`), so whoever needs it computes the same.
Rule 4. Draws that can be as small as 1e-400 (gamma and beta with small shapes) have a version that
returns the logarithm.

Words are unsigned 64-bit integers throughout; mixing them with signed ones would make Numba compute
in floating point, hence the many ``np.uint64``. Where a word becomes a float it is made signed
first, which takes half the time.
"""

import enum
import math
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.extending import intrinsic

from treestick._jit import compiled
from treestick.inputs import check_whole_number

Stream = npt.NDArray[np.uint64]
"""A cursor into the words of one key, changed by every draw (see :func:`open_stream`)."""

LARGEST_SEED = 2**64 - 1


class Purpose(enum.IntEnum):
    """What a stream is for. Values are part of what a seed means: never renumber them."""

    CHILD = 1
    """Entities of unseen children."""
    URN = 2
    """The paths of all data in the urn, one after the other."""
    STICKS = 3
    """The sticks of one node."""
    DART = 4
    """The path of one datum thrown at the sticks."""
    SLICE = 5
    """The slice sampling of one datum's node."""
    UNSEEN_PSI = 6
    """The psi-stick of one node that no datum has visited."""
    UNSEEN_NU = 7
    """Its nu-stick."""
    UNSEEN_THETA = 8
    """Its parameters."""
    ORDER = 9
    """The order of one node's children, and their psi-sticks."""
    NU = 10
    """The nu-stick of one hull node, given the data."""
    PSI = 11
    """The psi-stick of one represented child, given the data."""
    PARAMETERS = 12
    """The update of one node's parameters."""
    DIMENSION = 13
    """What the update of parameters decides dimension by dimension."""
    MODEL_HYPERPARAMETERS = 14
    """The hyperparameters of the model, dimension by dimension."""
    STICK_HYPERPARAMETERS = 15
    """alpha0, decay and gamma."""
    PREDICTIVE = 17
    """One datum drawn from the posterior predictive."""
    PARAMETERS_SLICE = 18
    """A second update of one node's parameters."""
    CANDIDATE = 20
    """The Gibbs draw of one datum's node among many."""
    STRUCTURE = 19
    """One proposal of the structural moves."""
    TABLES = 21
    """Where the customers of one node sit (:mod:`treestick.diffusions.dirichlet`)."""
    UNSEEN_LEVEL = 22
    """The parameters of unseen nodes below one node, where a mixture needs them."""
    ATOM_STICKS = 23
    """The atoms of one node's measure that no datum has (:mod:`treestick.diffusions.hdp`)."""
    ATOM_LINK = 24
    """Where one of them comes from."""
    ATOM = 25
    """Its parameters; or those of an atom with data."""
    ATOM_OF_DATUM = 26
    """The Gibbs draw of one datum's atom."""
    SIDE = 27
    """Where one of many data goes in a structural move."""
    SPREAD = 28
    """The diffusion of some dimensions, moved together with parameters."""
    TOKENS = 40
    """The topics of the tokens of one document."""
    FIRST_TOPICS = 41
    """Their first topics, before the first sweep."""
    PROPORTIONS = 42
    """The topic proportions of one document."""
    TOPICS = 43
    """The probabilities of one word in all topics."""
    TOPIC_PRIORS = 44
    """The concentrations of documents and of topics."""
    PSEUDO_DOCUMENT = 45
    """The topic proportions of one pseudo-document, or what they hang on."""
    NEW_TOPIC = 47
    """The probabilities of a topic that a token is the first to have."""
    NEW_DOCUMENT = 48
    """Where a new document belongs in a tree."""


class Key(NamedTuple):
    """Names one stream of random words. Fields are ``np.uint64``; :func:`make_key` makes one."""

    seed: np.uint64
    chain: np.uint64
    sweep: np.uint64
    purpose: np.uint64
    entity: np.uint64


def make_key(seed: int, chain: int = 0, sweep: int = 0, purpose: int = 0, entity: int = 0) -> Key:
    """Return the key with these fields, each a whole number from 0 to 2**64 - 1."""
    fields = {"seed": seed, "chain": chain, "sweep": sweep, "purpose": purpose, "entity": entity}
    return Key(*(np.uint64(check_whole_number(n, v, 0, LARGEST_SEED)) for n, v in fields.items()))


PART = np.uint64(32)


@compiled
def key_of_part(key: Key, part: int) -> Key:
    """Return the key of one part of a move that falls into independent parts.

    The number of the part goes above that of the chain, which is below 2**32: no two parts of any
    chains share a stream, and part 0 has the streams of the whole.
    """
    chain = key.chain | (np.uint64(part) << PART)
    return Key(key.seed, chain, key.sweep, key.purpose, key.entity)


@compiled
def key_for(key: Key, purpose: int, entity: int) -> Key:
    """Return ``key`` with another purpose and entity."""
    return Key(key.seed, key.chain, key.sweep, np.uint64(purpose), np.uint64(entity))


# -- Philox4x64-10 -------------------------------------------------------------------------------

_MULTIPLIER_0 = np.uint64(0xD2E7470EE14C6C93)
_MULTIPLIER_1 = np.uint64(0xCA5A826395121157)
_WEYL_0 = np.uint64(0x9E3779B97F4A7C15)
_WEYL_1 = np.uint64(0xBB67AE8584CAA73B)
_ROUNDS = 10
_ONE = np.uint64(1)
_11 = np.uint64(11)
_12 = np.uint64(12)

if numba.config.DISABLE_JIT:
    _MASK = 2**64 - 1

    def _multiply_high(a: np.uint64, b: np.uint64) -> np.uint64:
        return np.uint64((int(a) * int(b)) >> 64)

    def _multiply_low(a: np.uint64, b: np.uint64) -> np.uint64:
        return np.uint64((int(a) * int(b)) & _MASK)

    def _add(a: np.uint64, b: np.uint64) -> np.uint64:
        return np.uint64((int(a) + int(b)) & _MASK)

else:

    @intrinsic  # type: ignore[untyped-decorator]
    def _multiply_high(typing_context: Any, a: Any, b: Any) -> Any:
        """Return the upper 64 bits of the 128-bit product: one instruction on today's machines."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            wide = context.get_value_type(types.uint64).__class__(128)
            left, right = (builder.zext(argument, wide) for argument in arguments)
            shifted = builder.lshr(builder.mul(left, right), wide(64))
            return builder.trunc(shifted, context.get_value_type(types.uint64))

        return types.uint64(types.uint64, types.uint64), generate

    @compiled
    def _multiply_low(a: np.uint64, b: np.uint64) -> np.uint64:
        return a * b

    @compiled
    def _add(a: np.uint64, b: np.uint64) -> np.uint64:
        return a + b


@compiled
def philox(
    key_0: np.uint64,
    key_1: np.uint64,
    counter_0: np.uint64,
    counter_1: np.uint64,
    counter_2: np.uint64,
    counter_3: np.uint64,
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Return the four words of one block of Philox4x64-10."""
    for _ in range(_ROUNDS):
        high_0 = _multiply_high(_MULTIPLIER_0, counter_0)
        low_0 = _multiply_low(_MULTIPLIER_0, counter_0)
        high_1 = _multiply_high(_MULTIPLIER_1, counter_2)
        low_1 = _multiply_low(_MULTIPLIER_1, counter_2)
        counter_0 = high_1 ^ counter_1 ^ key_0
        counter_1 = low_1
        counter_2 = high_0 ^ counter_3 ^ key_1
        counter_3 = low_0
        key_0 = _add(key_0, _WEYL_0)
        key_1 = _add(key_1, _WEYL_1)
    return counter_0, counter_1, counter_2, counter_3


@compiled
def child_entity(key: Key, parent: int, ordinal: int) -> np.uint64:
    """Return the entity of child number ``ordinal`` of the node with entity ``parent``."""
    word, _, _, _ = philox(
        key.seed,
        key.chain,
        np.uint64(ordinal) + _ONE,
        np.uint64(parent),
        np.uint64(Purpose.CHILD),
        key.sweep,
    )
    return word


# -- streams -------------------------------------------------------------------------------------

# Layout of a stream: 0-1 key, 2-5 counter, 6-9 the words of the current block, 10 how many of them
# are used up.
_BUFFER = 6
_USED = 10
_STREAM_LENGTH = 11
_BLOCK = np.uint64(4)


@compiled
def open_stream(key: Key) -> Stream:
    """Return a new stream at the first word of ``key``."""
    stream = np.empty(_STREAM_LENGTH, dtype=np.uint64)
    reopen(stream, key)
    return stream


@compiled
def reopen(stream: Stream, key: Key) -> None:
    """Overwrite ``stream`` with the one of ``key``, without allocating."""
    stream[0] = key.seed
    stream[1] = key.chain
    stream[2] = np.uint64(0)
    stream[3] = key.entity
    stream[4] = key.purpose
    stream[5] = key.sweep
    stream[_USED] = _BLOCK


@compiled
def open_at(key: Key, n: int) -> Stream:
    """Return a new stream of which ``n`` words are used: what others do not need is not drawn."""
    stream = open_stream(key)
    stream[2] = np.uint64(n // np.int64(_BLOCK))
    for _ in range(n % np.int64(_BLOCK)):
        next_word(stream)
    return stream


@compiled
def next_word(stream: Stream) -> np.uint64:
    """Return 64 random bits."""
    if stream[_USED] == _BLOCK:
        stream[2] += _ONE
        a, b, c, d = philox(stream[0], stream[1], stream[2], stream[3], stream[4], stream[5])
        stream[_BUFFER] = a
        stream[_BUFFER + 1] = b
        stream[_BUFFER + 2] = c
        stream[_BUFFER + 3] = d
        stream[_USED] = np.uint64(0)
    word = stream[_BUFFER + np.int64(stream[_USED])]
    stream[_USED] += _ONE
    return word


# -- distributions -------------------------------------------------------------------------------

_N_LAYERS = 256
_LAST_EDGE = 3.6541528853610088
"""Where the tail begins: the one place at which 256 layers of equal area end at x = 0."""
_LAYER, _SIGN = np.uint64(_N_LAYERS - 1), np.uint64(_N_LAYERS)


def _cut_layers() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return where each layer ends, and the height of the density there."""
    height = math.exp(-0.5 * _LAST_EDGE**2)
    area = _LAST_EDGE * height + math.sqrt(0.5 * math.pi) * math.erfc(_LAST_EDGE * math.sqrt(0.5))
    edges = [area / height, _LAST_EDGE]  # the first layer counts the tail as part of its width
    while len(edges) < _N_LAYERS:
        height += area / edges[-1]
        edges.append(math.sqrt(-2.0 * math.log(height)))
    edges.append(0.0)
    return np.array(edges), np.exp(-0.5 * np.array(edges) ** 2)


_EDGES, _HEIGHTS = _cut_layers()


@compiled
def uniform(stream: Stream) -> float:
    """Draw from [0, 1), on a grid of 2**-53."""
    return np.int64(next_word(stream) >> _11) * 2.0**-53


@compiled
def uniform_open(stream: Stream) -> float:
    """Draw from (0, 1), never 0 or 1: the middles of 2**52 equal cells."""
    return (np.int64(next_word(stream) >> _12) + 0.5) * 2.0**-52


@compiled
def exponential(stream: Stream) -> float:
    """Draw from the exponential distribution with mean 1."""
    return -math.log(uniform_open(stream))


@compiled
def normal(stream: Stream) -> float:
    """Draw from N(0, 1) by the ziggurat of Marsaglia and Tsang (2000), with 256 layers.

    A point is uniform in one of 256 layers of equal area that cover exp(-x**2 / 2), x > 0. Layer
    i reaches to ``_EDGES[i]``, and the density covers it whole up to ``_EDGES[i + 1]``, so that one
    word decides in 99 of 100 cases. Its bits for layer, sign and place are different ones.
    """
    while True:
        word = next_word(stream)
        layer = np.int64(word & _LAYER)
        x = np.int64(word >> _11) * 2.0**-53 * _EDGES[layer]
        if x >= _EDGES[layer + 1]:
            if layer == 0:
                x = _tail_of_normal(stream)
            else:
                low, high = _HEIGHTS[layer], _HEIGHTS[layer + 1]
                if low + uniform(stream) * (high - low) >= math.exp(-0.5 * x * x):
                    continue
        return -x if word & _SIGN else x


@compiled
def _tail_of_normal(stream: Stream) -> float:
    """Draw from N(0, 1) beyond the last edge, by Marsaglia (1964)."""
    while True:
        beyond = exponential(stream) / _LAST_EDGE
        if 2.0 * exponential(stream) > beyond * beyond:
            return _LAST_EDGE + beyond


@compiled
def fill_normals(stream: Stream, out: npt.NDArray[np.float64]) -> None:
    """Fill ``out`` with draws from N(0, 1)."""
    for k in range(out.size):
        out[k] = normal(stream)


@compiled
def log_gamma(stream: Stream, shape: float) -> float:
    """Draw the logarithm of a Gamma(shape, 1) variate; -inf if shape is 0.

    Marsaglia & Tsang, *A simple method for generating gamma variables* (2000). Below 1, their
    boost G(shape) = G(shape + 1) * U**(1 / shape) is taken in logarithms, where it cannot
    underflow for any shape that matters (down to about 1e-306).
    """
    if not (0.0 <= shape < math.inf):
        raise ValueError("the shape of a gamma variate must be finite and 0 or more")
    if shape == 0.0:
        return -math.inf
    boost = 0.0
    if shape < 1.0:
        boost = math.log(uniform_open(stream)) / shape
        shape += 1.0
    scale = shape - 1.0 / 3.0
    slope = 1.0 / math.sqrt(9.0 * scale)
    while True:
        x = normal(stream)
        u = uniform_open(stream)
        root = 1.0 + slope * x
        if root <= 0.0:
            continue
        log_v = 3.0 * math.log(root)
        if math.log(u) < 0.5 * x * x + scale * (1.0 - root * root * root + log_v):
            return math.log(scale) + log_v + boost


@compiled
def gamma(stream: Stream, shape: float) -> float:
    """Draw from Gamma(shape, 1)."""
    return math.exp(log_gamma(stream, shape))


@compiled
def log_beta(stream: Stream, a: float, b: float) -> tuple[float, float]:
    """Draw x from Beta(a, b) and return log(x), log(1 - x), each to full precision."""
    if a == 0.0 and b == 0.0:
        raise ValueError("a beta variate needs a shape above 0")
    log_odds = log_gamma(stream, a) - log_gamma(stream, b)
    if math.isnan(log_odds):
        # Both shapes so small that both variates vanish: all the mass is at the two ends.
        log_odds = math.inf if uniform(stream) * (a + b) < a else -math.inf
    if log_odds > 0.0:
        log_x = -math.log1p(math.exp(-log_odds))
        return log_x, log_x - log_odds
    log_rest = -math.log1p(math.exp(log_odds))
    return log_rest + log_odds, log_rest


@compiled
def beta(stream: Stream, a: float, b: float) -> float:
    """Draw from Beta(a, b)."""
    return math.exp(log_beta(stream, a, b)[0])


@compiled
def binomial(stream: Stream, n: int, p: float) -> int:
    """Draw from Binomial(n, p), in a time that grows with the logarithm of n.

    Of n uniform numbers, those below p are counted. The i-th smallest is Beta(i, n + 1 - i), and
    given it, those on either side of it are uniform there (Relles 1972): with i in the middle, half
    of them are counted at once.
    """
    below = 0
    while n > 32:
        i = n // 2 + 1
        x = beta(stream, float(i), float(n + 1 - i))
        if x <= p:
            below += i
            n -= i
            p = (p - x) / (1.0 - x) if x < 1.0 else 0.0
        else:
            n = i - 1
            p /= x
    for _ in range(n):
        below += uniform(stream) < p
    return below


@compiled
def categorical(stream: Stream, weights: npt.NDArray[np.float64]) -> int:
    """Draw an index with probability proportional to ``weights`` (one word, linear time)."""
    total = 0.0
    for k in range(weights.size):
        if not (weights[k] >= 0.0):
            raise ValueError("weights of a categorical draw must be 0 or more")
        total += weights[k]
    if not (0.0 < total < math.inf):
        raise ValueError("weights of a categorical draw must have a finite sum above 0")
    left = uniform(stream) * total
    chosen = -1
    for k in range(weights.size):
        if weights[k] > 0.0:
            chosen = k
            left -= weights[k]
            if left < 0.0:
                break
    return chosen  # rounding can leave ``left`` at 0: then the last one with weight


@compiled
def dirichlet(
    stream: Stream, concentrations: npt.NDArray[np.float64], out: npt.NDArray[np.float64]
) -> None:
    """Draw from Dirichlet(concentrations) into ``out``. A concentration of 0 gives a weight of 0.

    The gamma variates are normalised in logarithms, so tiny concentrations do not give 0 / 0.
    """
    largest = -math.inf
    for k in range(concentrations.size):
        out[k] = log_gamma(stream, concentrations[k])
        largest = max(largest, out[k])
    if largest == -math.inf:
        # All variates vanish: the limit puts all mass on one entry.
        chosen = categorical(stream, concentrations)
        out[:] = 0.0
        out[chosen] = 1.0
        return
    total = 0.0
    for k in range(concentrations.size):
        out[k] = math.exp(out[k] - largest)
        total += out[k]
    for k in range(concentrations.size):
        out[k] /= total
