"""ApplyPodCosts: write the pod deletion costs that the planner has decided.

Decides which pods are written by one call: those whose cost differs, up to a limit; groups in the order of the request
and the pods of each by name, then removals. Nothing is stored: the next call reads the pods again. A pod that cannot be
written does not stop the others. Durations in seconds.
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
# Most failures that are listed one by one.
MAX_FAILURES = 100
# The first matching type decides.
REASONS: tuple[tuple[type[ClusterError], int], ...] = (
    (NotFoundError, Reason.POD_NOT_FOUND),
    (ForbiddenError, Reason.FORBIDDEN),
    (RefusedError, Reason.REFUSED),
    (ClusterError, Reason.NOT_WRITTEN),
)


class CostRequest(NamedTuple):
    """The cost a pod "namespace/name" should have; None = none."""

    pod: str
    cost: int | None


def apply_pod_costs(
    cluster: Cluster, requests: Sequence[CostRequest], limits: PodCostLimits
) -> actuator_pb2.ApplyPodCostsResponse:
    """Write what differs, within the bound. Raises `ClusterError` when the pods cannot be read."""
    until = time.monotonic() + limits.max_s
    found = cluster.pod_costs([request.pod for request in requests])
    response = actuator_pb2.ApplyPodCostsResponse()
    writes = 0
    for request in requests:
        pod = found.get(request.pod)
        if pod is None:
            _count_missing(response, request)
        elif _is_met(pod, request):
            response.unchanged_count += 1
        elif writes >= limits.max_count or time.monotonic() > until:
            response.left_count += 1
        else:
            writes += 1
            _write(cluster, pod, request, response)
    if response.failed_count:
        log.warning("pod costs not written", pods=response.failed_count, such_as=response.failures[0].detail)
    return response


def _is_met(pod: PodCost, request: CostRequest) -> bool:
    """Return whether a pod already has its cost; no cost equals 0."""
    if pod.cost is None:
        return not request.cost
    return request.cost is not None and pod.cost == str(request.cost)


def _count_missing(response: actuator_pb2.ApplyPodCostsResponse, request: CostRequest) -> None:
    """Count a pod that does not exist: it has no cost to remove."""
    if request.cost is None:
        response.unchanged_count += 1
    else:
        _fail(response, request.pod, Reason.POD_NOT_FOUND, "the cluster has no such pod")


def _write(cluster: Cluster, pod: PodCost, request: CostRequest, response: actuator_pb2.ApplyPodCostsResponse) -> None:
    try:
        cluster.write_pod_cost(pod, None if request.cost is None else str(request.cost))
    except ClusterError as error:
        reason = next(reason for kind, reason in REASONS if isinstance(error, kind))
        _fail(response, request.pod, reason, str(error) or type(error).__name__)
    else:
        response.written_count += request.cost is not None
        response.removed_count += request.cost is None


def _fail(response: actuator_pb2.ApplyPodCostsResponse, pod: str, reason: int, detail: str) -> None:
    response.failed_count += 1
    if len(response.failures) < MAX_FAILURES:
        response.failures.add(pod=pod, reason=reason, detail=detail)
