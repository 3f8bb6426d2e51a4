"""Eight float64 at once, for compiled code: one formula for numbers and for packs of them.

LLVM calls exp and log of the C library once for each number, and a loop that does so is not turned
into vector instructions. A pack is a vector of eight numbers with ``+ - * /``, and functions here
take numbers or packs, in any mixture. What is written with them serves for both::

    small = exp(-size(t))
    share = where_less(0.0, t, 1.0, small) / (1.0 + small)

Packs are values: there is no ``+=``. They are loaded from float64 or float32, and stored to either,
which is then rounded. Of numbers, :func:`exp` and :func:`log` are those of the C
library; of packs, polynomials. Nothing is fused and no sum changes its order, so all processors
have the same bits: LLVM cuts a pack into what they have (one register with AVX-512, two with AVX2,
four with SSE). Polynomials know nothing of NaN, infinities and the logarithm of 0: what they make
of these is finite and means nothing, so callers keep them away. Lanes do not meet but in
:func:`any_less`, :func:`largest_of` and :func:`total`.
"""

import math
import operator
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, overload, register_model

from treestick._jit import compiled

Floats = npt.NDArray[np.float64]

WIDTH = 8

if numba.config.DISABLE_JIT:

    def fill(x: Any) -> Any:
        """Return a pack with x in all lanes."""
        return np.full(WIDTH, x)

    def where_less(a: Any, b: Any, x: Any, y: Any) -> Any:
        """Return x where a < b, else y."""
        return np.where(a < b, x, y)[()]

    def any_less(a: Any, b: Any) -> bool:
        """Say whether a < b in any lane."""
        return bool(np.any(a < b))

    def exp(x: Any) -> Any:
        """Return e**x."""
        return np.exp(x)

    def log(x: Any) -> Any:
        """Return the logarithm of x."""
        return np.log(x)

    def sqrt(x: Any) -> Any:
        """Return the square root of x."""
        return np.sqrt(x)

    def log_gamma(x: Any) -> Any:
        """Return the logarithm of the gamma function of x."""
        return np.vectorize(math.lgamma)(x)[()]

    def _load(array: Any, start: Any) -> Any:
        return array[start : start + WIDTH].astype(np.float64)

    def _store(array: Any, start: Any, pack: Any) -> None:
        array[start : start + WIDTH] = pack

    def _lane(pack: Any, k: Any) -> Any:
        return pack[k]

    def with_lane(pack: Any, k: Any, x: Any) -> Any:
        """Return the pack with x in lane k."""
        pack = pack.copy()
        pack[k] = x
        return pack

else:
    _NUMBER, _WORD, _INDEX = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
    _VECTOR, _WORDS = ir.VectorType(_NUMBER, WIDTH), ir.VectorType(_WORD, WIDTH)

    class Pack(types.Type):
        """Numba's type of a pack; it exists in compiled code only."""

        def __init__(self) -> None:
            super().__init__("Pack")

    @register_model(Pack)
    class _PackModel(models.PrimitiveModel):  # type: ignore[misc]
        def __init__(self, manager: Any, described: Any) -> None:
            super().__init__(manager, described, _VECTOR)

    PACK = Pack()

    def _everywhere(builder: Any, x: Any) -> Any:
        one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), x, _INDEX(0))
        zeros = ir.Constant(ir.VectorType(_INDEX, WIDTH), [0] * WIDTH)
        return builder.shuffle_vector(one, one, zeros)

    def _as_packs(builder: Any, signature: Any, values: Any) -> list[Any]:
        """Return values that are numbers as packs of them."""
        return [
            value if kind == PACK else _everywhere(builder, value)
            for kind, value in zip(signature.args, values, strict=True)
        ]

    def _kinds(*kinds: Any) -> list[Any]:
        return [kind if kind == PACK else types.float64 for kind in kinds]

    def _words(number: int) -> Any:
        return ir.Constant(_WORDS, [number] * WIDTH)

    # -- operators ---------------------------------------------------------------------------------

    def _define_operator(of_python: Any, instruction: str) -> None:
        """Let ``of_python`` be an instruction of LLVM, where one side is a pack."""
        sides = [(PACK, PACK), (PACK, types.float64), (types.float64, PACK)]

        @infer_global(of_python)
        class Template(ConcreteTemplate):  # type: ignore[misc]
            cases = tuple(signature(PACK, *pair) for pair in sides)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, instruction)(*_as_packs(builder, signature, arguments))

        for pair in sides:
            lower_builtin(of_python, *pair)(generate)

    _define_operator(operator.add, "fadd")
    _define_operator(operator.sub, "fsub")
    _define_operator(operator.mul, "fmul")
    _define_operator(operator.truediv, "fdiv")

    @infer_global(operator.neg)
    class _Negative(ConcreteTemplate):  # type: ignore[misc]
        cases = (signature(PACK, PACK),)

    @lower_builtin(operator.neg, PACK)  # type: ignore[untyped-decorator]
    def _negative(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fneg(arguments[0])

    # -- in and out --------------------------------------------------------------------------------

    @intrinsic  # type: ignore[untyped-decorator]
    def fill(typing_context: Any, x: Any) -> Any:
        """Return a pack with x in all lanes."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _everywhere(builder, arguments[0])

        return PACK(types.float64), generate

    def _is_row(kind: Any) -> bool:
        return isinstance(kind, types.Array) and (
            kind.dtype in (types.float64, types.float32) and (kind.ndim, kind.layout) == (1, "C")
        )

    def _place(context: Any, builder: Any, kind: Any, array: Any, start: Any) -> Any:
        data = context.make_array(kind)(context, builder, array).data
        vector = ir.VectorType(context.get_value_type(kind.dtype), WIDTH)
        return builder.bitcast(builder.gep(data, [start]), vector.as_pointer())

    @intrinsic  # type: ignore[untyped-decorator]
    def _load(typing_context: Any, array: Any, start: Any) -> Any:
        if not _is_row(array):
            return None  # Numba then says that there is no such function

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place = _place(context, builder, signature.args[0], *arguments)
            found = builder.load(place, align=array.dtype.bitwidth // 8)
            return found if array.dtype == types.float64 else builder.fpext(found, _VECTOR)

        return PACK(array, types.intp), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def _store(typing_context: Any, array: Any, start: Any, pack: Any) -> Any:
        if not _is_row(array):
            return None

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place = _place(context, builder, signature.args[0], *arguments[:2])
            pack = arguments[2]
            if array.dtype != types.float64:
                pack = builder.fptrunc(pack, place.type.pointee)
            builder.store(pack, place, align=array.dtype.bitwidth // 8)
            return context.get_dummy_value()

        return types.void(array, types.intp, PACK), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def _lane(typing_context: Any, pack: Any, k: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.extract_element(*arguments)

        return types.float64(PACK, types.intp), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def with_lane(typing_context: Any, pack: Any, k: Any, x: Any) -> Any:
        """Return the pack with x in lane k."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.insert_element(arguments[0], arguments[2], arguments[1])

        return PACK(PACK, types.intp, types.float64), generate

    # -- comparisons -------------------------------------------------------------------------------

    @intrinsic  # type: ignore[untyped-decorator]
    def _where_less(typing_context: Any, a: Any, b: Any, x: Any, y: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            a, b, x, y = _as_packs(builder, signature, arguments)
            return builder.select(builder.fcmp_ordered("<", a, b), x, y)

        return PACK(*_kinds(a, b, x, y)), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def _any_less(typing_context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            is_less = builder.fcmp_ordered("<", *_as_packs(builder, signature, arguments))
            lanes = builder.bitcast(is_less, ir.IntType(WIDTH))
            return builder.icmp_unsigned("!=", lanes, lanes.type(0))

        return types.boolean(*_kinds(a, b)), generate

    def where_less(a: Any, b: Any, x: Any, y: Any) -> Any:
        """Return x where a < b, else y."""
        raise NotImplementedError("for compiled code")

    @overload(where_less, strict=False)  # type: ignore[untyped-decorator]
    def _choose_where_less(a: Any, b: Any, x: Any, y: Any) -> Any:
        if PACK in (a, b, x, y):
            return lambda a, b, x, y: _where_less(a, b, x, y)
        return lambda a, b, x, y: x if a < b else y

    def any_less(a: Any, b: Any) -> bool:
        """Say whether a < b in any lane."""
        raise NotImplementedError("for compiled code")

    @overload(any_less, strict=False)  # type: ignore[untyped-decorator]
    def _choose_any_less(a: Any, b: Any) -> Any:
        if PACK in (a, b):
            return lambda a, b: _any_less(a, b)
        return lambda a, b: a < b

    # -- exp, log, and so on ---------------------------------------------------------------------

    _ROUNDING = 1.5 * 2.0**52
    """Added to a number below 2**51, it leaves the nearest whole number in the lowest bits."""
    _LOG2_HIGH = math.floor(math.log(2.0) * 2.0**32) * 2.0**-32
    _LOG2_LOW = 1.9082149292705877e-10
    """Log 2 in two parts. The first has so few bits that its multiples are exact."""
    _HALF_ROOT = int(np.float64(math.sqrt(0.5)).view(np.int64))
    _WHOLE = int(np.float64(_ROUNDING).view(np.int64))
    _FRACTION_BITS = 52

    @intrinsic  # type: ignore[untyped-decorator]
    def _times_power(typing_context: Any, x: Any, rounded: Any) -> Any:
        """Return x * 2**n, where ``rounded`` is ``_ROUNDING`` + n."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            x, n = (builder.bitcast(each, _WORDS) for each in arguments)
            return builder.bitcast(builder.add(x, builder.shl(n, _words(_FRACTION_BITS))), _VECTOR)

        return PACK(PACK, PACK), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def _parts(typing_context: Any, x: Any) -> Any:
        """Return m and ``_ROUNDING`` + n such that x = m * 2**n, with m from sqrt(1/2) on."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = builder.bitcast(arguments[0], _WORDS)
            n = builder.ashr(builder.sub(word, _words(_HALF_ROOT)), _words(_FRACTION_BITS))
            m = builder.sub(word, builder.shl(n, _words(_FRACTION_BITS)))
            both = [m, builder.add(n, _words(_WHOLE))]
            both = [builder.bitcast(each, _VECTOR) for each in both]
            return context.make_tuple(builder, signature.return_type, both)

        return types.containers.UniTuple(PACK, 2)(PACK), generate

    @compiled
    def _exp(x: Any) -> Any:
        """Return e**x = 2**n e**r, n whole: e**r by Taylor's series, its odd and even terms apart.

        To 4e-16. With x below -708 or above 709, it is taken as that.
        """
        x = smaller(larger(x, -708.0), 709.0)
        rounded = x * (1.0 / math.log(2.0)) + _ROUNDING
        n = rounded - _ROUNDING
        r = (x - n * _LOG2_HIGH) - n * _LOG2_LOW
        square = r * r
        even, odd = fill(1.0 / 479001600.0), fill(1.0 / 39916800.0)
        even = even * square + 1.0 / 3628800.0
        odd = odd * square + 1.0 / 362880.0
        even = even * square + 1.0 / 40320.0
        odd = odd * square + 1.0 / 5040.0
        even = even * square + 1.0 / 720.0
        odd = odd * square + 1.0 / 120.0
        even = even * square + 1.0 / 24.0
        odd = odd * square + 1.0 / 6.0
        even = even * square + 0.5
        return _times_power(1.0 + (r + square * (even + r * odd)), rounded)

    @compiled
    def _log(x: Any) -> Any:
        """Return log x = n log 2 + log(1 + f), the latter by the series in s = f / (2 + f).

        log(1 + f) = 2 (s + s**3 / 3 + s**5 / 5 + ...) and 2 s = f - s f. To 4e-16 of the larger of
        log x and 1/2, for positive numbers that are not subnormal.
        """
        m, rounded = _parts(x)
        n, f = rounded - _ROUNDING, m - 1.0
        s = f / (2.0 + f)
        square = s * s
        series = fill(2.0 / 21.0)
        for k in range(9, 0, -1):
            series = series * square + 2.0 / (2 * k + 1)
        rest = n * _LOG2_LOW - s * (f - square * series)
        return n * _LOG2_HIGH + (f + rest)

    def exp(x: Any) -> Any:
        """Return e**x."""
        raise NotImplementedError("for compiled code")

    @overload(exp, strict=False)  # type: ignore[untyped-decorator]
    def _choose_exp(x: Any) -> Any:
        if x == PACK:
            return lambda x: _exp(x)
        return lambda x: math.exp(x)

    @intrinsic  # type: ignore[untyped-decorator]
    def _sqrt(typing_context: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = ir.FunctionType(_VECTOR, [_VECTOR])
            name = f"llvm.sqrt.v{WIDTH}f64"
            root = cgutils.get_or_insert_function(builder.module, kind, name)
            return builder.call(root, arguments)

        return PACK(PACK), generate

    def sqrt(x: Any) -> Any:
        """Return the square root of x."""
        raise NotImplementedError("for compiled code")

    @overload(sqrt, strict=False)  # type: ignore[untyped-decorator]
    def _choose_sqrt(x: Any) -> Any:
        if x == PACK:
            return lambda x: _sqrt(x)
        return lambda x: math.sqrt(x)

    def log(x: Any) -> Any:
        """Return the logarithm of x."""
        raise NotImplementedError("for compiled code")

    @overload(log, strict=False)  # type: ignore[untyped-decorator]
    def _choose_log(x: Any) -> Any:
        if x == PACK:
            return lambda x: _log(x)
        return lambda x: math.log(x)

    _STIRLING = (
        1.0 / 12.0,
        -1.0 / 360.0,
        1.0 / 1260.0,
        -1.0 / 1680.0,
        1.0 / 1188.0,
        -691.0 / 360360.0,
    )
    _LOG_ROOT = 0.5 * math.log(2.0 * math.pi)

    @compiled
    def _log_gamma(x: Any) -> Any:
        """Return the logarithm of the gamma function of a pack, to 1e-13 of the larger of it and 1.

        By Stirling's series at x + 8, for Gamma(x + 8) = x (x + 1) ... (x + 7) Gamma(x). For x from
        1e-30 to 1e30.
        """
        product = x
        for k in range(1, 8):
            product = product * (x + 1.0 * k)
        y = x + 8.0
        inverse = 1.0 / y
        square = inverse * inverse
        series = fill(_STIRLING[5])
        series = series * square + _STIRLING[4]
        series = series * square + _STIRLING[3]
        series = series * square + _STIRLING[2]
        series = series * square + _STIRLING[1]
        series = series * square + _STIRLING[0]
        return (y - 0.5) * log(y) - y + (_LOG_ROOT + series * inverse) - log(product)

    def log_gamma(x: Any) -> Any:
        """Return the logarithm of the gamma function of x."""
        raise NotImplementedError("for compiled code")

    @overload(log_gamma, strict=False)  # type: ignore[untyped-decorator]
    def _choose_log_gamma(x: Any) -> Any:
        if x == PACK:
            return lambda x: _log_gamma(x)
        return lambda x: math.lgamma(x)


@compiled
def load(array: Floats, start: int, other: float) -> Any:
    """Return the entries from ``start`` on; past the end of the array, ``other``."""
    if start + WIDTH <= array.size:
        return _load(array, start)
    pack = fill(other)
    for k in range(array.size - start):
        pack = with_lane(pack, k, array[start + k])
    return pack


@compiled
def store(array: Floats, start: int, pack: Any) -> None:
    """Write the entries from ``start`` on, as far as the array goes."""
    if start + WIDTH <= array.size:
        _store(array, start, pack)
    else:
        for k in range(array.size - start):
            array[start + k] = _lane(pack, k)


@compiled
def first_of(pack: Any, n: int) -> Any:
    """Return the first ``n`` numbers of a pack, and 0 for the others."""
    for k in range(n, WIDTH):
        pack = with_lane(pack, k, 0.0)
    return pack


@compiled
def larger(a: Any, b: Any) -> Any:
    """Return the larger one."""
    return where_less(a, b, b, a)


@compiled
def smaller(a: Any, b: Any) -> Any:
    """Return the smaller one."""
    return where_less(a, b, a, b)


@compiled
def size(a: Any) -> Any:
    """Return the absolute value."""
    return larger(a, -a)


@compiled
def total(pack: Any) -> float:
    """Return the sum of all lanes."""
    sums = 0.0
    for k in range(WIDTH):
        sums += _lane(pack, k)
    return sums


@compiled
def largest_of(pack: Any) -> float:
    """Return the largest of all lanes."""
    found: float = _lane(pack, 0)
    for k in range(1, WIDTH):
        found = max(found, _lane(pack, k))
    return found
