"""All nodes at once: the answers are those of each node alone, after any allocations and their undoing."""

from hypothesis import given, settings
from hypothesis import strategies as st

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
from trimtab.planner.devices.model import AllocatedState, DeviceError, DevicesAllocated, PoolId
from trimtab.planner.devices.node_states import DeviceAnswer, NodeDeviceStates


@given(seed=st.integers(0, 10**6))
@settings(max_examples=60)
def test_answers_for_all_nodes_are_those_of_each_node(seed: int) -> None:
    document = Clusters(seed).document("drawn") | {"features": FEATURES}
    allocator = DeviceAllocator(
        map(device_slice, document["slices"]),
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
