"""Cases of upstream's eligibility checks, re-expressed and run through whole decisions."""

from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.builders.kubernetes import Json, daemon_set, node, node_group, pod, replica_set
from tests.builders.scale_down import NOW_S, plan
from tests.parity.cluster_autoscaler.cases import load
from trimtab.v1 import snapshot_pb2

MIRROR = {"kubernetes.io/config.mirror": "x"}


def pods_of(case: dict[str, Any]) -> list[Json]:
    web, agent = replica_set("web", 5), daemon_set()
    gpus = {"requests": {"nvidia.com/gpu": str(case["gpus"])}} if "gpus" in case else {}
    built = [web, agent]
    for i, (cpu, memory) in enumerate(case.get("pods", [])):
        built.append(pod(f"web-{i}", str(cpu), memory, node="n1", owner=web, **(gpus if i == 0 else {})))
    for i, (cpu, memory) in enumerate(case.get("daemons", [])):
        built.append(pod(f"agent-{i}", str(cpu), memory, node="n1", owner=agent, namespace="kube-system"))
    for i, (cpu, memory) in enumerate(case.get("mirrors", [])):
        built.append(pod(f"static-{i}", str(cpu), memory, node="n1", annotations=MIRROR))
    return built


def deletions(case: dict[str, Any]) -> snapshot_pb2.ActuationStatus:
    start = Timestamp(seconds=NOW_S - 5)
    return snapshot_pb2.ActuationStatus(
        deletions=[
            snapshot_pb2.DeletionInProgress(node=name, node_group="g", start_time=start)
            for name in case.get("deleting", [])
        ]
    )


@pytest.mark.parametrize("case", load("eligibility"))
def test_a_node_is_a_candidate_as_upstream_has_it(case: dict[str, Any]) -> None:
    group = case.get("group", {"target": 3})
    groups = [node_group("g", nodes=["n1"], **group)] if group else []
    n2 = node("n2", "64", "256Gi", extra={"nvidia.com/gpu": "8"} if "gpus" in case else None)
    found = plan(
        [node("n1", **case.get("node", {})), n2], groups, pods_of(case),
        settings=case.get("settings"), actuation=deletions(case),
    )  # fmt: skip
    assert ("unneeded" if found.unneeded == ["n1"] else found.reasons["n1"]) == case["expect"]
