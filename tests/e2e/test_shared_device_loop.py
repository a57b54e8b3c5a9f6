"""`trimtab run` over a group with devices, on a real control plane: a node goes whose pods share a claim. They move
together, their claim gets devices of another node once the last of them has gone, and it is never lost or in two
places, though the actuator is killed.
"""

from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.builders import device_objects as dra
from tests.e2e import workloads
from tests.e2e.actuator_process import apply, listed
from tests.e2e.closed_loop import closed_loop, tainted
from tests.e2e.control_plane.control_plane import ControlPlane
from tests.e2e.driver_stand_in import driver_stand_in
from tests.e2e.loop_processes import until
from tests.e2e.watch_log import WatchLog

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

Json = dict[str, Any]
LIMIT_S = 120.0
DEVICES, OWN, CREW = 4, 3, 3
"""Of a node, those of pods that stay, and the pods that share one."""
SETTINGS = {"unneededTime": "2s", "delayAfterAdd": "1s"}
LEAVES, STAYS = "gpu-1", "gpu-2"


def claiming(name: str, replicas: int, **source: str) -> Json:
    """Return a Deployment whose pods have a claim; source : the field that names it."""
    made = workloads.deployment(name, replicas, "100m", "gpu")
    made["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "own", **source}]
    return made


def node_of(plane: ControlPlane, app: str) -> list[str]:
    """Return the node of each running pod of a Deployment."""
    pods = [one for one in listed(plane, "pods") if one["metadata"].get("labels", {}).get("app") == app]
    there = [one for one in pods if "deletionTimestamp" not in one["metadata"]]
    return [one["spec"]["nodeName"] for one in there if one["status"].get("phase") == "Running"]


def crew_claim(plane: ControlPlane) -> Json:
    """Return the claim that the pods share."""
    (found,) = (one for one in listed(plane, "resourceclaims") if one["metadata"]["name"] == "crew")
    return found


def pools_of(claim: Json) -> list[str]:
    """Return the pools of a claim's devices."""
    allocation = claim.get("status", {}).get("allocation", {})
    return [one["pool"] for one in allocation.get("devices", {}).get("results", ())]


def fill(plane: ControlPlane) -> None:
    """Put the pods that share a claim on one node, and pods with devices of their own on the other."""
    apply(plane, *workloads.nodes("gpu", 2, pool="gpu"))
    until("drivers have published", lambda: len(listed(plane, "resourceslices")) == 2, LIMIT_S)
    shared = dra.resource_claim("crew")
    del shared["status"]
    plane.kubectl("cordon", STAYS)
    apply(plane, shared, claiming("crew", CREW, resourceClaimName="crew"))
    until("the crew runs", lambda: node_of(plane, "crew") == [LEAVES] * CREW, LIMIT_S)
    plane.kubectl("uncordon", STAYS)
    plane.kubectl("cordon", LEAVES)
    apply(plane, claiming("own", OWN, resourceClaimTemplateName="one-gpu"))
    until("the others run", lambda: node_of(plane, "own") == [STAYS] * OWN, LIMIT_S)
    plane.kubectl("uncordon", LEAVES)


@pytest.mark.timeout(420)
def test_pods_that_share_a_claim_move_together_and_the_claim_is_never_lost(plane: ControlPlane, tmp_path: Path) -> None:
    apply(plane, dra.device_class("gpu", f'device.driver == "{dra.DRIVER}"'), dra.claim_template("one-gpu"))
    claims = {"ResourceClaim": "/apis/resource.k8s.io/v1/resourceclaims"}
    with driver_stand_in(plane, lambda node, pool: [dra.gpus(node, DEVICES)] if pool == "gpu" else []):
        fill(plane)
        before = crew_claim(plane)
        others = {one["metadata"]["uid"] for one in listed(plane, "resourceclaims")} - {before["metadata"]["uid"]}
        with (
            WatchLog(plane, tmp_path, paths=claims) as log,
            closed_loop(plane, tmp_path, [workloads.group("gpu", 2, "gpu")], SETTINGS) as actuator,
        ):
            until("a node is to go", lambda: tainted(plane), LIMIT_S)
            actuator.die_and_return()
            until(
                "it has gone", lambda: [one["metadata"]["name"] for one in listed(plane, "nodes")] == [STAYS], LIMIT_S
            )
            until("the crew runs on the other", lambda: node_of(plane, "crew") == [STAYS] * CREW, LIMIT_S)
            after = crew_claim(plane)
            log.wait_for("ResourceClaim", after["metadata"]["resourceVersion"])
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert pools_of(after) == [STAYS]
    assert len(after["status"]["reservedFor"]) == CREW
    assert node_of(plane, "own") == [STAYS] * OWN
    left = {one["metadata"]["uid"] for one in listed(plane, "resourceclaims")}
    assert left == others | {after["metadata"]["uid"]}, "the claims of the other pods are the same ones"
    seen = [one for one in log.changes() if one.item["metadata"]["name"] == "crew"]
    assert not any(one.gone for one in seen)
    assert set(chain(*(pools_of(one.item) for one in seen))) <= {LEAVES, STAYS}
    # Devices of the first node, none, devices of the second: never back, never both.
    assert [len(pools_of(one.item)) for one in seen if len(pools_of(one.item)) > 1] == []
