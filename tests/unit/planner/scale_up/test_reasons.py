"""Which of several failed predicates a node group's reason names."""

import numpy as np

from trimtab.planner.new_nodes.progress import first_predicate
from trimtab.v1.reason_pb2 import PredicateReason as Reason


def test_the_predicate_that_the_scheduler_checks_first_is_named() -> None:
    masks = [
        0,
        1 << Reason.INSUFFICIENT_RESOURCES | 1 << Reason.TAINT_NOT_TOLERATED,
        1 << Reason.CSI_DRIVER_MISSING | 1 << Reason.VOLUME_NOT_BINDABLE,
        1 << Reason.NODE_FEATURE_NOT_DECLARED | 1 << Reason.UNSUPPORTED_CONSTRAINT,
    ]
    first = [
        Reason.UNSPECIFIED,
        Reason.TAINT_NOT_TOLERATED,
        Reason.CSI_DRIVER_MISSING,
        Reason.NODE_FEATURE_NOT_DECLARED,
    ]
    assert first_predicate(np.array([masks])).tolist() == [first]
