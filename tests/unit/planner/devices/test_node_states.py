"""All nodes at once: the answers are those of each node alone, after any allocations and their undoing."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.devices import allocator, amounts, claim, gpu
from tests.builders.devices import device_slice as device_slice_of
from tests.parity.device_documents import (
    allocated_device,
    device_claim,
    device_class,
    device_node,
    device_slice,
    features,
)
from tests.parity.device_oracle.clusters import FEATURES, Clusters
from trimtab.planner.devices.allocator import DeviceAllocator
from trimtab.planner.devices.model import (
    AllocatedState,
    CounterSet,
    DeviceError,
    DeviceNode,
    DevicesAllocated,
    DeviceSet,
    DeviceSlice,
    NodeSelection,
    PoolId,
)
from trimtab.planner.devices.node_states import DeviceAnswer, NodeDeviceStates


def alike(slices: list[dict[str, Any]]) -> list[DeviceSlice]:
    """Return slices of which those of the same driver that belong to one node have equal devices, as one object."""
    devices: dict[str, Any] = {}
    for one in slices:
        spec = one["spec"]
        if "nodeName" in spec and spec.get("devices"):
            spec["devices"] = devices.setdefault(spec["driver"], spec["devices"])
    found = [device_slice(one) for one in slices]
    sets: dict[DeviceSet, DeviceSet] = {}
    return [replace(one, devices=sets.setdefault(one.devices, one.devices)) for one in found]


@given(seed=st.integers(0, 10**6))
@settings(max_examples=150)
def test_answers_for_all_nodes_are_those_of_each_node(seed: int) -> None:
    document = Clusters(seed).document("drawn") | {"features": FEATURES}
    allocator = DeviceAllocator(
        alike(document["slices"]),
        map(device_class, document["classes"]),
        features(document["features"], 36),
    )
    nodes = [device_node(one) for one in document["nodes"]]
    state = AllocatedState()
    state.add(tuple(map(allocated_device, document["allocated"])))
    states = NodeDeviceStates(allocator, nodes, state)
    for pod in document["pods"]:
        claims = allocator.prepare([device_claim(one) for one in pod])
        outcomes = [allocator.allocate(node, claims, state) for node in nodes]
        expected = [
            DeviceAnswer.FITS
            if isinstance(one, DevicesAllocated)
            else DeviceAnswer.ERROR
            if isinstance(one, DeviceError)
            else DeviceAnswer.REFUSED
            for one in outcomes
        ]
        assert states.answers(claims, state).tolist() == expected
        codes = states.codes.copy()
        for one in outcomes:
            if isinstance(one, DevicesAllocated):
                pools = {PoolId(*found.device[:2]) for claim in one.claims for found in claim.devices}
                state.add_all(one.claims)
                states.refresh(states.rows_of(pools), state)
                state.remove_all(one.claims)
                states.refresh(states.rows_of(pools), state)
        assert states.codes.tolist() == codes.tolist()
        first = next((one for one in outcomes if isinstance(one, DevicesAllocated)), None)
        if first is not None:
            state.add_all(first.claims)
            states.refresh(range(len(nodes)), state)


def test_equal_devices_that_share_different_counters_are_different_states() -> None:
    devices = device_slice_of(gpu(consumes_counters=(("set", amounts(slots=2)),))).devices
    slices = []
    for node, slots in (("n1", 1), ("n2", 4)):
        options = {"pool": node, "nodes": NodeSelection(node), "slice_count": 2}
        slices += [
            device_slice_of(
                name=f"{node}-a",
                devices=DeviceSet(),
                counter_sets=(CounterSet("set", amounts(slots=slots)),),
                **options,
            ),
            device_slice_of(name=f"{node}-b", devices=devices, **options),
        ]
    found, state = allocator(*slices), AllocatedState()
    states = NodeDeviceStates(found, [DeviceNode("n1"), DeviceNode("n2")], state)
    answers = states.answers(found.prepare([claim(1)]), state)
    assert answers.tolist() == [DeviceAnswer.REFUSED, DeviceAnswer.FITS]
