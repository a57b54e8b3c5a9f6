"""Which pods of a node a drain has to move, and in which order.

Decides by the pod alone: mirror and DaemonSet pods stay, pods that have ended and expendable pods need not go,
pods that should long be gone are not waited for. The planner counts the same ones (`NodeAssumption`). Times are Unix
milliseconds. Source: Cluster Autoscaler, simulator/drainability/rules: mirror, longterminating, daemonset, terminal.
"""

from collections.abc import Iterable, Sequence

from actuator.kube.cluster import PodView
from actuator.settings import PriorityGroup
from actuator.tracker.states import PodRef

# Added to deletion time and grace period before a pod counts as stuck.
LONG_TERMINATING_MS = 30_000


def pods_to_move(pods: Iterable[PodView], now_ms: int, expendable_below: int) -> list[PodView]:
    """The pods that must be gone before the node may go, those that are leaving included. Keeps the order."""
    return [pod for pod in pods if not stays(pod, now_ms, expendable_below)]


def stays(pod: PodView, now_ms: int, expendable_below: int) -> bool:
    """Whether a drain ignores a pod. Pods of lower priority than `expendable_below` are of no account."""
    if pod.mirror or pod.daemon or pod.owner_kind in ("Node", "DaemonSet"):
        return True
    if pod.phase in ("Succeeded", "Failed") or pod.priority < expendable_below:
        return True
    return pod.deletion_ms > 0 and pod.deletion_ms + pod.grace_s * 1000 + LONG_TERMINATING_MS < now_ms


def next_group(pods: Sequence[PodView], groups: Sequence[PriorityGroup]) -> tuple[list[PodView], int | None]:
    """The pods to evict now: the lowest priority group that has any, and its grace period (None = each pod's own).

    A pod belongs to the group with the highest priority not above its own, or to the lowest group.
    """
    if not groups or not pods:
        return list(pods), None
    ranked = sorted(groups, key=lambda group: group.priority)
    ranks = [
        max((rank for rank, group in enumerate(ranked) if group.priority <= pod.priority), default=0) for pod in pods
    ]
    lowest = min(ranks)
    return [pod for pod, rank in zip(pods, ranks, strict=True) if rank == lowest], ranked[lowest].grace_s


def pod_ref(pod: PodView) -> PodRef:
    """What is remembered of a pod."""
    return PodRef(pod.namespace, pod.name, pod.uid, pod.owner_kind, pod.owner_name, pod.owner_uid)
