"""Cases of upstream's planner, re-expressed as whole decisions."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.builders.kubernetes import Json, node, node_group, pod, replica_set, snapshot_of
from tests.builders.scale_down import NOW_S, plan_message
from tests.parity.cluster_autoscaler.cases import load
from trimtab.planner.scale_down.search import drain_sets
from trimtab.v1 import snapshot_pb2


def pods(case: dict[str, Any], web: Json) -> Iterator[Json]:
    number = 0
    for where, sizes in case.get("pods", {}).items():
        for cpu in sizes:
            yield pod(f"web-{number}", str(cpu), "1Mi", node=where, owner=web)
            number += 1


def actuation(case: dict[str, Any], message: snapshot_pb2.ClusterSnapshot) -> None:
    status = message.actuation_status
    uids = {f"web-{i}": f"pod-{i}" for i in range(message.pods.count)}
    for name in case.get("deleting", []):
        status.deletions.add(node=name, node_group="g", drain=True, start_time=Timestamp(seconds=NOW_S - 5))
    for name, age_s in case.get("evicted", {}).items():
        status.recent_evictions.add(
            namespace="default", name=name, uid=_uid(message, name) or uids.get(name, f"uid-{name}"), spec=0,
            owner="" if case.get("stray") else message.owners[0].uid, evict_time=Timestamp(seconds=NOW_S - age_s),
        )  # fmt: skip


def _uid(message: snapshot_pb2.ClusterSnapshot, name: str) -> str:
    """Return the uid of a pod of the snapshot; all names and uids have the same length here."""
    names, uids = message.pods.names.decode(), message.pods.uids.decode()
    at = names.find(name)
    width = len(uids) // max(message.pods.count, 1)
    return uids[at // len(name) * width :][:width] if at >= 0 else ""


@pytest.mark.parametrize("case", load("planner"))
def test_a_decision_is_as_upstream_would_have_it(case: dict[str, Any]) -> None:
    outside = case.get("outside", [])
    web = replica_set("web", 5, current=case.get("current", 5))
    nodes = [node(name, str(cores), f"{4 * cores}Gi") for name, cores in case["nodes"].items()]
    group = node_group("g", nodes=[name for name in case["nodes"] if name not in outside], target=9)
    message = snapshot_of(nodes, group, web, list(pods(case, web)))
    actuation(case, message)
    time_left = (lambda: bool(case["time"])) if "time" in case else None
    with patch.object(drain_sets, "LEAST_EVALUATED", case.get("least", drain_sets.LEAST_EVALUATED)):
        found = plan_message(message, case.get("settings"), time_left=time_left)
    assert found.unneeded == case["expect"]
    assert {name: found.reasons.get(name) for name in case.get("why", {})} == case.get("why", {})
    assert found.result == case.get("result", found.result)
