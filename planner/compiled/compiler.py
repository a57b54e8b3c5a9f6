"""numba's compiler, without work that is of no use to kernels; it takes half of numba's own time.

The code of a kernel that only kernels call is optimised and made into machine code as part of each kernel that calls
it; numba would do both for it alone, too, although nothing could call the result.

numba looks up how each operation is typed by all of a kernel's flags, about forty, and lists these anew for each
comparison. Here they are listed once.

Built on private parts of numba, like the cache (`trimtab.planner.compiled.kernel_cache`).
"""

from typing import Any, NamedTuple

from llvmlite import binding
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags


class _ListedFlags(Flags):
    """Flags that are listed once. They must not be changed after the first comparison, which numba does not do."""

    def values(self) -> dict[str, Any]:
        """Return all flags."""
        if "listed" not in vars(self):
            vars(self)["listed"] = super().values()
        listed: dict[str, Any] = vars(self)["listed"]
        return listed


class KernelCompiler(Compiler):
    """The compiler of kernels."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.state.flags = _ListedFlags(self.state.flags)


class _WithoutEnvironment:
    """numba's code generator, for functions whose environment has no address: no kernel uses its own."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def set_env(self, name: str, environment: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)


class _InnerLibrary(JITCodeLibrary):
    """The code of one kernel and those it calls, as it is linked into callers."""

    @property
    def codegen(self) -> Any:
        return _WithoutEnvironment(self._codegen)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002
        self._ensure_finalized()
        return 0

    def serialize_using_object_code(self) -> Any:
        return self.serialize_using_bitcode()


class InnerCompiler(KernelCompiler):
    """The compiler of kernels that only kernels call."""

    def compile_extra(self, func: Any) -> Any:
        """Compile a function."""
        self.state.library = _InnerLibrary(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)


class LoadingContext(NamedTuple):
    """numba's target context, to load code from the cache, both of inner kernels and of others."""

    context: Any

    def codegen(self) -> "LoadingContext":
        """Return what reads libraries."""
        return self

    def unserialize_library(self, stored: Any) -> Any:
        """Return a stored library."""
        name, kind, code = stored
        codegen = self.context.codegen()
        if kind != "bitcode":
            return codegen.unserialize_library(stored)
        library = _InnerLibrary(codegen, name)
        library._final_module = binding.parse_bitcode(code)
        library._finalize_final_module()
        return library

    def __getattr__(self, name: str) -> Any:
        return getattr(self.context, name)
