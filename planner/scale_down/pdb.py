"""PodDisruptionBudgets: which pod is under which, what moving it uses up, and what is left.

What is left is taken from the status once; a status that is absent or outdated allows nothing. The status has already
subtracted pods that are not healthy or on their way out, so moving those uses nothing up:
- a terminating, pending or ended pod, or one listed in `disruptedPods`, never;
- a pod that is not ready, where the budget always allows unhealthy pods to go, or is met by the healthy ones.
Any other pod uses one disruption of each budget that matches it.
Source: Kubernetes policy/v1 and the eviction subresource (canIgnorePDB, unhealthyPodEvictionPolicy).
"""

from typing import NamedTuple

import numpy as np
from trimtab.v1 import snapshot_pb2 as pb

from planner.model.values import PodDisruptionBudget
from planner.scale_down.kernels.membership import write_membership
from planner.scale_down.label_index import LabelIndex, string_index
from planner.snapshot.columns import FLAG_READY, Bool, Int32, Int64, PodColumns, Snapshot, UInt8


class BudgetMembership(NamedTuple):
    """Budgets by pod in compressed rows: pod p is under budgets[offsets[p] : offsets[p + 1]], ascending.

    offsets : int64[P+1]; budgets : int32[M]; needs : uint8[M], 1 where moving the pod uses up a disruption, else 0.
    """

    offsets: Int64
    budgets: Int32
    needs: UInt8


def remaining_disruptions(budgets: tuple[PodDisruptionBudget, ...]) -> Int64:
    """Return the disruptions that each budget still allows. int64[B], each >= 0."""
    allowed = [max(budget.disruptions_allowed, 0) if budget.observed else 0 for budget in budgets]
    return np.array(allowed, np.int64)


def membership(snapshot: Snapshot) -> BudgetMembership:
    """Return which pods are under which budgets and what moving them uses up. O(P in namespaces with budgets + M)."""
    pods = snapshot.pods
    spaces, entries, bounds = _selected(snapshot)
    offsets = np.zeros(len(pods.spec) + 1, np.int64)
    head = np.full(max(len(snapshot.label_sets.offsets) - 1, 1), -1, np.int32)
    following = np.zeros(len(entries), np.int32)
    count = write_membership(
        pods.label_set, spaces, entries, bounds, head, following, offsets, np.zeros(0, np.int32)
    )  # fmt: skip
    budget = np.empty(count, np.int32)
    if count:
        write_membership(pods.label_set, spaces, entries, bounds, head, following, offsets, budget)
    pod = np.repeat(np.arange(len(pods.spec)), np.diff(offsets))
    return BudgetMembership(offsets, budget, _needs(snapshot, pod, budget))


def _selected(snapshot: Snapshot) -> tuple[Int64, Int32, Int64]:
    """Return what `write_membership` starts from: pods of the namespaces with budgets, and the label sets selected."""
    by_namespace: dict[str, list[int]] = {}
    for row, budget in enumerate(snapshot.budgets):
        by_namespace.setdefault(budget.namespace, []).append(row)
    index = LabelIndex(snapshot.strings, snapshot.label_sets)
    spaces = np.zeros((len(by_namespace), 2), np.int64)
    bounds = np.zeros(len(by_namespace) + 1, np.int64)
    entries = []
    for at, namespace in enumerate(sorted(by_namespace)):
        code = string_index(snapshot.strings, namespace)
        spaces[at] = np.searchsorted(snapshot.pods.namespace, np.array([code, code + 1], np.int32))
        bounds[at + 1] = bounds[at]
        for row in reversed(by_namespace[namespace]):
            sets = index.sets_matching(snapshot.budgets[row].selector)
            entries.append(np.stack([sets, np.full(len(sets), row, np.int32)], axis=1))
            bounds[at + 1] += len(sets)
    return spaces, np.concatenate([np.zeros((0, 2), np.int32), *entries]), bounds


def _needs(snapshot: Snapshot, pod: Int64, budget: Int32) -> UInt8:
    """Return 1 for each (pod, budget) pair that uses up a disruption. uint8[M]."""
    pods = snapshot.pods
    never = (pods.deletion_s > 0) | (pods.phase == pb.PodPhase.PENDING) | _ended(pods)
    free_unhealthy = np.array([_unhealthy_go_free(row) for row in snapshot.budgets], bool)
    not_ready = (pods.flags & FLAG_READY) == 0
    needs = ~never[pod] & ~(not_ready[pod] & free_unhealthy[budget])
    for row, one in enumerate(snapshot.budgets):
        if one.disrupted_pods:
            granted = set(one.disrupted_pods)
            at = np.flatnonzero(budget == row)
            needs[at] &= np.array([pods.name.get(p) not in granted for p in pod[at]], bool)
    used: UInt8 = needs.astype(np.uint8)
    return used


def _ended(pods: PodColumns) -> Bool:
    ended: Bool = (pods.phase == pb.PodPhase.SUCCEEDED) | (pods.phase == pb.PodPhase.FAILED)
    return ended


def _unhealthy_go_free(budget: PodDisruptionBudget) -> bool:
    """Say whether pods that are not ready may go without using up a disruption."""
    if budget.always_allow_unhealthy:
        return True
    status_known = budget.observed and budget.disruptions_allowed >= 0
    return status_known and budget.desired_healthy > 0 and budget.current_healthy >= budget.desired_healthy


def exhausted(under: BudgetMembership, remaining: Int64) -> Bool:
    """Say for each pod whether one of its budgets lacks the disruption it needs. bool[P]."""
    lacking = (under.needs > 0) & (remaining[under.budgets] < 1)
    return _any_by_pod(under, lacking)


def budgeted(under: BudgetMembership) -> Bool:
    """Say for each pod whether any budget matches it. bool[P]."""
    any_budget: Bool = np.diff(under.offsets) > 0
    return any_budget


def use_up(under: BudgetMembership, remaining: Int64, pods: Int64) -> None:
    """Subtract in place what moving `pods` uses up; never below 0, for these pods move whatever the budgets say."""
    chosen = np.zeros(len(under.offsets) - 1, bool)
    chosen[pods] = True
    of_pair = np.repeat(chosen, np.diff(under.offsets))
    used = np.bincount(under.budgets[of_pair], weights=under.needs[of_pair], minlength=len(remaining))
    np.maximum(remaining - used.astype(np.int64), 0, out=remaining)


def _any_by_pod(under: BudgetMembership, pairs: Bool) -> Bool:
    marked = np.zeros(len(under.offsets) - 1, bool)
    pod_of_pair = np.repeat(np.arange(len(marked)), np.diff(under.offsets))
    marked[pod_of_pair[pairs]] = True
    return marked
