"""Half of a cluster is drained at once on a real control plane; what happened is read from the API server's watches."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from trimtab.v1 import actuator_pb2, plan_pb2

from clients.actuator_client import ActuatorClient
from tests.e2e import watch_log, workloads
from tests.e2e.actuator_process import Json, all_ready, apply, command, listed, running, until
from tests.e2e.control_plane.control_plane import ControlPlane, cached_binaries
from tests.e2e.stages import write_stages

pytestmark = pytest.mark.e2e

NODES, TO_DRAIN, GROWTH = 60, 30, 4
GROUP = workloads.group("pool", 200)
KINDS = "nodes,pods,replicasets,deployments,statefulsets,jobs,daemonsets,poddisruptionbudgets,namespaces"
SETTINGS = {
    "scaleDown": {
        "unneededTime": "0s",
        "maxScaleDownParallelism": TO_DRAIN,
        "maxDrainParallelism": TO_DRAIN,
        "utilizationThreshold": 0.7,
    }
}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    directory = tmp_path_factory.mktemp("plane")
    stages = write_stages(cached_binaries(), directory / "stages.yaml", slow_ms=3_000, job_ms=18_000)
    with ControlPlane(cached_binaries(), directory / "state", stages=[stages]) as started:
        yield started


def fill(plane: ControlPlane) -> None:
    """Sixty nodes with everything on them that makes draining hard."""
    apply(plane, *workloads.nodes("n", NODES))
    until(lambda: plane.kubectl("get", "nodes").count(" Ready ") == NODES, 60, "nodes ready")
    apply(
        plane,
        workloads.deployment("web", 60),
        workloads.deployment("api", 30, cpu="400m"),
        workloads.deployment("careful", 8, slow="yes"),
        workloads.stateful_set("db", 12),
        workloads.stateful_set("queue", 5, slow="yes"),
        workloads.daemon_set("agent"),
        workloads.job("batch", 6),
        workloads.bare_pod("lonely"),
        workloads.budget("web", "web", minAvailable="80%"),
        workloads.budget("careful", "careful", maxUnavailable=1),
        workloads.budget("db", "db", maxUnavailable=2),
        workloads.budget("queue", "queue", maxUnavailable=1),
    )
    until(lambda: all_ready(plane), 90, "workloads ready")


# The fewest healthy pods that each budget asks for.
FLOORS = {"web": 48, "careful": 7, "db": 10, "queue": 4}


def planned_nodes(plane: ControlPlane, directory: Path) -> list[str]:
    """The nodes that the planner would drain, asked as a user asks."""
    files = {"objects.json": plane.kubectl("get", KINDS, "-A", "-o", "json"), "group.json": json.dumps(GROUP)}
    files["settings.json"] = json.dumps(SETTINGS)
    for name, text in files.items():
        (directory / name).write_text(text)
    arguments = [
        "plan",
        "objects.json",
        "group.json",
        "--settings=settings.json",
        "--decision=SCALE_DOWN",
        "--output=json",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "clients.cli", *arguments], cwd=directory, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    decision = json.loads(done.stdout)["scaleDown"]
    return sorted([*decision["drain"], *decision["deleteEmpty"]])


def filled_up(plane: ControlPlane, planned: list[str]) -> list[str]:
    """Thirty nodes: the planner's, which all budgets allow at once, and more, so that evictions have to wait."""
    (lonely,) = (pod["spec"]["nodeName"] for pod in listed(plane, "pods") if pod["metadata"]["name"] == "lonely")
    assert lonely not in planned, "the planner leaves a node with a pod of nobody alone"
    others = (f"n-{number}" for number in range(1, NODES + 1))
    more = [name for name in others if name != lonely and name not in planned]
    return sorted([*planned, *more[: TO_DRAIN - len(planned)]])


def drain_and_grow(client: ActuatorClient, names: list[str]) -> actuator_pb2.ActuatorStatus:
    """Start both, and wait until all has ended."""
    entries = [actuator_pb2.NodeToDelete(node=name, drain=True) for name in names]
    answer = client.start_deletion(actuator_pb2.StartDeletionRequest(request_id="drain", nodes=entries))
    assert [one.node for one in answer.nodes if not one.accepted] == []
    split = plan_pb2.ScaleUpSplit(node_group="pool", current_size=NODES, new_size=NODES + GROWTH)
    assert [one.accepted for one in client.scale_up("grow", [split]).splits] == [True]
    return client.get_status()


def test_half_of_the_nodes_are_drained_at_once_and_nothing_is_lost(plane: ControlPlane, tmp_path: Path) -> None:
    fill(plane)
    with (
        watch_log.WatchLog(plane, tmp_path) as log,
        running(tmp_path / "actuator", command(plane, tmp_path / "actuator", [GROUP])) as (process, client),
    ):
        client.wait_until_serving()
        planned = planned_nodes(plane, tmp_path)
        assert planned, "the planner finds nodes to drain"
        names = filled_up(plane, planned)
        begin = version_now(plane)
        drain_and_grow(client, names)
        apply(plane, workloads.deployment("late", 20))
        until(lambda: not client.get_status().deletions, 150, "all drains over")
        status = client.get_status()
        until(lambda: all_ready(plane) and jobs_done(plane), 60, "workloads ready again")
        rss_mib = resident_mib(process.pid)
    changes = log.changes()
    check_status(status, names)
    check_log(changes, names, begin)
    check_remains(plane, names)
    evicted = len(watch_log.ended_pods(changes))
    print(f"\n{len(names)} nodes, {evicted} pods evicted; actuator {rss_mib} MiB")
    assert rss_mib < 250


def check_status(status: actuator_pb2.ActuatorStatus, names: list[str]) -> None:
    ended = {one.node: actuator_pb2.DeletionState.Code.Name(one.state) for one in status.finished}
    assert ended == dict.fromkeys(names, "DELETED"), [one.detail for one in status.finished]
    (group,) = status.node_groups
    assert group.target_size == NODES - TO_DRAIN + GROWTH
    assert group.deletion_count == 0


def check_log(changes: list[watch_log.Change], names: list[str], begin: int) -> None:
    assert watch_log.gone_nodes(changes) == set(names), "exactly the planned nodes go"
    assert len(watch_log.new_nodes(changes, begin)) == GROWTH
    lowest = {app: watch_log.lowest_health(changes, "default", {"app": app}) for app in FLOORS}
    assert [app for app in FLOORS if lowest[app] < FLOORS[app]] == [], lowest
    assert watch_log.unprotected_evictions(changes) == []
    assert watch_log.overfull_nodes(changes) == []
    flips = watch_log.taint_flips(changes)
    assert {name: count for name, count in flips.items() if count} == dict.fromkeys(names, 1), "each is tainted once"
    moved = watch_log.ended_pods(changes).values()
    assert "Job" in {watch_log.owner_kind(pod) for pod in moved}, "pods of a Job are evicted while they run"
    strangers = {pod["metadata"]["name"] for pod in moved if pod["spec"].get("nodeName") not in names}
    assert strangers == set(), "no pod of another node is touched"


def check_remains(plane: ControlPlane, names: list[str]) -> None:
    items = listed(plane, "nodes,pods")
    nodes = [one for one in items if one["kind"] == "Node"]
    pods = [one for one in items if one["kind"] == "Pod"]
    assert len(nodes) == NODES - TO_DRAIN + GROWTH
    assert [one["metadata"]["name"] for one in nodes if one["spec"].get("taints")] == []
    assert not any(one["spec"].get("unschedulable") for one in nodes)
    assert [one["metadata"]["name"] for one in pods if one["status"]["phase"] == "Pending"] == []
    running = [one for one in pods if one["status"]["phase"] == "Running" and watch_log.owner_kind(one) != "DaemonSet"]
    left = [one for one in running if one["spec"]["nodeName"] in names]
    assert [one["metadata"]["name"] for one in left] == []
    assert "lonely" in {one["metadata"]["name"] for one in pods}, "a pod of nobody is not evicted"


def jobs_done(plane: ControlPlane) -> bool:
    return all(one.get("status", {}).get("succeeded", 0) == one["spec"]["completions"] for one in listed(plane, "jobs"))


def version_now(plane: ControlPlane) -> int:
    document: Json = json.loads(plane.kubectl("get", "--raw", "/api/v1/nodes?limit=1"))
    return int(document["metadata"]["resourceVersion"])


def resident_mib(pid: int) -> int:
    """Largest resident memory so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024
