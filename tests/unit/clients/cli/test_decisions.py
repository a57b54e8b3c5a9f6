"""`--decision` as users type it."""

from typing import Any

import pytest

from trimtab.clients.cli.decisions import default_decisions, read_decisions
from trimtab.clients.cli.failures import UsageError
from trimtab.v1 import plan_pb2, snapshot_pb2

DOWN, UP = plan_pb2.Decision.SCALE_DOWN, plan_pb2.Decision.SCALE_UP
SLACK, COSTS = plan_pb2.Decision.SLACK, plan_pb2.Decision.POD_COSTS


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param([], [], id="nothing asked for"),
        pytest.param(["scale-down"], [DOWN], id="with a dash"),
        pytest.param(["SCALE_DOWN"], [DOWN], id="as in the contract"),
        pytest.param(["scale-up", "Scale-Down", "scale_up"], [UP, DOWN], id="several, one twice"),
    ],
)
def test_names_are_read_in_the_order_given(names: list[str], expected: list[int]) -> None:
    assert read_decisions(names) == expected


@pytest.mark.parametrize("name", ["", "unspecified", "scaledown", "everything"])
def test_an_unknown_name_is_refused_and_the_known_ones_listed(name: str) -> None:
    with pytest.raises(UsageError, match="scale-up, slack, scale-down, pod-costs"):
        read_decisions([name])


TARGETS = plan_pb2.PodCostSettings(targets=[plan_pb2.PodCostTarget()])
BUFFER = snapshot_pb2.SlackRequests(requests=[snapshot_pb2.SlackRequest(object="CapacityBuffer/default/b")])


@pytest.mark.parametrize(
    ("settings", "requests", "expected"),
    [
        pytest.param({}, None, [UP, DOWN], id="nothing more"),
        pytest.param({"slack": plan_pb2.SlackSettings()}, None, [UP, DOWN, SLACK], id="settings of slack"),
        pytest.param({}, BUFFER, [UP, DOWN, SLACK], id="a workload or buffer asks for slack"),
        pytest.param({"pod_costs": TARGETS}, None, [UP, DOWN, COSTS], id="targets of pod costs"),
        pytest.param({"pod_costs": plan_pb2.PodCostSettings()}, None, [UP, DOWN, COSTS], id="settings of pod costs"),
    ],
)
def test_without_the_option_what_the_input_asks_for_is_decided(
    settings: dict[str, Any], requests: snapshot_pb2.SlackRequests | None, expected: list[int]
) -> None:
    snapshot = snapshot_pb2.ClusterSnapshot(slack_requests=requests)
    assert default_decisions(plan_pb2.PlanSettings(**settings), snapshot) == expected
