"""The nodes of the decision, the places of their pods and the verdicts on nodes, as messages. Nodes are in order of
name, which is that of their numbers.
"""

import hashlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias, cast

import numpy as np

from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.scale_down.kernels.order import write_sorted_uids
from trimtab.planner.snapshot.columns import Float64, Int32, Int64, Snapshot, UInt8
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2

_BLOCKING: Final = frozenset(reason_pb2.BlockingPodReason.Code.values())
_BLOCKING_CODE: Final = np.full(256, reason_pb2.BlockingPodReason.UNEXPECTED_ERROR, np.uint8)
_BLOCKING_CODE[list(_BLOCKING)] = list(_BLOCKING)
_UNREMOVABLE: Final = {number: name for name, number in reason_pb2.UnremovableReason.Code.items()}


def blocking_code(number: int) -> "reason_pb2.BlockingPodReason.Code.ValueType":
    """Return a `BlockingPodReason.Code`; UNEXPECTED_ERROR for a number that is none."""
    if number not in _BLOCKING:
        return reason_pb2.BlockingPodReason.UNEXPECTED_ERROR
    return cast("reason_pb2.BlockingPodReason.Code.ValueType", number)


def blocking_codes(numbers: UInt8) -> UInt8:
    """Return the same for an array. uint8."""
    return _BLOCKING_CODE[numbers]


def unremovable_name(number: int) -> str:
    """Return the name of an `UnremovableReason.Code`; "UNSPECIFIED" for a number that is none."""
    return _UNREMOVABLE.get(cast("reason_pb2.UnremovableReason.Code.ValueType", number), "UNSPECIFIED")


NodeTexts: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.object_]]"
"""A text for each of N nodes, "" = none."""


class Blocking(NamedTuple):
    """The blocking pods of nodes. pods : of each node, "namespace/name"; why : uint8[N] `BlockingPodReason.Code`."""

    pods: NodeTexts
    why: UInt8


class Unneeded(NamedTuple):
    """Unneeded nodes ascending. Pods to move of nodes[i]: pods[bounds[i]:bounds[i+1]], with the destination of each.

    nodes : int32[U]; since_ns : int64[U]; not_now : uint8[U] reason code, 0 = goes now; pods, destination : int32[M];
    bounds : int64[U+1]; eviction_cost : float64[U]; wave : int32[U]; details : by node,
    if any; gangs : of each node, "" = none; empty if no node has any.
    """

    nodes: Int32
    since_ns: Int64
    not_now: UInt8
    bounds: Int64
    pods: Int32
    destination: Int32
    eviction_cost: Float64
    wave: Int32
    details: Mapping[int, str]
    gangs: list[str]


class Staying(NamedTuple):
    """Nodes that stay, ascending. reason : uint8[V] `UnremovableReason.Code`; the rest by node, if there is any.

    blocking : the blocking pod, and why; failed : nodes by `PredicateReason` name.
    """

    nodes: Int32
    reason: UInt8
    blocking: Blocking
    failed: Mapping[int, Mapping[str, int]]
    details: NodeTexts


def add_unneeded(decision: pb.ScaleDownDecision, snapshot: Snapshot, unneeded: Unneeded) -> None:
    """Add the unneeded nodes and the places of their pods. O(pods to move)."""
    names = snapshot.nodes.name
    _add_places(decision.places, snapshot, unneeded)
    rows = zip(
        unneeded.nodes.tolist(),
        np.diff(unneeded.bounds).tolist(),
        _digests(snapshot, unneeded),
        unneeded.eviction_cost.tolist(),
        unneeded.gangs or [""] * len(unneeded.nodes),
        strict=True,
    )
    for node, pod_count, digest, cost, gang in rows:
        row = decision.unneeded.add(node=names[node], eviction_cost=cost, gang=gang)
        row.assumption.pods_to_move_count = pod_count
        row.assumption.pods_to_move_digest = digest


def _add_places(places: pb.Places, snapshot: Snapshot, unneeded: Unneeded) -> None:
    if not len(unneeded.pods):
        return
    source = np.repeat(unneeded.nodes, np.diff(unneeded.bounds))
    used = np.union1d(source, unneeded.destination)
    places.nodes.extend(["", *map(snapshot.nodes.name.__getitem__, used.tolist())])
    places.pods.extend(snapshot.pod_keys(unneeded.pods))
    places.sources.extend((np.searchsorted(used, source) + 1).tolist())
    places.destinations.extend((np.searchsorted(used, unneeded.destination) + 1).tolist())


def _digests(snapshot: Snapshot, unneeded: Unneeded) -> list[str]:
    """Return for each node 16 hexadecimal digits, a digest over the sorted uids of its pods to move."""
    uids = snapshot.pods.uid
    longest = int(np.diff(unneeded.bounds).max(initial=0))
    moved = unneeded.pods
    size = int((uids.offsets[moved + 1] - uids.offsets[moved]).sum()) + len(moved)
    out = np.empty(size, np.uint8)
    ends = np.zeros(len(unneeded.nodes), np.int64)
    write_sorted_uids(uids.data, uids.offsets, moved, unneeded.bounds, np.zeros((longest, 2), np.int64), out, ends)
    written = out.data
    return [hashlib.sha256(written[first:last]).hexdigest()[:16] for first, last in pairwise([0, *ends.tolist()])]


def write_verdicts(
    verdicts: Sequence[pb.NodeVerdict],
    share: Float64,
    unneeded: Unneeded,
    ends_ns: Int64,
    staying: Staying,
    blockers: Mapping[int, Sequence[pb.BlockingPod]],
) -> None:
    """Write what becomes of each node. share : float64[N] utilization, NaN = not computed; ends_ns : int64[U], when the
    timers of the unneeded nodes end, 0 = no timer keeps the node; blockers : all blocking pods of some nodes. O(N).
    """
    for node in np.flatnonzero(~np.isnan(share)).tolist():
        verdicts[node].utilization = share[node]
    _judge_unneeded(verdicts, unneeded, ends_ns)
    _judge_staying(verdicts, staying)
    for node, pods in blockers.items():
        verdicts[node].blocking_pods.extend(pods)


def _judge_unneeded(verdicts: Sequence[pb.NodeVerdict], unneeded: Unneeded, ends_ns: Int64) -> None:
    columns = (unneeded.nodes, unneeded.not_now, unneeded.wave, *_times(unneeded.since_ns), *_times(ends_ns))
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for node, reason, wave, since_s, since_nanos, end_s, end_nanos in rows:
        verdict = verdicts[node]
        verdict.fate = pb.NodeFate.GOES_LATER if reason else pb.NodeFate.GOES_NOW
        verdict.wave, verdict.reason = wave, reason
        verdict.since.seconds = since_s
        if since_nanos:
            verdict.since.nanos = since_nanos
        if end_s or end_nanos:
            verdict.goes_at.seconds, verdict.goes_at.nanos = end_s, end_nanos
    for node, text in unneeded.details.items():
        verdicts[node].detail = text


def _times(time_ns: Int64) -> tuple[Int64, Int64]:
    return time_ns // SECOND_NS, time_ns % SECOND_NS


def _judge_staying(verdicts: Sequence[pb.NodeVerdict], staying: Staying) -> None:
    nodes = staying.nodes
    texts = zip(staying.blocking.pods[nodes], staying.details[nodes], strict=True)
    why = staying.blocking.why[nodes].tolist()
    for node, reason, code, (pod, detail) in zip(nodes.tolist(), staying.reason.tolist(), why, texts, strict=True):
        verdict = verdicts[node]
        verdict.fate, verdict.reason = pb.NodeFate.STAYS, reason
        if pod:
            verdict.blocking_pod = pod
        if code:
            verdict.blocking_reason = code
        if detail:
            verdict.detail = detail
    for node in np.flatnonzero(np.isin(nodes, list(staying.failed))).tolist():
        verdicts[nodes[node]].predicate_failure_counts.update(staying.failed[int(nodes[node])])
