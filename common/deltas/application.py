"""Apply deltas to a snapshot, all as messages; used to read the last cluster of a recording.

Checks only that deleted keys exist (ValueError); the planner validates the rest. The dictionaries of the deltas are
appended to those of the base; strings, label sets and specs that are no longer used stay in them. Cost: proportional
to the base and the deltas.
"""

from typing import Any, Final

import numpy as np

from trimtab.common.deltas.renumbering import (
    KEYS,
    WITH_OWN_DICTIONARY,
    Int64,
    NewIndices,
    renumber,
    texts_of,
)
from trimtab.v1 import snapshot_pb2 as pb

_INT32: Final = "<i4"
_STRINGS: Final = ("namespace", "node", "owner", "pinned_node", "pod_group", "nominated_node")
_PLAIN: Final = {"created": "<i8", "deletion": "<i8", "phase": "u1", "flags": "u1", "deletion_cost": _INT32}


class Application:
    """One cluster, to which deltas are applied. Raises ValueError, IndexError for messages that break the contract."""

    def __init__(self, base: pb.ClusterSnapshot) -> None:
        self._whole = pb.ClusterSnapshot(strings=[""])
        self._whole.label_sets.offsets = _int32(np.zeros(2))
        self._rows: dict[str, dict[str, Any]] = {table: {} for table in KEYS}
        # The pods of all messages, concatenated; the row of each present pod, by key.
        self._columns: dict[str, list[Any]] = {field: [] for field in (*_STRINGS, *_PLAIN, "spec", "label_set")}
        self._texts: dict[str, list[bytes]] = {"name": [], "uid": []}
        self._mounts: list[list[int]] = []
        # (key, number) of the annotations of each pod.
        self._numbers: list[list[tuple[int, float]]] = []
        self._pods: dict[tuple[str, bytes], int] = {}
        self.add(pb.SnapshotDelta(changed=base))

    def add(self, delta: pb.SnapshotDelta) -> None:
        """Apply one more delta."""
        self._delete(delta)
        part = _AppendedIndices(self._whole, delta.changed)
        for table, key_of in KEYS.items():
            for row in getattr(delta.changed, table):
                self._rows[table][key_of(row)] = part.copy(row)
        if delta.changed.HasField("actuation_status"):
            self._whole.actuation_status.CopyFrom(part.copy(delta.changed.actuation_status))
        for field, value in delta.changed.ListFields():
            if field.name in WITH_OWN_DICTIONARY:
                getattr(self._whole, field.name).CopyFrom(value)
        self._add_pods(delta.changed, part)

    def _delete(self, delta: pb.SnapshotDelta) -> None:
        for table, rows in self._rows.items():
            for key in getattr(delta, f"deleted_{table}"):
                if rows.pop(key, None) is None:
                    raise ValueError(f"deleted_{table}: there is no {key!r}")
        for key in delta.deleted_pods:
            namespace, _, name = key.partition("/")
            if self._pods.pop((namespace, name.encode()), None) is None:
                raise ValueError(f"deleted_pods: there is no {key!r}")

    def result(self) -> pb.ClusterSnapshot:
        """Return the cluster as it is now, its pods sorted; more deltas may be added afterwards."""
        whole = pb.ClusterSnapshot()
        whole.CopyFrom(self._whole)
        for table, rows in self._rows.items():
            getattr(whole, table).extend(rows.values())
        keys = sorted(self._pods, key=lambda key: (key[0].encode(), key[1]))
        rows_of = [self._pods[key] for key in keys]
        pods = whole.pods
        pods.count = len(rows_of)
        chosen = np.array(rows_of, np.int64)
        for field, parts in self._columns.items():
            column = np.concatenate(parts)[chosen]
            setattr(pods, field, column.astype(_PLAIN.get(field, _INT32)).tobytes())
        for field, texts in self._texts.items():
            found = [texts[row] for row in rows_of]
            setattr(pods, f"{field}s", b"".join(found))
            setattr(pods, f"{field}_lengths", _int32([len(text) for text in found]))
        self._write_mounts(whole, rows_of)
        entries = [(pod, *entry) for pod, row in enumerate(rows_of) for entry in self._numbers[row]]
        pods.number_pod, pods.number_key = _int32([one[0] for one in entries]), _int32([one[1] for one in entries])
        pods.number = np.array([one[2] for one in entries], "<f8").tobytes()
        return whole

    def _add_pods(self, changed: pb.ClusterSnapshot, part: "_AppendedIndices") -> None:
        table, first = changed.pods, len(self._texts["name"])
        index = dict.fromkeys(_STRINGS, part.strings) | {"spec": part.specs, "label_set": part.label_sets}
        for field, parts in self._columns.items():
            data = getattr(table, field)
            column = np.frombuffer(data, _PLAIN.get(field, _INT32)) if data else np.zeros(table.count, np.int64)
            parts.append(index[field][column] if field in index and data else column)
        for field, texts in self._texts.items():
            texts.extend(texts_of(table, field, np.arange(table.count)))
        mounts: list[list[int]] = [[] for _ in range(table.count)]
        volumes = part.volumes[np.frombuffer(table.volume, _INT32)].tolist()
        for pod, volume in zip(np.frombuffer(table.volume_pod, _INT32).tolist(), volumes, strict=True):
            mounts[pod].append(volume)
        self._mounts.extend(mounts)
        numbers: list[list[tuple[int, float]]] = [[] for _ in range(table.count)]
        having, keys = np.frombuffer(table.number_pod, _INT32), part.strings[np.frombuffer(table.number_key, _INT32)]
        values = np.frombuffer(table.number, "<f8").tolist()
        for pod, key, value in zip(having.tolist(), keys.tolist(), values, strict=True):
            numbers[pod].append((key, value))
        self._numbers.extend(numbers)
        for row, namespace in enumerate(np.frombuffer(table.namespace, _INT32).tolist(), first):
            self._pods[changed.strings[namespace], self._texts["name"][row]] = row

    def _write_mounts(self, whole: pb.ClusterSnapshot, rows: list[int]) -> None:
        """Write the mounts of the pods in these rows.

        A volume sent again has a new entry, so entries that no pod mounts are dropped.
        """
        pairs = [(pod, volume) for pod, row in enumerate(rows) for volume in self._mounts[row]]
        used = sorted({volume for _, volume in pairs})
        number = {volume: i for i, volume in enumerate(used)}
        del whole.volumes[:]
        whole.volumes.extend(self._whole.volumes[volume] for volume in used)
        whole.pods.volume_pod = _int32([pod for pod, _ in pairs])
        whole.pods.volume = _int32([number[volume] for _, volume in pairs])


class _AppendedIndices:
    """The new index of each entry of a message's dictionaries, which are appended to those of the whole."""

    def __init__(self, whole: pb.ClusterSnapshot, message: pb.ClusterSnapshot) -> None:
        self.strings = _appended(len(whole.strings), len(message.strings))
        whole.strings.extend(message.strings[1:])
        self.label_sets = self._append_label_sets(whole.label_sets, message.label_sets)
        names = list(whole.resources)
        names.extend(name for name in message.resources if name not in names)
        whole.resources[:] = names
        self._resources = [names.index(name) for name in message.resources]
        self.specs = np.arange(len(message.pod_specs)) + len(whole.pod_specs)
        self.volumes = np.arange(len(message.volumes)) + len(whole.volumes)
        lists = (self.strings.tolist(), self.label_sets.tolist(), self.specs.tolist())
        self._numbers = NewIndices(*(one.__getitem__ for one in lists))
        whole.pod_specs.extend(self.copy(spec) for spec in message.pod_specs)
        whole.volumes.extend(self.copy(volume) for volume in message.volumes)

    def copy(self, row: Any) -> Any:
        """Return a copy of a row with the indices of the whole."""
        own = type(row)()
        own.CopyFrom(row)
        renumber(own, self._numbers)
        if isinstance(own, (pb.PodSpec, pb.Owner)):
            for request in own.requests if isinstance(own, pb.PodSpec) else own.pod_requests:
                request.resource = self._resources[request.resource]
        if isinstance(own, pb.Node):
            self._put_amounts_in_order(own)
        if isinstance(own, pb.NodeGroup) and own.HasField("template"):
            self._put_amounts_in_order(own.template)
        return own

    def _put_amounts_in_order(self, node: pb.Node | pb.NodeTemplate) -> None:
        for amounts in (node.allocatable, node.capacity):
            if amounts:
                ordered = [0] * (max(self._resources) + 1)
                for resource, amount in zip(self._resources, amounts, strict=False):
                    ordered[resource] = amount
                amounts[:] = ordered

    def _append_label_sets(self, whole: pb.LabelSets, part: pb.LabelSets) -> Int64:
        before, offsets = (np.frombuffer(sets.offsets, _INT32) for sets in (whole, part))
        whole.offsets = _int32(np.concatenate((before, offsets[2:] + before[-1])))
        whole.keys += _int32(self.strings[np.frombuffer(part.keys, _INT32)])
        whole.values += _int32(self.strings[np.frombuffer(part.values, _INT32)])
        return _appended(len(before) - 1, len(offsets) - 1)


def _appended(before: int, count: int) -> Int64:
    """Return the indices of entries appended to `before` others; the first entry, which is empty, keeps index 0."""
    numbers = np.arange(max(count, 1)) + before - 1
    numbers[0] = 0
    return numbers


def _int32(values: Any) -> bytes:
    return np.asarray(values).astype(_INT32).tobytes()
