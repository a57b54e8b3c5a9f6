"""Which nodes go: all their pods, at the same time, placed on nodes that stay.

`decide` is the entry point. Eligibility, drainability (one rule a file), disruption budgets, the greedy loop, timers
and limits are modules of their own; what is remembered travels as `PlanState`, nothing is kept here.
"""

from planner.scale_down.loop import decide
from planner.scale_down.result import ScaleDownRequest, ScaleDownResult

__all__ = ["ScaleDownRequest", "ScaleDownResult", "decide"]
