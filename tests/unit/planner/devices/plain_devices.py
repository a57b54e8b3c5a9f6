"""Devices, slices and claims, in one line each."""

from dataclasses import replace
from typing import Any

from trimtab.planner.devices.allocator import DeviceAllocator
from trimtab.planner.devices.model import (
    AllocatedState,
    AllocationOutcome,
    AttributeKind,
    ClaimRequest,
    CounterSet,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceClass,
    DeviceContent,
    DeviceFeatures,
    DeviceNode,
    DeviceSet,
    DeviceSlice,
    DeviceSubRequest,
    NodeSelection,
    PoolId,
)
from trimtab.planner.devices.quantities import NANO

DRIVER = "gpu.example.com"
NODE = DeviceNode("n1", (("zone", "a"),))
GPU = DeviceContent(attributes=(DeviceAttribute("model", AttributeKind.STRING, "a100"),))


def gpu(**options: Any) -> DeviceContent:
    """Return a device with other fields than `GPU`."""
    return replace(GPU, **options)


def amounts(**numbers: int) -> tuple[tuple[str, int], ...]:
    """Return named amounts, given in whole units."""
    return tuple((name, number * NANO) for name, number in numbers.items())


def capacity(name: str, number: int, **options: Any) -> DeviceCapacity:
    """Return a capacity of whole units."""
    return DeviceCapacity(name, number * NANO, **options)


def device_slice(*devices: DeviceContent, name: str = "s1", pool: str = "p1", **options: Any) -> DeviceSlice:
    """Return a slice of node n1 with devices d0, d1 and so on."""
    names = tuple(f"d{at}" for at in range(len(devices)))
    options = {"nodes": NodeSelection("n1"), "devices": DeviceSet(names, devices)} | options
    return DeviceSlice(name, DRIVER, pool, **options)


def counters(**numbers: int) -> DeviceSlice:
    """Return a slice of node n1 with a counter set, "set", for a pool of two slices."""
    return DeviceSlice(
        "s0",
        DRIVER,
        "p1",
        slice_count=2,
        nodes=NodeSelection("n1"),
        counter_sets=(CounterSet("set", amounts(**numbers)),),
    )


def claim(*requests: ClaimRequest | int, name: str = "ns/c", **options: Any) -> DeviceClaim:
    """Return a claim; a number stands for a request of class "any" for so many devices."""
    made = [
        request(count=one, name=f"r{at}") if isinstance(one, int) else one for at, one in enumerate(requests)
    ]  # fmt: skip
    return DeviceClaim(name, tuple(made), **options)


def request(name: str = "r0", **options: Any) -> ClaimRequest:
    """Return a request of class "any"."""
    return ClaimRequest(name, DeviceSubRequest(**({"device_class": "any"} | options)))


def allocator(*slices: DeviceSlice, classes: tuple[DeviceClass, ...] = (), **features: Any) -> DeviceAllocator:
    """Return an allocator; class "any" takes every device."""
    return DeviceAllocator(slices, (DeviceClass("any"), *classes), DeviceFeatures(**features))


def outcome(
    found: DeviceAllocator, *claims: DeviceClaim, state: AllocatedState | None = None, node: DeviceNode = NODE
) -> AllocationOutcome:
    """Return what claims get on a node."""
    return found.allocate(node, found.prepare(claims), state or AllocatedState())


def in_use(state: AllocatedState) -> dict[PoolId, tuple[object, ...]]:
    """Return what is in use, comparable: pools without any use and amounts of 0 are left out."""
    return {
        pool: (
            dict(use.exclusive),
            dict(use.shares),
            dict(use.capacity_shares),
            {
                (device, name): amount
                for device, sums in use.consumed.items()
                for name, amount in sums.items()
                if amount
            },
        )
        for pool, use in state.pools.items()
        if use.exclusive or use.shares
    }
