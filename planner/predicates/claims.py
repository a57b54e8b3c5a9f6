"""DynamicResources, as far as nodes alone decide: claims that cannot be used anywhere, and claims that have devices
already, which only some nodes reach.

Contract: read from `PodRequirements.claims`; how many devices are free is a matter of amounts (`DEVICES_FIT`).
Source: plugin dynamicresources, v1.36.3.
"""

from collections.abc import Sequence
from itertools import product
from typing import Final

import numpy as np

from trimtab.planner.classes.node_classes import NodeSignature
from trimtab.planner.classes.scheduling_specs import NodeRequirement, SchedulingSpec
from trimtab.planner.model.values import NodeAffinityTerm
from trimtab.planner.predicates import node_affinity
from trimtab.planner.predicates.static import StaticNodes, StaticPredicate
from trimtab.planner.snapshot.columns import Bool
from trimtab.v1.reason_pb2 import PredicateReason

_NO_NODES: Final[NodeRequirement] = ((), None)


def _is_unusable(spec: SchedulingSpec) -> bool:
    return any(claim.problem for claim in spec.claims)


def _refused(values: Sequence[bool], nodes: StaticNodes) -> Bool:
    return np.repeat(np.array(values, np.bool_)[:, None], len(nodes.classes.taint_set), axis=1)


def _nodes_of_claims(spec: SchedulingSpec) -> NodeRequirement:
    """Return the nodes that reach the devices of all claims."""
    selectors = [claim.nodes for claim in spec.claims if claim.nodes is not None]
    if not selectors:
        return _NO_NODES
    terms = tuple(
        NodeAffinityTerm(
            tuple([one for term in some for one in term.match_expressions]),
            tuple([one for term in some for one in term.match_fields]),
        )
        for some in product(*selectors)
    )
    return (), terms


def _out_of_reach(requirements: Sequence[NodeRequirement], nodes: StaticNodes) -> Bool:
    return node_affinity.excluded(requirements, nodes.classes.rows, nodes.limits)


def _note_labels(requirements: Sequence[NodeRequirement], signature: NodeSignature) -> None:
    node_affinity.note_labels(requirements, signature)


CLAIMS_USABLE: Final = StaticPredicate(PredicateReason.CLAIM_UNUSABLE, _refused, of_spec=_is_unusable, never=False)
CLAIMS_REACHED: Final = StaticPredicate(
    PredicateReason.CLAIM_ALLOCATED_ELSEWHERE,
    _out_of_reach,
    of_spec=_nodes_of_claims,
    never=_NO_NODES,
    note_labels=_note_labels,
)
