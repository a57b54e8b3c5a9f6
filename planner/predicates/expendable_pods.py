"""Room beside expendable pods: in plans these give way to others, except to pods that never preempt.

Contract: a pod that never preempts is refused by a node with expendable pods on which it would not fit beside all pods
that run there now. Others that are placed there in a plan are not counted: next time, they run. Amounts : int64.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

import numpy as np

from trimtab.planner.classes.scheduling_specs import SchedulingSpec
from trimtab.planner.predicates.resources import PODS, is_counted
from trimtab.planner.predicates.static import StaticNodes, StaticPredicate
from trimtab.planner.snapshot.columns import Bool
from trimtab.v1.reason_pb2 import PredicateReason

Amounts = tuple[tuple[str, int], ...]


def _asked(spec: SchedulingSpec) -> Amounts | None:
    """Return what a pod asks for that never preempts, None = it preempts."""
    if not spec.never_preempts:
        return None
    return (*((name, amount) for name, amount in spec.requests if amount > 0 and is_counted(name)), (PODS, 1))


def _excluded(values: Sequence[Amounts | None], nodes: StaticNodes) -> Bool:
    """Return which node classes have too little room : bool[values, K]."""
    rooms = [
        None if node_traits.beside_expendable is None else dict(node_traits.beside_expendable)
        for node_traits in nodes.classes.traits
    ]
    lacking = [
        [requests is not None and room is not None and any(room.get(name, 0) < amount for name, amount in requests)
         for room in rooms]
        for requests in values
    ]  # fmt: skip
    return np.array(lacking, np.bool_).reshape(len(values), len(rooms))


EXPENDABLE_PODS: Final = StaticPredicate(
    PredicateReason.INSUFFICIENT_RESOURCES,
    _excluded,
    of_spec=_asked,
    of_traits=attrgetter("beside_expendable"),
)
