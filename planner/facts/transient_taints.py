"""Taints that a new node of a group does not keep: those of node conditions, autoscalers, start-up and status.

Source: Cluster Autoscaler, utils/taints (NodeConditionTaints, SanitizeTaints, TaintConfig), utils/kubernetes
(GetReadinessState, taints of nodes that are not ready).
"""

from collections.abc import Iterable
from typing import Final

from trimtab.planner.model.settings import Readiness, TaintNames
from trimtab.planner.model.values import TaintSpec

TO_BE_DELETED_TAINT: Final = "ToBeDeletedByClusterAutoscaler"
_UNTIL_READY: Final = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/network-unavailable",
        "node.cloudprovider.kubernetes.io/uninitialized",
    }
)
"""A new node has these; controllers remove them shortly after it has become ready."""
_TRANSIENT: Final = _UNTIL_READY | {
    TO_BE_DELETED_TAINT,
    "DeletionCandidateOfClusterAutoscaler",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.cloudprovider.kubernetes.io/shutdown",
    "cloud.google.com/impending-node-termination",
    "NodeWithImpairedVolumes",
}
_STARTUP_PREFIXES: Final = (
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
)
_STATUS_PREFIX: Final = "status-taint.cluster-autoscaler.kubernetes.io/"


def is_startup_taint(key: str, startup: TaintNames) -> bool:
    """Return whether a taint is removed once its node has started. startup : additional ones named in the settings."""
    return key in _UNTIL_READY or key.startswith(_STARTUP_PREFIXES) or startup.match(key)


def marks_not_ready(key: str, rules: Readiness) -> bool:
    """Return whether a node with this taint is not ready."""
    return is_startup_taint(key, rules.startup) or key.startswith(_STATUS_PREFIX) or rules.status.match(key)


def lasting(taints: Iterable[TaintSpec], rules: Readiness) -> tuple[TaintSpec, ...]:
    """Return the taints that a new node keeps, in their order."""
    return tuple(taint for taint in taints if taint.key not in _TRANSIENT and not marks_not_ready(taint.key, rules))
