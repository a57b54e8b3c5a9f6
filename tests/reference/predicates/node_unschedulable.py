"""NodeUnschedulable; a node that is not open counts as cordoned. Source: kube-scheduler v1.37.2."""

from tests.builders.rows import PodRow
from tests.reference.predicates.taints import tolerated
from tests.reference.simulation.moves import Cluster
from trimtab.planner.model.values import TaintSpec
from trimtab.v1.reason_pb2 import PredicateReason as Reason
from trimtab.v1.snapshot_pb2 import TaintEffect

CORDONED = TaintSpec("node.kubernetes.io/unschedulable", "", TaintEffect.NO_SCHEDULE)


def refusals(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    cordoned = cluster.nodes[name].unschedulable and not tolerated(pod.spec.tolerations, CORDONED)
    return {Reason.NODE_UNSCHEDULABLE} if cordoned or cluster.state[name] != "open" else set()
