"""DynamicResources, for claims that cannot be used, and for those that have devices."""

from tests.builders.rows import PodRow
from tests.reference.classes.selectors import node_matches
from tests.reference.simulation.moves import Cluster
from trimtab.planner.model.values import PodRequirements
from trimtab.v1.reason_pb2 import PredicateReason as Reason


def refusals(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    found = {Reason.CLAIM_UNUSABLE} if any(claim.problem for claim in pod.spec.claims) else set()
    for claim in pod.spec.claims:
        if claim.nodes is not None and not node_matches(
            PodRequirements(node_affinity=claim.nodes), cluster.nodes[name]
        ):
            found.add(Reason.CLAIM_ALLOCATED_ELSEWHERE)
    return found
