"""NodePools, NodeClaims and nodes of Karpenter as plain objects, and files of offerings."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.builders import kubernetes as k8s

Json = dict[str, Any]
POOL, CAPACITY_TYPE = "karpenter.sh/nodepool", "karpenter.sh/capacity-type"
INSTANCE_TYPE, ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"
CATALOG = """instance_type,cpu,memory_gib,pods,zone,capacity_type,price,arch
m5.large,2,8,29,z1,on-demand,0.107,amd64
m5.large,2,8,29,z1,spot,0.041,amd64
m5.large,2,8,29,z2,on-demand,0.107,amd64
m5.xlarge,4,16,58,z1,on-demand,0.214,amd64
c6g.xlarge,4,8,58,z1,on-demand,0.146,arm64
"""


def requirement(key: str, operator: str, *values: str, min_values: int | None = None) -> Json:
    """Return a requirement of a NodePool."""
    found: Json = {"key": key, "operator": operator}
    if values:
        found["values"] = list(values)
    return found | ({"minValues": min_values} if min_values is not None else {})


def node_pool(
    name: str = "default",
    requirements: Iterable[Json] = (),
    *,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[str] = (),
    startup_taints: Sequence[str] = (),
    disruption: Json | None = None,
    **spec: Any,
) -> Json:
    """Return a NodePool. spec : other fields of `spec`."""
    template: Json = {"requirements": list(requirements), "taints": [k8s.taint(one) for one in taints]}
    template["startupTaints"] = [k8s.taint(one) for one in startup_taints]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"metadata": {"labels": dict(labels or {})}, "spec": template},
            **({"disruption": disruption} if disruption is not None else {}),
            **spec,
        },
    }


def node_claim(
    name: str, pool: str = "default", offer: str = "m5.large/z1/on-demand", *, node: str = "", **status: Any
) -> Json:
    """Return a NodeClaim that was launched as an offering "TYPE/ZONE/CAPACITY TYPE"."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "labels": pool_labels(pool, offer)},
        "status": {**({"nodeName": node} if node else {}), **status},
    }


def pool_node(name: str, pool: str = "default", offer: str = "m5.large/z1/on-demand", **more: Any) -> Json:
    """Return a node of a pool. more : arguments of `tests.builders.kubernetes.node`."""
    labels = {**pool_labels(pool, offer), **more.pop("labels", {})}
    return k8s.node(name, labels=labels, **more)


def pool_labels(pool: str, offer: str) -> dict[str, str]:
    """Return the labels of a node of a pool."""
    instance_type, zone, capacity_type = offer.split("/")
    return {POOL: pool, INSTANCE_TYPE: instance_type, ZONE: zone, CAPACITY_TYPE: capacity_type}
