"""A vector of sixteen float32, for compiled code: draws among many weights, a block at a time.

A draw from weights w[0], w[1], ... wants their running sum, which is a chain of additions, one
after the other. Here sixteen chains run abreast: weights stand in blocks of sixteen, and lane l
sums w[l], w[16 + l], ... by itself. The cumulative sum then runs over the weights in another order,
lane by lane, the lanes by columns (:func:`drawing_order`)::

    l = 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, ...,    and w[l], w[16 + l], w[32 + l], ... within lane l

:func:`offsets` says what comes before each lane. An entry is drawn by counting how many
cumulative sums are at most a uniform share of the total: comparisons of whole vectors, without a
branch. Which order it is makes no difference to the law, but it does to the draws: all processors
have the same one, and every sum has one fixed order. LLVM cuts the vectors into what a processor
has (one register with AVX-512, two with AVX2, four with SSE).

Indices are not checked: callers see to them.
"""

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, register_model

from treestick._jit import compiled, inlined

Floats32 = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

LANES = 16
COLUMNS = 4


@compiled
def padded(n: int) -> int:
    """Return the next multiple of the number of lanes."""
    return (n + LANES - 1) // LANES * LANES


@compiled
def drawing_order(width: int) -> Integers:
    """Return the weights, ``width`` of them, in the order of the cumulative sum; ``width`` last.

    The last entry is what rounding can lead to: see :func:`drawn_entry`.
    """
    order = np.empty(width + 1, dtype=np.int64)
    place = 0
    for column in range(COLUMNS):
        for group in range(LANES // COLUMNS):
            for block in range(0, width, LANES):
                order[place] = block + group * COLUMNS + column
                place += 1
    order[width] = width
    return order


@compiled
def make_running(width: int) -> Floats32:
    """Return room for the running sums of ``width`` weights, one block of zeros before and behind.

    The sum of lane l up to weight k = 16 b + l stands at 16 + k, the one without it at k.
    """
    return np.zeros(width + 2 * LANES, dtype=np.float32)


@inlined
def drawn_entry(running: Floats32, order: Integers, place: int) -> Any:
    """Return the weight at ``place`` of the order; another one if that is 0.

    Cumulative sums that are equal but for rounding can lead to a weight of 0 next to where they
    belong, or behind the end, about once in ten million draws. The nearest one before is returned
    then, or else the nearest one behind.
    """
    entry = order[np.uint64(place)]
    if running[np.uint64(entry + LANES)] > running[np.uint64(entry)]:
        return entry
    for other in range(place - 1, -1, -1):
        if running[order[other] + LANES] > running[order[other]]:
            return order[other]
    for other in range(place + 1, order.size - 1):
        if running[order[other] + LANES] > running[order[other]]:
            return order[other]
    raise ValueError("all weights of a draw are 0")


if numba.config.DISABLE_JIT:

    def load(array: Any, start: int) -> Any:
        """Return sixteen entries."""
        return array[start : start + LANES].copy()

    def store(array: Any, start: int, values: Any) -> None:
        """Write sixteen entries."""
        array[start : start + LANES] = values

    def fetch(array: Any, start: int) -> None:
        """Ask for sixteen entries, which are needed soon."""

    def fill(x: Any) -> Any:
        """Return a vector with x in all lanes."""
        return np.full(LANES, x, dtype=np.float32)

    def add(a: Any, b: Any) -> Any:
        """Return the sum."""
        return a + b

    def multiply(a: Any, b: Any) -> Any:
        """Return the product, lane by lane."""
        return a * b

    def replaced(a: Any, lane: Any, x: Any) -> Any:
        """Return the vector with x in one lane; as it is, if there is no such lane."""
        if 0 <= lane < LANES:
            a = a.copy()
            a[lane] = x
        return a

    def offsets(sums: Any) -> Any:
        """Return what comes before each lane, and the total."""
        groups = sums.reshape(-1, COLUMNS)
        before = np.zeros_like(groups)
        before[1] = groups[0]
        before[2] = before[1] + groups[1]
        before[3] = before[2] + groups[2]
        columns = before[3] + groups[3]
        for step in (1, 2):
            columns = columns + np.concatenate([np.zeros(step, np.float32), columns[:-step]])
        earlier = np.concatenate([np.zeros(1, np.float32), columns[:-1]])
        return (earlier + before).ravel(), columns[-1]

    def count_at_most(a: Any, x: Any) -> int:
        """Return in how many lanes there is x or less."""
        return int(np.count_nonzero(a <= x))

else:
    INDEX = ir.IntType(32)
    VECTOR = ir.VectorType(ir.FloatType(), LANES)

    class Lanes(types.Type):
        """Numba's type of the vector; it exists in compiled code only."""

        def __init__(self) -> None:
            super().__init__("Lanes")

    @register_model(Lanes)
    class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
        def __init__(self, manager: Any, described: Any) -> None:
            super().__init__(manager, described, VECTOR)

    LANES_TYPE = Lanes()

    def _numbers(numbers: Any) -> Any:
        numbers = list(numbers)
        return ir.Constant(ir.VectorType(INDEX, len(numbers)), numbers)

    def _everywhere(builder: Any, kind: Any, x: Any) -> Any:
        one = builder.insert_element(ir.Constant(kind, ir.Undefined), x, INDEX(0))
        return builder.shuffle_vector(one, one, _numbers([0] * LANES))

    def _place(context: Any, builder: Any, kind: Any, array: Any, start: Any) -> Any:
        data = context.make_array(kind)(context, builder, array).data
        return builder.bitcast(builder.gep(data, [start]), VECTOR.as_pointer())

    def _is_row(kind: Any) -> bool:
        return isinstance(kind, types.Array) and kind.ndim == 1 and (
            kind.dtype == types.float32 and kind.layout == "C"
        )  # fmt: skip

    @intrinsic  # type: ignore[untyped-decorator]
    def load(typing_context: Any, array: Any, start: Any) -> Any:
        """Return sixteen entries."""
        if not _is_row(array):
            return None  # Numba then says that there is no such function

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place = _place(context, builder, signature.args[0], *arguments)
            return builder.load(place, align=4)

        return LANES_TYPE(array, types.intp), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def store(typing_context: Any, array: Any, start: Any, values: Any) -> Any:
        """Write sixteen entries."""
        if not _is_row(array):
            return None

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place = _place(context, builder, signature.args[0], *arguments[:2])
            builder.store(arguments[2], place, align=4)
            return context.get_dummy_value()

        return types.void(array, types.intp, LANES_TYPE), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def fetch(typing_context: Any, array: Any, start: Any) -> Any:
        """Ask for sixteen entries, which are needed soon."""
        if not _is_row(array):
            return None

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = ir.IntType(8).as_pointer()
            place = _place(context, builder, signature.args[0], *arguments)
            kind = ir.FunctionType(ir.VoidType(), [pointer, INDEX, INDEX, INDEX])
            ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
            # To be read, to be kept near, data.
            builder.call(ask, [builder.bitcast(place, pointer), INDEX(0), INDEX(3), INDEX(1)])
            return context.get_dummy_value()

        return types.void(array, types.intp), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def fill(typing_context: Any, x: Any) -> Any:
        """Return a vector with x in all lanes."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _everywhere(builder, VECTOR, arguments[0])

        return LANES_TYPE(types.float32), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def add(typing_context: Any, a: Any, b: Any) -> Any:
        """Return the sum."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.fadd(*arguments)

        return LANES_TYPE(LANES_TYPE, LANES_TYPE), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def multiply(typing_context: Any, a: Any, b: Any) -> Any:
        """Return the product, lane by lane."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.fmul(*arguments)

        return LANES_TYPE(LANES_TYPE, LANES_TYPE), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def replaced(typing_context: Any, a: Any, lane: Any, x: Any) -> Any:
        """Return the vector with x in one lane; as it is, if there is no such lane."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            chosen = _everywhere(
                builder, ir.VectorType(INDEX, LANES), builder.trunc(arguments[1], INDEX)
            )
            is_it = builder.icmp_signed("==", chosen, _numbers(range(LANES)))
            return builder.select(is_it, _everywhere(builder, VECTOR, arguments[2]), arguments[0])

        return LANES_TYPE(LANES_TYPE, types.intp, types.float32), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def offsets(typing_context: Any, sums: Any) -> Any:
        """Return what comes before each lane, and the total."""
        quad = ir.VectorType(ir.FloatType(), COLUMNS)
        zeros = ir.Constant(quad, [0.0] * COLUMNS)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            def later(values: Any, step: int) -> Any:
                picked = [*range(step), *range(COLUMNS, 2 * COLUMNS - step)]
                return builder.shuffle_vector(zeros, values, _numbers(picked))

            groups = [
                builder.shuffle_vector(
                    arguments[0], arguments[0], _numbers(range(start, start + COLUMNS))
                )
                for start in range(0, LANES, COLUMNS)
            ]
            before = [groups[0], builder.fadd(groups[0], groups[1])]
            before.append(builder.fadd(before[1], groups[2]))
            columns = builder.fadd(before[2], groups[3])
            for step in (1, 2):
                columns = builder.fadd(columns, later(columns, step))
            total = builder.extract_element(columns, INDEX(COLUMNS - 1))
            earlier = later(columns, 1)
            parts = [earlier, *(builder.fadd(earlier, values) for values in before)]
            halves = [
                builder.shuffle_vector(parts[k], parts[k + 1], _numbers(range(2 * COLUMNS)))
                for k in (0, 2)
            ]
            joined = builder.shuffle_vector(*halves, _numbers(range(LANES)))
            return context.make_tuple(builder, signature.return_type, [joined, total])

        return types.containers.Tuple([LANES_TYPE, types.float32])(LANES_TYPE), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def count_at_most(typing_context: Any, a: Any, x: Any) -> Any:
        """Return in how many lanes there is x or less."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            limit = _everywhere(builder, VECTOR, arguments[1])
            are_below = builder.fcmp_ordered("<=", arguments[0], limit)
            count = builder.ctpop(builder.bitcast(are_below, ir.IntType(LANES)))
            return builder.zext(count, ir.IntType(64))

        return types.int64(LANES_TYPE, types.float32), generate


@compiled
def draw_place(running: Floats32, width: int, before: Any, limit: np.float32) -> int:
    """Return how many of the cumulative sums are at most ``limit``: a place of the order.

    ``before`` is the first result of :func:`offsets`.
    """
    place = 0
    for block in range(LANES, width + LANES, LANES):
        place += count_at_most(add(before, load(running, block)), limit)
    return place
