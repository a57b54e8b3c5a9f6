"""Rows of a snapshot as Kubernetes objects: nodes, node groups, budgets, namespaces, controllers.

Decides that nodes lose the taints of an autoscaler, since nothing in the simulation has set them, and that a node
group's target size is its number of nodes.
"""

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.clients.simulation.cluster.pods import format_time
from trimtab.common.kubernetes.names import HARD_TAINT_KEY, SOFT_TAINT_KEY
from trimtab.common.kubernetes.signals.cluster_autoscaler import SCALE_DOWN_DISABLED
from trimtab.common.objects.annotated_numbers import DO_NOT_DISRUPT
from trimtab.common.objects.pod_spec_exporter import PodSpecExporter
from trimtab.v1 import snapshot_pb2 as pb

Json = dict[str, Any]
_OWN_TAINTS: Final = (HARD_TAINT_KEY, SOFT_TAINT_KEY)


def nodes(changed: pb.ClusterSnapshot, reader: PodSpecExporter) -> Iterator[Json]:
    """Yield the nodes."""
    for one in changed.nodes:
        spec: Json = {"taints": [taint for taint in reader.taints(one.taints) if taint["key"] not in _OWN_TAINTS]}
        spec |= {"providerID": one.provider_id} if one.provider_id else {}
        spec |= {"unschedulable": True} if one.unschedulable else {}
        metadata: Json = {"name": one.name, "labels": reader.labels(one.label_set)}
        metadata |= {"creationTimestamp": _text(one.create_time)} if one.HasField("create_time") else {}
        flags = {SCALE_DOWN_DISABLED.key: one.scale_down_disabled, DO_NOT_DISRUPT: one.do_not_disrupt}
        if any(flags.values()):
            metadata["annotations"] = {key: "true" for key, is_set in flags.items() if is_set}
        status = _status(one, reader) | {"conditions": [{"type": "Ready", "status": "True" if one.ready else "False"}]}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}


def groups(changed: pb.ClusterSnapshot, reader: PodSpecExporter) -> Iterator[Json]:
    """Yield the node groups, which name their nodes."""
    members: dict[str, list[str]] = {one.id: [] for one in changed.node_groups}
    for node in changed.nodes:
        if node.node_group in members:
            members[node.node_group].append(node.name)
    for one in changed.node_groups:
        size = min(max(len(members[one.id]), one.min_size), one.max_size)
        spec: Json = {"minSize": one.min_size, "maxSize": one.max_size, "targetSize": size, "nodes": members[one.id]}
        spec |= {"price": one.price_per_hour} if one.HasField("price_per_hour") else {}
        spec |= {"zeroOrMax": True} if one.zero_or_max else {}
        if one.HasField("template"):
            template = one.template
            spec["template"] = {
                "metadata": {"labels": reader.labels(template.label_set)},
                "spec": {"taints": reader.taints(template.taints)},
                "status": _status(template, reader),
            }
        yield {"apiVersion": "trimtab.dev/v1", "kind": "NodeGroup", "metadata": {"name": one.id}, "spec": spec}


def _status(node: pb.Node | pb.NodeTemplate, reader: PodSpecExporter) -> Json:
    return {
        "allocatable": reader.amounts(enumerate(node.allocatable)),
        "capacity": reader.amounts(enumerate(node.capacity or node.allocatable)),
        "declaredFeatures": reader.names(node.declared_features),
    }


def budgets(changed: pb.ClusterSnapshot, reader: PodSpecExporter) -> Iterator[Json]:
    """Yield the PodDisruptionBudgets. Raises ValueError for one whose limit is no number."""
    for one in changed.pod_disruption_budgets:
        spec: Json = {"selector": reader.selector(one.selector)} if one.HasField("selector") else {}
        for name, value in (("minAvailable", one.min_available), ("maxUnavailable", one.max_unavailable)):
            spec |= {name: value if value.endswith("%") else int(value)} if value else {}
        spec |= {"unhealthyPodEvictionPolicy": "AlwaysAllow"} if one.always_allow_unhealthy else {}
        metadata = {"namespace": one.namespace, "name": one.name}
        yield {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def namespace_of(namespace: pb.Namespace, reader: PodSpecExporter) -> Json:
    """Return a namespace."""
    metadata = {"name": namespace.name, "labels": reader.labels(namespace.label_set)}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def owner(owner: pb.Owner, wanted: int | None) -> Json:
    """Return a controller without template: its pods are recreated from existing ones."""
    field = "parallelism" if owner.kind == "Job" else "replicas"
    spec = {} if wanted is None else {field: wanted}
    metadata = {"namespace": owner.namespace, "name": owner.name, "uid": owner.uid}
    return {"apiVersion": owner.api_version or "apps/v1", "kind": owner.kind, "metadata": metadata, "spec": spec}


def _text(moment: Timestamp) -> str:
    return format_time(moment.ToMilliseconds())


def pod_group_of(pod_group: pb.PodGroup) -> Json | None:
    """Return the PodGroup of a row, in the scheduler's form, without its topology key, which is not simulated; None if
    its object cannot be read: the scheduler holds its pods, as if there were none."""
    if pod_group.problem or pod_group.policy == pb.PodGroupPolicy.UNSPECIFIED:
        return None
    is_gang = pod_group.policy == pb.PodGroupPolicy.GANG
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": pod_group.min_count}} if is_gang else {"basic": {}}}
    spec |= {"disruptionMode": {"all": {}}} if pod_group.disruption_mode == pb.PodGroupDisruptionMode.POD_GROUP else {}
    spec |= {"priority": pod_group.priority} if pod_group.HasField("priority") else {}
    created = {"creationTimestamp": pod_group.create_time.ToJsonString()} if pod_group.HasField("create_time") else {}
    metadata = {"namespace": pod_group.namespace, "name": pod_group.name, **created}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}
