"""NodeUnschedulable: a cordoned node takes only pods that tolerate the taint of cordoned nodes.

Source: plugin nodeunschedulable, v1.34.3.
"""

import numpy as np

from trimtab.planner.model.values import Taint, Toleration
from trimtab.planner.predicates.taints import any_tolerates
from trimtab.planner.snapshot.columns import Bool
from trimtab.v1.snapshot_pb2 import TaintEffect

CORDONED = Taint("node.kubernetes.io/unschedulable", "", TaintEffect.NO_SCHEDULE)


def excluded(toleration_sets: list[tuple[Toleration, ...]], unschedulable: Bool) -> Bool:
    """Return which sets of tolerations keep pods off which node classes : bool[toleration sets, K]."""
    stays_off = np.array([not any_tolerates(tolerations, CORDONED) for tolerations in toleration_sets], np.bool_)
    return stays_off[:, None] & unschedulable[None, :]
