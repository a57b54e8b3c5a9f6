"""What one decision alone says of nodes, as in an answer."""

from collections.abc import Sequence
from typing import Any

from trimtab.planner.round.decision import Decided
from trimtab.v1 import plan_pb2


def judged(decided: Decided, nodes: Sequence[str], field: str = "scale_down") -> plan_pb2.PlanResponse:
    """Return an answer with a decision and its verdicts. nodes : the names of the snapshot's nodes, sorted."""
    answer: Any = plan_pb2.PlanResponse()
    getattr(answer, field).CopyFrom(decided.result)
    for name in nodes:
        answer.nodes.add(node=name)
    decided.judge(list(answer.nodes))
    return answer  # type: ignore[no-any-return]
