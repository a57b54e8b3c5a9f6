"""`trimtab run --act steer` as a process on a real control plane: which nodes it protects, how it ends, what remains
after a kill.
"""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.builders import kubernetes as k8s
from tests.e2e.control_plane.control_plane import ControlPlane, free_ports
from tests.e2e.loop_processes import planner_at, process, until
from tests.e2e.workloads import kwok_node, workload
from trimtab.clients.steering.writer import FIELD_MANAGER
from trimtab.common.kubernetes.signals.cluster_autoscaler import SCALE_DOWN_DISABLED
from trimtab.common.kubernetes.signals.ours import STEERED

pytestmark = pytest.mark.e2e

NODES = ("n0", "n1", "n2", "n3")
LARGE, ASKED = "n0", "n3"


@pytest.fixture(scope="module", autouse=True)
def content(plane: ControlPlane) -> None:
    """Run a control plane with four nodes of one group: one has unmovable pods, an operator protects another."""
    for name in NODES:
        node = kwok_node(name, "a")
        node["metadata"]["labels"]["pool"] = "a"
        plane.kubectl("create", "-f", "-", stdin=json.dumps(node))
    web = workload("web", 2)
    del web["spec"]["template"]["spec"]["containers"][0]["ports"]
    web["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": LARGE}
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(web))
    plane.kubectl("annotate", "node", ASKED, f"{SCALE_DOWN_DISABLED.key}=true")


def nodes(plane: ControlPlane) -> dict[str, dict[str, Any]]:
    """Return the metadata of each node."""
    items = json.loads(plane.kubectl("get", "nodes", "-o", "json", "--show-managed-fields"))["items"]
    return {one["metadata"]["name"]: one["metadata"] for one in items}


def with_annotation(plane: ControlPlane, key: str) -> list[str]:
    return sorted(name for name, meta in nodes(plane).items() if key in meta.get("annotations", {}))


def steering(plane: ControlPlane, folder: Path, *options: object) -> tuple[object, ...]:
    groups = folder / "groups.json"
    groups.write_text(json.dumps(k8s.node_group("a", selector={"pool": "a"})))
    return (
        "trimtab.clients.cli", "run", "--act", "steer", "--kubeconfig", plane.kubeconfig("admin"),
        "--node-groups", groups, "--interval", 0.5, "--cluster-name", "e2e", *options,
    )  # fmt: skip


def rounds_since(log: Path, count: int) -> bool:
    """Return whether `count` rounds have been made."""
    return log.read_text().count('"event": "round"') >= count


def test_nodes_that_stay_are_protected_until_it_ends_and_a_kill_leaves_them_to_clean(
    plane: ControlPlane, tmp_path: Path
) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with planner_at(address, tmp_path):
        _dry_run(plane, tmp_path, address)
        log = tmp_path / "steer.log"
        with process(*steering(plane, tmp_path, "--planner", address), log=log) as running:
            until("the node with pods is protected", lambda: with_annotation(plane, STEERED.key) == [LARGE])
            versions = {name: _owned_time(meta) for name, meta in nodes(plane).items()}
            steady = log.read_text().count('"event": "round"') + 5
            until("more rounds are made", lambda: rounds_since(log, steady))
            assert {name: _owned_time(meta) for name, meta in nodes(plane).items()} == versions
            assert log.read_text().count('"event": "steered"') == 1
            assert with_annotation(plane, SCALE_DOWN_DISABLED.key) == [LARGE, ASKED]
            running.send_signal(signal.SIGTERM)
            assert running.wait(120) == 0, log.read_text()
        assert with_annotation(plane, STEERED.key) == []
        assert with_annotation(plane, SCALE_DOWN_DISABLED.key) == [ASKED]
        with process(*steering(plane, tmp_path, "--planner", address), log=log) as running:
            until("it steers again", lambda: with_annotation(plane, STEERED.key) == [LARGE])
            running.kill()
            running.wait(60)
    assert with_annotation(plane, STEERED.key) == [LARGE]
    with process(*steering(plane, tmp_path, "--clean"), log=log) as running:
        assert running.wait(120) == 0, log.read_text()
    assert with_annotation(plane, SCALE_DOWN_DISABLED.key) == [ASKED]
    assert set(nodes(plane)) == set(NODES)


def _dry_run(plane: ControlPlane, folder: Path, address: str) -> None:
    log = folder / "dry.log"
    with process(
        *steering(
            plane, folder, "--planner", address, "--act", "none", "--autoscaler", "cluster-autoscaler", "--rounds", 1
        ),
        log=log,
    ) as running:
        assert running.wait(120) == 0, log.read_text()
    line = next(line for line in map(json.loads, log.read_text().splitlines()) if line["event"] == "steered")
    assert (line["protect"], line["written"], line["dry_run"]) == (1, 0, True)
    assert with_annotation(plane, STEERED.key) == []


def _owned_time(meta: dict[str, Any]) -> list[str]:
    """Return when our field manager wrote last."""
    return [one["time"] for one in meta["managedFields"] if one["manager"] == FIELD_MANAGER]
