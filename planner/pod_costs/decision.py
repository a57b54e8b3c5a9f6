"""Pod costs as one of the decisions of a plan: its entry in the table."""

from typing import Final

import numpy as np
from trimtab.v1 import plan_pb2 as pb

from planner.model.settings.pod_costs import PodCostSettings, resolve_pod_costs
from planner.pod_costs.answer import decision, write_left_alone, write_ranked
from planner.pod_costs.members import active, group_pods
from planner.pod_costs.ranking import rank_target
from planner.round.decision import Decided, Decision, Summary
from planner.round.round import Round

LAYOUT: Final = 1


def decide(this: Round, settings: PodCostSettings, state: pb.PodCostsState | None) -> Decided:
    """Rank the pods of every group that a target selects."""
    del state
    grouped = group_pods(this.snapshot, settings.targets, this.derive)
    owners = grouped.members.owners
    written = [
        write_left_alone(this, int(owners[group]), int(grouped.first[group]), why)
        for group, why in sorted(grouped.left_alone.items())
    ]
    for number, target in enumerate(settings.targets):
        groups = np.flatnonzero(grouped.target == number)
        members = grouped.members.take(groups)
        ranked = rank_target(this, target, members)
        written += write_ranked(this, number, target, ranked)
        written += [
            write_left_alone(this, int(members.owners[group]), number, why)
            for group, why in sorted(ranked.left_alone.items())
        ]
    return Decided(decision(written), pb.PodCostsState(layout_version=LAYOUT), _notes(this, settings))


def _notes(this: Round, settings: PodCostSettings) -> tuple[str, ...]:
    rows = this.snapshot.dangling.owner.row
    lost = int(np.count_nonzero(active(this.snapshot.pods)[rows]))
    if settings.targets and lost:
        return (f"{lost} pods whose controllers the snapshot does not list get no deletion cost",)
    return ()


def summarize(result: pb.PodCostsDecision) -> Summary:
    """Return what logs and metrics say of a result."""
    complete = [group for group in result.groups if group.complete]
    pods = sum(len(group.order) for group in complete)
    name = "POD_COSTS_RANKED" if complete else "POD_COSTS_NONE"
    counts = {
        "ranked_groups": len(complete),
        "groups_left_alone": len(result.groups) - len(complete),
        "ranked_pods": pods,
    }
    return Summary(name, counts)


def warm_up(settings: pb.PlanSettings) -> None:
    """Choose settings with which every kernel runs."""
    target = settings.pod_costs.targets.add()
    target.strategies.add(strategy=pb.PodCostStrategy.YOUNGEST)
    target.strategies.add(strategy=pb.PodCostStrategy.BALANCE_DOMAINS, topology_key="zone")


POD_COSTS: Final = Decision(pb.Decision.POD_COSTS, resolve_pod_costs, decide, summarize, warm_up)
