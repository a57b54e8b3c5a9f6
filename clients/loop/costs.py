"""The costs of a cluster before and after a round's plan, for the status of the loop: figures of the plan's summary."""

from typing import Any

from trimtab.clients.loop.rounds import RoundResult
from trimtab.prices import HOURS_A_MONTH
from trimtab.v1 import plan_pb2


def costs(done: RoundResult) -> dict[str, Any] | None:
    """Return hourly and monthly costs: now, after the plan with all its waves, and of all unneeded nodes; None = no
    price is known.
    """
    summary = done.answer.summary
    if summary.assumption or summary.now.node_count == summary.now.unpriced_node_count:
        return None
    figures = [one for one in summary.decisions if one.decision == plan_pb2.Decision.SCALE_DOWN]
    saved = sum(one.saved_per_hour for one in figures)
    return {
        "perHour": round(summary.now.price_per_hour, 2),
        "perHourAfterPlan": round(summary.after.price_per_hour, 2),
        "perHourUnneeded": round(saved, 2),
        "perMonth": round(summary.now.price_per_month, 2),
        "perMonthAfterPlan": round(summary.after.price_per_month, 2),
        "perMonthUnneeded": round(saved * HOURS_A_MONTH, 2),
        "nodesWithoutPrice": summary.now.unpriced_node_count,
    }
