"""Prices that the Cluster Autoscaler requests. Decides the price of a pod: the price of the share of a node that it
takes, in the group where this is cheapest. The share is the largest over its resources. Prices are per hour, in any one
currency.
"""

from collections.abc import Iterable, Mapping

from trimtab.actuator.cloud.provider import CloudNodeTemplate
from trimtab.common.kubernetes.pod_requests import requests_of_mapping
from trimtab.common.kubernetes.quantities import counted_amount
from trimtab.k8s.v1 import core_pb2


def pod_price(pod: core_pb2.Pod, groups: Iterable[tuple[CloudNodeTemplate, float]]) -> float | None:
    """Return the least price; None = no node has room for it. Raises ValueError if an amount cannot be read."""
    requests = requests_of_mapping(_spec(pod))
    prices = [price * share for template, price in groups if (share := _share(requests, template.allocatable)) <= 1]
    return min(prices, default=None)


def _share(requests: Mapping[str, int], allocatable: Mapping[str, str]) -> float:
    """Return the share of a node that the requests take; more than 1 = they do not fit."""
    share = 0.0
    for resource, wanted in requests.items():
        given = counted_amount(resource, allocatable.get(resource, "0"))
        if wanted > given:
            return 2.0
        share = max(share, wanted / given if given else 0.0)
    return share


def _spec(pod: core_pb2.Pod) -> dict[str, object]:
    """Return the parts of a pod's spec that determine its requests, as an object."""
    spec = pod.spec
    found: dict[str, object] = {
        "containers": [_container(container) for container in spec.containers],
        "initContainers": [_container(container) for container in spec.init_containers],
        "overhead": {entry.key: entry.value.string for entry in spec.overhead},
    }
    if spec.HasField("resources"):
        found["resources"] = _resources(spec.resources)
    return found


def _container(container: core_pb2.Container) -> dict[str, object]:
    return {"resources": _resources(container.resources), "restartPolicy": container.restart_policy}


def _resources(resources: core_pb2.ResourceRequirements) -> dict[str, dict[str, str]]:
    return {
        "requests": {entry.key: entry.value.string for entry in resources.requests},
        "limits": {entry.key: entry.value.string for entry in resources.limits},
    }
