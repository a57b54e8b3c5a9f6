"""Snapshots in the planner's canonical columns, from plain lists: no wire, no parsing.

`snapshot(nodes, pods)` sorts and numbers as a decoded snapshot would, much faster than a message is written
and decoded. The same plain rows feed the naive twins. Groups, owners and numbers of rows are left out.
"""

import math
from typing import Any

import numpy as np

from tests.builders.rows import Labels, NodeRow, PodRow
from tests.builders.snapshots import uid
from trimtab.planner.model.values import MountedVolume, PodRequirements
from trimtab.planner.snapshot.columns import (
    NO_NODE,
    NO_OWNER,
    UNKNOWN_NODE,
    Dangling,
    DanglingReferences,
    LabelSets,
    NodeColumns,
    PodColumns,
    Snapshot,
    Text,
)
from trimtab.planner.snapshot.devices import no_devices

_NOTHING = Dangling(np.zeros(0, np.int32), np.zeros(0, np.int32), ())
RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")


class _Dictionary:
    """Strings and label sets, numbered once all are known."""

    def __init__(self, nodes: list[NodeRow], pods: list[PodRow], namespaces: dict[str, Labels]) -> None:
        all_labels = [n.labels for n in nodes] + [p.labels for p in pods] + list(namespaces.values())
        texts = {text for labels in all_labels for pair in labels.items() for text in pair}
        self.strings = tuple(sorted(texts | {p.namespace for p in pods} | {""}))
        self._index = {text: i for i, text in enumerate(self.strings)}
        rows = sorted({self._row(labels) for labels in all_labels} | {()})
        self._sets = {row: i for i, row in enumerate(rows)}
        self.label_sets = LabelSets(
            np.cumsum([0, *map(len, rows)]).astype(np.int32),
            np.array([key for row in rows for key, _ in row], np.int32),
            np.array([value for row in rows for _, value in row], np.int32),
        )

    def _row(self, labels: Labels) -> tuple[tuple[int, int], ...]:
        return tuple(sorted((self._index[k], self._index[v]) for k, v in labels.items()))

    def string(self, text: str) -> int:
        return self._index[text]

    def set(self, labels: Labels) -> int:
        return self._sets[self._row(labels)]


def text(values: list[str]) -> Text:
    """Return the strings as one column."""
    data = [value.encode() for value in values]
    offsets = np.cumsum([0, *map(len, data)]).astype(np.int64)
    return Text(np.frombuffer(b"".join(data), np.uint8).copy(), offsets)


def _nodes(nodes: list[NodeRow], resources: tuple[str, ...], dictionary: _Dictionary) -> NodeColumns:
    taint_sets = tuple(sorted({node.taints for node in nodes} | {()}))
    count = len(nodes)

    def amounts(of: list[dict[str, int]]) -> Any:
        return np.array([[one.get(r, 0) for r in resources] for one in of], np.int64).reshape(count, len(resources))

    return NodeColumns(
        name=tuple(n.name for n in nodes),
        provider_id=tuple(n.provider_id for n in nodes),
        label_set=np.array([dictionary.set(n.labels) for n in nodes], np.int32),
        taint_set=np.array([taint_sets.index(n.taints) for n in nodes], np.int32),
        taint_sets=taint_sets,
        unschedulable=np.array([n.unschedulable for n in nodes], np.bool_),
        allocatable=amounts([n.allocatable for n in nodes]),
        capacity=amounts([n.capacity or n.allocatable for n in nodes]),
        ready=np.array([n.ready for n in nodes], np.bool_),
        ready_ns=np.array([n.ready_ns for n in nodes], np.int64),
        created_ns=np.array([n.created_ns for n in nodes], np.int64),
        group=np.full(count, -1, np.int32),
        scale_down_disabled=np.array([n.scale_down_disabled for n in nodes], np.bool_),
        deletion_delayed=np.array([n.deletion_delayed for n in nodes], np.bool_),
        do_not_disrupt=np.array([n.do_not_disrupt for n in nodes], np.bool_),
        being_deleted=np.array([n.being_deleted for n in nodes], np.bool_),
        own_price=np.array([math.nan if n.price is None else n.price for n in nodes], np.float64),
        traits=tuple(n.traits for n in nodes),
    )


def _pods(
    pods: list[PodRow],
    nodes: list[NodeRow],
    specs: tuple[PodRequirements, ...],
    volumes: tuple[MountedVolume, ...],
    d: _Dictionary,
) -> PodColumns:
    node_of = {n.name: i for i, n in enumerate(nodes)} | {"": NO_NODE}
    spec_of = {spec: i for i, spec in enumerate(specs)}
    volume_of = {volume: i for i, volume in enumerate(volumes)}
    mounts = [(i, volume_of[v]) for i, p in enumerate(pods) for v in p.volumes]
    return PodColumns(
        namespace=np.array([d.string(p.namespace) for p in pods], np.int32),
        name=text([p.name for p in pods]),
        uid=text([uid((p.namespace, p.name), p) for p in pods]),
        spec=np.array([spec_of[p.spec] for p in pods], np.int32),
        label_set=np.array([d.set(p.labels) for p in pods], np.int32),
        node=np.array([node_of.get(p.node, UNKNOWN_NODE) for p in pods], np.int32),
        owner=np.full(len(pods), NO_OWNER, np.int32),
        created_s=np.array([p.created_s for p in pods], np.int64),
        deletion_s=np.array([p.deletion_s for p in pods], np.int64),
        phase=np.array([p.phase for p in pods], np.uint8),
        flags=np.array([p.flags for p in pods], np.uint8),
        deletion_cost=np.array([p.deletion_cost for p in pods], np.int32),
        pinned=np.array([node_of.get(p.pinned, UNKNOWN_NODE) for p in pods], np.int32),
        nominated=np.array([node_of.get(p.nominated, UNKNOWN_NODE) for p in pods], np.int32),
        volume_pod=np.array([pod for pod, _ in mounts], np.int32),
        volume=np.array([volume for _, volume in mounts], np.int32),
        number_pod=np.zeros(0, np.int32),
        number_key=np.zeros(0, np.int32),
        number=np.zeros(0, np.float64),
        group_pod=np.zeros(0, np.int32),
        group_name=np.zeros(0, np.int32),
    )


def snapshot(
    nodes: list[NodeRow] | tuple[NodeRow, ...] = (),
    pods: list[PodRow] | tuple[PodRow, ...] = (),
    namespaces: dict[str, Labels] | None = None,
) -> Snapshot:
    """Build a snapshot; nodes are sorted by name, pods by namespace and name."""
    nodes = sorted(nodes, key=lambda n: n.name.encode())
    pods = sorted(pods, key=lambda p: (p.namespace.encode(), p.name.encode()))
    named = namespaces or {}
    dictionary = _Dictionary(nodes, pods, named)
    extra = {r for n in nodes for r in (*n.allocatable, *n.capacity)} | {r for p in pods for r, _ in p.spec.requests}
    resources = RESOURCES + tuple(sorted(extra - set(RESOURCES)))
    specs = tuple(dict.fromkeys(sorted((p.spec for p in pods), key=repr)))
    volumes = tuple(dict.fromkeys(sorted((v for p in pods for v in p.volumes), key=repr)))
    return Snapshot(
        version="test",
        strings=dictionary.strings,
        resources=resources,
        label_sets=dictionary.label_sets,
        specs=specs,
        volumes=volumes,
        pods=_pods(pods, nodes, specs, volumes, dictionary),
        nodes=_nodes(nodes, resources, dictionary),
        templates=_nodes([], resources, dictionary),
        groups=(),
        owners=(),
        budgets=(),
        namespaces=tuple((name, dictionary.set(named[name])) for name in sorted(named)),
        deletions=(),
        recent_evictions=(),
        slack_requests=(),
        devices=no_devices(),
        capacity_requests=(),
        pod_groups=(),
        dangling=DanglingReferences(*[_NOTHING] * 5),
    )
