"""A pod of the simulated cluster: the raw object, and values that are often read from it.

Decides when a pod counts as active, ready and evictable. Times are Unix milliseconds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from trimtab.actuator.kube.cluster import DAEMON_EVICTION_ANNOTATION, PodView, daemon_eviction
from trimtab.clients.simulation.cluster.objects import condition, controller_of, labels_of
from trimtab.common.kubernetes.names import DAEMON_ANNOTATION, MIRROR_ANNOTATION
from trimtab.common.kubernetes.object_files import Object
from trimtab.common.kubernetes.pod_requests import requests_of_mapping

PodKey = tuple[str, str]
MOST_SHAPES = 10_000
"""Most distinct specs whose requests are remembered."""

# Kinds whose controller replaces an evicted pod.
RECREATED_KINDS = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "Job"})


@dataclass
class SimulatedPod:
    """A pod. `ready_due_ms` and `gone_due_ms` are when it becomes ready and ends; 0 = it does not by itself. `item` :
    the object; `requests` : amounts by resource, cpu in milli-cores; `ports` : (host IP, protocol, port); `owner` : its
    controller's reference, empty = none.
    """

    item: Object
    ready_due_ms: int = 0
    gone_due_ms: int = 0
    requests: dict[str, int] = field(init=False)
    ports: frozenset[tuple[str, str, int]] = field(init=False)
    owner: Mapping[str, Any] = field(init=False)
    # Names of the claims that it mounts.
    claims: tuple[str, ...] = field(init=False)
    # Pods with the same key are alike to the static predicates.
    static_key: bytes = field(init=False)
    # Pods with the same key are alike to a scheduler except for namespace, labels and owner.
    shape_key: bytes = field(init=False)
    # The last status read, whether the pod is ready according to it, and since when; 0 = it is not, or does not say.
    _read_status: Object | None = field(init=False, default=None, repr=False)
    _is_ready: bool = field(init=False, default=False, repr=False)
    _ready_since_ms: int = field(init=False, default=0, repr=False)

    def __post_init__(self) -> None:
        self.shape_key = _encode(tuple(map(self.spec.get, _SHAPE_FIELDS)))
        shape = _SHAPES.get(self.shape_key)
        if shape is None:
            if len(_SHAPES) >= MOST_SHAPES:
                _SHAPES.clear()
            shape = _SHAPES[self.shape_key] = _shape(self.spec)
        self.requests, self.ports, self.static_key = shape
        self.owner = controller_of(self.item)
        volumes = self.spec.get("volumes")
        self.claims = _claims(volumes, self.key[1]) if volumes else ()

    @property
    def spec(self) -> Object:
        """Return the object's spec."""
        spec: Object = self.item.setdefault("spec", {})
        return spec

    @property
    def key(self) -> PodKey:
        """Return namespace and name."""
        return self.item["metadata"].get("namespace") or "default", self.item["metadata"]["name"]

    @property
    def uid(self) -> str:
        """Return the uid; "namespace/name" for an object without one."""
        return str(self.item["metadata"].get("uid") or "/".join(self.key))

    @property
    def node(self) -> str:
        """Return the node that it is bound to, "" = none."""
        return self.spec.get("nodeName") or ""

    @property
    def nominated_node(self) -> str:
        """Return the node on which it has preempted other pods, "" = none."""
        return (self.item.get("status") or {}).get("nominatedNodeName") or ""

    @property
    def phase(self) -> str:
        """Return the phase."""
        return (self.item.get("status") or {}).get("phase") or "Pending"

    @property
    def terminating(self) -> bool:
        """Return whether the pod is terminating."""
        return bool(self.item["metadata"].get("deletionTimestamp"))

    @property
    def terminal(self) -> bool:
        """Return whether the pod has succeeded or failed; it uses no resources."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def active(self) -> bool:
        """Return whether the pod counts as a replica of its owner: neither terminating nor terminal."""
        if self.item["metadata"].get("deletionTimestamp"):
            return False
        return (self.item.get("status") or {}).get("phase") not in ("Succeeded", "Failed")

    @property
    def ready(self) -> bool:
        """Return whether the Ready condition is true."""
        self._read()
        return self._is_ready

    @property
    def ready_since_ms(self) -> int:
        """Return since when the Ready condition has been true; 0 = it is not, or does not say."""
        self._read()
        return self._ready_since_ms

    def _read(self) -> None:
        status = self.item.get("status")
        if status is self._read_status:
            return
        # A status is replaced as a whole, never changed.
        self._read_status, self._is_ready = status, condition(self.item, "Ready")
        conditions = (status or {}).get("conditions") or ()
        of_ready = (one.get("lastTransitionTime") for one in conditions if one.get("type") == "Ready")
        self._ready_since_ms = parse_time_ms(next(of_ready, None)) if self._is_ready else 0

    @property
    def owner_uid(self) -> str:
        """Return the uid of the controlling owner, "" = none."""
        return str(self.owner.get("uid") or "")

    @property
    def mirror(self) -> bool:
        """Return whether the pod is the mirror of a static pod."""
        return MIRROR_ANNOTATION in self.annotations or self.owner.get("kind") == "Node"

    @property
    def daemon(self) -> bool:
        """Return whether the pod belongs to a DaemonSet, or is annotated to be treated so."""
        return self.owner.get("kind") == "DaemonSet" or self.annotations.get(DAEMON_ANNOTATION) == "true"

    @property
    def annotations(self) -> Mapping[str, str]:
        """Return the object's annotations."""
        return self.item["metadata"].get("annotations") or {}

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the object's labels."""
        return labels_of(self.item)

    @property
    def grace_s(self) -> int:
        """Return the termination grace period, seconds."""
        grace = self.spec.get("terminationGracePeriodSeconds")
        return 30 if grace is None else int(grace)

    @property
    def stays_with_node(self) -> bool:
        """Return whether the pod is a DaemonSet or mirror pod, which is not moved."""
        return self.mirror or self.daemon

    def view(self) -> PodView:
        """Return the pod as the actuator sees it."""
        namespace, name = self.key
        return PodView(
            namespace=namespace,
            name=name,
            uid=self.uid,
            node=self.node,
            phase=self.phase,
            priority=int(self.spec.get("priority") or 0),
            owner_kind=str(self.owner.get("kind") or ""),
            owner_name=str(self.owner.get("name") or ""),
            owner_uid=self.owner_uid,
            mirror=self.mirror,
            daemon=self.daemon,
            deletion_ms=parse_time_ms(self.item["metadata"].get("deletionTimestamp")),
            grace_s=self.grace_s,
            daemon_eviction=daemon_eviction(self.annotations.get(DAEMON_EVICTION_ANNOTATION)),
        )


SYSTEM_PRIORITIES: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
"""Priorities of the classes that every cluster has."""


def priority_of(pod: SimulatedPod) -> int:
    """Return a pod's priority; 0 for a class that admission has not resolved."""
    priority = pod.spec.get("priority")
    if priority is None:
        return SYSTEM_PRIORITIES.get(str(pod.spec.get("priorityClassName") or ""), 0)
    return int(priority)


_SHAPE_FIELDS = (
    *("containers", "initContainers", "overhead", "resources", "nodeSelector", "affinity", "tolerations"),
    "topologySpreadConstraints",
)
_SHAPES: dict[bytes, tuple[dict[str, int], frozenset[tuple[str, str, int]], bytes]] = {}
_encode = msgspec.json.Encoder().encode


def _shape(spec: Object) -> tuple[dict[str, int], frozenset[tuple[str, str, int]], bytes]:
    """Return the values that depend only on a spec: requests, host ports and the key of the static predicates."""
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    static_key = _encode((spec.get("nodeSelector"), node_affinity, spec.get("tolerations")))
    return requests_of_mapping(spec), _host_ports(spec), static_key


def _claims(volumes: Iterable[Mapping[str, Any]], pod: str) -> tuple[str, ...]:
    """Return the names of the claims that a pod of that name mounts, those made for it alone too."""
    return tuple(
        volume["persistentVolumeClaim"]["claimName"] if "persistentVolumeClaim" in volume else f"{pod}-{volume['name']}"
        for volume in volumes
        if volume.get("persistentVolumeClaim") or volume.get("ephemeral")
    )


def format_time(time_ms: int) -> str:
    """Return a time as Kubernetes writes it, in whole seconds."""
    return _format_seconds(time_ms // 1000)


@lru_cache(maxsize=4096)
def _format_seconds(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@lru_cache(maxsize=4096)
def parse_time_ms(text: object) -> int:
    """Parse a time in Kubernetes' form; 0 = absent."""
    if not text:
        return 0
    moment = text if isinstance(text, datetime) else datetime.fromisoformat(str(text))
    return int(moment.timestamp() * 1000)


def _host_ports(spec: Mapping[str, Any]) -> frozenset[tuple[str, str, int]]:
    """Return host address, protocol and port of each host port."""
    return frozenset(
        (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", int(port["hostPort"]))
        for container in spec.get("containers") or ()
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )
