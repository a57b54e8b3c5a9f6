"""The nodes of the decision, and the places of their pods, as messages. Nodes are in order of name, which is that of
their numbers.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from trimtab.planner.facts.utilization import Float64
from trimtab.planner.scale_down.context import ScaleDownRequest
from trimtab.planner.scale_down.report.kernels.digests import write_sorted_uids
from trimtab.planner.scale_down.report.texts import Blocking, NodeTexts
from trimtab.planner.snapshot.caches import ContentKey
from trimtab.planner.snapshot.columns import Int32, Int64, Snapshot, UInt8
from trimtab.v1 import plan_pb2 as pb


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


@dataclass(frozen=True)
class UnneededRowsKey(ContentKey):
    """The encoded nodes that can go. content : digest of all columns; version : of the snapshot."""

    content: str
    version: str


def add_unneeded(decision: pb.ScaleDownDecision, request: ScaleDownRequest, unneeded: Unneeded) -> None:
    """Add the unneeded nodes and the places of their pods. O(pods to move).

    For an unchanged snapshot, an unchanged plan is made into messages only once.
    """
    content = hashlib.sha256(repr(unneeded.gangs).encode())
    for column in (unneeded.nodes, unneeded.bounds, unneeded.pods, unneeded.destination, unneeded.eviction_cost):
        content.update(len(column).to_bytes(8, "little"))
        content.update(np.ascontiguousarray(column).data)
    key = UnneededRowsKey(content.hexdigest(), request.snapshot.version)
    made = request.encodings.get(key, partial(_unneeded, request.snapshot, unneeded))
    decision.MergeFromString(made)


def _unneeded(snapshot: Snapshot, unneeded: Unneeded) -> bytes:
    """Return the nodes and places as an encoded decision."""
    decision, names = pb.ScaleDownDecision(), snapshot.nodes.name
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
    return decision.SerializeToString(deterministic=True)


def _add_places(places: pb.Places, snapshot: Snapshot, unneeded: Unneeded) -> None:
    """Write the destination of each pod to move, node by node."""
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
    most = int(np.diff(unneeded.bounds).max(initial=0))
    moved = unneeded.pods
    size = int((uids.offsets[moved + 1] - uids.offsets[moved]).sum()) + len(moved)
    out = np.empty(size, np.uint8)
    ends = np.zeros(len(unneeded.nodes), np.int64)
    write_sorted_uids(uids.data, uids.offsets, moved, unneeded.bounds, np.zeros((most, 2), np.int64), out, ends)
    written = out.data
    return [hashlib.sha256(written[first:last]).hexdigest()[:16] for first, last in pairwise([0, *ends.tolist()])]
