"""Kubernetes quantities and the requests of a pod.

Decides the units: `cpu` in milli-cores, everything else in base units (bytes, counts), rounded up as the API server
does.
Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/, and "Pod overhead" and
"Sidecar containers" for the sum over containers.
"""

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

Amounts = dict[str, int]

_DECIMAL = {"n": -3, "u": -2, "m": -1, "": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_FORM = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:([eE][+-]?\d{1,3})|([KMGTPE]i)|([numkMGTPE]?))$", re.ASCII)


@lru_cache(maxsize=65536)
def parse_quantity(text: str) -> Fraction:
    """Read "100m", "1.5Gi", "1e3", …. Raises ValueError."""
    match = _FORM.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity, such as 100m or 1.5Gi")
    number, exponent, binary, decimal = match.groups()
    value = Fraction(number)
    if exponent:
        return value * Fraction(f"1e{int(exponent[1:])}")
    if binary:
        return value * Fraction(1 << 10 * _BINARY[binary])
    return value * Fraction(f"1e{3 * _DECIMAL[decimal or '']}")


def amounts(quantities: Mapping[str, Any] | None) -> Amounts:
    """Read a map of resource names to quantities."""
    return {name: amount(name, value) for name, value in (quantities or {}).items()}


def amount(resource: str, quantity: object) -> int:
    """Return one quantity as integer, rounded up."""
    return _whole(str(quantity), 1000 if resource == "cpu" else 1)


@lru_cache(maxsize=65536)
def _whole(text: str, units: int) -> int:
    value = parse_quantity(text) * units
    return -(-value.numerator // value.denominator)


def pod_requests(spec: Mapping[str, Any]) -> Amounts:
    """Return the resources that a pod uses on a node, as kube-scheduler counts them.

    The larger of all containers with sidecars together and each init container with the sidecars before it, then
    pod-level requests in place of the sum, then overhead.
    """
    total = _sum(_container_requests(container) for container in spec.get("containers") or ())
    sidecars: Amounts = {}
    init_peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        requests = _container_requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars = _sum((sidecars, requests))
            init_peak = _largest(init_peak, sidecars)
        else:
            init_peak = _largest(init_peak, _sum((sidecars, requests)))
    total = _largest(_sum((total, sidecars)), init_peak)
    total.update(_container_requests(spec))
    return _sum((total, amounts(spec.get("overhead"))))


def _container_requests(container: Mapping[str, Any]) -> Amounts:
    """Return requests, with limits in place of those that are missing, as the API server fills them in."""
    resources = container.get("resources") or {}
    return {**amounts(resources.get("limits")), **amounts(resources.get("requests"))}


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0) + value
    return total


def _largest(left: Amounts, right: Amounts) -> Amounts:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}
