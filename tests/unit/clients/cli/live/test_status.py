"""`trimtab top --status` as a user runs it: the loop's ConfigMap and the actuator's status, once or repeatedly."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from tests.builders.api_server import FakeApiServer
from tests.builders.cli import Run
from tests.builders.live_commands import kubeconfig
from trimtab.v1 import actuator_pb2, actuator_pb2_grpc, snapshot_pb2

PATH = "/api/v1/namespaces/kube-system/configmaps/trimtab-status"
NO_CLUSTER = ("--status-config-map", "")
LOOP = {
    "autoscalerStatus": "Running",
    "waitingPods": 1,
    "clusterWide": {
        "health": {"nodeCounts": {"registered": {"total": 12}}},
        "scaleUp": {"status": "NoActivity"},
        "scaleDown": {
            "status": "CandidatesPresent",
            "candidates": 3,
            "inProgress": 1,
            "result": "SCALE_DOWN_IN_COOLDOWN",
        },
    },
    "cost": {
        **{"perHour": 6.0, "perHourAfterPlan": 5.5, "perHourUnneeded": 1.5},
        **{"perMonth": 4380.0, "perMonthAfterPlan": 4015.0, "perMonthUnneeded": 1095.0, "nodesWithoutPrice": 0},
    },
}


class Answering(actuator_pb2_grpc.ActuatorServicer):
    """An actuator with one status, whose revision grows with each read."""

    def __init__(self) -> None:
        self.status = actuator_pb2.ActuatorStatus()
        self.status.time.GetCurrentTime()
        now_s = int(time.time())
        one = self.status.deletions.add(
            node="n1", node_group="a", drain=True, state=actuator_pb2.DeletionState.DRAINING, pods_total_count=4
        )
        one.state_time.FromSeconds(now_s - 61)
        self.status.finished.add(node="n0", node_group="a", state=actuator_pb2.DeletionState.FAILED, detail="[red]no")
        self.status.recent_evictions.add(namespace="shop", name="web-1", node="n1", owner_kind="ReplicaSet")
        group = self.status.node_groups.add(id="a", instance_count=3, target_size=3, max_size=9, price_per_hour=0.5)
        group.health, group.health_detail = snapshot_pb2.NodeGroupHealth.BACKED_OFF, "no quota left"
        group.backoff_until.FromSeconds(now_s + 300)
        waiting = self.status.node_groups.add(id="b", instance_count=1, target_size=2, max_size=9)
        waiting.health, waiting.health_detail = snapshot_pb2.NodeGroupHealth.BACKED_OFF, "1 of 2 nodes have joined"
        replaced = self.status.replacements.add(
            request_id="w", stage=actuator_pb2.ReplacementStage.DONE, achieved_saving_per_hour=0.75
        )
        replaced.stage_time.FromSeconds(now_s - 125)
        replaced.leaving.add(node="old-1")
        replaced.new_nodes.add(name="small#0", node="new-1")

    def GetStatus(self, request: Any, context: Any) -> actuator_pb2.GetStatusResponse:
        self.status.revision += 1
        return actuator_pb2.GetStatusResponse(status=self.status)


@pytest.fixture
def actuator() -> Iterator[str]:
    """Yield the address of an actuator."""
    server = grpc.server(ThreadPoolExecutor(2))
    actuator_pb2_grpc.add_ActuatorServicer_to_server(Answering(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the kubeconfig of a cluster in which a loop wrote its status a minute ago."""
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    written = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 60))
    with FakeApiServer() as server:
        server.documents[PATH] = {"data": {"status": yaml.safe_dump({"time": written, **LOOP})}}
        yield kubeconfig(tmp_path, server.url)


def test_loop_and_actuator_are_shown_together(trimtab: Run, cluster: Path, actuator: str) -> None:
    done = trimtab("top", "--status", "--kubeconfig", cluster, "--actuator", actuator)
    assert done.code == 0, done.err
    assert [line.rstrip() for line in done.out.splitlines()[1:7]] == [
        "  nodes: 12",
        "  scale-up: no activity; pods that stay pending: 1",
        "  scale-down: 3 unneeded, 1 going; a cool-down is in force",
        "  costs now: 6.00 an hour, 4,380.00 a month",
        "  costs after the plan: 5.50 an hour, 4,015.00 a month",
        "  unneeded nodes: 1.50 an hour, 1,095.00 a month",
    ]
    text = " ".join(done.out.split())
    for told in (
        "loop: Running, last seen 1 min",
        "1 deletion in progress",
        "n1 a draining 1 min",
        "0 of 4",
        "n0 a failed",
        "[red]no",
        "1 recent eviction",
        "shop/web-1",
        "1.50",
        "left: no quota left",
        "until a node joins: 1 of 2 nodes have joined",
        "1 replacement, in progress or ended recently",
        "old-1 new-1 done 2 min",
        "0.75",
    ):
        assert told in text, told
    assert "0 s left" not in text, "a back-off without end has no time left"


def test_a_watch_prints_an_object_a_line(trimtab: Run, actuator: str) -> None:
    done = trimtab(
        "top", "--status", "--actuator", actuator, *NO_CLUSTER, "--interval", 0.1, "--rounds", 3, "-o", "json"
    )
    assert done.code == 0, done.err
    revisions = [int(json.loads(line)["actuator"]["revision"]) for line in done.out.splitlines()]
    assert revisions == [1, 2, 3]


def test_a_loop_that_has_written_nothing_is_reported(trimtab: Run, tmp_path: Path, actuator: str) -> None:
    with FakeApiServer() as server:
        done = trimtab("top", "--status", "--kubeconfig", kubeconfig(tmp_path, server.url), "--actuator", actuator)
    assert done.code == 0
    assert "kube-system/trimtab-status does not exist: no loop has written its status" in done.err


def test_a_status_that_is_not_yaml_is_named(trimtab: Run, tmp_path: Path) -> None:
    with FakeApiServer() as server:
        server.documents[PATH] = {"data": {"status": "time: [2026"}}
        done = trimtab("top", "--status", "--kubeconfig", kubeconfig(tmp_path, server.url))
    assert done.code == 1
    assert "kube-system/trimtab-status: data.status is not YAML: line 2: " in done.err


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (NO_CLUSTER, 2, "there is nothing to show"),
        (("--kubeconfig", "/does/not/exist"), 2, "/does/not/exist"),
        ((*NO_CLUSTER, "--actuator", "127.0.0.1:1"), 1, "127.0.0.1:1"),
    ],
)
def test_what_cannot_be_reached_is_named(trimtab: Run, options: tuple[str, ...], code: int, told: str) -> None:
    done = trimtab("top", "--status", *options)
    assert (done.code, told in done.err) == (code, True), done.err


def test_kubectl_finds_the_command_line_by_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from importlib.metadata import entry_points
    from tomllib import loads

    project = loads((Path(__file__).parents[5] / "pyproject.toml").read_text())["project"]
    module, _, name = project["scripts"]["kubectl-trimtab"].partition(":")
    assert not [one for one in entry_points(name="kubectl-trimtab") if one.value != f"{module}:{name}"]
    monkeypatch.setattr("sys.argv", ["kubectl-trimtab", "--help"])
    with pytest.raises(SystemExit) as end:
        getattr(__import__(module, fromlist=[name]), name)()
    assert not end.value.code
    shown = capsys.readouterr().out
    assert "kubectl trimtab" in shown
    assert "--install-completion" in shown
