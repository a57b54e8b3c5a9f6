"""Extended resources served by devices. The cases restate those of kube-scheduler's own tests in our own words.

Source: k8s.io/kubernetes v1.36.3, plugins/dynamicresources/extendeddynamicresources_test.go (Apache-2.0).
"""

import pytest

from trimtab.planner.devices.extended_resources import (
    ContainerAmounts,
    claim_in_memory,
    classes_by_resource,
    served_by_devices,
)
from trimtab.planner.devices.model import DeviceClass
from trimtab.planner.devices.quantities import NANO

GPU, NIC = "example.com/gpu", "example.com/nic"
CLASSES = {GPU: "gpu-class", NIC: "nic-class"}


def container(short: bool = False, **amounts: int) -> ContainerAmounts:
    """Return a container with requests for cpu, gpu and nic."""
    names = {"cpu": "cpu", "gpu": GPU, "nic": NIC}
    return ContainerAmounts(tuple((names[name], amount * NANO) for name, amount in amounts.items()), short)


def requests(*containers: ContainerAmounts) -> dict[str, tuple[str, int]]:
    """Return class and count of each request, for both resources."""
    claim = claim_in_memory("c", containers, (GPU, NIC), CLASSES)
    found = {}
    for one in claim.requests:
        assert one.exactly is not None
        found[one.name] = (one.exactly.device_class, one.exactly.count)
    assert list(found) == sorted(found)
    return found


CASES = [
    pytest.param((container(gpu=2),), {"container-0-request-0": ("gpu-class", 2)}, id="one container"),
    pytest.param((container(cpu=1, gpu=2),), {"container-0-request-1": ("gpu-class", 2)}, id="cpu counts in the index"),
    pytest.param(
        (container(gpu=1), container(gpu=2)),
        {"container-0-request-0": ("gpu-class", 1), "container-1-request-0": ("gpu-class", 2)},
        id="regular containers add up",
    ),
    pytest.param(
        (container(short=True, gpu=2), container(gpu=2)),
        {"container-1-request-0": ("gpu-class", 2)},
        id="an init container uses what a later container has",
    ),
    pytest.param(
        (container(short=True, gpu=3), container(gpu=2)),
        {"container-0-request-0": ("gpu-class", 1), "container-1-request-0": ("gpu-class", 2)},
        id="an init container asks for what is missing",
    ),
    pytest.param(
        (container(gpu=1), container(short=True, gpu=1), container(cpu=1)),
        {"container-0-request-0": ("gpu-class", 1), "container-1-request-0": ("gpu-class", 1)},
        id="an init container uses nothing of a sidecar before it",
    ),
    pytest.param(
        (container(short=True, gpu=1), container(short=True, gpu=4), container(short=True, gpu=2)),
        {"container-1-request-0": ("gpu-class", 4)},
        id="of several init containers the largest is enough",
    ),
    pytest.param(
        (container(gpu=1, nic=3),),
        {"container-0-request-0": ("gpu-class", 1), "container-0-request-1": ("nic-class", 3)},
        id="two resources",
    ),
    pytest.param((container(cpu=1), container(gpu=0)), {}, id="nothing asked for"),
]


@pytest.mark.parametrize(("containers", "expected"), CASES)
def test_requests_follow_containers(
    containers: tuple[ContainerAmounts, ...], expected: dict[str, tuple[str, int]]
) -> None:
    assert requests(*containers) == expected


def test_the_newest_class_serves_a_resource_and_then_the_smaller_name() -> None:
    classes = [
        DeviceClass("old", extended_resource_name=GPU, created_ns=1),
        DeviceClass("b", extended_resource_name=GPU, created_ns=2),
        DeviceClass("a", extended_resource_name=GPU, created_ns=2),
    ]
    found = classes_by_resource(classes)
    assert found[GPU] == "a"
    assert found["deviceclass.resource.kubernetes.io/old"] == "old"


@pytest.mark.parametrize(
    ("allocatable", "expected"),
    [
        pytest.param({}, (GPU, NIC), id="no device plugin"),
        pytest.param({GPU: 0}, (GPU, NIC), id="a device plugin without devices"),
        pytest.param({GPU: 4}, (NIC,), id="a device plugin with devices"),
    ],
)
def test_devices_serve_what_no_device_plugin_offers(allocatable: dict[str, int], expected: tuple[str, ...]) -> None:
    assert served_by_devices([NIC, GPU], allocatable, CLASSES) == expected


def test_a_resource_that_nobody_offers_is_refused() -> None:
    assert served_by_devices(["example.com/other"], {}, CLASSES) is None
