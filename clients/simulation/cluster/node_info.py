"""A node with its pods, and whether it has room for another one: resources, pod count, host ports, labels and taints.

Source: kube-scheduler's Filter plugins.
"""

from typing import Any, NamedTuple, Protocol

from trimtab.actuator.kube.cluster import NodeView
from trimtab.clients.simulation.cluster.objects import labels_of
from trimtab.clients.simulation.cluster.pods import SimulatedPod
from trimtab.common.kubernetes.object_files import Object
from trimtab.common.kubernetes.quantities import counted_amounts
from trimtab.common.kubernetes.selectors import selects_node, tolerates
from trimtab.common.kubernetes.signals import well_known

CORDON_TAINT = {"key": well_known.UNSCHEDULABLE.key, "value": "", "effect": "NoSchedule"}
NO_POD_LIMIT = 1 << 30


class NodeInfo:
    """A node with the resources that its pods use."""

    def __init__(self, node: Object) -> None:
        self.node = node
        self.name: str = node["metadata"]["name"]
        status = node.get("status") or {}
        self.allocatable: dict[str, int] = counted_amounts(status.get("allocatable") or status.get("capacity"))
        self.pod_limit = self.allocatable.pop("pods", NO_POD_LIMIT)
        self.used: dict[str, int] = {}
        self.pods: dict[tuple[str, str], SimulatedPod] = {}
        self._live_count = 0
        # The node as callers of the cluster see it, None = not read yet.
        self.view: NodeView | None = None

    def add(self, pod: SimulatedPod) -> None:
        """Add a pod's resources."""
        self.pods[pod.key] = pod
        if not pod.terminal:
            self._live_count += 1
            for name, value in pod.requests.items():
                self.used[name] = self.used.get(name, 0) + value

    def remove(self, pod: SimulatedPod) -> None:
        """Subtract a pod's resources."""
        if self.pods.pop(pod.key, None) is not None and not pod.terminal:
            self._live_count -= 1
            for name, value in pod.requests.items():
                self.used[name] -= value

    def static_fit(self, pod: SimulatedPod) -> tuple[bool, int]:
        """Return whether labels and taints allow the pod, and the number of soft taints not tolerated."""
        spec, node = pod.spec, self.node
        if not selects_node(spec, self.name, labels_of(node)):
            return False, 0
        node_spec = node.get("spec") or {}
        taints = list(node_spec.get("taints") or ())
        if node_spec.get("unschedulable"):
            taints.append(CORDON_TAINT)
        tolerations = spec.get("tolerations") or ()
        untolerated = [taint for taint in taints if not tolerates(tolerations, taint)]
        hard = [taint for taint in untolerated if taint.get("effect") != "PreferNoSchedule"]
        return not hard, len(untolerated)

    def fits(self, pod: SimulatedPod) -> bool:
        """Return whether the node has enough free resources now."""
        if self._live_count >= self.pod_limit:
            return False
        if any(value > self.free(name) for name, value in pod.requests.items() if value > 0):
            return False
        return not pod.ports or not any(_conflict(pod.ports, other.ports) for other in self.pods.values())

    def free(self, name: str) -> int:
        """Return the free amount of a resource."""
        return self.allocatable.get(name, 0) - self.used.get(name, 0)


class VolumeFilter(Protocol):
    """Says which nodes can have the volumes of a pod: `trimtab.clients.simulation.cluster.volumes.PodVolumes`."""

    def needs(self, pod: SimulatedPod) -> Any:
        """Return what a pod's volumes need, None = nothing."""

    def allow(self, needs: Any, info: NodeInfo) -> bool:
        """Return whether a node can have them."""


class Preemption(NamedTuple):
    """A node on which a pending pod will fit once other pods are gone. victims : these pods."""

    node: NodeInfo
    victims: tuple[SimulatedPod, ...]


def _conflict(left: frozenset[tuple[str, str, int]], right: frozenset[tuple[str, str, int]]) -> bool:
    """Return whether two pods want the same host port on the same address."""
    return any(
        protocol == other_protocol and port == other_port and (ip == other_ip or "0.0.0.0" in (ip, other_ip))
        for ip, protocol, port in left
        for other_ip, other_protocol, other_port in right
    )
