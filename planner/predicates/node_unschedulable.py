"""NodeUnschedulable: a cordoned node takes only pods that tolerate the taint of cordoned nodes.

Source: plugin nodeunschedulable, v1.37.2.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from trimtab.common.kubernetes.signals import well_known
from trimtab.planner.classes.scheduling_specs import TOLERATIONS
from trimtab.planner.model.values import TaintSpec, TolerationSpec
from trimtab.planner.predicates.static import StaticNodes, StaticPredicate
from trimtab.planner.predicates.taints import any_tolerates
from trimtab.planner.snapshot.columns import Bool
from trimtab.v1.reason_pb2 import PredicateReason
from trimtab.v1.snapshot_pb2 import TaintEffect

_CORDONED: Final = TaintSpec(well_known.UNSCHEDULABLE.key, "", TaintEffect.NO_SCHEDULE)


def _excluded(toleration_sets: Sequence[tuple[TolerationSpec, ...]], nodes: StaticNodes) -> Bool:
    """Return which sets of tolerations keep pods off which node classes : bool[toleration sets, K]."""
    stays_off = np.array([not any_tolerates(tolerations, _CORDONED) for tolerations in toleration_sets], np.bool_)
    return stays_off[:, None] & nodes.classes.unschedulable[None, :]


NODE_UNSCHEDULABLE: Final = StaticPredicate(PredicateReason.NODE_UNSCHEDULABLE, _excluded, of_spec=TOLERATIONS)
