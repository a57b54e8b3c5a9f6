"""Selected rows of a snapshot as the `changed` half of a delta, with dictionaries of the entries that the rows use.
Decides the numbering: strings keep their index in the snapshot, and unused ones are blank, so specs and rows are copied
unchanged. Label sets, specs and volumes are numbered by first use.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.common.deltas.renumbering import Int64, NewIndices, renumber, texts_of
from trimtab.v1 import snapshot_pb2 as pb

_STRINGS = ("namespace", "node", "owner", "pinned_node", "pod_group", "nominated_node")
_PLAIN = {
    "name_lengths": "<i4",
    "uid_lengths": "<i4",
    "created": "<i8",
    "deletion": "<i8",
    "phase": "u1",
    "flags": "u1",
    "deletion_cost": "<i4",
}


class DeltaWriter:
    """Copies rows of `source` into `target`; call `finish` last."""

    def __init__(self, source: pb.ClusterSnapshot, target: pb.ClusterSnapshot) -> None:
        self._whole, self._target = source, target
        self._strings = {0}
        self._label_sets = {0: 0}
        self._specs: dict[int, int] = {}
        self._volumes: dict[int, int] = {}
        self._numbers = NewIndices(self._string, self._label_set, self._spec)

    def add_rows(self, table: str, rows: list[int]) -> None:
        """Copy rows of a table."""
        source, target = getattr(self._whole, table), getattr(self._target, table)
        for row in rows:
            self._copy(target.add(), source[row])

    def add_actuation(self) -> None:
        """Copy the actuation status."""
        self._copy(self._target.actuation_status, self._whole.actuation_status)

    def add_pods(self, rows: Int64) -> None:
        """Copy rows of the pod table. rows : ascending."""
        received, out = self._whole.pods, self._target.pods
        out.count = len(rows)
        for field in _STRINGS:
            if data := getattr(received, field):
                column = np.frombuffer(data, "<i4")[rows]
                self._strings.update(np.unique(column).tolist())
                setattr(out, field, column.tobytes())
        out.spec = self._numbered(received.spec, rows, self._specs)
        out.label_set = self._numbered(received.label_set, rows, self._label_sets)
        for field, dtype in _PLAIN.items():
            if data := getattr(received, field):
                setattr(out, field, np.frombuffer(data, dtype)[rows].tobytes())
        for field in ("name", "uid"):
            setattr(out, f"{field}s", b"".join(texts_of(received, field, rows)))
        mounting = np.frombuffer(received.volume_pod, "<i4")
        chosen = np.flatnonzero(np.isin(mounting, rows))
        out.volume_pod = np.searchsorted(rows, mounting[chosen]).astype("<i4").tobytes()
        out.volume = self._numbered(received.volume, chosen, self._volumes)
        self._add_numbers(rows)

    def _add_numbers(self, rows: Int64) -> None:
        """Copy the numbers in annotations of some pods."""
        received, out = self._whole.pods, self._target.pods
        having = np.frombuffer(received.number_pod, "<i4")
        chosen = np.flatnonzero(np.isin(having, rows))
        out.number_pod = np.searchsorted(rows, having[chosen]).astype("<i4").tobytes()
        key = np.frombuffer(received.number_key, "<i4")[chosen]
        self._strings.update(np.unique(key).tolist())
        out.number_key = key.tobytes()
        out.number = np.frombuffer(received.number, "<f8")[chosen].tobytes()

    def finish(self) -> None:
        """Write the dictionaries."""
        whole, target = self._whole, self._target
        if min(*self._specs, *self._label_sets, *self._volumes, 0) < 0:
            raise IndexError("an index is negative")
        for index in self._specs:
            self._copy(target.pod_specs.add(), whole.pod_specs[index])
        for index in self._volumes:
            self._copy(target.volumes.add(), whole.volumes[index])
        self._write_label_sets()
        if min(self._strings) < 0:
            raise IndexError("a string index is negative")
        strings = [""] * (max(self._strings) + 1)
        for index in self._strings if whole.strings else ():
            strings[index] = whole.strings[index]
        target.strings.extend(strings)

    def _write_label_sets(self) -> None:
        source, target = self._whole.label_sets, self._target.label_sets
        offsets = np.frombuffer(source.offsets, "<i4").astype(np.int64)
        if len(offsets) < 2:
            offsets = np.zeros(2, np.int64)
        chosen = np.array(list(self._label_sets), np.int64)
        sizes = offsets[chosen + 1] - offsets[chosen]
        ends = np.cumsum(sizes)
        entries = np.arange(sizes.sum()) + np.repeat(offsets[chosen] - (ends - sizes), sizes)
        keys, values = (np.frombuffer(column, "<i4")[entries] for column in (source.keys, source.values))
        self._strings.update(np.unique(keys).tolist(), np.unique(values).tolist())
        target.offsets = _int32(np.concatenate(([0], ends)))
        target.keys, target.values = _int32(keys), _int32(values)

    def _numbered(self, data: bytes, rows: Int64, numbers: dict[int, int]) -> bytes:
        """Return rows of an int32 column in the numbers of the delta's own dictionary; an empty column is empty."""
        if not data:
            return b""
        distinct, inverse = np.unique(np.frombuffer(data, "<i4")[rows], return_inverse=True)
        own = np.array([numbers.setdefault(index, len(numbers)) for index in distinct.tolist()], np.int32)
        return _int32(own[inverse])

    def _copy(self, target: Any, row: Any) -> None:
        target.CopyFrom(row)
        renumber(target, self._numbers)

    def _string(self, index: int) -> int:
        self._strings.add(index)
        return index

    def _label_set(self, index: int) -> int:
        return self._label_sets.setdefault(index, len(self._label_sets))

    def _spec(self, index: int) -> int:
        return self._specs.setdefault(index, len(self._specs))


def _int32(values: NDArray[Any]) -> bytes:
    return values.astype("<i4").tobytes()
