"""A predicate is added by one module, one line in the ordered list, its reason in the contract, a twin, and kernels if
it counts: fit, plans in both directions, explanations and `GetInfo` know it then, without a change in any of them.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.builders import kubernetes as k8s
from tests.contract.added_predicate.tree import ROOT, add_predicates

pytestmark = pytest.mark.nightly
LICENSE, OPEN = "example.com/license", "example.com/host-ports"


def cluster() -> list[Any]:
    """Two nodes that could be one but for the seats of a license, and a pod with a host port that neither takes."""
    nodes = [k8s.node(name, cpu="4", labels={"pool": "small"}) for name in ("n1", "n2")]
    owner = k8s.replica_set("users", 4)
    owner["spec"]["selector"]["matchLabels"] = {LICENSE: "a"}
    users = k8s.pods_of(owner, 4)
    for at, one in enumerate(users):
        one["spec"]["nodeName"] = f"n{1 + at % 2}"
    waiting = k8s.replica_set("more", 5)
    waiting["spec"]["selector"]["matchLabels"] = {LICENSE: "a"}
    template = k8s.node("new", cpu="4", labels={"pool": "large"})
    opened = k8s.node("open", cpu="4", labels={"pool": "open", OPEN: ""})
    return [
        *nodes, owner, *users, waiting, *k8s.pods_of(waiting, 5), k8s.pod("server", host_ports=[80]),
        k8s.node_group("small", max_size=2, target=2, nodes=["n1", "n2"]),
        k8s.node_group("large", max_size=9, target=0, selector={"pool": "large"}, template=template),
        k8s.node_group("open", max_size=1, target=0, selector={"pool": "open"}, template=opened),
    ]  # fmt: skip


def run(tree: Path, folder: Path, *arguments: str | Path, compiled: bool = False) -> str:
    """Run Python in the tree; return its output."""
    environment = {"PYTHONPATH": f"{tree}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "120"}
    environment |= {"NUMBA_CACHE_DIR": str(folder / "kernels")} if compiled else {"NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with both predicates."""
    made = tmp_path_factory.mktemp("tree")
    add_predicates(made)
    return made


@pytest.fixture(scope="module")
def seen(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a user of the tree sees; see `session`."""
    folder = tmp_path_factory.mktemp("cluster")
    items = {"apiVersion": "v1", "kind": "List", "items": cluster()}
    (folder / "cluster.json").write_text(json.dumps(items), encoding="utf-8")
    return json.loads(run(tree, folder, Path(__file__).with_name("session.py")))


@pytest.mark.parametrize("compiled", [False, True], ids=["in plain Python", "compiled"])
def test_both_predicates_agree_with_their_twins(tree: Path, tmp_path: Path, compiled: bool) -> None:
    added: Sequence[str | Path] = ("-m", "pytest", "-q", "-c", tree / "pytest.ini", "--import-mode=importlib")
    assert "2 passed" in run(tree, tmp_path, *added, tree / "tests/added", compiled=compiled)


def test_fit_names_them(seen: Any) -> None:
    found = {(one["pod"], one["node"]): one["reasons"] for one in map(json.loads, seen["fit"]["out"].splitlines())}
    assert found["default/server", "n1"] == ["HOST_PORTS_CLOSED"]
    assert found["default/more-0", "n2"] == ["LICENSE_SEATS_TAKEN"]


def test_scale_up_opens_as_many_nodes_as_they_ask_for(seen: Any) -> None:
    splits = {one["nodeGroup"]: one for one in json.loads(seen["plan"]["out"])["scaleUp"]["splits"]}
    # Five users of a license, at most two on a node; the node for the server takes two as well.
    assert splits["open"]["newSize"] == 1
    assert sum(len(one["newNodes"]) for one in splits.values()) == 3
    licensed = [[pod for pod in node["pods"] if "more" in pod] for one in splits.values() for node in one["newNodes"]]
    assert sorted(map(len, licensed)) == [1, 2, 2]


def test_scale_down_keeps_the_nodes_that_they_need(seen: Any) -> None:
    answer = json.loads(seen["plan"]["out"])
    assert answer["scaleDown"]["unneeded"] == []
    kept = {one["node"]: (one["reason"], one["predicateFailureCounts"]) for one in answer["nodes"]}
    assert kept == dict.fromkeys(("n1", "n2"), ("NO_PLACE_TO_MOVE_PODS", {"LICENSE_SEATS_TAKEN": 1}))


def test_explanations_have_their_clauses(seen: Any) -> None:
    assert "host ports are closed" in seen["explained pod"]["out"]
    assert "the seats of its license are taken" in seen["explained node"]["out"]


def test_the_service_says_that_it_has_them(seen: Any) -> None:
    assert seen["info"][-2:] == ["OpenPorts", "LicenseSeats"]
