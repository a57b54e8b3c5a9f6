"""One workload: which nodes it keeps, why, and what a plan frees in which none of its blockers is left.

A workload keeps a node if a rule, a budget or a lack of places for one of its pods does. What the kept nodes cost says
nothing of what the workload's change frees: other pods may keep them as well. That is planned.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trimtab.clients.advice.advise import AdviceOptions, AdviceSearch, base_plan
from trimtab.clients.advice.counterfactuals import Counterfactuals
from trimtab.clients.advice.levers import budgets, pods
from trimtab.clients.advice.levers.lever import BasePlan, Lever
from trimtab.clients.advice.result import Advice
from trimtab.clients.advice.workloads import WorkloadName
from trimtab.clients.cluster_view import ClusterView
from trimtab.clients.planner_client import PlannerClient
from trimtab.clients.verdicts import staying
from trimtab.v1 import plan_pb2, reason_pb2

_NO_PLACE = reason_pb2.BlockingPodReason.NO_PLACE


@dataclass(frozen=True)
class KeptNode:
    """A node that a workload keeps. pods : its pods there that are in the way, with every reason as
    `BlockingPodReason.Code`, by name; alone : nothing else keeps the node.
    """

    node: str
    pods: tuple[tuple[str, tuple[int, ...]], ...]
    alone: bool


@dataclass(frozen=True)
class WorkloadReport:
    """What a workload keeps. pod_count, node_count : its pods on nodes, and their nodes; kept : by name of the node;
    advice : what a plan without its blockers frees, None = there is none that a change of it lifts.
    """

    workload: WorkloadName
    pod_count: int
    node_count: int
    kept: tuple[KeptNode, ...]
    advice: Advice | None

    def document(self) -> dict[str, Any]:
        """Return the report for programs."""
        name = reason_pb2.BlockingPodReason.Code.Name
        return {
            "workload": self.workload.object,
            "podCount": self.pod_count,
            "nodeCount": self.node_count,
            "kept": [
                {
                    "node": one.node,
                    "nothingElseKeepsIt": one.alone,
                    "pods": [
                        {
                            "pod": pod,
                            "reasons": [name(reason_pb2.BlockingPodReason.Code.ValueType(why)) for why in reasons],
                        }
                        for pod, reasons in one.pods
                    ],
                }
                for one in self.kept
            ],
            "advice": self.advice.document() if self.advice else None,
        }


def explain_workload(
    planner: PlannerClient,
    view: ClusterView,
    request: plan_pb2.PlanRequest,
    answer: plan_pb2.PlanResponse,
    options: AdviceOptions,
    workload: WorkloadName,
) -> WorkloadReport:
    """Return which nodes a workload with pods keeps. Other arguments and errors: as for `advise`."""
    session = Counterfactuals(planner, view, request, answer)
    base = base_plan(session)
    rows = base.workloads.rows(workload)
    nodes = [node for row in rows if (node := view.node_of(row))]
    levers = [lever for lever in _levers(base) if not lever.whole and _concerns(base, lever, workload)]
    advice = AdviceSearch(session, options).of_levers(tuple(levers)) if levers else None
    return WorkloadReport(workload, len(nodes), len(set(nodes)), tuple(_kept(base, workload)), advice)


def _levers(base: BasePlan) -> Iterator[Lever]:
    for find in (pods.evictable, pods.placement, budgets.budgets, budgets.several_budgets):
        yield from find(base)


def _concerns(base: BasePlan, lever: Lever, workload: WorkloadName) -> bool:
    """Return whether a lever changes a workload's pods, or a budget that selects one of them."""
    rows = base.workloads.rows(workload)
    if lever.edit.pods:
        return not lever.edit.pods.keys().isdisjoint(rows)
    every = base.view.snapshot.pod_disruption_budgets
    names = {(every[row].namespace, every[row].name) for row in lever.edit.budgets}
    keys = (base.view.pod_keys[row] for row in rows)
    found = (pod for key in keys if (pod := base.view.pod(key)) is not None)
    return any((one.namespace, one.name) in names for pod in found for one in base.view.budgets_of(pod))


def _kept(base: BasePlan, workload: WorkloadName) -> Iterator[KeptNode]:
    """Yield the nodes that a workload keeps, by name."""
    own = {base.view.pod_keys[row] for row in base.workloads.rows(workload)}
    blocked: dict[str, dict[str, tuple[int, ...]]] = {}
    for one in base.blocked:
        blocked.setdefault(one.node, {})[one.pod.key] = one.reasons
    for node in staying(base.answer):
        found = dict(blocked.get(node.node, {}))
        if node.blocking_reason == _NO_PLACE:
            found.setdefault(node.blocking_pod, (_NO_PLACE,))
        mine = tuple((pod, reasons) for pod, reasons in sorted(found.items()) if pod in own)
        if mine:
            alone = found.keys() <= own and node.reason in (
                reason_pb2.UnremovableReason.BLOCKED_BY_POD,
                reason_pb2.UnremovableReason.NO_PLACE_TO_MOVE_PODS,
            )
            yield KeptNode(node.node, mine, alone)
