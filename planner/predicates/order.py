"""The one ordered list of predicates, in the order in which kube-scheduler runs its default Filter plugins.

Contract: nothing is decided here. Bit i of the class matrix `blocked[S, K]` is that of static predicate i; counters
decide the others. Source: kube-scheduler v1.37.2, apis/config/v1/default_plugins.go.
"""

from typing import Final, NamedTuple

from trimtab.planner.predicates.csi_drivers import CSI_DRIVER
from trimtab.planner.predicates.node_affinity import NODE_AFFINITY
from trimtab.planner.predicates.node_declared_features import NODE_DECLARED_FEATURES
from trimtab.planner.predicates.node_unschedulable import NODE_UNSCHEDULABLE
from trimtab.planner.predicates.static import BITS, StaticPredicate
from trimtab.planner.predicates.taints import TAINT_TOLERATION
from trimtab.planner.predicates.unschedulable_pods import SCHEDULING_GATED, UNSUPPORTED_CONSTRAINT
from trimtab.planner.predicates.volumes import VOLUME_BINDING, VOLUME_ZONE
from trimtab.v1.reason_pb2 import PredicateReason


class CountedPredicate(NamedTuple):
    """A predicate that counters decide. `reason` is a `PredicateReason.Code`."""

    plugin: str
    reason: int


PREDICATES: Final[tuple[StaticPredicate | CountedPredicate, ...]] = (
    NODE_UNSCHEDULABLE,
    CountedPredicate("NodeName", PredicateReason.NODE_NAME_MISMATCH),
    TAINT_TOLERATION,
    NODE_AFFINITY,
    CountedPredicate("NodePorts", PredicateReason.HOST_PORT_CONFLICT),
    CountedPredicate("NodeResourcesFit", PredicateReason.TOO_MANY_PODS),
    CountedPredicate("NodeResourcesFit", PredicateReason.INSUFFICIENT_RESOURCES),
    CountedPredicate("VolumeRestrictions", PredicateReason.VOLUME_RESTRICTED),
    CSI_DRIVER,
    CountedPredicate("NodeVolumeLimits", PredicateReason.VOLUME_LIMIT_EXCEEDED),
    VOLUME_BINDING,
    VOLUME_ZONE,
    CountedPredicate("PodTopologySpread", PredicateReason.TOPOLOGY_SPREAD_VIOLATED),
    CountedPredicate("InterPodAffinity", PredicateReason.POD_AFFINITY_NOT_MATCHED),
    CountedPredicate("InterPodAffinity", PredicateReason.POD_ANTI_AFFINITY_VIOLATED),
    CountedPredicate("InterPodAffinity", PredicateReason.EXISTING_POD_ANTI_AFFINITY_VIOLATED),
    NODE_DECLARED_FEATURES,
    UNSUPPORTED_CONSTRAINT,
    SCHEDULING_GATED,
)
"""NodeName never fails here: a pod that names a node is on that node. A pod pinned to a node fails NodeAffinity."""
STATIC: Final = tuple(one for one in PREDICATES if isinstance(one, StaticPredicate))
"""The static predicates. Bit i of `blocked` is that of the i-th."""
assert len(STATIC) <= 8 * BITS().itemsize, "`blocked` needs wider items: trimtab.planner.predicates.static.Bits"


def reasons_of(mask: int) -> list[int]:
    """Return the reasons, in upstream's order, whose bits `1 << reason` are set in a mask."""
    return [p.reason for p in PREDICATES if mask >> p.reason & 1]
