"""What the actuator needs of a Kubernetes cluster.

Decides the interface and its errors; the in-memory cluster and the client of a real one implement it. All methods may
be called by several threads at a time, and may run twice: each is idempotent. Times are Unix milliseconds,
durations seconds.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

# Source: Cluster Autoscaler, utils/taints: key, effect, and the value is the time in Unix seconds.
HARD_TAINT_KEY = "ToBeDeletedByClusterAutoscaler"
SOFT_TAINT_KEY = "DeletionCandidateOfClusterAutoscaler"
NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
# Source: Cluster Autoscaler, utils/pod: `IsDaemonSetPod`.
DAEMON_ANNOTATION = "cluster-autoscaler.kubernetes.io/daemonset-pod"
# Source: Kubernetes, core/v1 annotation_key_constants: `PodDeletionCost`; a pod without has the cost 0.
POD_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
# Source: Cluster Autoscaler, utils/daemonset: `EnableDsEvictionKey`; "true" or "false", anything else is no say.
DAEMON_EVICTION_ANNOTATION = "cluster-autoscaler.kubernetes.io/enable-ds-eviction"


class Taint(NamedTuple):
    """A node's taint."""

    key: str
    value: str
    effect: str


def hard_taint(now_ms: int) -> Taint:
    """The taint of a node that is to go."""
    return Taint(HARD_TAINT_KEY, str(now_ms // 1000), NO_SCHEDULE)


class NodeView(NamedTuple):
    """A node, as far as the actuator looks at it."""

    name: str
    provider_id: str
    taints: tuple[Taint, ...]
    # Whether it has GPUs, for the metric that counts those apart.
    gpu: bool

    def taint(self, key: str) -> Taint | None:
        """The taint with that key."""
        return next((taint for taint in self.taints if taint.key == key), None)


class PodView(NamedTuple):
    """A pod, as far as the actuator looks at it."""

    namespace: str
    name: str
    uid: str
    node: str
    phase: str
    priority: int
    # Controlling owner; "" = none.
    owner_kind: str
    owner_name: str
    owner_uid: str
    # The mirror of a static pod: goes with its kubelet.
    mirror: bool
    # `metadata.deletionTimestamp`; 0 = not terminating. With grace period, in the past from then on.
    deletion_ms: int
    # `spec.terminationGracePeriodSeconds`.
    grace_s: int
    # Annotated to be treated like a DaemonSet's.
    daemon: bool = False
    # What its annotation says about eviction, if it is a DaemonSet's; None = as the settings say.
    daemon_eviction: bool | None = None

    @property
    def key(self) -> str:
        """ "namespace/name"."""
        return f"{self.namespace}/{self.name}"


class PodCost(NamedTuple):
    """A pod with its deletion cost. `cost` is what its annotation says, None = it has none."""

    namespace: str
    name: str
    uid: str
    cost: str | None

    @property
    def key(self) -> str:
        """ "namespace/name"."""
        return f"{self.namespace}/{self.name}"


def daemon_eviction(annotations: Mapping[str, str] | None) -> bool | None:
    """`PodView.daemon_eviction` of a pod's annotations."""
    return {"true": True, "false": False}.get((annotations or {}).get(DAEMON_EVICTION_ANNOTATION, ""))


class ClusterError(Exception):
    """The cluster did not do what it was asked; asking again may help."""


class NotFoundError(ClusterError):
    """The object does not exist, or is another one of the same name."""


class ConflictError(ClusterError):
    """The object is not (or no longer) what the call assumed; look again."""


class TooManyRequestsError(ClusterError):
    """A PodDisruptionBudget, or the server's load, forbids it for now.

    `retry_after_s` is the server's hint, None = it gave none.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class RefusedError(ClusterError):
    """The cluster will not do it, however often it is asked (no permission, no valid request)."""


class InvalidError(RefusedError):
    """The request cannot be carried out on the object as it is (422)."""


class ForbiddenError(RefusedError):
    """A permission is missing; the text is the server's and names user, verb and resource."""


class Cluster(Protocol):
    """Kubernetes' API, reduced."""

    def get_node(self, name: str, recent: bool = False) -> NodeView:
        """One node. `recent` = as it was lately is enough, which costs the server less. Raises `NotFoundError`."""

    def list_nodes(self) -> Sequence[NodeView]:
        """All nodes, sorted by name."""

    def add_taint(self, node: str, taint: Taint) -> bool:
        """Add a taint by patch, with the node's resource version as precondition. False = its key was there already.

        Raises `NotFoundError`, `ClusterError`.
        """

    def remove_taint(self, node: str, key: str) -> bool:
        """Take a taint away, likewise. False = it was not there. Raises `NotFoundError`, `ClusterError`."""

    def list_pods(self, node: str, recent: bool = False) -> Sequence[PodView]:
        """The pods bound to a node, sorted by namespace and name; none when the node does not exist.

        `recent` as for `get_node`: a pod may be missing that has just come, and one be there that has just gone.
        """

    def evict(self, pod: PodView, grace_s: int | None) -> None:
        """Ask for the eviction (policy/v1) of exactly this pod (by uid). `grace_s` None = the pod's own.

        Raises `NotFoundError` when it is gone, `TooManyRequestsError` when not now, `ClusterError`.
        """

    def delete_node(self, name: str) -> None:
        """Delete a node object whose instance is gone. No error when there is none."""

    def pod_costs(self, keys: Sequence[str]) -> Mapping[str, PodCost]:
        """Those of the pods "namespace/name" that exist, by key. Raises `ClusterError`."""

    def write_pod_cost(self, pod: PodCost, cost: str | None) -> None:
        """Write the deletion cost of exactly this pod (by uid); None = take it away.

        Raises `NotFoundError` when it is gone, `ClusterError`.
        """
