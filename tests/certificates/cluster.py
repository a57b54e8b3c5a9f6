"""A `ClusterSnapshot` as plain Python objects. Slow, obvious, and independent of the code that it checks."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from trimtab.v1 import snapshot_pb2 as pb

READY, MIRROR, DAEMON, GATED, OTHER_KIND, OTHER_STATEFUL_SET = 1, 2, 4, 8, 16, 64
TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
Labels = dict[str, str]
COLUMNS = {
    "i": ("namespace", "spec", "label_set", "node", "owner", "pinned_node", "nominated_node"),
    "q": ("created", "deletion"),
    "B": ("phase", "flags"),
}


@dataclass
class Pod:
    """A pod; `node` is a name, "" = none; `spec` is the wire's row."""

    namespace: str
    name: str
    uid: str
    spec: pb.PodSpec
    labels: Labels
    node: str
    owner: str
    phase: int
    flags: int
    created_s: int
    deletion_s: int
    pinned: str
    volumes: list[pb.Volume] = field(default_factory=list)
    nominated: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def ended(self) -> bool:
        return self.phase in {pb.PodPhase.SUCCEEDED, pb.PodPhase.FAILED}


class Cluster:
    """Everything in the snapshot by name."""

    def __init__(self, message: pb.ClusterSnapshot) -> None:
        self.message = message
        self.compares_tolerations = False
        self.strings = list(message.strings) or [""]
        self.sets = list(_label_sets(message, self.strings))
        self.nodes = {node.name: node for node in message.nodes}
        self.groups = {group.id: group for group in message.node_groups}
        self.owners = {owner.uid: owner for owner in message.owners}
        self.namespaces = {one.name: self.label_set(one.label_set) for one in message.namespaces}
        self.pods = {pod.key: pod for pod in self._read_pods(message.pods)}

    def message_nodes(self) -> dict[str, pb.Node]:
        """Return the nodes of the snapshot, without those added since."""
        return {node.name: node for node in self.message.nodes}

    def label_set(self, index: int) -> Labels:
        return self.sets[index] if index < len(self.sets) else {}

    def node_labels(self, name: str) -> Labels:
        return self.label_set(self.nodes[name].label_set)

    def text(self, index: int) -> str:
        return self.strings[index]

    def amounts(self, node: str) -> dict[str, int]:
        """Return the allocatable by resource name."""
        return dict(zip(self.message.resources, [*self.nodes[node].allocatable, *[0] * 99], strict=False))

    def capacity(self, node: str) -> dict[str, int]:
        """Return the capacity by resource name."""
        row = self.nodes[node]
        return dict(zip(self.message.resources, [*(row.capacity or row.allocatable), *[0] * 99], strict=False))

    def requests(self, pod: Pod) -> dict[str, int]:
        """Return the requests by resource name, without zeros."""
        return {self.message.resources[one.resource]: one.amount for one in pod.spec.requests if one.amount}

    def leaving(self, now_s: int) -> set[str]:
        """Return the nodes being deleted: reported, or marked by a young taint."""
        reported = {one.node for one in self.message.actuation_status.deletions}
        return {name for name in self.nodes if name in reported or self._is_marked(name, now_s)}

    def _is_marked(self, name: str, now_s: int) -> bool:
        values = [self.text(t.value) for t in self.nodes[name].taints if self.text(t.key) == TO_BE_DELETED]
        return any(not value.isdecimal() or now_s - int(value) < 300 for value in values)

    def _read_pods(self, table: pb.PodTable) -> Iterator[Pod]:
        count = table.count
        names = _texts(table.names, table.name_lengths)
        uids = _texts(table.uids, table.uid_lengths)
        columns = {
            name: _ints(getattr(table, name), code, count) for code, names_of in COLUMNS.items() for name in names_of
        }
        mounts: dict[int, list[pb.Volume]] = {}
        mounted = len(table.volume_pod) // 4
        for pod, volume in zip(_ints(table.volume_pod, "i", mounted), _ints(table.volume, "i", mounted), strict=True):
            mounts.setdefault(pod, []).append(self.message.volumes[volume])
        for i in range(count):
            row: dict[str, Any] = {name: column[i] for name, column in columns.items()}
            yield Pod(
                namespace=self.text(row["namespace"]),
                name=names[i],
                uid=uids[i],
                spec=self.message.pod_specs[row["spec"]],
                labels=self.label_set(row["label_set"]),
                node=self.text(row["node"]),
                owner=self.text(row["owner"]),
                phase=row["phase"],
                flags=row["flags"],
                created_s=row["created"],
                deletion_s=row["deletion"],
                pinned=self.text(row["pinned_node"]),
                nominated=self.text(row["nominated_node"]),
                volumes=mounts.get(i, []),
            )


def _ints(data: bytes, code: str, count: int) -> list[int]:
    values = array(code)
    values.frombytes(data)
    return list(values) or [0] * count


def _texts(data: bytes, lengths: bytes) -> list[str]:
    sizes = _ints(lengths, "i", 0)
    ends = list(accumulate(sizes))
    return [data[end - size : end].decode() for size, end in zip(sizes, ends, strict=True)]


def _label_sets(message: pb.ClusterSnapshot, strings: list[str]) -> Iterator[Labels]:
    offsets = _ints(message.label_sets.offsets, "i", 0)
    if not offsets:
        yield {}
        return
    keys = _ints(message.label_sets.keys, "i", 0)
    values = _ints(message.label_sets.values, "i", 0)
    for first, last in pairwise(offsets):
        yield {strings[keys[i]]: strings[values[i]] for i in range(first, last)}
