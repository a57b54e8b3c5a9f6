"""ApplyPodCosts: write the pod deletion costs that the planner has decided.

Decides which pods are written by one call: those whose annotations differ, up to a limit; groups in the order of the
request and the pods of each by name, then removals. Costs of other clients stay. Nothing is stored: the next call reads
the pods again, so a call that dies midway is completed by the next one. A pod that cannot be written does not stop the
others, but makes its group incomplete. Durations in seconds.
Source: Kubernetes, "ReplicaSet", pod deletion cost: an int32, absent = 0; frequent updates are to be avoided.
"""

from collections.abc import Mapping

import structlog
from trimtab.v1 import actuator_pb2

from actuator.kube.cluster import Cluster, CostWrite, PodCost
from actuator.service.pod_cost_progress import CostOrders, GroupOrder, Progress, Reason, report_incomplete
from actuator.service.pod_group_costs import GroupObjects
from actuator.service.settings import PodCostLimits

log = structlog.get_logger("pod_costs")


def apply_pod_costs(cluster: Cluster, orders: CostOrders, limits: PodCostLimits) -> actuator_pb2.ApplyPodCostsResponse:
    """Write what differs, within the limit of one call. Raises `ClusterError` when the pods cannot be read."""
    progress = Progress(cluster, limits, orders.made)
    found = cluster.pod_costs(orders.pods())
    objects = GroupObjects(progress, orders)
    for group in orders.groups:
        if group.after_each_removal:
            objects.write(group, found)
        elif group.costs:
            _write_group(progress, group, found)
    for pod in orders.remove:
        _remove(progress, found.get(pod))
    objects.remove_others()
    if orders.remove_others:
        owners = {group.owner for group in orders.groups}
        for own in cluster.own_pod_costs():
            if own.owner not in owners and own.key not in found:
                _remove(progress, own)
    response = progress.response
    if response.failed_count:
        log.warning("pod costs not written", pods=response.failed_count, such_as=response.failures[0].detail)
    return response


def _write_group(progress: Progress, group: GroupOrder, found: Mapping[str, PodCost]) -> None:
    """Write the costs of a group as annotations."""
    problems = []
    for key, cost in group.costs.items():
        problem = _write_pod(progress, key, found.get(key), CostWrite(cost, progress.made))
        if problem:
            problems.append(problem)
    if problems:
        report_incomplete(progress, group, len(problems), problems[0])


def _write_pod(progress: Progress, key: str, pod: PodCost | None, cost: CostWrite) -> str:
    """Write the cost of one pod; return why it has it not, "" = it has."""
    if pod is None:
        detail = "the cluster has no such pod: the group shrinks faster than it is ranked"
        return progress.fail(key, Reason.POD_NOT_FOUND, detail)
    if pod.is_foreign:
        shown = pod.rank if pod.cost is None else pod.cost
        return progress.fail(key, Reason.FOREIGN_COST, f"another client has set the cost {str(shown)[:40]!r}")
    if pod.cost == str(cost.cost) and pod.rank == str(cost.rank):
        progress.response.unchanged_count += 1
        return ""
    return progress.write(pod, cost)


def _remove(progress: Progress, pod: PodCost | None) -> None:
    """Remove the cost of a pod, if it is ours; one that is gone has none."""
    if pod is None or pod.made is None:
        progress.response.unchanged_count += 1
    else:
        progress.write(pod, None)
