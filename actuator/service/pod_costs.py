"""ApplyPodCosts: the deletion costs of pods are as the planner wants them.

Decides which pods to write this time: those whose cost differs, a bounded number, groups in the order of the request
and the pods of each by name, then the costs to take away. Nothing is remembered: the next call looks again. A pod
that cannot be written keeps no other from it. Durations in seconds.
Source: Kubernetes, "ReplicaSet", pod deletion cost: an int32, absent = 0; frequent updates are to be avoided.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

import structlog
from trimtab.v1 import actuator_pb2, reason_pb2

from actuator.kube.cluster import Cluster, ClusterError, ForbiddenError, NotFoundError, PodCost, RefusedError
from actuator.service.settings import PodCostLimits

log = structlog.get_logger("pod_costs")

Reason = reason_pb2.PodCostReason.Code
# So many failures are told one by one.
MAX_FAILURES = 100
# The first kind an error is of counts.
REASONS: tuple[tuple[type[ClusterError], int], ...] = (
    (NotFoundError, Reason.POD_NOT_FOUND),
    (ForbiddenError, Reason.FORBIDDEN),
    (RefusedError, Reason.REFUSED),
    (ClusterError, Reason.NOT_WRITTEN),
)


class CostWish(NamedTuple):
    """The cost a pod "namespace/name" should have; None = none."""

    pod: str
    cost: int | None


def apply_pod_costs(
    cluster: Cluster, wishes: Sequence[CostWish], limits: PodCostLimits
) -> actuator_pb2.ApplyPodCostsResponse:
    """Write what differs, within the bound. Raises `ClusterError` when the pods cannot be read."""
    until = time.monotonic() + limits.max_s
    found = cluster.pod_costs([wish.pod for wish in wishes])
    response = actuator_pb2.ApplyPodCostsResponse()
    writes = 0
    for wish in wishes:
        pod = found.get(wish.pod)
        if pod is None:
            _count_missing(response, wish)
        elif _is_met(pod, wish):
            response.unchanged_count += 1
        elif writes >= limits.max_count or time.monotonic() > until:
            response.left_count += 1
        else:
            writes += 1
            _write(cluster, pod, wish, response)
    if response.failed_count:
        log.warning("pod costs not written", pods=response.failed_count, such_as=response.failures[0].detail)
    return response


def _is_met(pod: PodCost, wish: CostWish) -> bool:
    """Whether a pod has its cost already; none is as good as 0."""
    if pod.cost is None:
        return not wish.cost
    return wish.cost is not None and pod.cost == str(wish.cost)


def _count_missing(response: actuator_pb2.ApplyPodCostsResponse, wish: CostWish) -> None:
    """A pod that is gone has no cost to take away either."""
    if wish.cost is None:
        response.unchanged_count += 1
    else:
        _fail(response, wish.pod, Reason.POD_NOT_FOUND, "the cluster has no such pod")


def _write(cluster: Cluster, pod: PodCost, wish: CostWish, response: actuator_pb2.ApplyPodCostsResponse) -> None:
    try:
        cluster.write_pod_cost(pod, None if wish.cost is None else str(wish.cost))
    except ClusterError as error:
        reason = next(reason for kind, reason in REASONS if isinstance(error, kind))
        _fail(response, wish.pod, reason, str(error) or type(error).__name__)
    else:
        response.written_count += wish.cost is not None
        response.removed_count += wish.cost is None


def _fail(response: actuator_pb2.ApplyPodCostsResponse, pod: str, reason: int, detail: str) -> None:
    response.failed_count += 1
    if len(response.failures) < MAX_FAILURES:
        response.failures.add(pod=pod, reason=reason, detail=detail)
