"""Rank the groups of one target: all its strategies, then their sum. Decides which groups are complete, and which of
linked groups is scaled down first. Never writes an answer.

Combine the ranks of several strategies into one cost for each pod. Each strategy's ranks are capped at its
threshold, divided by it, and weighted. The sum is expressed in units of 2^-26 or, if the weights add up to more than
31, in units so large that the largest possible sum is 2^31 - 1. The cost is the negated number: lower costs are removed
first, and every int32 is a valid annotation. Exact and equal on every machine: one order of additions, one rounding,
half to even.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.pod_costs.gangs import with_gangs
from trimtab.planner.pod_costs.members import LeftAlone, Members, owner_name
from trimtab.planner.pod_costs.settings import PodCostTarget
from trimtab.planner.pod_costs.strategies import STRATEGIES
from trimtab.planner.pod_costs.strategy import RankingContext, Ranks
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64

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
