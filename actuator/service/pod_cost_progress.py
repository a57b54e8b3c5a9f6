"""The request of one ApplyPodCosts, and its progress. Decides how many writes one call makes, and which reason is given
for an error of the cluster. Durations in seconds.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trimtab.actuator.kube.cluster import (
    ClusterApi,
    ClusterError,
    CostWrite,
    ForbiddenError,
    ForeignCostError,
    NotFoundError,
    PodCost,
    RefusedError,
)
from trimtab.actuator.service.settings import PodCostLimits
from trimtab.v1 import actuator_pb2, reason_pb2

Reason = reason_pb2.PodCostReason.Code
# Most failures that are listed individually.
MAX_FAILURES = 100
# The first matching type decides.
REASONS: tuple[tuple[type[ClusterError], int], ...] = (
    (NotFoundError, Reason.POD_NOT_FOUND),
    (ForeignCostError, Reason.FOREIGN_COST),
    (ForbiddenError, Reason.FORBIDDEN),
    (RefusedError, Reason.REFUSED),
    (ClusterError, Reason.NOT_WRITTEN),
)


class GroupOrder(NamedTuple):
    """The costs of one group. owner : its controller, "Kind/namespace/name"; costs : by pod "namespace/name", sorted;
    empty = the group is left as it is; after_each_removal : at most one pod goes at a time; waits_for : the group that
    is scaled down before it, "" = none
    """

    owner: str
    costs: Mapping[str, int]
    after_each_removal: bool = False
    waits_for: str = ""


class CostOrders(NamedTuple):
    """The request of an `ApplyPodCosts`. remove : pods that lose their cost; remove_others : so do all that are not
    named; made : when the costs were decided, RFC 3339. groups : owners with the costs of their pods.
    """

    groups: Sequence[GroupOrder]
    remove: Sequence[str] = ()
    remove_others: bool = False
    made: str = ""

    def pods(self) -> list[str]:
        """Return all pods that are named."""
        return [*(pod for group in self.groups for pod in group.costs), *self.remove]


@dataclass
class Progress:
    """Progress of one call: pods written so far, and the end of its time (`until`, monotonic seconds). `cluster` :
    where costs are written; `limits` : of one call; `made` : when the costs were decided, RFC 3339; `response` : what
    the call returns, filled while it runs; `writes` : pods and objects written.
    """

    cluster: ClusterApi
    limits: PodCostLimits
    made: str
    response: actuator_pb2.ApplyPodCostsResponse = field(default_factory=actuator_pb2.ApplyPodCostsResponse)
    writes: int = 0
    until: float = 0.0

    def __post_init__(self) -> None:
        self.until = time.monotonic() + self.limits.max_s

    def may_write(self) -> bool:
        """Return whether the limit of one call allows another write, and count it."""
        if self.writes >= self.limits.max_count or time.monotonic() > self.until:
            return False
        self.writes += 1
        return True

    def fail(self, pod: str, reason: int, detail: str) -> str:
        """Count a pod that could not be written; return the reason, for its group."""
        self.response.failed_count += 1
        if len(self.response.failures) < MAX_FAILURES:
            self.response.failures.add(pod=pod, reason=reason, detail=detail)
        return f"{pod}: {detail}"

    def write(self, pod: PodCost, cost: CostWrite | None, counts: bool = True) -> str:
        """Write or remove a pod's cost; return why it failed, "" = success. `counts` = count it in the response."""
        if not self.may_write():
            self.response.left_count += counts
            return "the limit of one call leaves pods for the next"
        try:
            self.cluster.write_pod_cost(pod, cost)
        except ClusterError as error:
            reason = next(reason for kind, reason in REASONS if isinstance(error, kind))
            detail = str(error) or type(error).__name__
            return self.fail(pod.key, reason, detail) if counts else f"{pod.key}: {detail}"
        self.response.written_count += counts and cost is not None
        self.response.removed_count += counts and cost is None
        return ""


def report_incomplete(progress: Progress, group: GroupOrder, missing: int, detail: str) -> None:
    """Report that a group is not complete."""
    progress.response.incomplete.add(
        owner=group.owner, pod_count=len(group.costs), ranked_count=len(group.costs) - missing, detail=detail
    )
