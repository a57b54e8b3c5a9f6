"""NodeDeclaredFeatures: a node must declare the features that a pod needs.

Contract: if no node of the snapshot and no template of its node groups declares any feature, none is required; which
decisions are requested does not matter. Nodes declare features, and the scheduler looks at them, since Kubernetes 1.36;
a kubelet of 1.36 declares at least one by default, and none is newer than the scheduler. In a cluster whose nodes and
templates are all older, the scheduler does not look either, unless it alone is newer: then a pod counts as fitting that
the scheduler keeps waiting until a node is upgraded. Source: plugin nodedeclaredfeatures, v1.37.2.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

import numpy as np

from trimtab.planner.predicates.static import StaticNodes, StaticPredicate
from trimtab.planner.snapshot.columns import Bool
from trimtab.v1.reason_pb2 import PredicateReason


def _excluded(values: Sequence[tuple[str, ...]], nodes: StaticNodes) -> Bool:
    """Return which node classes lack one of the features : bool[values, K]."""
    declared = [frozenset(traits.declared_features) for traits in nodes.classes.traits]
    if not any(declared) and not any(traits.declared_features for traits in nodes.classes.template_traits):
        return np.zeros((len(values), len(declared)), np.bool_)
    lacking = [[not features.issuperset(needed) for features in declared] for needed in values]
    return np.array(lacking, np.bool_).reshape(len(values), len(declared))


NODE_DECLARED_FEATURES: Final = StaticPredicate(
    PredicateReason.NODE_FEATURE_NOT_DECLARED,
    _excluded,
    of_spec=attrgetter("node_features"),
    of_traits=attrgetter("declared_features"),
)
