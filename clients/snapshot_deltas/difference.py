"""The difference of two interned snapshots, as a message with dictionaries of its own.

Decides which rows have changed. Returns None where the whole snapshot is the better message.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from trimtab.v1 import snapshot_pb2 as pb

from clients.snapshot_deltas.alignment import Alignment, align
from clients.snapshot_deltas.interning import KEYS, InternedSnapshot, Interner, PodColumns
from clients.snapshot_deltas.renumbering import Numbers, renumber

MOST_CHANGED: Final = 0.3
"""Share of pods changed from which on the whole snapshot is sent: a delta would cost as much."""
_DELETED: Final = {
    "nodes": "deleted_nodes",
    "node_groups": "deleted_node_groups",
    "owners": "deleted_owners",
    "pod_disruption_budgets": "deleted_pod_disruption_budgets",
    "namespaces": "deleted_namespaces",
}


def difference(before: InternedSnapshot, after: InternedSnapshot, interner: Interner) -> pb.SnapshotDelta | None:
    """Return what turns `before` into `after`, both numbered by `interner`; None = send the whole snapshot."""
    if before.resources != after.resources or (before.actuation is not None and after.actuation is None):
        return None
    most = int(MOST_CHANGED * len(before.pods.namespace)) + 16
    alignment = align(before.pods, after.pods, list(interner.strings), most)
    if alignment is None:
        return None
    rows = sorted([*_changed_pods(before.pods, after.pods, alignment).tolist(), *alignment.new])
    if len(rows) > most:
        return None
    delta = pb.SnapshotDelta(changed=pb.ClusterSnapshot(resources=after.resources))
    dictionary = _LocalDictionary(after.message)
    for table, key in KEYS.items():
        old, new = before.rows[table], after.rows[table]
        getattr(delta, _DELETED[table]).extend(sorted(old.keys() - new.keys()))
        for row in getattr(after.message, table):
            if old.get(key(row)) != new[key(row)]:
                dictionary.add(getattr(delta.changed, table).add(), row)
    if after.actuation != before.actuation:
        dictionary.add(delta.changed.actuation_status, after.message.actuation_status)
    texts = before.message.strings
    namespaces = np.frombuffer(before.message.pods.namespace, "<i4")
    offsets = before.pods.name_offsets
    delta.deleted_pods.extend(
        f"{texts[namespaces[i]]}/{before.pods.names[offsets[i] : offsets[i + 1]].tobytes().decode()}"
        for i in alignment.gone
    )
    _copy_pods(after, np.array(rows, np.int64), delta.changed.pods, dictionary)
    dictionary.write(delta.changed)
    return delta


def _changed_pods(before: PodColumns, after: PodColumns, alignment: Alignment) -> NDArray[np.int64]:
    """Return the rows of `after` of pods that both have but that differ. Vectorised."""
    a, b = alignment.before, alignment.after
    differs = np.isin(b, alignment.other_uid)
    for old, new in zip(before.columns, after.columns, strict=True):
        differs |= old[a] != new[b]
    row_of = np.full(len(before.namespace), -1, np.int64)
    row_of[a] = b
    moved = row_of[before.mounts >> 32]
    mounts = (moved << 32) | (before.mounts & 0xFFFFFFFF)
    touched = np.setxor1d(mounts[moved >= 0], after.mounts[np.isin(after.mounts >> 32, b)]) >> 32
    return np.union1d(b[differs], touched)


class _LocalDictionary:
    """The dictionaries of a delta: what its rows use, numbered as they come. `whole` : where the rows are from."""

    def __init__(self, whole: pb.ClusterSnapshot) -> None:
        self._whole = whole
        self._strings = {0: 0}
        self._label_sets = {0: 0}
        self._specs: dict[int, int] = {}
        self._volumes: dict[int, int] = {}
        self._numbers = Numbers(self.string, self.label_set, self.spec)

    def string(self, index: int) -> int:
        """Return the number of a string."""
        return self._strings.setdefault(index, len(self._strings))

    def label_set(self, index: int) -> int:
        """Return the number of a label set."""
        return self._label_sets.setdefault(index, len(self._label_sets))

    def spec(self, index: int) -> int:
        """Return the number of a pod spec."""
        return self._specs.setdefault(index, len(self._specs))

    def volume(self, index: int) -> int:
        """Return the number of a volume."""
        return self._volumes.setdefault(index, len(self._volumes))

    def add(self, target: Any, row: Any) -> None:
        """Copy a row, with its indices in these dictionaries."""
        target.CopyFrom(row)
        renumber(target, self._numbers)

    def write(self, snapshot: pb.ClusterSnapshot) -> None:
        """Write the dictionaries; call it last."""
        for index in self._specs:
            self.add(snapshot.pod_specs.add(), self._whole.pod_specs[index])
        for index in self._volumes:
            self.add(snapshot.volumes.add(), self._whole.volumes[index])
        sets = self._whole.label_sets
        bounds = list(pairwise(np.frombuffer(sets.offsets, "<i4").tolist())) or [(0, 0)]
        keys, values = np.frombuffer(sets.keys, "<i4").tolist(), np.frombuffer(sets.values, "<i4").tolist()
        offsets: list[int] = [0]
        out_keys: list[int] = []
        out_values: list[int] = []
        for index in self._label_sets:
            start, end = bounds[index]
            out_keys.extend(self.string(key) for key in keys[start:end])
            out_values.extend(self.string(value) for value in values[start:end])
            offsets.append(len(out_keys))
        snapshot.label_sets.offsets = _int32(offsets)
        snapshot.label_sets.keys, snapshot.label_sets.values = _int32(out_keys), _int32(out_values)
        texts = list(self._whole.strings) or [""]
        snapshot.strings.extend(texts[index] for index in self._strings)


def _int32(values: list[int]) -> bytes:
    return np.array(values, "<i4").tobytes()


def _copy_pods(
    after: InternedSnapshot, rows: NDArray[np.int64], out: pb.PodTable, dictionary: _LocalDictionary
) -> None:
    """Copy rows of the pod table."""
    table, pods = after.message.pods, after.pods
    out.count = len(rows)
    for field, number in (
        ("namespace", dictionary.string),
        ("spec", dictionary.spec),
        ("label_set", dictionary.label_set),
        ("node", dictionary.string),
        ("owner", dictionary.string),
        ("pinned_node", dictionary.string),
    ):
        data = getattr(table, field)
        if data:
            setattr(out, field, _int32([number(i) for i in np.frombuffer(data, "<i4")[rows].tolist()]))
    plain = {"name_lengths": "<i4", "uid_lengths": "<i4", "created": "<i8", "deletion": "<i8", "phase": "u1"}
    for field, dtype in (plain | {"flags": "u1", "deletion_cost": "<i4"}).items():
        data = getattr(table, field)
        if data:
            setattr(out, field, np.frombuffer(data, dtype)[rows].tobytes())
    names, uids = table.names, table.uids
    out.names = b"".join([names[a:b] for a, b in _bounds(pods.name_offsets, rows)])
    out.uids = b"".join([uids[a:b] for a, b in _bounds(pods.uid_offsets, rows)])
    mounting, volume = np.frombuffer(table.volume_pod, "<i4"), np.frombuffer(table.volume, "<i4")
    chosen = np.flatnonzero(np.isin(mounting, rows))
    out.volume_pod = np.searchsorted(rows, mounting[chosen]).astype("<i4").tobytes()
    out.volume = _int32([dictionary.volume(i) for i in volume[chosen].tolist()])


def _bounds(offsets: NDArray[np.int64], rows: NDArray[np.int64]) -> Iterable[tuple[int, int]]:
    return zip(offsets[rows].tolist(), offsets[rows + 1].tolist(), strict=True)
