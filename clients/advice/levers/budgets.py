"""Blockers that a change to a PodDisruptionBudget lifts."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from trimtab.clients.advice.changes import AdvisedChange, Edit, patch_command
from trimtab.clients.advice.counterfactuals import Outcome
from trimtab.clients.advice.editing import allow_unavailable
from trimtab.clients.advice.levers.lever import BasePlan, Lever, joined
from trimtab.clients.advice.result import Blocker
from trimtab.v1 import reason_pb2
from trimtab.v1 import snapshot_pb2 as pb

_Pod = reason_pb2.BlockingPodReason


def budgets(base: BasePlan) -> Iterator[Lever]:
    """Yield levers for each PodDisruptionBudget that allows too few evictions, the mildest first, and one for all."""
    rows = {(one.namespace, one.name): row for row, one in enumerate(base.view.snapshot.pod_disruption_budgets)}
    kept: dict[int, set[str]] = {}
    unhealthy: dict[int, set[str]] = {}
    for one in base.blocked_by(_Pod.NOT_ENOUGH_PDB):
        found = base.view.budgets_of(one.pod)
        if one.alone and len(found) == 1:
            row = rows[found[0].namespace, found[0].name]
            kept.setdefault(row, set()).add(one.node)
            if not one.pod.ready and not found[0].always_allow_unhealthy:
                unhealthy.setdefault(row, set()).add(one.node)
    for row, nodes in sorted(unhealthy.items()):
        yield _unhealthy_evicted(base, row, frozenset(nodes))
    single = {row: found for row, nodes in sorted(kept.items()) for found in _budget(base, row, frozenset(nodes))}
    yield from single.values()
    if len(single) > 1:
        condition = f"{len(single)} PodDisruptionBudgets allowed all evictions"
        smaller = partial(_smaller_budgets, base, single)
        yield joined(Blocker.BUDGET, condition, list(single.values()), smaller)


def _unhealthy_evicted(base: BasePlan, row: int, kept: frozenset[str]) -> Lever:
    """Return the lever that lets the pods of a budget be evicted that are not ready."""
    name = _name(base.view.snapshot.pod_disruption_budgets[row])
    policy = {"unhealthyPodEvictionPolicy": "AlwaysAllow"}
    change = AdvisedChange(
        f"PodDisruptionBudget/{name}", ("spec", "unhealthyPodEvictionPolicy"), None, "AlwaysAllow",
        _patch(name, {"spec": policy}),
    )  # fmt: skip
    condition = f"budget {name} let pods be evicted that are not ready"
    return Lever(Blocker.BUDGET, condition, Edit(unhealthy=frozenset({row})), (change,), kept)


def _smaller_budgets(base: BasePlan, levers: Mapping[int, Lever], outcome: Outcome) -> tuple[Lever, ...]:
    """Return levers that allow fewer evictions of several budgets: one more than now, or all that a plan makes.
    levers : by row of the budget."""
    needed = {row: _needed(base, row, outcome) for row in levers}
    needed = {row: count for row, count in needed.items() if count > _unavailable(base, row)}
    if not needed:
        return ()
    count = "1 PodDisruptionBudget" if len(needed) == 1 else f"{len(needed)} PodDisruptionBudgets"
    choices = (
        {row: _unavailable(base, row) + 1 for row in needed},
        {row: min(most, levers[row].edit.budgets[row] or most) for row, most in needed.items()},
    )
    return tuple(
        joined(
            Blocker.BUDGET,
            f"{count} allowed more evictions",
            [_with_unavailable(base, row, most, levers[row].kept) for row, most in choice.items()],
        )
        for choice in choices
    )


def _budget(base: BasePlan, row: int, kept: frozenset[str]) -> Iterator[Lever]:
    """Yield the lever that lets all pods of a budget be unavailable, unless that allows no more evictions."""
    budget = base.view.snapshot.pod_disruption_budgets[row]
    if budget.status.sync_error:
        yield _with_whole_minimum(budget, row, kept)
        return
    most = budget.status.expected_pods
    lifted = pb.PodDisruptionBudget()
    lifted.CopyFrom(budget)
    allow_unavailable(lifted, most)
    if budget.status.observed and lifted.status.disruptions_allowed > budget.status.disruptions_allowed:
        yield _with_unavailable(base, row, most, kept)


def _with_whole_minimum(budget: pb.PodDisruptionBudget, row: int, kept: frozenset[str]) -> Lever:
    """Return the lever that gives a budget a whole number as minAvailable: the only limit for which its controller
    needs no scale of the workload. Source: Kubernetes, disruption, getExpectedPodCount."""
    name, status = _name(budget), budget.status
    minimum = max(min(status.desired_healthy, status.expected_pods - 1), 0)
    field = "minAvailable" if budget.min_available else "maxUnavailable"
    before = _number(budget.min_available or budget.max_unavailable)
    patch = {"spec": {"minAvailable": minimum, **({"maxUnavailable": None} if field == "maxUnavailable" else {})}}
    object_ = f"PodDisruptionBudget/{name}"
    changes = [AdvisedChange(object_, ("spec", "minAvailable"), None, minimum, _patch(name, patch))]
    if field == "maxUnavailable":
        changes.append(AdvisedChange(object_, ("spec", field), before, None))
    edit = Edit(budgets={row: status.expected_pods - minimum})
    condition = f"budget {name} had minAvailable: {minimum}, as its controller cannot count ({status.sync_error})"
    return Lever(Blocker.BUDGET, condition, edit, tuple(changes), kept)


def _with_unavailable(base: BasePlan, row: int, most: int, kept: frozenset[str]) -> Lever:
    """Return the lever that lets so many pods of a budget be unavailable."""
    budget = base.view.snapshot.pod_disruption_budgets[row]
    name = _name(budget)
    field = "minAvailable" if budget.min_available else "maxUnavailable"
    before = budget.min_available or budget.max_unavailable
    patch = {"spec": {"maxUnavailable": most, **({"minAvailable": None} if field == "minAvailable" else {})}}
    changes = [
        AdvisedChange(f"PodDisruptionBudget/{name}", ("spec", "maxUnavailable"), None, most, _patch(name, patch))
    ]
    if field == "minAvailable":
        changes.append(AdvisedChange(f"PodDisruptionBudget/{name}", ("spec", field), _number(before), None))
    else:
        changes[0] = AdvisedChange(changes[0].object, changes[0].keys, _number(before), most, changes[0].command)
    pods = "1 pod" if most == 1 else f"{most} pods"
    condition = f"budget {name} let {pods} be unavailable"
    smaller = partial(_smaller_budget, base, row, most, kept)
    return Lever(Blocker.BUDGET, condition, Edit(budgets={row: most}), tuple(changes), kept, smaller=smaller)


def _smaller_budget(base: BasePlan, row: int, most: int, kept: frozenset[str], outcome: Outcome) -> tuple[Lever, ...]:
    """Return levers that allow fewer evictions at once: one more than now, with which as many nodes may go in waves, or
    all that a plan makes."""
    least = _unavailable(base, row) + 1
    counts = dict.fromkeys(one for one in (least, _needed(base, row, outcome)) if least <= one < most)
    return tuple(_with_unavailable(base, row, count, kept) for count in counts)


def _needed(base: BasePlan, row: int, outcome: Outcome) -> int:
    """Return how many pods of a budget are unavailable if all evictions of a plan are made at once."""
    budget = base.view.snapshot.pod_disruption_budgets[row]
    moved = 0
    for key in outcome.answer.scale_down.places.pods:
        pod = base.view.pod(key) if key.startswith(f"{budget.namespace}/") else None
        moved += pod is not None and any(one.name == budget.name for one in base.view.budgets_of(pod))
    return moved + max(budget.status.expected_pods - budget.status.current_healthy, 0)


def _unavailable(base: BasePlan, row: int) -> int:
    """Return how many pods of a budget may be unavailable now."""
    status = base.view.snapshot.pod_disruption_budgets[row].status
    return max(status.expected_pods - status.desired_healthy, 0)


def _name(budget: pb.PodDisruptionBudget) -> str:
    return f"{budget.namespace}/{budget.name}"


def _number(value: str) -> int | str | None:
    """Return a limit of a budget as its object has it; None = it has none."""
    return int(value) if value.isdecimal() else value or None


def _patch(name: str, patch: dict[str, Any]) -> str:
    """Return the command that merges a patch into a budget. name : as "namespace/name"."""
    namespace, _, own = name.partition("/")
    return patch_command("pdb", own, patch, namespace)


def several_budgets(base: BasePlan) -> Iterator[Lever]:
    """Yield levers for each set of PodDisruptionBudgets of which more than one selects the same pod: all but one are
    deleted. Each that allows evictions is tried as the one that stays, the one with the most pods first.
    """
    every = base.view.snapshot.pod_disruption_budgets
    rows = {(one.namespace, one.name): row for row, one in enumerate(every)}
    kept: dict[tuple[int, ...], set[str]] = {}
    for one in base.blocked_by(_Pod.SEVERAL_BUDGETS):
        found = tuple(rows[each.namespace, each.name] for each in base.view.budgets_of(one.pod))
        if one.alone and len(found) > 1:
            kept.setdefault(found, set()).add(one.node)
    for found, nodes in sorted(kept.items()):
        by_pods = sorted(found, key=lambda row: (-every[row].status.expected_pods, row))
        able = [row for row in by_pods if every[row].status.disruptions_allowed] or by_pods[:1]
        for stays in able:
            yield _one_budget(every, found, stays, frozenset(nodes))


def _one_budget(
    every: Sequence[pb.PodDisruptionBudget], rows: tuple[int, ...], stays: int, kept: frozenset[str]
) -> Lever:
    """Return the lever that leaves one of several budgets."""
    deleted = [row for row in rows if row != stays]
    changes = tuple(
        AdvisedChange(
            f"PodDisruptionBudget/{_name(every[row])}", (), "exists", None,
            f"kubectl delete pdb {every[row].name} -n {every[row].namespace}",
        )
        for row in deleted
    )  # fmt: skip
    condition = f"budget {_name(every[stays])} were the only one for its pods"
    return Lever(Blocker.SEVERAL_BUDGETS, condition, Edit(budgets=dict.fromkeys(deleted)), changes, kept)
