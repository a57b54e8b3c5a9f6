"""The status ConfigMap reports scale-up group by group."""

from collections.abc import Iterator

import pytest
import urllib3
import yaml

from tests.builders.api_server import FakeApiServer
from trimtab.clients.loop.rounds import RoundResult
from trimtab.clients.loop.status_map import StatusMap
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import Connection
from trimtab.v1 import actuator_pb2, plan_pb2, reason_pb2, snapshot_pb2

PATH = "/api/v1/namespaces/kube-system/configmaps/trimtab-status"


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with FakeApiServer() as started:
        yield started


def test_slack_reports_requested_and_present_room_and_unreadable_buffers(server: FakeApiServer) -> None:
    answer = plan_pb2.PlanResponse()
    answer.slack.desired.update({"memory": 4, "cpu": 2000})
    answer.slack.present.update({"cpu": 1000})
    answer.slack.placeholders.add(name="standard-1", node="n1")
    answer.slack.placeholders.add(name="standard-2")
    answer.slack.problems.append("CapacityBuffer/a/b: it refers to nothing")
    answer.slack.result = reason_pb2.SlackResult.SLACK_LACKING
    api = Api(Connection(server.url, urllib3.PoolManager(), lambda: ""))
    done = RoundResult(plan_pb2.PlanRequest(), answer, None, was_delta=False, absent=("CapacityBuffer",))
    StatusMap(api, "kube-system", "trimtab-status").write(done, "", 1_800_000_000)
    assert yaml.safe_load(server.documents[PATH]["data"]["status"])["slack"] == {
        "result": "SLACK_LACKING",
        "asked": {"cpu": 2000, "memory": 4},
        "present": {"cpu": 1000},
        "placeholders": 2,
        "waiting": 1,
        "problems": ["CapacityBuffer/a/b: it refers to nothing"],
        "capacityBuffers": "not read: the API server does not know CapacityBuffer",
    }


def test_each_group_tells_whether_it_grows_or_is_backed_off_and_why(server: FakeApiServer) -> None:
    status = actuator_pb2.ActuatorStatus()
    status.node_groups.add(id="calm", target_size=2, instance_count=2)
    status.node_groups.add(id="growing", target_size=3, instance_count=2)
    status.node_groups.add(
        id="refused",
        target_size=2,
        instance_count=2,
        health=snapshot_pb2.NodeGroupHealth.BACKED_OFF,
        health_detail="no quota left",
    )
    answer = plan_pb2.PlanResponse()
    answer.scale_up.unschedulable.add(pods=["shop/huge"])
    done = RoundResult(plan_pb2.PlanRequest(), answer, status, was_delta=False)
    api = Api(Connection(server.url, urllib3.PoolManager(), lambda: ""))
    StatusMap(api, "kube-system", "trimtab-status").write(done, "", 1_800_000_000)
    written = yaml.safe_load(server.documents[PATH]["data"]["status"])
    assert written["clusterWide"]["scaleUp"]["status"] == "InProgress"
    assert written["waitingPods"] == 1
    assert {one["name"]: one["scaleUp"] for one in written["nodeGroups"]} == {
        "calm": {"status": "NoActivity"},
        "growing": {"status": "InProgress"},
        "refused": {"status": "Backoff", "backoffInfo": {"errorMessage": "no quota left"}},
    }


def test_costs_are_reported_for_now_after_the_plan_and_for_unneeded_nodes(server: FakeApiServer) -> None:
    answer = plan_pb2.PlanResponse()
    summary = answer.summary
    for moment, price in ((summary.now, 4.0), (summary.after, 4.5)):
        moment.node_count, moment.unpriced_node_count = 9, 3
        moment.price_per_hour, moment.price_per_month = price, price * 730
    summary.decisions.add(decision=plan_pb2.Decision.SCALE_DOWN, saved_per_hour=2.0)
    api = Api(Connection(server.url, urllib3.PoolManager(), lambda: ""))
    written = StatusMap(api, "kube-system", "trimtab-status")
    done = RoundResult(plan_pb2.PlanRequest(), answer, None, was_delta=False)
    written.write(done, "", 1_800_000_000)
    assert yaml.safe_load(server.documents[PATH]["data"]["status"])["cost"] == {
        "perHour": 4.0,
        "perHourAfterPlan": 4.5,
        "perHourUnneeded": 2.0,
        "perMonth": 2920.0,
        "perMonthAfterPlan": 3285.0,
        "perMonthUnneeded": 1460.0,
        "nodesWithoutPrice": 3,
    }
    summary.assumption = "assumed"
    written.write(done, "", 1_800_000_100)
    assert "cost" not in yaml.safe_load(server.documents[PATH]["data"]["status"])


def test_too_many_unready_nodes_are_reported(server: FakeApiServer) -> None:
    answer = plan_pb2.PlanResponse()
    answer.scale_down.result = reason_pb2.ScaleDownResult.SCALE_DOWN_CLUSTER_UNHEALTHY
    answer.scale_down.detail = "4 of 8 nodes are unready"
    answer.diagnostics.node_count = 8
    done = RoundResult(plan_pb2.PlanRequest(), answer, None, was_delta=False)
    api = Api(Connection(server.url, urllib3.PoolManager(), lambda: ""))
    StatusMap(api, "kube-system", "trimtab-status").write(done, "", 1_800_000_000)
    assert yaml.safe_load(server.documents[PATH]["data"]["status"])["clusterWide"]["health"] == {
        "status": "Unhealthy",
        "message": "4 of 8 nodes are unready",
        "nodeCounts": {"registered": {"total": 8}},
    }


def test_gangs_are_reported_with_what_they_lack_and_the_nodes_that_came_for_nothing(server: FakeApiServer) -> None:
    answer = plan_pb2.PlanResponse()
    answer.scale_up.gangs.add(group="a/whole", placed_count=4)
    lacking = answer.scale_up.gangs.add(group="a/big", reason=reason_pb2.GangReason.MAX_SIZE_REACHED, detail="2 lack")
    lacking.release.nodes.extend(["n2", "n1"])
    lacking.release.upcoming["g"] = 3
    done = RoundResult(plan_pb2.PlanRequest(), answer, None, was_delta=False)
    api = Api(Connection(server.url, urllib3.PoolManager(), lambda: ""))
    StatusMap(api, "kube-system", "trimtab-status").write(done, "", 1_800_000_000)
    assert yaml.safe_load(server.documents[PATH]["data"]["status"])["gangs"] == {
        "canStartWhole": 1,
        "lacking": {"MAX_SIZE_REACHED": 1},
        "problems": ["a/big: 2 lack"],
        "uselessNodes": ["n1", "n2"],
        "uselessUpcoming": {"g": 3},
    }
