"""The one ordered list of predicates, in the order in which kube-scheduler runs its default Filter plugins.

Contract: nothing is decided here. A static predicate has a bit in the class matrix `blocked[S, K]`; the others are
decided by counters. Source: kube-scheduler v1.34.3, apis/config/v1/default_plugins.go.
"""

from typing import NamedTuple

from trimtab.v1.reason_pb2 import PredicateReason

NOT_STATIC = -1


class Predicate(NamedTuple):
    """`reason` is a `PredicateReason.Code`; `bit` is its bit in `blocked`, or NOT_STATIC."""

    plugin: str
    reason: int
    bit: int


PREDICATES = (
    Predicate("NodeUnschedulable", PredicateReason.NODE_UNSCHEDULABLE, 0),
    Predicate("NodeName", PredicateReason.NODE_NAME_MISMATCH, NOT_STATIC),
    Predicate("TaintToleration", PredicateReason.TAINT_NOT_TOLERATED, 1),
    Predicate("NodeAffinity", PredicateReason.NODE_AFFINITY_NOT_MATCHED, 2),
    Predicate("NodePorts", PredicateReason.HOST_PORT_CONFLICT, NOT_STATIC),
    Predicate("NodeResourcesFit", PredicateReason.TOO_MANY_PODS, NOT_STATIC),
    Predicate("NodeResourcesFit", PredicateReason.INSUFFICIENT_RESOURCES, NOT_STATIC),
    Predicate("VolumeRestrictions", PredicateReason.VOLUME_RESTRICTED, NOT_STATIC),
    Predicate("NodeVolumeLimits", PredicateReason.VOLUME_LIMIT_EXCEEDED, NOT_STATIC),
    Predicate("VolumeBinding", PredicateReason.VOLUME_NOT_BINDABLE, 3),
    Predicate("VolumeZone", PredicateReason.VOLUME_ZONE_MISMATCH, 4),
    Predicate("PodTopologySpread", PredicateReason.TOPOLOGY_SPREAD_VIOLATED, NOT_STATIC),
    Predicate("InterPodAffinity", PredicateReason.POD_AFFINITY_NOT_MATCHED, NOT_STATIC),
    Predicate("InterPodAffinity", PredicateReason.POD_ANTI_AFFINITY_VIOLATED, NOT_STATIC),
    Predicate("InterPodAffinity", PredicateReason.EXISTING_POD_ANTI_AFFINITY_VIOLATED, NOT_STATIC),
    Predicate("", PredicateReason.UNSUPPORTED_CONSTRAINT, 5),
    Predicate("", PredicateReason.SCHEDULING_GATED, 6),
)
"""NodeName never fails here: a pod that names a node is on that node. A pod pinned to a node fails NodeAffinity."""


def static_bit(reason: int) -> int:
    """Return the mask of a static predicate in `blocked`."""
    return next(1 << p.bit for p in PREDICATES if p.reason == reason and p.bit != NOT_STATIC)


STATIC_REASONS: tuple[int, ...] = tuple(
    p.reason for p in sorted(PREDICATES, key=lambda p: p.bit) if p.bit != NOT_STATIC
)
"""Reason of bit i of `blocked`."""


def reasons_of(mask: int) -> list[int]:
    """Return the reasons, in upstream's order, whose bits `1 << reason` are set in a mask."""
    return [p.reason for p in PREDICATES if mask >> p.reason & 1]
