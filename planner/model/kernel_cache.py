"""Where compiled code is kept from run to run, and who compiles what where several processes start at the same time.

Decides when code that was kept may be used: as long as all that it was made of is unchanged
(`planner.model.kernel_content`). Processes that share a cache compile each kernel once: the first to ask for it locks
it, the others wait and load it. The operating system releases the locks of a process that ends, however it ends.

Built on private classes of numba, which promises nothing about them: `missing_parts` names those that are not there,
and then nothing is kept. tests/unit/planner/model/test_kernel_cache.py reports the same in words. Never compiles.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FunctionType
from typing import Any, Final

import numba
from numba.core import caching, dispatcher

from planner.model.kernel_content import content_of
from planner.model.kernel_lock import KernelLock

PARTS: Final = {
    "FunctionCache": ("load_overload", "save_overload"),
    "IndexDataCacheFile": ("_load_index", "load", "save"),
}
"""Names in `numba.core.caching` that are subclassed here, and the methods that are replaced or that numba calls."""

_ATTRIBUTES: Final = ("_py_func", "_impl", "_cache_path", "_cache_file")
"""What a `FunctionCache` has of its own."""


def missing_parts(of_caching: Any = caching, of_dispatcher: Any = dispatcher) -> tuple[str, ...]:
    """Return what this version of numba lacks of what is built on here, in words; nothing = all is there."""
    missing = []
    for name, methods in PARTS.items():
        found = getattr(of_caching, name, None)
        if found is None:
            missing.append(f"numba.core.caching has no class {name}")
        missing += [f"{name} has no method {one}" for one in methods if found is not None and not hasattr(found, one)]
    if not hasattr(getattr(of_dispatcher, "Dispatcher", None), "enable_caching"):
        missing.append("numba.core.dispatcher.Dispatcher has no method enable_caching")
    return tuple(missing) or _missing_attributes(of_caching)


def _missing_attributes(of_caching: Any) -> tuple[str, ...]:
    """Return what a cache made for a function of this module lacks."""
    try:
        made = of_caching.FunctionCache(missing_parts)
    except RuntimeError:  # There is no directory to write to, so nothing is kept anyway.
        return ()
    except TypeError as error:
        return (f"FunctionCache cannot be made of a function alone: {error}",)
    missing = [f"FunctionCache has no attribute {name}" for name in _ATTRIBUTES if not hasattr(made, name)]
    if not missing and not hasattr(made._impl, "filename_base"):
        missing.append("the implementation of FunctionCache has no attribute filename_base")
    if not missing:
        try:
            of_caching.IndexDataCacheFile(made._cache_path, made._impl.filename_base, "stamp")
        except TypeError as error:
            missing.append(f"IndexDataCacheFile cannot be made of directory, name and stamp: {error}")
    return tuple(missing)


_MISSING: Final = missing_parts()
_BASE: Any = caching.FunctionCache if not _MISSING else object
_INDEX_BASE: Any = caching.IndexDataCacheFile if not _MISSING else object

_directories: Final[set[str]] = set()

_cold: Final[list[Callable[[], None]]] = []
"""Who wants to know that something has to be compiled."""


def keep(compiled: Any) -> None:
    """Keep what a kernel is compiled to, where there is a directory to write to."""
    if _MISSING:
        _warn()
        return
    # numba raises RuntimeError where there is no directory that it could write to.
    with suppress(RuntimeError):
        compiled._cache = _Cache(compiled.py_func)


@contextmanager
def when_cold(call: Callable[[], None]) -> Iterator[None]:
    """Call once, as soon as a kernel has to be compiled that will be kept; never where all can be loaded."""
    _cold.append(call)
    try:
        yield
    finally:
        if call in _cold:
            _cold.remove(call)


def _warn() -> None:
    """Warn once in a process; Python leaves out what is repeated from the same line."""
    text = f"compiled kernels are not kept: numba {numba.__version__} is not as tested: {'; '.join(_MISSING)}"
    warnings.warn(text, RuntimeWarning, stacklevel=1)


def kept_in() -> tuple[str, ...]:
    """Return the directories in which compiled kernels are kept, () where none can be."""
    return tuple(sorted(_directories))


class _Index(_INDEX_BASE):  # type: ignore[misc]
    """numba's list of what was compiled for which types, which counts as empty where a type is no longer there.

    An upgrade that renames a type would otherwise end every call of the kernels that once took it.
    """

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except (AttributeError, ImportError, TypeError):
            return {}


class _Cache(_BASE):  # type: ignore[misc]
    """numba's own cache, with a stamp for all that a kernel is made of in place of one for its file."""

    def __init__(self, function: FunctionType) -> None:
        super().__init__(function)
        self._stamped = False
        self._lock = KernelLock(self._cache_path, self._impl.filename_base)
        _directories.add(self._cache_path)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load what was compiled for a signature, None if there is nothing, or nothing of this content.

        None also means that this process compiles it now, while others wait for what `save_overload` will keep. The
        lock is taken before loading: numba writes the list of what there is first and then what it lists.
        """
        self._stamp()
        self._lock.acquire()
        found = super().load_overload(sig, target_context)
        if found is not None:
            self._lock.release()
            return found
        while _cold:
            _cold.pop()()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled for a signature."""
        self._stamp()
        super().save_overload(sig, data)
        self._lock.release()

    def _stamp(self) -> None:
        """Note what the kernel is made of. Not before the first call: what it refers to may be defined after it."""
        if not self._stamped:
            self._cache_file = _Index(self._cache_path, self._impl.filename_base, content_of(self._py_func))
            self._stamped = True
