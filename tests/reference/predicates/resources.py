"""NodeResourcesFit, by summing up the pods of the node. Source: kube-scheduler v1.37.2."""

from tests.builders.rows import NodeRow, PodRow
from tests.reference.simulation.moves import Cluster
from trimtab.planner.model.values import is_device_resource
from trimtab.v1.reason_pb2 import PredicateReason as Reason


def short(pod: PodRow, node: NodeRow, there: list[PodRow]) -> list[str]:
    """Return the names of resources that are not free in sufficient quantity."""
    out = []
    for name, amount in pod.spec.requests:
        counted = name in ("cpu", "memory", "ephemeral-storage") or "/" in name or name.startswith("hugepages-")
        used = sum(dict(other.spec.requests).get(name, 0) for other in there)
        if counted and amount > 0 and amount > node.allocatable.get(name, 0) - used:
            out.append(name)
    return sorted(out)


def refused_beside(pod: PodRow, node: NodeRow, there: list[PodRow]) -> set[int]:
    """Return the reasons for which a node with some pods refuses a pod."""
    out = set[int]()
    if len(there) + 1 > node.allocatable.get("pods", 0):
        out.add(Reason.TOO_MANY_PODS)
    for name in short(pod, node, there):
        out.add(Reason.DEVICES_NOT_AVAILABLE if is_device_resource(name) else Reason.INSUFFICIENT_RESOURCES)
    return out


def refusals(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    return refused_beside(pod, cluster.nodes[name], cluster.pods_on(name))
