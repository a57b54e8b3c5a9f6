"""Which pods of a node a drain has to move, which it asks to go along, and in which order.

Decides by the pod alone: mirror and DaemonSet pods stay, pods that have ended and expendable pods need not go,
pods that should long be gone are not waited for. The planner counts the same ones (`NodeAssumption`). Times are Unix
milliseconds, durations seconds. Source: Cluster Autoscaler, simulator/drainability/rules: mirror, longterminating,
daemonset, terminal; actuation/drain and utils/daemonset for DaemonSet pods; actuation/priority for the groups.
"""

from collections.abc import Iterable, Sequence

from actuator.kube.cluster import PodView
from actuator.settings import PriorityGroup
from actuator.tracker.states import PodRef

# Added to deletion time and grace period before a pod counts as stuck.
LONG_TERMINATING_MS = 30_000
ENDED_PHASES = ("Succeeded", "Failed")


def pods_to_move(pods: Iterable[PodView], now_ms: int, expendable_below: int) -> list[PodView]:
    """The pods that must be gone before the node may go, those that are leaving included. Keeps the order."""
    return [pod for pod in pods if not stays(pod, now_ms, expendable_below)]


def stays(pod: PodView, now_ms: int, expendable_below: int) -> bool:
    """Whether a drain ignores a pod. Pods of lower priority than `expendable_below` are of no account."""
    if _is_mirror(pod) or _is_daemon(pod):
        return True
    if pod.phase in ENDED_PHASES or pod.priority < expendable_below:
        return True
    return pod.deletion_ms > 0 and pod.deletion_ms + pod.grace_s * 1000 + LONG_TERMINATING_MS < now_ms


def daemons_to_evict(pods: Iterable[PodView], by_default: bool) -> list[PodView]:
    """The DaemonSet pods that are told to end, those that are ending left out. A pod's annotation goes before
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
    """The order by priority: pods of low priority go first, and the next ones only when they are gone.

    A pod belongs to the group with the highest priority not above its own, or to the lowest group; without groups all
    go together.
    """

    def __init__(self, groups: Sequence[PriorityGroup], longest_grace_s: int) -> None:
        """`longest_grace_s` bounds the grace period where there are no groups."""
        self._groups = sorted(groups, key=lambda group: group.priority)
        self._longest_grace_s = longest_grace_s

    def rank(self, pod: PodView) -> int:
        """Number of a pod's group, 0 = goes first."""
        ranks = (rank for rank, group in enumerate(self._groups) if group.priority <= pod.priority)
        return max(ranks, default=0)

    def next_group(self, pods: Sequence[PodView]) -> list[PodView]:
        """The pods to evict now, those that are leaving included: the first group that has any. Keeps the order."""
        first = min((self.rank(pod) for pod in pods), default=0)
        return [pod for pod in pods if self.rank(pod) == first]

    def grace_s(self, pod: PodView) -> int:
        """Grace period a pod is given: its own, as far as its group (or the longest one) allows."""
        longest_s = self._groups[self.rank(pod)].grace_s if self._groups else self._longest_grace_s
        return min(pod.grace_s, longest_s)


def pod_ref(pod: PodView) -> PodRef:
    """What is remembered of a pod."""
    return PodRef(pod.namespace, pod.name, pod.uid, pod.owner_kind, pod.owner_name, pod.owner_uid)


def _is_mirror(pod: PodView) -> bool:
    return pod.mirror or pod.owner_kind == "Node"


def _is_daemon(pod: PodView) -> bool:
    return pod.daemon or pod.owner_kind == "DaemonSet"
