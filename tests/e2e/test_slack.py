"""Slack on a real control plane: CapacityBuffers of the real API server, room that the real scheduler finds at once."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders.capacity_buffers import buffer, template
from tests.e2e import workloads
from tests.e2e.actuator_process import all_ready, apply, until
from tests.e2e.control_plane.control_plane import ControlPlane
from tests.e2e.rounds_over_plane import rounds_over
from trimtab.clients.loop.rounds import RoundSettings
from trimtab.v1 import plan_pb2, reason_pb2

pytestmark = pytest.mark.e2e
Json = dict[str, Any]
DEFINITION = Path(__file__).parent / "capacity-buffers.yaml"
DECISIONS = (plan_pb2.Decision.SLACK, plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN)
SLOW_S = 120.0


def nodes(plane: ControlPlane, pool: str) -> set[str]:
    found = json.loads(plane.kubectl("get", "nodes", "-l", f"pool={pool}", "-o", "json"))["items"]
    return {node["metadata"]["name"] for node in found}


def buffer_status(plane: ControlPlane, name: str) -> Json:
    found: Json = json.loads(plane.kubectl("get", "capacitybuffer", name, "-o", "json"))
    return dict(found.get("status", {}))


def reasons(status: Json) -> dict[str, str]:
    return {one["type"]: one["reason"] for one in status.get("conditions", ())}


def test_room_of_a_buffer_is_built_up_served_in_one_pass_and_built_up_again(
    plane: ControlPlane, tmp_path: Path
) -> None:
    settings = plan_pb2.PlanSettings()
    # Longer than a node takes to start, even on a busy machine.
    settings.scale_down.unneeded_time.seconds = 15
    settings.scale_down.delay_after_add.SetInParent()
    settings.scale_down.unremovable_node_recheck_timeout.SetInParent()
    asked = RoundSettings("e2e", DECISIONS, settings)
    # 4 pods of 900m a node: the Deployment fills one, the buffer asks for another two.
    apply(plane, *workloads.nodes("slack", 1, pool="slack"), workloads.deployment("web", 4, "900m", "slack"))
    until(lambda: all_ready(plane), SLOW_S, "pods ready")
    with rounds_over(plane, tmp_path / "actuator", asked, [workloads.group("slack", 6, "slack")]) as rounds:
        done = rounds.run()
        assert "CapacityBuffer" in done.absent
        assert done.answer.slack.result == reason_pb2.SlackResult.SLACK_NOT_ASKED

    plane.kubectl("create", "-f", str(DEFINITION))
    until(lambda: "capacitybuffers" in plane.kubectl("api-resources", "--api-group=autoscaling.x-k8s.io"), SLOW_S, "it")
    chunk = template("chunk", of=workloads.template("web", "900m", "slack"))
    asks = [buffer("spare", podTemplateRef={"name": "chunk"}, replicas=8), buffer("lost", **LOST)]
    apply(plane, chunk, *asks)
    with rounds_over(plane, tmp_path / "actuator", asked, [workloads.group("slack", 6, "slack")]) as rounds:
        done = rounds.until_slack(reason_pb2.SlackResult.SLACK_PRESENT)
        assert "CapacityBuffer" not in done.absent
        # Nodes with slack on them are empty to the cluster, and stay.
        assert len(nodes(plane, "slack")) == 3
        assert not rounds.run().accepted
        status = buffer_status(plane, "spare")
        assert (status["replicas"], status["podTemplateRef"]) == (8, {"name": "chunk"})
        assert reasons(status) == {"ReadyForProvisioning": "Served", "Provisioning": "RoomIsThere"}
        assert set(reasons(buffer_status(plane, "lost")).values()) == {"NotServed"}

        before = nodes(plane, "slack")
        plane.kubectl("scale", "-n", "default", "deployment/web", "--replicas=12")
        # No round is made: the scheduler alone binds pods to the room of slack.
        until(lambda: all_ready(plane), SLOW_S, "pods ready")
        assert nodes(plane, "slack") == before

        rounds.until_slack(reason_pb2.SlackResult.SLACK_LACKING)
        rounds.until_slack(reason_pb2.SlackResult.SLACK_PRESENT)
        assert len(nodes(plane, "slack")) == 5
        plane.kubectl("delete", "capacitybuffer", "spare", "lost")
        until(
            lambda: not rounds.run().answer.slack.placeholders and len(nodes(plane, "slack")) == 3,
            SLOW_S,
            "without the buffer, its nodes go",
        )
        assert all_ready(plane)


LOST: Json = {"podTemplateRef": {"name": "gone"}, "replicas": 2}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({"podTemplateRef": {"name": "a"}}, "replicas or limits must be set", id="no amount"),
        pytest.param(
            {"podTemplateRef": {"name": "a"}, "scalableRef": {"kind": "Deployment", "name": "a"}, "replicas": 1},
            "exclude each other",
            id="two references",
        ),
        pytest.param({"scalableRef": {"kind": "Deployment", "name": "a"}, "replicas": -1}, "replicas", id="negative"),
    ],
)
def test_the_api_server_refuses_what_the_definition_forbids(plane: ControlPlane, spec: Json, message: str) -> None:
    plane.kubectl("apply", "--server-side", "-f", str(DEFINITION))
    until(lambda: "capacitybuffers" in plane.kubectl("api-resources", "--api-group=autoscaling.x-k8s.io"), SLOW_S, "it")
    with pytest.raises(RuntimeError, match=message):
        apply(plane, buffer("bad", **spec))
