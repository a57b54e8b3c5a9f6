"""The state of slack between loops, and its encoding.

Names on the wire become indices of this snapshot; a vanished node becomes UNKNOWN_NODE. All of it is typed, so the
opaque part that another version may have written does not matter. An unreadable state counts as absent and gives a
note.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.placement.state_columns import UnreadableStateError
from trimtab.planner.slack.sizes import Amounts
from trimtab.planner.snapshot.columns import NO_NODE, UNKNOWN_NODE, Bool, Int32, Int64
from trimtab.planner.snapshot.references import take_or
from trimtab.v1 import plan_pb2 as pb


class PreviousSets(NamedTuple):
    """Placeholders of the last loop, M of them in Q sets.

    row : of each set by its name; bounds : int64[Q+1], the placeholders of each; number : int32[M], ascending in each
    set; node : int32[M], NO_NODE or UNKNOWN_NODE; sets : as received.
    """

    row: Mapping[str, int]
    bounds: Int64
    number: Int32
    node: Int32
    sets: Sequence[pb.SlackSetState]

    def sizes(self, names: Iterable[str]) -> dict[str, Amounts]:
        """Return the size of the placeholders of some sets, for those in the state."""
        return {name: dict(sorted(self.sets[self.row[name]].size.items())) for name in names if name in self.row}


NO_PREVIOUS_SETS: Final = PreviousSets({}, np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32), ())


def recall(state: pb.SlackState | None, place: Callable[[], Mapping[str, int]]) -> tuple[PreviousSets, tuple[str, ...]]:
    """Return the state in terms of the snapshot's nodes, and notes. place : returns their rows by name."""
    if state is None:
        return NO_PREVIOUS_SETS, ()
    node_of = np.full(max(len(state.strings), 1), NO_NODE, np.int32)
    if len(node_of) > 1:
        node_of[1:] = np.fromiter(map(place().get, state.strings[1:], repeat(UNKNOWN_NODE)), np.int32, len(node_of) - 1)
    try:
        return _read(state.sets, node_of), ()
    except UnreadableStateError as error:
        return NO_PREVIOUS_SETS, (f"slack state could not be read ({error}): starting with empty state",)


def _read(sets: Sequence[pb.SlackSetState], node_of: Int32) -> PreviousSets:
    """Return the sets as columns. node_of : int32[strings]. Raises UnreadableStateError."""
    names = [state_set.name for state_set in sets]
    number, bounds = _column([state_set.number for state_set in sets], names, "number")
    string, bounds_of_nodes = _column([state_set.node for state_set in sets], names, "node")
    _check(np.diff(bounds) == np.diff(bounds_of_nodes), names, "the columns of {} differ in length")
    # Each is compared with the one before it in its set, the first with -1.
    before = np.roll(number, 1)
    before[bounds[:-1][np.diff(bounds) > 0]] = -1
    _check_rows(number > before, bounds, names, "{}.number is not ascending")
    is_there = (string >= 0) & (string < len(node_of))
    _check_rows(is_there, bounds, names, "{}.node refers to a missing string")
    return PreviousSets({name: at for at, name in enumerate(names)}, bounds, number, node_of[string], sets)


def _column(parts: Sequence[bytes], names: Sequence[str], field: str) -> tuple[Int32, Int64]:
    """Return a column over all sets, and the range of each set in it. Raises UnreadableStateError."""
    sizes = np.fromiter(map(len, parts), np.int64, len(parts))
    _check(sizes % 4 == 0, names, f"the bytes of {{}}.{field} are not a multiple of 4")
    column: NDArray[np.int32] = np.frombuffer(b"".join(parts), "<i4").astype(np.int32)
    return column, np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes // 4)])


def _check(is_right: Bool, names: Sequence[str], problem: str) -> None:
    """Raise UnreadableStateError with the name of the first invalid set. is_right : bool[Q]."""
    if not is_right.all():
        raise UnreadableStateError(problem.format(names[int(np.argmin(is_right))]))


def _check_rows(is_right: Bool, bounds: Int64, names: Sequence[str], problem: str) -> None:
    """The same with is_right : bool[M]."""
    if not is_right.all():
        raise UnreadableStateError(
            problem.format(names[int(np.searchsorted(bounds, np.argmin(is_right), "right")) - 1])
        )


def remember(
    heads: Iterable[tuple[pb.SlackSetState, slice]], number: Int32, node: Int32, names: Sequence[str]
) -> bytes:
    """Return the encoded state.

    heads : for each set, by name, its name and size, and the range of its placeholders; number : int32[M]; node
    : int32[M], NO_NODE = on no node; names : of the snapshot's nodes.
    """
    is_used = np.zeros(len(names), np.bool_)
    is_used[node[node >= 0]] = True
    string = take_or(np.cumsum(is_used), node, 0)
    numbers, strings = number.astype("<i4").tobytes(), string.astype("<i4").tobytes()
    used = np.flatnonzero(is_used).tolist()
    state = pb.SlackState(strings=["", *map(names.__getitem__, used)])
    for head, where in heads:
        rows, message = slice(4 * where.start, 4 * where.stop), state.sets.add()
        message.CopyFrom(head)
        message.number, message.node = numbers[rows], strings[rows]
    return state.SerializeToString(deterministic=True)
