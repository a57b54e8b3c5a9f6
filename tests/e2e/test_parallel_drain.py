"""Half of a cluster is drained at once on a real control plane; what happened is read from the API server's watches."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf import json_format

from tests.e2e import watch_log, workloads
from tests.e2e.actuator_process import Json, all_ready, apply, command, listed, running, until
from tests.e2e.control_plane.control_plane import ControlPlane, cached_binaries
from tests.e2e.stages import write_stages
from trimtab.clients.actuator_client import ActuatorClient
from trimtab.clients.loop.rounds import deletion_order
from trimtab.v1 import actuator_pb2, plan_pb2, reason_pb2

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

NODES, TO_DRAIN, GROWTH = 60, 30, 4
REPLICAS = {"web": 60, "api": 30, "careful": 6, "db": 12, "queue": 5, "late": 20}
# A pod of "careful" or "queue" takes so long to be ready again, and each budget lets go of one at a time.
SLOW_MS = 20_000
# A pod of a Job takes so long: much longer than planning does.
JOB_MS = 200_000
# The Job controller waits longer after each pod that it lost, whoever took it: 320 s after the sixth.
BACK_S = 400
# Of those pods so many are on nodes that are drained: each costs as long.
SLOW_DRAINED = 3
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
# The fewest healthy pods that each budget asks for.
FLOORS = {"web": 48, "careful": 5, "db": 10, "queue": 4}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    directory = tmp_path_factory.mktemp("plane")
    stages = write_stages(cached_binaries(), directory / "stages.yaml", slow_ms=SLOW_MS, job_ms=JOB_MS)
    with ControlPlane(cached_binaries(), directory / "state", stages=[stages]) as started:
        yield started


def fill(plane: ControlPlane) -> None:
    """Sixty nodes with everything on them that makes draining hard."""
    apply(plane, *workloads.nodes("n", NODES))
    until(lambda: plane.kubectl("get", "nodes").count(" Ready ") == NODES, 60, "nodes ready")
    apply(
        plane,
        workloads.deployment("web", REPLICAS["web"]),
        workloads.deployment("api", REPLICAS["api"], cpu="400m"),
        workloads.deployment("careful", REPLICAS["careful"], slow="yes"),
        workloads.stateful_set("db", REPLICAS["db"]),
        workloads.stateful_set("queue", REPLICAS["queue"], slow="yes"),
        workloads.daemon_set("agent"),
        workloads.bare_pod("lonely"),
        workloads.budget("web", "web", minAvailable="80%"),
        workloads.budget("careful", "careful", maxUnavailable=1),
        workloads.budget("db", "db", maxUnavailable=2),
        workloads.budget("queue", "queue", maxUnavailable=1),
    )
    until(lambda: all_ready(plane), 120, "workloads ready")
    apply(plane, workloads.job("batch", 6))
    until(lambda: phases(plane, "batch") == {"Running": 6}, 60, "the job's pods running")


def phases(plane: ControlPlane, app: str) -> Counter[str]:
    """How many pods of a workload are in each phase."""
    pods = (one for one in listed(plane, "pods") if one["metadata"].get("labels", {}).get("app") == app)
    return Counter(pod["status"]["phase"] for pod in pods)


def order_of_plan(plane: ControlPlane, directory: Path) -> actuator_pb2.StartDeletionRequest:
    """What the planner would have deleted, asked as a user asks, with all that it assumed."""
    files = {"objects.json": plane.kubectl("get", KINDS, "-A", "-o", "json"), "group.json": json.dumps(GROUP)}
    request = plan_pb2.PlanRequest(request_id="planned")
    request.now.GetCurrentTime()
    json_format.ParseDict(SETTINGS, request.settings)
    files["settings.json"] = json.dumps(SETTINGS)
    for name, text in files.items():
        (directory / name).write_text(text)
    arguments = [
        "plan",
        "objects.json",
        "group.json",
        "--settings=settings.json",
        "--decision=SCALE_DOWN",
        f"--now={request.now.ToJsonString()}",
        "--output=json",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "trimtab.clients.cli", *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return deletion_order(request, json_format.Parse(done.stdout, plan_pb2.PlanResponse(), ignore_unknown_fields=True))


def filled_up(plane: ControlPlane, planned: list[str]) -> list[str]:
    """More nodes, thirty with the planner's, which all budgets allow at once, so that evictions have to wait."""
    pods = [one for one in listed(plane, "pods") if "nodeName" in one["spec"]]
    kept = {pod["spec"]["nodeName"] for pod in pods if not watch_log.owner_kind(pod)}
    assert not kept & set(planned), "the planner leaves a node with a pod of nobody alone"
    slow: dict[str, Counter[str]] = {f"n-{number}": Counter() for number in range(1, NODES + 1)}
    for pod in pods:
        if "slow" in pod["metadata"]["labels"]:
            slow[pod["spec"]["nodeName"]][pod["metadata"]["labels"]["app"]] += 1
    chosen: list[str] = []
    total = sum((slow[name] for name in planned), Counter[str]())
    # Nodes with slow pods first, until there are as many of those as the time allows.
    for name in sorted(slow, key=lambda name: (-slow[name].total(), name)):
        fits = max((total + slow[name]).values(), default=0) <= SLOW_DRAINED
        if fits and name not in (*kept, *planned) and len(chosen) + len(planned) < TO_DRAIN:
            chosen.append(name)
            total += slow[name]
    assert len(chosen) + len(planned) == TO_DRAIN
    assert max(total.values()) == SLOW_DRAINED
    return chosen


def start_plan(plane: ControlPlane, client: ActuatorClient, order: actuator_pb2.StartDeletionRequest) -> list[str]:
    """Carry the plan out after a pod came to one of its nodes: that one is refused. Returns the others.

    The same plan of yesterday is refused altogether.
    """
    old = actuator_pb2.StartDeletionRequest(request_id="old", nodes=order.nodes, plan_time=order.plan_time)
    old.plan_time.seconds -= 86_400
    assert refusals(client, old) == {one.node: "PLAN_TOO_OLD" for one in order.nodes}
    stale = order.nodes[-1].node
    newcomer = workloads.bare_pod("newcomer")
    newcomer["spec"]["nodeName"] = stale
    apply(plane, newcomer)
    assert refusals(client, order) == {stale: "NODE_CHANGED"}
    return [one.node for one in order.nodes if one.node != stale]


def refusals(client: ActuatorClient, order: actuator_pb2.StartDeletionRequest) -> dict[str, str]:
    """Give an order; which nodes are refused, and why."""
    answers = client.start_deletion(order).nodes
    return {one.node: reason_pb2.DeletionReason.Code.Name(one.reason) for one in answers if not one.accepted}


def drain_and_grow(client: ActuatorClient, names: list[str]) -> None:
    """Drain further nodes, and grow at the same time."""
    entries = [actuator_pb2.NodeToDelete(node=name, drain=True) for name in names]
    assert refusals(client, actuator_pb2.StartDeletionRequest(request_id="more", nodes=entries)) == {}
    until(lambda: grown(client), 30, "growth from the size that the group has")


def grown(client: ActuatorClient) -> bool:
    """Grow from the present size; False when a deletion has changed it in between, which is the only refusal."""
    (pool,) = client.get_status().node_groups
    split = plan_pb2.ScaleUpSplit(node_group="pool", current_size=pool.target_size, new_size=pool.target_size + GROWTH)
    (answer,) = client.scale_up(f"grow from {pool.target_size}", [split]).splits
    assert answer.accepted or answer.reason == reason_pb2.GrowthReason.SIZE_CHANGED, answer.detail
    return answer.accepted


def test_half_of_the_nodes_are_drained_at_once_and_nothing_is_lost(plane: ControlPlane, tmp_path: Path) -> None:
    fill(plane)
    with (
        watch_log.WatchLog(plane, tmp_path) as log,
        running(tmp_path / "actuator", command(plane, tmp_path / "actuator", [GROUP])) as (process, client),
    ):
        client.wait_until_serving()
        until(log.has_begun, 60, "the watches")
        order = order_of_plan(plane, tmp_path)
        assert len(order.nodes) > 1, "the planner finds nodes to drain"
        begin = version_now(plane)
        names = start_plan(plane, client, order)
        more = filled_up(plane, [one.node for one in order.nodes][:-1])
        drain_and_grow(client, more)
        names += more
        apply(plane, workloads.deployment("late", REPLICAS["late"]))
        until(lambda: not client.get_status().deletions, 300, "all drains over")
        status = client.get_status()
        until(lambda: all_ready(plane) and jobs_go_on(plane), BACK_S, "workloads ready again")
        log.wait_for("Pod", mark(plane, "pod/lonely"))
        log.wait_for("Node", mark(plane, f"node/{order.nodes[-1].node}"))
        rss_mib = resident_mib(process.pid)
    changes = log.changes()
    check_status(status, names)
    check_log(changes, names, begin)
    check_remains(plane, names)
    evicted = len(watch_log.ended_pods(changes))
    print(f"\n{len(names)} nodes, {evicted} pods evicted; actuator {rss_mib} MiB")
    assert rss_mib <= 200


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
    back = watch_log.healthy_at_the_end(changes)
    assert {app: back[app] for app in REPLICAS} == REPLICAS, "every evicted replica came back"
    for app in ("careful", "queue"):
        gaps_s = watch_log.eviction_gaps_s(changes, {"app": app})
        assert len(gaps_s) == SLOW_DRAINED - 1
        assert min(gaps_s) >= SLOW_MS / 1000 - 1, "the next one goes when the last one is ready again"
    assert len(watch_log.ever_on(changes, {"app": "late"}) & set(names)) == 0, "new pods come to nodes that stay"
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
    assert {"lonely", "newcomer"} <= {one["metadata"]["name"] for one in pods}, "pods of nobody are not evicted"


def jobs_go_on(plane: ControlPlane) -> bool:
    """Whether every pod of each Job runs or is done."""
    jobs = [(one["spec"]["completions"], one.get("status", {})) for one in listed(plane, "jobs")]
    return all(status.get("ready", 0) + status.get("succeeded", 0) == wanted for wanted, status in jobs)


def mark(plane: ControlPlane, what: str) -> str:
    """Change an object a little; returns its version from then on."""
    document: Json = json.loads(plane.kubectl("annotate", what, "seen=yes", "-o", "json"))
    return str(document["metadata"]["resourceVersion"])


def version_now(plane: ControlPlane) -> int:
    document: Json = json.loads(plane.kubectl("get", "--raw", "/api/v1/nodes?limit=1"))
    return int(document["metadata"]["resourceVersion"])


def resident_mib(pid: int) -> int:
    """Largest resident memory so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024
