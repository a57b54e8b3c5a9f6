"""Which pods of a node a drain has to move, which others it evicts, and in which order; the eviction of DaemonSet pods.

Decides by the pod alone: mirror and DaemonSet pods stay, terminal and expendable pods need not move, and the drain does
not wait for terminating pods that are overdue. The planner counts the same pods (`NodeAssumption`). Times are Unix
milliseconds, durations seconds. Source: Cluster Autoscaler, simulator/drainability/rules: mirror, longterminating,
daemonset, terminal; actuation/drain and utils/daemonset for DaemonSet pods; actuation/priority for the groups.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

import structlog

from trimtab.actuator.kube.cluster import ClusterApi, ClusterError, NotFoundError, PodView, TooManyRequestsError
from trimtab.actuator.settings import PriorityGroup
from trimtab.actuator.tracker.states import PodRef

# How long after its deletion time plus grace period a pod counts as stuck.
LONG_TERMINATING_MS = 30_000
ENDED_PHASES = ("Succeeded", "Failed")

log = structlog.get_logger("drain")
# Longest pause that a server's hint can cause.
LONGEST_HINT_S = 120.0


def pods_to_move(pods: Iterable[PodView], now_ms: int, expendable_below: int) -> list[PodView]:
    """Return the pods that must be gone before the node is deleted, terminating ones included. Keeps the order."""
    return [pod for pod in pods if not stays(pod, now_ms, expendable_below)]


def stays(pod: PodView, now_ms: int, expendable_below: int) -> bool:
    """Return whether a drain ignores a pod. Pods with a priority below `expendable_below` are ignored."""
    if _is_mirror(pod) or _is_daemon(pod):
        return True
    if pod.phase in ENDED_PHASES or pod.priority < expendable_below:
        return True
    return pod.deletion_ms > 0 and pod.deletion_ms + pod.grace_s * 1000 + LONG_TERMINATING_MS < now_ms


def daemons_to_evict(pods: Iterable[PodView], by_default: bool) -> list[PodView]:
    """Return the DaemonSet pods to evict, without terminating ones. A pod's annotation has precedence over
    `by_default`. Keeps the order.
    """
    return [
        pod
        for pod in pods
        if _is_daemon(pod)
        and not _is_mirror(pod)
        and not pod.deletion_ms
        and pod.phase not in ENDED_PHASES
        and (by_default if pod.daemon_eviction is None else pod.daemon_eviction)
    ]


class EvictionOrder:
    """The order by priority: pods of the lowest group are evicted first, the next group when these are gone.

    A pod belongs to the priority group with the highest priority not above its own, or to the lowest one; without
    groups, all are evicted together.
    """

    def __init__(self, groups: Sequence[PriorityGroup], longest_grace_s: int) -> None:
        """Set up; `longest_grace_s` bounds the grace period where there are no groups."""
        self._groups = sorted(groups, key=lambda group: group.priority)
        self._longest_grace_s = longest_grace_s

    def rank(self, pod: PodView) -> int:
        """Return the number of a pod's priority group, 0 = evicted first."""
        ranks = (rank for rank, group in enumerate(self._groups) if group.priority <= pod.priority)
        return max(ranks, default=0)

    def next_group(self, pods: Sequence[PodView]) -> list[PodView]:
        """Return the pods of the first priority group that has any, terminating ones included. Keeps the order."""
        first = min((self.rank(pod) for pod in pods), default=0)
        return [pod for pod in pods if self.rank(pod) == first]

    def grace_s(self, pod: PodView) -> int:
        """Return the grace period of a pod: its own, bounded by its priority group or else by the longest one."""
        longest_s = self._groups[self.rank(pod)].grace_s if self._groups else self._longest_grace_s
        return min(pod.grace_s, longest_s)


def pod_ref(pod: PodView) -> PodRef:
    """Return the part of a pod that the tracker keeps."""
    return PodRef(pod.namespace, pod.name, pod.uid, pod.owner_kind, pod.owner_name, pod.owner_uid)


def _is_mirror(pod: PodView) -> bool:
    return pod.mirror or pod.owner_kind == "Node"


def _is_daemon(pod: PodView) -> bool:
    return pod.daemon or pod.owner_kind == "DaemonSet"


class EvictionCounter(Protocol):
    """Counts the results of eviction requests: granted, budget, gone, error."""

    def __call__(self, result: str, daemon: bool = False) -> None:
        """Count one."""


class DaemonEvictor:
    """The DaemonSet pods of one node."""

    def __init__(self, cluster: ClusterApi, order: EvictionOrder, retry_s: float, count: EvictionCounter) -> None:
        """Set up; `retry_s` is the pause after a refusal without a hint."""
        self._cluster = cluster
        self._order = order
        self._retry_s = retry_s
        self._count = count
        self._done: set[str] = set()
        self._retry_ms: dict[str, int] = {}

    def evict(self, pods: Sequence[PodView], now_ms: int) -> None:
        """Request one eviction for each pod whose pause is over and whose eviction was not granted yet."""
        for pod in pods:
            # By owner: the replacement of an evicted pod is not evicted.
            key = pod.owner_uid if pod.owner_kind == "DaemonSet" else pod.uid
            if key not in self._done and self._retry_ms.get(key, 0) <= now_ms:
                self._ask(pod, key, now_ms)

    def _ask(self, pod: PodView, key: str, now_ms: int) -> None:
        grace_s = self._order.grace_s(pod)
        try:
            self._cluster.evict(pod, None if grace_s == pod.grace_s else grace_s)
        except NotFoundError:
            self._done.add(key)
            self._count("gone", daemon=True)
        except ClusterError as error:
            refused = isinstance(error, TooManyRequestsError)
            hint_s = error.retry_after_s if isinstance(error, TooManyRequestsError) else None
            self._retry_ms[key] = now_ms + int(
                (self._retry_s if hint_s is None else min(hint_s, LONGEST_HINT_S)) * 1000
            )
            self._count("budget" if refused else "error", daemon=True)
            log.info("DaemonSet pod stays for now", node=pod.node, pod=pod.key, detail=str(error))
        else:
            self._done.add(key)
            self._count("granted", daemon=True)
