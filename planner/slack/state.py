"""What slack remembers from one loop to the next, and its form on the wire.

Decides nothing. Names on the wire become indices of this snapshot; a node that is gone becomes GONE. A state that
cannot be read counts as absent and leaves a note.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from trimtab.v1 import plan_pb2 as pb

from planner.slack.sizes import Amounts
from planner.snapshot.columns import Int32

LAYOUT_VERSION: Final = 1
NONE: Final = -1
"""On no node."""
GONE: Final = -2
"""On a node that the snapshot lacks."""


class UnreadableStateError(ValueError):
    """A column of the state breaks its contract."""


class SetMemory(NamedTuple):
    """Placeholders of one set. number : int32[M] ascending; node : int32[M], NONE or GONE; size : of each."""

    number: Int32
    node: Int32
    size: Amounts


Memory = Mapping[str, SetMemory]
"""What is remembered of each set, by name."""


def recall(state: pb.SlackState | None, place: Callable[[], Mapping[str, int]]) -> tuple[Memory, tuple[str, ...]]:
    """Return what the state says, in terms of the snapshot's nodes, and notes. place : gives their rows by name."""
    if state is None or state.layout_version == 0:
        return {}, ()
    if state.layout_version != LAYOUT_VERSION:
        return {}, (f"slack state has layout {state.layout_version}, not {LAYOUT_VERSION}: started afresh",)
    node_of = np.full(max(len(state.strings), 1), NONE, np.int32)
    node_of[1:] = [*map(place().get, state.strings[1:], repeat(GONE))]
    try:
        return {one.name: _read(one, node_of) for one in state.sets}, ()
    except UnreadableStateError as error:
        return {}, (f"slack state could not be read ({error}): started afresh",)


def _read(one: pb.SlackSetState, node_of: Int32) -> SetMemory:
    number, string = _column(one.number, f"{one.name}.number"), _column(one.node, f"{one.name}.node")
    if len(number) != len(string):
        raise UnreadableStateError(f"the columns of {one.name} differ in length")
    if len(number) and (number[0] < 0 or (np.diff(number) <= 0).any()):
        raise UnreadableStateError(f"{one.name}.number is not ascending")
    if len(string) and not (string.min() >= 0 and string.max() < len(node_of)):
        raise UnreadableStateError(f"{one.name}.node names a string that is not there")
    return SetMemory(number, node_of[string], dict(one.size))


def _column(data: bytes, name: str) -> Int32:
    if len(data) % 4:
        raise UnreadableStateError(f"{name} has {len(data)} bytes, no multiple of 4")
    column: NDArray[np.int32] = np.frombuffer(data, "<i4").astype(np.int32)
    return column


def remember(sets: Mapping[str, SetMemory], names: Sequence[str]) -> pb.SlackState:
    """Return the state on the wire."""
    node = np.concatenate([np.zeros(0, np.int32), *(one.node for one in sets.values())])
    number = np.concatenate([np.zeros(0, np.int32), *(one.number for one in sets.values())]).astype("<i4").tobytes()
    used = np.unique(node)
    used = used[used >= 0]
    code = np.where(node >= 0, np.searchsorted(used, node) + 1, 0).astype("<i4").tobytes()
    state = pb.SlackState(layout_version=LAYOUT_VERSION, strings=["", *map(names.__getitem__, used.tolist())])
    at = 0
    for name, one in sets.items():
        last = at + 4 * len(one.node)
        state.sets.add(name=name, size=one.size, number=number[at:last], node=code[at:last])
        at = last
    return state
