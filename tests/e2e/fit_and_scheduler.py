"""What `CheckFit` and `Plan` say of a real control plane with pods that are not there yet, beside what its scheduler
then does with them.
"""

import json
import time
from typing import Any

from google.protobuf import json_format

from tests.e2e.actuator_process import listed
from tests.e2e.control_plane.control_plane import ControlPlane
from trimtab.clients.planner_client import PlannerClient
from trimtab.common.kubernetes.registry import EXPORTED_KINDS
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

Json = dict[str, Any]
LIMIT_S = 60.0
DEVICE_KINDS = "resourceclaims,resourceclaimtemplates,resourceslices,deviceclasses"
GROUP_KINDS = "podgroups.scheduling.k8s.io"


def snapshot_of(plane: ControlPlane, more: list[Json], kinds: str = DEVICE_KINDS) -> pb.ClusterSnapshot:
    """Return the cluster with objects that are not there yet. kinds : beside those that plans always need."""
    items = json.loads(plane.kubectl("get", f"{EXPORTED_KINDS},{kinds}", "-A", "-o", "json"))["items"]
    waiting = [one | {"metadata": one["metadata"] | {"uid": one["metadata"]["name"]}} for one in more]
    return build_snapshot(decode_objects([*items, *waiting])).snapshot


def fitting(planner: PlannerClient, snapshot: pb.ClusterSnapshot, pods: list[str]) -> dict[str, set[str]]:
    """Return the nodes on which each pod fits."""
    request = plan_pb2.PlanRequest(request_id="fit", fit_pods=[f"default/{name}" for name in pods])
    request.now.seconds = int(time.time())
    answers = planner.check_fit(snapshot, request)
    return {one.pod.partition("/")[2]: {node.node for node in one.nodes if node.fits} for one in answers}


def planned(
    planner: PlannerClient, snapshot: pb.ClusterSnapshot, settings: Json | None = None
) -> plan_pb2.ScaleUpDecision:
    """Return what `Plan` says of pods that wait."""
    request = plan_pb2.PlanRequest(request_id="plan", decisions=[plan_pb2.Decision.SCALE_UP])
    request.now.seconds = int(time.time())
    json_format.ParseDict(settings or {}, request.settings)
    return planner.plan(snapshot, request).scale_up


def nodes_of(plane: ControlPlane) -> dict[str, str]:
    """Return the node of each pod, "" while it waits."""
    return {one["metadata"]["name"]: one["spec"].get("nodeName", "") for one in listed(plane, "pods")}


def settle(plane: ControlPlane, planner: PlannerClient, kinds: str = DEVICE_KINDS) -> dict[str, str]:
    """Wait until each pod that waits fits nowhere; return where all are."""
    end = time.monotonic() + LIMIT_S
    while True:
        there = nodes_of(plane)
        waiting = [name for name, node in there.items() if not node]
        snapshot = snapshot_of(plane, [], kinds)
        left = {name: nodes for name, nodes in fitting(planner, snapshot, waiting).items() if nodes}
        if not left:
            return nodes_of(plane)
        assert time.monotonic() < end, f"the scheduler leaves these, which fit: {left}"
        time.sleep(0.3)
