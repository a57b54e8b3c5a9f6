"""What one decision alone says of nodes, as in an answer."""

import math

from trimtab.clients.verdicts import going
from trimtab.planner.facts.nodes import prices
from trimtab.planner.round.decision import Decided
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.v1 import plan_pb2


def judged(decided: Decided, snapshot: Snapshot) -> plan_pb2.PlanResponse:
    """Return an answer with a decision of scale-down and its verdicts."""
    answer = plan_pb2.PlanResponse()
    answer.scale_down.CopyFrom(decided.result)  # type: ignore[arg-type]
    for name, price in zip(snapshot.nodes.name, prices(snapshot).tolist(), strict=True):
        answer.nodes.add(node=name, price_per_hour=None if math.isnan(price) else price)
    decided.judge(list(answer.nodes))
    return answer


def saving_of(answer: plan_pb2.PlanResponse) -> float:
    """Return what the unneeded nodes cost, those of unknown price excepted."""
    return sum(one.price_per_hour for one in going(answer))
