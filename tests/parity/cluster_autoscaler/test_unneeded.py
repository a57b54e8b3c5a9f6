"""Cases of upstream's timers and minimums, re-expressed: each node is first seen in a separate loop."""

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.builders.kubernetes import Json, node, node_group, snapshot_of
from tests.builders.scale_down import NOW_S, plan_message
from tests.parity.cluster_autoscaler.cases import load
from trimtab.v1 import snapshot_pb2


def message_of(case: dict[str, Any], seen: set[str]) -> snapshot_pb2.ClusterSnapshot:
    """Return the cluster at a time when only some of the nodes could go; the others are marked."""
    groups = {
        name: dict(of) for name, of in case.get("groups", {"a": {"target": 10, "nodes": sorted(case["since"])}}).items()
    }
    atomic = {name for name, of in groups.items() if of.pop("atomic", False)}
    message = snapshot_of(
        [_node(case, name, name in seen) for name in case["since"]],
        [node_group(name, **of) for name, of in groups.items()],
    )
    for group in message.node_groups:
        group.zero_or_max = group.id in atomic
    message.actuation_status.deletions.extend(_deletions(case))
    return message


def _node(case: dict[str, Any], name: str, may_go: bool) -> Json:
    disabled = {} if may_go else {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}
    return node(name, ready=name not in case.get("unready", []), annotations=disabled)


def _deletions(case: dict[str, Any]) -> Iterator[snapshot_pb2.DeletionInProgress]:
    for group, count in case.get("deleting", {}).items():
        for i in range(count):
            yield snapshot_pb2.DeletionInProgress(
                node=f"gone-{group}-{i}", node_group=group, start_time=Timestamp(seconds=NOW_S - 9)
            )


@pytest.mark.parametrize("case", load("unneeded"))
def test_nodes_go_at_the_same_time_as_in_upstream(case: dict[str, Any]) -> None:
    state, seen = None, set()
    found = None
    for age in sorted({*case["since"].values(), 0}, reverse=True):
        seen |= {name for name, since in case["since"].items() if since >= age}
        found = plan_message(message_of(case, seen), case.get("settings"), state, NOW_S - age)
        state = found.state
    assert found is not None
    assert found.not_now == case["expect"]
