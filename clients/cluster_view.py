"""A `ClusterSnapshot` with its indices resolved, for single look-ups. Never validates: the planner has already accepted
the snapshot. Units as in the snapshot: cpu in
milli-cores, other resources in base units.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.common.kubernetes.selectors import NODE_NAME_FIELD, matches
from trimtab.v1 import snapshot_pb2 as pb

Int32 = NDArray[np.int32]
_ENDED = (pb.PodPhase.SUCCEEDED, pb.PodPhase.FAILED)


def _int32(data: bytes, count: int) -> Int32:
    """An int32 column; an empty one is all zero."""
    return np.frombuffer(data, "<i4") if data else np.zeros(count, np.int32)


@dataclass(frozen=True)
class ShownPod:
    """One pod. `node` "" = on none; `owner` None = it has none, or one that is not in the snapshot. `key` :
    "namespace/name"; `row` : in the pod table; `spec`, `labels` : of the snapshot's dictionaries; `phase` :
    `PodPhase.Code`; `ready` : its condition.
    """

    key: str
    row: int
    node: str
    spec: pb.PodSpec
    phase: int
    owner: pb.Owner | None
    labels: dict[str, str] = field(default_factory=dict)
    ready: bool = False


_READY: Final = 1
"""The flag of `PodTable.flags`."""


class _LookupColumns(NamedTuple):
    """Columns that single pods are looked up in. The message copies a column each time it is read. `spec`, `owner`,
    `node`, `label_set`, `phase`, `flags` : as in `PodTable`.
    """

    spec: Int32
    owner: Int32
    node: Int32
    label_set: Int32
    phase: bytes
    flags: bytes


def first_indices(texts: Sequence[str]) -> Int32:
    """Return the first index of each text, so that equal texts of a dictionary have one index. int32[texts]."""
    first: dict[str, int] = {}
    return np.array([first.setdefault(text, at) for at, text in enumerate(texts)], np.int32)


def alone(keys: Sequence[str]) -> str:
    """Return pods without known controller in one text: "pod a/b", "3 pods without known controller (a/b, a/c, …)"."""
    if len(keys) == 1:
        return f"pod {keys[0]}"
    more = ", …" if len(keys) > 2 else ""
    return f"{len(keys):,} pods without known controller ({', '.join(keys[:2])}{more})"


class ClusterView:
    """Looks up nodes, pods and free resources. Built once in O(P), then O(1), or O(P) for the pods of a node."""

    def __init__(self, snapshot: pb.ClusterSnapshot) -> None:
        self.snapshot = snapshot
        self.nodes = {node.name: node for node in snapshot.nodes}
        self.groups = {group.id: group for group in snapshot.node_groups}
        self._owners = {owner.uid: owner for owner in snapshot.owners}

    def price(self, name: str) -> float | None:
        """Return the hourly price of a node in the snapshot: its own, else that of its node group; None = unknown."""
        node = self.nodes[name]
        one = node if node.HasField("price_per_hour") else self.groups.get(node.node_group)
        return one.price_per_hour if one is not None and one.HasField("price_per_hour") else None

    def text(self, index: int) -> str:
        """Return a string of the dictionary."""
        return self.snapshot.strings[index] if index else ""

    @cached_property
    def pod_keys(self) -> list[str]:
        """ "namespace/name" of every pod, in rows' order."""
        pods = self.snapshot.pods
        ends = np.cumsum(_int32(pods.name_lengths, pods.count)).tolist()
        names = pods.names
        namespaces = _int32(pods.namespace, pods.count).tolist()
        keys, start = [], 0
        for namespace, end in zip(namespaces, ends, strict=True):
            keys.append(f"{self.text(namespace)}/{names[start:end].decode()}")
            start = end
        return keys

    @cached_property
    def _rows(self) -> dict[str, int]:
        """Row of each pod."""
        return {key: row for row, key in enumerate(self.pod_keys)}

    @cached_property
    def _node_column(self) -> Int32:
        """String index of each pod's node; 0 for pods without node and for terminal ones."""
        pods = self.snapshot.pods
        phases = np.frombuffer(pods.phase, np.uint8)
        return np.where(np.isin(phases, _ENDED), 0, _int32(pods.node, pods.count)).astype(np.int32)

    def pod(self, key: str) -> ShownPod | None:
        """Return a pod by "namespace/name", or None."""
        row = self._rows.get(key)
        return None if row is None else self._pod(row)

    def node_of(self, row: int) -> str:
        """Return the node of the pod of a row, "" = on none, or it has ended."""
        return self.text(int(self._node_column[row]))

    def flags_of(self, row: int) -> int:
        """Return the flags of the pod of a row, as in `PodTable.flags`."""
        flags = self.snapshot.pods.flags
        return flags[row] if flags else 0

    def pod_spec(self, row: int) -> pb.PodSpec:
        """Return the spec of the pod of a row."""
        return self.snapshot.pod_specs[int(self._columns.spec[row])]

    def _pod(self, row: int) -> ShownPod:
        """Return the pod of a row."""
        columns = self._columns
        return ShownPod(
            key=self.pod_keys[row],
            row=row,
            node=self.text(int(columns.node[row])),
            spec=self.snapshot.pod_specs[int(columns.spec[row])],
            phase=columns.phase[row],
            owner=self._owners.get(self.text(int(columns.owner[row]))),
            labels=self.labels(int(columns.label_set[row])),
            ready=bool(columns.flags and columns.flags[row] & _READY),
        )

    @cached_property
    def _columns(self) -> _LookupColumns:
        pods = self.snapshot.pods
        spec, owner = _int32(pods.spec, pods.count), _int32(pods.owner, pods.count)
        node, label_set = _int32(pods.node, pods.count), _int32(pods.label_set, pods.count)
        return _LookupColumns(spec, owner, node, label_set, pods.phase, pods.flags)

    @cached_property
    def _label_sets(self) -> tuple[Int32, Int32, Int32]:
        """Offsets, keys and values."""
        sets = self.snapshot.label_sets
        return _int32(sets.offsets, 0), _int32(sets.keys, 0), _int32(sets.values, 0)

    def controller_text(self, key: str) -> str:
        """Return the controller of a pod by "namespace/name" as "Kind namespace/name", or the pod itself."""
        return self.owner_text(key) or alone([key])

    def owner_text(self, key: str) -> str:
        """Return the controller of a pod by "namespace/name" as "Kind namespace/name", "" = none is known."""
        found = self.pod(key)
        owner = found.owner if found else None
        return f"{owner.kind} {owner.namespace}/{owner.name}" if owner else ""

    def labels(self, label_set: int) -> dict[str, str]:
        """Return a label set."""
        offsets, keys, values = self._label_sets
        if not len(offsets):
            return {}
        inside = slice(int(offsets[label_set]), int(offsets[label_set + 1]))
        pairs = zip(keys[inside].tolist(), values[inside].tolist(), strict=True)
        return {self.text(key): self.text(value) for key, value in pairs}

    def group_of(self, pod: ShownPod) -> str:
        """Return the pod group of a pod, "namespace/name"; "" = it is in none."""
        pods = self.snapshot.pods
        name = self.text(int(_int32(pods.pod_group, pods.count)[pod.row]))
        return f"{pod.key.partition('/')[0]}/{name}" if name else ""

    def pods_in_group(self, key: str) -> list[ShownPod]:
        """Return the pods of a pod group, "namespace/name", that have not ended, sorted by key."""
        namespace, _, name = key.partition("/")
        pods = self.snapshot.pods
        inside = np.isin(_int32(pods.pod_group, pods.count), self._indices([name]))
        inside &= np.isin(_int32(pods.namespace, pods.count), self._indices([namespace]))
        inside &= ~np.isin(np.frombuffer(pods.phase, np.uint8), _ENDED)
        return sorted((self._pod(row) for row in np.flatnonzero(inside).tolist()), key=lambda pod: pod.key)

    def _indices(self, texts: Collection[str]) -> list[int]:
        """Return the indices of some strings in the dictionary."""
        return [index for index, text in enumerate(self.snapshot.strings) if index and text in texts]

    def pods_on(self, node: str) -> list[ShownPod]:
        """Return the pods that use resources of a node, sorted by key."""
        rows = np.flatnonzero(np.isin(self._node_column, self._indices([node]))).tolist()
        return sorted((self._pod(row) for row in rows), key=lambda pod: pod.key)

    def rows_by_node(self) -> dict[str, list[int]]:
        """Return the rows of the pods that use resources of each node. O(pods)."""
        found: dict[str, list[int]] = {}
        for row, index in enumerate(self._node_column.tolist()):
            if index:
                found.setdefault(self.text(index), []).append(row)
        return found

    def row_of(self, key: str) -> int | None:
        """Return the row of a pod by "namespace/name", None = there is none."""
        return self._rows.get(key)

    def spec_of(self, row: int) -> int:
        """Return the index of a pod's spec."""
        return int(self._columns.spec[row])

    def kin_of(self, row: int) -> tuple[int, int]:
        """Return what pods of one workload have in common: their controller and their labels, as indices."""
        return int(self._columns.owner[row]), int(self._columns.label_set[row])

    def requests(self, pod: ShownPod) -> dict[str, int]:
        """Return the requests of a pod."""
        return {self.snapshot.resources[entry.resource]: entry.amount for entry in pod.spec.requests}

    def requests_of(self, row: int) -> dict[str, int]:
        """Return the requests of the pod of a row."""
        return {self.snapshot.resources[entry.resource]: entry.amount for entry in self.pod_spec(row).requests}

    def volumes(self, pod: ShownPod) -> list[pb.Volume]:
        """Return the volumes that a pod mounts."""
        pods = self.snapshot.pods
        mounting = _int32(pods.volume_pod, 0)
        start, end = np.searchsorted(mounting, [pod.row, pod.row + 1]).tolist()
        return [self.snapshot.volumes[volume] for volume in _int32(pods.volume, 0)[start:end].tolist()]

    def allocatable(self, node: str) -> dict[str, int]:
        """Return the allocatable amounts of a node."""
        return dict(zip(self.snapshot.resources, self.nodes[node].allocatable, strict=False))

    @cached_property
    def _free(self) -> dict[str, dict[str, int]]:
        """Free resources by node, "pods" included."""
        snapshot = self.snapshot
        specs = np.zeros((len(snapshot.pod_specs), len(snapshot.resources)), np.int64)
        for row, spec in enumerate(snapshot.pod_specs):
            for entry in spec.requests:
                specs[row, entry.resource] = entry.amount
        place = {name: row for row, name in enumerate(self.nodes)}
        of_string = np.array([place.get(text, -1) if index else -1 for index, text in enumerate(snapshot.strings)])
        at = of_string[self._node_column] if len(of_string) else np.zeros(0, np.int64)
        taken = np.zeros((len(place), len(snapshot.resources)), np.int64)
        np.add.at(taken, at[at >= 0], specs[_int32(snapshot.pods.spec, snapshot.pods.count)[at >= 0]])
        pods = np.bincount(at[at >= 0], minlength=len(place)).tolist()
        free = {}
        for name, row in place.items():
            left = dict.fromkeys(snapshot.resources, 0) | self.allocatable(name)
            free[name] = {
                resource: left[resource] - int(taken[row, r]) for r, resource in enumerate(snapshot.resources)
            }
            free[name]["pods"] = left.get("pods", 0) - pods[row]
        return free

    def free(self, node: str, without: ShownPod | None = None) -> dict[str, int]:
        """Return the free resources of a node, "pods" included, as if the pods `without` were not on it."""
        left = dict(self._free[node])
        if without is not None and without.node == node and without.phase not in _ENDED:
            left["pods"] += 1
            for resource, amount in self.requests(without).items():
                left[resource] += amount
        return left

    def usage(self) -> dict[str, float]:
        """Return the share of allocatable cpu and memory that is requested, over all nodes, 0 to 1."""
        shares = {}
        for resource in ("cpu", "memory"):
            has = sum(self.allocatable(node).get(resource, 0) for node in self.nodes)
            left = sum(self.free(node).get(resource, 0) for node in self.nodes)
            shares[resource] = (has - left) / has if has else 0.0
        return shares

    def waiting_pods(self) -> list[str]:
        """Return the pods that wait for a node as "namespace/name", sorted; terminal pods do not wait."""
        pods = self.snapshot.pods
        ended = np.isin(np.frombuffer(pods.phase, np.uint8), _ENDED)
        free = np.flatnonzero((_int32(pods.node, pods.count) == 0) & ~ended)
        return sorted(self.pod_keys[row] for row in free.tolist()) if len(free) else []

    def pod_count_on(self, nodes: Collection[str]) -> int:
        """Return how many pods use resources of some nodes."""
        return int(np.isin(self._node_column, self._indices(set(nodes))).sum())

    def orphaned_pods(self) -> list[tuple[str, str]]:
        """Return the pods that are bound to a node that is not in the snapshot, each with the name of its node."""
        absent = [i for i, text in enumerate(self.snapshot.strings) if text and text not in self.nodes]
        rows = np.flatnonzero(np.isin(self._node_column, absent)).tolist()
        return [(self.pod_keys[row], self.text(int(self._node_column[row]))) for row in rows]

    def budgets_of(self, pod: ShownPod) -> list[pb.PodDisruptionBudget]:
        """Return the PodDisruptionBudgets that select a pod, by name."""
        namespace = pod.key.partition("/")[0]
        budgets = [one for one in self.snapshot.pod_disruption_budgets if one.namespace == namespace]
        chosen = [
            one for one in budgets if one.HasField("selector") and self.selects(one.selector.requirements, pod.labels)
        ]
        return sorted(chosen, key=lambda one: one.name)

    def selects(self, requirements: Iterable[pb.LabelRequirement], labels: Mapping[str, str]) -> bool:
        """Whether all requirements of a label selector, or of a node selector, hold for some labels."""
        found = ((self.text(one.key), one.operator, tuple(map(self.text, one.values))) for one in requirements)
        return matches(tuple(found), labels)

    def pods_like(self, pod: ShownPod, selector: pb.LabelSelector, keys: Sequence[int] = ()) -> NDArray[np.int64]:
        """Return the rows of a pod's namespace that a selector takes, with the pod's values of some label keys (string
        indices); pods that have ended or are being deleted do not count. O(pods + label sets)."""
        pods = self.snapshot.pods
        namespaces, sets = _int32(pods.namespace, pods.count), self._columns.label_set
        counts = (namespaces == namespaces[pod.row]) & ~np.isin(np.frombuffer(pods.phase, np.uint8), _ENDED)
        if pods.deletion:
            counts &= np.frombuffer(pods.deletion, "<i8") == 0
        same = {key: pod.labels[key] for key in map(self.text, keys) if key in pod.labels}
        alike = [
            one
            for one in np.unique(sets[counts]).tolist()
            if same.items() <= (labels := self.labels(one)).items() and self.selects(selector.requirements, labels)
        ]
        return np.flatnonzero(counts & np.isin(sets, alike))

    def is_wanted(self, spec: pb.PodSpec, node: str) -> bool:
        """Whether the node selector and the required node affinity of a pod allow a node."""
        labels = self.labels(self.nodes[node].label_set)
        if any(labels.get(self.text(pair.key)) != self.text(pair.value) for pair in spec.node_selector):
            return False
        if not spec.HasField("node_affinity"):
            return True
        return any(
            (term.match_expressions or term.match_fields)
            and self.selects(term.match_expressions, labels)
            and self.selects(term.match_fields, {NODE_NAME_FIELD: node})
            for term in spec.node_affinity.terms
        )

    def refused_taints(self, spec: pb.PodSpec, node: str) -> list[pb.Taint]:
        """Return the taints of a node against which a pod has no toleration; soft ones do not count."""
        hard = [taint for taint in self.nodes[node].taints if taint.effect != pb.TaintEffect.PREFER_NO_SCHEDULE]
        return [taint for taint in hard if not any(self._tolerates(one, taint) for one in spec.tolerations)]

    def _tolerates(self, toleration: pb.Toleration, taint: pb.Taint) -> bool:
        """Whether a toleration covers a taint, by key, effect and operator."""
        if toleration.effect not in (pb.TaintEffect.UNSPECIFIED, taint.effect):
            return False
        key = self.text(toleration.key)
        if key and key != self.text(taint.key):
            return False
        if toleration.operator == pb.TolerationOperator.EXISTS:
            return True
        if toleration.operator in (pb.TolerationOperator.LT, pb.TolerationOperator.GT):
            return False
        return bool(key) and self.text(toleration.value) == self.text(taint.value)
