"""Right-sized pools as objects of autoscalers: NodeGroups of this project, NodePools of Karpenter, and what to set on
the MachineDeployments of Cluster API.

Sources: Karpenter, karpenter.sh_nodepools.yaml (v1); Cluster API's provider of the Cluster Autoscaler (annotations for
sizes and for scaling from zero).
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from trimtab.clients.cli.options import PoolExport
from trimtab.clients.cli.rightsize.machines import POOL_LABEL, MachineChoice, label_text
from trimtab.clients.cli.rightsize.sizing import SizedGroup, Sizing, SizingLimits
from trimtab.common.kubernetes.quantities import counted_amount
from trimtab.common.kubernetes.registry import BY_KIND
from trimtab.common.kubernetes.signals import cluster_autoscaler
from trimtab.common.objects.karpenter.offers import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    SYSTEM,
    ZONE,
)

Json = dict[str, Any]
_SIZES: Final = cluster_autoscaler.NODE_GROUP_PREFIX.key
_CAPACITY: Final = "capacity.cluster-autoscaler.kubernetes.io"
ROOM: Final = 2
"""Written groups may grow to so many times their size, unless --max-nodes says otherwise."""


def exported(sizing: Sizing, form: PoolExport, limits: SizingLimits) -> Json:
    """Return a list of objects."""
    if form is PoolExport.NODE_GROUPS:
        items = [_node_group(group, limits) for group in sizing.groups]
    elif form is PoolExport.CLUSTER_API:
        items = [_machine_deployment(group, limits) for group in sizing.groups]
    else:
        items = [_node_pool([one for one in sizing.groups if one.machine.pool == pool]) for pool in sizing.pools]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _largest(group: SizedGroup, limits: SizingLimits) -> int:
    return max(limits.max_nodes or group.node_count * ROOM, group.node_count)


def _node_group(group: SizedGroup, limits: SizingLimits) -> Json:
    """Return a NodeGroup, with a selector for the nodes that will be in it."""
    written: Json = msgspec.to_builtins(group.machine.node_group(_largest(group, limits), target=group.node_count))
    spec = _without_nulls(written["spec"])
    key = group.machine.offer.key
    selector = {POOL_LABEL: group.machine.pool, INSTANCE_TYPE: key.instance_type}
    spec["nodeSelector"] = selector | ({ZONE: key.zone} if key.zone else {})
    return {**BY_KIND["NodeGroup"].type_meta, "metadata": {"name": group.machine.group}, "spec": spec}


def _node_pool(groups: Sequence[SizedGroup]) -> Json:
    """Return a NodePool; its limits are what its nodes have together."""
    machine = groups[0].machine
    key = machine.offer.key
    zones = sorted({one.machine.offer.key.zone for one in groups if one.machine.offer.key.zone})
    count = sum(one.node_count for one in groups)
    values = {
        INSTANCE_TYPE: [key.instance_type],
        CAPACITY_TYPE: [key.capacity_type],
        ZONE: zones,
        ARCH: [machine.offer.labels[ARCH]] if ARCH in machine.offer.labels else [],
        SYSTEM: ["linux"],
    }
    taints = [_taint(taint) for taint in machine.profile.taints]
    cpu = counted_amount("cpu", machine.offer.capacity.get("cpu", 0)) * count
    memory = counted_amount("memory", machine.offer.capacity.get("memory", 0)) * count
    spec = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": [{"key": one, "operator": "In", "values": given} for one, given in values.items() if given],
    }
    return {
        **BY_KIND["NodePool"].type_meta,
        "metadata": {"name": machine.pool},
        "spec": {
            "template": {
                "metadata": {"labels": {**dict(machine.profile.labels), POOL_LABEL: machine.pool}},
                "spec": spec | ({"taints": taints} if taints else {}),
            },
            "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "5m"},
            "limits": {"cpu": f"{-(-cpu // 1000)}", "memory": f"{-(-memory // (1 << 20))}Mi"},
        },
    }


def _machine_deployment(group: SizedGroup, limits: SizingLimits) -> Json:
    """Return what to set on a MachineDeployment; the rest of it is of the infrastructure."""
    machine = group.machine
    key, offer = machine.offer.key, machine.offer
    labels = {**dict(machine.profile.labels), POOL_LABEL: machine.pool, INSTANCE_TYPE: key.instance_type}
    annotations = {
        f"{_SIZES}-min-size": f"{min(limits.min_nodes, group.node_count)}",
        f"{_SIZES}-max-size": f"{_largest(group, limits)}",
        f"{_CAPACITY}/cpu": str(offer.capacity.get("cpu", "0")),
        f"{_CAPACITY}/memory": str(offer.capacity.get("memory", "0")),
        f"{_CAPACITY}/maxPods": str(offer.capacity.get("pods", "110")),
        f"{_CAPACITY}/labels": label_text({**labels, **({ZONE: key.zone} if key.zone else {})}),
    }
    if machine.profile.taints:
        texts = (f"{name}={value}:{effect}" for name, value, effect in machine.profile.taints)
        annotations[f"{_CAPACITY}/taints"] = ",".join(texts)
    if "nvidia.com/gpu" in offer.capacity:
        annotations[f"{_CAPACITY}/gpu-type"] = "nvidia.com/gpu"
        annotations[f"{_CAPACITY}/gpu-count"] = str(offer.capacity["nvidia.com/gpu"])
    template: Json = {"metadata": {"labels": {POOL_LABEL: machine.pool, **dict(machine.profile.labels)}}}
    return {
        **BY_KIND["MachineDeployment"].type_meta,
        "metadata": {"name": machine.group, "annotations": annotations},
        "spec": {"replicas": group.node_count, "template": template | _failure_domain(machine)},
    }


def _failure_domain(machine: MachineChoice) -> Json:
    zone = machine.offer.key.zone
    return {"spec": {"failureDomain": zone}} if zone else {}


def _taint(taint: tuple[str, str, str]) -> Json:
    key, value, effect = taint
    return {"key": key, "effect": effect} | ({"value": value} if value else {})


def _without_nulls(value: Any) -> Any:
    """Return a document without fields that say nothing."""
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None and one != []}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value
