"""Scale-up as one of the decisions of a plan: its entry in the table."""

from typing import Final

from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2

from planner.model.settings import ScaleUpSettings, resolve_scale_up
from planner.round.decision import Decided, Decision, Summary
from planner.round.round import Round
from planner.scale_up.growth_need import growth_need
from planner.scale_up.loop import decide_scale_up
from planner.scale_up.request import ScaleUpRequest


def decide(this: Round, settings: ScaleUpSettings, state: pb.ScaleUpState | None) -> Decided:
    """Take the scale-up decision."""
    return decide_scale_up(ScaleUpRequest(this, settings, state))


def summarize(result: pb.ScaleUpDecision) -> Summary:
    """Return the figures of a result for logs and metrics."""
    counts = {
        "new_nodes": sum(split.new_size - split.current_size for split in result.splits),
        "node_groups": len(result.splits),
        "pods_on_new_nodes": sum(len(split.pods) for split in result.splits),
        "pods_on_existing_nodes": len(result.on_existing),
        "pods_on_upcoming_nodes": len(result.on_upcoming),
        "unschedulable": len(result.unschedulable),
        "skipped": len(result.skipped),
        "evaluated": result.evaluated,
        "not_evaluated": result.not_evaluated,
    }
    return Summary(reason_pb2.ScaleUpResult.Code.Name(result.result), counts)


def warm_up(settings: pb.PlanSettings) -> None:
    """Choose settings with which a plan is made as a whole and group by group, and groups are balanced."""
    settings.scale_up.expanders.append(pb.Expander.CHEAPEST_PLAN)
    settings.scale_up.balance_similar_node_groups = True


SCALE_UP: Final = Decision(pb.Decision.SCALE_UP, resolve_scale_up, decide, summarize, warm_up, growth_need)
