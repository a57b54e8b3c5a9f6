"""NodeAffinity: `nodeSelector` and required node affinity.

Source: plugin nodeaffinity, v1.37.2. The evaluation is in `trimtab.planner.classes.node_classes`.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from trimtab.planner.classes.node_classes import NodeRows, NodeSignature, note_requirement
from trimtab.planner.classes.scheduling_specs import NODE_REQUIREMENT, NodeRequirement
from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.predicates.static import StaticNodes, StaticPredicate
from trimtab.planner.snapshot.columns import Bool
from trimtab.v1.reason_pb2 import PredicateReason

NO_REQUIREMENT: Final[NodeRequirement] = ((), None)


def excluded(requirements: Sequence[NodeRequirement], rows: NodeRows, limits: RequestLimits = UNLIMITED) -> Bool:
    """Return which node classes each requirement excludes : bool[requirements, K]."""
    limits.reserve(2 * len(requirements) * rows.count, "node requirements times node classes")
    out = np.zeros((len(requirements), rows.count), np.bool_)
    for at, requirement in enumerate(requirements):
        limits.check()
        if requirement != NO_REQUIREMENT:
            out[at] = ~rows.meet(requirement)
    return out


def note_labels(requirements: Sequence[NodeRequirement], signature: NodeSignature) -> None:
    """Note the labels and names of nodes that requirements use."""
    for requirement in requirements:
        note_requirement(requirement, signature.labels, signature.names)


def excluded_nodes(requirements: Sequence[NodeRequirement], nodes: StaticNodes) -> Bool:
    """Return the same of a simulation's node classes."""
    return excluded(requirements, nodes.classes.rows, nodes.limits)


NODE_AFFINITY: Final = StaticPredicate(
    PredicateReason.NODE_AFFINITY_NOT_MATCHED,
    excluded_nodes,
    of_spec=NODE_REQUIREMENT,
    note_labels=note_labels,
)
"""The node that a pod is pinned to is no part of its class: kernels check it."""
