"""`--context` on a real control plane with a ServiceAccount that may only list: one read, the plan of an export, and
the names of permissions that are missing.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Thread

import pytest
import yaml

from tests.e2e import workloads
from tests.e2e.actuator_process import all_ready, apply, until
from tests.e2e.control_plane.control_plane import ControlPlane, cached_binaries
from trimtab.clients.cli.command_options import TopOptions
from trimtab.clients.cli.plan import CommandOptions
from trimtab.clients.cli.top.command import _feed
from trimtab.clients.cli.top.feed import Picture
from trimtab.clients.cli.top.screen import TopView
from trimtab.clients.live.single_read import list_rules
from trimtab.common.kubernetes.registry import EXPORTED_KINDS

pytestmark = pytest.mark.e2e

LIMIT_S = 240.0
USER = "system:serviceaccount:default:{}"
NOW = "2026-03-01T00:00:00Z"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    state = tmp_path_factory.mktemp("plane") / "state"
    users = [USER.format(name) for name in ("reader", "watcher", "blind")]
    with ControlPlane(cached_binaries(), state, audited=users, audits_reads=True) as started:
        rules = [{"apiGroups": [one.group], "resources": [one.resource], "verbs": ["list"]} for one in list_rules()]
        lacking = [one for one in rules if one["resources"] != ["poddisruptionbudgets"]]
        watching = [{**one, "verbs": ["list", "watch"]} for one in rules]
        for name, given in (("reader", rules), ("watcher", watching), ("blind", lacking)):
            grant(started, name, given)
        apply(
            started,
            *workloads.nodes("n", 3),
            workloads.deployment("web", 4),
            workloads.budget("web", "web", minAvailable=4),
        )
        until(lambda: all_ready(started), LIMIT_S, "workloads ready")
        until(lambda: settled(started), LIMIT_S, "the budget has a status")
        yield started


def settled(plane: ControlPlane) -> bool:
    budgets = json.loads(plane.kubectl("get", "pdb", "-A", "-o", "json"))["items"]
    return all(one.get("status", {}).get("currentHealthy") == 4 for one in budgets)


def grant(plane: ControlPlane, name: str, rules: Sequence[dict[str, list[str]]]) -> None:
    """Make a ServiceAccount with these rules in the whole cluster, and its kubeconfig."""
    role, binding = "rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    apply(
        plane,
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}},
        {"apiVersion": role, "kind": "ClusterRole", "metadata": {"name": name}, "rules": list(rules)},
        {
            "apiVersion": role,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": binding, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
        },
    )
    plane.write_kubeconfig(name, plane.kubectl("create", "token", name, "-n", "default").strip())


def trimtab(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trimtab.clients.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def test_a_read_only_account_gets_the_plan_of_an_export(plane: ControlPlane, tmp_path: Path) -> None:
    export = tmp_path / "cluster.json"
    export.write_text(plane.kubectl("get", EXPORTED_KINDS, "-A", "-o", "json"))
    groups = tmp_path / "groups.json"
    groups.write_text(json.dumps(workloads.group("pool", 10)))
    options = ("--now", NOW, "-o", "json")
    live = trimtab("plan", groups, "--kubeconfig", plane.kubeconfig("reader"), "--context", "c", *options)
    of_files = trimtab("plan", export, groups, *options)
    assert (live.returncode, of_files.returncode) == (0, 0), live.stderr + of_files.stderr
    answers = [json.loads(one.stdout) for one in (live, of_files)]
    assert answers[0]["scaleDown"] == answers[1]["scaleDown"]
    assert answers[0]["scaleUp"] == answers[1]["scaleUp"]
    assert {one["node"] for one in answers[0]["scaleDown"]["unremovable"]} | {
        one["node"] for one in answers[0]["scaleDown"]["unneeded"]
    } == {"n-1", "n-2", "n-3"}
    assert [line for line in live.stderr.splitlines() if "CapacityBuffer" in line] == []
    asked = [json.loads(line) for line in plane.audit_log.read_text().splitlines()]
    of_reader = {one["verb"] for one in asked if one["user"]["username"] == USER.format("reader")}
    assert of_reader <= {"list", "create"}, "create: reviews of its own rights"


def test_the_screen_is_printed_once_with_permission_to_list_alone(plane: ControlPlane) -> None:
    done = trimtab("top", "--kubeconfig", plane.kubeconfig("reader"), "--once")
    assert done.returncode == 0, done.stderr
    assert "3 nodes" in " ".join(done.stdout.split())


class LastPicture:
    """A sink that keeps the last picture, and what was said."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.said: list[str] = []

    def show(self, picture: Picture) -> None:
        self.names = [one.cells[0] for one in picture.screen.tables[TopView.NODES].lines]

    def say(self, text: str) -> None:
        self.said.append(text)


def test_the_live_screen_follows_the_cluster_and_only_reads(plane: ControlPlane) -> None:
    given, options = CommandOptions((), kubeconfig=plane.kubeconfig("watcher")), TopOptions(interval_s=0.5)
    sink = LastPicture()
    with _feed(given, options, is_once=False) as feed:
        thread = Thread(target=feed.run, args=(sink,))
        thread.start()
        until(lambda: sink.names == ["n-1", "n-2", "n-3"], LIMIT_S, "three nodes on the screen")
        apply(plane, *workloads.nodes("m", 1))
        until(lambda: len(sink.names) == 4, LIMIT_S, "a fourth node on the screen")
        plane.kubectl("delete", "node", "m-1")
        until(lambda: len(sink.names) == 3, LIMIT_S, "three nodes on the screen again")
        feed.stop()
        thread.join(LIMIT_S)
    assert sink.said == []
    asked = [json.loads(line) for line in plane.audit_log.read_text().splitlines()]
    of_watcher = {one["verb"] for one in asked if one["user"]["username"] == USER.format("watcher")}
    assert of_watcher <= {"list", "watch", "create"}, "create: reviews of its own rights"


def test_a_missing_permission_is_named_and_other_clusters_go_on(plane: ControlPlane, tmp_path: Path) -> None:
    alone = trimtab("plan", "--kubeconfig", plane.kubeconfig("blind"))
    assert alone.returncode == 1
    rules = yaml.safe_load(alone.stderr.partition("rules:\n")[2])
    assert rules == [{"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["list"]}]
    config = yaml.safe_load(plane.kubeconfig("reader").read_text())
    config["users"] += yaml.safe_load(plane.kubeconfig("blind").read_text())["users"]
    config["contexts"] = [{"name": name, "context": {"cluster": "c", "user": name}} for name in ("blind", "reader")]
    merged = tmp_path / "kubeconfig"
    merged.write_text(yaml.safe_dump(config))
    contexts = ("--context", "blind", "--context", "reader", "--context", "nowhere")
    done = trimtab("plan", "--kubeconfig", merged, *contexts, "--now", NOW, "-o", "json")
    assert done.returncode == 1
    rows = json.loads(done.stdout)["clusters"]
    assert [(one["name"], "error" in one) for one in rows] == [("reader", False), ("blind", True), ("nowhere", True)]
    page = tmp_path / "page.html"
    report = trimtab("plan", "--kubeconfig", plane.kubeconfig("reader"), "--now", NOW, "-o", f"html={page}")
    assert report.returncode == 0, report.stderr
    assert "poddisruptionbudget" in page.read_text().lower() or "budget default/web" in page.read_text()


def test_fit_and_explain_read_the_cluster_too(plane: ControlPlane) -> None:
    config = plane.kubeconfig("reader")
    told = trimtab("explain", "node/n-1", "--kubeconfig", config, "--now", NOW)
    assert (told.returncode, "n-1" in told.stdout) == (0, True), told.stderr
    pod = json.loads(plane.kubectl("get", "pods", "-n", "default", "-o", "json"))["items"][0]["metadata"]["name"]
    fits = trimtab("explain", f"fit/default/{pod}", "--kubeconfig", config, "-o", "json")
    assert [json.loads(line)["node"] for line in fits.stdout.splitlines()] == ["n-1", "n-2", "n-3"], fits.stderr
