"""Blockers that a change to a NodePool of Karpenter lifts: its consolidation policy, and its budgets for nodes."""

from collections.abc import Iterator
from typing import Any

from trimtab.clients.advice.changes import AdvisedChange, Edit, Keys, patch_command
from trimtab.clients.advice.levers.lever import BasePlan, Lever
from trimtab.clients.advice.result import Blocker
from trimtab.common.kubernetes.signals.karpenter import NODE_POOL
from trimtab.v1 import plan_pb2, reason_pb2

_Node = reason_pb2.UnremovableReason
_POLICY = ("spec", "disruption", "consolidationPolicy")
_AFTER = ("spec", "disruption", "consolidateAfter")


def consolidation(base: BasePlan) -> Iterator[Lever]:
    """Yield a lever for each NodePool that is consolidated only where nodes are empty, or not at all."""
    for reason, keys, before, after in (
        (_Node.NOT_EMPTY, _POLICY, "WhenEmpty", "WhenEmptyOrUnderutilized"),
        (_Node.NOT_CONSOLIDATED, _AFTER, "Never", "0s"),
    ):
        for pool, nodes in sorted(_by_pool(base, reason).items()):
            groups = {base.view.nodes[name].node_group for name in nodes}
            settings: dict[Keys, Any] = {
                ("nodeGroups", name, "consolidation"): "WHENEVER_POSSIBLE" for name in sorted(groups)
            }
            change = AdvisedChange(
                f"NodePool/{pool}",
                keys,
                before,
                after,
                patch_command("nodepool", pool, {"spec": {"disruption": {keys[-1]: after}}}),
            )
            condition = f"NodePool {pool} had {keys[-1]}: {after}"
            yield Lever(Blocker.CONSOLIDATION, condition, Edit(settings=settings), (change,), frozenset(nodes))


def node_budgets(base: BasePlan) -> Iterator[Lever]:
    """Yield a lever for each NodePool whose budgets let no node go: each of them lets one node go."""
    for pool, nodes in sorted(_by_pool(base, _Node.DISRUPTION_BUDGET).items()):
        settings: dict[Keys, Any] = {}
        for row, budget in enumerate(base.settings.planner.disruption_budgets):
            if budget.max_nodes in ("0", "0%") and _is_of(budget, pool):
                settings["planner", "disruptionBudgets", row, "maxNodes"] = "1"
        if settings:
            change = AdvisedChange(
                f"NodePool/{pool}", ("spec", "disruption", "budgets"), "0", "1", f"kubectl edit nodepool {pool}"
            )
            condition = f"the disruption budgets of NodePool {pool} let 1 node go at a time"
            yield Lever(Blocker.NODE_BUDGET, condition, Edit(settings=settings), (change,), frozenset(nodes))


def _by_pool(base: BasePlan, reason: int) -> dict[str, list[str]]:
    """Return the nodes that stay for a reason, by their NodePool."""
    found: dict[str, list[str]] = {}
    for one in base.staying(reason):
        pool = base.view.labels(base.view.nodes[one.node].label_set).get(NODE_POOL.key)
        if pool:
            found.setdefault(pool, []).append(one.node)
    return found


def _is_of(budget: plan_pb2.DisruptionBudget, pool: str) -> bool:
    return budget.nodes.match_labels.get(NODE_POOL.key) == pool
