"""Decode the bytes of a `ClusterSnapshot` into a canonical snapshot.

Bad input is refused with table, row, field and remedy. Cost: O(bytes); 5,000 nodes and 150,000 pods take about a tenth
of a second. Source: `protos/trimtab/v1/snapshot.proto`.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.model.values import NodeGroupInfo, PodRequirements, TemplatePod
from trimtab.planner.snapshot.checks import Row, SnapshotError, SnapshotMalformedError
from trimtab.planner.snapshot.columns import Dangling, DanglingReferences, Int32, NodeColumns, Snapshot
from trimtab.planner.snapshot.devices import read_devices
from trimtab.planner.snapshot.dictionaries import (
    canonical_label_sets,
    canonical_resources,
    canonical_strings,
    canonical_values,
    check_volumes,
    read_label_sets,
    read_resources,
    read_strings,
    row_of_key,
)
from trimtab.planner.snapshot.nodes import NodeDictionaries, check_names, offered_resources, read_nodes, take_nodes
from trimtab.planner.snapshot.pod_specs import read_capacity_requests, read_pod_specs, read_slack_requests, read_volumes
from trimtab.planner.snapshot.pods import (
    PodDictionaries,
    group_names,
    number_keys,
    read_namespace,
    read_pod_groups,
    read_pods,
)
from trimtab.planner.snapshot.references import NONE, resolve
from trimtab.planner.snapshot.rows import (
    DictionarySizes,
    read_budgets,
    read_daemonset_pods,
    read_deletions,
    read_evictions,
    read_namespaces,
    read_node_groups,
    read_owners,
    read_template_pod,
    spec_in,
)
from trimtab.planner.snapshot.sealing import seal
from trimtab.v1 import snapshot_pb2 as pb

ReadSpecs = Callable[[Iterable[pb.PodSpec], Sequence[str], Sequence[str]], list[PodRequirements]]
_TEMPLATES = "node_groups.template"
_BYTES_OF_ROW: Final = {
    "strings": 150,
    "resources": 150,
    "nodes": 1500,
    "node_groups": 1000,
    "owners": 1000,
    "pod_disruption_budgets": 1500,
    "namespaces": 500,
    "pod_groups": 1000,
    "pod_specs": 2000,
    "volumes": 1000,
}
"""Approximate memory of a row of each table while it is read."""
_BYTES_OF_DEVICE_ROW: Final = {
    "strings": 150, "contents": 1500, "device_sets": 300, "counter_sets": 500, "node_selectors": 500, "classes": 800,
    "claim_specs": 1500, "taint_rules": 500, "templates": 500,
}  # fmt: skip
_BYTES_OF_POD_SET: Final = 200
_BYTES_OF_DEVICE: Final = 40
_BYTES_OF_TEMPLATE_SLICE: Final = 300
_BYTES_OF_CELL: Final = 40
"""Allocatable and capacity, a second copy while nodes are sorted, and a third if resources are dropped."""


def parse_snapshot(data: bytes) -> pb.ClusterSnapshot:
    """Return the message. Raises SnapshotMalformedError."""
    message = pb.ClusterSnapshot()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise SnapshotMalformedError(f"these {len(data)} bytes are not a ClusterSnapshot: {error}") from error
    return message


class _Dictionaries(NamedTuple):
    """The message's dictionaries, and the canonical number of each entry.

    strings, resources : as in the message; moved, label_sets, specs : int32, the canonical number of each string, label
    set and spec of the message; canonical_resources, canonical_specs, labels_of : content of the canonical entries.
    """

    strings: list[str]
    moved: Int32
    label_sets: Int32
    specs: Int32
    resources: list[str]
    canonical_resources: tuple[str, ...]
    canonical_specs: tuple[PodRequirements, ...]
    labels_of: Callable[[int], tuple[tuple[str, str], ...]]


def canonicalize(message: pb.ClusterSnapshot, limits: RequestLimits = UNLIMITED) -> Snapshot:
    """Check a message and return it in canonical form. Raises SnapshotError."""
    snapshot = draft(message, limits)
    limits.check()
    return seal(snapshot)


def draft(
    message: pb.ClusterSnapshot, limits: RequestLimits = UNLIMITED, read_specs: ReadSpecs = read_pod_specs
) -> Snapshot:
    """Return a checked message in canonical form, but for `seal`. read_specs : `read_pod_specs`, or as it does."""
    limits.reserve(_row_bytes(message), "rows of the snapshot")
    strings, resources = read_strings(message), read_resources(message)
    namespace = read_namespace(message.pods, strings)
    wire_sets = read_label_sets(message.label_sets, strings)
    pod_names = [namespace, number_keys(message.pods, strings), group_names(message.pods, strings)]
    texts, moved = canonical_strings(strings, [*pod_names, wire_sets.keys, wire_sets.values])
    label_sets, moved_sets = canonical_label_sets(wire_sets, moved)
    specs, moved_specs = canonical_values(read_specs(message.pod_specs, strings, resources))
    volumes, moved_volumes = canonical_values(check_volumes(read_volumes(message.volumes, strings)))
    columns = _columns(message, resources, specs, limits)
    dictionaries = _Dictionaries(
        strings, moved, moved_sets, moved_specs, resources, columns, specs, partial(label_sets.pairs, texts)
    )
    groups, templates = _node_groups(message, dictionaries)
    nodes, no_group = _nodes(message, dictionaries, groups)
    owners = read_owners(message.owners, strings, resources, partial(_pod_template, dictionaries))
    indices = row_of_key(nodes.name), row_of_key(owner.uid for owner in owners)
    of_pods = PodDictionaries(strings, moved, moved_sets, moved_specs, moved_volumes, *indices)
    pods, missing = read_pods(message.pods, namespace, of_pods)
    sizes = DictionarySizes(len(moved_sets), len(moved_specs))
    return Snapshot(
        version="",
        strings=texts,
        resources=dictionaries.canonical_resources,
        label_sets=label_sets,
        specs=specs,
        volumes=volumes,
        pods=pods,
        nodes=nodes,
        templates=templates,
        groups=groups,
        owners=owners,
        budgets=read_budgets(message.pod_disruption_budgets, strings),
        namespaces=tuple([(name, int(moved_sets[i])) for name, i in read_namespaces(message.namespaces, sizes)]),
        deletions=read_deletions(message.actuation_status.deletions),
        recent_evictions=tuple(
            eviction._replace(spec=spec_in(moved_specs, eviction.spec), label_set=int(moved_sets[eviction.label_set]))
            for eviction in read_evictions(message.actuation_status.recent_evictions, sizes)
        ),
        slack_requests=read_slack_requests(message.slack_requests),
        devices=read_devices(message.devices),
        capacity_requests=read_capacity_requests(message.capacity_requests),
        pod_groups=read_pod_groups(message.pod_groups, strings, partial(_pod_template, dictionaries)),
        dangling=DanglingReferences(*missing, no_group),
    )


def _row_bytes(message: pb.ClusterSnapshot) -> int:
    """Return the approximate memory of a message's rows as Python objects, beyond their bytes."""
    rows = 0
    for part in (message.slack_requests, message.capacity_requests):
        rows += 2000 * len(part.dictionary.pod_specs) + 500 * len(part.requests) + 150 * len(part.dictionary.strings)
    rows += _BYTES_OF_POD_SET * sum(len(request.pod_sets) for request in message.capacity_requests.requests)
    devices = message.devices
    rows += sum(size * len(getattr(devices, table)) for table, size in _BYTES_OF_DEVICE_ROW.items())
    rows += _BYTES_OF_DEVICE * sum(len(device_set.names) for device_set in devices.device_sets)
    rows += _BYTES_OF_TEMPLATE_SLICE * sum(len(template.slices) for template in devices.templates)
    return rows + sum(size * len(getattr(message, table)) for table, size in _BYTES_OF_ROW.items())


def _columns(
    message: pb.ClusterSnapshot, resources: Sequence[str], specs: Sequence[PodRequirements], limits: RequestLimits
) -> tuple[str, ...]:
    """Return the resources that become node columns: those offered by a node or template, or requested by a pod."""
    limits.check()
    templates = [group.template for group in message.node_groups if group.HasField("template")]
    had = offered_resources(message.nodes, resources) | offered_resources(templates, resources)
    had.update(name for spec in specs for name, _ in spec.requests)
    columns = canonical_resources([name for name in resources if name in had])
    limits.reserve(_BYTES_OF_CELL * len(columns) * (len(message.nodes) + len(templates)), "nodes times resources")
    return columns


def _node_groups(
    message: pb.ClusterSnapshot, dictionaries: _Dictionaries
) -> tuple[tuple[NodeGroupInfo, ...], NodeColumns]:
    """Return the groups, and the templates in the order of the groups that have one."""
    rows = read_node_groups(message.node_groups, dictionaries.strings)
    with_template = [(i, row) for i, (group, row) in enumerate(rows) if group.template >= 0]
    messages = [_as_node(message.node_groups[row].template) for _, row in with_template]
    column = np.array([i for i, _ in with_template], np.int32)
    try:
        templates = read_nodes(messages, _of_nodes(_TEMPLATES, dictionaries), column)
    except SnapshotError as error:
        if error.table != _TEMPLATES or error.row < 0:
            raise
        raise SnapshotError(
            "node_groups", with_template[error.row][1], f"template.{error.field}", error.problem
        ) from None
    sizes = DictionarySizes(len(dictionaries.label_sets), len(dictionaries.specs))
    groups = []
    for group, row in rows:
        pods = read_daemonset_pods(message.node_groups, row, sizes)
        groups.append(group._replace(daemonset_pods=_daemonset_pods(pods, dictionaries)) if pods else group)
    return tuple(groups), templates


def _as_node(template: pb.NodeTemplate) -> pb.Node:
    """Return a template as a node of the columns: ready, without name."""
    return pb.Node(
        label_set=template.label_set,
        taints=template.taints,
        allocatable=template.allocatable,
        capacity=template.capacity,
        attach_limits=template.attach_limits,
        declared_features=template.declared_features,
        volume_drivers=template.volume_drivers if template.HasField("volume_drivers") else None,
        ready=True,
    )


def _daemonset_pods(rows: Sequence[tuple[str, int, int]], dictionaries: _Dictionaries) -> tuple[TemplatePod, ...]:
    """Return pods of a template by content, in the order of namespace and canonical numbers."""
    canonical = sorted(
        (namespace, int(dictionaries.specs[spec]), int(dictionaries.label_sets[label_set]))
        for namespace, spec, label_set in rows
    )
    return tuple(
        TemplatePod(namespace, dictionaries.canonical_specs[spec], dictionaries.labels_of(label_set))
        for namespace, spec, label_set in canonical
    )


def _pod_template(dictionaries: _Dictionaries, row: Row, pod: pb.TemplatePod) -> TemplatePod:
    """Return the pod template of a controller by content."""
    sizes = DictionarySizes(len(dictionaries.label_sets), len(dictionaries.specs))
    (template,) = _daemonset_pods([read_template_pod(row, pod, "pod_template", sizes)], dictionaries)
    return template


def _nodes(
    message: pb.ClusterSnapshot, dictionaries: _Dictionaries, groups: tuple[NodeGroupInfo, ...]
) -> tuple[NodeColumns, Dangling]:
    """Return the nodes sorted by name, and their node groups that are not listed."""
    messages = list(message.nodes)
    names = check_names(messages)
    order = np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)
    nodes = read_nodes(messages, _of_nodes("nodes", dictionaries), np.zeros(len(names), np.int32))
    ids = [messages[i].node_group for i in order.tolist()]
    row_of_group = row_of_key(group.id for group in groups)
    group, missing = resolve(np.arange(len(ids), dtype=np.int32), ids, row_of_group)
    return take_nodes(nodes, order)._replace(group=np.maximum(group, np.int32(NONE))), missing


def _of_nodes(table: str, d: _Dictionaries) -> NodeDictionaries:
    return NodeDictionaries(table, d.strings, d.resources, d.label_sets, d.canonical_resources)
