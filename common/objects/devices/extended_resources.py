"""Extended resources of a pod that devices may satisfy, as requests of the claim that the scheduler would make.

Source: scheduler plugin dynamicresources, createRequestsAndMappings (1.36.3).
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from trimtab.common.kubernetes.kinds.pods import Container, PodSpec
from trimtab.common.kubernetes.pod_requests import amounts
from trimtab.common.kubernetes.quantities import NANO
from trimtab.common.kubernetes.signals import well_known
from trimtab.v1 import snapshot_pb2 as pb

IMPLICIT: Final = well_known.IMPLICIT_RESOURCE.key
"""Prefix of the extended resource that every class provides."""


class _Asked(NamedTuple):
    """What a container asks of one resource. `place` : of the container; `name` : of the request."""

    place: int
    name: str
    amount: int


def extended_requests(spec: PodSpec, is_provided: Callable[[str], bool]) -> list[pb.ExtendedDeviceRequest]:
    """Return the requests, sorted by name. is_provided : whether a device class provides an extended resource.

    Errors: FieldError with the resource as path.
    """
    containers = [*(spec.init_containers or ()), *(spec.containers or ())]
    first = len(spec.init_containers or ())
    short_lived = {i for i, one in enumerate(containers[:first]) if one.restart_policy != "Always"}
    asked: dict[str, list[_Asked]] = {}
    for index, container in enumerate(containers):
        for resource, one in _asked(index, container, is_provided):
            asked.setdefault(resource, []).append(one)
    rows = []
    for resource, found in sorted(asked.items()):
        lasting = [one for one in found if one.place not in short_lived]
        # A short-lived container has the devices of those that start later, and asks for what is missing.
        missing = [
            one._replace(amount=one.amount - sum(later.amount for later in lasting if later.place > one.place))
            for one in found
            if one.place in short_lived
        ]
        largest = max(missing, key=lambda one: one.amount, default=None)
        lasting += [largest] if largest is not None and largest.amount > 0 else []
        rows += [pb.ExtendedDeviceRequest(name=one.name, resource=resource, count=one.amount) for one in lasting]
    return sorted(rows, key=lambda row: row.name)


def _asked(index: int, container: Container, is_provided: Callable[[str], bool]) -> list[tuple[str, _Asked]]:
    """Return what a container asks for, by resource."""
    if container.resources is None:
        return []
    requests = {**(container.resources.limits or {}), **(container.resources.requests or {})}
    wanted = [name for name in requests if "/" in name and is_provided(name)]
    if not wanted:
        return []
    place = {name: at for at, name in enumerate(sorted(requests))}
    counts = amounts({name: requests[name] for name in wanted})
    return [
        (name, _Asked(index, f"container-{index}-request-{place[name]}", counts[name] // NANO))
        for name in wanted
        if counts[name] >= NANO
    ]
