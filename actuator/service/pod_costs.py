"""ApplyPodCosts: write the pod deletion costs that the planner has decided.

Decides which pods one call writes: those whose annotations differ, up to a limit; groups in the order of the request,
within each group first the pods that are to be removed last; then removals of costs. Costs of other clients stay.
Nothing is stored: the next call reads the pods again and completes an interrupted one. A pod that cannot be written
does not stop the others, but makes its group incomplete. If more than one pod of a group changes, the first one written
is marked as unfinished until all are written, so an interrupted call leaves no group that only looks complete.
Replacing one pod takes one write. Durations in seconds.
Source: Kubernetes, "ReplicaSet", pod deletion cost: an int32, absent = 0; frequent updates are to be avoided.
"""

from collections.abc import Mapping

import structlog

from trimtab.actuator.kube.cluster import ClusterApi, CostWrite, PodCost
from trimtab.actuator.service.pod_cost_progress import CostOrders, GroupOrder, Progress, Reason, report_incomplete
from trimtab.actuator.service.pod_group_costs import GroupObjects
from trimtab.actuator.service.settings import PodCostLimits
from trimtab.v1 import actuator_pb2

log = structlog.get_logger("pod_costs")


def apply_pod_costs(
    cluster: ClusterApi, orders: CostOrders, limits: PodCostLimits
) -> actuator_pb2.ApplyPodCostsResponse:
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
