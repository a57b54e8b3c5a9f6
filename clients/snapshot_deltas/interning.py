"""Snapshots in one lasting numbering, so that equal content has equal numbers from one snapshot to the next.

Decides the numbers, by first appearance; a caller starts a new interner when the old one has grown. Cost: a few
microseconds a node and distinct spec; vectorised over pods. Index 0 is "" among strings and the empty set among label
sets, as on the wire.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from trimtab.v1 import snapshot_pb2 as pb

from clients.snapshot_deltas.renumbering import Numbers, renumber

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]


class PodColumns(NamedTuple):
    """Pods in the order of the table. Lengths in bytes; offsets have one entry more than there are pods; texts : uint8.

    columns : all other columns but the mounts, those that refer in interned numbers; uid_offsets : int64;
    mounts : int64, ascending: pod row times 2^32 plus interned volume.
    """

    namespace: Int32
    name_lengths: Int32
    name_offsets: Int64
    names: UInt8
    uid_lengths: Int32
    uid_offsets: Int64
    uids: UInt8
    columns: tuple[NDArray[Any], ...]
    mounts: Int64


class InternedSnapshot(NamedTuple):
    """A snapshot to compare. rows : by field of `ClusterSnapshot`, key to the row's bytes in interned numbers;

    resources : as the message has them; actuation : bytes, None where absent; message : the snapshot itself.
    """

    message: pb.ClusterSnapshot
    resources: tuple[str, ...]
    pods: PodColumns
    rows: dict[str, dict[str, bytes]]
    actuation: bytes | None


KEYS: dict[str, Any] = {
    "nodes": lambda row: row.name,
    "node_groups": lambda row: row.id,
    "owners": lambda row: row.uid,
    "pod_disruption_budgets": lambda row: f"{row.namespace}/{row.name}",
    "namespaces": lambda row: row.name,
}
"""The tables of rows, and the key of each."""


class Interner:
    """Numbers strings, label sets, pod specs and volumes."""

    def __init__(self) -> None:
        self.strings: dict[str, int] = {"": 0}
        self.label_sets: dict[bytes, int] = {b"": 0}
        self.specs: dict[bytes, int] = {}
        self.volumes: dict[bytes, int] = {}

    def size(self) -> int:
        """Return how many entries there are."""
        return len(self.strings) + len(self.label_sets) + len(self.specs) + len(self.volumes)

    def intern(self, message: pb.ClusterSnapshot) -> InternedSnapshot:
        """Number a snapshot. The message is copied. Raises ValueError, IndexError for one that breaks its contract."""
        copy = pb.ClusterSnapshot()
        copy.CopyFrom(message)
        strings = _lookup(self.strings, copy.strings or [""])
        label_sets = self._label_sets(copy.label_sets, strings)
        string, label_set = strings.tolist().__getitem__, label_sets.tolist().__getitem__
        of_specs = Numbers(string, label_set, int)
        specs = self._rows(self.specs, copy.pod_specs, of_specs)
        volumes = self._rows(self.volumes, copy.volumes, of_specs)
        numbers = Numbers(string, label_set, specs.tolist().__getitem__)
        rows = {table: {key(row): _encode(row, numbers) for row in getattr(copy, table)} for table, key in KEYS.items()}
        acting = _encode(copy.actuation_status, numbers) if copy.HasField("actuation_status") else None
        pods = _pods(copy.pods, (strings, label_sets, specs, volumes))
        own = pb.ClusterSnapshot()
        own.CopyFrom(message)
        return InternedSnapshot(own, tuple(message.resources), pods, rows, acting)

    def _label_sets(self, sets: pb.LabelSets, strings: Int32) -> Int32:
        """Return the number of each label set; its entries are sorted, so that their order means nothing."""
        offsets = np.frombuffer(sets.offsets, "<i4")
        if len(offsets) < 2:
            return np.zeros(1, np.int32)
        keys, values = strings[np.frombuffer(sets.keys, "<i4")], strings[np.frombuffer(sets.values, "<i4")]
        owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        order = np.lexsort((keys, owner))
        entries = np.stack((keys[order], values[order]), axis=1).astype("<i4").tobytes()
        return _lookup(self.label_sets, [entries[8 * a : 8 * b] for a, b in pairwise(offsets.tolist())])

    def _rows(self, known: dict[bytes, int], rows: Iterable[Any], numbers: Numbers) -> Int32:
        return _lookup(known, [_encode(row, numbers) for row in rows])


def _encode(row: Any, numbers: Numbers) -> bytes:
    renumber(row, numbers)
    encoded: bytes = row.SerializeToString(deterministic=True)
    return encoded


def _lookup(known: dict[Any, int], values: Iterable[Any]) -> Int32:
    return np.array([known.setdefault(value, len(known)) for value in values], np.int32)


def _pods(table: pb.PodTable, dictionaries: tuple[Int32, Int32, Int32, Int32]) -> PodColumns:
    strings, label_sets, specs, volumes = dictionaries
    count = table.count

    def column(data: bytes, dtype: str) -> NDArray[Any]:
        return np.frombuffer(data, dtype) if data else np.zeros(count, dtype)

    name_lengths, uid_lengths = column(table.name_lengths, "<i4"), column(table.uid_lengths, "<i4")
    mounted = np.frombuffer(table.volume_pod, "<i4").astype(np.int64)
    return PodColumns(
        namespace=strings[column(table.namespace, "<i4")],
        name_lengths=name_lengths,
        name_offsets=_offsets(name_lengths),
        names=np.frombuffer(table.names, np.uint8),
        uid_lengths=uid_lengths,
        uid_offsets=_offsets(uid_lengths),
        uids=np.frombuffer(table.uids, np.uint8),
        columns=(
            specs[column(table.spec, "<i4")],
            label_sets[column(table.label_set, "<i4")],
            strings[column(table.node, "<i4")],
            strings[column(table.owner, "<i4")],
            strings[column(table.pinned_node, "<i4")],
            column(table.created, "<i8"),
            column(table.deletion, "<i8"),
            column(table.phase, "u1"),
            column(table.flags, "u1"),
            column(table.deletion_cost, "<i4"),
        ),
        mounts=np.unique((mounted << 32) | volumes[np.frombuffer(table.volume, "<i4")]),
    )


def _offsets(lengths: Int32) -> Int64:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
