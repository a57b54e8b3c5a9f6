"""Taints that a new node of a group does not keep: those of node conditions, autoscalers, start-up and status.

Source: Cluster Autoscaler, utils/taints (NodeConditionTaints, SanitizeTaints, TaintConfig), utils/kubernetes
(GetReadinessState, taints of nodes that are not ready).
"""

from collections.abc import Iterable
from typing import Final

from trimtab.common.kubernetes.signals import cluster_autoscaler, karpenter, well_known
from trimtab.common.kubernetes.signals.table import marks_leaving
from trimtab.planner.model.settings import Readiness, TaintNames
from trimtab.planner.model.values import TaintSpec

UNTIL_READY: Final = frozenset(
    row.key
    for row in (
        well_known.NOT_READY,
        well_known.NETWORK_UNAVAILABLE,
        well_known.UNINITIALIZED,
        cluster_autoscaler.CLUSTER_API_UNINITIALIZED,
        karpenter.UNREGISTERED,
    )
)
"""A new node has these; controllers remove them shortly after it has become ready."""
_TRANSIENT: Final = UNTIL_READY | {
    row.key
    for row in (
        cluster_autoscaler.TO_BE_DELETED,
        cluster_autoscaler.DELETION_CANDIDATE,
        well_known.UNREACHABLE,
        well_known.UNSCHEDULABLE,
        well_known.MEMORY_PRESSURE,
        well_known.DISK_PRESSURE,
        well_known.PID_PRESSURE,
        well_known.OUT_OF_SERVICE,
        well_known.IMPAIRED_VOLUMES,
    )
}
_STARTUP_PREFIXES: Final = (cluster_autoscaler.IGNORE_TAINT.key, cluster_autoscaler.STARTUP_TAINT.key)
_STATUS_PREFIX: Final = cluster_autoscaler.STATUS_TAINT.key


def is_startup_taint(key: str, startup: TaintNames) -> bool:
    """Return whether a taint is removed once its node has started. startup : additional ones named in the settings."""
    return key in UNTIL_READY or key.startswith(_STARTUP_PREFIXES) or startup.match(key)


def marks_not_ready(key: str, rules: Readiness) -> bool:
    """Return whether a node with this taint is not ready."""
    return is_startup_taint(key, rules.startup) or key.startswith(_STATUS_PREFIX) or rules.status.match(key)


def lasting(taints: Iterable[TaintSpec], rules: Readiness) -> tuple[TaintSpec, ...]:
    """Return the taints that a new node keeps, in their order."""
    return tuple(taint for taint in taints if not _is_transient(taint.key, rules))


def _is_transient(key: str, rules: Readiness) -> bool:
    return key in _TRANSIENT or marks_leaving(key) or marks_not_ready(key, rules)
