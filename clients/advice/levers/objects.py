"""Blockers that a change to a node group or a node lifts."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from trimtab.clients.advice.changes import AdvisedChange, Edit, Keys, patch_command
from trimtab.clients.advice.counterfactuals import Outcome
from trimtab.clients.advice.levers.lever import BasePlan, Lever, joined
from trimtab.clients.advice.result import Blocker
from trimtab.common.kubernetes.signals.cluster_autoscaler import SCALE_DOWN_DISABLED
from trimtab.common.kubernetes.signals.karpenter import DO_NOT_DISRUPT, NODE_POOL
from trimtab.v1 import plan_pb2, reason_pb2

_Node = reason_pb2.UnremovableReason
_Pod = reason_pb2.BlockingPodReason


def group_minimums(base: BasePlan) -> Iterator[Lever]:
    """Yield a lever for each node group at its minimum size, and one for all of them."""
    kept: dict[str, set[str]] = {}
    for one in base.staying(_Node.NODE_GROUP_MIN_SIZE_REACHED):
        kept.setdefault(base.view.nodes[one.node].node_group, set()).add(one.node)
    single = [
        _with_minimum(base, name, 0, frozenset(nodes))
        for name, nodes in sorted(kept.items())
        if base.view.groups[name].min_size
    ]
    yield from single
    if len(single) > 1:
        yield joined(Blocker.GROUP_MINIMUM, f"{len(single)} node groups had no minimum size", single)


def _with_minimum(base: BasePlan, name: str, minimum: int, kept: frozenset[str]) -> Lever:
    """Return the lever that lowers the minimum of a group."""
    group = base.view.groups[name]
    change = AdvisedChange(f"NodeGroup/{name}", ("spec", "minSize"), group.min_size, minimum)
    nodes = "no node" if not minimum else "1 node" if minimum == 1 else f"{minimum} nodes"
    condition = f"node group {name} could shrink to {nodes}"
    smaller = partial(_larger_minimum, base, name, minimum, kept)
    edit = Edit(groups={name: minimum})
    return Lever(Blocker.GROUP_MINIMUM, condition, edit, (change,), kept, smaller=smaller)


def _larger_minimum(
    base: BasePlan, name: str, minimum: int, kept: frozenset[str], outcome: Outcome
) -> tuple[Lever, ...]:
    """Return the lever that lets the group shrink only as far as a plan does."""
    group = base.view.groups[name]
    going = sum(base.view.nodes[node].node_group == name for node in outcome.nodes)
    leaving = sum(deletion.node_group == name for deletion in base.view.snapshot.actuation_status.deletions)
    left = min(group.target_size - going - leaving, group.min_size - 1)
    return (_with_minimum(base, name, left, kept),) if left > minimum else ()


def node_annotations(base: BasePlan) -> Iterator[Lever]:
    """Yield a lever for each node with the annotation against scale-down, and one for all of them."""
    reasons = (_Node.SCALE_DOWN_DISABLED_ANNOTATION, _Node.DO_NOT_DISRUPT_ANNOTATION)
    single = [_without_annotation(base, one.node) for reason in reasons for one in base.staying(reason)]
    yield from single
    if len(single) > 1:
        yield joined(Blocker.NODE_ANNOTATION, f"{len(single)} nodes had no annotation against scale-down", single)


def _without_annotation(base: BasePlan, name: str) -> Lever:
    """Return the lever that removes the annotations that a node has."""
    node = base.view.nodes[name]
    present = {SCALE_DOWN_DISABLED.key: node.scale_down_disabled, DO_NOT_DISRUPT.key: node.do_not_disrupt}
    changes = tuple(
        AdvisedChange(
            f"Node/{name}", ("metadata", "annotations", key), "true", None, f"kubectl annotate node {name} {key}-"
        )
        for key, is_present in present.items()
        if is_present
    )
    condition = f"node {name} had no annotation against scale-down"
    return Lever(Blocker.NODE_ANNOTATION, condition, Edit(nodes=frozenset({name})), changes, frozenset({name}))


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
