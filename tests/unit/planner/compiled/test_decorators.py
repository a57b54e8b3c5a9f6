"""Kernels without an entry for Python are called by kernels and, for tests, by Python."""

import os

import pytest

from trimtab.planner.compiled.decorators import inner_kernel, kernel


@inner_kernel
def twice(x: int) -> int:
    return 2 * x


@kernel
def twice_and_one(x: int) -> int:
    return twice(x) + 1


def test_an_inner_kernel_is_called_by_kernels_and_by_python() -> None:
    assert [twice_and_one(4), twice(4), twice(4.5)] == [9, 8, 9.0]


@pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="needs the compiler: leave out NUMBA_DISABLE_JIT"
)
def test_an_entry_for_python_is_compiled_only_when_python_calls() -> None:
    @inner_kernel
    def thrice(x: int) -> int:
        return 3 * x

    @kernel
    def thrice_and_one(x: int) -> int:
        return thrice(x) + 1

    assert thrice_and_one(4) == 13
    assert thrice._entry is None
    assert thrice(4) == 12
    assert thrice._entry is not None
