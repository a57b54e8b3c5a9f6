"""What the planner remembers from one loop to the next, and its form on the wire.

Decides nothing. Names on the wire become indices of this snapshot; what vanished is dropped silently, a state that
cannot be read counts as absent and leaves a note. Times in Unix nanoseconds.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from trimtab.v1 import plan_pb2 as pb

from planner.placement.kernels.hints import Remembered, match_hints
from planner.snapshot.columns import Int32, Int64, UInt8
from planner.snapshot.offsets import find_offsets_fault

LAYOUT_VERSION: Final = 3
_Number = TypeVar("_Number", np.int32, np.int64, np.uint8)


class UnreadableStateError(ValueError):
    """A column of the state breaks its contract."""


class PodGroups(NamedTuple):
    """Pods by node, group N being those on none: members[offsets[g] : offsets[g+1]]. digests : int32[P'] of uids.

    P' counts the pods of the snapshot and those evicted lately.
    """

    offsets: Int64
    members: Int32
    digests: Int32


class FailedNodes(NamedTuple):
    """Nodes whose simulation failed, ascending.

    node : int32[F]; time_ns : int64[F]; reason, blocking_reason : uint8[F].
    """

    node: Int32
    time_ns: Int64
    reason: UInt8
    blocking_reason: UInt8
    blocking_pod: tuple[str, ...]


class Memory(NamedTuple):
    """The state in terms of one snapshot.

    unneeded : int32[U] nodes in the order of acceptance; since_ns : int64[U]; hint : int32[P'] node, -1 = none;
    search_start, resume_at : node, -1 = none; order : `CandidateOrder.Code` of the last plan, 0 = no plan; basis : what
    the choice of that order rested on, 0 = unknown; headroom : how many times as much as the plan any other could save
    at most, when orders were last compared, 0 = unknown.
    """

    unneeded: Int32
    since_ns: Int64
    failed: FailedNodes
    hint: Int32
    search_start: int
    resume_at: int
    order: "pb.CandidateOrder.Code.ValueType"
    basis: int
    headroom: float


class Moves(NamedTuple):
    """Destinations to remember. source : int32[H] group; bounds : int64[H+1]; pod, destination : int32."""

    source: Int32
    bounds: Int64
    pod: Int32
    destination: Int32


def recall(
    state: pb.ScaleDownState | None, names: Sequence[str], pods: PodGroups, now_ns: int
) -> tuple[Memory, tuple[str, ...]]:
    """Return what the state says about this snapshot's nodes (`names`, sorted) and notes on what could not be used.

    A time in the future (clocks differ) or none counts as now.
    """
    nothing = _blank(len(pods.digests))
    if state is None or state.layout_version == 0:
        return nothing, ()
    if state.layout_version != LAYOUT_VERSION:
        return nothing, (f"scale-down state has layout {state.layout_version}, not {LAYOUT_VERSION}: started afresh",)
    try:
        memory = _read(state, names, pods)
    except UnreadableStateError as error:
        return nothing, (f"scale-down state could not be read ({error}): started afresh",)
    failed = memory.failed._replace(time_ns=_possible(memory.failed.time_ns, now_ns))
    newest_ns = int(max(memory.since_ns.max(initial=0), memory.failed.time_ns.max(initial=0)))
    note = f"state has times up to {(newest_ns - now_ns) / 1e9:.1f} s after now, which count as now: the clocks differ"
    notes = (note,) if newest_ns > now_ns else ()
    return memory._replace(since_ns=_possible(memory.since_ns, now_ns), failed=failed), notes


def _possible(time_ns: Int64, now_ns: int) -> Int64:
    return np.where((time_ns > 0) & (time_ns <= now_ns), time_ns, now_ns)


def remember(memory: Memory, moves: Moves, names: Sequence[str], digests: Int32) -> pb.ScaleDownState:
    """Return the state on the wire; `memory.hint` is not looked at, `moves` take its place."""
    count = len(names)
    used = np.zeros(count + 1, bool)
    for nodes in (memory.unneeded, memory.failed.node, moves.source, moves.destination):
        used[nodes] = True
    used[[memory.search_start, memory.resume_at]] = True
    # Entry -1, which is the same as entry N, stands for "none": string 0.
    used[count] = False
    chosen = np.flatnonzero(used)
    code = np.zeros(count + 1, np.int32)
    code[chosen] = np.arange(1, len(chosen) + 1, dtype=np.int32)
    state = pb.ScaleDownState(layout_version=LAYOUT_VERSION, strings=["", *(names[int(node)] for node in chosen)])
    state.unneeded.node = code[memory.unneeded].tobytes()
    state.unneeded.time_ns = memory.since_ns.tobytes()
    failed = memory.failed
    state.unremovable.node = code[failed.node].tobytes()
    state.unremovable.time_ns = failed.time_ns.tobytes()
    state.unremovable.reason = failed.reason.tobytes()
    state.unremovable.blocking_reason = failed.blocking_reason.tobytes()
    state.unremovable.blocking_pod.extend(failed.blocking_pod)
    state.hints.source = code[moves.source].tobytes()
    state.hints.offsets = moves.bounds.astype(np.int32).tobytes()
    state.hints.pod = digests[moves.pod].tobytes()
    state.hints.destination = code[moves.destination].tobytes()
    state.search_start = int(code[memory.search_start])
    state.resume_at = int(code[memory.resume_at])
    state.candidate_order = memory.order
    state.basis = memory.basis
    state.headroom = memory.headroom
    return state


def _blank(pod_count: int) -> Memory:
    none32, none64, none8 = np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.uint8)
    failed = FailedNodes(none32, none64, none8, none8, ())
    return Memory(
        none32, none64, failed, np.full(pod_count, -1, np.int32), -1, -1, pb.CandidateOrder.UNSPECIFIED, 0, 0.0
    )


def _read(state: pb.ScaleDownState, names: Sequence[str], pods: PodGroups) -> Memory:
    place = {name: node for node, name in enumerate(names)}
    node_of = np.array([place.get(name, -1) for name in state.strings] or [-1], np.int32)
    unneeded, since_ns = _node_times(state.unneeded, node_of)
    hint = np.full(len(pods.digests), -1, np.int32)
    _read_hints(state.hints, node_of, len(names), pods, hint)
    return Memory(
        unneeded,
        since_ns,
        _read_failed(state.unremovable, node_of),
        hint,
        int(_translated(np.array([state.search_start], np.int32), node_of, "search_start")[0]),
        int(_translated(np.array([state.resume_at], np.int32), node_of, "resume_at")[0]),
        state.candidate_order
        if state.candidate_order in pb.CandidateOrder.Code.values()
        else pb.CandidateOrder.UNSPECIFIED,
        state.basis,
        state.headroom if math.isfinite(state.headroom) else 0.0,
    )


def _node_times(given: pb.NodeTimes, node_of: Int32) -> tuple[Int32, Int64]:
    node = _translated(_column(given.node, np.int32, "unneeded.node"), node_of, "unneeded.node")
    time_ns = _column(given.time_ns, np.int64, "unneeded.time_ns")
    _same_length("unneeded", len(node), len(time_ns))
    _, first = np.unique(node, return_index=True)
    kept = np.sort(first)
    kept = kept[node[kept] >= 0]
    return node[kept], time_ns[kept]


def _read_failed(given: pb.FailedNodes, node_of: Int32) -> FailedNodes:
    node = _translated(_column(given.node, np.int32, "unremovable.node"), node_of, "unremovable.node")
    time_ns = _column(given.time_ns, np.int64, "unremovable.time_ns")
    reason = _column(given.reason, np.uint8, "unremovable.reason")
    blocking = _column(given.blocking_reason, np.uint8, "unremovable.blocking_reason")
    _same_length("unremovable", len(node), len(time_ns), len(reason), len(blocking), len(given.blocking_pod))
    sorted_nodes, first = np.unique(node, return_index=True)
    kept = first[sorted_nodes >= 0]
    pods = tuple(given.blocking_pod[int(row)] for row in kept)
    return FailedNodes(node[kept], time_ns[kept], reason[kept], blocking[kept], pods)


def _read_hints(given: pb.PodHints, node_of: Int32, node_count: int, pods: PodGroups, hint: Int32) -> None:
    strings = _column(given.source, np.int32, "hints.source")
    bounds = _column(given.offsets, np.int32, "hints.offsets")
    pod = _column(given.pod, np.int32, "hints.pod")
    destination = _translated(_column(given.destination, np.int32, "hints.destination"), node_of, "hints.destination")
    _same_length("hints", len(pod), len(destination))
    if len(strings) == 0:
        return
    if len(bounds) != len(strings) + 1:
        raise UnreadableStateError(f"hints.offsets has {len(bounds)} rows for {len(strings)} sources")
    if fault := find_offsets_fault(bounds, len(pod)):
        raise UnreadableStateError(f"hints.offsets[{fault.row}]: {fault.problem}")
    source = _translated(strings, node_of, "hints.source")
    source[strings == 0] = node_count
    known = source[source >= 0]
    if len(np.unique(known)) < len(known):
        raise UnreadableStateError("hints.source names a node twice")
    order = np.empty(len(pod), np.int32)
    match_hints(Remembered(source, bounds, pod, destination), pods.offsets, pods.members, pods.digests, order, hint)


def _column(data: bytes, kind: type[_Number], name: str) -> NDArray[_Number]:
    if len(data) % np.dtype(kind).itemsize:
        raise UnreadableStateError(f"{name} has {len(data)} bytes, no multiple of {np.dtype(kind).itemsize}")
    # A copy, so that kernels see a writable array.
    return np.frombuffer(data, kind).copy()


def _translated(strings: Int32, node_of: Int32, name: str) -> Int32:
    if len(strings) and not (strings.min() >= 0 and strings.max() < len(node_of)):
        raise UnreadableStateError(f"{name} names a string that is not there")
    nodes: Int32 = node_of[strings]
    return nodes


def _same_length(name: str, *lengths: int) -> None:
    if len(set(lengths)) > 1:
        raise UnreadableStateError(f"the columns of {name} differ in length")
