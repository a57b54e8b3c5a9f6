"""Bring data into the processor's cache before they are needed, in kernels that go over rows in no order of memory.

Changes no result; in plain Python it does nothing. A load from main memory, or from the cache that all cores share,
takes as long as dozens of instructions, and a loop over the pods of nodes has one for each column. Requested ahead, the
data arrive while other rows are worked on.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import lower_builtin, type_callable
from numba.np.arrayobj import make_array
from numpy.typing import NDArray

_READ, _KEEP, _DATA = 0, 3, 1
"""Arguments of LLVM's intrinsic: for reading, to be kept in all caches, data."""


def prefetch(column: NDArray[Any], at: int) -> None:
    """Request an element of a column, in kernels. `at` may be outside."""


@type_callable(prefetch)
def _typed(context: Any) -> Any:  # noqa: ARG001
    """Return the typing of a call."""

    def typer(column: Any, at: Any) -> Any:
        return types.none if isinstance(column, types.Array) and isinstance(at, types.Integer) else None

    return typer


@lower_builtin(prefetch, types.Array, types.Integer)
def _write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Generate the code of a call."""
    column = make_array(signature.args[0])(context, builder, arguments[0])
    element = builder.gep(column.data, [arguments[1]])
    byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
    called = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    builder.call(called, [builder.bitcast(element, byte), *(number(one) for one in (_READ, _KEEP, _DATA))])
    return context.get_dummy_value()
