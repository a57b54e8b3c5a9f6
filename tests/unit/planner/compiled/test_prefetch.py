"""A request for data changes nothing, and is an instruction of its own in compiled code."""

import numba
import numpy as np
import pytest

from trimtab.planner.compiled.decorators import kernel, prefetch
from trimtab.planner.snapshot.columns import Int32, Int64


@kernel
def summed(column: Int32, order: Int64) -> int:
    total = 0
    for row in range(len(order)):
        prefetch(column, order[row])
        if 0 <= order[row] < len(column):
            total += column[order[row]]
    return total


ORDER = np.array([2, 0, 1, 3, -1, 10**12, -(10**12)])


@pytest.mark.parametrize("loop", [summed, getattr(summed, "py_func", summed)], ids=["compiled", "plain"])
def test_a_request_changes_no_result_even_outside_of_the_column(loop: "numba.core.dispatcher.Dispatcher") -> None:
    column = np.array([5, 7, 11], np.int32)
    assert loop(column, ORDER) == 23
    assert column.tolist() == [5, 7, 11]


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="needs the compiler: leave out NUMBA_DISABLE_JIT")
def test_a_request_is_in_the_compiled_code() -> None:
    # The code of a kernel from the cache cannot be read.
    compiled = numba.njit(summed.py_func)
    compiled(np.zeros(3, np.int32), ORDER)
    (code,) = compiled.inspect_llvm().values()
    assert "call void @llvm.prefetch" in code
