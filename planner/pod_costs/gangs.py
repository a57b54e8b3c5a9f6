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
    gangs = [one for one in gangs_of(context.snapshot, context.round.work.cache) if _is_running(one)]
    if not gangs or not len(costs):
        return costs
    found = _pods_of(gangs)
    place = np.full(len(context.snapshot.pods.owner), -1, np.int64)
    place[context.members.pods] = np.arange(len(costs))
    at = place[found.pods]
    needed = _needed(context, found, np.where(at >= 0, costs[at], 0)) & (at >= 0)
    needed[needed] = ~np.isin(context.members.group[at[needed]], list(left_alone))
    of, at = found.gang[needed], at[needed]
    changed = costs.copy()
    changed[at] = _costs_of_gangs(of, costs[at].astype(np.int64), len(gangs))[of]
    return changed


def _is_running(gang: Gang) -> bool:
    group = gang.group
    return group is not None and not group.problem and 0 < group.min_count <= len(gang.bound)


def _pods_of(gangs: list[Gang]) -> _GangPods:
    sizes = [len(one.bound) for one in gangs]
    spare = [0 if one.group is not None and one.group.moves_whole else len(one.bound) - one.min_count for one in gangs]
    pods = np.concatenate([one.bound for one in gangs]).astype(np.int64)
    return _GangPods(pods, np.repeat(np.arange(len(gangs)), sizes), np.array(spare, np.int64))


def _needed(context: RankingContext, found: _GangPods, costs: Int64) -> Bool:
    """Return which pods of gangs are not spare. costs : int64[Q]. bool[Q]."""
    snapshot = context.snapshot
    texts, owner = owner_texts(snapshot, context.round.work.cache), snapshot.pods.owner
    counts = np.bincount(owner[active(snapshot.pods) & (owner >= 0)], minlength=len(snapshot.owners))
    wanted = np.array([one.desired_replicas for one in snapshot.owners], np.int64)
    is_shrinking = (wanted >= 0) & (wanted < counts)
    # Places of owners in the order in which they may take spare pods; pods without an owner are the last.
    turn = np.append(np.where(is_shrinking, texts.place, texts.place + len(texts.place)), 2 * len(texts.place))
    order = np.lexsort((found.pods, costs, turn[owner[found.pods]], found.gang))
    starts = np.searchsorted(found.gang, np.arange(len(found.spare)))
    needed = np.zeros(len(order), np.bool_)
    # Pods are sorted by gang, as `order` is, so that both number the same gang at the same place.
    needed[order] = np.arange(len(order)) - starts[found.gang] >= found.spare[found.gang]
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
    found = np.zeros(count, np.int64)
    found[ranked[order]] = np.maximum(distinct, number + 1)
    return found
