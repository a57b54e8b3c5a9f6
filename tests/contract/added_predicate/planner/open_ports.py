"""Open ports: pods with host ports run only on nodes with the label `example.com/host-ports`."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from trimtab.planner.classes.node_classes import NodeSignature
from trimtab.planner.classes.scheduling_specs import SchedulingSpec
from trimtab.planner.model.values import LabelRequirement
from trimtab.planner.predicates.static import StaticNodes, StaticPredicate
from trimtab.planner.snapshot.columns import Bool
from trimtab.v1.reason_pb2 import PredicateReason
from trimtab.v1.snapshot_pb2 import LabelOperator

_IS_OPEN: Final = LabelRequirement("example.com/host-ports", LabelOperator.EXISTS, ())


def _has_ports(spec: SchedulingSpec) -> bool:
    return bool(spec.host_ports)


def _excluded(values: Sequence[bool], nodes: StaticNodes) -> Bool:
    """Return the nodes without the label, for pods with ports : bool[values, K]."""
    return np.array(values, np.bool_)[:, None] & ~nodes.classes.rows.has_labels(_IS_OPEN)


def _note_labels(_: Sequence[bool], signature: NodeSignature) -> None:
    signature.labels.requirement(_IS_OPEN)


OPEN_PORTS: Final = StaticPredicate(
    PredicateReason.HOST_PORTS_CLOSED, _excluded, of_spec=_has_ports, note_labels=_note_labels
)
