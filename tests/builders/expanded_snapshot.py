"""A snapshot as plain rows without indices, and a delta applied to them: the naive meaning of both, for comparison."""

from itertools import pairwise
from typing import Any

import numpy as np
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from trimtab.v1 import snapshot_pb2 as pb

Tables = dict[str, dict[str, Any]]
STRING_FIELDS = {
    "LabelPair": ("key", "value"),
    "LabelRequirement": ("key", "values"),
    "Taint": ("key", "value"),
    "Toleration": ("key", "value"),
    "HostPort": ("protocol", "host_ip"),
    "PodAffinityTerm": ("namespaces", "topology_key"),
    "TopologySpreadConstraint": ("topology_key", "match_label_keys"),
    "Volume": ("driver", "handle"),
    "AttachLimit": ("driver",),
    "PodSpec": ("scheduler_name", "exclusive_disks", "read_only_disks"),
}


def expand(snapshot: pb.ClusterSnapshot) -> Tables:
    """Return every table as rows by key."""
    sets = _label_sets(snapshot)
    specs = [_plain(spec, snapshot) for spec in snapshot.pod_specs]
    volumes = [_plain(volume, snapshot) for volume in snapshot.volumes]
    tables: Tables = {
        "pods": _pods(snapshot, sets, specs, volumes),
        "nodes": {node.name: _plain(node, snapshot) | {"labels": sets[node.label_set]} for node in snapshot.nodes},
        "node_groups": {group.id: _plain(group, snapshot) for group in snapshot.node_groups},
        "owners": {owner.uid: _plain(owner, snapshot) for owner in snapshot.owners},
        "pod_disruption_budgets": {
            f"{budget.namespace}/{budget.name}": _plain(budget, snapshot) for budget in snapshot.pod_disruption_budgets
        },
        "namespaces": {one.name: {"labels": sets[one.label_set]} for one in snapshot.namespaces},
    }
    for name, rows in tables.items():
        assert len(rows) == len(getattr(snapshot, name)) if name != "pods" else len(rows) == snapshot.pods.count
    if snapshot.HasField("actuation_status"):
        status = snapshot.actuation_status
        tables["actuation_status"] = {
            "deletions": [_plain(one, snapshot) for one in status.deletions],
            "evictions": [
                _plain(one, snapshot)
                | {"spec": specs[one.spec] if one.HasField("spec") else None, "labels": sets[one.label_set]}
                for one in status.recent_evictions
            ],
        }
    return tables


def applied(base: Tables, delta: pb.SnapshotDelta) -> Tables:
    """Return the tables after a delta. A deleted key that the base lacks is a KeyError."""
    changed = expand(delta.changed)
    result = {name: dict(rows) for name, rows in base.items()}
    for name in ("pods", "nodes", "node_groups", "owners", "pod_disruption_budgets", "namespaces"):
        for key in getattr(delta, f"deleted_{name}"):
            del result[name][key]
        result[name] |= changed[name]
    if "actuation_status" in changed:
        result["actuation_status"] = changed["actuation_status"]
    return result


def _pods(snapshot: pb.ClusterSnapshot, sets: list[Any], specs: list[Any], volumes: list[Any]) -> dict[str, Any]:
    table, count = snapshot.pods, snapshot.pods.count

    def column(name: str, kind: str = "<i4") -> list[int]:
        data = getattr(table, name)
        return np.frombuffer(data, kind).tolist() if data else [0] * count

    mounted: dict[int, list[Any]] = {}
    mounting, mounts = (np.frombuffer(getattr(table, n), "<i4").tolist() for n in ("volume_pod", "volume"))
    for pod, volume in zip(mounting, mounts, strict=True):
        mounted.setdefault(pod, []).append(volumes[volume])
    names, uids = _texts(table.names, column("name_lengths")), _texts(table.uids, column("uid_lengths"))
    texts = {
        name: [snapshot.strings[index] if index else "" for index in column(name)]
        for name in ("namespace", "node", "owner", "pinned_node")
    }
    plain = {name: column(name, "<i8") for name in ("created", "deletion")}
    plain |= {name: column(name, "u1") for name in ("phase", "flags")} | {"cost": column("deletion_cost")}
    spec, label_set = column("spec"), column("label_set")
    rows = {}
    for i in range(count):
        row = {name: values[i] for name, values in (texts | plain).items()}
        row |= {"uid": uids[i], "spec": specs[spec[i]], "labels": sets[label_set[i]]}
        row["volumes"] = sorted(mounted.get(i, ()), key=str)
        rows[f"{row['namespace']}/{names[i]}"] = row
    return rows


def _texts(data: bytes, lengths: list[int]) -> list[str]:
    ends = np.cumsum([0, *lengths]).tolist()
    return [data[a:b].decode() for a, b in pairwise(ends)]


def _label_sets(snapshot: pb.ClusterSnapshot) -> list[dict[str, str]]:
    sets = snapshot.label_sets
    offsets, keys, values = (np.frombuffer(c, "<i4").tolist() for c in (sets.offsets, sets.keys, sets.values))
    strings = snapshot.strings
    return [{strings[keys[i]]: strings[values[i]] for i in range(a, b)} for a, b in pairwise(offsets)] or [{}]


def _plain(message: Message, snapshot: pb.ClusterSnapshot) -> Any:
    """Return a row with strings and resource names in the place of indices."""
    kind = message.DESCRIPTOR.name
    if kind in ("Timestamp", "Duration"):
        return MessageToDict(message)
    if kind == "ResourceAmount":
        return {snapshot.resources[message.resource]: message.amount}  # type: ignore[attr-defined]
    row: dict[str, Any] = {}
    for field, value in message.ListFields():
        if field.name in ("label_set", "spec"):
            continue
        if kind in ("Node", "NodeTemplate") and field.name in ("allocatable", "capacity"):
            row[field.name] = {snapshot.resources[i]: amount for i, amount in enumerate(value) if amount}
        elif field.name in STRING_FIELDS.get(kind, ()):
            row[field.name] = [snapshot.strings[i] for i in value] if field.is_repeated else snapshot.strings[value]
        elif field.message_type is None:
            row[field.name] = list(value) if field.is_repeated else value
        elif field.is_repeated:
            row[field.name] = [_plain(one, snapshot) for one in value]
        else:
            row[field.name] = _plain(value, snapshot)
    if kind == "TemplatePod":
        row["spec"] = _plain(snapshot.pod_specs[message.spec], snapshot)  # type: ignore[attr-defined]
    if kind in ("NodeTemplate", "TemplatePod"):
        row["labels"] = _label_sets(snapshot)[message.label_set]  # type: ignore[attr-defined]
    return row
