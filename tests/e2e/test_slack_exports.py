"""Slack for other autoscalers: the API server accepts the objects, and the scheduler preempts pause pods."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import workloads
from tests.e2e.actuator_process import all_ready, apply, until
from tests.e2e.control_plane.control_plane import ControlPlane

pytestmark = pytest.mark.e2e
Json = dict[str, Any]
DEFINITION = Path(__file__).parent / "capacity-buffers.yaml"
KINDS = "nodes,pods,replicasets,deployments,namespaces"
SLOW_S = 120.0


@pytest.fixture(scope="module", autouse=True)
def content(plane: ControlPlane) -> None:
    """A cluster of eight nodes; a workload that keeps its pods apart asks for room for two more pods."""
    web = workloads.deployment("web", 4, "1500m")
    web["metadata"]["annotations"] = {"trimtab.dev/slack": "2"}
    apart = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    web["spec"]["template"]["spec"] |= {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
        "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
    }
    apply(plane, *workloads.nodes("n", 8), web)
    until(lambda: all_ready(plane), SLOW_S, "pods ready")


def planned(plane: ControlPlane, directory: Path, form: str, settings: str, kinds: str = KINDS) -> Json:
    """Return the output of `trimtab plan` on the cluster's slack."""
    (directory / "cluster.json").write_text(plane.kubectl("get", kinds, "-A", "-o", "json"))
    (directory / "settings.yaml").write_text(settings)
    options = ["--decision", "slack", "--settings", "settings.yaml", "-o", form]
    command = [sys.executable, "-m", "trimtab.clients.cli", "plan", "cluster.json", *options]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: Json = yaml.safe_load(done.stdout)
    return found


def sizes(slack: Json) -> list[tuple[str, str]]:
    """Return the size of each placeholder."""
    return sorted((one["cpuMilli"], one["memoryBytes"]) for one in slack["placeholders"])


def test_exported_buffers_pass_the_validation_and_are_read_back_as_the_same_slack(
    plane: ControlPlane, tmp_path: Path
) -> None:
    plane.kubectl("apply", "--server-side", "-f", str(DEFINITION))
    until(lambda: "capacitybuffers" in plane.kubectl("api-resources", "--api-group=autoscaling.x-k8s.io"), SLOW_S, "it")
    asked = "slack: {extraCapacityMinRate: 0.2}"
    before = planned(plane, tmp_path, "json", asked)["slack"]
    assert before["result"] == "SLACK_PRESENT"
    exported = planned(plane, tmp_path, "capacity-buffers", asked)
    # Strict: a field that the definition does not have is an error, not dropped.
    plane.kubectl("apply", "--server-side", "--validate=strict", "-f", "-", stdin=json.dumps(exported))
    buffers = json.loads(plane.kubectl("get", "capacitybuffers", "-o", "json"))["items"]
    assert sum(one["spec"]["replicas"] for one in buffers) == len(before["placeholders"])

    # The annotation and the rate are gone: the requests come only from the objects.
    plane.kubectl("annotate", "deployment/web", "trimtab.dev/slack-")
    after = planned(plane, tmp_path, "json", "{}", f"{KINDS},capacitybuffers,podtemplates")["slack"]
    assert sizes(after) == sizes(before)
    assert {one["kind"] for one in after["placeholders"]} == {"CAPACITY_BUFFER"}
    plane.kubectl("annotate", "deployment/web", "trimtab.dev/slack=2")
    plane.kubectl("delete", "capacitybuffers,podtemplates", "--all")


def test_pause_pods_are_bound_where_there_is_room_and_give_way_to_the_workload(
    plane: ControlPlane, tmp_path: Path
) -> None:
    exported = planned(plane, tmp_path, "pause-pods", "slack: {extraCapacityMinRate: 0.2}")
    plane.kubectl("apply", "--server-side", "--validate=strict", "-f", "-", stdin=json.dumps(exported))
    until(lambda: all_ready(plane), SLOW_S, "pause pods ready")
    names = {one["metadata"]["name"] for one in exported["items"] if one["kind"] == "Deployment"}
    assert len(names) == 2
    # The placeholders of the workload, which keep apart from its pods, and one another.
    apart = bound(plane, f"trimtab.dev/slack-of={next(one for one in names if 'web' in one)}")
    assert len(apart) == len(set(apart)) == 2
    assert set(apart).isdisjoint(bound(plane, "app=web"))

    # Every node gets one: also those on which a pause pod keeps apart from the workload's pods, and has to go.
    plane.kubectl("scale", "deployment/web", "--replicas=8")
    until(lambda: len(bound(plane, "app=web")) == 8, SLOW_S, "all pods of the workload are bound")
    assert len(set(bound(plane, "app=web"))) == 8
    plane.kubectl("delete", "deployment", *sorted(names))


def bound(plane: ControlPlane, selector: str) -> list[str]:
    """Return the nodes of the bound pods that a selector matches, one name per pod."""
    pods = json.loads(plane.kubectl("get", "pods", "-l", selector, "-o", "json"))["items"]
    return [pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")]
