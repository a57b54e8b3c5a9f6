"""Blockers that a change to a PodDisruptionBudget, a node group or a node lifts."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from trimtab.clients.advice.changes import AdvisedChange, Edit
from trimtab.clients.advice.counterfactuals import Outcome
from trimtab.clients.advice.editing import allow_unavailable
from trimtab.clients.advice.levers.lever import BasePlan, Lever, joined
from trimtab.clients.advice.result import Blocker
from trimtab.clients.kubernetes.signals.cluster_autoscaler import SCALE_DOWN_DISABLED
from trimtab.clients.kubernetes.signals.karpenter import DO_NOT_DISRUPT
from trimtab.v1 import reason_pb2
from trimtab.v1 import snapshot_pb2 as pb

_Node = reason_pb2.UnremovableReason
_Pod = reason_pb2.BlockingPodReason


def budgets(base: BasePlan) -> Iterator[Lever]:
    """Yield a lever for each PodDisruptionBudget that allows too few evictions, and one for all of them."""
    rows = {(one.namespace, one.name): row for row, one in enumerate(base.view.snapshot.pod_disruption_budgets)}
    kept: dict[int, set[str]] = {}
    for one in base.blocked_by(_Pod.NOT_ENOUGH_PDB):
        found = base.view.budgets_of(one.pod)
        if one.alone and len(found) == 1:
            kept.setdefault(rows[found[0].namespace, found[0].name], set()).add(one.node)
    single = {row: found for row, nodes in sorted(kept.items()) for found in _budget(base, row, frozenset(nodes))}
    yield from single.values()
    if len(single) > 1:
        condition = f"{len(single)} PodDisruptionBudgets allowed all evictions"
        smaller = partial(_smaller_budgets, base, single)
        yield joined(Blocker.BUDGET, condition, list(single.values()), smaller)


def _smaller_budgets(base: BasePlan, levers: Mapping[int, Lever], outcome: Outcome) -> Lever | None:
    """Return the lever that allows only the evictions that a plan makes, of the budgets of which it makes more than
    they allow. levers : by row of the budget.
    """
    less = []
    for row, lever in levers.items():
        needed = _needed(base, row, outcome)
        if needed > _unavailable(base, row):
            less.append(_with_unavailable(base, row, min(needed, lever.edit.budgets[row] or needed), lever.kept))
    if not less:
        return None
    count = "1 PodDisruptionBudget" if len(less) == 1 else f"{len(less)} PodDisruptionBudgets"
    return joined(Blocker.BUDGET, f"{count} allowed more evictions", less)


def _budget(base: BasePlan, row: int, kept: frozenset[str]) -> Iterator[Lever]:
    """Yield the lever that lets all pods of a budget be unavailable, unless that allows no more evictions."""
    budget = base.view.snapshot.pod_disruption_budgets[row]
    most = budget.status.expected_pods
    lifted = pb.PodDisruptionBudget()
    lifted.CopyFrom(budget)
    allow_unavailable(lifted, most)
    if budget.status.observed and lifted.status.disruptions_allowed > budget.status.disruptions_allowed:
        yield _with_unavailable(base, row, most, kept)


def _with_unavailable(base: BasePlan, row: int, most: int, kept: frozenset[str]) -> Lever:
    """Return the lever that lets so many pods of a budget be unavailable."""
    budget = base.view.snapshot.pod_disruption_budgets[row]
    name = f"{budget.namespace}/{budget.name}"
    field = "minAvailable" if budget.min_available else "maxUnavailable"
    before = budget.min_available or budget.max_unavailable
    patch = {"spec": {"maxUnavailable": most, **({"minAvailable": None} if field == "minAvailable" else {})}}
    changes = [
        AdvisedChange(f"PodDisruptionBudget/{name}", ("spec", "maxUnavailable"), None, most, _patch("pdb", name, patch))
    ]
    if field == "minAvailable":
        changes.append(AdvisedChange(f"PodDisruptionBudget/{name}", ("spec", field), _number(before), None))
    else:
        changes[0] = AdvisedChange(changes[0].object, changes[0].keys, _number(before), most, changes[0].command)
    pods = "1 pod" if most == 1 else f"{most} pods"
    condition = f"budget {name} let {pods} be unavailable"
    smaller = partial(_smaller_budget, base, row, most, kept)
    return Lever(Blocker.BUDGET, condition, Edit(budgets={row: most}), tuple(changes), kept, smaller=smaller)


def _smaller_budget(base: BasePlan, row: int, most: int, kept: frozenset[str], outcome: Outcome) -> Lever | None:
    """Return the lever that allows only the evictions that a plan makes."""
    fewer = _needed(base, row, outcome)
    return _with_unavailable(base, row, fewer, kept) if _unavailable(base, row) < fewer < most else None


def _needed(base: BasePlan, row: int, outcome: Outcome) -> int:
    """Return how many pods of a budget are unavailable if all evictions of a plan are made at once."""
    budget = base.view.snapshot.pod_disruption_budgets[row]
    moved = 0
    for node in outcome.answer.scale_down.unneeded:
        for key in node.destinations:
            pod = base.view.pod(key) if key.startswith(f"{budget.namespace}/") else None
            moved += pod is not None and any(one.name == budget.name for one in base.view.budgets_of(pod))
    return moved + max(budget.status.expected_pods - budget.status.current_healthy, 0)


def _unavailable(base: BasePlan, row: int) -> int:
    """Return how many pods of a budget may be unavailable now."""
    status = base.view.snapshot.pod_disruption_budgets[row].status
    return max(status.expected_pods - status.desired_healthy, 0)


def _number(value: str) -> int | str | None:
    """Return a limit of a budget as its object has it; None = it has none."""
    return int(value) if value.isdecimal() else value or None


def _patch(resource: str, name: str, patch: dict[str, Any]) -> str:
    """Return the command that merges a patch into an object. name : as "namespace/name"."""
    namespace, _, own = name.partition("/")
    return f"kubectl patch {resource} {own} -n {namespace} --type merge -p '{json.dumps(patch, separators=(',', ':'))}'"


def several_budgets(base: BasePlan) -> Iterator[Lever]:
    """Yield a lever for each set of PodDisruptionBudgets of which more than one selects the same pod: all but the one
    with the most pods are deleted.
    """
    rows = {(one.namespace, one.name): row for row, one in enumerate(base.view.snapshot.pod_disruption_budgets)}
    kept: dict[tuple[int, ...], set[str]] = {}
    for one in base.blocked_by(_Pod.SEVERAL_BUDGETS):
        found = tuple(rows[each.namespace, each.name] for each in base.view.budgets_of(one.pod))
        if one.alone and len(found) > 1:
            kept.setdefault(found, set()).add(one.node)
    for found, nodes in sorted(kept.items()):
        yield _one_budget(base, found, frozenset(nodes))


def _one_budget(base: BasePlan, rows: tuple[int, ...], kept: frozenset[str]) -> Lever:
    """Return the lever that leaves one of several budgets."""
    every = base.view.snapshot.pod_disruption_budgets
    stays = max(rows, key=lambda row: (every[row].status.expected_pods, -row))
    deleted = [row for row in rows if row != stays]
    changes = tuple(
        AdvisedChange(
            f"PodDisruptionBudget/{every[row].namespace}/{every[row].name}", (), "exists", None,
            f"kubectl delete pdb {every[row].name} -n {every[row].namespace}",
        )
        for row in deleted
    )  # fmt: skip
    condition = f"budget {every[stays].namespace}/{every[stays].name} were the only one for its pods"
    return Lever(Blocker.SEVERAL_BUDGETS, condition, Edit(budgets=dict.fromkeys(deleted)), changes, kept)


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


def _larger_minimum(base: BasePlan, name: str, minimum: int, kept: frozenset[str], outcome: Outcome) -> Lever | None:
    """Return the lever that lets the group shrink only as far as a plan does."""
    group = base.view.groups[name]
    going = sum(base.view.nodes[node].node_group == name for node in outcome.nodes)
    leaving = sum(one.node_group == name for one in base.view.snapshot.actuation_status.deletions)
    left = min(group.target_size - going - leaving, group.min_size - 1)
    return _with_minimum(base, name, left, kept) if left > minimum else None


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
