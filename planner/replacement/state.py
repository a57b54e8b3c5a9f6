"""The state of replacement between loops, and its encoding. Names in the message become positions in this snapshot;
vanished objects and times that are over are dropped. An unreadable column counts as absent and gives a note. Times in
Unix nanoseconds.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trimtab.planner.model.values import NodeGroupInfo
from trimtab.planner.placement.state_columns import UnreadableStateError, check_lengths, column, translated
from trimtab.planner.snapshot.columns import Bool, Int64, Snapshot
from trimtab.planner.snapshot.texts import string_index
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.snapshot_pb2 import NodeGroupHealth


class KnownState(NamedTuple):
    """The state in terms of one snapshot. planned_ns : int64[N] since when a plan has replaced each node, 0 = none has;
    avoided_ns : int64[G] until when no node is planned in a group, 0 = one may be; paid_back_ns : int64[N] until when a
    node is not replaced, 0 = it may be; avoided : bool[G], paid_back : bool[N] whether these times are to come; notes :
    on parts that could not be used.
    """

    planned_ns: Int64
    avoided_ns: Int64
    paid_back_ns: Int64
    avoided: Bool
    paid_back: Bool
    notes: tuple[str, ...]


def recall(state: pb.ReplacementState | None, snapshot: Snapshot, now_ns: int) -> KnownState:
    """Return the state in terms of a snapshot."""
    names, ids = snapshot.nodes.name, [group.id for group in snapshot.groups]
    message, notes = state if state is not None else pb.ReplacementState(), list[str]()
    columns = []
    for field, order in (("planned", names), ("avoided_groups", ids), ("paid_back", names)):
        try:
            columns.append(_times(message, field, order))
        except UnreadableStateError as error:
            notes.append(f"replacement state could not be read ({error}): starting without it")
            columns.append(np.zeros(len(order), np.int64))
    planned, avoided, paid_back = columns
    planned = np.where(planned > now_ns, now_ns, planned)
    return KnownState(planned, avoided, paid_back, avoided > now_ns, paid_back > now_ns, tuple(notes))


def _times(state: pb.ReplacementState, field: str, names: Sequence[str]) -> Int64:
    """Return the time of each name of a column, 0 = none. int64[names]."""
    times: pb.NodeTimes = getattr(state, field)
    place = {name: at for at, name in enumerate(names)}
    number_of = np.array([place.get(text, -1) for text in state.strings] or [-1], np.int32)
    row = translated(column(times.node, np.int32, f"{field}.node"), number_of, f"{field}.node")
    time_ns = column(times.time_ns, np.int64, f"{field}.time_ns")
    check_lengths(field, len(row), len(time_ns))
    by_name = np.zeros(len(names), np.int64)
    there = row >= 0
    by_name[row[there]] = np.maximum(time_ns[there], 0)
    return by_name


def avoided_until(earlier: KnownState, groups: Sequence[NodeGroupInfo], now_ns: int, avoid_time_ns: int) -> Int64:
    """Return until when no node is planned in each group: a group that is backed off now is avoided for a while.
    int64[G], 0 = it may get one."""
    backed_off = [group.health == NodeGroupHealth.BACKED_OFF for group in groups]
    until = np.where(earlier.avoided, earlier.avoided_ns, 0)
    return np.maximum(until, np.where(backed_off, now_ns + avoid_time_ns, 0) if avoid_time_ns else 0).astype(np.int64)


def remember(snapshot: Snapshot, planned_ns: Int64, avoided_ns: Int64, paid_back_ns: Int64) -> pb.ReplacementState:
    """Return the encoded state. planned_ns, paid_back_ns : int64[N]; avoided_ns : int64[G]; 0 = none."""
    names, groups = snapshot.nodes.name, [group.id for group in snapshot.groups]
    columns = (
        ("planned", names, planned_ns),
        ("avoided_groups", groups, avoided_ns),
        ("paid_back", names, paid_back_ns),
    )
    used = {order[row] for _, order, times in columns for row in np.flatnonzero(times).tolist()}
    strings = ["", *sorted(used)]
    state = pb.ReplacementState(strings=strings)
    for field, order, times in columns:
        rows = np.flatnonzero(times)
        if len(rows):
            code = np.array([string_index(strings, order[row]) for row in rows.tolist()], np.int32)
            getattr(state, field).CopyFrom(pb.NodeTimes(node=code.tobytes(), time_ns=times[rows].tobytes()))
    return state
