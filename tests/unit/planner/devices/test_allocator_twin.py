"""The allocator against its naive twin, on random clusters."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parity.device_documents import (
    allocated_device,
    device_claim,
    device_class,
    device_content,
    device_node,
    device_slice,
    features,
)
from tests.parity.device_oracle.clusters import FEATURES, Clusters
from tests.reference.devices.allocation import allocate
from tests.unit.planner.devices.plain_devices import in_use
from trimtab.planner.devices.allocator import DeviceAllocator
from trimtab.planner.devices.model import AllocatedState, DeviceError, DevicesAllocated
from trimtab.planner.devices.selectors import DeviceSelectors


def both(seed: int, version: int) -> list[tuple[Any, Any]]:
    """Return what the allocator and its twin say about each pod of a random cluster, alone on each node."""
    document = Clusters(seed).document("drawn") | {"features": FEATURES | {"FractionalCapacityRange": True}}
    gates = features(document["features"], version)
    allocator = DeviceAllocator(
        map(device_slice, document["slices"]), map(device_class, document["classes"]), gates
    )  # fmt: skip
    selectors = DeviceSelectors(version)
    state = AllocatedState()
    state.add(tuple(map(allocated_device, document["allocated"])))
    before = in_use(state)
    found = []
    for pod in document["pods"]:
        claims = allocator.prepare([device_claim(one) for one in pod])
        for node in document["nodes"]:
            outcome = allocator.allocate(device_node(node), claims, state)
            mine: Any = None
            if isinstance(outcome, DevicesAllocated):
                mine = [
                    (at, one.request, *one.device) for at, claim in enumerate(outcome.claims) for one in claim.devices
                ]
                state.add_all(outcome.claims)
                for one in outcome.claims:
                    state.remove(one.devices)
            elif isinstance(outcome, DeviceError):
                mine = "error"
            elif outcome.refusals[0].kind == "STEPS":
                continue

            def matches(expression: str, driver: str, device: Any) -> bool:
                return selectors.matches(expression, driver, device_content(device))

            found.append((mine, allocate(document, node, pod, matches, version)))
    assert in_use(state) == before
    return [(mine, twin) for mine, twin in found if twin != "gave up"]


@pytest.mark.parametrize("version", [36, 37])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=100)
def test_the_allocator_takes_the_devices_that_its_naive_twin_takes(version: int, seed: int) -> None:
    for mine, twin in both(seed, version):
        assert mine == twin


def test_the_drawn_clusters_have_answers_of_all_kinds() -> None:
    answers = [mine for seed in range(30) for mine, _ in both(seed, 36)]
    assert any(isinstance(one, list) for one in answers)
    assert "error" in answers
    assert None in answers
