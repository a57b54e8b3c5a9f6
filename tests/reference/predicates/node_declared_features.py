"""NodeDeclaredFeatures, if some node declares any. Source: kube-scheduler v1.37.2."""

from tests.builders.rows import PodRow
from tests.reference.simulation.moves import Cluster
from trimtab.v1.reason_pb2 import PredicateReason as Reason


def refusals(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    # These clusters have no other templates than those of their nodes.
    are_declared = any(node.declared_features for node in cluster.nodes.values())
    lacking = set(pod.spec.node_features) - set(cluster.nodes[name].declared_features)
    return {Reason.NODE_FEATURE_NOT_DECLARED} if are_declared and lacking else set()
