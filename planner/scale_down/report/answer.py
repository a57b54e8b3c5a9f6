"""The nodes of the decision as protobuf bytes. Nodes are in order of name, which is that of their numbers. Kernels
write them, because building messages entry by entry is far slower.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.utilization import Float64
from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.scale_down.context import ScaleDownRequest
from trimtab.planner.scale_down.report.kernels.wire import (
    StayingRows,
    UnneededRows,
    write_sorted_uids,
    write_staying,
    write_unneeded,
)
from trimtab.planner.scale_down.report.texts import Blocking, NodeTexts
from trimtab.planner.snapshot.caches import ContentKey
from trimtab.planner.snapshot.columns import Int32, Int64, Snapshot, UInt8
from trimtab.planner.snapshot.dictionaries import offsets_of
from trimtab.planner.snapshot.texts import Names, joined, texts_of
from trimtab.v1 import plan_pb2 as pb

WORTH_PODS: Final = 5_000
"""Answers with at least this many pods to move are written in several parts in parallel: they take a millisecond or
more.
"""


class Unneeded(NamedTuple):
    """Unneeded nodes ascending. Pods to move of nodes[i]: pods[bounds[i]:bounds[i+1]], with the destination of each.

    nodes : int32[U]; since_ns : int64[U]; not_now : uint8[U] reason code, 0 = goes now; pods, destination : int32[M];
    bounds : int64[U+1]; saving, eviction_cost : float64[U], a saving NaN = unknown; wave : int32[U]; details : by node,
    if any; gangs : of each node, "" = none; empty if no node has any.
    """

    nodes: Int32
    since_ns: Int64
    not_now: UInt8
    bounds: Int64
    pods: Int32
    destination: Int32
    saving: Float64
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


def unneeded_bytes(request: ScaleDownRequest, unneeded: Unneeded, share: Float64) -> bytes:
    """Return the unneeded nodes, encoded. share : float64[N] utilization. O(bytes).

    An unchanged plan for an unchanged snapshot may be encoded only once.
    """
    details, detail_offsets = _details(unneeded)
    gangs, gang_offsets = _texts(unneeded.gangs, len(unneeded.nodes))
    rows = UnneededRows(
        node=unneeded.nodes,
        seconds=unneeded.since_ns // SECOND_NS,
        nanos=unneeded.since_ns % SECOND_NS,
        reason=unneeded.not_now,
        utilization=_as_bytes(np.nan_to_num(share[unneeded.nodes], posinf=np.inf)),
        saving=_as_bytes(unneeded.saving),
        cost=_as_bytes(unneeded.eviction_cost),
        wave=unneeded.wave.astype(np.int64),
        digests=np.zeros(0, np.uint8),
        pods=unneeded.pods,
        destination=unneeded.destination,
        bounds=unneeded.bounds,
        details=details,
        detail_offsets=detail_offsets,
        gangs=gangs,
        gang_offsets=gang_offsets,
    )
    content = hashlib.sha256()
    for column in rows:
        content.update(len(column).to_bytes(8, "little"))
        content.update(np.ascontiguousarray(column).data)
    key = UnneededRowsKey(content.hexdigest(), request.snapshot.version)
    return request.encodings.get(key, partial(_write_side_by_side, request, rows))


def _details(unneeded: Unneeded) -> tuple[UInt8, Int64]:
    """Return the details as texts of the nodes, "" = none, and their offsets; most answers have none."""
    details = [unneeded.details.get(node, "") for node in unneeded.nodes.tolist()] if unneeded.details else []
    return _texts(details, len(unneeded.nodes))


def _texts(texts: list[str], count: int) -> tuple[UInt8, Int64]:
    """Return texts as bytes and their offsets; no texts stand for as many empty ones."""
    return joined(texts) if texts else (np.zeros(0, np.uint8), np.zeros(count + 1, np.int64))


@dataclass(frozen=True)
class UnneededRowsKey(ContentKey):
    """The encoded nodes that can go. content : digest of all columns; version : of the snapshot."""

    content: str
    version: str


def _write_side_by_side(request: ScaleDownRequest, rows: UnneededRows) -> bytes:
    """Return the encoded entries; large answers are written in parts."""
    parallel, count = request.round.work.parallel, len(rows.node)
    parts = min(parallel.width, count) if len(rows.pods) >= WORTH_PODS else 1
    write = partial(_write_unneeded, request.snapshot, texts_of(request.snapshot, request.cache))
    if parts < 2:
        return write(rows)
    cuts = [count * at // parts for at in range(parts + 1)]
    return b"".join(parallel([partial(write, _part_of(rows, *cut)) for cut in pairwise(cuts)]))


def _part_of(rows: UnneededRows, first: int, last: int) -> UnneededRows:
    """Return the entries from `first` up to but not including `last`; their digests are still to be computed."""
    start, end = rows.bounds[first], rows.bounds[last]
    return UnneededRows(
        node=rows.node[first:last],
        seconds=rows.seconds[first:last],
        nanos=rows.nanos[first:last],
        reason=rows.reason[first:last],
        utilization=rows.utilization[8 * first : 8 * last],
        saving=rows.saving[8 * first : 8 * last],
        cost=rows.cost[8 * first : 8 * last],
        wave=rows.wave[first:last],
        digests=rows.digests,
        pods=rows.pods[start:end],
        destination=rows.destination[start:end],
        bounds=rows.bounds[first : last + 1] - start,
        details=rows.details,
        detail_offsets=rows.detail_offsets[first : last + 1],
        gangs=rows.gangs,
        gang_offsets=rows.gang_offsets[first : last + 1],
    )


def _write_unneeded(snapshot: Snapshot, names: Names, content: UnneededRows) -> bytes:
    """Return the encoded entries, with the digests that `content` lacks."""
    rows = content._replace(digests=_digests(snapshot, content))
    sizes = np.zeros(len(rows.node), np.int64)
    out = np.empty(write_unneeded(names, rows, sizes, np.zeros(0, np.uint8)), np.uint8)
    if len(out):
        write_unneeded(names, rows, sizes, out)
    return out.tobytes()


def _as_bytes(values: Float64) -> UInt8:
    """Return doubles as bytes for the wire, little-endian."""
    return values.astype("<f8").view(np.uint8)


def staying_bytes(request: ScaleDownRequest, staying: Staying, share: Float64) -> bytes:
    """Return the nodes that stay, encoded. share : float64[N] utilization, NaN = not computed."""
    names = texts_of(request.snapshot, request.cache)
    rows = _staying_rows(staying, share[staying.nodes])
    sizes = np.zeros(len(rows.node), np.int64)
    out = np.empty(write_staying(names, rows, sizes, np.zeros(0, np.uint8)), np.uint8)
    if len(out):
        write_staying(names, rows, sizes, out)
    return out.tobytes()


def _staying_rows(staying: Staying, share: Float64) -> StayingRows:
    """Return the entries as columns. share : float64[V] utilization."""
    pods, pod_offsets = joined(staying.blocking.pods.of(staying.nodes))
    details, detail_offsets = joined(staying.details.of(staying.nodes))
    failed, failed_offsets = _failed(staying)
    return StayingRows(
        node=staying.nodes,
        reason=staying.reason.astype(np.uint8),
        blocking_reason=staying.blocking.why[staying.nodes],
        utilization=_as_bytes(share),
        pods=pods,
        pod_offsets=pod_offsets,
        details=details,
        detail_offsets=detail_offsets,
        failed=failed,
        failed_offsets=failed_offsets,
    )


def _failed(staying: Staying) -> tuple[UInt8, Int64]:
    """Return the encoded `predicate_failure_counts` of the nodes, and their offsets."""
    sizes = np.zeros(len(staying.nodes), np.int32)
    explained = np.fromiter(staying.failed.keys(), np.int32, len(staying.failed))
    parts = []
    for row in np.flatnonzero(np.isin(staying.nodes, explained)).tolist():
        failed = pb.UnremovableNode(predicate_failure_counts=staying.failed[int(staying.nodes[row])])
        parts.append(failed.SerializeToString(deterministic=True))
        sizes[row] = len(parts[-1])
    return np.frombuffer(b"".join(parts), np.uint8).copy(), offsets_of(sizes)


def _digests(snapshot: Snapshot, unneeded: UnneededRows) -> UInt8:
    """Return for each node 16 hexadecimal digits, a digest over the sorted uids of its pods to move. uint8[16·U]."""
    uids = snapshot.pods.uid
    most = int(np.diff(unneeded.bounds).max(initial=0))
    moved = unneeded.pods
    size = int((uids.offsets[moved + 1] - uids.offsets[moved]).sum()) + len(moved)
    out = np.empty(size, np.uint8)
    ends = np.zeros(len(unneeded.node), np.int64)
    write_sorted_uids(uids.data, uids.offsets, moved, unneeded.bounds, np.zeros((most, 2), np.int64), out, ends)
    written = out.data
    digests = [hashlib.sha256(written[first:last]).digest()[:8] for first, last in pairwise([0, *ends.tolist()])]
    return np.frombuffer(b"".join(digests).hex().encode(), np.uint8).copy()
