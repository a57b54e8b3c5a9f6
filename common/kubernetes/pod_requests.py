"""The requests of a pod, as kube-scheduler counts them.

max(containers + sidecars, init containers in order, each with the sidecars before it), with pod-level resources in
place of that sum if set, plus overhead. Limits stand in for missing requests, as the API server defaults them. Pure.
Each quantity is rounded up to milli-units, as the API server does when it stores one; the sums are rounded up to what
the scheduler counts, once, at the end.

Source: component-helpers resource.PodRequests (1.34); core/v1 defaults SetDefaults_ResourceList, SetDefaults_Pod,
defaultPodRequests, defaultHugePagePodLimits; scheduler framework Resource.Add for which names count.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from trimtab.common.kubernetes.kinds.metadata import Quantities
from trimtab.common.kubernetes.kinds.pods import Container, ContainerStatus, PodSpec, PodStatus, Resources
from trimtab.common.kubernetes.object_errors import FieldError, below
from trimtab.common.kubernetes.quantities import MAX_INT64, MILLI, NANO, amount_of, is_beyond_int64, quantity

Amounts = dict[str, int]
"""Resource name to nano-units."""

_PLAIN = frozenset({"cpu", "memory", "ephemeral-storage"})


def pod_requests(spec: PodSpec, status: PodStatus | None = None) -> list[tuple[str, int]]:
    """Return (resource, amount) sorted by resource: milli-cores of cpu, base units of the rest; no zero amounts.

    `status` of a pod that has a node: the allocated resources of its containers count if they exceed the spec (in-place
    resizing); None for a pod that is to be placed. Raises FieldError with the path below `spec`.
    """
    running = _allocated(status)
    if running is not None and is_resize_infeasible(status):
        own = _sum(spec, "requests", running, instead=True)
    else:
        own = _sum(spec, "requests", running, instead=False)
    if spec.resources is not None:
        with below("resources"):
            own |= _pod_level(spec.resources, spec)
    with below("overhead"):
        _add(own, _amounts(spec.overhead))
    counted = ((name, amount_of(name, nano)) for name, nano in sorted(own.items()) if counts(name))
    return [(name, amount) for name, amount in counted if amount > 0]


def requests_of_mapping(spec: Mapping[str, Any]) -> dict[str, int]:
    """Return `pod_requests` of a pod's spec as JSON. Raises FieldError with the path below `spec`."""
    try:
        struct = msgspec.convert(spec, PodSpec)
    except msgspec.ValidationError as error:
        raise FieldError("", str(error)) from error
    return dict(pod_requests(struct))


def counts(resource: str) -> bool:
    """Return whether the scheduler considers a resource of this name when it places a pod."""
    if resource in _PLAIN or resource.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return "/" in resource and not resource.startswith("requests.")


def amounts(quantities: Quantities | None) -> Amounts:
    """Return quantities in nano-units, rounded up to milli-units.

    Raises FieldError with the resource as path; negative ones are refused, and those that no API server stores.
    """
    return _amounts(quantities)


def _amounts(quantities: Quantities | None) -> Amounts:
    out = {}
    for name, value in (quantities or {}).items():
        with below(name):
            nano = quantity(value)
            if nano < 0:
                raise FieldError("", f"{value} is negative", "give an amount of at least 0")
            if nano == MAX_INT64 * NANO and is_beyond_int64(value):
                raise FieldError("", f"{str(value)[:60]} is too large", f"give an amount of at most {MAX_INT64}")
        out[name] = -(-nano // MILLI) * MILLI
    return out


def _add(into: Amounts, more: Amounts) -> None:
    for name, nano in more.items():
        into[name] = into.get(name, 0) + nano


def _raise_to(into: Amounts, other: Amounts) -> None:
    for name, nano in other.items():
        if nano > into.get(name, -1):
            into[name] = nano


def _container_amounts(container: Container, which: str) -> Amounts:
    """Return requests, with limits where there is no request; or limits."""
    resources = container.resources
    if resources is None:
        return {}
    with below("resources.limits"):
        limits = _amounts(resources.limits)
    if which == "limits":
        return limits
    with below("resources.requests"):
        return limits | _amounts(resources.requests)


def _sum(spec: PodSpec, which: str, running: dict[str, Amounts] | None, instead: bool) -> Amounts:
    """Add up containers. `running` by container name: raises the request, or replaces it when `instead`."""

    def effective(container: Container) -> Amounts:
        own = _container_amounts(container, which)
        has = None if running is None else running.get(container.name or "")
        if has is not None:
            own = {} if instead else own
            _raise_to(own, has)
        return own

    total: Amounts = {}
    for path, container in _numbered("containers", spec.containers):
        with below(path):
            _add(total, effective(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for path, container in _numbered("initContainers", spec.init_containers):
        with below(path):
            if container.restart_policy == "Always":
                own = effective(container)
                _add(total, own)
                _add(sidecars, own)
                _raise_to(peak, sidecars)
            else:
                now = dict(sidecars)
                _add(now, _container_amounts(container, which))
                _raise_to(peak, now)
    _raise_to(total, peak)
    return total


def _numbered(field: str, containers: list[Container] | None) -> Iterable[tuple[str, Container]]:
    return ((f"{field}[{i}]", container) for i, container in enumerate(containers or ()))


def _pod_level(resources: Resources, spec: PodSpec) -> Amounts:
    """Return pod-level requests, defaulted as the API server does, of the resources that have a pod level."""
    with below("requests"):
        requests = _amounts(resources.requests)
    with below("limits"):
        limits = _amounts(resources.limits)
    if requests or limits:
        container_limits = _sum(spec, "limits", None, instead=False)
        for name, nano in container_limits.items():
            if name.startswith("hugepages-") and name not in requests and name not in limits:
                limits[name] = nano
    if limits:
        for name, nano in _sum(spec, "requests", None, instead=False).items():
            if name not in requests and name in ("cpu", "memory"):
                requests[name] = nano
        for name, nano in limits.items():
            if name not in requests and _has_pod_level(name):
                requests[name] = nano
    return {name: nano for name, nano in requests.items() if _has_pod_level(name)}


def _has_pod_level(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def _allocated(status: PodStatus | None) -> dict[str, Amounts] | None:
    """Return the allocated resources in the status, by container name; None when it has none."""
    if status is None:
        return None
    statuses: list[ContainerStatus] = [*(status.container_statuses or ()), *(status.init_container_statuses or ())]
    out = {}
    for container in statuses:
        if container.resources is not None:
            has = _amounts(container.resources.requests)
            _raise_to(has, _amounts(container.allocated_resources))
            out[container.name or ""] = has
    return out or None


def is_resize_infeasible(status: PodStatus | None) -> bool:
    """Return whether the node has refused a resize as infeasible: only allocated resources count."""
    for condition in (status.conditions if status else None) or ():
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False
