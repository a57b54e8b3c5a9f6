"""The interface of schedulers, and a small, deterministic one: chooses the node for a pending pod.

The small one filters by node selector, node affinity, taints, resources, pod count and host ports. Of the nodes that
fit it prefers one without an untolerated soft taint, then the fullest (bin packing, as autoscaled clusters configure
it), then the first by name. Ignores inter-pod affinity and topology spread.
Source: kube-scheduler's Filter plugins; scoring like NodeResourcesFit with strategy MostAllocated.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from trimtab.actuator.kube.cluster import NodeView
from trimtab.clients.simulation.cluster.disruption import BudgetIndex
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
        # Results of the static predicates by `SimulatedPod.static_key`: (fits, soft taints not tolerated).
        self._static: dict[bytes, tuple[bool, int]] = {}
        # The node as callers of the cluster see it, None = not read yet.
        self.view: NodeView | None = None

    def forget_static(self) -> None:
        """Call when the node's object has changed."""
        self._static.clear()
        self.view = None

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
        found = self._static.get(pod.static_key)
        if found is None:
            found = self._static[pod.static_key] = _static_fit(pod.spec, self.node)
        return found

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

    def fullness_permille(self, pod: SimulatedPod) -> int:
        """Return the mean of the used shares of cpu and memory with the pod on the node, in 1/1000."""
        shares = 0
        for name in ("cpu", "memory"):
            whole = self.allocatable.get(name, 0)
            if whole > 0:
                shares += (self.used.get(name, 0) + pod.requests.get(name, 0)) * 1000 // whole
        return shares // 2


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


class PodScheduler(Protocol):
    """Chooses nodes. It is notified of every change of nodes and of their pods, so that it can keep sums."""

    def node_changed(self, info: NodeInfo) -> None:
        """Note a new node, or one whose labels, taints or cordon have changed."""

    def node_gone(self, info: NodeInfo) -> None:
        """Note that a node is gone; its pods were removed before."""

    def pod_added(self, info: NodeInfo, pod: SimulatedPod) -> None:
        """Note that a pod is on a node now."""

    def pod_removed(self, info: NodeInfo, pod: SimulatedPod) -> None:
        """Note that a pod has left a node."""

    def follow_volumes(self, volumes: "VolumeFilter") -> None:
        """Ask from now on which nodes can have a pod's volumes."""

    def choose(self, pod: SimulatedPod) -> NodeInfo | None:
        """Return the node for a pod, None = it fits nowhere."""

    def preempt(self, pod: SimulatedPod, budgets: BudgetIndex) -> Preemption | None:
        """Return where a pod that fits nowhere gets a place, and which pods have to go; None = nowhere."""

    def nominate(self, pod: SimulatedPod, node: str) -> list[SimulatedPod]:
        """Keep room on a node for a pending pod; return the pending pods that lose their room there."""

    def withdraw(self, pod: SimulatedPod) -> None:
        """Keep no room for a pod any more."""


class PackingScheduler:
    """The small scheduler. Cost of a choice: O(nodes)."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeInfo] = {}

    def node_changed(self, info: NodeInfo) -> None:
        """Note a new or changed node."""
        self._nodes[info.name] = info

    def node_gone(self, info: NodeInfo) -> None:
        """Note that a node is gone."""
        self._nodes.pop(info.name, None)

    def pod_added(self, info: NodeInfo, pod: SimulatedPod) -> None:
        """Do nothing: nodes know their sums."""

    def pod_removed(self, info: NodeInfo, pod: SimulatedPod) -> None:
        """Do nothing: nodes know their sums."""

    def follow_volumes(self, volumes: VolumeFilter) -> None:
        """Do nothing: this scheduler ignores volumes."""

    def preempt(self, pod: SimulatedPod, budgets: BudgetIndex) -> Preemption | None:
        """Return None: this scheduler does not preempt."""

    def nominate(self, pod: SimulatedPod, node: str) -> list[SimulatedPod]:
        """Return none: this scheduler keeps no room."""
        del pod, node
        return []

    def withdraw(self, pod: SimulatedPod) -> None:
        """Do nothing: this scheduler keeps no room."""

    def choose(self, pod: SimulatedPod) -> NodeInfo | None:
        """Return the node for a pod, None = it fits nowhere."""
        best: tuple[int, int, str] | None = None
        chosen = None
        for info in self._nodes.values():
            fits, untolerated = info.static_fit(pod)
            if not fits or not info.fits(pod):
                continue
            rank = (untolerated, -info.fullness_permille(pod), info.name)
            if best is None or rank < best:
                best, chosen = rank, info
        return chosen


def _static_fit(spec: Mapping[str, Any], node: Object) -> tuple[bool, int]:
    name = node["metadata"]["name"]
    if not selects_node(spec, name, labels_of(node)):
        return False, 0
    node_spec = node.get("spec") or {}
    taints = list(node_spec.get("taints") or ())
    if node_spec.get("unschedulable"):
        taints.append(CORDON_TAINT)
    tolerations = spec.get("tolerations") or ()
    untolerated = [taint for taint in taints if not tolerates(tolerations, taint)]
    hard = [taint for taint in untolerated if taint.get("effect") != "PreferNoSchedule"]
    return not hard, len(untolerated)


def _conflict(left: frozenset[tuple[str, str, int]], right: frozenset[tuple[str, str, int]]) -> bool:
    """Return whether two pods want the same host port on the same address."""
    return any(
        protocol == other_protocol and port == other_port and (ip == other_ip or "0.0.0.0" in (ip, other_ip))
        for ip, protocol, port in left
        for other_ip, other_protocol, other_port in right
    )
