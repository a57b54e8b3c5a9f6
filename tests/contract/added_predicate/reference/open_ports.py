"""Open ports, from the rows."""

from tests.builders.rows import PodRow
from tests.reference.simulation.moves import Cluster
from trimtab.v1.reason_pb2 import PredicateReason as Reason


def refusals(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    closed = "example.com/host-ports" not in cluster.nodes[name].labels
    return {Reason.HOST_PORTS_CLOSED} if closed and pod.spec.host_ports else set()
