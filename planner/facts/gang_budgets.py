"""Running gangs as budgets of evictions, beside PodDisruptionBudgets: how many pods of each may be evicted at a time so
that its minimum runs. Each gets a number after those of the PodDisruptionBudgets.

A gang that is disrupted as a whole, or whose pods are bound to one domain, may lose none: its pods would be placed one
by one elsewhere. A gang with all its pods on one node is moved whole with that node, and is not limited, unless a
domain binds it. Scale-down moves some gangs whole from several nodes (`scale_down.whole_gangs`). Source: ours; no
autoscaler upstream knows gangs.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.facts.gangs import Gang, gangs_of
from trimtab.planner.facts.pdb import BudgetMembership, refilled_disruptions, remaining_disruptions
from trimtab.planner.model.values import PodGroup
from trimtab.planner.snapshot.caches import SnapshotCache, SnapshotKey
from trimtab.planner.snapshot.columns import Int64, Snapshot


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
    return cache.get(LimitedGangsKey(), snapshot, lambda view: _limited(view, cache))


def _limited(snapshot: Snapshot, cache: SnapshotCache) -> tuple[Gang, ...]:
    gangs = gangs_of(snapshot, cache)
    return tuple(gang for gang in gangs if _is_bound(gang.group) and not _moves_with_one_node(snapshot, gang))


def _is_bound(group: PodGroup | None) -> bool:
    """Return whether a group has a minimum or a domain."""
    return group is not None and not group.problem and not group.is_basic


def _moves_with_one_node(snapshot: Snapshot, gang: Gang) -> bool:
    return not gang.topology_key and len(np.unique(snapshot.pods.node[gang.bound])) < 2


def _budgets(gangs: tuple[Gang, ...]) -> GangBudgets:
    bound = [gang.bound.astype(np.int64) for gang in gangs]
    none = np.zeros(0, np.int64)
    pods = np.concatenate([none, *bound])
    order = np.argsort(pods, kind="stable")
    of = np.repeat(np.arange(len(gangs), dtype=np.int64), [len(one) for one in bound])
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
