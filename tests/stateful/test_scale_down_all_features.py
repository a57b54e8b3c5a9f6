"""Plans for clusters that use every scheduling constraint, each verified by the certificate."""

from typing import Any

import pytest

from tests.builders.kubernetes import Json, node_group, replica_set
from tests.builders.scale_down import Outcome, plan
from tests.parity.scheduler_oracle.generator.cluster import Mix, cluster
from tests.parity.scheduler_oracle.generator.source import FEATURES

MIX = Mix("matrix", FEATURES | {"volumes"}, (6, 16), (30, 70))
KINDS = {
    "pvcs": ("v1", "PersistentVolumeClaim"),
    "pvs": ("v1", "PersistentVolume"),
    "storageClasses": ("storage.k8s.io/v1", "StorageClass"),
    "csiNodes": ("storage.k8s.io/v1", "CSINode"),
    "namespaces": ("v1", "Namespace"),
    "nodes": ("v1", "Node"),
}


def objects_of(document: dict[str, Any]) -> list[Json]:
    """Return the cluster's objects; every pod belongs to one ReplicaSet of its namespace, every node to one group."""
    built: list[Json] = []
    for table, (version, kind) in KINDS.items():
        built += [{"apiVersion": version, "kind": kind, **row} for row in document.get(table, [])]
    owners = {row["metadata"]["name"]: replica_set("own", 9, namespace=row["metadata"]["name"])
              for row in document["namespaces"]}  # fmt: skip
    for row in document["pods"]:
        meta = row["metadata"]
        own = owners[meta["namespace"]]["metadata"]
        reference = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "own",
            "uid": own["uid"],
            "controller": True,
        }
        uid = f"uid-{meta['namespace']}-{meta['name']}"
        built.append(
            {"apiVersion": "v1", "kind": "Pod", **row, "metadata": {**meta, "uid": uid, "ownerReferences": [reference]}}
        )
    for row in built:
        if row["kind"] == "Node":
            row["status"] = {**row.get("status", {}), "conditions": [{"type": "Ready", "status": "True"}]}
    names = [row["metadata"]["name"] for row in document["nodes"]]
    return [*built, *owners.values(), node_group("g", nodes=names, target=len(names))]


def outcome(seed: int) -> Outcome:
    settings = {"utilizationThreshold": 1, "gpuUtilizationThreshold": 1, "unneededTime": "0s",
                "skipNodesWithLocalStorage": False}  # fmt: skip
    return plan(objects_of(cluster("c", seed, MIX)), settings=settings)


@pytest.mark.parametrize("seed", range(40))
def test_a_plan_under_every_constraint_is_proven(seed: int) -> None:
    outcome(seed)


def test_such_plans_move_pods() -> None:
    found = [outcome(seed) for seed in range(12)]
    assert sum(len(one.destinations) for one in found) > 50
    assert {"NO_PLACE_TO_MOVE_PODS"} <= {reason for one in found for reason in one.reasons.values()}


def test_a_node_goes_whose_pod_fits_only_after_all_others() -> None:
    """In no order can n012 go by itself: only the moves of nodes that go later make room for its pod."""
    found = outcome(136)
    assert "n012" in found.unneeded
    assert found.decision.unneeded[-1].destinations
