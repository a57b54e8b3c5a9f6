"""Eviction of DaemonSet pods before their node is deleted, which gives them time to finish their work.

Decides when each eviction is requested. A granted one is not requested again, nor for the pod that replaces the evicted
one; a refused one is retried while the node is being worked on. Best effort: nothing waits for these pods, no error
stops anything, and nothing is recorded (the pods do not move, and no planner needs them; after a restart a new pod may
be evicted again). Times are milliseconds of the steady clock, durations seconds.
Source: Cluster Autoscaler, actuation/drain: "bestEffortEviction".
"""

from collections.abc import Sequence
from typing import Protocol

import structlog

from trimtab.actuator.drain.pods import EvictionOrder
from trimtab.actuator.kube.cluster import ClusterApi, ClusterError, NotFoundError, PodView, TooManyRequestsError

log = structlog.get_logger("drain")

# Longest pause that a server's hint can cause.
LONGEST_HINT_S = 120.0


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
