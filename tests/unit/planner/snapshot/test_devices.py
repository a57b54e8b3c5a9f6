"""Devices of a snapshot: what is read, in which form, and what is refused."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.device_snapshots import DRIVER, GPU_CLASS, ClaimRow, DeviceWorld, device, gpu_slice, write_devices
from tests.builders.rows import PodRow
from tests.builders.snapshots import Cluster, int32, write, write_delta
from trimtab.planner.devices.model import (
    AllocatedDevice,
    AttributeKind,
    CapacityPolicy,
    CapacityRange,
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
from trimtab.planner.model.values import LabelRequirement, NodeAffinityTerm, PodClaim, PodRequirements
from trimtab.planner.snapshot.checks import SnapshotError
from trimtab.planner.snapshot.columns import ClassOfDevices, TemplateSlice, Text
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.planner.snapshot.delta import apply_delta
from trimtab.planner.snapshot.devices import no_devices, read_devices
from trimtab.v1 import snapshot_pb2 as pb

Row = TypeVar("Row", pb.DeviceSubRequest, pb.CounterSet)
NET = "net.example.com"
TERMS = (NodeAffinityTerm((LabelRequirement("zone", 1, ("a", "b")),), ()),)
RICH = DeviceContent(
    attributes=(
        DeviceAttribute("big", AttributeKind.BOOL, True),
        DeviceAttribute("example.com/model", AttributeKind.STRING, "a100"),
        DeviceAttribute("index", AttributeKind.INT, -3),
        DeviceAttribute("links", AttributeKind.UNKNOWN, None),
        DeviceAttribute("version", AttributeKind.VERSION, "1.2.3"),
    ),
    capacities=(
        DeviceCapacity("cores", 4 * 10**9),
        DeviceCapacity("memory", 40 * 2**30 * 10**9, CapacityPolicy(10**9, None, CapacityRange(10**9, None, 10**9))),
        DeviceCapacity("slots", 8 * 10**9, CapacityPolicy(None, (10**9, 2 * 10**9))),
    ),
    consumes_counters=(("chips", (("memory", 10**9),)),),
    taints=(DeviceTaint("broken", "yes", "NoSchedule"),),
    nodes=NodeSelection(selector=TERMS),
    allow_multiple_allocations=True,
    has_binding_conditions=True,
    binds_to_node=True,
)
CLAIM = DeviceClaim(
    "",
    (
        ClaimRequest("one", DeviceSubRequest("gpu", count=2, selectors=("true", None), admin_access=True)),
        ClaimRequest(
            "any",
            None,
            (
                DeviceSubRequest("gpu", "big", tolerations=(DeviceToleration("broken", "Exists"),)),
                DeviceSubRequest("gpu", "all", mode="All", capacity=(("memory", 10**9),)),
            ),
        ),
    ),
    (DeviceConstraint(("one", "any/big"), "example.com/model"), DeviceConstraint((), "", "index")),
)
SHARE = AllocatedDevice("one", DeviceId(DRIVER, "n", "x"), shared=True, consumed=(("memory", 3), ("slots", 1)))
WORLD = DeviceWorld(
    slices=(
        gpu_slice("n", 2),
        gpu_slice("m", 2),
        DeviceSlice("net", NET, "all", 4, 2, NodeSelection(all_nodes=True), devices=DeviceSet(("x",), (RICH,))),
        DeviceSlice("zonal", NET, "all", 4, 2, NodeSelection(selector=TERMS)),
        DeviceSlice(
            "counters", DRIVER, "n", 1, 1, NodeSelection("n"), per_device_nodes=True,
            counter_sets=(CounterSet("chips", (("memory", 5),)),),
        ),
    ),
    classes=(GPU_CLASS, ClassOfDevices("other", ("true", None), "example.com/other", 7)),
    claims=(
        ClaimRow("ns", "b", CLAIM, "p", "mine", (device("n", 1), device("n", 0)), NodeSelection("n"), ("p",)),
        ClaimRow("ns", "a", CLAIM, devices=(SHARE,), nodes=NodeSelection(selector=TERMS), consumers=("q", "", "p")),
        ClaimRow("ms", "a", DeviceClaim(""), flags=2),
    ),
    taint_rules=(TaintRule(None, "n", None, DeviceTaint("off", "", "NoExecute")),),
    templates=(("group", (TemplateSlice(DRIVER, "", gpu_slice("n", 3).devices, (), False),)),),
    minor=36,
    gates=("DRAConsumableCapacity=false", "A=true"),
)  # fmt: skip


def texts(column: Text) -> list[str]:
    return [column.get(at) for at in range(len(column.offsets) - 1)]


def test_all_of_a_cluster_s_devices_is_read() -> None:
    found = read_devices(write_devices(WORLD))
    slices, claims, text = found.slices, found.claims, found.strings.__getitem__
    assert texts(slices.name) == sorted(one.name for one in WORLD.slices)
    by_name = {one.name: one for one in WORLD.slices}
    for row, name in enumerate(texts(slices.name)):
        one = by_name[name]
        assert (text(slices.driver[row]), text(slices.pool[row]), text(slices.node[row])) == (
            one.driver, one.pool, one.nodes.node_name,
        )  # fmt: skip
        assert (slices.generation[row], slices.slice_count[row]) == (one.generation, one.slice_count)
        sets = (*found.device_sets, DeviceSet())
        assert sets[slices.device_set[row]] == one.devices
        assert (*found.counter_sets, ())[slices.counter_set[row]] == one.counter_sets
        assert (*found.node_selectors, None)[slices.selector[row]] == one.nodes.selector
        assert slices.flags[row] == one.nodes.all_nodes + 2 * one.per_device_nodes
    assert [(text(n), name) for n, name in zip(claims.namespace, texts(claims.name), strict=True)] == [
        ("ms", "a"), ("ns", "a"), ("ns", "b"),
    ]  # fmt: skip
    assert [found.claim_specs[at] for at in claims.spec] == [DeviceClaim(""), CLAIM, CLAIM]
    assert (texts(claims.pod), [text(at) for at in claims.pod_claim]) == (["", "", "p"], ["", "", "mine"])
    assert (claims.flags.tolist(), [text(at) for at in claims.node]) == ([2, 1, 1], ["", "", "n"])
    assert claims.result_claim.tolist() == [1, 2, 2]
    assert [text(at) for at in claims.result_device] == ["x", "gpu-1", "gpu-0"]
    assert claims.result_flags.tolist() == [2, 0, 0]
    assert [text(at) for at in claims.capacity_name] == ["memory", "slots"]
    assert [found.quantities[at] for at in claims.capacity_amount] == [3, 1]
    assert (claims.consumer_claim.tolist(), texts(claims.consumer)) == ([1, 1, 1, 2], ["", "p", "q", "p"])
    assert found.classes == WORLD.classes
    assert (found.taint_rules, found.templates) == (WORLD.taint_rules, WORLD.templates)
    assert (found.kubernetes_minor, found.feature_gates) == (36, ("A=true", "DRAConsumableCapacity=false"))


@given(st.integers(0, 1 << 20))
def test_the_order_of_rows_and_dictionaries_changes_nothing(seed: int) -> None:
    cluster = Cluster(devices=WORLD)
    assert canonicalize(write(cluster, seed)).version == canonicalize(write(cluster)).version


def test_no_message_and_an_empty_one_are_no_devices() -> None:
    assert read_devices(pb.Devices()) is no_devices()
    assert no_devices().is_empty
    assert not read_devices(write_devices(DeviceWorld(slices=(gpu_slice("n", 1),)))).is_empty


def test_each_part_counts_for_the_version() -> None:
    parts = {
        field: getattr(WORLD, field)[1:]
        for field in ("slices", "classes", "claims", "taint_rules", "templates", "gates")
    }
    others = [replace(WORLD, minor=37), *(replace(WORLD, **{field: rest}) for field, rest in parts.items())]
    versions = {canonicalize(write(Cluster(devices=one))).version for one in (WORLD, *others)}
    assert len(versions) == 1 + len(others)


def test_a_delta_replaces_devices_as_a_whole_or_leaves_them() -> None:
    before, after = Cluster(devices=WORLD), Cluster(devices=replace(WORLD, claims=WORLD.claims[:1]))
    base = canonicalize(write(before))
    changed = apply_delta(base, write_delta(before, after, 3))
    assert changed.version == canonicalize(write(after)).version
    assert apply_delta(changed, write_delta(after, replace(after, namespaces={"x": ()}))).devices is changed.devices
    assert apply_delta(base, write_delta(before, Cluster())).devices == no_devices()


def test_what_a_pod_claims_is_a_part_of_its_spec() -> None:
    spec = PodRequirements(
        claims=(
            PodClaim("a", "", CLAIM, ""),
            PodClaim("b", "shared", None, ""),
            PodClaim("c", "", None, "no template"),
        ),
    )
    message = write(Cluster(pods={("ns", "p"): PodRow(spec=spec)}))
    assert spec in canonicalize(message).specs


def edited(edit: Callable[[pb.Devices], object]) -> pb.Devices:
    message = write_devices(WORLD)
    edit(message)
    return message


@pytest.mark.parametrize(
    ("edit", "place"),
    [
        (lambda m: m.contents[0].capacities.add(name="x", value="much"), "devices.contents[0].capacities.value"),
        (lambda m: m.device_sets[0].contents.append(99), "devices.device_sets[0].contents"),
        (lambda m: m.classes.add(name="gpu"), "devices.classes[2].name"),
        (lambda m: m.classes.add(), "devices.classes[2].name"),
        (lambda m: m.claim_specs[0].requests.add(), "devices.claim_specs[0].requests.name"),
        (lambda m: m.templates.add(node_group="group"), "devices.templates[1].node_group"),
        (lambda m: setattr(m.slices, "device_set", int32([9] * 5)), "devices.slices[0].device_set"),
        (lambda m: setattr(m.slices, "flags", bytes([4] * 5)), "devices.slices[0].flags"),
        (lambda m: setattr(m.claims, "result_claim", int32([2, 1, 1])), "devices.claims[1].result_claim"),
        (lambda m: m.strings.insert(0, "x"), "devices.strings[0]"),
    ],
)  # fmt: skip
def test_a_row_that_breaks_the_contract_is_refused_with_its_place(
    edit: Callable[[pb.Devices], object], place: str
) -> None:
    with pytest.raises(SnapshotError) as caught:
        read_devices(edited(edit))
    assert str(caught.value).startswith(f"{place}:")


def several(kind: type[Row], count: int) -> list[Row]:
    """Return rows with names."""
    return [kind(name=f"x{at}") for at in range(count)]


def taint(name: str) -> pb.DeviceTaint:
    return pb.DeviceTaint(key=name, effect="NoSchedule")


def one_request(*alternatives: pb.DeviceSubRequest, **fields: Any) -> pb.Devices:
    """Return devices with one claim spec of one request, with alternatives or with fields of its own."""
    kinds = alternatives or [pb.DeviceSubRequest(device_class="gpu", **fields)]
    asked = pb.DeviceRequest(name="main", first_available=bool(alternatives), alternatives=kinds)
    return pb.Devices(claim_specs=[pb.DeviceClaimSpec(requests=[asked])])


def one_set(devices: int, **content: Any) -> pb.Devices:
    """Return devices with one list of equal devices."""
    names = pb.DeviceSet(names=range(1, devices + 1), contents=[0] * devices)
    strings = ["", *(f"d{at}" for at in range(devices))]
    return pb.Devices(strings=strings, contents=[pb.DeviceContent(**content)], device_sets=[names])


def one_claim(devices: int) -> pb.Devices:
    """Return a claim that has devices, beside one that has none."""
    results = tuple(device("n", at) for at in range(devices))
    given = DeviceWorld(claims=(ClaimRow("ns", "c", CLAIM, devices=results), ClaimRow("ns", "d", CLAIM)))
    return write_devices(given)


LIST = pb.DeviceAttribute(name="x", list_value=pb.DeviceAttributeList(ints=[1]))
AMOUNTS = [pb.NamedQuantity(name=f"x{at}", value="1") for at in range(33)]
LIMITS: dict[str, tuple[Callable[[int], pb.Devices], int, str]] = {
    "requests": (
        lambda n: pb.Devices(
            claim_specs=[pb.DeviceClaimSpec(requests=[one_request().claim_specs[0].requests[0] for _ in range(n)])]
        ),
        32,
        "devices.claim_specs[0].requests: there are 33",
    ),
    "constraints": (
        lambda n: pb.Devices(
            claim_specs=[pb.DeviceClaimSpec(constraints=[pb.DeviceConstraint(match_attribute="x")] * n)]
        ),
        32,
        "devices.claim_specs[0].constraints: there are 33",
    ),
    "alternatives": (
        lambda n: one_request(*several(pb.DeviceSubRequest, n)),
        8,
        "devices.claim_specs[0].requests.alternatives: request 'main' has 9",
    ),
    "selectors of a request": (
        lambda n: one_request(selectors=["true"] * n),
        32,
        "devices.claim_specs[0].requests.alternatives.selectors: request 'main' has 33",
    ),
    "selectors of an alternative": (
        lambda n: one_request(pb.DeviceSubRequest(name="sub", selectors=["true"] * n)),
        32,
        "devices.claim_specs[0].requests.alternatives.selectors: request 'main/sub' has 33",
    ),
    "tolerations": (
        lambda n: one_request(tolerations=[pb.DeviceToleration(key="x")] * n),
        16,
        "devices.claim_specs[0].requests.alternatives.tolerations: request 'main' has 17",
    ),
    "selectors of a class": (
        lambda n: pb.Devices(classes=[pb.DeviceClass(name="gpu", selectors=["true"] * n)]),
        32,
        "devices.classes[0].selectors: class 'gpu' has 33",
    ),
    "devices": (one_set, 128, "devices.device_sets[0].contents: there are 129"),
    "devices with taints": (
        lambda n: one_set(n, taints=[taint("x")]),
        64,
        "devices.device_sets[0].contents: there are 65",
    ),
    "devices that take of counters": (
        lambda n: one_set(n, consumed_counters=[pb.CounterSet(name="x")]),
        64,
        "devices.device_sets[0].contents: there are 65",
    ),
    "devices with lists": (
        lambda n: one_set(n, attributes=[LIST]),
        64,
        "devices.device_sets[0].contents: there are 65",
    ),
    "attributes and capacities": (
        lambda n: one_set(
            1, attributes=[LIST], capacities=[pb.DeviceCapacity(name=f"x{at}", value="1") for at in range(n - 1)]
        ),
        32,
        "devices.contents[0].attributes: with its capacities, the device has 33",
    ),
    "consumed sets": (
        lambda n: one_set(1, consumed_counters=several(pb.CounterSet, n)),
        2,
        "devices.contents[0].consumed_counters: there are 3",
    ),
    "taints": (
        lambda n: one_set(1, taints=[taint(f"x{at}") for at in range(n)]),
        16,
        "devices.contents[0].taints: there are 17",
    ),
    "sets of counters": (
        lambda n: pb.Devices(counter_sets=[pb.CounterSets(sets=several(pb.CounterSet, n))]),
        8,
        "devices.counter_sets[0].sets: there are 9",
    ),
    "counters": (
        lambda n: pb.Devices(counter_sets=[pb.CounterSets(sets=[pb.CounterSet(name="x", counters=AMOUNTS[:n])])]),
        32,
        "devices.counter_sets[0].sets.counters: set 'x' has 33",
    ),
    "devices of a claim": (one_claim, 32, "].result_claim: claim 'ns/c' has 33 devices"),
}


@pytest.mark.parametrize(("make", "most", "problem"), LIMITS.values(), ids=LIMITS)
def test_what_an_api_server_would_not_accept_is_refused_with_its_place_and_one_less_is_read(
    make: Callable[[int], pb.Devices], most: int, problem: str
) -> None:
    read_devices(make(most))
    with pytest.raises(SnapshotError, match=re.escape(f"{problem}") + f".*allows at most {most}"):
        read_devices(make(most + 1))


def test_a_pod_with_more_requests_in_a_claim_than_the_api_allows_is_refused() -> None:
    asked = replace(CLAIM, requests=tuple(ClaimRequest(f"r{at}", CLAIM.requests[0].exactly) for at in range(33)))
    message = write(Cluster(pods={("ns", "p"): PodRow(spec=PodRequirements(claims=(PodClaim("a", "", asked, ""),)))}))
    with pytest.raises(SnapshotError, match=r"pod_specs\[\d\]\.claims\.spec\.requests: there are 33"):
        canonicalize(message)
