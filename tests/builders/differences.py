"""The difference of two snapshots, found row by row with everything spelled out: for tests that need a delta."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trimtab.common.deltas.renumbering import KEYS, WITH_OWN_DICTIONARY, NewIndices, renumber, texts_of
from trimtab.common.deltas.writing import DeltaWriter
from trimtab.v1 import snapshot_pb2 as pb

INT32 = "<i4"
STRINGS = ("namespace", "node", "owner", "pinned_node", "pod_group", "nominated_node")
PLAIN = {"created": "<i8", "deletion": "<i8", "phase": "u1", "flags": "u1", "deletion_cost": INT32}


class _Contents:
    """Numbers for equal contents of several snapshots."""

    def __init__(self) -> None:
        self._known: dict[Any, int] = {"": 0, frozenset(): 0}

    def number(self, value: Any) -> int:
        return self._known.setdefault(value, len(self._known))

    def rows(self, message: pb.ClusterSnapshot) -> dict[str, dict[Any, Any]]:
        """Return the content of each row, by table and key."""
        labels = list(map(self.number, _label_sets(message)))
        texts = list(map(self.number, message.strings)) or [0]
        specs: list[int] = []
        numbers = NewIndices(texts.__getitem__, labels.__getitem__, specs.__getitem__)
        specs.extend(self.number(_content(spec, numbers)) for spec in message.pod_specs)
        rows: dict[str, dict[Any, Any]] = {
            table: {key(row): _content(row, numbers) for row in getattr(message, table)} for table, key in KEYS.items()
        }
        volumes = [_content(volume, numbers) for volume in message.volumes]
        rows["pods"] = dict(_pods(message, {"spec": specs, "label_set": labels}, volumes))
        return rows


def difference(before: pb.ClusterSnapshot, after: pb.ClusterSnapshot) -> pb.SnapshotDelta:
    """Return the delta from one snapshot to another one with the same order of resources."""
    contents = _Contents()
    old, new = contents.rows(before), contents.rows(after)
    delta = pb.SnapshotDelta(changed=pb.ClusterSnapshot(resources=after.resources))
    writer = DeltaWriter(after, delta.changed)
    for table in KEYS:
        getattr(delta, f"deleted_{table}").extend(sorted(old[table].keys() - new[table].keys()))
        writer.add_rows(table, [i for i, (key, row) in enumerate(new[table].items()) if old[table].get(key) != row])
    delta.deleted_pods.extend(sorted("/".join(key) for key in old["pods"].keys() - new["pods"].keys()))
    changed = [i for i, (key, row) in enumerate(new["pods"].items()) if old["pods"].get(key) != row]
    writer.add_pods(np.array(changed, np.int64))
    if after.HasField("actuation_status"):
        writer.add_actuation()
    writer.finish()
    for table in WITH_OWN_DICTIONARY:
        if getattr(before, table) != getattr(after, table):
            getattr(delta.changed, table).CopyFrom(getattr(after, table))
            getattr(delta.changed, table).SetInParent()
    return delta


def _content(row: Any, numbers: NewIndices) -> bytes:
    copy = type(row)()
    copy.CopyFrom(row)
    renumber(copy, numbers)
    data: bytes = copy.SerializeToString(deterministic=True)
    return data


def _label_sets(message: pb.ClusterSnapshot) -> Iterator[frozenset[tuple[str, str]]]:
    sets = message.label_sets
    offsets = np.frombuffer(sets.offsets, INT32).tolist() or [0]
    keys, values = (np.frombuffer(column, INT32).tolist() for column in (sets.keys, sets.values))
    for a, b in zip(offsets, [*offsets[1:], offsets[-1]][: max(len(offsets) - 1, 1)], strict=False):
        pairs = zip(keys[a:b], values[a:b], strict=True)
        yield frozenset((message.strings[key], message.strings[value]) for key, value in pairs)


def _pods(
    message: pb.ClusterSnapshot, contents: dict[str, list[int]], volumes: list[bytes]
) -> Iterator[tuple[tuple[str, str], Any]]:
    """Yield the key and the content of each pod."""
    table = message.pods
    every = np.arange(table.count)
    string: Callable[[int], str] = message.strings.__getitem__
    columns: list[list[Any]] = []
    for field in STRINGS:
        columns.append([string(i) for i in np.frombuffer(getattr(table, field), INT32).tolist()] or [""] * table.count)
    for field, values in contents.items():
        columns.append([values[i] for i in np.frombuffer(getattr(table, field), INT32).tolist()] or [0] * table.count)
    for field, dtype in PLAIN.items():
        columns.append(np.frombuffer(getattr(table, field), dtype).tolist() or [0] * table.count)
    names, uids = (texts_of(table, field, every) for field in ("name", "uid"))
    further: list[list[Any]] = [[] for _ in range(table.count)]
    mounts = zip(*(np.frombuffer(getattr(table, f), INT32).tolist() for f in ("volume_pod", "volume")), strict=True)
    for pod, volume in mounts:
        further[pod].append(volumes[volume])
    having = zip(*(np.frombuffer(getattr(table, f), INT32).tolist() for f in ("number_pod", "number_key")), strict=True)
    for (pod, key), number in zip(having, np.frombuffer(table.number, "<i8").tolist(), strict=True):
        further[pod].append((string(key), number))
    for i, row in enumerate(zip(*columns, strict=True)):
        yield (row[0], names[i].decode()), (row, uids[i], further[i])
