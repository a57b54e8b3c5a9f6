"""NodePorts, by checking every pod of the node. Source: kube-scheduler v1.37.2."""

from tests.builders.rows import PodRow
from tests.reference.predicates.durations import FOR_GOOD
from tests.reference.simulation.moves import Cluster
from trimtab.v1.reason_pb2 import PredicateReason as Reason

WILDCARD = "0.0.0.0"
HOLDS = {Reason.HOST_PORT_CONFLICT: FOR_GOOD}


def ports_conflict(pod: PodRow, other: PodRow) -> bool:
    for mine in pod.spec.host_ports:
        for theirs in other.spec.host_ports:
            same = (mine.protocol, mine.port) == (theirs.protocol, theirs.port) and mine.port > 0
            if same and (mine.host_ip == theirs.host_ip or WILDCARD in (mine.host_ip, theirs.host_ip)):
                return True
    return False


def refusals(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    taken = any(ports_conflict(pod, other) for other in cluster.pods_on(name))
    return {Reason.HOST_PORT_CONFLICT} if taken else set()
