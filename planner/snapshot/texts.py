"""The names of pods and nodes as bytes, for kernels that write answers.

Cost: O(P + bytes of names).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trimtab.planner.compiled.by_reference import by_reference
from trimtab.planner.snapshot.caches import SnapshotCache, SnapshotKey
from trimtab.planner.snapshot.columns import Int32, Int64, Snapshot, UInt8


@by_reference()
class Names(NamedTuple):
    """The names as texts, which end where the next one begins. namespace : int32[P] into the texts `namespaces`;
    namespaces, pods, nodes : uint8[bytes]; namespace_offsets, pod_offsets, node_offsets : int64[texts+1].
    """

    namespace: Int32
    namespaces: UInt8
    namespace_offsets: Int64
    pods: UInt8
    pod_offsets: Int64
    nodes: UInt8
    node_offsets: Int64


class NamesKey(SnapshotKey[Names]):
    """The texts of names."""


def texts_of(snapshot: Snapshot, cache: SnapshotCache) -> Names:
    """Return the texts of the names in answers, cached or gathered."""
    return cache.get(NamesKey(), snapshot, _gather)


def _gather(snapshot: Snapshot) -> Names:
    """Gather them. O(P + bytes of names)."""
    pods = snapshot.pods
    spaces, namespace = _used_namespaces(snapshot)
    space_data, space_offsets = joined(spaces)
    node_data, node_offsets = joined(snapshot.nodes.name)
    return Names(
        namespace, space_data, space_offsets, pods.name.data, pods.name.offsets, node_data, node_offsets
    )  # fmt: skip


def _used_namespaces(snapshot: Snapshot) -> tuple[list[str], Int32]:
    """Return the namespaces of pods, and each pod's number of its own : int32[P]. Pods are sorted by namespace."""
    column = snapshot.pods.namespace
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    number = np.cumsum(np.diff(column, prepend=-1) != 0, dtype=np.int32) - np.int32(1)
    return [snapshot.strings[column[start]] for start in starts], number.astype(np.int32)


def joined(texts: Sequence[str]) -> tuple[UInt8, Int64]:
    """Return concatenated texts: their bytes, and int64[texts + 1] the start of each."""
    data = "".join(texts).encode()
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    if lengths.sum() != len(data):
        # Some character takes more than one byte.
        lengths = np.fromiter((len(text.encode()) for text in texts), np.int64, len(texts))
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    # A copy, so that kernels see a writable array.
    return np.frombuffer(data, np.uint8).copy(), offsets


def pod_keys(snapshot: Snapshot, pods: Int64) -> list[str]:
    """Return "namespace/name" of each of pods : int64[n]. O(bytes of names)."""
    column, strings = snapshot.pods.name, snapshot.strings
    data = column.data
    first, last = column.offsets[pods].tolist(), column.offsets[pods + 1].tolist()
    spaces = snapshot.pods.namespace[pods].tolist()
    names = (data[start:end].tobytes().decode() for start, end in zip(first, last, strict=True))
    return [f"{strings[space]}/{name}" for space, name in zip(spaces, names, strict=True)]
