"""The one decorator of every compiled loop, so that compiler flags are decided in one place.

Flags: `nogil` lets other calls proceed meanwhile; `fastmath` stays off, because answers must be the same bytes on every
replica; `error_model="numpy"` takes the zero-division branch out of loops; `cache` keeps start-up short. `_nrt=False`
leaves out numba's memory runtime: kernels allocate nothing, and counting references of the dozens of arrays in a state
at every call between kernels costs a hundred times the call itself (measured: 2,000 ns against 9 ns for `fits`).
`no_cfunc_wrapper` leaves out an entry for callers in C, which nobody is: a quarter of the time of compiling.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

_F = TypeVar("_F", bound=Callable[..., object])

widened: Any = np.int64
"""Widens an index read from an array, inside kernels: each further width of integers compiles a callee once more."""


_FLAGS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "fastmath": False,
    "error_model": "numpy",
    "_nrt": False,
    "no_cfunc_wrapper": True,
}


def kernel(function: _F) -> _F:
    """Compile `function` on first call with the project's flags."""
    compiled: _F = numba.njit(**_FLAGS)(function)
    return compiled


def inlined_kernel(function: _F) -> _F:
    """Compile a small kernel into whatever kernel calls it.

    Arguments go by value: handing on a state of dozens of arrays costs a hundred times a check of a few words
    (measured: 1,500 ns against 8 ns for one node of a search). For kernels that loops of others call, not for entry
    points.
    """
    compiled: _F = numba.njit(**_FLAGS, forceinline=True)(function)
    return compiled
