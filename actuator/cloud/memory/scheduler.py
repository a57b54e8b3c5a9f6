"""Where a pending pod goes: a small, deterministic scheduler.

Decides by node selector, node affinity, taints, resources, pod count and host ports; of the nodes that fit, one
without soft taint that the pod minds, then the fullest (bin packing, as autoscaled clusters set it up), then the first
by name. Knows neither inter-pod affinity nor topology spread.
Source: kube-scheduler's Filter plugins; scoring like NodeResourcesFit with strategy MostAllocated.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from actuator.cloud.memory.objects import Object, labels_of
from actuator.cloud.memory.pods import Pod
from actuator.cloud.memory.quantities import Amounts, amounts
from actuator.cloud.memory.selectors import matches_node, tolerates

CORDON_TAINT = {"key": "node.kubernetes.io/unschedulable", "value": "", "effect": "NoSchedule"}
NO_POD_LIMIT = 1 << 30


class Room:
    """A node with what its pods take of it."""

    def __init__(self, node: Object) -> None:
        self.node = node
        self.name: str = node["metadata"]["name"]
        status = node.get("status") or {}
        self.allocatable: Amounts = amounts(status.get("allocatable") or status.get("capacity"))
        self.pod_limit = self.allocatable.pop("pods", NO_POD_LIMIT)
        self.used: Amounts = {}
        self.pods: dict[tuple[str, str], Pod] = {}
        self._live_count = 0
        # Answers of the static predicates by `Pod.static_key`: (fits, soft taints minded).
        self._static: dict[bytes, tuple[bool, int]] = {}

    def forget_static(self) -> None:
        """Call when the node's labels, taints or cordon have changed."""
        self._static.clear()

    def add(self, pod: Pod) -> None:
        """Count a pod in."""
        self.pods[pod.key] = pod
        if not pod.terminal:
            self._live_count += 1
            for name, value in pod.requests.items():
                self.used[name] = self.used.get(name, 0) + value

    def remove(self, pod: Pod) -> None:
        """Count a pod out."""
        if self.pods.pop(pod.key, None) is not None and not pod.terminal:
            self._live_count -= 1
            for name, value in pod.requests.items():
                self.used[name] -= value

    def static_fit(self, pod: Pod) -> tuple[bool, int]:
        """Whether labels and taints let the pod in, and how many soft taints it minds."""
        found = self._static.get(pod.static_key)
        if found is None:
            found = self._static[pod.static_key] = _static_fit(pod.spec, self.node)
        return found

    def fits(self, pod: Pod) -> bool:
        """Whether there is room now."""
        if self._live_count >= self.pod_limit:
            return False
        if any(value > self.free(name) for name, value in pod.requests.items() if value > 0):
            return False
        return not pod.ports or not any(_conflict(pod.ports, other.ports) for other in self.pods.values())

    def free(self, name: str) -> int:
        """What is left of a resource."""
        return self.allocatable.get(name, 0) - self.used.get(name, 0)

    def fullness_permille(self, pod: Pod) -> int:
        """Mean of the used shares of cpu and memory with the pod on it, in 1/1000."""
        shares = 0
        for name in ("cpu", "memory"):
            whole = self.allocatable.get(name, 0)
            if whole > 0:
                shares += (self.used.get(name, 0) + pod.requests.get(name, 0)) * 1000 // whole
        return shares // 2


def choose(pod: Pod, rooms: Iterable[Room]) -> Room | None:
    """The node for a pod, None = it fits nowhere. Cost O(nodes)."""
    best: tuple[int, int, str] | None = None
    chosen = None
    for room in rooms:
        fits, minded = room.static_fit(pod)
        if not fits or not room.fits(pod):
            continue
        rank = (minded, -room.fullness_permille(pod), room.name)
        if best is None or rank < best:
            best, chosen = rank, room
    return chosen


def _static_fit(spec: Mapping[str, Any], node: Object) -> tuple[bool, int]:
    name = node["metadata"]["name"]
    if not matches_node(spec, name, labels_of(node)):
        return False, 0
    node_spec = node.get("spec") or {}
    taints = list(node_spec.get("taints") or ())
    if node_spec.get("unschedulable"):
        taints.append(CORDON_TAINT)
    tolerations = spec.get("tolerations") or ()
    minded = [taint for taint in taints if not tolerates(tolerations, taint)]
    hard = [taint for taint in minded if taint.get("effect") != "PreferNoSchedule"]
    return not hard, len(minded)


def _conflict(left: frozenset[tuple[str, str, int]], right: frozenset[tuple[str, str, int]]) -> bool:
    """Whether two pods want the same host port on the same address."""
    return any(
        protocol == other_protocol and port == other_port and (ip == other_ip or "0.0.0.0" in (ip, other_ip))
        for ip, protocol, port in left
        for other_ip, other_protocol, other_port in right
    )
