"""Pod costs as one of the decisions of a plan: its entry in the table.

A target's strategies are combined into one cost for each pod: ranks are capped at the strategy's threshold, divided by
it, and weighted. The sum is expressed in units of 2^-26 or, if the weights add up to more than 31, in units so large
that the largest possible sum is 2^31 - 1. The cost is the negated number: lower costs are removed first. Exact and
equal on every machine: one order of additions, one rounding, half to even.

Pods that running gangs need go after all other pods of their owner, and gang by gang. A gang with more pods on nodes
than its minimum can spare some: those that go first by their own costs, all of one owner before those of the next;
owners that have too many pods come first. The cost of the others is the gang's: one number above 0, which no other gang
has, in the order of the mean of their own costs. A gang that is disrupted as a whole needs all its pods; one that does
not run its minimum has nothing to tear. Source: ours; the ReplicaSet controller knows no gangs.
"""

import math
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.gangs import Gang, gangs_of
from trimtab.planner.pod_costs.members import LeftAlone, Members, active, group_pods, owner_name, owner_texts
from trimtab.planner.pod_costs.settings import PodCostSettings, PodCostTarget, resolve_pod_costs
from trimtab.planner.pod_costs.strategies.pods import STRATEGIES
from trimtab.planner.pod_costs.strategy import RankingContext, Ranks
from trimtab.planner.round.decision import Decided, Decision, Summary
from trimtab.planner.round.round import Round
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2
from trimtab.words import counted

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
    gangs = [
        gang
        for gang in gangs_of(context.snapshot, context.round.work.cache)
        if gang.group is not None and not gang.group.problem and 0 < gang.group.min_count <= len(gang.bound)
    ]
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


UNITS: Final = float(1 << 26)
LARGEST: Final = float((1 << 31) - 1)


def share(rank: Float64, threshold: float, weight: float) -> Float64:
    """Return a strategy's contribution: 0 to its weight. rank : float64[M]."""
    # One array for all steps: allocating memory costs more than the arithmetic.
    contribution: Float64 = np.maximum(rank, 0.0)
    np.minimum(contribution, threshold, out=contribution)
    contribution /= threshold
    contribution *= weight
    return contribution


def costs_of(shares: Sequence[Float64], weights: Sequence[float]) -> Int32:
    """Return the costs: int32[M], -(2^31 - 1) to 0. shares : of each strategy, float64[M], 0 to its weight."""
    heaviest = max(weights)
    # Weights near the largest float would add up to infinity; divided by the largest weight they do not.
    relative = math.fsum(weight / heaviest for weight in weights) if heaviest else 0.0
    is_small = relative * heaviest * UNITS <= LARGEST
    unit = UNITS if is_small else LARGEST / relative
    total = np.zeros(len(shares[0]))
    for contribution in shares:
        total += contribution if is_small else contribution / heaviest
    total *= unit
    np.minimum(np.rint(total, out=total), LARGEST, out=total)
    return np.negative(total, out=total).astype(np.int32)


class Ranked(NamedTuple):
    """Complete groups of one target, and why the others are not.

    members : with the pods of each group in the order of removal; costs : int32[M]; shares : float64[S, 2, M], the
    weighted and the own ranks of each strategy; left_alone : by position of the group among those to be ranked;
    waits_for : by owner, the owner that is scaled down first.
    """

    members: Members
    costs: Int32
    shares: Float64
    after_each_removal: bool
    left_alone: dict[int, LeftAlone]
    waits_for: dict[int, int]


def rank_target(context: RankingContext, target: PodCostTarget) -> Ranked:
    """Rank all groups of a target by its strategies."""
    members = context.members
    ranks_of_terms: list[Ranks] = []
    shares: list[Float64] = []
    own: list[Float64] = []
    for term in target.terms:
        context.round.work.limits.check()
        strategy = STRATEGIES[term.strategy]
        threshold = strategy.threshold if term.threshold is None else term.threshold
        ranks = strategy.rank(context, term, threshold)
        own.append(ranks.rank if np.isfinite(ranks.rank).all() else np.nan_to_num(ranks.rank))
        shares.append(share(own[-1], threshold, term.weight))
        ranks_of_terms.append(ranks)
    left_alone = _unranked(members, ranks_of_terms)
    cost = with_gangs(context, costs_of(shares, [term.weight for term in target.terms]), left_alone)
    order = np.argsort((members.group << 32) + cost, kind="stable")
    is_complete = np.ones(len(members.owners), np.bool_)
    is_complete[list(left_alone)] = False
    order = order[is_complete[members.group]]
    return Ranked(
        members=members.take(np.flatnonzero(is_complete))._replace(pods=members.pods[order]),
        costs=cost[order],
        shares=_in_order(shares, own, order),
        after_each_removal=any(STRATEGIES[term.strategy].after_each_removal for term in target.terms),
        left_alone=left_alone,
        waits_for=_turns(
            context, next((ranks.linked for ranks in ranks_of_terms if ranks.linked is not None), None), is_complete
        ),
    )


def _in_order(shares: Sequence[Float64], own: Sequence[Float64], order: Int64) -> Float64:
    """Return both ranks of each strategy in the order of removal. float64[S, 2, M]."""
    both = np.empty((len(shares), 2, len(order)))
    for half, ranks in enumerate((shares, own)):
        for number, row in enumerate(ranks):
            np.take(row, order, out=both[number, half], mode="clip")
    return both


def _unranked(members: Members, ranks_of_terms: list[Ranks]) -> dict[int, LeftAlone]:
    """Return why groups are not complete: the first strategy with a pod that it cannot rank, and its first such pod."""
    left_alone: dict[int, LeftAlone] = {}
    for unranked in (unranked for ranks in ranks_of_terms for unranked in ranks.unranked):
        places = np.flatnonzero(unranked.which)
        groups, first = np.unique(np.searchsorted(members.bounds, places, "right") - 1, return_index=True)
        for group, place in zip(groups.tolist(), places[first].tolist(), strict=True):
            if group not in left_alone:
                left_alone[group] = LeftAlone(unranked.reason, unranked.detail(place))
    return left_alone


def _turns(context: RankingContext, linked: Int64 | None, complete: Bool) -> dict[int, int]:
    """Return by owner the owner that is scaled down first: one of the linked groups, if it has more pods than wanted.
    linked : int64[G] as of `Ranks`; complete : bool[G], the ranked groups; the others have no turn.
    """
    members, waits = context.members, dict[int, int]()
    sizes = np.diff(members.bounds)

    def rank(group: int) -> tuple[bool, str, int]:
        owner = context.snapshot.owners[members.owners[group]]
        is_shrinking = 0 <= owner.desired_replicas < sizes[group]
        return not is_shrinking, owner_name(context.snapshot, int(members.owners[group])), group

    if linked is None:
        return waits
    groups = np.flatnonzero(complete)
    groups = groups[np.argsort(linked[groups], kind="stable")]
    for together in np.split(groups, np.flatnonzero(np.diff(linked[groups])) + 1):
        first = min(together.tolist(), key=rank, default=-1)
        waits |= {
            int(members.owners[group]): int(members.owners[first]) for group in together.tolist() if group != first
        }
    return waits


Outcome = reason_pb2.PodCostsResult


def decide(this: Round, settings: PodCostSettings, state: pb.PodCostsState | None) -> Decided:
    """Rank the pods of every group that a target selects."""
    del state
    grouped = group_pods(this.snapshot, settings.targets, this.work.cache)
    owners = grouped.members.owners
    groups = {
        int(owners[group]): _left_alone(this, int(owners[group]), int(grouped.first[group]), why)
        for group, why in grouped.left_alone.items()
    }
    for number, target in enumerate(settings.targets):
        members = grouped.members.take(np.flatnonzero(grouped.target == number))
        if len(members.owners):
            groups |= _ranked_groups(this, number, target, members)
    place = owner_texts(this.snapshot, this.work.cache).place
    is_ranked = any(group.complete for group in groups.values())
    decision = pb.PodCostsDecision(
        groups=[groups[owner] for owner in sorted(groups, key=place.__getitem__)],
        result=Outcome.POD_COSTS_RANKED if is_ranked else Outcome.POD_COSTS_NONE,
    )
    return Decided(decision, pb.PodCostsState(), _notes(this, settings, grouped.gone))


def _ranked_groups(this: Round, number: int, target: PodCostTarget, members: Members) -> dict[int, pb.PodCostGroup]:
    ranked = rank_target(RankingContext(this, members), target)
    bounds, every = ranked.members.bounds.tolist(), owner_texts(this.snapshot, this.work.cache).names
    pods, costs = this.snapshot.pod_keys(ranked.members.pods), ranked.costs.tolist()
    columns = [
        (term.strategy, *(column.astype("<f8").tobytes() for column in share))
        for term, share in zip(target.terms, ranked.shares, strict=True)
    ]
    groups = {
        int(members.owners[group]): _left_alone(this, int(members.owners[group]), number, why)
        for group, why in ranked.left_alone.items()
    }
    for owner, first, last in zip(ranked.members.owners.tolist(), bounds, bounds[1:], strict=False):
        waits_for = every[ranked.waits_for[owner]] if owner in ranked.waits_for else ""
        groups[owner] = group = pb.PodCostGroup(
            owner=every[owner],
            pods=pods[first:last],
            costs=costs[first:last],
            complete=True,
            ranked_after_each_removal=ranked.after_each_removal,
            waits_for=waits_for,
            target=number,
        )
        rows = slice(8 * first, 8 * last)
        for code, ranks, own_ranks in columns:
            group.shares.add(strategy=code, ranks=ranks[rows], own_ranks=own_ranks[rows])
    return groups


def _left_alone(this: Round, owner: int, target: int, why: LeftAlone) -> pb.PodCostGroup:
    return pb.PodCostGroup(owner=owner_name(this.snapshot, owner), reason=why.reason, detail=why.detail, target=target)


def _notes(this: Round, settings: PodCostSettings, gone: int) -> tuple[str, ...]:
    rows = this.snapshot.dangling.owner.row
    lost = int(np.count_nonzero(active(this.snapshot.pods)[rows]))
    notes = []
    if settings.targets and lost:
        notes.append(f"{counted(lost, 'pod')} of controllers that the snapshot does not list: no deletion cost")
    if gone:
        notes.append(
            f"{counted(gone, 'pod', ('gets', 'get'))} no deletion cost: controllers remove pods that are on no node, "
            "pending or not ready before they look at costs"
        )
    return tuple(notes)


def summarize(result: pb.PodCostsDecision) -> Summary:
    """Return the summary of a result for logs and metrics."""
    complete = [group for group in result.groups if group.complete]
    pods = sum(len(group.pods) for group in complete)
    counts = {
        "ranked_groups": len(complete),
        "groups_left_alone": len(result.groups) - len(complete),
        "ranked_pods": pods,
    }
    return Summary(Outcome.Code.Name(result.result), counts)


def warm_up(settings: pb.PlanSettings) -> None:
    """Choose settings with which pods are grouped, the only step with a kernel."""
    settings.pod_costs.targets.add().strategies.add(strategy=pb.PodCostStrategy.YOUNGEST)


def failed(detail: str) -> pb.PodCostsDecision:
    """Return the result if the decision fails."""
    return pb.PodCostsDecision(result=Outcome.POD_COSTS_ERROR, detail=detail)


POD_COSTS: Final = Decision(pb.Decision.POD_COSTS, resolve_pod_costs, decide, summarize, warm_up, failed)
