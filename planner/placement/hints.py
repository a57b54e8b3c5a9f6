"""Destinations of pods in the last loop, and their encoding. A pod is identified by its node (or none) and a short
digest of its uid. Hints only decide what is tried first: a forgotten or wrong one costs a search. Symbols: P' pods of
the snapshot followed by virtual ones, N nodes; group N is the pods on no node.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from trimtab.planner.facts.kernels.grouping import group_by_node
from trimtab.planner.model.values import RecentEviction
from trimtab.planner.placement.kernels.hints import Remembered, digest_texts, match_hints
from trimtab.planner.placement.state_columns import UnreadableStateError, check_lengths, column, translated
from trimtab.planner.snapshot.caches import UNCACHED, SnapshotCache, SnapshotKey
from trimtab.planner.snapshot.columns import Int32, Int64, Snapshot, Text
from trimtab.planner.snapshot.dictionaries import find_offsets_fault
from trimtab.v1 import opaque_state_pb2 as pb


class PodGroups(NamedTuple):
    """Pods by node, with group N for those on none: members[offsets[g] : offsets[g+1]]. digests : int32[P'] of uids. P'
    counts the pods of the snapshot, recently evicted ones and placeholders.
    """

    offsets: Int64
    members: Int32
    digests: Int32


class Moves(NamedTuple):
    """Destinations to remember. source : int32[H] group; bounds : int64[H+1]; pod, destination : int32."""

    source: Int32
    bounds: Int64
    pod: Int32
    destination: Int32


class PodsByNodeKey(SnapshotKey[tuple[Int64, Int32]]):
    """The pods by node."""


class PodDigestsKey(SnapshotKey[Int32]):
    """Digests of the uids of pods."""


def pod_groups(snapshot: Snapshot, evictions: Sequence[RecentEviction], cache: SnapshotCache) -> PodGroups:
    """Return the snapshot's pods by node, and recently evicted ones. The snapshot's part is cached."""
    return with_evicted(group_pods(snapshot, cache), evictions)


def group_pods(snapshot: Snapshot, cache: SnapshotCache = UNCACHED) -> PodGroups:
    """Return the snapshot's pods by node. O(P)."""
    offsets, members = cache.get(PodsByNodeKey(), snapshot, _by_node)
    digests = cache.get(PodDigestsKey(), snapshot, lambda view: _digests(view.pods.uid))
    return PodGroups(offsets, members, digests)


def _by_node(snapshot: Snapshot) -> tuple[Int64, Int32]:
    """Return offsets and members of `PodGroups`."""
    offsets = np.zeros(len(snapshot.nodes.name) + 2, np.int64)
    members = np.empty(len(snapshot.pods.node), np.int32)
    group_by_node(snapshot.pods.node, offsets, members)
    return offsets, members


def with_evicted(groups: PodGroups, evictions: Sequence[RecentEviction]) -> PodGroups:
    """Append the recently evicted pods, which are on no node, to the snapshot's pods on no node."""
    if not evictions:
        return groups
    pod_count, more = len(groups.members), len(evictions)
    offsets = groups.offsets.copy()
    offsets[-1] += more
    uids = [eviction.uid.encode() for eviction in evictions]
    ends = np.cumsum([0, *(len(uid) for uid in uids)], dtype=np.int64)
    digests = _digests(Text(np.frombuffer(b"".join(uids), np.uint8).copy(), ends))
    return PodGroups(
        offsets,
        np.concatenate([groups.members, np.arange(pod_count, pod_count + more, dtype=np.int32)]),
        np.concatenate([groups.digests, digests]),
    )


def with_placeholders(groups: PodGroups, names: Sequence[str], node: Int64) -> PodGroups:
    """Append placeholders, numbered after all other pods, to the pods of their nodes. node : int64[names]; placeholders
    with a node from N on, or -1, are in no group. O(P)."""
    if not names:
        return groups
    first, node_count = len(groups.digests), len(groups.offsets) - 2
    there = np.flatnonzero((node >= 0) & (node < node_count))
    there = there[np.argsort(node[there], kind="stable")]
    offsets = groups.offsets.copy()
    offsets[1:] += np.cumsum(np.bincount(node[there], minlength=node_count + 1))
    texts = [name.encode() for name in names]
    ends = np.cumsum([0, *(len(text) for text in texts)], dtype=np.int64)
    digests = _digests(Text(np.frombuffer(b"".join(texts), np.uint8).copy(), ends))
    members = np.insert(groups.members, groups.offsets[node[there] + 1], (first + there).astype(np.int32))
    return PodGroups(offsets, members.astype(np.int32), np.concatenate([groups.digests, digests]))


def _digests(texts: Text) -> Int32:
    digests = np.empty(len(texts.offsets) - 1, np.int32)
    with np.errstate(over="ignore"):  # the hash overflows on purpose; in plain Python, numpy would warn
        digest_texts(texts.data, texts.offsets, digests)
    return digests


def read_hints(
    hints: pb.PodHints, number_of: Int32, pods: PodGroups, destinations: Callable[[Int32], Int32] | None = None
) -> Int32:
    """Return where each pod went, -1 = not known. int32[P']. Raises UnreadableStateError.

    number_of : int32[strings] node of each string of the state, -1 = gone; destinations : translates the column of
    destinations, if these are not all nodes of the snapshot.
    """
    hint = np.full(len(pods.digests), -1, np.int32)
    strings = column(hints.source, np.int32, "hints.source")
    bounds = column(hints.offsets, np.int32, "hints.offsets")
    pod = column(hints.pod, np.int32, "hints.pod")
    destination = column(hints.destination, np.int32, "hints.destination")
    if destinations is None:
        destination = translated(destination, number_of, "hints.destination")
    else:
        destination = destinations(destination)
    check_lengths("hints", len(pod), len(destination))
    if len(strings) == 0:
        return hint
    if len(bounds) != len(strings) + 1:
        raise UnreadableStateError(f"hints.offsets has {len(bounds)} rows for {len(strings)} sources")
    if fault := find_offsets_fault(bounds, len(pod)):
        raise UnreadableStateError(f"hints.offsets[{fault.row}]: {fault.problem}")
    source = translated(strings, number_of, "hints.source")
    source[strings == 0] = len(pods.offsets) - 2
    present = source[source >= 0]
    if len(np.unique(present)) < len(present):
        raise UnreadableStateError("hints.source names a node twice")
    order = np.empty(len(pod), np.int32)
    match_hints(Remembered(source, bounds, pod, destination), pods.offsets, pods.members, pods.digests, order, hint)
    return hint


def write_hints(moves: Moves, code: Int32, digests: Int32, hints: pb.PodHints) -> None:
    """Write destinations. code : int32, string of each group and destination; digests : int32[P']."""
    hints.source = code[moves.source].tobytes()
    hints.offsets = moves.bounds.astype(np.int32).tobytes()
    hints.pod = digests[moves.pod].tobytes()
    hints.destination = code[moves.destination].tobytes()
