"""`trimtab run` as processes on a real control plane: leadership, status and events, and failures that it waits out."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import kubernetes as k8s
from tests.e2e.control_plane.control_plane import ControlPlane, free_ports
from tests.e2e.loop_processes import planner_at, process, until
from tests.e2e.workloads import kwok_node, workload

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module", autouse=True)
def content(plane: ControlPlane) -> None:
    for i in range(3):
        node = kwok_node(f"n{i}", "a")
        node["metadata"]["labels"]["pool"] = "a"
        plane.kubectl("create", "-f", "-", stdin=json.dumps(node))
    web = workload("web", 4)
    del web["spec"]["template"]["spec"]["containers"][0]["ports"]  # host ports: no two on a node
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(web))


def loop(plane: ControlPlane, folder: Path, planner: str, health_port: int) -> tuple[object, ...]:
    """Arguments of `trimtab run` that decides only."""
    groups = folder / "groups.json"
    groups.write_text(json.dumps(k8s.node_group("a", selector={"pool": "a"})))
    return (
        "trimtab.clients.cli", "run", "--planner", planner, "--kubeconfig", plane.kubeconfig("admin"),
        "--node-groups", groups, "--interval", 0.5, "--health-address", f"127.0.0.1:{health_port}",
        "--cluster-name", "e2e",
    )  # fmt: skip


def probe(port: int, path: str) -> int:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def holder(plane: ControlPlane) -> str:
    leases = json.loads(plane.kubectl("get", "lease", "-n", "kube-system", "-o", "json"))["items"]
    found = [one["spec"]["holderIdentity"] for one in leases if one["metadata"]["name"] == "trimtab-loop"]
    return str(found[0]) if found else ""


def status(plane: ControlPlane) -> dict[str, Any]:
    maps = json.loads(plane.kubectl("get", "configmap", "-n", "kube-system", "-o", "json"))["items"]
    found = [one["data"]["status"] for one in maps if one["metadata"]["name"] == "trimtab-status"]
    return dict(yaml.safe_load(found[0])) if found else {}


def test_one_leads_and_tells_the_other_takes_over_and_a_lost_planner_is_waited_out(
    plane: ControlPlane, tmp_path: Path
) -> None:
    port, first_health, second_health = free_ports(3)
    address = f"127.0.0.1:{port}"
    with (
        process(*loop(plane, tmp_path, address, first_health), log=tmp_path / "first.log") as first,  # type: ignore[arg-type]
        planner_at(address, tmp_path) as planner,
    ):
        until("the first loop is ready", lambda: probe(first_health, "/readyz") == 200)
        assert holder(plane).endswith(f"-{first.pid}")
        told = until("a status", lambda: status(plane).get("clusterWide") and status(plane))
        assert told["clusterWide"]["health"]["nodeCounts"]["registered"]["total"] == 3
        with process(*loop(plane, tmp_path, address, second_health), log=tmp_path / "second.log") as second:  # type: ignore[arg-type]
            until("the second loop could take over", lambda: probe(second_health, "/readyz") == 200)
            assert holder(plane).endswith(f"-{first.pid}")
            first.send_signal(signal.SIGTERM)
            assert first.wait(60) == 0, (tmp_path / "first.log").read_text()
            until("the second loop leads", lambda: holder(plane).endswith(f"-{second.pid}"))

            planner.send_signal(signal.SIGTERM)
            planner.wait(60)
            until("the trouble is told", lambda: status(plane).get("message"))
            assert (probe(second_health, "/healthz"), probe(second_health, "/readyz")) == (200, 503)
            with planner_at(address, tmp_path):
                until("the trouble is over", lambda: not status(plane).get("message"))
                second.send_signal(signal.SIGTERM)
                assert second.wait(60) == 0, (tmp_path / "second.log").read_text()
    assert holder(plane) == ""
    rounds = [json.loads(line) for line in (tmp_path / "second.log").read_text().splitlines()]
    assert any(one["event"] == "round" and one["delta"] for one in rounds)
    assert any(one["event"] == "round_failed" for one in rounds)
    assert any(one["event"] == "state_resumed" for one in rounds), "timers of nodes go on under the new leader"


def test_a_user_without_permission_sees_the_missing_rules(plane: ControlPlane, tmp_path: Path) -> None:
    arguments = loop(plane, tmp_path, "127.0.0.1:1", 0)
    command = [sys.executable, "-m", *map(str, arguments), "--kubeconfig", str(plane.kubeconfig("nobody"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=dict(os.environ))
    assert done.returncode == 1
    assert '- {apiGroups: [""], resources: [nodes], verbs: [list, watch]}' in done.stderr
    assert "Traceback" not in done.stderr


def test_planner_actuator_and_loop_together_remove_the_nodes_that_are_not_needed(
    plane: ControlPlane, tmp_path: Path
) -> None:
    groups, settings = tmp_path / "groups.json", tmp_path / "settings.yaml"
    groups.write_text(json.dumps(k8s.node_group("a", 1, 5, selector={"pool": "a"})))
    settings.write_text('scaleDown: {unneededTime: "1s", unreadyTime: "1s"}\n')
    planner, actuator, health = (f"127.0.0.1:{port}" for port in free_ports(3))
    kubeconfig = plane.kubeconfig("admin")
    with (
        process(
            "trimtab.actuator", "--address", actuator, "--state-dir", tmp_path / "state", "--cloud", "kwok",
            "--kubeconfig", kubeconfig, "--cloud-config", groups, "--delay-after-taint", 0, "--drain-poll", 0.2,
            "--delete-poll", 0.2,
            log=tmp_path / "actuator.log",
        ),
        planner_at(planner, tmp_path),
        process(
            "trimtab.clients.cli", "run", "--planner", planner, "--actuator", actuator, "--kubeconfig", kubeconfig,
            "--node-groups", groups, "--settings", settings, "--interval", 0.5, "--health-address", health,
            "--record", tmp_path / "rounds.trimtab", log=tmp_path / "loop.log",
        ) as looping,
    ):  # fmt: skip
        until("nodes go", lambda: len(node_names(plane)) == 1, limit_s=120)
        until("all pods run on what is left", lambda: running(plane) == 4)
        about = {("Node", "ScaleDown"), ("Pod", "ScaleDown"), ("ConfigMap", "ScaleDown")}
        events = until("events are written", lambda: told(plane) >= about and told(plane))
        assert not any(reason == "ScaleDownFailed" for _, reason in events)
        assert not any(node["spec"].get("unschedulable") for node in nodes(plane))
        looping.send_signal(signal.SIGTERM)
        assert looping.wait(60) == 0, (tmp_path / "loop.log").read_text()
    replayed = subprocess.run(
        [sys.executable, "-m", "trimtab.clients.cli", "replay", str(tmp_path / "rounds.trimtab")],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert replayed.returncode == 0, replayed.stdout[-3000:] + replayed.stderr


def nodes(plane: ControlPlane) -> list[dict[str, Any]]:
    return list(json.loads(plane.kubectl("get", "nodes", "-o", "json"))["items"])


def node_names(plane: ControlPlane) -> list[str]:
    return [node["metadata"]["name"] for node in nodes(plane)]


def running(plane: ControlPlane) -> int:
    pods = json.loads(plane.kubectl("get", "pods", "-l", "app=web", "-o", "json"))["items"]
    present = set(node_names(plane))
    return sum(pod["status"]["phase"] == "Running" and pod["spec"].get("nodeName") in present for pod in pods)


def told(plane: ControlPlane) -> set[tuple[str, str]]:
    """(kind, reason) of the events that the loop has written."""
    events = json.loads(plane.kubectl("get", "events", "-A", "-o", "json"))["items"]
    return {(e["involvedObject"]["kind"], e["reason"]) for e in events if e["source"].get("component") == "trimtab"}
