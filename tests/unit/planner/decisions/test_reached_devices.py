"""Devices that several nodes reach, from Kubernetes objects to the answers of all decisions."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import device_objects as dra
from tests.builders import kubernetes as k8s
from tests.builders import scale_down, scale_up
from tests.builders.examples import examples
from tests.certificates import whole_plan
from trimtab.planner.decisions.device_plan import plan_devices
from trimtab.planner.device_amounts.planned import NOT_COUNTED, planned_snapshot
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb
from trimtab.v1.reason_pb2 import SkippedPodReason

Json = dict[str, Any]
CLASS = dra.device_class("gpu", f'device.driver == "{dra.DRIVER}"')
BASE: list[Json] = [CLASS, dra.claim_template()]
RACK = "example.com/rack"


def pool(name: str, count: int, rack: str = "") -> Json:
    """Return devices that all nodes reach, or those of a rack."""
    devices = [dra.device(f"d-{at}") for at in range(count)]
    terms = [{"matchExpressions": [{"key": RACK, "operator": "In", "values": [rack]}]}]
    nodes = {"nodeSelector": {"nodeSelectorTerms": terms}} if rack else {"allNodes": True}
    return dra.resource_slice(name, devices, pool=name, **nodes)


def waiting(count: int, **more: Any) -> list[Json]:
    return [dra.claiming_pod(f"p{at}", templates={"x": "one-gpu"}, **more) for at in range(count)]


def holder(name: str, node: str, device: str, owner: Json) -> list[Json]:
    """Return a pod on a node with its claim. device : "pool/device"."""
    pod = dra.claiming_pod(name, templates={"x": "one-gpu"}, made={"x": f"{name}-x"}, node=node, owner=owner)
    return [pod, dra.resource_claim(f"{name}-x", of=pod, entry="x", devices=[device], users=[name])]


def test_pods_that_wait_get_the_devices_that_are_left_wherever_these_are_reached() -> None:
    """Of three devices one is in use; the node has room for one pod, and new nodes reach the devices too."""
    owner = k8s.replica_set("web", 9)
    objects = [
        *BASE, owner, pool("net", 3), k8s.node("a", cpu="1"), *holder("h", "a", "net/d-1", owner),
        *waiting(4, cpu="800m"), k8s.node_group("g", nodes=["a"], max_size=9),
    ]  # fmt: skip
    plan = scale_up.plan(objects)
    assert plan.on_existing == {"default/p0": "a"}
    assert (plan.growth, plan.on_new) == ({"g": 1}, {"g": ["default/p1"]})
    assert plan.pending == {f"default/p{at}": {"g": "DEVICES_NOT_AVAILABLE"} for at in (2, 3)}


def test_devices_of_a_rack_are_given_to_pods_on_its_nodes_only() -> None:
    nodes = [k8s.node(name, labels={RACK: name}, cpu="8") for name in "abc"]
    plan = scale_up.plan([*BASE, *nodes, pool("net-a", 1, "a"), pool("net-b", 2, "b"), *waiting(4)])
    assert sorted(plan.on_existing.values()) == ["a", "b", "b"]


def sharing(name: str, count: int, **more: Any) -> list[Json]:
    """Return a claim of one device without any, and pods that share it."""
    users = [dra.claiming_pod(f"{name}-{at}", claims={"x": name}, **more) for at in range(count)]
    return [dra.resource_claim(name), *users]


def test_pods_that_share_a_claim_of_such_devices_go_to_any_nodes_that_reach_them() -> None:
    """The claim takes one device for all three, who have no room on one node; the other device is the next pod's."""
    nodes = [k8s.node(name, labels={RACK: "a"}, cpu="2") for name in "ab"]
    alone = k8s.node("c", labels={RACK: "c"}, cpu="8")
    plan = scale_up.plan([*BASE, *nodes, alone, pool("net-a", 2, "a"), *sharing("m", 3, cpu="1"), *waiting(2, cpu="1")])
    assert sorted(plan.on_existing.values()) == ["a", "a", "b", "b"]
    assert list(plan.pending) == ["default/p1"]


def test_a_pod_gets_devices_of_its_own_where_those_of_the_claim_that_it_shares_are() -> None:
    nodes = [k8s.node(name, labels={RACK: name}, cpu="8") for name in "ab"]
    both = dra.claiming_pod("both", claims={"x": "s"}, templates={"own": "one-gpu"})
    plan = scale_up.plan([*BASE, *nodes, pool("net-a", 2, "a"), pool("net-b", 2, "b"), *sharing("s", 1), both])
    assert len(plan.on_existing) == 2
    assert len(set(plan.on_existing.values())) == 1


@pytest.mark.parametrize(("devices", "goes"), [(1, False), (2, True)])
def test_pods_that_are_together_each_need_a_device_that_several_nodes_reach(devices: int, goes: bool) -> None:
    """They share a claim of a node's devices."""
    more = [
        dra.device_class("net", 'device.driver == "net.example.com"'),
        dra.claim_template("one-net", dra.claim_spec(dra.request(of_class="net"))),
        pool("net", devices) | {"spec": pool("net", devices)["spec"] | {"driver": "net.example.com"}},
    ]
    users = [dra.claiming_pod(name, claims={"x": "s"}, templates={"own": "one-net"}) for name in "pq"]
    plan = scale_up.plan([*BASE, *more, k8s.node("a"), dra.gpus("a"), dra.resource_claim("s"), *users])
    assert plan.on_existing == ({"default/p": "a", "default/q": "a"} if goes else {})


@pytest.mark.parametrize("kind", ["two racks", "own devices too"])
def test_pods_wait_where_several_nodes_reach_devices_in_ways_that_cannot_be_told_apart(kind: str) -> None:
    node = k8s.node("a", labels={RACK: "a"})
    more = [pool("net-a", 1, "a"), pool("net", 1)] if kind == "two racks" else [pool("net", 1), dra.gpus("a", 1)]
    snapshot = planned_snapshot(canonicalize(k8s.snapshot_of(*BASE, node, *more, *waiting(1)))).snapshot
    assert [snapshot.specs[at].unsupported for at in snapshot.pods.spec.tolist()] == [(NOT_COUNTED,)]


@pytest.mark.parametrize(("rack", "goes"), [("a", True), ("b", False)])
def test_pods_move_with_their_devices_where_these_are_reached(rack: str, goes: bool) -> None:
    owner = k8s.replica_set("web", 9)
    nodes = [k8s.node("n-1", labels={RACK: "a"}), k8s.node("n-2", labels={RACK: rack})]
    objects = [
        *BASE, owner, pool("net-a", 1, "a"), *nodes, *holder("h", "n-1", "net-a/d-0", owner),
        k8s.node_group("g", nodes=["n-1"]),
    ]  # fmt: skip
    assert scale_down.plan(objects).unneeded == (["n-1"] if goes else [])


def drawn(seed: int) -> tuple[pb.ClusterSnapshot, int]:
    """Return nodes in racks with devices of their rack or of all, and how many of these are left for pods that wait."""
    random, owner = Random(seed), k8s.replica_set("web", 99)
    racks = ["a", "b"] if random.random() < 0.6 else [""]
    names = {f"n{at}": random.choice([*racks, "a"]) for at in range(random.randint(1, 4))}
    objects = [*BASE, owner, k8s.node_group("g", nodes=list(names), max_size=random.randint(1, 6))]
    objects += [k8s.node(name, labels={RACK: rack}, cpu="4") for name, rack in names.items()]
    counts = {rack: random.randint(1, 5) for rack in racks}
    objects += [pool(f"net{rack}", count, rack) for rack, count in counts.items()]
    free = {rack: [f"net{rack}/d-{at}" for at in range(count)] for rack, count in counts.items()}
    for at in range(random.randint(0, 4)):
        node = random.choice(list(names))
        devices = free.get(names[node], free.get("", []))
        if devices:
            objects += holder(f"h{at}", node, devices.pop(random.randrange(len(devices))), owner)
    objects += waiting(random.randint(0, 6), cpu=random.choice(["100m", "1"]))
    for at in range(random.choice((0, 0, 1, 2))):
        objects += sharing(f"s{at}", random.randint(2, 4), cpu=random.choice(["100m", "1"]))
    used = {rack for rack in racks if not rack or rack in names.values()}
    return k8s.snapshot_of(*objects), sum(len(free[rack]) for rack in used)


@given(st.integers(0, 10**6))
@examples(300)
def test_no_device_that_several_nodes_reach_is_planned_with_twice(seed: int) -> None:
    message, left = drawn(seed)
    request = plan_pb2.PlanRequest(decisions=(plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN))
    request.now.seconds = scale_up.NOW_S
    answer = plan_devices(planned_snapshot(canonicalize(message)), request, None, Work()).answer
    assert whole_plan.offences(message, request.settings, answer, scale_up.NOW_S) == []
    pods = list(answer.scale_up.places.pods)
    # Pods of one claim have one device.
    assert len({pod.partition("-")[0] for pod in pods}) <= left
    assert not any(one.reason == SkippedPodReason.UNSUPPORTED_CONSTRAINT for one in answer.scale_up.skipped)
