"""Cases of upstream's remaining-budget tracker and of the eviction API, re-expressed, through whole decisions."""

from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.builders.kubernetes import Json, node, node_group, pdb, pod, replica_set
from tests.builders.scale_down import NOW_S, plan
from tests.parity.cluster_autoscaler.cases import load
from trimtab.v1 import snapshot_pb2

NODES = ["n1", "n2", "n3"]


def pods(case: dict[str, Any], owners: dict[str, Json]) -> list[Json]:
    built = []
    for i, line in enumerate(case["pods"]):
        where, app, *flags = line.split()
        built.append(
            pod(
                f"{app}-{i}", "1m", "1Mi", node=where, owner=owners[app], labels={"app": app},
                ready="unready" not in flags,
                phase="Pending" if "pending" in flags else None,
                deletion="2027-01-15T07:59:55Z" if "terminating" in flags else None,
            )
        )  # fmt: skip
    return built


def budget(number: int, given: dict[str, Any], granted: list[str]) -> Json:
    row = dict(given)
    app, always, status, outdated = (
        row.pop("app"),
        row.pop("always", False),
        row.pop("status", True),
        row.pop("outdated", False),
    )
    built = pdb(f"budget-{number}", labels={"app": app}, **row)
    if app == "all":
        built["spec"]["selector"] = {}
    if always:
        built["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
    if granted:
        built["status"]["disruptedPods"] = dict.fromkeys(granted, "2027-01-15T07:59:55Z")
    if outdated:
        built["metadata"]["generation"] = 2
    if not status:
        del built["status"]
    return built


@pytest.mark.parametrize("case", load("pdb"))
def test_nodes_go_together_as_far_as_budgets_last(case: dict[str, Any]) -> None:
    apps = sorted({line.split()[1] for line in case["pods"]})
    owners = {app: replica_set(app, 5) for app in apps}
    granted = [f"{line.split()[1]}-{i}" for i, line in enumerate(case["pods"]) if "granted" in line]
    budgets = [budget(i, row, granted) for i, row in enumerate(case["budgets"])]
    start = Timestamp(seconds=NOW_S - 5)
    deleting = [
        snapshot_pb2.DeletionInProgress(node=name, node_group="g", drain=True, start_time=start)
        for name in case.get("deleting", [])
    ]
    found = plan(
        [node(name) for name in NODES], node("roomy", "64", "64Gi"), node_group("g", nodes=NODES, target=9),
        list(owners.values()), pods(case, owners), budgets,
        actuation=snapshot_pb2.ActuationStatus(deletions=deleting),
        settings={"candidateOrders": ["NAME"], "maxWaves": 1, **case.get("settings", {})},
    )  # fmt: skip
    used = {line.split()[0] for line in case["pods"]}
    free = [name for name in NODES if name not in used and name not in case.get("deleting", [])]
    assert found.unneeded == sorted({*case["expect"], *free})
