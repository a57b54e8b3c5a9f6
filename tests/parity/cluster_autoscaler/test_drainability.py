"""Cases of upstream's rules for draining, re-expressed and run through whole decisions."""

from typing import Any

import pytest

from tests.builders.kubernetes import (
    Json,
    daemon_set,
    job,
    node,
    node_group,
    pdb,
    pod,
    replica_set,
    replication_controller,
    stateful_set,
)
from tests.builders.scale_down import plan
from tests.parity.cluster_autoscaler.cases import load

CUSTOM = {"apiVersion": "example.com/v1", "kind": "CustomSet", "name": "own", "uid": "custom-own", "controller": True}


def owner(kind: str, replicas: int, namespace: str) -> tuple[list[Json], Json | None]:
    """Return the controller objects of a case, and the reference of its pod."""
    if kind in {"none", "custom"}:
        return [], CUSTOM if kind == "custom" else None
    builders = {"rs": replica_set, "rc": replication_controller, "sts": stateful_set, "job": job}
    built = daemon_set(namespace=namespace) if kind == "ds" else builders.get(kind, replica_set)(
        "own", replicas, namespace=namespace
    )  # fmt: skip
    return ([], built) if kind == "gone" else ([built], built)


@pytest.mark.parametrize("case", load("drainability"))
def test_a_pod_allows_the_removal_of_its_node_as_in_upstream(case: dict[str, Any]) -> None:
    given = dict(case["pod"])
    controllers, of = owner(given.pop("owner"), case.get("replicas", 5), given.get("namespace", "default"))
    budgets = [pdb(**case["pdb"])] if "pdb" in case else []
    one = pod("one", node="n1", owner=of, **given)
    found = plan(
        [node("n1"), node("n2"), node_group("g", nodes=["n1"])], controllers, budgets, one,
        settings={"unneededTime": "0s", **case.get("settings", {})},
    )  # fmt: skip
    key = f"{given.get('namespace', 'default')}/one"
    if case["expect"] in {"moves", "goes", "waits"}:
        assert found.unneeded == ["n1"]
        assert found.destinations == ({key: "n2"} if case["expect"] == "moves" else {})
        assert found.not_now["n1"] == ("BLOCKED_BY_ON_COMPLETION_POD" if case["expect"] == "waits" else "")
    elif case["expect"] == "has no place":
        assert found.reasons["n1"] == "NO_PLACE_TO_MOVE_PODS"
    else:
        assert found.reasons["n1"] == "BLOCKED_BY_POD"
        assert found.blocking["n1"] == (key, case["expect"])
