"""The one ordered list of predicates, in the order in which kube-scheduler runs its default Filter plugins.

Contract: nothing is decided here. Bit i of the class matrix `blocked[S, K]` is that of static predicate i; counters
decide the others. Source: kube-scheduler v1.37.2, apis/config/v1/default_plugins.go.
"""

from typing import Final

from trimtab.planner.classes.scheduling_specs import PodsLookedAt, SchedulingSpec
from trimtab.planner.predicates.claims import CLAIMS_REACHED, CLAIMS_USABLE
from trimtab.planner.predicates.counter_kind import CountedPredicate, CounterKind
from trimtab.planner.predicates.csi_drivers import CSI_DRIVER
from trimtab.planner.predicates.disks import DISKS
from trimtab.planner.predicates.expendable_pods import EXPENDABLE_PODS
from trimtab.planner.predicates.host_ports import HOST_PORTS
from trimtab.planner.predicates.inter_pod_affinity import INTER_POD_AFFINITY
from trimtab.planner.predicates.node_affinity import NODE_AFFINITY
from trimtab.planner.predicates.node_declared_features import NODE_DECLARED_FEATURES
from trimtab.planner.predicates.node_unschedulable import NODE_UNSCHEDULABLE
from trimtab.planner.predicates.pod_volumes import ATTACH_LIMITS, EXCLUSIVE_CLAIMS
from trimtab.planner.predicates.resources import DEVICES_FIT, RESOURCES_FIT
from trimtab.planner.predicates.shared_claims import SHARED_CLAIMS
from trimtab.planner.predicates.static import BITS, StaticPredicate
from trimtab.planner.predicates.taints import TAINT_TOLERATION
from trimtab.planner.predicates.topology_spread import TOPOLOGY_SPREAD
from trimtab.planner.predicates.unschedulable_pods import SCHEDULING_GATED, UNSUPPORTED_CONSTRAINT
from trimtab.planner.predicates.volumes import VOLUME_BINDING, VOLUME_ZONE
from trimtab.reason_texts import PREDICATE_TEXTS
from trimtab.v1.reason_pb2 import PredicateReason

PREDICATES: Final[tuple[StaticPredicate | CountedPredicate, ...]] = (
    NODE_UNSCHEDULABLE,
    CountedPredicate((PredicateReason.NODE_NAME_MISMATCH,)),
    TAINT_TOLERATION,
    NODE_AFFINITY,
    HOST_PORTS,
    RESOURCES_FIT,
    EXPENDABLE_PODS,
    DISKS,
    EXCLUSIVE_CLAIMS,
    CSI_DRIVER,
    ATTACH_LIMITS,
    VOLUME_BINDING,
    VOLUME_ZONE,
    TOPOLOGY_SPREAD,
    INTER_POD_AFFINITY,
    CLAIMS_USABLE,
    CLAIMS_REACHED,
    SHARED_CLAIMS,
    DEVICES_FIT,
    NODE_DECLARED_FEATURES,
    UNSUPPORTED_CONSTRAINT,
    SCHEDULING_GATED,
)
"""NodeName never fails here: a pod that names a node is on that node. A pod pinned to a node fails NodeAffinity.
RESOURCES_FIT has no kind of counters, because free amounts are more than a predicate: packing, bounds and linear
programmes compute with them, and every check of a node begins with them (`fits_locally` of the simulation's kernels).
"""
STATIC: Final = tuple(predicate for predicate in PREDICATES if isinstance(predicate, StaticPredicate))
"""The static predicates. Bit i of `blocked` is that of the i-th."""
COUNTED: Final = tuple(predicate for predicate in PREDICATES if isinstance(predicate, CountedPredicate))
"""The counted predicates."""
KINDS: Final[tuple[CounterKind, ...]] = tuple(
    sorted(
        {predicate.kind for predicate in COUNTED if predicate.kind is not None},
        key=lambda kind: (kind.cost, kind.field),
    )
)
"""The kinds of counters, in the order in which they are checked: cheapest first."""
assert sum(kind.domains is not None for kind in KINDS) <= 1, "the search by domains knows constraints of one kind"
REASONS: Final = tuple(dict.fromkeys(reason for predicate in PREDICATES for reason in predicate.reasons))
"""Each `PredicateReason.Code`, in upstream's order."""
PLUGINS: Final = tuple(
    dict.fromkeys(PREDICATE_TEXTS[reason].plugin for reason in REASONS if PREDICATE_TEXTS[reason].plugin)
)
"""The scheduler's Filter plugins, in its order."""
assert len(STATIC) <= 8 * BITS().itemsize, "`blocked` needs wider items: trimtab.planner.predicates.static.Bits"


def reasons_of(mask: int) -> list[int]:
    """Return the reasons, in upstream's order, whose bits `1 << reason` are set in a mask."""
    return [reason for reason in REASONS if mask >> reason & 1]


def looks_at(spec: SchedulingSpec) -> PodsLookedAt | None:
    """Return what the predicates read of other pods for pods of a spec, None = nothing."""
    together: PodsLookedAt | None = None
    for predicate in COUNTED:
        if predicate.looks_at is not None and predicate.concerns is not None and predicate.concerns(spec):
            together = predicate.looks_at(spec) if together is None else together.and_of(predicate.looks_at(spec))
    return together
