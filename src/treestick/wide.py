"""Sixteen numbers at once: what the compiler does not find out by itself.

LLVM does not turn sums over rows of a table into vector instructions where the rows are looked up.
This writes them down. All sums run in one fixed order, entry by entry.
"""

from typing import Any

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

ABREAST = 16
"""Entries of a row."""

if numba.config.DISABLE_JIT:

    def add_rows(out: Any, table: Any, a: Any, b: Any, c: Any, d: Any) -> None:
        """Add four rows of a table, ``ABREAST`` wide, to ``out``."""
        out += (table[a] + table[b]) + (table[c] + table[d])

else:

    @intrinsic  # type: ignore[untyped-decorator]
    def add_rows(typing_context: Any, out: Any, table: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        """Add four rows of a table, ``ABREAST`` wide, to ``out``; both contiguous, of float64.

        Indices and widths are not checked: the caller sees to them.
        """
        if out != types.float64[::1] or table != types.float64[:, ::1]:
            return None  # Numba then says that there is no such function

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector = ir.VectorType(ir.DoubleType(), ABREAST)

            def place(number: int, row: Any = None) -> Any:
                array = context.make_array(signature.args[number])
                start = array(context, builder, arguments[number]).data
                if row is not None:
                    start = builder.gep(start, [builder.mul(row, row.type(ABREAST))])
                return builder.bitcast(start, vector.as_pointer())

            one, two, three, four = (builder.load(place(1, row), align=8) for row in arguments[2:])
            total = builder.fadd(builder.fadd(one, two), builder.fadd(three, four))
            target = place(0)
            before = builder.load(target, align=8)
            builder.store(builder.fadd(before, total), target, align=8)
            return context.get_dummy_value()

        row = types.intp
        return types.void(out, table, row, row, row, row), generate
