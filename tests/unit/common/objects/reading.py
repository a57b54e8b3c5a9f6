"""Reading a snapshot's rows back in tests: with strings and indices resolved, and without the planner."""

from typing import Any

import numpy as np
from google.protobuf.json_format import MessageToDict

from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.v1.snapshot_pb2 import ClusterSnapshot

STRING_FIELDS = {
    "key", "value", "values", "topologyKey", "namespaces", "matchLabelKeys", "protocol", "hostIp", "driver", "handle",
    "exclusiveDisks", "readOnlyDisks", "schedulerName",
}  # fmt: skip


def build(*objects: Any) -> ClusterSnapshot:
    """Return the snapshot of plain objects."""
    return build_snapshot(decode_objects(objects)).snapshot


def notes(*objects: Any) -> list[str]:
    """Return the notes about plain objects."""
    return build_snapshot(decode_objects(objects)).notes


def column(data: bytes, dtype: str = "<i4") -> list[int]:
    """Return a column as a list."""
    return np.frombuffer(data, dtype).tolist()


def resolved(snapshot: ClusterSnapshot, message: Any) -> Any:
    """Return a message as a dict with string indices replaced by strings."""
    return _resolve(list(snapshot.strings), MessageToDict(message))


def spec_of(snapshot: ClusterSnapshot, pod: int = 0) -> dict[str, Any]:
    """Return the resolved spec row of a pod, with its requests as {resource: amount}."""
    row = snapshot.pod_specs[column(snapshot.pods.spec)[pod]]
    out: dict[str, Any] = resolved(snapshot, row)
    out["requests"] = {snapshot.resources[one.resource]: one.amount for one in row.requests}
    return out


def text_column(snapshot: ClusterSnapshot, field: str) -> list[str]:
    """Return a column of string indices as strings; an empty column gives empty strings."""
    data = getattr(snapshot.pods, field)
    indices = column(data) if data else [0] * snapshot.pods.count
    return [snapshot.strings[i] for i in indices]


def names(snapshot: ClusterSnapshot, field: str = "name") -> list[str]:
    """Return names (or uids) of the pods."""
    data, lengths = getattr(snapshot.pods, f"{field}s"), column(getattr(snapshot.pods, f"{field}_lengths"))
    ends = np.cumsum(lengths).tolist()
    return [data[end - length : end].decode() for end, length in zip(ends, lengths, strict=True)]


def label_set(snapshot: ClusterSnapshot, index: int) -> dict[str, str]:
    """Return a label set."""
    sets = snapshot.label_sets
    offsets = column(sets.offsets)
    span = slice(offsets[index], offsets[index + 1])
    pairs = zip(column(sets.keys)[span], column(sets.values)[span], strict=True)
    return {snapshot.strings[key]: snapshot.strings[value] for key, value in pairs}


def volumes_of(snapshot: ClusterSnapshot, pod: int = 0) -> list[dict[str, Any]]:
    """Return the resolved volumes that a pod mounts."""
    pairs = zip(column(snapshot.pods.volume_pod), column(snapshot.pods.volume), strict=True)
    return [resolved(snapshot, snapshot.volumes[volume]) for mounter, volume in pairs if mounter == pod]


def _resolve(strings: list[str], value: Any, is_index: bool = False) -> Any:
    if isinstance(value, dict):
        return {key: _resolve(strings, one, key in STRING_FIELDS) for key, one in value.items()}
    if isinstance(value, list):
        return [_resolve(strings, one, is_index) for one in value]
    return strings[value] if is_index and isinstance(value, int) else value
