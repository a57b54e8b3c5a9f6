"""The state of scale-down between loops, and its encoding. Names in the message become indices of this snapshot;
vanished objects are dropped silently. An unreadable typed part counts as absent, an unreadable opaque one (hints, where
searches continue, the choice among orders) is dropped alone; both give a note. Times in Unix nanoseconds.

Drains that slack undoes: the scheduler may put the pods of a drain where room was kept for placeholders that fit
nowhere else; new nodes come for these, the next plan drains others, and so on forever. So if slack lacks room after a
drain although there are no more pods than before, no node with pods to move goes for ten minutes, doubled each time it
happens again, up to a day. A drain after which slack has all its room for ten minutes ends the series.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.placement.hints import (
    LAYOUT_VERSION,
    Moves,
    PodGroups,
    UnreadableStateError,
    check_lengths,
    column,
    numbers_of,
    open_opaque,
    read_hints,
    translated,
    write_hints,
)
from trimtab.planner.snapshot.columns import Int32, Int64, UInt8
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.opaque_state_pb2 import OpaqueState

FIRST_PAUSE_NS: Final = 600 * SECOND_NS
LONGEST_PAUSE_NS: Final = 86_400 * SECOND_NS
SETTLED_NS: Final = 600 * SECOND_NS
"""If slack has all its room after this time, with no deletion in progress, the drain was harmless."""
_MOST_TIMES: Final = 30


class UndoneDrains(NamedTuple):
    """drain_ns : time of the last drain whose result is not known yet, 0 = none; pod_count : number of pods at that
    time; times : drains undone in a row; until_ns : no drain is started before, 0 = no wait."""

    drain_ns: int = 0
    pod_count: int = 0
    times: int = 0
    until_ns: int = 0


class Slack(NamedTuple):
    """Findings of the loop. lacking : a placeholder has no place on an existing node; leaving : nodes are being
    deleted; pod_count : pods now, without those that no controller recreates elsewhere; undone : drains undone so far.
    """

    lacking: bool
    leaving: bool
    pod_count: int
    undone: UndoneDrains = UndoneDrains()


def judged(before: UndoneDrains, slack: Slack, now_ns: int) -> UndoneDrains:
    """Return the updated record after this loop has seen the result of the last drain."""
    if not before.drain_ns:
        return before
    if slack.lacking and slack.pod_count > before.pod_count:
        # There are more pods: they have taken the room, regardless of where those of the drained nodes are.
        return before._replace(drain_ns=0, pod_count=0)
    if slack.lacking:
        pause_ns = min(FIRST_PAUSE_NS << before.times, LONGEST_PAUSE_NS)
        return UndoneDrains(0, 0, min(before.times + 1, _MOST_TIMES), now_ns + pause_ns)
    if now_ns - before.drain_ns >= SETTLED_NS and not slack.leaving:
        return UndoneDrains()
    return before


def drained(before: UndoneDrains, slack: Slack, now_ns: int) -> UndoneDrains:
    """Return the record after nodes with pods to move go. If slack already lacks room, the drain is not recorded."""
    return before if slack.lacking else before._replace(drain_ns=now_ns, pod_count=slack.pod_count)


def read_undone_drains(state: pb.UndoneDrains, now_ns: int) -> UndoneDrains:
    """Return the record from a state. A drain in the future (clocks differ) counts as now; pauses are capped at the
    longest.
    """
    # A state may contain times that no clock shows.
    drain_ns, until_ns = (time.seconds * SECOND_NS + time.nanos for time in (state.drain_time, state.until_time))
    return UndoneDrains(
        drain_ns=max(min(drain_ns, now_ns), 0),
        pod_count=max(state.pod_count, 0),
        times=min(max(state.times, 0), _MOST_TIMES),
        until_ns=max(min(until_ns, now_ns + LONGEST_PAUSE_NS), 0),
    )


def write_undone_drains(record: UndoneDrains, state: pb.ScaleDownState) -> None:
    """Write the record to a state; nothing if it is empty."""
    if record == UndoneDrains():
        return
    message = state.undone_drains
    message.pod_count, message.times = record.pod_count, record.times
    if record.drain_ns:
        message.drain_time.FromNanoseconds(record.drain_ns)
    if record.until_ns:
        message.until_time.FromNanoseconds(record.until_ns)


_BYTES_OF_NODE: Final = np.dtype(np.int32).itemsize


class FailedNodes(NamedTuple):
    """Nodes whose simulation failed, ascending.

    node : int32[F]; time_ns : int64[F]; reason, blocking_reason : uint8[F].
    """

    node: Int32
    time_ns: Int64
    reason: UInt8
    blocking_reason: UInt8
    blocking_pod: tuple[str, ...]


class LaterWaves(NamedTuple):
    """Unneeded nodes of waves after the first, wave by wave. node : int32[L]; since_ns : int64[L]; wave : int32[L],
    ascending."""

    node: Int32
    since_ns: Int64
    wave: Int32


class PreviousLoop(NamedTuple):
    """The state in terms of one snapshot.

    unneeded : int32[U] nodes of the first wave in the order of acceptance; since_ns : int64[U]; hint : int32[P'] node,
    -1 = none; search_start, resume_at : node, -1 = none; order : number of `search.orders.CandidateOrder` of the last
    plan, 0 = no plan; basis : digest of the inputs of the choice of that order, 0 = unknown; headroom : upper bound of
    any plan's saving as a multiple of the plan's, when orders were last compared, 0 = unknown; slack_dependent_count :
    how many of the last of the unneeded nodes can go only because slack requests fewer placeholders without them;
    undone : drains undone by slack; later : nodes of later waves; filled : int32 unneeded nodes, of any wave, that
    evicted pods have filled above the utilization threshold.
    """

    unneeded: Int32
    since_ns: Int64
    failed: FailedNodes
    hint: Int32
    search_start: int
    resume_at: int
    order: int
    basis: int
    headroom: float
    slack_dependent_count: int
    undone: UndoneDrains
    later: LaterWaves
    filled: Int32

    def planned(self) -> Int32:
        """Return the unneeded nodes of all waves. int32."""
        return np.concatenate([self.unneeded, self.later.node])

    def planned_since_ns(self) -> Int64:
        """Return since when `planned()` are unneeded. int64."""
        return np.concatenate([self.since_ns, self.later.since_ns])


def recall(
    state: pb.ScaleDownState | None, names: Sequence[str], pods: PodGroups, now_ns: int
) -> tuple[PreviousLoop, tuple[str, ...]]:
    """Return the state in terms of this snapshot's nodes (`names`, sorted), and notes on parts that could not be used.

    A time in the future (clocks differ), or a missing one, counts as now.
    """
    nothing = _blank(len(pods.digests))
    if state is None:
        return nothing, ()
    node_of = numbers_of(state.strings, names)
    try:
        unneeded, since_ns, place = _node_times(state.unneeded, node_of, "unneeded")
        filled = np.unique(translated(column(state.filled, np.int32, "filled"), node_of, "filled"))
        previous = nothing._replace(
            unneeded=unneeded,
            since_ns=since_ns,
            failed=_read_failed(state.unremovable, node_of),
            later=_read_later(state, node_of, unneeded),
            filled=filled[filled >= 0],
        )
    except UnreadableStateError as error:
        return nothing, (f"scale-down state could not be read ({error}): starting with empty state",)
    previous, notes = _past(previous, state, now_ns)
    try:
        opaque = open_opaque(state.opaque)
        from_end = len(state.unneeded.node) // _BYTES_OF_NODE - place
        return _with_opaque(previous, opaque, node_of, pods, from_end), notes
    except UnreadableStateError as error:
        return previous, (
            *notes,
            f"the opaque part of the scale-down state was dropped ({error}): timers continue, searches start anew",
        )


def _past(previous: PreviousLoop, state: pb.ScaleDownState, now_ns: int) -> tuple[PreviousLoop, tuple[str, ...]]:
    """Return the state with times that can be, and a note on those that could not."""
    failed = previous.failed._replace(time_ns=_possible(previous.failed.time_ns, now_ns))
    newest_ns = int(max(previous.planned_since_ns().max(initial=0), previous.failed.time_ns.max(initial=0)))
    note = f"state has times up to {(newest_ns - now_ns) / 1e9:.1f} s after now, which count as now: the clocks differ"
    notes = (note,) if newest_ns > now_ns else ()
    undone = read_undone_drains(state.undone_drains, now_ns)
    later = previous.later._replace(since_ns=_possible(previous.later.since_ns, now_ns))
    since_ns = _possible(previous.since_ns, now_ns)
    return previous._replace(since_ns=since_ns, later=later, failed=failed, undone=undone), notes


def _possible(time_ns: Int64, now_ns: int) -> Int64:
    return np.where((time_ns > 0) & (time_ns <= now_ns), time_ns, now_ns)


def remember(previous: PreviousLoop, moves: Moves, names: Sequence[str], digests: Int32) -> pb.ScaleDownState:
    """Return the encoded state; `previous.hint` is ignored, `moves` replace it."""
    count = len(names)
    used = np.zeros(count + 1, bool)
    for nodes in (previous.planned(), previous.failed.node, moves.source, moves.destination):
        used[nodes] = True
    used[[previous.search_start, previous.resume_at]] = True
    # Entry -1, which is the same as entry N, stands for "none": string 0.
    used[count] = False
    chosen = np.flatnonzero(used)
    code = np.zeros(count + 1, np.int32)
    code[chosen] = np.arange(1, len(chosen) + 1, dtype=np.int32)
    state = pb.ScaleDownState(strings=["", *map(names.__getitem__, chosen.tolist())])
    state.unneeded.node = code[previous.unneeded].tobytes()
    state.unneeded.time_ns = previous.since_ns.tobytes()
    state.later_waves.node = code[previous.later.node].tobytes()
    state.later_waves.time_ns = previous.later.since_ns.tobytes()
    state.wave = previous.later.wave.tobytes()
    state.filled = code[previous.filled].tobytes()
    failed = previous.failed
    state.unremovable.node = code[failed.node].tobytes()
    state.unremovable.time_ns = failed.time_ns.tobytes()
    state.unremovable.reason = failed.reason.tobytes()
    state.unremovable.blocking_reason = failed.blocking_reason.tobytes()
    state.unremovable.blocking_pod.extend(failed.blocking_pod)
    write_undone_drains(previous.undone, state)
    opaque = OpaqueState(
        layout_version=LAYOUT_VERSION,
        search_start=int(code[previous.search_start]),
        resume_at=int(code[previous.resume_at]),
        candidate_order=previous.order,
        basis=previous.basis,
        headroom=previous.headroom or None,
        fewer_placeholders=previous.slack_dependent_count,
    )
    write_hints(moves, code, digests, opaque.hints)
    state.opaque = opaque.SerializeToString(deterministic=True)
    return state


def _blank(pod_count: int) -> PreviousLoop:
    none32, none64, none8 = np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.uint8)
    failed = FailedNodes(none32, none64, none8, none8, ())
    return PreviousLoop(
        none32, none64, failed, np.full(pod_count, -1, np.int32), -1, -1, 0, 0, 0.0, 0,
        UndoneDrains(), LaterWaves(none32, none64, none32), none32,
    )  # fmt: skip


def _with_opaque(
    previous: PreviousLoop,
    opaque: OpaqueState,
    node_of: Int32,
    pods: PodGroups,
    from_end: Int64,
) -> PreviousLoop:
    """Return the state with its opaque part. from_end : int64[U], of the unneeded nodes that are still there, their
    places among those in the state, 1 = the last. Raises UnreadableStateError."""
    starts = translated(np.array([opaque.search_start, opaque.resume_at], np.int32), node_of, "a start of a search")
    return previous._replace(
        hint=read_hints(opaque.hints, node_of, pods),
        search_start=int(starts[0]),
        resume_at=int(starts[1]),
        order=opaque.candidate_order,
        basis=opaque.basis,
        headroom=opaque.headroom if math.isfinite(opaque.headroom) else 0.0,
        slack_dependent_count=int(np.count_nonzero(from_end <= opaque.fewer_placeholders)),
    )


def _read_later(state: pb.ScaleDownState, node_of: Int32, unneeded: Int32) -> LaterWaves:
    """Return the later waves; a node of the first wave, unneeded : int32, is in no other."""
    node, since_ns, place = _node_times(state.later_waves, node_of, "later_waves")
    wave = column(state.wave, np.int32, "wave")
    check_lengths("later_waves", len(state.later_waves.node) // _BYTES_OF_NODE, len(wave))
    others = np.flatnonzero(~np.isin(node, unneeded))
    others = others[np.argsort(wave[place[others]], kind="stable")]
    return LaterWaves(node[others], since_ns[others], wave[place[others]])


def _node_times(times: pb.NodeTimes, node_of: Int32, field: str) -> tuple[Int32, Int64, Int64]:
    """Return the nodes that are still there, their times, and their places among the nodes in the state, ascending."""
    node = translated(column(times.node, np.int32, f"{field}.node"), node_of, f"{field}.node")
    time_ns = column(times.time_ns, np.int64, f"{field}.time_ns")
    check_lengths(field, len(node), len(time_ns))
    _, first = np.unique(node, return_index=True)
    rows = np.sort(first)
    rows = rows[node[rows] >= 0]
    return node[rows], time_ns[rows], rows


def _read_failed(message: pb.FailedNodes, node_of: Int32) -> FailedNodes:
    node = translated(column(message.node, np.int32, "unremovable.node"), node_of, "unremovable.node")
    time_ns = column(message.time_ns, np.int64, "unremovable.time_ns")
    reason = column(message.reason, np.uint8, "unremovable.reason")
    blocking = column(message.blocking_reason, np.uint8, "unremovable.blocking_reason")
    check_lengths("unremovable", len(node), len(time_ns), len(reason), len(blocking), len(message.blocking_pod))
    sorted_nodes, first = np.unique(node, return_index=True)
    rows = first[sorted_nodes >= 0]
    pods = tuple(map(list(message.blocking_pod).__getitem__, rows.tolist()))
    return FailedNodes(node[rows], time_ns[rows], reason[rows], blocking[rows], pods)
