"""A decision that ended with an error of the planner ends the command with an exit code; the others answer. Also
`--decision` as users type it.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.builders.cli import Run, listed
from tests.builders.kubernetes import node, node_group, pod
from trimtab.clients.cli.decisions import default_decisions, read_decisions
from trimtab.clients.cli.failures import UsageError
from trimtab.planner.scale_down.decision import SCALE_DOWN
from trimtab.v1 import plan_pb2, snapshot_pb2

DATA = Path(__file__).resolve().parents[2] / "planner/pod_costs/data"
"""Source: an attack on the planner, by those who test it: a target without pods beside a gang that runs."""


def test_a_target_without_pods_costs_the_others_nothing_beside_a_running_gang(trimtab: Run) -> None:
    cluster, settings = DATA / "gang_in_no_target.json", DATA / "gang_in_no_target.settings.yaml"
    found = trimtab("plan", cluster, "--settings", settings, "--decision", "pod-costs", "-o", "json")
    (group,) = found.document()["podCosts"]["groups"]
    assert (group["owner"], group["reason"], group["target"]) == ("ReplicaSet/default/rs", "AGE_UNKNOWN", 1)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise IndexError("broken")

    # The decision is frozen, so its function is replaced beneath.
    monkeypatch.setitem(vars(SCALE_DOWN), "decide", fail)


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    "command",
    [("plan", "-o", "json"), ("plan",), ("plan", "-o", "yaml"), ("page",), ("explain",)],
    ids=" ".join,
)
def test_a_command_says_which_decision_failed_and_ends_with_a_code(
    trimtab: Run, tmp_path: Path, command: tuple[str, ...]
) -> None:
    file = listed(tmp_path, node("n1", "4"), pod("p", node="n1", cpu="1"), node_group("a", nodes=["n1"]))
    arguments: list[object] = ["plan" if command[0] == "page" else command[0], file]
    if command[0] == "page":
        arguments += ["--output", f"html={tmp_path / 'page.html'}"]
    elif command[0] == "explain":
        arguments += ["node/n1"]
    else:
        arguments += [*command[1:], "--decision", "scale-down", "--decision", "scale-up"]
    found = trimtab(*arguments)
    assert found.code == 1
    assert "scale_down" in found.err


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
