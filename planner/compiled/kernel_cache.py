"""Where compiled code is cached between runs, and which process compiles what if several start at the same time.

Decides when cached code may be used: as long as everything it was built from is unchanged. Processes that share a cache
compile each kernel once: the first one that needs it locks it, the others wait and load it; no answer depends on the
lock. The operating system releases the locks of a process when it ends, in any way.

Loading compiled code runs it, as importing a module does, so it is not loaded from, nor written to, a folder that
others can write: others than this process's account, root, and the owner of the source folder, whose code runs anyway.
A group counts as others unless it is the account's own. The folder's parents are not checked: whoever replaces the
folder itself owns the new one.

Built on private classes of numba, which are not guaranteed: pyproject.toml allows the versions for which
tests/unit/planner/compiled/test_kernel_cache.py has passed. Never compiles.

The content is a kernel's own code, that of every kernel and function it calls, and every constant it reads; numba
checks only the file of the outermost kernel. It is compared, not file or time: changing a comment requires no
compilation.
"""

import os
import stat
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numba.core import caching, config, event

from trimtab.planner.compiled import shipped
from trimtab.planner.compiled.compiler import LoadingContext


class _Local(NamedTuple):
    """The content of one function itself, and the functions to which it refers."""

    content: str
    refers: tuple[FunctionType, ...]


_known: dict[FunctionType, _Local] = {}


def content_of(function: FunctionType) -> str:
    """Return a digest of a function and everything it reaches. To be called once the modules are loaded.
    O(functions).
    """
    reached: dict[FunctionType, None] = {function: None}
    sink = sha256(".".join(np.__version__.split(".")[:2]).encode())
    queue = [function]
    for member in queue:
        local = _known.get(member)
        if local is None:
            local = _known[member] = _local(member)
        sink.update(local.content.encode())
        for other in local.refers:
            if other not in reached:
                reached[other] = None
                queue.append(other)
    return sink.hexdigest()


def _local(function: FunctionType) -> _Local:
    refers: dict[FunctionType, None] = {}
    said: list[object] = [function.__module__, function.__qualname__, _code(function.__code__)]
    said.append([_value(default, refers) for default in function.__defaults__ or ()])
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    said.append([(name, _value(cell.cell_contents, refers)) for name, cell in cells])
    names = tuple(dict.fromkeys(_names(function.__code__)))
    for name in names:
        if name in function.__globals__:
            said.append((name, _value(function.__globals__[name], refers, names)))
    return _Local(repr(said), tuple(refers))


def _code(code: CodeType) -> tuple[object, ...]:
    """Return the content of a code object, without line numbers and the function's docstring."""
    constants = [
        _code(constant) if isinstance(constant, CodeType) else (type(constant).__name__, constant)
        for constant in code.co_consts
    ]
    signature = code.co_argcount, code.co_kwonlyargcount, code.co_flags, code.co_varnames, code.co_freevars
    return signature, code.co_code, code.co_names, repr(constants[1:] if _has_docstring(code) else constants)


def _has_docstring(code: CodeType) -> bool:
    return bool(code.co_consts) and isinstance(code.co_consts[0], str)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _value(value: Any, refers: dict[FunctionType, None], names: tuple[str, ...] = ()) -> object:
    """Return the content of a global; functions are only named here, and added to `refers`. names : attributes used."""
    function = getattr(value, "py_func", value)
    if isinstance(function, FunctionType):
        refers[function] = None
        return function.__module__, function.__qualname__, repr(sorted(getattr(value, "targetoptions", {}).items()))
    match value:
        case ModuleType():
            used = [(name, _value(getattr(value, name), refers)) for name in names if hasattr(value, name)]
            return value.__name__, used
        case type():
            members = [(member.name, member.value) for member in value] if issubclass(value, Enum) else []
            return value.__module__, value.__qualname__, getattr(value, "_fields", ()), members
        case np.ndarray() | np.generic():
            return value.dtype.str, value.shape, value.tobytes()
        case tuple() | list():
            return type(value).__qualname__, [_value(field, refers) for field in value]
        case bool() | int() | float() | complex() | str() | bytes() | None:
            return type(value).__qualname__, value
    return type(value).__module__, type(value).__qualname__


try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_KERNELS: Final = (".nbi", ".nbc")
_LOCK_FILE: Final = "compiling.lock"
_POLL_S: Final = 0.01
_LOOKS: Final = 6000
"""One minute: no kernel takes that long, so the process that holds the lock must have been suspended."""


def why_unsafe(folder: str, sources: str) -> str:
    """Return why others could have written compiled code in a folder, "" = they could not. sources : folder of the
    kernels' source. O(files of the folder).
    """
    if not hasattr(os, "geteuid"):  # Windows
        return ""
    trusted = {os.geteuid(), 0, os.stat(sources).st_uid}
    with os.scandir(folder) as entries:
        kernels = [entry.path for entry in entries if entry.name.endswith(_KERNELS)]
    for path in (folder, *sorted(kernels)):
        # Another process may have replaced a kernel meanwhile.
        with suppress(FileNotFoundError):
            reason = _reason(os.stat(path), trusted)
            if reason:
                return f"{path} {reason}"
    return ""


def _reason(status: os.stat_result, trusted: set[int]) -> str:
    if status.st_uid not in trusted:
        return f"belongs to another account ({status.st_uid})"
    if status.st_mode & stat.S_IWOTH:
        return "may be written by every account"
    if status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid):
        return f"may be written by a group ({status.st_gid})"
    return ""


def _is_own_group(group: int) -> bool:
    """Return whether a group is the account's alone: its first one, with its name or, as in a container, with none."""
    import grp
    import pwd

    if group != os.getegid():
        return False
    try:
        name = grp.getgrgid(group).gr_name
    except KeyError:
        return True
    try:
        return name == pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        # An account without a name in the group of root, as OpenShift starts containers.
        return group == 0


class KernelLock:
    """One byte of a file in the directory of compiled kernels. Never fails.

    Kernels call each other without cycles, so processes that wait for each other's kernels cannot deadlock.
    """

    _files: Final[dict[str, int]] = {}
    """Open files by directory. Closing one would release all locks on it, so none is ever closed."""

    def __init__(self, directory: str, name: str) -> None:
        self._directory = directory
        self._byte = int.from_bytes(sha256(name.encode()).digest()[:6])

    def acquire(self) -> None:
        """Wait until no other process compiles the kernel. Continues without the lock if locks are not available."""
        if fcntl is None:
            return
        for _ in range(_LOOKS):
            try:
                fcntl.lockf(self._file(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._byte)
            except (BlockingIOError, PermissionError):
                time.sleep(_POLL_S)
            except OSError:
                return
            else:
                return

    def release(self) -> None:
        """Release the kernel to other processes."""
        if fcntl is not None:
            with suppress(OSError):
                fcntl.lockf(self._file(), fcntl.LOCK_UN, 1, self._byte)

    def _file(self) -> int:
        """Return the file's descriptor. Raises OSError."""
        if self._directory not in self._files:
            path = os.path.join(self._directory, _LOCK_FILE)
            self._files[self._directory] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        return self._files[self._directory]


_FunctionCache: Any = caching.FunctionCache
_CompileResultCacheImpl: Any = caching.CompileResultCacheImpl
_IndexDataCacheFile: Any = caching.IndexDataCacheFile

_directories: Final[set[str]] = set()

_COMPILED_ELSEWHERE: Final = "trimtab:compiled elsewhere"
"""The event of numba's kind while this process waits for a kernel that another one compiles."""

_cold: Final[list[Callable[[], None]]] = []
"""Callbacks for the event that something has to be compiled."""


def keep(compiled: Any) -> None:
    """Cache a kernel's code if there is a writable directory, and load what came with the distribution."""
    # numba raises RuntimeError if there is neither.
    with suppress(RuntimeError):
        kernels = _Cache(compiled.py_func)
        if _is_safe_folder(kernels._cache_path, str(Path(compiled.py_func.__code__.co_filename).parent)):
            if not isinstance(kernels._impl.locator, _Nowhere):
                _directories.add(kernels._cache_path)
            compiled._cache = kernels


@contextmanager
def when_cold(call: Callable[[], None]) -> Iterator[None]:
    """Call back once, as soon as a kernel that will be cached has to be compiled; never if all can be loaded."""
    _cold.append(call)
    try:
        yield
    finally:
        if call in _cold:
            _cold.remove(call)


class _Listener(event.Listener):
    def __init__(self, began: Callable[[], None], ended: Callable[[], None]) -> None:
        self._began, self._ended = began, ended

    def on_start(self, event: Any) -> None:  # noqa: ARG002
        self._began()

    def on_end(self, event: Any) -> None:  # noqa: ARG002
        self._ended()


def when_compiling(began: Callable[[], None], ended: Callable[[], None]) -> None:
    """From now on, call back around each compilation and each wait for another process that compiles, in their threads;
    a kernel that is compiled for another one is inside of it.
    """
    for kind in ("numba:compile", _COMPILED_ELSEWHERE):
        event.register(kind, _Listener(began, ended))  # type: ignore[no-untyped-call]


@cache
def _is_safe_folder(folder: str, directory: str) -> bool:
    """Return whether a folder can be used for kernels of a directory; warn once if not."""
    reason = why_unsafe(folder, directory)
    if reason:
        text = (
            f"compiled kernels are not cached, so every start takes a minute longer: {reason}, and loading them would"
            " run its code; take the right to write it from others and empty it, or set NUMBA_CACHE_DIR"
        )
        warnings.warn(text, RuntimeWarning, stacklevel=1)
    return not reason


def kept_in() -> tuple[str, ...]:
    """Return the directories in which compiled kernels are cached, () if none can be used."""
    return tuple(sorted(_directories))


class _Index(_IndexDataCacheFile):  # type: ignore[misc]
    """numba's index of compiled code by types, which counts as empty if a type no longer exists.

    Otherwise, after an upgrade that renames a type, every call of the kernels that once took it would fail.
    """

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except (AttributeError, ImportError, TypeError):
            return {}


class _Nowhere:
    """The place of code that can be kept nowhere, but loaded if it came with the distribution."""

    def __init__(self, function: FunctionType) -> None:
        self._line = str(function.__code__.co_firstlineno)

    @classmethod
    def from_function(cls, function: FunctionType, source: str) -> "_Nowhere | None":  # noqa: ARG003
        return cls(function) if shipped.FOLDER.is_dir() else None

    def get_cache_path(self) -> str:
        return str(shipped.FOLDER)

    def get_source_stamp(self) -> str:
        return ""

    def get_disambiguator(self) -> str:
        return self._line


class _Impl(_CompileResultCacheImpl):  # type: ignore[misc]
    """numba's choice of a directory, with one more if there is none."""

    _locator_classes: ClassVar[list[Any]] = [*_CompileResultCacheImpl._locator_classes, _Nowhere]

    def check_cachable(self, data: Any) -> bool:
        return not isinstance(self.locator, _Nowhere) and bool(super().check_cachable(data))

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        return super().rebuild(LoadingContext(target_context), payload)


class _Cache(_FunctionCache):  # type: ignore[misc]
    """numba's own cache, with a stamp of everything a kernel is built from instead of one of its file.

    Below NUMBA_CACHE_DIR, folders are named by modules, not by where the sources are, and files by the stamp: checkouts
    share what they have in common, and none replaces what another one compiled.
    """

    _impl_class = _Impl

    def __init__(self, function: FunctionType) -> None:
        super().__init__(function)
        configured, place = str(vars(config)["CACHE_DIR"]), str(self._cache_path)
        self._is_shared = bool(configured) and place.startswith(configured)
        if self._is_shared:
            place = str(Path(configured, function.__module__))
            Path(place).mkdir(exist_ok=True)
        self._cache_path: str = place
        self._content = ""
        self._lock = KernelLock(self._cache_path, self._impl.filename_base)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the code compiled for a signature; None if there is none, or none for this content.

        None also means that this process compiles it now, while others wait for the result of `save_overload`. The lock
        is taken before loading, because numba writes the index before the code that it lists.
        """
        self._stamp()
        overload = self._load_shipped(sig, target_context)
        if overload is not None:
            return overload
        with event.trigger_event(_COMPILED_ELSEWHERE):
            self._lock.acquire()
        overload = super().load_overload(sig, target_context)
        if overload is not None:
            self._lock.release()
            return overload
        while _cold:
            _cold.pop()()
        return None

    def _load_shipped(self, sig: Any, target_context: Any) -> Any:
        """Load the code for a signature that came with the distribution; None if there is none that fits."""
        folder = str(shipped.FOLDER / self._py_func.__module__)
        if not Path(folder).is_dir() or not _is_safe_folder(folder, str(shipped.FOLDER.parent)):
            return None
        target_context.refresh()
        target = shipped.target(target_context.codegen().magic_tuple()[0])
        if target is None:
            return None
        index = _Index(folder, self._shared_name(), self._content)
        data = index.load(self._index_key(sig, SimpleNamespace(magic_tuple=lambda: target)))
        return None if data is None else self._impl.rebuild(target_context, data)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Cache the code compiled for a signature."""
        self._stamp()
        super().save_overload(sig, data)
        self._lock.release()

    def _stamp(self) -> None:
        """Record what the kernel is built from. Not before the first call, as functions it uses may be defined after
        it.
        """
        if not self._content:
            self._content = content_of(self._py_func)
            name = self._shared_name() if self._is_shared else self._impl.filename_base
            self._cache_file = _Index(self._cache_path, name, self._content)

    def _shared_name(self) -> str:
        """Return the name of a kernel's files in folders that checkouts share."""
        return f"{self._impl.filename_base}-{self._content[:16]}"
