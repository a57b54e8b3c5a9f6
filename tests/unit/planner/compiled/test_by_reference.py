"""Kernels read tuples passed by reference exactly as Python reads them, and change their arrays."""

import copy
import os
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core import types

from trimtab.planner.compiled.by_reference import by_reference, reference_type
from trimtab.planner.compiled.decorators import inner_kernel, kernel, shared_kernel

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="needs the compiler: leave out NUMBA_DISABLE_JIT"
)


class Parts(NamedTuple):
    """A tuple within a tuple."""

    counts: Any
    table: Any


@by_reference("taken", "is_full")
class Whole(NamedTuple):
    """A tuple passed to kernels."""

    flags: Any
    parts: Parts
    limit: int
    share: float
    empty: Any


def whole(**others: Any) -> Whole:
    parts = Parts(np.arange(5, dtype=np.int32), np.arange(15, dtype=np.int64).reshape(5, 3))
    given = {"flags": np.array([True, False, True]), "limit": 7, "share": 0.25, "empty": np.zeros((0, 4))}
    return Whole(**given | {"parts": parts} | others)


@shared_kernel
def taken(whole: Whole, row: int) -> int:
    whole.parts.table[row, 1] -= 1
    return int(whole.parts.table[row, 1])


@shared_kernel
def is_full(whole: Whole, row: int, room: int) -> bool:
    return bool(whole.parts.counts[row] + room > whole.limit)


@inner_kernel
def total(parts: Parts, row: int) -> int:
    found = 0
    for one in parts.table[row]:
        found += one
    return found + int(parts.counts[row])


@kernel
def read(whole: Whole, out: Any) -> float:
    at = 0
    for row in range(len(whole.parts.counts)):
        out[at] = total(whole.parts, row)
        out[at + 1] = taken(whole, row)
        out[at + 2] = is_full(whole, row, 4)
        at += 3
    out[at] = len(whole.flags) + whole.flags[0] + whole.empty.shape[1] + len(whole.empty)
    whole.flags[1] = True
    return whole.share * whole.limit


def compared(first: Whole, second: Whole) -> None:
    """Compare the kernel's results and changes with those of Python."""
    out, expected = np.zeros(16, np.int64), np.zeros(16, np.int64)
    assert read(first, out) == read.py_func(second, expected)  # type: ignore[attr-defined]
    assert out.tolist() == expected.tolist()
    assert first.parts.table.tolist() == second.parts.table.tolist()
    assert first.flags.tolist() == second.flags.tolist() == [True, True, True]


def test_kernels_read_and_write_what_python_does() -> None:
    compared(whole(), whole())
    compared(whole(limit=2, share=-3.5), whole(limit=2, share=-3.5))


def test_a_tuple_with_another_array_has_words_of_its_own() -> None:
    first = whole()
    compared(first, whole())
    table = np.full((5, 3), 9, np.int64)
    other = first._replace(parts=first.parts._replace(table=table), flags=np.array([True, False, True]))
    compared(other, whole(parts=Parts(first.parts.counts, table.copy()), flags=np.array([True, False, True])))


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy])
def test_a_copy_has_the_addresses_of_its_own_arrays(copied: Any) -> None:
    first = whole()
    compared(first, whole())
    second = copied(first)
    assert type(second) is Whole
    assert "_referred" in vars(first)
    assert vars(second) == {}


def test_the_type_goes_through_a_file() -> None:
    of = reference_type(whole())
    assert pickle.loads(pickle.dumps(of)) == of
    assert of != reference_type(whole(flags=np.zeros(3, np.uint8)))
    assert of == reference_type(whole(flags=np.zeros(9, bool), limit=1))


TABLE = np.arange(30, dtype=np.int64)


@pytest.mark.parametrize(
    "table",
    [TABLE[:15].reshape(3, 5).T, TABLE.reshape(5, 6)[:, ::2], TABLE[:15].reshape(5, 3)[::-1]],
    ids=["by columns", "every second", "backwards"],
)
def test_arrays_need_not_be_contiguous(table: Any) -> None:
    counts = np.arange(10, dtype=np.int32)[::2]
    with_copy = whole(parts=Parts(counts.copy(), table.copy()))
    compared(whole(parts=Parts(counts, table)), with_copy)


@pytest.mark.parametrize("flags", [None, "text", {}], ids=["none", "text", "mapping"])
def test_what_kernels_could_not_read_is_an_error(flags: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        reference_type(whole(flags=flags))


def test_a_shared_kernel_is_compiled_once_for_all_that_call_it() -> None:
    compared(whole(), whole())
    of = reference_type(whole())
    kept = [one.dispatcher.signatures for one in (taken, is_full)]  # type: ignore[attr-defined]
    assert [[tuple(one)[1:] for one in its if one[0] == of] for its in kept] == [
        [(types.int64,)],
        [(types.int64, types.int64)],
    ]
    assert taken(whole(), 2) == 6
    assert is_full(whole(), 2, 6) is True


@kernel
def doubled(number: int) -> int:
    return number * 2


@pytest.mark.parametrize("kind", [types.int8, types.uint32, types.literal(3), types.int64], ids=str)
def test_a_kernel_is_compiled_for_one_width_of_integers(kind: Any) -> None:
    doubled.get_call_template((kind,), {})  # type: ignore[attr-defined]
    assert [tuple(one) for one in doubled.signatures] == [(types.int64,)]  # type: ignore[attr-defined]
