"""The decorators of compiled loops: the single place that decides compiler flags.

Flags: `nogil` allows other calls to proceed meanwhile; `fastmath` stays off, because answers must be identical bytes on
every replica; `error_model="numpy"` takes the zero-division branch out of loops. `_nrt=False` omits numba's memory
runtime: kernels allocate nothing, and reference counting for the dozens of arrays in a state at every call between
kernels costs a hundred times the call itself (measured: 2,000 ns against 9 ns for `fits`). `no_cfunc_wrapper` omits an
entry point for callers in C, as there are none: a quarter of the compile time. `no_cpython_wrapper` omits the entry
point for callers in Python if only other kernels call: half of the compile time of a short kernel that takes a state.

Compiled code is cached between runs, beside the source or, if that is not writable, in the user's cache directory (or
in NUMBA_CACHE_DIR); see `trimtab.planner.compiled.kernel_cache`. Without a cache, every process compiles.
"""

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.extending import lower_builtin, type_callable, typeof_impl
from numba.np.arrayobj import make_array
from numpy.typing import NDArray

from trimtab.planner.compiled.by_reference import Reference, SharedKernel, shared_kernels
from trimtab.planner.compiled.compiler import InnerCompiler, KernelCompiler
from trimtab.planner.compiled.kernel_cache import keep

_F = TypeVar("_F", bound=Callable[..., object])

widened: Any = np.int64
"""Widens an index read from an array, inside kernels: a callee is compiled again for each further integer width."""


_FLAGS: dict[str, Any] = {
    "nogil": True,
    "fastmath": False,
    "error_model": "numpy",
    "_nrt": False,
    "no_cfunc_wrapper": True,
    "pipeline_class": KernelCompiler,
}
_NO_ENTRY: dict[str, Any] = {"no_cpython_wrapper": True, "pipeline_class": InnerCompiler}


class _Inner:
    """A kernel without an entry point for Python. Kernels call it like any other.

    Python can call it, too, as tests and benchmarks do: the first such call compiles an entry point.
    """

    def __init__(self, dispatcher: Any) -> None:
        self.dispatcher = dispatcher
        self.py_func = dispatcher.py_func
        self.targetoptions = dispatcher.targetoptions
        self._entry: Any = None

    def __call__(self, *arguments: object) -> object:
        if self._entry is None:
            inner = self.dispatcher

            def entry(*arguments: object) -> object:
                return inner(*arguments)

            self._entry = numba.njit(**_FLAGS)(entry)
        return self._entry(*arguments)


class _RecordingKernel(_Inner):
    """A kernel that runs as plain Python and records the types with which it was called from outside of kernels."""

    calls: ClassVar[dict[tuple[Any, tuple[Any, ...]], None] | None] = None
    """The recorded calls, in order; None = kernels are not recorded."""
    depth: ClassVar[int] = 0

    def __call__(self, *arguments: object) -> object:
        if not _RecordingKernel.depth and _RecordingKernel.calls is not None:
            _RecordingKernel.calls[self.dispatcher, tuple(map(numba.typeof, arguments))] = None
        _RecordingKernel.depth += 1
        try:
            return self.py_func(*arguments)
        finally:
            _RecordingKernel.depth -= 1


@typeof_impl.register(_Inner)
def _type_of(inner: _Inner, context: object) -> Any:  # noqa: ARG001
    """Return the type of a kernel that another kernel refers to."""
    return types.Dispatcher(inner.dispatcher)


@typeof_impl.register(SharedKernel)
def _type_of_shared(shared: SharedKernel, context: object) -> Any:  # noqa: ARG001
    """Return the type of a shared kernel that another kernel refers to."""
    return cpu_target.typing_context.resolve_value_type(shared.called)


class _RecordedShared(SharedKernel):
    """A shared kernel that runs as plain Python; its calls are recorded like those of others."""

    def __init__(self, dispatcher: Any) -> None:
        super().__init__(dispatcher)
        self._recorded = _RecordingKernel(dispatcher)

    def __call__(self, *arguments: object) -> object:
        return self._recorded(*arguments)


def record_calls() -> None:
    """From now on, define kernels that are compiled by `compile_recorded`, not on call."""
    _RecordingKernel.calls = {}


def compile_recorded() -> None:
    """Compile every called kernel for the types of its calls, the last first, and cache the result."""
    calls = list(_RecordingKernel.calls or {})
    for dispatcher, signature in reversed(calls):
        dispatcher.compile(signature)
    for reference in dict.fromkeys(
        reference for _, signature in calls for reference in signature if isinstance(reference, Reference)
    ):
        for shared in shared_kernels(reference):
            shared.address(reference)


def _one_width(dispatcher: Any) -> None:
    """Make kernels call a kernel with 64-bit integers, regardless of the arguments' width: it is compiled only for
    these.

    numba would compile it for each further width, and for each literal with which it is called.
    """
    get_template = dispatcher.get_call_template

    def template(arguments: Any, keywords: Any) -> Any:
        return get_template(
            tuple(map(_widened, arguments)), {name: _widened(argument) for name, argument in keywords.items()}
        )

    dispatcher.get_call_template = template


def _widened(argument: Any) -> Any:
    argument = types.unliteral(argument)
    return types.int64 if isinstance(argument, types.Integer) and argument != types.uint64 else argument


def _compiled(function: _F, **flags: Any) -> _F:
    compiled: Any = numba.njit(**_FLAGS | flags)(function)
    if not isinstance(compiled, Dispatcher):  # NUMBA_DISABLE_JIT
        return function
    keep(compiled)
    _one_width(compiled)
    if _RecordingKernel.calls is not None:
        compiled = _RecordingKernel(compiled)
    elif "no_cpython_wrapper" in flags:
        compiled = _Inner(compiled)
    return cast(_F, compiled)


def shared_kernel(function: _F) -> _F:
    """Compile a kernel once for any number of callers: they call it by its address.

    Its first parameter is a tuple passed by reference whose class lists the kernel (`by_reference`); all others are
    int. For kernels with many callers whose own work is long compared with a call of a few nanoseconds.
    """
    compiled: Any = numba.njit(**_FLAGS)(function)
    if not isinstance(compiled, Dispatcher):  # NUMBA_DISABLE_JIT
        return function
    keep(compiled)
    return cast(_F, SharedKernel(compiled) if _RecordingKernel.calls is None else _RecordedShared(compiled))


def kernel(function: _F) -> _F:
    """Compile `function` on first call with the project's flags."""
    return _compiled(function)


def inner_kernel(function: _F) -> _F:
    """Compile a kernel that only kernels call."""
    return _compiled(function, **_NO_ENTRY)


def inlined_kernel(function: _F) -> _F:
    """Compile a small kernel into each kernel that calls it.

    For short checks in the loops of others, where a call would take as long as the check; not for entry points. Larger
    ones with many callers are shared kernels.
    """
    return _compiled(function, forceinline=True, **_NO_ENTRY)


def copied_kernel(function: _F) -> _F:
    """Copy a kernel into its callers before they are compiled; it is not compiled by itself.

    Every function costs compile time, no matter how short it is. For kernels with one or two callers.
    """
    return _compiled(function, inline="always")


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
    builder.call(called, [builder.bitcast(element, byte), *(number(value) for value in (_READ, _KEEP, _DATA))])
    return context.get_dummy_value()
