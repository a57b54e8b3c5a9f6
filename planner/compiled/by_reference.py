"""Pass a NamedTuple of arrays to kernels by reference: one pointer, regardless of its content.

numba passes a tuple by value to every function: each array as five words plus two for each dimension. This costs run
time in each call, and most of the compile time of a kernel that takes dozens of arrays. Here a kernel receives the
address of a few words for each array instead, which are written once per tuple: its data, its shape, and its strides if
it is not contiguous. A kernel may keep the values it reads from them, since they never change while it runs.

Kernels read fields by name, and pass on the tuple or those of its fields that are tuples themselves; they neither
unpack nor create one. In Python it remains the same NamedTuple.

After these words come the addresses of kernels that others call with the tuple (`shared_kernel` in
`trimtab.planner.compiled.decorators`). They are compiled once, whereas numba would compile them into each of their
callers, and again into each caller of those.
"""

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from hashlib import sha256
from typing import Any, Final, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, intrinsic, models, register_model, typeof_impl, unbox
from numba.np.arrayobj import make_array, populate_array

_T = TypeVar("_T")

_LAYOUT: Final = 1
"""To be increased when the words, or the way in which they are read, change: cached kernels still read
the old layout.
"""


class Reference(types.Type):
    """The type of a reference to a tuple: its class, its fields and their types, the kernels called with it."""

    def __init__(self, title: str, fields: dict[str, Any], calls: tuple[str, ...]) -> None:
        self.fields, self.calls = fields, calls
        self.content = title, tuple(fields.items()), calls, _LAYOUT
        # The names of compiled functions contain those of all types.
        super().__init__(f"{title.rpartition('.')[2]}_{sha256(repr(self.content).encode()).hexdigest()[:12]}")

    @property
    def key(self) -> tuple[Any, ...]:
        """The key by which two types are equal."""
        return self.content

    def place(self, name: str) -> int:
        """Return the word at which a field begins, or that of a kernel's address."""
        at = 0
        for field, member in self.fields.items():
            if field == name:
                return at
            at += _words(member)
        return at + self.calls.index(name)


def _words(member: Any) -> int:
    if isinstance(member, types.Array):
        return 1 + int(member.ndim) * (1 if member.layout == "C" else 2)
    return sum(map(_words, member.fields.values())) + len(member.calls) if isinstance(member, Reference) else 1


def by_reference(*calls: str) -> Callable[[type[_T]], type[_T]]:
    """Return a decorator for a NamedTuple whose instances kernels take by reference, and its fields that are tuples.

    calls : names of the kernels that others call with it as shared kernels.
    """

    def decorate(cls: type[_T]) -> type[_T]:
        # The words cached for an instance are not copied with it: a copy has its own arrays.
        parts = {"_calls": calls, "_addresses": {}, "__getstate__": lambda _: None, "__qualname__": cls.__qualname__}
        subclass: Any = type(cls.__name__, (cls,), parts | {"__module__": cls.__module__, "__doc__": cls.__doc__})
        subclass._address = cached_property(_address)
        subclass._address.__set_name__(subclass, "_address")
        typeof_impl.register(subclass)(lambda value, _: reference_type(value))
        return cast(type[_T], subclass)

    return decorate


def reference_type(value: Any) -> Reference:
    """Return the type of a reference to a tuple. Raises TypeError for content that kernels cannot read by reference."""
    cls = type(value)
    fields = {name: _member(field) for name, field in zip(value._fields, value, strict=True)}
    return Reference(f"{cls.__module__}.{cls.__qualname__}", fields, getattr(cls, "_calls", ()))


def _member(value: object) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return reference_type(value)
    member_type = numba.typeof(value)
    if isinstance(member_type, types.Array) or member_type in (types.int64, types.float64):
        return member_type
    raise TypeError(f"{member_type} cannot be passed by reference: only arrays, int and float")


def _address(value: Any) -> int:
    """Return the address of the words. They live as long as the tuple, which holds the arrays."""
    words = np.array(list(_written(value)), np.uint64)
    # The words of the first thread stay.
    return int(value.__dict__.setdefault("_referred", words).ctypes.data)


def _written(value: Any) -> Iterator[int]:
    for field in value:
        if isinstance(field, np.ndarray):
            yield field.ctypes.data
            yield from field.shape
            if not field.flags.c_contiguous:
                # Strides of reversed arrays are negative, which two's complement stores as large numbers.
                yield from (stride % (1 << 64) for stride in field.strides)
        elif isinstance(field, tuple):
            yield from _written(field)
        else:
            yield int(np.array(field).view(np.uint64))
    if getattr(value, "_calls", ()):
        addresses, kind = type(value)._addresses, tuple(_kind(value))
        if kind not in addresses:
            addresses[kind] = tuple(
                shared.address(reference_type(value)) for shared in shared_kernels(reference_type(value))
            )
        yield from addresses[kind]


def _kind(value: Any) -> Iterator[object]:
    """Return the type of a tuple, faster than numba does."""
    for field in value:
        if isinstance(field, np.ndarray):
            flags = field.flags
            yield field.dtype, field.ndim, flags.writeable, flags.c_contiguous, flags.f_contiguous, flags.aligned
        else:
            yield tuple(_kind(field)) if isinstance(field, tuple) else type(field)


class SharedKernel:
    """A kernel that others call by its address. The first argument is the tuple that contains it; the
    others are int.
    """

    def __init__(self, dispatcher: Any) -> None:
        self.dispatcher = dispatcher
        self.py_func = dispatcher.py_func
        self.targetoptions = dispatcher.targetoptions
        first, *others, result = self.py_func.__annotations__.values()
        _shared[f"{first.__module__}.{first.__qualname__}", self.py_func.__name__] = self
        self.others = len(others)
        self._result = {int: types.int64, bool: types.boolean, None: types.none}[result]
        self.called = intrinsic(_call_of(self))

    def __call__(self, *arguments: object) -> object:
        """Call it from Python."""
        return self.dispatcher(*arguments)

    def signature(self, of: Reference) -> Any:
        """Return its signature for a type of tuples."""
        return self._result(of, *[types.int64] * self.others)

    def address(self, of: Reference) -> int:
        """Compile or load the kernel for a type of tuples; return its address."""
        signature = self.signature(of)
        self.dispatcher.compile(signature.args)
        overload = self.dispatcher.overloads[signature.args]
        if overload.signature.return_type != self._result:
            raise TypeError(f"{self.py_func.__name__} returns {overload.signature.return_type}, not {self._result}")
        return int(overload.library.get_pointer_to_function(overload.fndesc.llvm_func_name))


_shared: Final[dict[tuple[str, str], SharedKernel]] = {}
"""Kernels by the class that they are called with, and their names."""


def shared_kernels(of: Reference) -> list[SharedKernel]:
    """Return the kernels that others call with tuples of a type. Raises KeyError if their module is not loaded."""
    return [_shared[of.content[0], name] for name in of.calls]


def _call_of(shared: SharedKernel) -> Callable[..., Any]:
    """Return the typing of a kernel call for numba, which counts the parameters."""
    call = partial(_call, shared)

    def with_one(_: Any, of: Any, first: Any) -> Any:  # noqa: ARG001
        return call(of)

    def with_two(_: Any, of: Any, first: Any, two: Any) -> Any:  # noqa: ARG001
        return call(of)

    def with_three(_: Any, of: Any, first: Any, two: Any, three: Any) -> Any:  # noqa: ARG001
        return call(of)

    return (with_one, with_two, with_three)[shared.others - 1]


def _call(shared: SharedKernel, of: Any) -> Any:
    """Return the signature of a call, and its code generator."""
    if not isinstance(of, Reference):
        return None

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _load(builder, arguments[0], of.place(shared.py_func.__name__))
        convention = context.call_conv
        called = convention.get_function_type(signature.return_type, signature.args).as_pointer()
        status, result = convention.call_function(
            builder, builder.inttoptr(address, called), signature.return_type, signature.args, arguments
        )
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return result

    return shared.signature(of), write


@register_model(Reference)
class _Model(models.PrimitiveModel):
    """A pointer to words."""

    def __init__(self, manager: Any, of: Reference) -> None:
        super().__init__(manager, of, ir.IntType(64).as_pointer())


@unbox(Reference)
def _unbox(of: Reference, value: Any, c: Any) -> Any:  # noqa: ARG001
    number = c.pyapi.object_getattr_string(value, "_address")
    failed = cgutils.is_null(c.builder, number)
    address = cgutils.alloca_once_value(c.builder, ir.Constant(ir.IntType(64), 0))
    with c.builder.if_then(c.builder.not_(failed), likely=True):
        c.builder.store(c.pyapi.long_as_longlong(number), address)
        c.pyapi.decref(number)
    return NativeValue(c.builder.inttoptr(c.builder.load(address), ir.IntType(64).as_pointer()), is_error=failed)


@infer_getattr
class _Fields(AttributeTemplate):
    """The attributes that kernels may read."""

    key = Reference

    def generic_resolve(self, of: Reference, name: str) -> Any:  # type: ignore[override]
        """Return the type of a field, None if there is none of the name."""
        return of.fields.get(name)


@lower_getattr_generic(Reference)
def _read(context: Any, builder: Any, of: Reference, value: Any, name: str) -> Any:
    """Generate the code that reads a field."""
    member, first = of.fields[name], of.place(name)
    if isinstance(member, Reference):
        return builder.gep(value, [ir.Constant(ir.IntType(64), first)], inbounds=True)
    words = [_load(builder, value, first + at) for at in range(_words(member))]
    if not isinstance(member, types.Array):
        return builder.bitcast(words[0], context.get_value_type(member))
    array = make_array(member)(context, builder)
    shape, strides = words[1 : 1 + member.ndim], words[1 + member.ndim :]
    item_bytes = context.get_abi_sizeof(context.get_data_type(member.dtype))
    if not strides:
        strides = [ir.Constant(ir.IntType(64), item_bytes)]
        for size in reversed(shape[1:]):
            strides.insert(0, builder.mul(strides[0], size))
    populate_array(
        array,
        data=builder.inttoptr(words[0], array.data.type),
        shape=cgutils.pack_array(builder, shape),
        strides=cgutils.pack_array(builder, strides),
        itemsize=ir.Constant(ir.IntType(64), item_bytes),
        meminfo=None,
    )
    return array._getvalue()


def _load(builder: Any, value: Any, place: int) -> Any:
    """Load a word. It is the same however often it is read, which the compiler cannot know by itself."""
    word = builder.load(builder.gep(value, [ir.Constant(ir.IntType(64), place)], inbounds=True))
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word
