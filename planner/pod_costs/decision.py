"""Pod costs as one of the decisions of a plan: its entry in the table."""

from typing import Final

import numpy as np

from trimtab.planner.pod_costs.members import LeftAlone, Members, active, group_pods, owner_name, owner_texts
from trimtab.planner.pod_costs.ranking import rank_target
from trimtab.planner.pod_costs.settings import PodCostSettings, PodCostTarget, resolve_pod_costs
from trimtab.planner.pod_costs.strategy import RankingContext
from trimtab.planner.round.decision import Decided, Decision, Summary
from trimtab.planner.round.round import Round
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2
from trimtab.words import counted

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
    """Return by owner the groups of target `number`."""
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
