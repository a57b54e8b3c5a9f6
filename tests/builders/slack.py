"""Slack decisions on clusters of plain rows, loop by loop."""

from collections import Counter
from dataclasses import replace
from typing import Any

from google.protobuf.json_format import ParseDict

from tests.builders.rows import NodeRow, PodRow
from tests.builders.snapshots import Cluster, Group, write
from trimtab.planner.decisions.plan import plan
from trimtab.planner.model.values import Owner, PodRequirements
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.opaque_state_pb2 import OpaqueState

NOW_S = 1_800_000_000
GIB = 1 << 30
ROOM = {"cpu": 4000, "memory": 16 * GIB, "pods": 110}
RATE = {"slack": {"extraCapacityMinRate": 0.1}}


def spec(cpu_milli: int = 500, memory_gib: int = 1, **more: Any) -> PodRequirements:
    """A spec with requests."""
    return PodRequirements(requests=(("cpu", cpu_milli), ("memory", memory_gib * GIB)), **more)


def node(name: str, **more: Any) -> NodeRow:
    """A node of 4 cores and 16 GiB in group "g", with its hostname."""
    labels = {"kubernetes.io/hostname": name, "pool": "a"} | more.pop("labels", {})
    return NodeRow(**{"allocatable": ROOM, "group": "g", "labels": labels} | more)


def cluster(nodes: int = 10, pods: dict[str, str] | None = None, **more: Any) -> Cluster:
    """A cluster of equal nodes "n00", ...; pods : name to node, "" = pending; each requests half a core and 1 GiB."""
    names = [f"n{i:02}" for i in range(nodes)]
    rows = {("default", name): pod(name, where) for name, where in (pods or {}).items()}
    group = Group(0, 1000, nodes, NodeRow(allocatable=ROOM, labels={"pool": "a"}), 1.0)
    return Cluster(**{"nodes": {name: node(name) for name in names}, "groups": {"g": group}, "pods": rows} | more)


def pod(name: str, where: str, of: PodRequirements | None = None, **more: Any) -> PodRow:
    """A pod on a node, or one that the scheduler has found no place for."""
    more = {"flags": 0 if where else 32, "phase": 2 if where else 1} | more
    return PodRow(uid=f"uid-{name}", spec=of or spec(), node=where, **more)


def decide(
    given: Cluster,
    settings: dict[str, Any] | None = None,
    state: pb.PlanState | None = None,
    now_s: int = NOW_S,
    decisions: tuple[str, ...] = ("SLACK",),
) -> pb.PlanResponse:
    """Take decisions on a cluster."""
    request = pb.PlanRequest(decisions=[pb.Decision.Code.Value(one) for one in decisions])
    request.now.seconds = now_s
    ParseDict(RATE if settings is None else settings, request.settings)
    return plan(canonicalize(write(given)), request, state, Work())


def where(answer: pb.PlanResponse) -> dict[str, str]:
    """Return the node of each placeholder, "" = none."""
    return {one.name: one.node for one in answer.slack.placeholders}


def sizes(answer: pb.PlanResponse) -> Counter[tuple[int, int]]:
    """Return the number of placeholders of each size: cpu in milli-cores, memory in bytes."""
    return Counter((one.cpu_milli, one.memory_bytes) for one in answer.slack.placeholders)


def total(answer: pb.PlanResponse) -> tuple[int, int]:
    """Return the cpu and memory of all placeholders together."""
    rows = answer.slack.placeholders
    return sum(one.cpu_milli for one in rows), sum(one.memory_bytes for one in rows)


BOTH = ("SLACK", "SCALE_DOWN")


def owned(given: Cluster) -> Cluster:
    """Make all pods belong to a ReplicaSet, so they may move."""
    owner = Owner("rs", "ReplicaSet", "web", "default", 99, 99, "apps/v1")
    pods = {key: row._replace(owner="rs") for key, row in given.pods.items()}
    return replace(given, pods=pods, owners={"rs": owner})


def asking(rate: float, **more: Any) -> dict[str, Any]:
    return {
        "slack": {"extraCapacityMinRate": rate} | more,
        "scaleDown": {"unneededTime": "0s", "maxScaleDownParallelism": 100, "maxDrainParallelism": 100},
    }


def five_nodes() -> Cluster:
    """Return ten pods of 800m on five nodes. 30 % of five nodes are eight placeholders of 800m, of four nodes six, of
    three nodes five.

    Three nodes have room for exactly ten pods and five placeholders.
    """
    rows = {("default", f"p{i}"): pod(f"p{i}", f"n{i % 5:02}", spec(800, 1), owner="rs") for i in range(10)}
    return replace(owned(cluster(5)), pods=rows)


def dependent_count(state: pb.PlanState) -> int:
    """Return how many unneeded nodes of a state can go only because slack requests less without them."""
    return OpaqueState.FromString(state.scale_down.opaque).fewer_placeholders
