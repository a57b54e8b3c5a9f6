"""DynamicResources, for pods that share a claim without devices: those that follow need one that leads on the node."""

from tests.builders.rows import PodRow
from tests.reference.predicates.durations import FOR_NOW
from tests.reference.simulation.moves import Cluster
from trimtab.planner.model.values import FOLLOWS, LEADS
from trimtab.v1.reason_pb2 import PredicateReason as Reason

HOLDS = {Reason.CLAIM_ALLOCATED_ELSEWHERE: FOR_NOW}


def refusals(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    leading = {
        claim.shared
        for other, at in cluster.placed()
        for claim in other.spec.claims
        if at == name and claim.together == LEADS
    }
    missing = {claim.shared for claim in pod.spec.claims if claim.together == FOLLOWS} - leading
    return {Reason.CLAIM_ALLOCATED_ELSEWHERE} if missing else set()
