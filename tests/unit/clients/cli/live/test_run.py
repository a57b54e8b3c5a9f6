"""`trimtab run` as a command: an error is one message, before any work begins."""

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.builders import karpenter as kp
from tests.builders import kubernetes as k8s
from tests.builders.actuator_service import Service
from tests.builders.api_server import FakeApiServer
from tests.builders.cli import Outcome, Run
from tests.builders.kubernetes_protobuf import encoded
from tests.builders.live_commands import kubeconfig
from tests.builders.waiting import LIMIT_S
from trimtab.clients.cli.amounts import NO_MAXIMUM
from trimtab.common.kubernetes.registry import BY_KIND, WATCHED
from trimtab.common.rpc.errors import ServiceError, to_status
from trimtab.v1 import plan_pb2, planner_pb2, planner_pb2_grpc, reason_pb2, snapshot_pb2

LABELS = {"node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "z", "pool": "general"}


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_all_permissions_that_lack_are_said_those_of_the_loop_itself_included(trimtab: Any, tmp_path: Path) -> None:
    with FakeApiServer() as server:
        server.forbidden = {("leases", "update"), ("configmaps", "patch"), ("events", "create"), ("nodes", "watch")}
        options = ("--planner", "127.0.0.1:1", "--actuator", "127.0.0.1:1", "--health-address", "")
        done = trimtab("run", "--kubeconfig", kubeconfig(tmp_path, server.url), *options)
    assert done.code == 1
    assert [line for line in done.err.splitlines() if line.startswith("- ")] == [
        '- {apiGroups: [""], resources: [nodes], verbs: [watch]}',
        '- {apiGroups: ["coordination.k8s.io"], resources: [leases], resourceNames: [trimtab-loop], verbs: [update]}'
        "  # Role in namespace kube-system",
        '- {apiGroups: [""], resources: [configmaps], resourceNames: [trimtab-state], verbs: [patch]}'
        "  # Role in namespace kube-system",
        '- {apiGroups: [""], resources: [configmaps], resourceNames: [trimtab-status], verbs: [patch]}'
        "  # Role in namespace kube-system",
        '- {apiGroups: [""], resources: [events], verbs: [create]}',
    ]


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        pytest.param(("--kubeconfig", "/does/not/exist"), 2, "/does/not/exist", id="no kubeconfig"),
        pytest.param(("--settings", "/does/not/exist"), 2, "no such file", id="no settings"),
        pytest.param(("--node-groups", "/does/not/exist"), 2, "/does/not/exist", id="no node groups"),
        pytest.param(("--decision", "scale-sideways"), 2, "scale-sideways", id="an unknown decision"),
        pytest.param(("--log-level", "loud"), 2, "loud", id="an unknown log level"),
        pytest.param(("--prices", "/does/not/exist"), 2, "/does/not/exist", id="no price file"),
        pytest.param(("--offers", "/does/not/exist"), 2, "/does/not/exist", id="no file of offerings"),
        pytest.param(("--act", "none", "--apply-pod-costs"), 2, "carries nothing out", id="advice that acts"),
    ],
)
def test_what_cannot_be_used_is_named_without_a_traceback(
    trimtab: Any, options: tuple[str, ...], code: int, words: str
) -> None:
    done = trimtab("run", "--planner", "127.0.0.1:1", *options)
    assert done.code == code
    assert words in done.err
    assert "Traceback" not in done.err


def test_a_server_that_is_away_is_said_at_the_start(trimtab: Any, tmp_path: Path) -> None:
    done = trimtab("run", "--planner", "127.0.0.1:1", "--kubeconfig", kubeconfig(tmp_path, "http://127.0.0.1:1"))
    assert done.code == 1
    assert "127.0.0.1:1" in done.err


class Deciding(planner_pb2_grpc.PlannerServicer):
    """A planner for which no node can go, and which is not ready for its first `refusals` calls."""

    def __init__(self) -> None:
        self.refusals, self.plans = 0, 0
        self.empty: list[str] = []
        self.decisions: list[int] = []
        self.whole = snapshot_pb2.ClusterSnapshot()

    def GetInfo(self, request: Any, context: grpc.ServicerContext) -> planner_pb2.GetPlannerInfoResponse:
        if self.refusals:
            self.refusals -= 1
            context.abort(grpc.StatusCode.UNAVAILABLE, "the kernels are being compiled")
        decisions = [plan_pb2.Decision.SCALE_DOWN, plan_pb2.Decision.REPLACEMENT]
        return planner_pb2.GetPlannerInfoResponse(decisions=decisions)

    def Plan(self, requests: Iterator[planner_pb2.PlanRequestPart], context: Any) -> plan_pb2.PlanResponse:
        first, *parts = list(requests)
        if not first.request.base_version:
            self.whole = snapshot_pb2.ClusterSnapshot.FromString(b"".join(one.snapshot.data for one in parts))
        if first.request.settings.scale_down.max_scale_down_parallelism > 1000:
            refused = ServiceError(
                grpc.StatusCode.INVALID_ARGUMENT,
                reason_pb2.ErrorReason.SETTINGS_INVALID,
                "scale_down.max_scale_down_parallelism: at most 1000",
                {"field": "scale_down.max_scale_down_parallelism"},
            )
            context.abort_with_status(to_status(refused))
        self.plans += 1
        answer = plan_pb2.PlanResponse(snapshot_version="v", request_id=first.request.request_id)
        stays = {"reason": reason_pb2.UnremovableReason.NOT_AUTOSCALED, "why": "in no node group"}
        answer.nodes.add(node="n1", fate=plan_pb2.NodeFate.STAYS, **stays)
        answer.summary.now.node_count = 1
        answer.scale_down.delete_empty.extend(self.empty)
        answer.diagnostics.node_count = 1
        self.decisions = list(first.request.decisions)
        if plan_pb2.Decision.REPLACEMENT in self.decisions:
            answer.summary.decisions.add(
                decision=plan_pb2.Decision.REPLACEMENT, saved_per_hour=4.0, bought_per_hour=1.0
            )
            wave = answer.replacement.waves.add(saving_per_hour=3.0)
            wave.leaving.add(node="n1", node_group="large", price_per_hour=4.0)
            wave.new_nodes.add(name="small#0", node_group="small", price_per_hour=1.0)
        return answer


@pytest.fixture
def deciding() -> Iterator[tuple[str, Deciding]]:
    """Yield the address of a planner, and the planner."""
    server, planner = grpc.server(ThreadPoolExecutor(4)), Deciding()
    planner_pb2_grpc.add_PlannerServicer_to_server(planner, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}", planner
    server.stop(None).wait()


DryRun = Callable[..., Outcome]


@pytest.fixture
def dry_run(trimtab: Run, tmp_path: Path, deciding: tuple[str, Deciding]) -> DryRun:
    """Return a function that runs three rounds without acting."""

    def run(server: FakeApiServer, *options: str) -> Outcome:
        server.put(WATCHED["Node"].path, encoded(k8s.node("n1", labels=LABELS)))
        command = ("run", "--planner", deciding[0], "--act", "none", "--rounds", "3", "--interval", "0.1", *options)
        return trimtab(*command, "--kubeconfig", kubeconfig(tmp_path, server.url))

    return run


def test_a_dry_run_writes_nothing_to_the_cluster_and_ends_with_its_plan(
    dry_run: DryRun, deciding: tuple[str, Deciding]
) -> None:
    with FakeApiServer() as server:
        server.forbidden = {(kind, "create") for kind in ("leases", "configmaps", "events")}
        done = dry_run(server)
        written = {(method, path) for method, path, _ in server.requests if method != "GET"}
    assert done.code == 0, done.err
    assert deciding[1].plans == 3
    assert {path.rpartition("/")[2] for _, path in written} == {"selfsubjectaccessreviews"}
    assert done.out.splitlines()[0] == "None of 1 node can go."
    assert "in no node group (such as n1)" in done.out


def test_a_dry_run_orders_nothing_from_an_actuator(dry_run: DryRun, deciding: tuple[str, Deciding]) -> None:
    deciding[1].empty = ["n1"]
    with FakeApiServer() as server, closing(Service()) as service:
        done = dry_run(server, "--actuator", service.shell.address)
        status = service.client.get_status()
    assert done.code == 0, done.err
    assert deciding[1].plans == 3
    assert (list(status.deletions), list(status.finished)) == ([], [])


def test_a_loop_that_only_advises_writes_its_own_status_and_counts_what_it_would_have_saved(
    dry_run: DryRun, deciding: tuple[str, Deciding]
) -> None:
    with FakeApiServer() as server:
        server.forbidden = {(kind, "create") for kind in ("leases", "events")}
        done = dry_run(server, "--replace", "--status-config-map", "trimtab-advisory")
        written = {path for method, path, _ in server.requests if method not in ("GET", "POST")}
    assert done.code == 0, done.err
    assert deciding[1].decisions == [plan_pb2.Decision.SCALE_DOWN, plan_pb2.Decision.REPLACEMENT]
    assert {path.rpartition("/")[2].partition("?")[0] for path in written} == {"trimtab-advisory"}
    (last,) = [one for one in map(json.loads, done.err.splitlines()) if one["event"] == "advisory"]
    assert "nothing was carried out" in last["text"]
    assert last["wouldDo"]["REPLACEMENT"] == {
        "savesPerHour": 3.0, "newNodes": 1, "leavingNodes": 1, "movedPods": 0
    }  # fmt: skip


@pytest.mark.ci
def test_replacements_are_decided_in_a_dry_run_only_if_asked_for(
    dry_run: DryRun, deciding: tuple[str, Deciding]
) -> None:
    with FakeApiServer() as server:
        dry_run(server)
        assert deciding[1].decisions == [plan_pb2.Decision.SCALE_DOWN]
        dry_run(server, "--replace")
    assert plan_pb2.Decision.REPLACEMENT in deciding[1].decisions


def test_the_groups_of_node_pools_are_the_offerings_of_a_file_with_their_prices(
    dry_run: DryRun, tmp_path: Path, deciding: tuple[str, Deciding]
) -> None:
    offers = tmp_path / "offers.csv"
    offers.write_text(kp.CATALOG)
    with FakeApiServer() as server:
        for kind in (BY_KIND["NodePool"], BY_KIND["NodeClaim"]):
            server.define(kind.path, kind.kind)
        server.put_json(BY_KIND["NodePool"].path, kp.node_pool())
        server.put(WATCHED["Node"].path, encoded(kp.pool_node("n2")))
        done = dry_run(server, "--offers", str(offers), "--group-by", "none")
    assert done.code == 0, done.err
    prices = {one.id: one.price_per_hour for one in deciding[1].whole.node_groups}
    assert (prices["default/m5.large/z1/on-demand"], prices["default/m5.xlarge/z1/on-demand"]) == (0.107, 0.214)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("options", "groups"),
    [
        pytest.param((), {"m5.large/z": (1, NO_MAXIMUM)}, id="instance type and zone"),
        pytest.param(("--group-by", "pool"), {"general": (1, NO_MAXIMUM)}, id="a label"),
        pytest.param(("--group-by", "none"), {}, id="none"),
    ],
)
def test_without_declared_node_groups_nodes_are_grouped_by_labels_as_plan_does(
    dry_run: DryRun, deciding: tuple[str, Deciding], options: tuple[str, ...], groups: dict[str, tuple[int, int]]
) -> None:
    with FakeApiServer() as server:
        done = dry_run(server, "--log-format", "text", *options)
    whole = deciding[1].whole
    assert {one.id: (one.target_size, one.max_size) for one in whole.node_groups} == groups
    assert [one.node_group for one in whole.nodes] == (list(groups) or [""])
    assert done.err.count("nodes are grouped by") == bool(groups)


def test_a_setting_that_the_planner_refuses_is_named_with_its_file(
    tmp_path: Path, deciding: tuple[str, Deciding]
) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("scaleDown: {maxScaleDownParallelism: 2000}")
    with FakeApiServer() as server:
        server.put(WATCHED["Node"].path, encoded(k8s.node("n1")))
        command = (
            "run",
            "--planner",
            deciding[0],
            "--act",
            "none",
            "--kubeconfig",
            str(kubeconfig(tmp_path, server.url)),
        )
        arguments = [sys.executable, "-m", "trimtab.clients.cli", *command, "--settings", str(settings)]
        with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            line = next(line for line in process.stderr if "round_failed" in line)
            process.terminate()
    assert f"settings file {settings}: scaleDown.maxScaleDownParallelism: at most 1000" in line


def test_a_planner_that_is_not_ready_yet_is_awaited_without_failed_rounds(
    dry_run: DryRun, deciding: tuple[str, Deciding]
) -> None:
    deciding[1].refusals = 1
    with FakeApiServer() as server:
        done = dry_run(server)
    events = [json.loads(line)["event"] for line in done.err.splitlines()]
    assert [event for event in events if "planner" in event] == ["waiting_for_planner", "planner_ready"]
    assert events.count("round") == 3
    assert "round_failed" not in events
    assert "kind_unknown" not in events


def test_as_text_a_round_is_a_line_in_words_unless_nothing_has_changed(
    dry_run: DryRun, deciding: tuple[str, Deciding]
) -> None:
    deciding[1].refusals = 1
    with FakeApiServer() as server:
        done = dry_run(server, "--log-format", "text")
    lines = [re.sub(r"^[0-9:]{8} ", "", line) for line in done.err.splitlines()]
    assert lines[0].startswith("health: address 127.0.0.1:")
    assert lines[1:] == [
        f"waiting for the planner at {deciding[0]} …",
        f"the planner at {deciding[0]} is ready",
        "the input has no NodeGroup objects, so nodes are grouped by node pool, instance type and zone into 1 group "
        "with minimum 0 and room to grow. --group-by LABEL,… chooses other labels, --group-by none makes no groups",
        "1 node; nothing to do",
        "in 0.00 h, deletions would have saved 0.00 and new nodes would have cost 0.00; nothing was carried out",
        "stopped",
    ]


def first_screen(address: str) -> Any:
    """Wait for the first picture of a page, and return it."""
    end_s = time.monotonic() + LIMIT_S
    while True:
        try:
            with urllib.request.urlopen(f"http://{address}/page.json", timeout=LIMIT_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code != 503 or time.monotonic() > end_s:
                raise
        time.sleep(0.05)


def test_the_page_has_the_last_round_and_ends_with_its_command(tmp_path: Path, deciding: tuple[str, Deciding]) -> None:
    with FakeApiServer() as server:
        server.put(WATCHED["Node"].path, encoded(k8s.node("n1", labels=LABELS)))
        command = ("top", "--planner", deciding[0], "--interval", "0.1", "--web", "127.0.0.1:0")
        config = ("--kubeconfig", str(kubeconfig(tmp_path, server.url)))
        arguments = [sys.executable, "-m", "trimtab.clients.cli", *command, *config]
        with subprocess.Popen(arguments, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
            assert process.stderr is not None
            address = next(line for line in process.stderr if "the page is at" in line).rpartition("/")[2].strip()
            found = first_screen(address)
            process.terminate()
            assert process.wait(LIMIT_S) == 0
    (row,) = found["blocks"][-1]["lines"]
    assert (row["cells"][0], row["cells"][-1]) == ("n1", "in no node group")
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://{address}/", timeout=LIMIT_S)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param(("--web", "0.0.0.0:0"), "--web 0.0.0.0", id="the network in plain text"),
        pytest.param(("--web", "127.0.0.1:0", "--policy", "/does/not/exist"), "/does/not/exist", id="no policy"),
        pytest.param(("--policy", "/does/not/exist"), "--policy is for the page", id="a policy without a page"),
    ],
)
def test_a_page_that_cannot_be_served_is_said_with_the_option(
    trimtab: Any, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    with FakeApiServer() as server:
        server.put(WATCHED["Node"].path, encoded(k8s.node("n1")))
        config = ("--kubeconfig", kubeconfig(tmp_path, server.url))
        done = trimtab("top", "--planner", "127.0.0.1:1", *config, *options)
    assert done.code == 2
    assert words in done.err
