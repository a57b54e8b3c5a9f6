"""Pod costs as one of the decisions of a plan: its entry in the table. Groups are encoded by owner, each by itself, so
that later snapshots use unchanged ones.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.pod_costs.earlier_rankings import (
    EarlierRankings,
    RankingsKey,
    facts_of,
    places,
    pods_of,
    touched,
    turned,
)
from trimtab.planner.pod_costs.gangs import in_pod_groups
from trimtab.planner.pod_costs.members import Grouped, LeftAlone, active, group_pods, owner_name, owner_texts
from trimtab.planner.pod_costs.ranking import Ranked, rank_target, turns
from trimtab.planner.pod_costs.settings import PodCostSettings, PodCostTarget, resolve_pod_costs
from trimtab.planner.pod_costs.strategies import BY_CODE
from trimtab.planner.pod_costs.strategy import RankingContext
from trimtab.planner.round.decision import Decided, Decision, Summary
from trimtab.planner.round.round import Round
from trimtab.planner.snapshot.columns import Bool, Int64
from trimtab.planner.snapshot.references import take_or
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2
from trimtab.words import counted


class Written(NamedTuple):
    """Encoded groups. owners : int64[G], numbers of the owners; data : the bytes of a `PodCostsDecision` with one group
    each; ranked_count : how many of the groups are ranked.
    """

    owners: Int64
    data: list[bytes]
    ranked_count: int


def write_ranked(
    this: Round, number: int, target: PodCostTarget, ranked: Ranked, waits_for: Mapping[int, int]
) -> Written:
    """Return the complete groups of target `number`. waits_for : by owner, the owner that is scaled down first."""
    members, bounds = ranked.members, ranked.members.bounds.tolist()
    every = owner_texts(this.snapshot, this.work.cache).names
    pods, costs = this.snapshot.pod_keys(members.pods), ranked.costs.tolist()
    columns = [
        (BY_CODE[term.strategy].code, *(column.astype("<f8").tobytes() for column in share))
        for term, share in zip(target.terms, ranked.shares, strict=True)
    ]
    data = []
    for owner, first, last in zip(members.owners.tolist(), bounds, bounds[1:], strict=False):
        decision = pb.PodCostsDecision()
        group = decision.groups.add(
            owner=every[owner],
            pods=pods[first:last],
            costs=costs[first:last],
            complete=True,
            ranked_after_each_removal=ranked.after_each_removal,
            waits_for=every[waits_for[owner]] if owner in waits_for else "",
            target=number,
        )
        rows = slice(8 * first, 8 * last)
        for code, ranks, own_ranks in columns:
            group.shares.add(strategy=code, ranks=ranks[rows], own_ranks=own_ranks[rows])
        data.append(decision.SerializeToString())
    return Written(members.owners, data, len(data))


def write_left_alone(this: Round, owner: int, target: int, why: LeftAlone) -> Written:
    """Return a group without costs."""
    entry = pb.PodCostsDecision()
    entry.groups.add(owner=owner_name(this.snapshot, owner), reason=why.reason, detail=why.detail, target=target)
    return Written(np.array([owner], np.int64), [entry.SerializeToString()], 0)


def add_groups(decision: pb.PodCostsDecision, this: Round, written: list[Written]) -> None:
    """Add all groups in order of their owners' texts."""
    if not written:
        return
    owners = np.concatenate([one.owners for one in written])
    data = [part for one in written for part in one.data]
    order = np.argsort(owner_texts(this.snapshot, this.work.cache).place[owners])
    decision.MergeFromString(b"".join([data[at] for at in order.tolist()]))


Outcome = reason_pb2.PodCostsResult


def decide(this: Round, settings: PodCostSettings, state: pb.PodCostsState | None) -> Decided:
    """Rank the pods of every group that a target selects."""
    del state
    grouped = group_pods(this.snapshot, settings.targets, this.work.cache)
    written = written_groups(this, settings, grouped)
    is_ranked = any(part.ranked_count for part in written)
    decision = pb.PodCostsDecision(result=Outcome.POD_COSTS_RANKED if is_ranked else Outcome.POD_COSTS_NONE)
    add_groups(decision, this, written)
    return Decided(decision, pb.PodCostsState(), _notes(this, settings, grouped.gone))


def written_groups(this: Round, settings: PodCostSettings, grouped: Grouped) -> list[Written]:
    """Return every group that a target selects, encoded."""
    owners = grouped.members.owners
    written = [
        write_left_alone(this, int(owners[group]), int(grouped.first[group]), why)
        for group, why in sorted(grouped.left_alone.items())
    ]
    for number, target in enumerate(settings.targets):
        members = grouped.members.take(np.flatnonzero(grouped.target == number))
        context = RankingContext(this, members, members)
        if len(members.owners):
            written.append(_rank_touched(number, target, context))
    return written


def _complete(ranked: Ranked, count: int) -> Bool:
    """Return which groups are ranked. bool[count]."""
    complete = np.ones(count, np.bool_)
    complete[list(ranked.left_alone)] = False
    return complete


def _write(
    number: int, target: PodCostTarget, context: RankingContext, ranked: Ranked, waits: dict[int, int]
) -> list[Written]:
    """Write the groups of a target, both ranked ones and those left alone."""
    this, owners = context.round, context.members.owners
    left_alone = [
        write_left_alone(this, int(owners[group]), number, why) for group, why in sorted(ranked.left_alone.items())
    ]
    return [write_ranked(this, number, target, ranked, waits), *left_alone]


def _rank_touched(number: int, target: PodCostTarget, context: RankingContext) -> Written:
    """Rank the groups of a target that have changed since the previous snapshot, and reuse the others."""
    this, members = context.round, context.members
    key, facts, texts = RankingsKey(number, target), facts_of(this, target), owner_texts(this.snapshot, this.work.cache)
    earlier = this.work.cache.find(key)
    pods, place = pods_of(context, target), places(this, members, earlier)
    complete = np.ones(len(place), np.bool_) if earlier is None else take_or(earlier.complete, place, True)
    data = [b""] * len(place) if earlier is None else [earlier.data[at] for at in place.tolist()]
    # What a gang spares, and its cost, depend on all its pods: groups with pods in gangs are ranked together.
    in_gangs = in_pod_groups(this, members)
    again = touched(this, facts, pods, earlier, place) | in_gangs
    if earlier is not None:
        again |= take_or(earlier.in_gangs, place, False)
    ranked = _rank_some(context, target, again, complete)
    waits = turns(context, target, complete)
    # An unchanged group that now waits for another one is written again.
    ranked += _rank_some(context, target, turned(members, texts, waits, earlier, place) & ~again, complete)
    for part, found in ranked:
        for one in _write(number, target, part, found, waits):
            for at, written in zip(np.searchsorted(members.owners, one.owners).tolist(), one.data, strict=True):
                data[at] = written
    made = EarlierRankings(facts, this.snapshot.pods.name, texts, members.owners, pods, complete, in_gangs, waits, data)
    this.work.cache.put(key, made)
    return Written(members.owners, data, int(np.count_nonzero(complete)))


def _rank_some(
    context: RankingContext, target: PodCostTarget, which: Bool, complete: Bool
) -> list[tuple[RankingContext, Ranked]]:
    """Rank some of the groups, if any, and mark in place which of them are complete. which, complete : bool[G]."""
    if not which.any():
        return []
    part = context.part(np.flatnonzero(which))
    ranked = rank_target(part, target)
    complete[which] = _complete(ranked, len(part.members.owners))
    return [(part, ranked)]


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
    """Choose settings with which every kernel runs."""
    target = settings.pod_costs.targets.add()
    target.strategies.add(strategy=pb.PodCostStrategy.YOUNGEST)
    target.strategies.add(strategy=pb.PodCostStrategy.BALANCE_DOMAINS, topology_key="zone")
    target.strategies.add(strategy=pb.PodCostStrategy.ANTI_AFFINITY)


def failed(detail: str) -> pb.PodCostsDecision:
    """Return the result if the decision fails."""
    return pb.PodCostsDecision(result=Outcome.POD_COSTS_ERROR, detail=detail)


POD_COSTS: Final = Decision(pb.Decision.POD_COSTS, resolve_pod_costs, decide, summarize, warm_up, failed)
