"""The one decorator of every compiled loop, so that compiler flags are decided in one place.

Flags: `nogil` lets other calls proceed meanwhile; `fastmath` stays off, because answers must be the same bytes on every
replica; `error_model="numpy"` takes the zero-division branch out of loops; `cache` keeps start-up short. `_nrt=False`
leaves out numba's memory runtime: kernels allocate nothing, and counting references of the dozens of arrays in a state
at every call between kernels costs a hundred times the call itself (measured: 2,000 ns against 9 ns for `fits`).
`no_cfunc_wrapper` leaves out an entry for callers in C, which nobody is: a quarter of the time of compiling.

Compiled code is kept from run to run, beside the source or, where nobody may write there, in the user's cache directory
(NUMBA_CACHE_DIR names another), as long as all that it was made of is unchanged (`planner.model.kernel_content`). Where
nothing can be kept, kernels are compiled anew in every process.
"""

from collections.abc import Callable
from contextlib import suppress
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.dispatcher import Dispatcher

from planner.model.kernel_content import content_of

_F = TypeVar("_F", bound=Callable[..., object])

widened: Any = np.int64
"""Widens an index read from an array, inside kernels: each further width of integers compiles a callee once more."""


_FLAGS: dict[str, Any] = {
    "nogil": True,
    "fastmath": False,
    "error_model": "numpy",
    "_nrt": False,
    "no_cfunc_wrapper": True,
}


class _Cache(FunctionCache):
    """numba's own cache, with a stamp for all that a kernel is made of in place of one for its file."""

    def __init__(self, function: FunctionType) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._stamped = False

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load what was compiled for a signature, None if there is nothing, or nothing of this content."""
        self._stamp()
        return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled for a signature."""
        self._stamp()
        super().save_overload(sig, data)  # type: ignore[no-untyped-call]

    def _stamp(self) -> None:
        """Say what the kernel is made of. Not before the first call: what it refers to may be defined after it."""
        if not self._stamped:
            place = self._cache_path, self._impl.filename_base
            self._cache_file = IndexDataCacheFile(*place, content_of(self._py_func))  # type: ignore[no-untyped-call]
            self._stamped = True


def _compiled(function: _F, flags: dict[str, Any]) -> _F:
    compiled: Any = numba.njit(**flags)(function)
    if isinstance(compiled, Dispatcher):
        # numba raises RuntimeError where there is no directory that it could write to.
        with suppress(RuntimeError):
            compiled._cache = _Cache(compiled.py_func)  # type: ignore[attr-defined]
    return cast(_F, compiled)


def kernel(function: _F) -> _F:
    """Compile `function` on first call with the project's flags."""
    return _compiled(function, _FLAGS)


def inlined_kernel(function: _F) -> _F:
    """Compile a small kernel into whatever kernel calls it.

    Arguments go by value: handing on a state of dozens of arrays costs a hundred times a check of a few words
    (measured: 1,500 ns against 8 ns for one node of a search). For kernels that loops of others call, not for entry
    points.
    """
    return _compiled(function, _FLAGS | {"forceinline": True})


def copied_kernel(function: _F) -> _F:
    """Copy a kernel into those that call it before they are compiled; it is not compiled by itself.

    Every function that is handed a whole state costs half a second of compiling, however short it is. For kernels that
    one or two others call.
    """
    return _compiled(function, {**_FLAGS, "inline": "always"})
