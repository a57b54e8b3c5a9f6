"""PodGroupCost objects: the costs of groups that have to be ranked again after each removal. All costs of such a group
change together, and its status names their generation, so a controller can recognize costs that are not complete yet.
Decides what is written: costs that differ, and a status that differs or has not been confirmed for a while, as readers
ignore a status that nobody confirms. The status is written last: an interrupted call leaves a generation without
status, which readers do not use.
Source: Kubernetes enhancement proposal 1888, phase 2B.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property

from trimtab.actuator.kube.cluster import (
    ClusterError,
    GroupCost,
    GroupCostStatus,
    KnownGroupCost,
    NotServedError,
    PodCost,
)
from trimtab.actuator.service.pod_cost_progress import CostOrders, GroupOrder, Progress, Reason, report_incomplete

MOST_NAME_BYTES = 253
SHRINKS = "pods of the plan are gone: the group shrinks faster than it is ranked"


class GroupObjects:
    """The objects of one call."""

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
            return "the limit of one call leaves it for the next"
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
        return abs(age.total_seconds()) >= self._progress.limits.confirm_s


def _group_cost(group: GroupOrder, made: str) -> GroupCost:
    kind, namespace, name = group.owner.split("/", 2)
    ranks = {pod.partition("/")[2]: min(-cost, (1 << 31) - 1) for pod, cost in group.costs.items()}
    return GroupCost(namespace, kind, name, ranks, 1, group.waits_for, made)
