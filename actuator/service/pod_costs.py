"""ApplyPodCosts: write the pod deletion costs that the planner has decided.

Decides which pods one call writes: those whose annotations differ, up to a limit; groups in the order of the request,
within each group first the pods that are to be removed last; then removals of costs. Costs of other clients stay.
Nothing is stored: the next call reads the pods again and completes an interrupted one. A pod that cannot be written
does not stop the others, but makes its group incomplete. If more than one pod of a group changes, the first one written
is marked as unfinished until all are written, so an interrupted call leaves no group that only looks complete.
Replacing one pod takes one write. Durations in seconds.
Source: Kubernetes, "ReplicaSet", pod deletion cost: an int32, absent = 0; frequent updates are to be avoided.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

import structlog

from trimtab.actuator.kube.cluster import (
    ClusterApi,
    ClusterError,
    CostWrite,
    ForbiddenError,
    ForeignCostError,
    GroupCost,
    GroupCostStatus,
    KnownGroupCost,
    NotFoundError,
    NotServedError,
    PodCost,
    RefusedError,
)
from trimtab.actuator.service.settings import WriteLimits
from trimtab.v1 import actuator_pb2, reason_pb2

log = structlog.get_logger("pod_costs")

Reason = reason_pb2.PodCostReason.Code
MOST_NAME_BYTES = 253
SHRINKS = "pods of the plan are gone: the group shrinks faster than it is ranked"
# How long the status of a PodGroupCost is left unconfirmed while nothing changes, seconds: readers ignore old ones.
CONFIRM_S = 60.0
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
    """The costs of one group."""

    owner: str  # its controller, "Kind/namespace/name"
    costs: Mapping[str, int]  # by pod "namespace/name", sorted; empty = the group is left as it is
    after_each_removal: bool = False  # at most one pod goes at a time
    waits_for: str = ""  # the group that is scaled down before it, "" = none


class CostOrders(NamedTuple):
    """The request of an `ApplyPodCosts`."""

    groups: Sequence[GroupOrder]
    remove: Sequence[str] = ()  # pods that lose their cost
    remove_others: bool = False  # so do all pods that are not named
    made: str = ""  # when the costs were decided, RFC 3339

    def pods(self) -> list[str]:
        """Return all pods that are named."""
        return [*(pod for group in self.groups for pod in group.costs), *self.remove]


class Progress:
    """Progress of one call."""

    def __init__(self, cluster: ClusterApi, limits: WriteLimits, made: str) -> None:
        """Begin; `made` : when the costs were decided, RFC 3339."""
        self.cluster, self.made = cluster, made
        # What the call returns, filled while it runs.
        self.response = actuator_pb2.ApplyPodCostsResponse()
        # Whether the limit of one call allows another write, of a pod or an object, which is counted.
        self.may_write = limits.begin()

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
            return "one call's limit is reached; the next call does the other pods"
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


def apply_pod_costs(cluster: ClusterApi, orders: CostOrders, limits: WriteLimits) -> actuator_pb2.ApplyPodCostsResponse:
    """Write the costs that differ, within the limit of one call. Raises `ClusterError` if the pods cannot be read."""
    progress = Progress(cluster, limits, orders.made)
    present = cluster.pod_costs(orders.pods())
    objects = GroupObjects(progress, orders)
    for group in orders.groups:
        if group.after_each_removal:
            objects.write(group, present)
        elif group.costs:
            _write_group(progress, group, present)
    for pod in orders.remove:
        _remove(progress, present.get(pod))
    objects.remove_others()
    if orders.remove_others:
        owners = {group.owner for group in orders.groups}
        for own in cluster.own_pod_costs():
            if own.owner not in owners and own.key not in present:
                _remove(progress, own)
    response = progress.response
    if response.failed_count:
        log.warning("pod costs not written", pods=response.failed_count, such_as=response.failures[0].detail)
    return response


def _write_group(progress: Progress, group: GroupOrder, present: Mapping[str, PodCost]) -> None:
    """Write the costs of a group as annotations."""
    wanted = {key: CostWrite(cost, progress.made) for key, cost in group.costs.items()}
    problems = [problem for key in wanted if (problem := _why_not(progress, key, present.get(key)))]
    pods = [pod for key in wanted if (pod := present.get(key)) is not None and not pod.is_foreign]
    # The marked pod should not be the next to be removed: the mark would vanish with it.
    changed = sorted((pod for pod in pods if not _has(pod, wanted[pod.key])), key=lambda pod: -wanted[pod.key].cost)
    progress.response.unchanged_count += len(pods) - len(changed)
    marked = [pod for pod in pods if pod.unfinished]
    failed = []
    for place, pod in enumerate(changed):
        mark = pod.unfinished or (not marked and place < len(changed) - 1)
        problem = progress.write(pod, wanted[pod.key]._replace(unfinished=mark))
        if problem:
            failed.append(problem)
        elif mark and not pod.unfinished:
            marked.append(pod)
    if not failed:
        failed = [problem for pod in marked if (problem := progress.write(pod, wanted[pod.key], counts=False))]
    if problems or failed:
        report_incomplete(progress, group, len(problems) + len(failed), (problems + failed)[0])


def _why_not(progress: Progress, key: str, pod: PodCost | None) -> str:
    """Return why a pod gets no cost, "" = it gets one."""
    if pod is None:
        detail = "the cluster has no such pod: the group shrinks faster than it is ranked"
        return progress.fail(key, Reason.POD_NOT_FOUND, detail)
    if pod.is_foreign:
        shown = pod.rank if pod.cost is None else pod.cost
        return progress.fail(key, Reason.FOREIGN_COST, f"another client has set the cost {str(shown)[:40]!r}")
    return ""


def _has(pod: PodCost, cost: CostWrite) -> bool:
    return pod.cost == str(cost.cost) and pod.rank == str(cost.rank)


def _remove(progress: Progress, pod: PodCost | None) -> None:
    """Remove the cost of a pod if it is ours; a pod that is gone has none."""
    if pod is None or pod.made is None:
        progress.response.unchanged_count += 1
    else:
        progress.write(pod, None)


class GroupObjects:
    """PodGroupCost objects of one call: the costs of groups that have to be ranked again after each removal. All costs
    of such a group change together, and its status names their generation, so that a controller recognizes costs that
    are not complete yet. The status is written last: an interrupted call leaves a generation without status, which
    readers do not use. Source: Kubernetes enhancement proposal 1888, phase 2B.
    """

    def __init__(self, progress: Progress, orders: CostOrders) -> None:
        self._progress, self._orders = progress, orders
        self._used: set[tuple[str, str]] = set()

    @cached_property
    def _known(self) -> Mapping[tuple[str, str], KnownGroupCost]:
        """The objects that exist, by namespace and name."""
        return {(known.cost.namespace, known.cost.name): known for known in self._progress.cluster.group_costs()}

    def write(self, group: GroupOrder, present: Mapping[str, PodCost]) -> None:
        """Write the costs of a group, and its status."""
        cost = _group_cost(group, self._progress.made)
        self._used.add((cost.namespace, cost.name))
        if not group.costs:
            return
        there = [pod for key in group.costs if (pod := present.get(key)) is not None]
        # Annotations of an earlier strategy would be read in addition to the object.
        problems = [problem for pod in there if pod.made is not None and (problem := self._progress.write(pod, None))]
        try:
            problem = self._write(cost, len(there))
        except NotServedError as error:
            problem = f"the cluster has no kind PodGroupCost: apply the manifest that defines it ({error})"
        except ClusterError as error:
            problem = f"{cost.namespace}/{cost.name}: {error}"
        self._count(group, problem)
        if len(there) < len(group.costs):
            problems.append(SHRINKS)
        if problem or problems:
            missing = len(group.costs) if problem else len(group.costs) - len(there)
            report_incomplete(self._progress, group, missing, problem or problems[0])

    def remove_others(self) -> None:
        """Remove the objects of owners that no longer have such costs; if the kind is unknown, there are none."""
        if not self._orders.remove_others:
            return
        try:
            known = self._known
        except NotServedError:
            return
        for namespace, name in sorted(known.keys() - self._used):
            if self._progress.may_write():
                self._progress.cluster.delete_group_cost(namespace, name)
                self._progress.response.objects_removed_count += 1

    def _count(self, group: GroupOrder, problem: str) -> None:
        """Count the pods of a group by the result for its object."""
        response, pods = self._progress.response, len(group.costs)
        if problem:
            for pod in group.costs:
                self._progress.fail(pod, Reason.NOT_WRITTEN, problem)
        elif self._written:
            response.written_count += pods
            response.objects_written_count += 1
        else:
            response.unchanged_count += pods

    def _write(self, cost: GroupCost, observed: int) -> str:
        """Write what differs; return why it failed, "" = success."""
        self._written = False
        if len(cost.name.encode()) > MOST_NAME_BYTES:
            return f"the name {cost.name[:40]}… of its PodGroupCost is too long"
        known = self._known.get((cost.namespace, cost.name))
        generation = known.generation if known else 0
        is_new = known is None or known.cost._replace(made="") != cost._replace(made="")
        gone = len(cost.costs) - observed
        status = GroupCostStatus(
            observed_pods=observed,
            ranked_pods=observed,
            complete=not gone,
            message=f"{gone} {SHRINKS}" if gone else "",
            made=cost.made,
        )
        if not is_new and known is not None and not self._is_due(known, status):
            return ""
        if not self._progress.may_write():
            return "one call's limit is reached; the next call does it"
        if is_new:
            generation = self._progress.cluster.write_group_cost(cost)
        self._progress.cluster.write_group_cost_status(cost, generation, status)
        self._written = is_new
        return ""

    def _is_due(self, known: KnownGroupCost, status: GroupCostStatus) -> bool:
        """Return whether the status differs, or is so old that readers might soon ignore it."""
        if known.status is None or known.status._replace(made="") != status._replace(made=""):
            return True
        try:
            age = datetime.fromisoformat(status.made) - datetime.fromisoformat(known.status.made)
        except ValueError:
            return True
        return abs(age.total_seconds()) >= CONFIRM_S


def _group_cost(group: GroupOrder, made: str) -> GroupCost:
    kind, namespace, name = group.owner.split("/", 2)
    ranks = {pod.partition("/")[2]: min(-cost, (1 << 31) - 1) for pod, cost in group.costs.items()}
    return GroupCost(namespace, kind, name, ranks, 1, group.waits_for, made)
