"""Extended resources that are served by devices: what a pod asks for in `resources.requests` as a claim in memory.

On each node anew: a resource that the node's device plugin offers is not served by devices there.
Source: k8s.io/kubernetes v1.36.3, plugins/dynamicresources/extendeddynamicresources.go, filterExtendedResources and
createRequestsAndMappings; k8s.io/dynamic-resource-allocation v0.36.3, deviceclass/extendedresourcecache.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trimtab.planner.devices.model import ClaimRequest, DeviceClaim, DeviceClass, DeviceSubRequest
from trimtab.planner.devices.quantities import NANO

CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""With the name of a class, the extended resource that each class serves, whatever it says itself."""


@dataclass(frozen=True, slots=True)
class ContainerAmounts:
    """A container, init containers first. requests : (resource, nano) of all its requests, of cpu and memory too;
    is_short_lived : an init container that ends before the others start.
    """

    requests: tuple[tuple[str, int], ...]
    is_short_lived: bool = False


def classes_by_resource(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """Return the name of the class that serves each extended resource: of several with one name the newest, then the
    one with the smaller name.
    """
    found: dict[str, str] = {}
    for one in sorted(classes, key=lambda one: (-one.created_ns, one.name)):
        if one.extended_resource_name:
            found.setdefault(one.extended_resource_name, one.name)
    return found | {CLASS_PREFIX + one.name: one.name for one in classes}


def served_by_devices(
    resources: Iterable[str], allocatable: Mapping[str, int], classes: Mapping[str, str]
) -> tuple[str, ...] | None:
    """Return which extended resources of a pod devices serve on a node, sorted; None if the node cannot serve one at
    all. allocatable : of the node; classes : by resource.
    """
    found: list[str] = []
    for name in resources:
        if name in classes and not allocatable.get(name):
            found.append(name)
        elif name not in allocatable:
            return None
    return tuple(sorted(found))


def claim_in_memory(
    name: str, containers: Sequence[ContainerAmounts], served: Iterable[str], classes: Mapping[str, str]
) -> DeviceClaim:
    """Return the claim for the resources that devices serve. Its requests are named after container and resource."""
    counts: dict[str, tuple[str, int]] = {}
    for resource in served:
        if resource in classes:
            counts |= {request: (classes[resource], count) for request, count in _counts(containers, resource).items()}
    requests = (
        ClaimRequest(request, DeviceSubRequest(device_class, count=count))
        for request, (device_class, count) in sorted(counts.items())
    )
    return DeviceClaim(name, tuple(requests))


def _counts(containers: Sequence[ContainerAmounts], resource: str) -> dict[str, int]:
    """Return the devices of each request for one resource. Long-lived containers add up; a short-lived one may use what
    later long-lived ones have, and of what is missing then, the largest amount is enough for all.
    """
    found: dict[str, int] = {}
    own = [0] * len(containers)
    for at, one in enumerate(containers):
        wanted = _whole(one, resource)
        if not one.is_short_lived and wanted:
            own[at] = wanted
            found[_request_name(at, one, resource)] = wanted
    largest: tuple[str, int] | None = None
    for at, one in enumerate(containers):
        if not one.is_short_lived:
            continue
        missing = _whole(one, resource) - sum(own[at:])
        if missing > 0 and (largest is None or missing > largest[1]):
            largest = (_request_name(at, one, resource), missing)
    return found if largest is None else found | dict([largest])


def _whole(container: ContainerAmounts, resource: str) -> int:
    nano = dict(container.requests).get(resource, 0)
    return nano // NANO if nano % NANO == 0 else 0


def _request_name(at: int, container: ContainerAmounts, resource: str) -> str:
    place = sorted(name for name, _ in container.requests).index(resource)
    return f"container-{at}-request-{place}"
