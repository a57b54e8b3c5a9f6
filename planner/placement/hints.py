"""What a caller sends back of the last loop, read safely for any content: columns of a state, its opaque part, which
alone is dropped if its layout is another one, and in it the destinations of pods. A pod is identified by its node (or
none) and a short digest of its uid. Hints only decide what is tried first: a forgotten or wrong one costs a search.
Raises UnreadableStateError. Symbols: P' pods of the snapshot followed by virtual ones, N nodes; group N is the pods on
no node.
"""

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Final, NamedTuple, TypeVar

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from trimtab.planner.facts.kernels.membership import group_by_node
from trimtab.planner.model.values import RecentEviction
from trimtab.planner.placement.kernels.hints import Remembered, digest_texts, match_hints
from trimtab.planner.snapshot.caches import UNCACHED, SnapshotCache, SnapshotKey
from trimtab.planner.snapshot.columns import Int32, Int64, Snapshot, Text
from trimtab.planner.snapshot.dictionaries import find_offsets_fault
from trimtab.planner.snapshot.texts import string_index
from trimtab.v1 import opaque_state_pb2 as pb
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

    def by_node(view: Snapshot) -> tuple[Int64, Int32]:
        offsets, members = np.zeros(len(view.nodes.name) + 2, np.int64), np.empty(len(view.pods.node), np.int32)
        group_by_node(view.pods.node, offsets, members)
        return offsets, members

    offsets, members = cache.get(PodsByNodeKey(), snapshot, by_node)
    digests = cache.get(PodDigestsKey(), snapshot, lambda view: _digests(view.pods.uid))
    return PodGroups(offsets, members, digests)


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
