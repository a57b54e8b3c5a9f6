"""Pods that no node admits."""

from tests.builders.rows import PodRow
from tests.reference.simulation.moves import Cluster
from trimtab.v1.reason_pb2 import PredicateReason as Reason


def refusals(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    unsupported = {Reason.UNSUPPORTED_CONSTRAINT} if pod.spec.unsupported else set()
    return unsupported | ({Reason.SCHEDULING_GATED} if pod.gated else set())
