"""The actuator as a user with too few rights, and with exactly those of the chart."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e import workloads
from tests.e2e.actuator_process import all_ready, apply, command, deletion_of, listed, running, serving, until
from tests.e2e.control_plane.control_plane import ControlPlane
from tests.e2e.helm.binary import rendered
from trimtab.v1 import plan_pb2

pytestmark = pytest.mark.e2e

GROUP = workloads.group("pool", 10)


@pytest.fixture(scope="module", autouse=True)
def content(plane: ControlPlane) -> None:
    plane.kubectl("create", "namespace", "trimtab")


def options(plane: ControlPlane, directory: Path, user: str) -> list[str]:
    more = (f"--kubeconfig={plane.kubeconfig(user)}", "--namespace=trimtab", "--leader-elect")
    return command(plane, directory, [GROUP], *more)


def staying(plane: ControlPlane) -> list[str]:
    """Pods that no drain of n-1 moves. Where the scheduler puts pods while nodes appear is chance."""
    return [pod["metadata"]["name"] for pod in listed(plane, "pods") if pod["spec"].get("nodeName") in {"n-2", "n-3"}]


def test_without_rights_it_does_not_start_and_says_which_rules_lack(plane: ControlPlane, tmp_path: Path) -> None:
    call = [sys.executable, "-m", "trimtab.actuator", *options(plane, tmp_path / "a", "nobody")]
    done = subprocess.run(call, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert '- {apiGroups: [""], resources: [nodes], verbs: [get, list, patch, delete]}' in done.stderr
    assert '- {apiGroups: [""], resources: [pods/eviction], verbs: [create]}' in done.stderr
    assert "resources: [leases], verbs: [create]}  # Role in namespace trimtab" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_rights_of_the_chart_are_enough_for_a_whole_drain(plane: ControlPlane, tmp_path: Path) -> None:
    objects = rendered(template="rbac.yaml")
    for item in objects:
        if item["kind"].endswith("Binding"):
            item["subjects"] = [{"kind": "User", "name": "trimtab", "apiGroup": "rbac.authorization.k8s.io"}]
    apply(plane, *(item for item in objects if "loop" not in item["metadata"]["name"]))
    apply(plane, *workloads.nodes("n", 3), workloads.deployment("web", 6))
    until(lambda: all_ready(plane), 60, "workloads ready")
    with running(tmp_path / "b", options(plane, tmp_path / "b", "trimtab")) as (process, client):
        serving(process, client)
        until(lambda: client.get_info().leader, 20, "leading")
        answer = client.start_deletion(deletion_of("r", ["n-1"]))
        assert [one.accepted for one in answer.nodes] == [True]
        assert client.apply_taints(["n-2"]).tainted_count == 1
        until(lambda: staying(plane), 60, "pods on nodes that stay")
        names = staying(plane)
        costs = plan_pb2.PodCostGroup(
            owner="ReplicaSet/default/web", pods=[f"default/{name}" for name in names], costs=[3] * len(names)
        )
        assert [client.apply_pod_costs([costs]).written_count for _ in range(2)] == [len(names), 0]
        until(lambda: len(client.get_status().finished) == 1, 60, "the deletion is over")
        assert client.get_status().finished[0].detail == ""
    taints = {one["metadata"]["name"]: one["spec"].get("taints") for one in listed(plane, "nodes")}
    assert set(taints) == {"n-2", "n-3"}
    assert [taint["key"] for taint in taints["n-2"]] == ["DeletionCandidateOfClusterAutoscaler"]
