"""The names of pods and nodes as bytes, for kernels that write answers.

Decides nothing. Cost: O(P + bytes of names).
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from planner.model.by_reference import by_reference
from planner.model.derive import Derive
from planner.snapshot.columns import Int32, Int64, Snapshot, UInt8


@by_reference()
class Names(NamedTuple):
    """Texts of what is named. namespace : int32[P] into the texts namespaces; pods and nodes : texts by number."""

    namespace: Int32
    namespaces: UInt8
    namespace_offsets: Int64
    pods: UInt8
    pod_offsets: Int64
    nodes: UInt8
    node_offsets: Int64


def texts_of(snapshot: Snapshot, derive: Derive) -> Names:
    """Return the texts of what answers name, kept or gathered."""
    return derive("texts", partial(_gather, snapshot), of=("strings", "pods.namespace", "pods.name", "nodes.name"))


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
    """Return the namespaces of pods and by pod the number of its own. Pods are sorted by namespace: int32[P]."""
    column = snapshot.pods.namespace
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    number = np.cumsum(np.diff(column, prepend=-1) != 0, dtype=np.int32) - np.int32(1)
    return [snapshot.strings[column[start]] for start in starts], number.astype(np.int32)


def joined(texts: Sequence[str]) -> tuple[UInt8, Int64]:
    """Return texts one after the other: their bytes, and int64[texts + 1] where each begins."""
    encoded = [text.encode() for text in texts]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(one) for one in encoded], out=offsets[1:])
    # A copy, so that kernels see a writable array.
    return np.frombuffer(b"".join(encoded), np.uint8).copy(), offsets
