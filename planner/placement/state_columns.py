"""Reads a state that a caller sends back, safely for any content: its columns, and its opaque part, which alone is
dropped if its layout is another one. Raises UnreadableStateError.
"""

from collections.abc import Sequence
from itertools import repeat
from typing import Final, TypeVar

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from trimtab.planner.snapshot.columns import Int32
from trimtab.planner.snapshot.texts import string_index
from trimtab.v1.opaque_state_pb2 import OpaqueState

_Number = TypeVar("_Number", np.int32, np.int64, np.uint8)

LAYOUT_VERSION: Final = 5
"""Of the opaque part."""


class UnreadableStateError(ValueError):
    """A column of the state breaks its contract."""


def open_opaque(data: bytes) -> OpaqueState:
    """Return the opaque part of a state; none at all is an empty one."""
    try:
        opaque = OpaqueState.FromString(data)
    except DecodeError:
        raise UnreadableStateError("its bytes are no message") from None
    if data and opaque.layout_version != LAYOUT_VERSION:
        raise UnreadableStateError(f"its layout is {opaque.layout_version}, not {LAYOUT_VERSION}")
    return opaque


def column(data: bytes, kind: type[_Number], name: str) -> NDArray[_Number]:
    """Return a column of the wire. name : in errors."""
    if len(data) % np.dtype(kind).itemsize:
        raise UnreadableStateError(f"{name} has {len(data)} bytes, no multiple of {np.dtype(kind).itemsize}")
    # A copy, so that kernels see a writable array.
    return np.frombuffer(data, kind).copy()


def translated(strings: Int32, number_of: Int32, name: str) -> Int32:
    """Return the numbers that string indices stand for. strings : int32[n]; number_of : int32[strings of the
    state]."""
    if len(strings) and not (strings.min() >= 0 and strings.max() < len(number_of)):
        raise UnreadableStateError(f"{name} refers to a missing string")
    numbers: Int32 = number_of[strings]
    return numbers


def check_lengths(name: str, *lengths: int) -> None:
    """Refuse columns of different lengths. name : of their message."""
    if len(set(lengths)) > 1:
        raise UnreadableStateError(f"the columns of {name} differ in length")


def numbers_of(strings: Sequence[str], names: Sequence[str]) -> Int32:
    """Return the position in `names`, sorted, of each string of a state, -1 = none. int32[strings], at least one.

    O(names + strings), or O(strings · log names) if there are few strings.
    """
    if len(strings) * len(names).bit_length() < len(names):
        return np.array([string_index(names, name) for name in strings] or [-1], np.int32)
    if not strings:
        return np.full(1, -1, np.int32)
    place = dict(zip(names, range(len(names)), strict=True))
    return np.fromiter(map(place.get, strings, repeat(-1)), np.int32, len(strings))
