"""Pods that no node admits: they have scheduling gates, or a constraint that the planner does not support.

Source: plugin schedulinggates, v1.37.2; own.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

import numpy as np

from trimtab.planner.classes.scheduling_specs import SpecPart
from trimtab.planner.predicates.static import StaticNodes, StaticPredicate
from trimtab.planner.snapshot.columns import Bool
from trimtab.v1.reason_pb2 import PredicateReason

_UNSUPPORTED: Final[SpecPart] = attrgetter("unsupported")


def excluded_everywhere(values: Sequence[object], nodes: StaticNodes) -> Bool:
    """Return all nodes for every value that is not empty : bool[values, K]."""
    refused = np.array([bool(value) for value in values], np.bool_)
    return np.repeat(refused[:, None], len(nodes.classes.taint_set), axis=1)


UNSUPPORTED_CONSTRAINT: Final = StaticPredicate(
    PredicateReason.UNSUPPORTED_CONSTRAINT, excluded_everywhere, of_spec=_UNSUPPORTED
)
SCHEDULING_GATED: Final = StaticPredicate(
    PredicateReason.SCHEDULING_GATED, excluded_everywhere, of_class=attrgetter("gated")
)
