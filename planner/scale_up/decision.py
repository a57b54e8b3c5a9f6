"""Scale-up as one of the decisions of a plan: its entry in the table."""

from typing import Final

from trimtab.planner.model.settings import ScaleUpSettings, resolve_scale_up
from trimtab.planner.round.decision import Decided, Decision
from trimtab.planner.round.round import Round
from trimtab.planner.scale_up.context import ScaleUpRequest
from trimtab.planner.scale_up.growth_need import growth_need
from trimtab.planner.scale_up.loop import best_plan
from trimtab.planner.scale_up.report.answer import conclude, not_tried, summarize
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import ScaleUpResult


def decide(this: Round, settings: ScaleUpSettings, state: pb.ScaleUpState | None) -> Decided:
    """Take the scale-up decision."""
    request = ScaleUpRequest(this, settings, state)
    return conclude(best_plan(request)) if settings.enabled else not_tried(request)


def warm_up(settings: pb.PlanSettings) -> None:
    """Choose settings with which a plan is made as a whole and group by group, and groups are balanced."""
    settings.scale_up.expanders.append(pb.Expander.CHEAPEST_PLAN)
    settings.scale_up.balance_similar_node_groups = True


def failed(detail: str) -> pb.ScaleUpDecision:
    """Return the result if the decision fails."""
    return pb.ScaleUpDecision(result=ScaleUpResult.SCALE_UP_ERROR, detail=detail)


SCALE_UP: Final = Decision(pb.Decision.SCALE_UP, resolve_scale_up, decide, summarize, warm_up, failed, growth_need)
