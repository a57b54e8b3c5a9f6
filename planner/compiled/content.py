"""The content of a compiled kernel: its own code, that of every kernel and function it calls, every constant it reads.

Decides whether compiled code from an earlier run still matches the sources. numba checks only the file of the outermost
kernel, so it would use outdated code of a changed inner kernel, or an outdated constant of another module. Compared by
content, not by file or time: changing a comment requires no compilation. Never reads files.
"""

from collections.abc import Iterator
from enum import Enum
from hashlib import sha256
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np


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
