"""Which pods of a node a drain has to move, which others it evicts, and in which order.

Decides by the pod alone: mirror and DaemonSet pods stay, terminal and expendable pods need not move, and the drain does
not wait for terminating pods that are overdue. The planner counts the same pods (`NodeAssumption`). Times are Unix
milliseconds, durations seconds. Source: Cluster Autoscaler, simulator/drainability/rules: mirror, longterminating,
daemonset, terminal; actuation/drain and utils/daemonset for DaemonSet pods; actuation/priority for the groups.
"""

from collections.abc import Iterable, Sequence

from trimtab.actuator.kube.cluster import PodView
from trimtab.actuator.settings import PriorityGroup
from trimtab.actuator.tracker.states import PodRef

# How long after its deletion time plus grace period a pod counts as stuck.
LONG_TERMINATING_MS = 30_000
ENDED_PHASES = ("Succeeded", "Failed")


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
