"""Scale-down as one of the decisions of a plan: its entry in the table."""

from typing import Final

from trimtab.planner.model.settings import ScaleDownSettings, resolve_scale_down
from trimtab.planner.round.decision import Decided, Decision, Summary
from trimtab.planner.round.round import Round
from trimtab.planner.scale_down.loop import decide_scale_down
from trimtab.planner.scale_down.report.findings import summary_of
from trimtab.planner.scale_down.request import ScaleDownRequest
from trimtab.v1 import plan_pb2 as pb


def decide(this: Round, settings: ScaleDownSettings, state: pb.ScaleDownState | None) -> Decided:
    """Take the scale-down decision."""
    return decide_scale_down(ScaleDownRequest(this, settings, state))


def summarize(result: pb.ScaleDownDecision) -> Summary:
    """Return the figures of a whole result for logs and metrics."""
    return summary_of(result, len(result.unneeded))


def warm_up(settings: pb.PlanSettings) -> None:
    """Choose settings with which nodes are removed immediately and groups are balanced."""
    settings.scale_down.unneeded_time.seconds = 0
    settings.scale_down.balance = True


SCALE_DOWN: Final = Decision(pb.Decision.SCALE_DOWN, resolve_scale_down, decide, summarize, warm_up)
