"""A request for a decision that the table lacks is refused, and the error says where the others are listed."""

import pytest

from trimtab.planner.decisions.requests import DecisionUnavailableError, RequestError, check_decisions
from trimtab.planner.scale_down.decision import SCALE_DOWN
from trimtab.v1 import plan_pb2 as pb


def test_a_decision_of_a_later_build_is_unavailable() -> None:
    request = pb.PlanRequest(decisions=[pb.Decision.SCALE_DOWN, pb.Decision.SLACK])
    with pytest.raises(DecisionUnavailableError, match=r"SLACK.*GetInfo") as error:
        check_decisions(request, (SCALE_DOWN,))
    assert error.value.decision == "SLACK"
    check_decisions(pb.PlanRequest(decisions=[pb.Decision.SCALE_DOWN]), (SCALE_DOWN,))


def test_a_number_that_is_not_a_decision_is_refused() -> None:
    with pytest.raises(RequestError):
        check_decisions(pb.PlanRequest(decisions=[99]))  # type: ignore[list-item]
