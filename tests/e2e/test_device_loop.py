"""`trimtab run` over a group of nodes with devices, on a real control plane: it grows from nothing by the slices that
the group declares, and shrinks. The actuator is killed in both; neither a node nor a claim is there twice or lost.
"""

from collections import Counter
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

pytestmark = pytest.mark.e2e

Json = dict[str, Any]
LIMIT_S = 90.0
DEVICES, PODS, FEWER = 4, 14, 3
NODES, NODES_LEFT = 4, 1
"""Fourteen pods with a device each need four nodes of four; three need one."""


def group() -> Json:
    """Return a group without nodes that declares the slices of new ones."""
    made = workloads.group("gpu", 6, "gpu")
    declared = dra.gpus("new", DEVICES)["spec"]
    del declared["nodeName"]
    made["spec"]["template"]["resourceSlices"] = [{"spec": declared}]
    return made


def train(replicas: int) -> Json:
    """Return a Deployment whose pods have a device each."""
    made = workloads.deployment("train", replicas, "50m", "gpu")
    made["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "own", "resourceClaimTemplateName": "one-gpu"}]
    return made


def is_served(plane: ControlPlane, pods: int, nodes: int) -> bool:
    """Return whether so many pods run on so many nodes, with a claim each."""
    there = [one for one in listed(plane, "pods") if "deletionTimestamp" not in one["metadata"]]
    run = sum(one["status"].get("phase") == "Running" for one in there)
    return (len(there), run, len(listed(plane, "nodes")), len(listed(plane, "resourceclaims"))) == (
        pods, pods, nodes, pods,
    )  # fmt: skip


def check_claims(plane: ControlPlane) -> None:
    """Check that each pod has one claim, which is reserved for it alone and holds a device of the pod's node."""
    node_of = {one["metadata"]["name"]: one["spec"]["nodeName"] for one in listed(plane, "pods")}
    claims = listed(plane, "resourceclaims")
    users = [user["name"] for one in claims for user in one["status"]["reservedFor"]]
    assert sorted(users) == sorted(node_of), "one claim a pod"
    held = [
        (one["status"]["reservedFor"][0]["name"], result["pool"], result["device"])
        for one in claims
        for result in one["status"]["allocation"]["devices"]["results"]
    ]
    assert [(user, pool) for user, pool, _ in held if node_of[user] != pool] == []
    assert max(Counter((pool, device) for _, pool, device in held).values()) == 1


@pytest.mark.timeout(300)
def test_a_group_with_devices_grows_and_shrinks_though_the_actuator_dies(plane: ControlPlane, tmp_path: Path) -> None:
    apply(plane, dra.device_class("gpu", f'device.driver == "{dra.DRIVER}"'), dra.claim_template("one-gpu"))
    with (
        driver_stand_in(plane, lambda node, pool: [dra.gpus(node, DEVICES)] if pool == "gpu" else []),
        closed_loop(plane, tmp_path, [group()], {"unneededTime": "2s", "delayAfterAdd": "1s"}) as actuator,
    ):
        apply(plane, train(PODS))
        until("the first node", lambda: listed(plane, "nodes"), LIMIT_S)
        actuator.die_and_return()
        until("all pods run", lambda: is_served(plane, PODS, NODES), LIMIT_S)
        check_claims(plane)
        assert len(listed(plane, "resourceslices")) == NODES

        plane.kubectl("scale", "deployment/train", f"--replicas={FEWER}")
        until("a node is to go", lambda: tainted(plane), LIMIT_S)
        actuator.die_and_return()
        until("the others have gone", lambda: is_served(plane, FEWER, NODES_LEFT), LIMIT_S)
        check_claims(plane)
        until("their slices have gone", lambda: len(listed(plane, "resourceslices")) == NODES_LEFT, LIMIT_S)
        assert tainted(plane) == []
