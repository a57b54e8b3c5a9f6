"""DaemonSet pods told to end before their node goes, so that they can finish what they have begun.

Decides when each is asked: once granted it is not asked again, nor is the pod its DaemonSet puts in its place; a
refusal is asked about again later, as long as the node is worked on. Best effort: nothing waits for them, no failure
stops anything, and nothing is written down (they do not move, so no planner needs to know; after a restart a pod
that has come anew may be asked once more). Times are Unix milliseconds, durations seconds.
Source: Cluster Autoscaler, actuation/drain: "bestEffortEviction".
"""

from collections.abc import Sequence
from typing import Protocol

import structlog

from actuator.drain.pods import EvictionOrder
from actuator.kube.cluster import Cluster, ClusterError, NotFoundError, PodView, TooManyRequestsError

log = structlog.get_logger("drain")


class EvictionCounter(Protocol):
    """Learns the result of each eviction request: granted, budget, gone, error."""

    def __call__(self, result: str, daemon: bool = False) -> None:
        """Count one."""


class DaemonEvictor:
    """The DaemonSet pods of one node."""

    def __init__(self, cluster: Cluster, order: EvictionOrder, retry_s: float, count: EvictionCounter) -> None:
        """`retry_s` is the pause after a refusal without hint."""
        self._cluster = cluster
        self._order = order
        self._retry_s = retry_s
        self._count = count
        self._done: set[str] = set()
        self._retry_ms: dict[str, int] = {}

    def evict(self, pods: Sequence[PodView], now_ms: int) -> None:
        """Ask once for each pod that was not granted before and whose pause is over."""
        for pod in pods:
            # By owner: the pod that takes the place of one that has ended is left alone.
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
            self._retry_ms[key] = now_ms + int((self._retry_s if hint_s is None else hint_s) * 1000)
            self._count("budget" if refused else "error", daemon=True)
            log.info("DaemonSet pod stays for now", node=pod.node, pod=pod.key, detail=str(error))
        else:
            self._done.add(key)
            self._count("granted", daemon=True)
