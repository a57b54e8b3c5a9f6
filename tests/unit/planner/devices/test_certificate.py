"""Every allocation on random clusters is proved to be one, by code that shares nothing with the planner."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.certificates.devices import Given, given_by, offences
from tests.parity.device_documents import (
    allocated_device,
    device_claim,
    device_class,
    device_content,
    device_node,
    device_slice,
    features,
    ours,
)
from tests.parity.device_oracle.clusters import FEATURES, Clusters
from trimtab.planner.devices.allocator import DeviceAllocator
from trimtab.planner.devices.model import AllocatedState, DeviceFeatures, DevicesAllocated
from trimtab.planner.devices.selectors import DeviceSelectors


def allocations(seed: int, version: int) -> list[tuple[dict[str, Any], Any, Any, list[Given]]]:
    """Return (document, node, claims, devices) of each allocation; before it, only what the document says is in use.

    Pools of one name of two drivers share their counters up to 1.36, which is wrong: they get names of their own here.
    """
    document = Clusters(seed).document("drawn") | {"features": FEATURES | {"FractionalCapacityRange": True}}
    for one in [*(found["spec"] for found in document["slices"])]:
        one["pool"]["name"] = f"{one['driver']}-{one['pool']['name']}"
    for one in document["allocated"]:
        one["pool"] = f"{one['driver']}-{one['pool']}"
    allocator = DeviceAllocator(
        map(device_slice, document["slices"]),
        map(device_class, document["classes"]),
        features(document["features"], version),
    )
    state = AllocatedState()
    state.add(tuple(map(allocated_device, document["allocated"])))
    found = []
    for pod in document["pods"]:
        claims = allocator.prepare([device_claim(one) for one in pod])
        for node in document["nodes"]:
            outcome = allocator.allocate(device_node(node), claims, state)
            if isinstance(outcome, DevicesAllocated):
                found.append((document, node, pod, given_by(ours(outcome))))
    return found


def matches_of(version: int) -> Any:
    """Return the evaluation of selectors."""
    selectors = DeviceSelectors(DeviceFeatures(version))
    return lambda expression, driver, device: selectors.matches(expression, driver, device_content(device))


@pytest.mark.parametrize("version", [36, 37])
@given(seed=st.integers(0, 10**6))
@examples(60)
def test_allocations_are_certified(version: int, seed: int) -> None:
    for document, node, claims, devices in allocations(seed, version):
        assert offences(document, node, claims, devices, matches_of(version)) == []


def damaged(devices: list[Given]) -> list[list[Given]]:
    """Return the devices with one taken away, one twice, and one that is another."""
    first = devices[0]
    other = first._replace(key=(*first.key[:2], "nobody"))
    return [devices[1:], [*devices, first], [other, *devices[1:]], [first._replace(request="x"), *devices[1:]]]


def test_damaged_allocations_are_not_certified() -> None:
    checked = 0
    for seed in range(40):
        for document, node, claims, devices in allocations(seed, 36):
            # Without their number, nothing is missing.
            if "'All'" in str(claims) or not devices:
                continue
            for wrong in damaged(devices):
                checked += 1
                assert offences(document, node, claims, wrong, matches_of(36)) != []
    assert checked > 20
