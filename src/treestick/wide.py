"""Many numbers at once: what the compiler does not find out by itself.

LLVM does not turn sums over rows of a table into vector instructions where the rows are looked up.
This writes them down. All sums run in one fixed order, entry by entry.
"""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

ABREAST, ROUGHLY_ABREAST = 16, 32
"""Entries of a row, of float64 and of float32."""
ROUNDING = 2.0**-24
"""Of float32: the largest error of a result, in proportion to it."""
ROW_BYTES, LINE_BYTES = 128, 64
"""Of a row, and of what a processor reads at once."""


def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return zeros that begin where a line of the cache does.

    Rows that lie across one line more than they need take a third longer to add.
    """
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.zeros(n_bytes + LINE_BYTES, dtype=np.uint8)
    start = -room.ctypes.data % LINE_BYTES
    return room[start : start + n_bytes].view(dtype).reshape(shape)


if numba.config.DISABLE_JIT:

    def add_rows(out: Any, table: Any, a: Any, b: Any, c: Any, d: Any) -> None:
        """Add four rows of a table to ``out``."""
        out += (table[a] + table[b]) + (table[c] + table[d])

else:

    @intrinsic  # type: ignore[untyped-decorator]
    def add_rows(typing_context: Any, out: Any, table: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        """Add four rows of a table to ``out``.

        Both are contiguous, of float64 (``ABREAST`` wide) or of float32 (``ROUGHLY_ABREAST``).
        Indices and widths are not checked: the caller sees to them.
        """
        number = out.dtype if isinstance(out, types.Array) else None
        if number not in (types.float64, types.float32) or (
            (out, table) != (number[::1], number[:, ::1])
        ):
            return None  # Numba then says that there is no such function

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector = ir.VectorType(context.get_value_type(number), width)

            def place(number: int, row: Any = None) -> Any:
                array = context.make_array(signature.args[number])
                start = array(context, builder, arguments[number]).data
                if row is not None:
                    start = builder.gep(start, [builder.mul(row, row.type(width))])
                return builder.bitcast(start, vector.as_pointer())

            one, two, three, four = (
                builder.load(place(1, row), align=size) for row in arguments[2:]
            )
            total = builder.fadd(builder.fadd(one, two), builder.fadd(three, four))
            target = place(0)
            before = builder.load(target, align=size)
            builder.store(builder.fadd(before, total), target, align=size)
            return context.get_dummy_value()

        size = number.bitwidth // 8
        width = ROW_BYTES // size
        row = types.intp
        return types.void(out, table, row, row, row, row), generate
