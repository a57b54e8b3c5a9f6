"""NodeAffinity, and the node that a pod is pinned to. Source: kube-scheduler v1.37.2."""

from tests.builders.rows import PodRow
from tests.reference.classes.selectors import node_matches
from tests.reference.simulation.moves import Cluster
from trimtab.v1.reason_pb2 import PredicateReason as Reason


def refusals(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    elsewhere = pod.pinned and pod.pinned != name
    matches = node_matches(pod.spec, cluster.nodes[name])
    return {Reason.NODE_AFFINITY_NOT_MATCHED} if elsewhere or not matches else set()
