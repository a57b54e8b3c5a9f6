"""DynamicResources, as far as nodes alone decide: claims that cannot be used anywhere, and claims that have devices
already, which only some nodes reach.

Contract: read from `PodRequirements.claims`; how many devices are free is a matter of amounts (`DEVICES_FIT`).
Source: plugin dynamicresources, v1.36.3.
"""

from itertools import product
from typing import Final

from trimtab.planner.classes.scheduling_specs import NodeRequirement, SchedulingSpec
from trimtab.planner.model.values import NodeAffinityTerm
from trimtab.planner.predicates import node_affinity
from trimtab.planner.predicates.static import StaticPredicate
from trimtab.planner.predicates.unschedulable_pods import excluded_everywhere
from trimtab.v1.reason_pb2 import PredicateReason


def _is_unusable(spec: SchedulingSpec) -> bool:
    return any(claim.problem for claim in spec.claims)


def _nodes_of_claims(spec: SchedulingSpec) -> NodeRequirement:
    """Return the nodes that reach the devices of all claims."""
    selectors = [claim.nodes for claim in spec.claims if claim.nodes is not None]
    if not selectors:
        return node_affinity.NO_REQUIREMENT
    terms = tuple(
        NodeAffinityTerm(
            tuple([requirement for term in some for requirement in term.match_expressions]),
            tuple([requirement for term in some for requirement in term.match_fields]),
        )
        for some in product(*selectors)
    )
    return (), terms


CLAIMS_USABLE: Final = StaticPredicate(PredicateReason.CLAIM_UNUSABLE, excluded_everywhere, of_spec=_is_unusable)
CLAIMS_REACHED: Final = StaticPredicate(
    PredicateReason.CLAIM_ALLOCATED_ELSEWHERE,
    node_affinity.excluded_nodes,
    of_spec=_nodes_of_claims,
    note_labels=node_affinity.note_labels,
)
