"""What all dynamic predicates but room say of a pod on a node, and how long it holds while pods are only added."""

from tests.builders.rows import PodRow
from tests.reference.predicates import presence, spread, volumes
from tests.reference.simulation.moves import Cluster
from trimtab.v1.reason_pb2 import PredicateReason as Reason

ADMITTED, FOR_GOOD, FOR_NOW, THIS_POD = range(4)
_FOR_NOW = {Reason.TOPOLOGY_SPREAD_VIOLATED, Reason.POD_AFFINITY_NOT_MATCHED}


def because(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    """Return the reasons of the predicates that refuse a pod on a node."""
    return _of_classes(cluster, pod, name) | _of_volumes(cluster, pod, name)


def refusal(cluster: Cluster, pod: PodRow, name: str) -> int:
    """Return how the node refuses the pod: by the most lasting reason."""
    reasons = _of_classes(cluster, pod, name)
    if reasons - _FOR_NOW:
        return FOR_GOOD
    if reasons:
        return FOR_NOW
    return THIS_POD if _of_volumes(cluster, pod, name) else ADMITTED


def _of_classes(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    node, placed = cluster.nodes[name], [(other, cluster.nodes[at]) for other, at in cluster.placed()]
    alive = {
        n: (row, cluster.state[n] == "retired", cluster.pods_on(n))
        for n, row in cluster.nodes.items()
        if cluster.state[n] != "dropped"
    }
    return presence.refusals(pod, node, placed, cluster.namespaces) | spread.refusals(pod, node, alive)


def _of_volumes(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    return volumes.refusals(pod, cluster.nodes[name], cluster.pods_on(name), [other for other, _ in cluster.placed()])
