"""Nodes as rows, with their attach limits.

Source: core/v1; kube-scheduler nodevolumelimits (a driver without `allocatable.count` has no limit); Cluster Autoscaler
eligibility (annotations).
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from trimtab.common.kubernetes.kinds.metadata import ObjectMeta, Quantities
from trimtab.common.kubernetes.kinds.nodes import CSINode, Node, NodeSpec, NodeStatus
from trimtab.common.kubernetes.object_errors import FieldError, below
from trimtab.common.kubernetes.pod_requests import amounts
from trimtab.common.kubernetes.quantities import MOST_OF_A_NODE, amount_of
from trimtab.common.kubernetes.signals.cluster_autoscaler import CSI_DRIVERS, DELAY_DELETION, SCALE_DOWN_DISABLED
from trimtab.common.kubernetes.signals.karpenter import DO_NOT_DISRUPT
from trimtab.common.kubernetes.signals.ours import STEERED
from trimtab.common.kubernetes.signals.well_known import NODE_READY
from trimtab.common.objects.csi_drivers import NO_DRIVERS, volume_drivers
from trimtab.common.objects.dictionary import Dictionary
from trimtab.common.objects.placement_rules import taints
from trimtab.common.objects.times import timestamp
from trimtab.v1 import snapshot_pb2 as pb
from trimtab.words import counted

_HAVE = ("has", "have")
IN_TREE_LIMITS = {
    "aws-ebs": "ebs.csi.aws.com",
    "azure-disk": "disk.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gce-pd": "pd.csi.storage.gke.io",
}
"""Resources with attach limits that do not name the driver."""
_NOTHING: Mapping[str, int] = MappingProxyType({})


def node_row(
    node: Node,
    csi_node: CSINode | None,
    dictionary: Dictionary,
    required: frozenset[str] = NO_DRIVERS,
    unmounted: Mapping[str, int] = _NOTHING,
) -> pb.Node:
    """Return the row of a node, without its group. Errors: FieldError with the path below the object.

    required : drivers without which no pod is scheduled; unmounted : by driver, how many volumes are attached to the
    node that no pod on it mounts, by which its limits are less.

    A node without `status.allocatable` and `status.capacity` has registered but not reported yet: it has no resources.
    """
    meta, spec, status = node.metadata or ObjectMeta(), node.spec or NodeSpec(), node.status or NodeStatus()
    annotations = meta.annotations or {}
    is_steered = STEERED.key in annotations
    conditions = [condition for condition in status.conditions or () if condition.type == NODE_READY.key]
    row = pb.Node(
        name=meta.name or "",
        provider_id=spec.provider_id or "",
        unschedulable=bool(spec.unschedulable),
        ready=any(condition.status == "True" for condition in conditions),
        ready_transition_time=timestamp(conditions[-1].last_transition_time) if conditions else None,
        create_time=timestamp(meta.creation_timestamp),
        scale_down_disabled=annotations.get(SCALE_DOWN_DISABLED.key) == "true" and not is_steered,
        do_not_disrupt=annotations.get(DO_NOT_DISRUPT.key) == "true" and not is_steered,
        deletion_delayed=any(key.startswith(DELAY_DELETION.key) for key in annotations),
        being_deleted=meta.deletion_timestamp is not None,
        attach_limits=_attach_limits(csi_node, dictionary, unmounted),
        volume_drivers=volume_drivers(csi_node, required, dictionary),
    )
    _add_shared(row, node, dictionary)
    return row


def template_row(node: Node, dictionary: Dictionary) -> pb.NodeTemplate:
    """Return the row of a new node of a group. Errors: as `node_row`."""
    row = pb.NodeTemplate()
    _add_shared(row, node, dictionary)
    limits = _stated_limits(node)
    row.attach_limits.extend(
        pb.AttachLimit(driver=dictionary.string(driver), count=count) for driver, count in sorted(limits.items())
    )
    return row


def _stated_limits(node: Node) -> dict[str, int]:
    """Return the attach limits by CSI driver that a template states: in resources, or in the Cluster Autoscaler's
    annotation, which wins. Errors: FieldError."""
    meta, status = node.metadata or ObjectMeta(), node.status or NodeStatus()
    found: dict[str, int] = {}
    with below("status.allocatable"):
        for name, nano in amounts(status.allocatable or status.capacity).items():
            if name.startswith("attachable-volumes-"):
                kind = name.removeprefix("attachable-volumes-")
                driver = IN_TREE_LIMITS.get(kind) or kind.removeprefix("csi-")
                found[driver] = min(amount_of(name, nano), 2**31 - 1)
    text = (meta.annotations or {}).get(CSI_DRIVERS.key, "")
    for part in filter(None, map(str.strip, text.split(","))):
        driver, _, count = map(str.strip, part.partition("="))
        if not driver or not (count.isascii() and count.isdigit()) or int(count) >= 2**31:
            path, remedy = f"metadata.annotations[{CSI_DRIVERS.key}]", "write DRIVER=COUNT, as ebs.csi.aws.com=25"
            raise FieldError(path, f"{part!r} states no limit", remedy)
        found[driver] = int(count)
    return found


def _add_shared(row: pb.Node | pb.NodeTemplate, node: Node, dictionary: Dictionary) -> None:
    meta, spec, status = node.metadata or ObjectMeta(), node.spec or NodeSpec(), node.status or NodeStatus()
    with below("spec"):
        row.taints.extend(taints(spec.taints, dictionary))
    row.label_set = dictionary.label_set(meta.labels)
    # As the API server does: with capacity only, all of it is allocatable.
    allocatable = status.capacity if status.allocatable is None else status.allocatable
    with below("status.allocatable"):
        row.allocatable.extend(_amounts(allocatable, dictionary))
    if status.capacity is not None and status.capacity != allocatable:
        with below("status.capacity"):
            row.capacity.extend(_amounts(status.capacity, dictionary))
    row.declared_features.extend(
        dictionary.string(name) for name in sorted(set(status.declared_features or ())) if name
    )


def node_notes(nodes: Iterable[Node], rows: Iterable[pb.Node]) -> list[str]:
    """Return notes about nodes: those without resources, and amounts that were reduced to the largest allowed."""
    notes, silent = [], []
    for node, row in zip(nodes, rows, strict=True):
        if not row.allocatable and not row.capacity:
            silent.append(row.name)
        elif MOST_OF_A_NODE in row.allocatable or MOST_OF_A_NODE in row.capacity:
            notes.extend(_cut_notes(node))
    if silent:
        shown = ", ".join(silent[:3]) + (", …" if len(silent) > 3 else "")
        notes.append(f"{counted(len(silent), 'node', _HAVE)} no status.allocatable, so nothing fits there: {shown}")
    return notes


def unreported_note(nodes: Iterable[Node]) -> list[str]:
    """Return a note about nodes with resources and without a condition Ready: they count as not ready."""
    silent = [
        (node.metadata or ObjectMeta()).name or ""
        for node in nodes
        if node.status is not None
        and (node.status.allocatable or node.status.capacity)
        and not any(condition.type == NODE_READY.key for condition in node.status.conditions or ())
    ]
    if not silent:
        return []
    shown = ", ".join(silent[:3]) + (", …" if len(silent) > 3 else "")
    return [
        f"{counted(len(silent), 'node', _HAVE)} no condition Ready in status.conditions, so it counts as not ready, "
        f"and no pod is placed there: {shown}; give whole nodes, as `kubectl get nodes -o json` prints them"
    ]


def _cut_notes(node: Node) -> list[str]:
    meta, status = node.metadata or ObjectMeta(), node.status or NodeStatus()
    cut: dict[str, str] = {}
    for field, quantities in (("allocatable", status.allocatable), ("capacity", status.capacity)):
        for name, nano in amounts(quantities).items():
            if amount_of(name, nano) > MOST_OF_A_NODE:
                cut.setdefault(name, f"status.{field}.{name} is {amount_of(name, nano)}")
    return [f"Node {meta.name}: {one}; that counts as {MOST_OF_A_NODE}" for one in cut.values()]


def resource_names(nodes: Iterable[Node]) -> set[str]:
    """Return the names of all resources that the nodes have."""
    return {
        name
        for node in nodes
        if node.status is not None
        for quantities in (node.status.allocatable, node.status.capacity)
        for name in quantities or ()
    }


def _amounts(quantities: Quantities | None, dictionary: Dictionary) -> list[int]:
    by_index = {
        dictionary.resource(name): min(amount_of(name, nano), MOST_OF_A_NODE)
        for name, nano in amounts(quantities).items()
    }
    return [by_index.get(index, 0) for index in range(max(by_index, default=-1) + 1)]


def _attach_limits(
    csi_node: CSINode | None, dictionary: Dictionary, unmounted: Mapping[str, int]
) -> list[pb.AttachLimit]:
    drivers = (csi_node.spec.drivers if csi_node and csi_node.spec else None) or ()
    out = []
    for driver in sorted(drivers, key=lambda one: one.name or ""):
        count = driver.allocatable.count if driver.allocatable else None
        if count is not None and driver.name:
            left = min(max(count - unmounted.get(driver.name, 0), 0), 2**31 - 1)
            out.append(pb.AttachLimit(driver=dictionary.string(driver.name), count=left))
    return out
