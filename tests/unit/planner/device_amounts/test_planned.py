"""Devices that can be counted become resources of the snapshot with which decisions are made."""

from dataclasses import replace

import pytest

from tests.builders.device_snapshots import (
    DRIVER,
    GPU_CLASS,
    ClaimRow,
    DeviceWorld,
    claim,
    claiming,
    device,
    gpu_slice,
    partitioned,
    world,
)
from tests.builders.rows import NodeRow, PodRow
from tests.builders.snapshots import Cluster, Group, write
from trimtab.planner.device_amounts.cluster_devices import class_by_resource
from trimtab.planner.device_amounts.competing_claims import PLENTY
from trimtab.planner.device_amounts.planned import NOT_COUNTED, planned_snapshot
from trimtab.planner.devices.model import (
    AllocatedDevice,
    AttributeKind,
    ClaimRequest,
    CounterSet,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceConstraint,
    DeviceContent,
    DeviceId,
    DeviceSet,
    DeviceSlice,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    NodeSelection,
)
from trimtab.planner.devices.taint_rules import TaintRule
from trimtab.planner.model.values import (
    ExtendedDeviceRequest,
    LabelRequirement,
    NodeAffinityTerm,
    PodClaim,
    PodRequirements,
    SlackRequest,
)
from trimtab.planner.snapshot.columns import ClassOfDevices, Snapshot, TemplateSlice
from trimtab.planner.snapshot.decode import canonicalize

GPU = "deviceclass.resource.kubernetes.io/gpu"


def planned(cluster: Cluster) -> Snapshot:
    return planned_snapshot(canonicalize(write(cluster))).snapshot


def amounts(snapshot: Snapshot, node: str, *, capacity: bool = False) -> dict[str, int]:
    table = snapshot.nodes.capacity if capacity else snapshot.nodes.allocatable
    row = table[snapshot.nodes.name.index(node)].tolist()
    return {name: amount for name, amount in zip(snapshot.resources, row, strict=True) if amount and "/" in name}


def requests(snapshot: Snapshot, pod: str) -> dict[str, int]:
    return dict(spec_of(snapshot, pod).requests)


def spec_of(snapshot: Snapshot, pod: str) -> PodRequirements:
    names = [snapshot.pods.name.get(at) for at in range(len(snapshot.pods.spec))]
    return snapshot.specs[snapshot.pods.spec[names.index(pod)]]


def pods(**specs: PodRequirements) -> dict[tuple[str, str], PodRow]:
    return {("ns", name): PodRow(spec=spec) for name, spec in specs.items()}


def test_a_snapshot_without_devices_stays_the_same_object() -> None:
    sent = canonicalize(write(Cluster(pods=pods(p=PodRequirements()), nodes={"n": NodeRow()})))
    assert planned_snapshot(sent).snapshot is sent


def test_nodes_offer_what_is_published_and_pods_request_what_they_claim() -> None:
    cluster = Cluster(
        pods=pods(one=claiming(claim()), three=claiming(claim(2), claim())),
        nodes={"a": NodeRow(), "b": NodeRow(), "c": NodeRow()},
        devices=world(gpu_slice("a", 8), gpu_slice("b", 2), gpu_slice("x", 4)),
    )
    found = planned(cluster)
    assert [amounts(found, node) for node in "abc"] == [{GPU: 8}, {GPU: 2}, {}]
    assert (requests(found, "one"), requests(found, "three")) == ({GPU: 1}, {GPU: 3})
    assert spec_of(found, "one").claims == ()


def test_devices_in_use_are_free_again_when_the_pod_that_owns_the_claim_has_gone() -> None:
    held = ClaimRow("ns", "p-gpu", claim(2), "p", "c0", (device("a", 0), device("a", 3)), NodeSelection("a"), ("p",))
    other = ClaimRow("ns", "other", claim(), devices=(device("a", 5),), nodes=NodeSelection("a"))
    cluster = Cluster(
        pods={("ns", "p"): PodRow(node="a", spec=claiming(claim(2)))},
        nodes={"a": NodeRow()},
        devices=world(gpu_slice("a", 8), claims=(held, other)),
    )
    found = planned(cluster)
    assert amounts(found, "a") == {GPU: 7}
    assert amounts(found, "a", capacity=True) == {GPU: 8}
    assert requests(found, "p") == {GPU: 2}


def test_devices_held_for_administration_are_free() -> None:
    admin = replace(device("a", 0), admin_access=True)
    held = ClaimRow("ns", "monitor", claim(), devices=(admin,), nodes=NodeSelection("a"))
    cluster = Cluster(
        pods=pods(p=claiming(claim())), nodes={"a": NodeRow()}, devices=world(gpu_slice("a", 2), claims=(held,))
    )
    assert amounts(planned(cluster), "a") == {GPU: 2}


def test_an_incomplete_pool_and_a_tainted_device_offer_nothing() -> None:
    waiting = replace(gpu_slice("a", 8), slice_count=2)
    tainted = gpu_slice("b", 2, DeviceContent(taints=(DeviceTaint("broken", "", "NoSchedule"),)))
    rule = TaintRule(None, "c", "gpu-0", DeviceTaint("off", "", "NoExecute"))
    cluster = Cluster(
        pods=pods(p=claiming(claim())),
        nodes={"a": NodeRow(), "b": NodeRow(), "c": NodeRow()},
        devices=world(waiting, tainted, gpu_slice("c", 2), taint_rules=(rule,)),
    )
    found = planned(cluster)
    assert [amounts(found, node) for node in "abc"] == [{}, {}, {GPU: 1}]


def test_filters_that_compete_on_a_node_share_a_resource_and_one_without_devices_has_none() -> None:
    big = DeviceContent(attributes=(DeviceAttribute("model", AttributeKind.STRING, "big"),))
    small = DeviceContent(attributes=(DeviceAttribute("model", AttributeKind.STRING, "small"),))
    only_big = claim(selectors=(f'device.attributes["{DRIVER}"].model == "big"',))
    cluster = Cluster(
        pods=pods(p=claiming(only_big), q=claiming(claim(2))),
        nodes={"a": NodeRow(), "b": NodeRow()},
        devices=world(gpu_slice("a", 4, big), gpu_slice("b", 3, small)),
    )
    found = planned(cluster)
    p, q = requests(found, "p"), requests(found, "q")
    (shared,) = p.keys() & q.keys()
    (own,) = p.keys() - q.keys()
    assert (p, q) == ({shared: 1, own: 1}, {shared: 2, GPU: 2})
    assert amounts(found, "a") == {shared: 4, own: 4, GPU: 4}
    assert amounts(found, "b") == {shared: PLENTY, GPU: 3}


@pytest.mark.parametrize(
    "one",
    [
        DeviceClaim("", (ClaimRequest("all", DeviceSubRequest("gpu", mode="All")),)),
        DeviceClaim("", (ClaimRequest("any", None, (DeviceSubRequest("gpu", "a"),)),)),
        DeviceClaim("", claim(2).requests, (DeviceConstraint((), "model"),)),
    ],
)
def test_claims_that_only_the_allocator_decides_share_nodes_with_those_that_are_counted(one: DeviceClaim) -> None:
    both = pods(p=claiming(one), q=claiming(claim()))
    content = DeviceContent(attributes=(DeviceAttribute("model", AttributeKind.STRING, "big"),))
    found = planned(Cluster(pods=both, nodes={"a": NodeRow()}, devices=world(gpu_slice("a", 4, content))))
    p, q, there = requests(found, "p"), requests(found, "q"), amounts(found, "a")
    (shared,) = p.keys() & q.keys()
    assert (q[GPU], there[GPU]) == (1, 4)
    # All four devices can still go to pods that are counted, or one pod of the others comes.
    assert 4 * q[shared] == there[shared]
    assert all(amount <= there[name] for name, amount in p.items())


ONE_GPU = DeviceSubRequest("gpu", "b")
MODEL = DeviceAttribute("model", AttributeKind.STRING, "big")


MEMORY = DeviceContent(capacities=(DeviceCapacity("memory", 40 * 10**9),), allow_multiple_allocations=True)
HALF = (f'device.attributes["{DRIVER}"].size == 20',)


@pytest.mark.parametrize(
    ("one", "slices", "count"),
    [
        pytest.param(
            DeviceClaim("", (ClaimRequest("all", DeviceSubRequest("gpu", mode="All")),)), (gpu_slice("a", 4),), 1,
            id="all devices",
        ),
        pytest.param(
            DeviceClaim("", (ClaimRequest("x", None, (DeviceSubRequest("gpu", "a", count=3), ONE_GPU)),)),
            (gpu_slice("a", 5),), 3, id="the first alternative that there is",
        ),
        pytest.param(
            DeviceClaim("", claim(2).requests, (DeviceConstraint((), "model"),)),
            (gpu_slice("a", 5, DeviceContent(attributes=(MODEL,))),), 2, id="devices of one model",
        ),
        pytest.param(claim(selectors=HALF), partitioned("a"), 2, id="partitions with counters"),
        pytest.param(claim(), partitioned("a"), 1, id="the first partition takes all of it"),
        pytest.param(
            claim(capacity=(("memory", 15 * 10**9),)), (gpu_slice("a", 2, MEMORY),), 4, id="shares of a capacity"
        ),
    ],
)  # fmt: skip
def test_claims_of_one_kind_are_counted_by_asking_the_allocator(
    one: DeviceClaim, slices: tuple[DeviceSlice, ...], count: int
) -> None:
    found = planned(Cluster(pods=pods(p=claiming(one)), nodes={"a": NodeRow(), "b": NodeRow()}, devices=world(*slices)))
    ((name, amount),) = requests(found, "p").items()
    assert (amount, amounts(found, "a")[name], amounts(found, "b").get(name, 0)) == (1, count, 0)


def test_equal_partitions_of_fewer_counters_are_counted_apart() -> None:
    fewer = (CounterSet("chip", (("memory", 20),)),)
    of_b = tuple(replace(one, counter_sets=fewer) if one.counter_sets else one for one in partitioned("b"))
    pending, nodes = pods(p=claiming(claim(selectors=HALF))), {"a": NodeRow(), "b": NodeRow()}
    found = planned(Cluster(pods=pending, nodes=nodes, devices=world(*partitioned("a"), *of_b)))
    (name,) = requests(found, "p")
    assert [amounts(found, node)[name] for node in "ab"] == [2, 1]


def test_what_claims_of_one_kind_hold_is_free_when_their_pods_go() -> None:
    everything = DeviceClaim("", (ClaimRequest("all", DeviceSubRequest("gpu", mode="All")),))
    devices = tuple(device("a", at, "all") for at in range(2))
    held = ClaimRow("ns", "p-gpu", everything, "p", "c0", devices, NodeSelection("a"), ("p",))
    cluster = Cluster(
        pods={("ns", "p"): PodRow(node="a", spec=claiming(everything))},
        nodes={"a": NodeRow(), "b": NodeRow()},
        devices=world(gpu_slice("a", 2), gpu_slice("b", 2), claims=(held,)),
    )
    found = planned(cluster)
    (name,) = requests(found, "p")
    assert [amounts(found, node)[name] for node in "ab"] == [1, 1]
    alone = planned(replace(cluster, pods={("ns", "p"): PodRow(spec=claiming(everything))}))
    assert amounts(alone, "a").get(name, 0) == 0


@pytest.mark.parametrize(
    ("one", "problem"),
    [
        (claim(device_class="missing"), "device class missing does not exist"),
        (claim(33), "it asks for 33 devices; a claim may have 32"),
        (claim(selectors=("device.driver ==",)), "selectors[0].cel.expression: CEL compile error"),
        (claim(mode="Other"), "unsupported count mode Other"),
    ],
)
def test_a_claim_that_no_node_can_satisfy_says_why(one: DeviceClaim, problem: str) -> None:
    cluster = Cluster(pods=pods(p=claiming(one)), nodes={"a": NodeRow()}, devices=world(gpu_slice("a", 4)))
    (found,) = spec_of(planned(cluster), "p").claims
    assert problem in found.problem


def test_an_extended_resource_is_devices_where_a_node_does_not_have_it_by_itself() -> None:
    spec = PodRequirements(
        requests=(("cpu", 10), ("example.com/gpu", 2)),
        extended_device_requests=(ExtendedDeviceRequest("container-0-request-0", "example.com/gpu", 2),),
    )
    classes = (
        GPU_CLASS._replace(extended_resource="example.com/gpu", created_s=5),
        ClassOfDevices("old", (), "example.com/gpu", 1),
    )
    devices = DeviceWorld(slices=(gpu_slice("a", 4),), classes=classes)
    cluster = Cluster(pods=pods(p=spec), nodes={"a": NodeRow()}, devices=devices)
    assert requests(planned(cluster), "p") == {"cpu": 10, GPU: 2}
    plugin = replace(cluster, nodes={"a": NodeRow(), "b": NodeRow(allocatable={"example.com/gpu": 1})})
    found = planned(plugin)
    (column,) = set(requests(found, "p")) - {"cpu", "example.com/gpu"}
    assert requests(found, "p") == {"cpu": 10, "example.com/gpu": 2, column: 2}
    assert [amounts(found, name)["example.com/gpu"] for name in "ab"] == [4, 1]
    assert amounts(found, "a")[column] == 4
    assert amounts(found, "b")[column] > 1000
    without_devices = replace(plugin, devices=DeviceWorld(classes=classes))
    assert requests(planned(without_devices), "p") == {"cpu": 10, "example.com/gpu": 2}


def test_the_newest_class_provides_an_extended_resource_and_then_the_one_with_the_smaller_name() -> None:
    classes = tuple(ClassOfDevices(name, (), "example.com/gpu", at) for name, at in (("old", 1), ("b", 2), ("a", 2)))
    found = class_by_resource(canonicalize(write(Cluster(devices=DeviceWorld(classes=classes)))).devices)
    assert found["example.com/gpu"] == "a"
    assert found["deviceclass.resource.kubernetes.io/old"] == "old"


def shared_spec() -> PodRequirements:
    return PodRequirements(claims=(PodClaim("c", "named", None, ""),))


def test_a_named_claim_of_one_pod_is_as_its_own_and_one_of_several_keeps_them_where_its_devices_are() -> None:
    held = ClaimRow("ns", "named", claim(), devices=(device("a", 0),), nodes=NodeSelection("a"), consumers=("p",))
    devices = world(gpu_slice("a", 2), claims=(held,))
    alone = Cluster(pods={("ns", "p"): PodRow(node="a", spec=shared_spec())}, nodes={"a": NodeRow()}, devices=devices)
    assert requests(planned(alone), "p") == {GPU: 1}
    others = {("ns", "q"): PodRow(spec=shared_spec()), ("ns", "r"): PodRow(spec=claiming(claim()))}
    both = replace(alone, pods={**alone.pods, **others})
    found = planned(both)
    there = (NodeAffinityTerm((), (LabelRequirement("metadata.name", 1, ("a",)),)),)
    assert [spec_of(found, name).claims[0].nodes for name in "pq"] == [there, there]
    assert (requests(found, "q"), amounts(found, "a")) == ({}, {GPU: 1})


def test_a_named_claim_that_is_missing_or_not_allocated_yet_and_shared_keeps_its_pods_waiting() -> None:
    nodes, spec = {"a": NodeRow()}, shared_spec()
    missing = Cluster(pods=pods(p=spec), nodes=nodes, devices=world(gpu_slice("a", 2)))
    assert spec_of(planned(missing), "p").claims[0].problem == "ResourceClaim ns/named does not exist"
    waiting = replace(missing, devices=world(gpu_slice("a", 2), claims=(ClaimRow("ns", "named", claim()),)))
    assert requests(planned(waiting), "p") == {GPU: 1}
    two = canonicalize(write(replace(waiting, pods=pods(p=spec, q=spec))))
    unshared_claims = planned_snapshot(two, is_together=False).snapshot
    assert [spec_of(unshared_claims, name).unsupported for name in "pq"] == [(NOT_COUNTED,)] * 2


def test_specs_that_devices_have_made_equal_are_one() -> None:
    """Claims of two names ask for the same."""
    one, other = (PodRequirements(claims=(PodClaim(name, "", claim(), ""),)) for name in "ab")
    found = planned(Cluster(pods=pods(p=one, q=other), nodes={"a": NodeRow()}, devices=world(gpu_slice("a", 2))))
    assert len(found.specs) == len(set(found.specs)) == 1
    assert found.pods.spec.tolist() == [0, 0]


def test_devices_that_several_nodes_reach_are_not_counted() -> None:
    pool = DeviceSlice(
        "net", DRIVER, "net", 1, 1, NodeSelection(all_nodes=True), devices=DeviceSet(("x",), (DeviceContent(),))
    )
    cluster = Cluster(pods=pods(p=claiming(claim())), nodes={"a": NodeRow()}, devices=world(gpu_slice("a", 2), pool))
    assert spec_of(planned(cluster), "p").unsupported == (NOT_COUNTED,)


def test_new_nodes_have_what_their_group_declares_or_else_what_its_nodes_publish() -> None:
    declared = (TemplateSlice(DRIVER, "", gpu_slice("t", 4).devices, (), False),)
    cluster = Cluster(
        pods=pods(p=claiming(claim())),
        nodes={"a1": NodeRow(group="a"), "a2": NodeRow(group="a"), "a3": NodeRow(group="a"), "b1": NodeRow(group="b")},
        groups={name: Group(template=NodeRow()) for name in "abc"},
        devices=world(gpu_slice("a1", 8), gpu_slice("a2", 8), templates=(("b", declared),)),
    )
    found = planned(cluster)
    column = found.resources.index(GPU)
    by_group = {group.id: int(found.templates.allocatable[group.template, column]) for group in found.groups}
    assert by_group == {"a": 8, "b": 4, "c": 0}
    ready = dict(zip(found.nodes.name, found.nodes.ready.tolist(), strict=True))
    assert ready == {"a1": True, "a2": True, "a3": False, "b1": False}
    assert [amounts(found, node, capacity=True).get(GPU, 0) for node in ("a3", "b1")] == [8, 4]


def test_what_has_not_changed_is_taken_over_from_the_snapshot_before() -> None:
    cluster = Cluster(pods=pods(p=claiming(claim())), nodes={"a": NodeRow()}, devices=world(gpu_slice("a", 8)))
    sent = canonicalize(write(cluster))
    first = planned_snapshot(sent)
    later = sent._replace(namespaces=(("x", 0),), version="later")
    second = planned_snapshot(later, first)
    assert second.facts is first.facts
    assert second.snapshot.nodes is first.snapshot.nodes
    assert second.snapshot.specs is first.snapshot.specs


def test_tolerations_are_told_apart_and_devices_that_are_gone_do_not_count() -> None:
    tainted = DeviceContent(taints=(DeviceTaint("broken", "", "NoSchedule"),))
    mixed = DeviceSlice(
        "a-s", DRIVER, "a", 1, 1, NodeSelection("a"), devices=DeviceSet(("x", "y"), (DeviceContent(), tainted))
    )
    tolerant = claim(tolerations=(DeviceToleration("broken", "Exists"),))
    cluster = Cluster(
        pods=pods(p=claiming(tolerant), q=claiming(claim())), nodes={"a": NodeRow()}, devices=world(mixed)
    )
    p, q = requests(planned(cluster), "p"), requests(planned(cluster), "q")
    (shared,) = p.keys() & q.keys()
    # The other may get the only device without a taint first, so that it has none.
    assert (p[shared], q[shared], amounts(planned(cluster), "a")[shared]) == (1, 2, 2)
    alone = replace(cluster, pods=pods(p=claiming(tolerant)))
    assert 2 in amounts(planned(alone), "a").values()
    taken = AllocatedDevice("gpu", DeviceId(DRIVER, "gone", "x"))
    lost = ClaimRow("ns", "lost", claim(), devices=(taken,), nodes=NodeSelection("gone"))
    cluster = Cluster(
        pods=pods(p=claiming(claim())), nodes={"a": NodeRow()}, devices=world(gpu_slice("a", 2), claims=(lost,))
    )
    assert amounts(planned(cluster), "a") == {GPU: 2}


@pytest.mark.parametrize("nodes", [{}, {"a": NodeRow()}])
@pytest.mark.parametrize("devices", [DeviceWorld(), world(gpu_slice("x", 2))])
def test_claims_are_planned_where_no_node_or_no_device_is_there(
    nodes: dict[str, NodeRow], devices: DeviceWorld
) -> None:
    broken = PodRequirements(claims=(PodClaim("c0", "", None, "the template is missing"),))
    cluster = Cluster(pods=pods(one=claiming(claim()), other=broken), nodes=nodes, devices=devices)
    assert [amounts(planned(cluster), node) for node in nodes] == [{}] * len(nodes)


def test_claims_of_others_than_pods_are_planned_where_nothing_else_has_any() -> None:
    waiting = SlackRequest("CapacityBuffer/ns/b", namespace="ns", spec=claiming(claim()), scale=1)
    found = planned(Cluster(nodes={"a": NodeRow()}, slack=(waiting,)))
    assert "device class gpu does not exist" in found.slack_requests[0].spec.claims[0].problem
