"""What the allocator says where it allocates nothing: reasons, errors, limits. `tests/parity` has what it allocates."""

import pytest

from tests.unit.planner.devices.plain_devices import (
    GPU,
    allocator,
    amounts,
    capacity,
    claim,
    counters,
    device_slice,
    gpu,
    outcome,
    request,
)
from trimtab.planner.devices import search
from trimtab.planner.devices.allocator import DeviceAllocator
from trimtab.planner.devices.model import (
    AllocatedDevice,
    AllocatedState,
    AttributeKind,
    ClaimRequest,
    DeviceAttribute,
    DeviceClaim,
    DeviceClass,
    DeviceConstraint,
    DeviceError,
    DeviceFeatures,
    DeviceId,
    DeviceNode,
    DevicesAllocated,
    DeviceSlice,
    DevicesRefused,
    DeviceSubRequest,
    DeviceTaint,
    NodeSelection,
    RefusalKind,
)
from trimtab.planner.devices.pools import PoolIndex
from trimtab.planner.model.values import LabelRequirement, NodeAffinityTerm
from trimtab.v1.snapshot_pb2 import LabelOperator

TAINT = DeviceTaint("broken", "", "NoSchedule")
CONSUMING = gpu(consumes_counters=(("set", amounts(slots=2)),))
SHARED = gpu(allow_multiple_allocations=True, capacities=(capacity("memory", 10),))


def held(*names: str, **options: object) -> AllocatedState:
    """Return a state in which devices of pool p1 are in use."""
    state = AllocatedState()
    state.add(tuple(AllocatedDevice("r", DeviceId("gpu.example.com", "p1", name), **options) for name in names))  # type: ignore[arg-type]
    return state


REASONS = [
    pytest.param(allocator(), claim(1), None, [(RefusalKind.NO_POOL, 0)], id="no pool"),
    pytest.param(
        allocator(device_slice(GPU, slice_count=2)),
        claim(1),
        None,
        [(RefusalKind.INCOMPLETE_POOL, 0)],
        id="slice missing",
    ),
    pytest.param(
        allocator(device_slice(GPU, slice_count=2), device_slice(GPU, name="s2", slice_count=2)),
        claim(1),
        None,
        [(RefusalKind.INVALID_POOL, 0)],
        id="duplicate device",
    ),
    pytest.param(allocator(device_slice(GPU, GPU)), claim(1), held("d0", "d1"), [(RefusalKind.IN_USE, 2)], id="in use"),
    pytest.param(
        allocator(device_slice(GPU, GPU)),
        claim(request(selectors=('device.attributes[device.driver].model == "h100"',))),
        None,
        [(RefusalKind.SELECTOR, 2)],
        id="selector",
    ),
    pytest.param(allocator(device_slice(gpu(taints=(TAINT,)))), claim(1), None, [(RefusalKind.TAINT, 1)], id="taint"),
    pytest.param(
        allocator(counters(slots=1), device_slice(CONSUMING, slice_count=2)),
        claim(1),
        None,
        [(RefusalKind.COUNTER, 1)],
        id="counter",
    ),
    pytest.param(
        allocator(device_slice(gpu(capacities=(capacity("memory", 10),)))),
        claim(request(capacity=amounts(memory=11))),
        None,
        [(RefusalKind.CAPACITY, 1)],
        id="too small",
    ),
    pytest.param(
        allocator(device_slice(SHARED)),
        claim(request(capacity=amounts(memory=6))),
        held("d0", shared=True, consumed=amounts(memory=5)),
        [(RefusalKind.CAPACITY, 1)],
        id="capacity in use",
    ),
    pytest.param(
        allocator(device_slice(GPU, gpu(attributes=()))),
        claim(2, constraints=(DeviceConstraint(match_attribute="gpu.example.com/model"),)),
        None,
        [(RefusalKind.CONSTRAINT, 1), (RefusalKind.IN_USE, 1)],
        id="constraint",
    ),
    pytest.param(
        allocator(
            device_slice(
                gpu(nodes=NodeSelection("n2")),
                gpu(nodes=NodeSelection("n1")),
                nodes=NodeSelection(),
                per_device_nodes=True,
            )
        ),
        claim(1),
        held("d1"),
        [(RefusalKind.IN_USE, 1), (RefusalKind.NODE, 1)],
        id="another node",
    ),
]


@pytest.mark.parametrize(("found", "wanted", "state", "expected"), REASONS)
def test_a_refusal_names_pool_and_reason(
    found: DeviceAllocator, wanted: DeviceClaim, state: AllocatedState | None, expected: list[tuple[RefusalKind, int]]
) -> None:
    refused = outcome(found, wanted, state=state)
    assert isinstance(refused, DevicesRefused)
    assert [(one.kind, one.device_count) for one in refused.refusals] == expected
    assert {(one.claim, one.request) for one in refused.refusals} == {("ns/c", "r0")}


def test_the_request_that_the_search_does_not_get_over_is_named() -> None:
    refused = outcome(allocator(device_slice(GPU, GPU)), claim(1, 2))
    assert isinstance(refused, DevicesRefused)
    assert {one.request for one in refused.refusals} == {"r1"}


UNPARSABLE = NodeSelection(selector=(NodeAffinityTerm((LabelRequirement("zone", LabelOperator.IN, ()),), ()),))
ERRORS = [
    pytest.param(
        claim(request(device_class="missing")),
        "ResourceClaim ns/c",
        "spec.devices.requests[r0].deviceClassName",
        id="class",
    ),
    pytest.param(
        claim(request(selectors=("device.",))),
        "ResourceClaim ns/c",
        "spec.devices.requests[r0].selectors[0].cel.expression",
        id="selector that does not compile",
    ),
    pytest.param(
        claim(request(device_class="wrong")),
        "DeviceClass wrong",
        "spec.selectors[1].cel.expression",
        id="runtime error",
    ),
    pytest.param(claim(33), "ResourceClaim ns/c", "spec.devices.requests", id="more than 32 devices"),
    pytest.param(
        claim(1, constraints=(DeviceConstraint(),)),
        "ResourceClaim ns/c",
        "spec.devices.constraints[0]",
        id="constraint",
    ),
    pytest.param(
        claim(request(mode="Some")), "ResourceClaim ns/c", "spec.devices.requests[r0].allocationMode", id="mode"
    ),
]


@pytest.mark.parametrize(("wanted", "where", "field"), ERRORS)
def test_an_error_names_object_and_field(wanted: DeviceClaim, where: str, field: str) -> None:
    wrong = DeviceClass("wrong", ("true", 'device.attributes["x"].y'))
    error = outcome(allocator(device_slice(GPU), classes=(wrong,)), wanted)
    assert isinstance(error, DeviceError)
    assert (error.object, error.field) == (where, field)
    assert error.text


def test_a_node_selector_that_cannot_be_parsed_is_an_error_of_its_slice() -> None:
    error = outcome(allocator(device_slice(GPU, nodes=UNPARSABLE)), claim(1))
    assert isinstance(error, DeviceError)
    assert (error.object, error.field) == ("ResourceSlice s1", "spec.nodeSelector")


def test_an_expression_that_costs_too_much_is_an_error() -> None:
    # To look for one text of 4,000 characters in another costs 160,000.
    expression = f'[1, 2, 3, 4, 5, 6, 7].all(one, !"{"a" * 4000}".contains("{"b" * 4000}"))'
    error = outcome(allocator(device_slice(GPU)), claim(request(selectors=(expression,))))
    assert isinstance(error, DeviceError)
    assert "cost limit" in error.text


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (
            "prioritized_list",
            DeviceClaim("ns/c", (ClaimRequest("r0", first_available=(DeviceSubRequest("any", "a"),)),)),
        ),
        ("admin_access", claim(request(admin_access=True))),
        ("consumable_capacity", claim(request(capacity=()))),
    ],
)
def test_what_a_feature_gate_turned_off_forbids_is_an_error(name: str, wanted: DeviceClaim) -> None:
    assert isinstance(outcome(allocator(device_slice(GPU), **{name: False}), wanted), DeviceError)
    assert isinstance(outcome(allocator(device_slice(GPU)), wanted), DevicesAllocated)


def hard() -> tuple[DeviceAllocator, DeviceClaim]:
    """Return devices that all differ, and a claim that fails only with the last of its requests."""
    devices = [
        gpu(
            attributes=(
                DeviceAttribute("model", AttributeKind.STRING, "a100"),
                DeviceAttribute("i", AttributeKind.INT, at),
            )
        )
        for at in range(24)
    ]
    rule = DeviceConstraint(distinct_attribute="gpu.example.com/i")
    return allocator(device_slice(*devices)), claim(6, 6, request("r2", selectors=("false",)), constraints=(rule,))


def test_a_long_search_ends_with_a_refusal_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_STEPS", 300)
    refused = outcome(*hard())
    assert isinstance(refused, DevicesRefused)
    assert [one.kind for one in refused.refusals] == [RefusalKind.STEPS]


def test_many_requests_for_equal_devices_that_are_not_there_need_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_STEPS", 200)
    refused = outcome(allocator(device_slice(*[GPU] * 64)), claim(8, 8, 8), claim(8, 8, 8, 8), claim(16))
    assert isinstance(refused, DevicesRefused)
    assert RefusalKind.STEPS not in {one.kind for one in refused.refusals}


def test_names_of_nodes_and_pools_change_nothing_but_the_order_of_ties() -> None:
    for node, pools in (("n1", ("a", "b")), ("zz", ("y", "x"))):
        slices = [device_slice(GPU, GPU, name=name, pool=name, nodes=NodeSelection(node)) for name in pools]
        found = outcome(allocator(*slices), claim(3), node=DeviceNode(node))
        assert isinstance(found, DevicesAllocated)
        taken = [one.device.pool for one in found.claims[0].devices]
        assert taken == [min(pools), min(pools), max(pools)]


def test_a_pod_without_claims_gets_nothing_and_fits() -> None:
    assert outcome(allocator(device_slice(GPU))) == DevicesAllocated(())


def test_counters_beyond_64_bits_are_exact() -> None:
    huge = 2**70
    slices = (
        counters(slots=huge),
        device_slice(*[gpu(consumes_counters=(("set", amounts(slots=huge - 1)),))] * 2, slice_count=2),
    )
    assert isinstance(outcome(allocator(*slices), claim(1)), DevicesAllocated)
    assert isinstance(outcome(allocator(*slices), claim(2)), DevicesRefused)


def test_devices_are_reached_from_where_all_of_them_are() -> None:
    zone = NodeSelection(selector=(NodeAffinityTerm((LabelRequirement("zone", LabelOperator.IN, ("a",)),), ()),))
    everywhere = NodeSelection(all_nodes=True)
    for nodes, expected in ((zone, zone), (everywhere, None), (NodeSelection("n1"), NodeSelection("n1"))):
        found = outcome(allocator(device_slice(GPU, nodes=nodes)), claim(1))
        assert isinstance(found, DevicesAllocated)
        assert found.claims[0].nodes == expected


def test_slices_of_one_device_set_are_looked_at_once() -> None:
    shared = device_slice(GPU, GPU).devices
    slices = [
        DeviceSlice(f"s{at}", "gpu.example.com", f"n{at}", nodes=NodeSelection(f"n{at}"), devices=shared)
        for at in range(3)
    ]
    index = PoolIndex(slices, DeviceFeatures())
    tables = {pool.table for at in range(3) for pool in index.pools(DeviceNode(f"n{at}"))}
    assert len(tables) == 1
