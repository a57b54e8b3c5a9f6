"""What a cluster costs for one hour before and after a plan, from the summary of an answer."""

from typing import NamedTuple

from trimtab.v1 import plan_pb2


class Money(NamedTuple):
    """Prices now, before the replacement, and after it; no cluster of these node groups costs less than the bound, 0 =
    not computed; number of nodes without price.
    """

    now_per_hour: float
    before_per_hour: float
    after_per_hour: float
    bound_per_hour: float
    unpriced_node_count: int


def money_of(answer: plan_pb2.PlanResponse) -> Money:
    """Return the money of an answer with a replacement."""
    summary = answer.summary
    (figures,) = [one for one in summary.decisions if one.decision == plan_pb2.Decision.REPLACEMENT]
    after = figures.after.price_per_hour
    before = after + figures.saved_per_hour - figures.bought_per_hour
    bound = before - figures.most_saved_per_hour if figures.HasField("most_saved_per_hour") else 0.0
    return Money(summary.now.price_per_hour, before, after, bound, summary.now.unpriced_node_count)
