"""Scale-up on a real control plane: groups grow by what a plan says, and the real scheduler binds the pods there."""

import json
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import workloads
from tests.e2e.actuator_process import all_ready, apply, deletion_of, until
from tests.e2e.control_plane.control_plane import ControlPlane
from tests.e2e.rounds_over_plane import Rounds, rounds_over
from trimtab.clients.loop.rounds import RoundResult, RoundSettings
from trimtab.places import new_nodes as pods_of_new_nodes
from trimtab.places import on_existing, on_new_nodes
from trimtab.v1 import actuator_pb2, plan_pb2

pytestmark = pytest.mark.e2e
Json = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
ZONES = "abc"
PODS = 200
SLOW_S = 120.0


def zone_groups(pool: str) -> list[Json]:
    """A group in each zone, "POOL-a"…, that may grow to 20 nodes of 4 CPUs."""
    groups = []
    for zone in ZONES:
        one = workloads.group(f"{pool}-{zone}", 20, pool)
        one["spec"]["nodeSelector"][ZONE] = zone
        one["spec"]["template"]["metadata"]["labels"][ZONE] = zone
        groups.append(one)
    return groups


def first_nodes(pool: str) -> list[Json]:
    """A node in each zone, "POOL-a-1"…"""
    nodes = [node for zone in ZONES for node in workloads.nodes(f"{pool}-{zone}", 1, pool=pool)]
    for node, zone in zip(nodes, ZONES, strict=True):
        node["metadata"]["labels"][ZONE] = zone
    return nodes


def spread_deployment(name: str, replicas: int, pool: str) -> Json:
    """A Deployment of pods of 450m, eight a node, that spread over the zones."""
    made = workloads.deployment(name, replicas, "450m", pool)
    made["spec"]["template"]["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": name}},
        }
    ]
    return made


def pods_of(plane: ControlPlane, app: str) -> list[Json]:
    """Pods of an app that are not being deleted."""
    found = json.loads(plane.kubectl("get", "pods", "-n", "default", "-l", f"app={app}", "-o", "json"))["items"]
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def looked_at(pod: Json) -> bool:
    """Whether the scheduler has bound a pod, or said that there is no place for it."""
    conditions = pod["status"].get("conditions", ())
    return any(one["type"] == "PodScheduled" for one in conditions)


def nodes_of(plane: ControlPlane, app: str) -> list[str]:
    """Names of the nodes of an app's bound pods, a name a pod."""
    return [pod["spec"]["nodeName"] for pod in pods_of(plane, app) if pod["spec"].get("nodeName")]


def names_of_pool(plane: ControlPlane, pool: str) -> set[str]:
    found = json.loads(plane.kubectl("get", "nodes", "-l", f"pool={pool}", "-o", "json"))["items"]
    return {node["metadata"]["name"] for node in found}


def by_zone(nodes: list[str]) -> Counter[str]:
    return Counter(name.split("-")[1] for name in nodes)


def grow_until_bound(plane: ControlPlane, rounds: Rounds, counts: dict[str, int]) -> list[RoundResult]:
    """Make rounds until so many pods of each app are bound; return those that ordered growth."""
    grew = []
    end = time.monotonic() + SLOW_S
    while time.monotonic() < end:
        done = rounds.run()
        # Nodes that the test itself has just added may be counted by the cloud and not yet by the status.
        others = [detail for detail in done.refused.values() if not detail.startswith("SIZE_CHANGED ")]
        assert others == []
        if done.grown:
            grew.append(done)
        if all(len(nodes_of(plane, app)) == count for app, count in counts.items()):
            return grew
    raise AssertionError(f"not bound after {SLOW_S} s: {done.answer.scale_up}")


def settings() -> RoundSettings:
    """Settings of a loop that grows; nodes are removed after a long time only."""
    return RoundSettings("e2e", (plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN))


def test_two_hundred_spread_pods_are_bound_on_the_nodes_that_one_plan_adds(plane: ControlPlane, tmp_path: Path) -> None:
    apply(plane, *first_nodes("calm"), spread_deployment("calm", PODS, "calm"))
    until(lambda: sum(map(looked_at, pods_of(plane, "calm"))) == PODS, SLOW_S, "the scheduler has seen all pods")
    held = by_zone(nodes_of(plane, "calm"))
    with rounds_over(plane, tmp_path / "actuator", settings(), zone_groups("calm")) as rounds:
        grew = grow_until_bound(plane, rounds, {"calm": PODS})
        splits = grew[0].answer.scale_up.splits
        assert len(grew) == 1, "nodes that start are counted on"
        # 8 pods a node and 67 in a zone.
        assert {one.node_group: one.new_size for one in splits} == {"calm-a": 9, "calm-b": 9, "calm-c": 9}
        nodes = nodes_of(plane, "calm")
        assert set(nodes) == names_of_pool(plane, "calm"), "every node has pods"
        planned = held + Counter(
            {group[-1]: len(pods) for group, pods in on_new_nodes(grew[0].answer.scale_up).items()}
        )
        # Which zones get one pod more is the scheduler's choice.
        assert sorted(by_zone(nodes).values()) == sorted(planned.values())
        last = rounds.run().answer
        assert not last.scale_up.splits
        assert not last.scale_up.unschedulable


def test_pods_of_a_node_that_is_drained_meanwhile_get_room_too(plane: ControlPlane, tmp_path: Path) -> None:
    """The budget lets one pod go at a time, and its successor has no place before the groups have grown."""
    leaving = workloads.nodes("busy-a-old", 1, pool="busy")
    leaving[0]["metadata"]["labels"][ZONE] = "a"
    old = workloads.deployment("old", 8, "450m", "busy")
    apply(plane, *leaving, old, workloads.budget("old", "old", maxUnavailable=1))
    until(lambda: all_ready(plane), SLOW_S, "pods ready")
    with rounds_over(plane, tmp_path / "actuator", settings(), zone_groups("busy")) as rounds:
        rounds.actuator.start_deletion(deletion_of("drain", ["busy-a-old-1"]))
        until(lambda: bool(rounds.actuator.get_status().recent_evictions), SLOW_S, "an eviction")
        apply(plane, *first_nodes("busy"), spread_deployment("busy", PODS, "busy"))
        until(lambda: sum(map(looked_at, pods_of(plane, "busy"))) == PODS, SLOW_S, "the scheduler has seen all pods")
        grew = grow_until_bound(plane, rounds, {"busy": PODS, "old": 8})
        assert grew
        until(lambda: len(rounds.actuator.get_status().finished) == 1, SLOW_S, "the node is gone")
        gone = rounds.actuator.get_status().finished[0]
        assert gone.state == actuator_pb2.DeletionState.DELETED
        until(lambda: all_ready(plane), SLOW_S, "pods ready")
        nodes = nodes_of(plane, "busy") + nodes_of(plane, "old")
        assert "busy-a-old-1" not in nodes
        # 208 pods, eight a node, 67 in a zone that spread: 27 nodes are enough where those of the drained node fill
        # what the others leave. The scheduler chooses where they go, and may leave empty the node meant for them.
        there = names_of_pool(plane, "busy")
        assert set(nodes) <= there
        assert len(there) <= 28
        assert len(there - set(nodes)) <= 1
        zones = by_zone(nodes_of(plane, "busy"))
        assert max(zones.values()) - min(zones.values()) <= 1


def places_of(plane: ControlPlane, app: str, decision: plan_pb2.ScaleUpDecision) -> dict[str, str]:
    """Node of each pod of an app: where it is bound, or where the plan has it; new nodes are "GROUP-new-1"…"""
    places = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods_of(plane, app)}
    found = on_existing(decision)
    for group, nodes in pods_of_new_nodes(decision).items():
        for number, pods in enumerate(nodes, 1):
            found |= dict.fromkeys(pods, f"{group}-new-{number}")
    return {name: node or found[f"default/{name}"] for name, node in places.items()}


def pinned(deployment: Json, name: str, node: str) -> Json:
    """A pod of a Deployment's template that asks for one node, and spreads as if it did not."""
    made = json.loads(json.dumps(deployment["spec"]["template"]))
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    made["spec"].setdefault("affinity", {})["nodeAffinity"] = required
    for constraint in made["spec"].get("topologySpreadConstraints", ()):
        constraint["nodeAffinityPolicy"] = "Ignore"
    made["metadata"]["name"] = name
    return {"apiVersion": "v1", "kind": "Pod", **made}


def test_the_real_scheduler_accepts_each_place_that_a_plan_has(plane: ControlPlane, tmp_path: Path) -> None:
    apart = workloads.deployment("apart", 9, "900m", "exact", tier="apart")
    terms = [{"labelSelector": {"matchLabels": {"tier": "apart"}}, "topologyKey": "kubernetes.io/hostname"}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    apart["spec"]["template"]["spec"]["affinity"] = {"podAntiAffinity": required}
    wanted = {"apart": apart, "exact": spread_deployment("exact", 60, "exact")}
    apply(plane, *first_nodes("exact"), *wanted.values())
    until(
        lambda: sum(looked_at(pod) for app in wanted for pod in pods_of(plane, app)) == 69,
        SLOW_S,
        "the scheduler has seen all pods",
    )
    with rounds_over(plane, tmp_path / "actuator", replace(settings(), dry_run=True), zone_groups("exact")) as rounds:
        decision = rounds.run().answer.scale_up
    places = {app: places_of(plane, app, decision) for app in wanted}
    for app in wanted:
        plane.kubectl("scale", "-n", "default", f"deployment/{app}", "--replicas=0")
    until(lambda: not any(pods_of(plane, app) for app in wanted), SLOW_S, "the pods are gone")
    apply(plane, *new_nodes(decision))
    apply(plane, *(pinned(wanted[app], name, node) for app, of in places.items() for name, node in of.items()))
    for app, of in places.items():
        until(lambda app=app, of=of: len(nodes_of(plane, app)) == len(of), SLOW_S, f"{app} is bound")  # type: ignore[misc]
        assert {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods_of(plane, app)} == of


def new_nodes(decision: plan_pb2.ScaleUpDecision) -> list[Json]:
    """The nodes that a plan adds, "GROUP-new-1"…"""
    made = []
    for split in decision.splits:
        pool, zone = split.node_group.split("-")
        for node in workloads.nodes(f"{split.node_group}-new", split.new_size - split.current_size, pool=pool):
            node["metadata"]["labels"][ZONE] = zone
            made.append(node)
    return made
