"""Scale-down as one of the decisions of a plan: its entry in the table."""

from typing import Final

from trimtab.planner.model.settings import ScaleDownSettings, resolve_scale_down
from trimtab.planner.round.decision import Decided, Decision
from trimtab.planner.round.round import Round
from trimtab.planner.scale_down.context import ScaleDownRequest
from trimtab.planner.scale_down.loop import make_plan
from trimtab.planner.scale_down.report.conclude import conclude, not_tried, summarize
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import ScaleDownResult


def decide_scale_down(request: ScaleDownRequest) -> Decided:
    """Take the scale-down decision.

    The round's simulation is left unchanged, or with the pods at their destinations in the plan; `Decided.finish` makes
    the remaining moves, and removes the nodes.
    """
    if not request.settings.enabled:
        return not_tried(request)
    plan = make_plan(request)
    return conclude(plan)._replace(finish=plan.finish)


def decide(this: Round, settings: ScaleDownSettings, state: pb.ScaleDownState | None) -> Decided:
    """Take the scale-down decision of a round."""
    return decide_scale_down(ScaleDownRequest(this, settings, state))


def warm_up(settings: pb.PlanSettings) -> None:
    """Choose settings with which nodes are removed immediately and groups are balanced."""
    settings.scale_down.unneeded_time.seconds = 0
    settings.scale_down.balance = True


def failed(detail: str) -> pb.ScaleDownDecision:
    """Return the result if the decision fails."""
    return pb.ScaleDownDecision(result=ScaleDownResult.SCALE_DOWN_ERROR, detail=detail)


SCALE_DOWN: Final = Decision(pb.Decision.SCALE_DOWN, resolve_scale_down, decide, summarize, warm_up, failed)
