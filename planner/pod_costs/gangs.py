"""Costs of pods that running gangs need: they go after all other pods of their owner, and gang by gang.

A gang with more pods on nodes than its minimum can spare some: those that go first by their own costs, all of one owner
before those of the next one; owners that have too many pods come first, then the first by name. The others it needs. A
gang that is disrupted as a whole needs all. The cost of the pods that a gang needs is the gang's: one number above 0,
which no other gang has, in the order of the mean of their own costs; the same for all owners of a target. A gang that
does not run its minimum has nothing to tear: its pods keep their own costs. Source: ours; the ReplicaSet controller
knows no gangs.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.gangs import Gang, gangs_of
from trimtab.planner.pod_costs.members import active, owner_texts
from trimtab.planner.pod_costs.strategy import RankingContext
from trimtab.planner.snapshot.columns import Bool, Int32, Int64

HIGHEST: Final = 1 << 26
"""Largest cost of a gang: the eviction of a pod with it counts one and a half times."""
_SHIFT: Final = 5
"""Costs of pods, at least -2^31, divided by two to this power are at least `-HIGHEST`."""


class _GangPods(NamedTuple):
    """Pods of running gangs. pods : int64[Q] rows; gang : int32[Q]; spare : int64[number of gangs], how many of its
    pods each can spare."""

    pods: Int64
    gang: Int64
    spare: Int64


def with_gangs(context: RankingContext, costs: Int32, left_alone: Collection[int]) -> Int32:
    """Return the costs, of which those of pods that gangs need are replaced. costs : int32[M]; left_alone : groups
    without costs.
    O(P + Q log Q).
    """
    gangs = [gang for gang in gangs_of(context.snapshot, context.round.work.cache) if _is_running(gang)]
    if not gangs or not len(costs):
        return costs
    in_gangs = _pods_of(gangs)
    place = np.full(len(context.snapshot.pods.owner), -1, np.int64)
    place[context.members.pods] = np.arange(len(costs))
    at = place[in_gangs.pods]
    needed = _needed(context, in_gangs, np.where(at >= 0, costs[at], 0)) & (at >= 0)
    needed[needed] = ~np.isin(context.members.group[at[needed]], list(left_alone))
    of, at = in_gangs.gang[needed], at[needed]
    changed = costs.copy()
    changed[at] = _costs_of_gangs(of, costs[at].astype(np.int64), len(gangs))[of]
    return changed


def _is_running(gang: Gang) -> bool:
    group = gang.group
    return group is not None and not group.problem and 0 < group.min_count <= len(gang.bound)


def _pods_of(gangs: list[Gang]) -> _GangPods:
    sizes = [len(gang.bound) for gang in gangs]
    spare = [
        0 if gang.group is not None and gang.group.moves_whole else len(gang.bound) - gang.min_count for gang in gangs
    ]
    pods = np.concatenate([gang.bound for gang in gangs]).astype(np.int64)
    return _GangPods(pods, np.repeat(np.arange(len(gangs)), sizes), np.array(spare, np.int64))


def _needed(context: RankingContext, in_gangs: _GangPods, costs: Int64) -> Bool:
    """Return which pods of gangs are not spare. costs : int64[Q]. bool[Q]."""
    snapshot = context.snapshot
    texts, owner = owner_texts(snapshot, context.round.work.cache), snapshot.pods.owner
    counts = np.bincount(owner[active(snapshot.pods) & (owner >= 0)], minlength=len(snapshot.owners))
    wanted = np.array([row.desired_replicas for row in snapshot.owners], np.int64)
    is_shrinking = (wanted >= 0) & (wanted < counts)
    # Places of owners in the order in which they may take spare pods; pods without an owner are the last.
    turn = np.append(np.where(is_shrinking, texts.place, texts.place + len(texts.place)), 2 * len(texts.place))
    order = np.lexsort((in_gangs.pods, costs, turn[owner[in_gangs.pods]], in_gangs.gang))
    starts = np.searchsorted(in_gangs.gang, np.arange(len(in_gangs.spare)))
    needed = np.zeros(len(order), np.bool_)
    # Pods are sorted by gang, as `order` is, so that both number the same gang at the same place.
    needed[order] = np.arange(len(order)) - starts[in_gangs.gang] >= in_gangs.spare[in_gangs.gang]
    return needed


def _costs_of_gangs(gang: Int64, costs: Int64, count: int) -> Int64:
    """Return the cost of each gang, arbitrary without pods. gang, costs : int64[pods that gangs need]. int64[count]."""
    sums, sizes = np.zeros(count, np.int64), np.bincount(gang, minlength=count)
    np.add.at(sums, gang, costs)
    ranked = np.flatnonzero(sizes)
    mean = sums[ranked] // sizes[ranked]
    order = np.argsort(mean, kind="stable")
    number = np.arange(len(order))
    # Distinct costs: among equal ones the last has its own, so that those after a gang that goes do not change.
    own = (mean[order] >> _SHIFT) + HIGHEST - number
    distinct = np.minimum.accumulate(own[::-1])[::-1] + number
    cost_of_gang = np.zeros(count, np.int64)
    cost_of_gang[ranked[order]] = np.maximum(distinct, number + 1)
    return cost_of_gang
