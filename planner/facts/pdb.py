"""Budgets of evictions: PodDisruptionBudgets, and after them running gangs.

Which pods each PodDisruptionBudget covers, which disruptions an eviction uses, and how many remain. Remaining
disruptions come from the status; an absent or outdated status allows none. The status already excludes pods that are
unhealthy or terminating, so evicting these uses no disruption:
- a terminating or pending pod, one in a terminal phase, or one listed in `disruptedPods`, never;
- a pod that is not ready, if the budget always allows unhealthy pods or its healthy pods suffice.
Any other pod uses one disruption of each budget that covers it.
Source: Kubernetes policy/v1 and the eviction subresource (canIgnorePDB, unhealthyPodEvictionPolicy).

Of a running gang, so many pods may be evicted at a time that its minimum runs. A gang that is disrupted as a whole, or
whose pods are bound to one domain, may lose none: its pods would be placed one by one elsewhere. A gang with all its
pods on one node is moved whole with that node, and is not limited, unless a domain binds it. Scale-down moves some
gangs whole from several nodes (`scale_down.whole_gangs`). Source: ours; no autoscaler upstream knows gangs.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import msgspec
import numpy as np

from trimtab.planner.facts.gangs import Gang, gangs_of
from trimtab.planner.facts.kernels.membership import write_membership
from trimtab.planner.facts.labels import LabelIndex
from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.model.values import DisruptionBudget
from trimtab.planner.snapshot.caches import UNCACHED, SnapshotCache, SnapshotKey
from trimtab.planner.snapshot.columns import FLAG_READY, Bool, Int32, Int64, PodColumns, Snapshot, UInt8
from trimtab.planner.snapshot.texts import string_index
from trimtab.v1 import snapshot_pb2 as pb

_BYTES_OF_PAIR = 64
"""Peak memory of a (pod, budget) pair, intermediate arrays included."""


class BudgetMembership(NamedTuple):
    """Budgets by pod in compressed rows: pod p is covered by budgets[offsets[p] : offsets[p + 1]], ascending.

    offsets : int64[P+1]; budgets : int32[M]; needs : uint8[M], 1 where evicting the pod uses a disruption, else 0;
    pods : int64[M] the pod of each pair.
    """

    offsets: Int64
    budgets: Int32
    needs: UInt8
    pods: Int64


@dataclass(frozen=True)
class SelectedLabelSetsKey(SnapshotKey[tuple[Int32, Int64]]):
    """The label sets that the budgets select. selectors : digest of all namespaces and selectors."""

    selectors: str


def remaining_disruptions(budgets: tuple[DisruptionBudget, ...]) -> Int64:
    """Return the disruptions that each budget still allows. int64[B], each >= 0."""
    allowed = [max(budget.disruptions_allowed, 0) if budget.observed else 0 for budget in budgets]
    return np.array(allowed, np.int64)


def refilled_disruptions(budgets: tuple[DisruptionBudget, ...]) -> Int64:
    """Return the disruptions that each budget allows once all its pods are healthy again, or now, if that is more.
    int64[B], each >= 0; 0 for a budget whose status is absent or outdated.
    """
    healthy = [budget.expected_pods - budget.desired_healthy if budget.observed else 0 for budget in budgets]
    return np.maximum(remaining_disruptions(budgets), np.array(healthy, np.int64))


def membership(
    snapshot: Snapshot, limits: RequestLimits = UNLIMITED, cache: SnapshotCache = UNCACHED
) -> BudgetMembership:
    """Return the budgets that cover each pod, and its needs. O(P in namespaces with budgets + M)."""
    pods = snapshot.pods
    rows_of: dict[str, list[int]] = {}
    for row, budget in enumerate(snapshot.budgets):
        rows_of.setdefault(budget.namespace, []).append(row)
    by_namespace = dict(sorted(rows_of.items()))
    selectors = msgspec.msgpack.encode([(selected.namespace, selected.selector) for selected in snapshot.budgets])
    entries, bounds = cache.get(
        SelectedLabelSetsKey(blake2b(selectors, digest_size=16).hexdigest()),
        snapshot,
        lambda view: _selected(view, snapshot.budgets, by_namespace, limits),
    )
    codes = np.array([string_index(snapshot.strings, namespace) for namespace in by_namespace], np.int32)
    spaces = np.searchsorted(pods.namespace, np.stack([codes, codes + np.int32(1)], axis=1)).astype(np.int64)
    offsets = np.zeros(len(pods.spec) + 1, np.int64)
    head = np.full(max(len(snapshot.label_sets.offsets) - 1, 1), -1, np.int32)
    following = np.zeros(len(entries), np.int32)
    count = write_membership(
        pods.label_set, spaces, entries, bounds, head, following, offsets, np.zeros(0, np.int32)
    )  # fmt: skip
    limits.check()
    limits.reserve(_BYTES_OF_PAIR * count, "pods times their PodDisruptionBudgets")
    of_pair = np.empty(count, np.int32)
    if count:
        write_membership(pods.label_set, spaces, entries, bounds, head, following, offsets, of_pair)
    pod = np.repeat(np.arange(len(pods.spec)), np.diff(offsets))
    return BudgetMembership(offsets, of_pair, _needs(snapshot, pod, of_pair, limits), pod)


def _selected(
    snapshot: Snapshot,
    budgets: tuple[DisruptionBudget, ...],
    by_namespace: dict[str, list[int]],
    limits: RequestLimits,
) -> tuple[Int32, Int64]:
    """Return the label sets that budgets select: int32[entries, 2] (label set, budget), and the bounds by namespace.

    budgets : those of the snapshot; only their selectors matter, which change less often than their status.
    """
    index = LabelIndex(snapshot.strings, snapshot.label_sets)
    order = [row for rows in by_namespace.values() for row in reversed(rows)]
    selected = [np.zeros(0, np.int32)]
    for row in order:
        limits.check()
        selected.append(index.sets_matching(budgets[row].selector))
        limits.reserve(2 * selected[-1].nbytes, "label sets that PodDisruptionBudgets select")
    counts = np.fromiter(map(len, selected), np.int64, len(selected))
    entries = np.stack([np.concatenate(selected), np.repeat(np.array([-1, *order], np.int32), counts)], axis=1)
    ends = np.cumsum([0, *map(len, by_namespace.values())])
    return entries, np.cumsum(counts)[ends]


def _needs(snapshot: Snapshot, pod: Int64, budget: Int32, limits: RequestLimits) -> UInt8:
    """Return 1 for each (pod, budget) pair whose eviction uses a disruption. uint8[M]."""
    pods = snapshot.pods
    never = _is_exempt(pods)
    exempt = np.array([_exempts_unhealthy(row) for row in snapshot.budgets], bool)
    not_ready = (pods.flags & FLAG_READY) == 0
    needs = ~never[pod] & ~(not_ready[pod] & exempt[budget])
    granting = [row for row, budget_row in enumerate(snapshot.budgets) if budget_row.disrupted_pods]
    order = np.argsort(budget, kind="stable") if granting else budget
    for row in granting:
        limits.check()
        granted = set(snapshot.budgets[row].disrupted_pods)
        first, last = np.searchsorted(budget, (row, row + 1), sorter=order)
        at = order[first:last]
        if len(at):
            needs[at] &= np.array([pods.name.get(p) not in granted for p in pod[at]], bool)
    used: UInt8 = needs.astype(np.uint8)
    return used


def _exempts_unhealthy(budget: DisruptionBudget) -> bool:
    """Return whether evicting pods that are not ready uses no disruption."""
    if budget.always_allow_unhealthy:
        return True
    status_known = budget.observed and budget.disruptions_allowed >= 0
    return status_known and budget.desired_healthy > 0 and budget.current_healthy >= budget.desired_healthy


class Exhausted(NamedTuple):
    """Pods one of whose budgets lacks the disruption that it needs: bool[P] each, by PodDisruptionBudgets and gangs."""

    by_budgets: Bool
    by_gangs: Bool


def exhausted(under: BudgetMembership, remaining: Int64, budget_count: int) -> Exhausted:
    """Return for each pod whether a budget lacks the disruption that it needs. remaining : int64[budgets], disruptions
    that each still allows; budget_count : PodDisruptionBudgets, which come first among them.
    """
    lacking = (under.needs > 0) & (remaining[under.budgets] < 1)
    if len(remaining) == budget_count:
        return Exhausted(_any_by_pod(under, lacking), np.zeros(len(under.offsets) - 1, bool))
    of_gang = under.budgets >= budget_count
    return Exhausted(_any_by_pod(under, lacking & ~of_gang), _any_by_pod(under, lacking & of_gang))


def budgeted(under: BudgetMembership) -> Bool:
    """Return for each pod whether any budget covers it. bool[P]."""
    any_budget: Bool = np.diff(under.offsets) > 0
    return any_budget


def never_evicted(snapshot: Snapshot, under: BudgetMembership) -> Bool:
    """Return for each pod whether the eviction API always refuses it: more than one budget covers it. bool[P].

    The API checks no budget for a pod that is pending, terminating or in a terminal phase.
    """
    refused: Bool = (np.diff(under.offsets) > 1) & ~_is_exempt(snapshot.pods)
    return refused


def _is_exempt(pods: PodColumns) -> Bool:
    exempt_pods: Bool = (pods.deletion_s > 0) | (pods.phase == pb.PodPhase.PENDING) | pods.is_terminal()
    return exempt_pods


def use_up(under: BudgetMembership, remaining: Int64, pods: Int64) -> None:
    """Subtract in place the disruptions that evicting `pods` uses, at least 0: these evictions are not refused.
    remaining : int64[budgets]; pods : int64[n].
    """
    chosen = np.zeros(len(under.offsets) - 1, bool)
    chosen[pods] = True
    of_pair = chosen[under.pods]
    used = np.bincount(under.budgets[of_pair], weights=under.needs[of_pair], minlength=len(remaining))
    np.maximum(remaining - used.astype(np.int64), 0, out=remaining)


def _any_by_pod(under: BudgetMembership, pairs: Bool) -> Bool:
    marked = np.zeros(len(under.offsets) - 1, bool)
    marked[under.pods[pairs]] = True
    return marked


class GangBudgets(NamedTuple):
    """spare : int64[Q] pods of each limited gang that may be evicted; pods : int64[M] their pods on nodes, ascending;
    gang : int64[M] the gang of each."""

    spare: Int64
    pods: Int64
    gang: Int64


class LimitedGangsKey(SnapshotKey[tuple[Gang, ...]]):
    """The gangs that limit evictions."""


class GangBudgetsKey(SnapshotKey[GangBudgets]):
    """The evictions that running gangs allow."""


def gang_budgets(snapshot: Snapshot, cache: SnapshotCache) -> GangBudgets:
    """Return the budgets of the gangs that limit evictions. O(pods in gangs)."""
    if not len(snapshot.pods.group_pod):
        return _budgets(())
    return cache.get(GangBudgetsKey(), snapshot, lambda view: _budgets(limited_gangs(view, cache)))


def limited_gangs(snapshot: Snapshot, cache: SnapshotCache) -> tuple[Gang, ...]:
    """Return the gangs that limit evictions, in the order of their budgets."""
    if not len(snapshot.pods.group_pod):
        return ()

    def limited(view: Snapshot) -> tuple[Gang, ...]:
        return tuple(
            gang
            for gang in gangs_of(view, cache)
            if gang.group is not None
            and not gang.group.problem
            and not gang.group.is_basic
            # Others move with their one node.
            and (gang.topology_key or len(np.unique(view.pods.node[gang.bound])) > 1)
        )

    return cache.get(LimitedGangsKey(), snapshot, limited)


def _budgets(gangs: tuple[Gang, ...]) -> GangBudgets:
    bound = [gang.bound.astype(np.int64) for gang in gangs]
    none = np.zeros(0, np.int64)
    pods = np.concatenate([none, *bound])
    order = np.argsort(pods, kind="stable")
    of = np.repeat(np.arange(len(gangs), dtype=np.int64), [len(pods_of_gang) for pods_of_gang in bound])
    return GangBudgets(np.array([_spare(gang) for gang in gangs], np.int64), pods[order], of[order])


def _spare(gang: Gang) -> int:
    """Return how many pods of a gang may be evicted at the same time."""
    assert gang.group is not None
    if gang.group.moves_whole or gang.topology_key:
        return 0
    return max(len(gang.bound) - gang.min_count, 0)


def with_gangs(under: BudgetMembership, snapshot: Snapshot, gangs: GangBudgets) -> BudgetMembership:
    """Return the budgets of the pods, those of gangs included."""
    if not len(gangs.pods):
        return under
    count = len(under.offsets) - 1
    pods = np.concatenate([under.pods, gangs.pods])
    order = np.argsort(pods, kind="stable")
    numbers = (gangs.gang + len(snapshot.budgets)).astype(np.int32)
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(pods, minlength=count), out=offsets[1:])
    return BudgetMembership(
        offsets,
        np.concatenate([under.budgets, numbers])[order],
        np.concatenate([under.needs, np.ones(len(numbers), np.uint8)])[order],
        pods[order],
    )


def remaining(snapshot: Snapshot, cache: SnapshotCache, *, move_running: bool) -> Int64:
    """Return the evictions that each budget still allows, then each limited gang. int64[B + Q]."""
    return np.concatenate([remaining_disruptions(snapshot.budgets), _allowed(snapshot, cache, move_running)])


def refilled(snapshot: Snapshot, cache: SnapshotCache, *, move_running: bool) -> Int64:
    """Return the evictions that each budget allows once its pods are healthy again, likewise. int64[B + Q]."""
    return np.concatenate([refilled_disruptions(snapshot.budgets), _allowed(snapshot, cache, move_running)])


def _allowed(snapshot: Snapshot, cache: SnapshotCache, move_running: bool) -> Int64:
    spare = gang_budgets(snapshot, cache).spare
    return spare if move_running else np.zeros_like(spare)
