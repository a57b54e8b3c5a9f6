"""The interface to a Kubernetes cluster.

Decides the interface and its errors; the simulated cluster and the client of a live one implement it. All methods are
thread-safe, and may run twice: each is idempotent. Times are Unix milliseconds, durations seconds.

The errors of `trimtab.common.kubernetes.errors` describe a request to an API server: its status, its reason, or that
there was no answer. Those of this module say what that means for one object: it is gone, it has changed, a budget
refuses for now, the cluster refuses for good. The tracker decides by these, and a simulated cluster, which has no
requests, raises them too. `trimtab.actuator.kube.api` makes them of the errors of requests.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from trimtab.common.kubernetes.names import HARD_TAINT_KEY, POD_COST_ANNOTATION
from trimtab.common.kubernetes.signals import cluster_autoscaler, ours, well_known

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"

# Source: Kubernetes enhancement proposal 1888, phase 1: a higher one is removed sooner.
POD_RANK_ANNOTATION = well_known.POD_RANK.key
# When the cost was decided (RFC 3339). A pod that has a cost but not this annotation got its cost from another client.
POD_COST_TIME_ANNOTATION = ours.POD_COST_TIME.key
# "true" on one pod of a group whose costs are being changed; removed with the last change. A group that still has it
# has a mixture of old and new costs.
POD_COST_UNFINISHED_ANNOTATION = ours.POD_COST_UNFINISHED.key
# Source: Cluster Autoscaler, utils/daemonset: `EnableDsEvictionKey`; "true" or "false", any other value is ignored.
DAEMON_EVICTION_ANNOTATION = cluster_autoscaler.DS_EVICTION.key


# Source: Kubernetes, "Well-Known Labels, Annotations and Taints"; old nodes have the second one.
INSTANCE_TYPE_LABELS = (well_known.INSTANCE_TYPE.key, well_known.OLD_INSTANCE_TYPE.key)
DELAY_DELETION_PREFIX = cluster_autoscaler.DELAY_DELETION.key


class TaintView(NamedTuple):
    """A node's taint. `key`, `value` : "" = no value; `effect` : as Kubernetes names it, such as "NoSchedule"."""

    key: str
    value: str
    effect: str


def hard_taint(now_ms: int) -> TaintView:
    """Return the taint of a node being deleted."""
    return TaintView(HARD_TAINT_KEY, str(now_ms // 1000), NO_SCHEDULE)


class NodeQuantities(NamedTuple):
    """Amounts of a node as its status gives them, `cpu` in cores as "3920m"; "" = not given. `others` : disk, huge
    pages and devices as (name, amount), sorted by name. `memory` : as "16Gi"; `pods` : a count.
    """

    cpu: str = ""
    memory: str = ""
    pods: str = ""
    others: tuple[tuple[str, str], ...] = ()


class NodeView(NamedTuple):
    """A node, as far as the actuator reads it. `name` : of its Node object."""

    name: str
    # Of its Node object: another one of the same name is another node.
    uid: str
    # Provider id of its machine; "" = none (yet).
    provider_id: str
    taints: tuple[TaintView, ...]
    # Whether it has GPUs: a metric counts such nodes separately.
    gpu: bool
    # Whether an annotation delays the deletion of its machine.
    deletion_delayed: bool = False
    # Condition Ready.
    ready: bool = True
    # When the Node object was created, Unix milliseconds; 0 = not known.
    created_ms: int = 0
    # Label of its instance type ("" = none), and its status.
    instance_type: str = ""
    capacity: NodeQuantities = NodeQuantities()
    allocatable: NodeQuantities = NodeQuantities()

    def taint(self, key: str) -> TaintView | None:
        """Return the taint with that key."""
        for taint in self.taints:
            if taint.key == key:
                return taint
        return None


def instance_type(labels: Mapping[str, str] | None) -> str:
    """Return `NodeView.instance_type` of a node's labels."""
    return next((labels[key] for key in INSTANCE_TYPE_LABELS if labels.get(key)), "") if labels else ""


def node_quantities(amounts: Mapping[str, Any] | None) -> NodeQuantities:
    """Return `NodeView.capacity` or `.allocatable` of a node's status."""
    given = amounts or {}
    others = tuple(sorted((name, str(text)) for name, text in given.items() if is_other_resource(name)))
    cpu, memory, pods = (str(given.get(name, "")) for name in ("cpu", "memory", "pods"))
    return NodeQuantities(cpu, memory, pods, others)


def is_other_resource(name: str) -> bool:
    """Return whether a resource is one of `NodeQuantities.others`: the disk, huge pages, and extended resources."""
    return name == "ephemeral-storage" or name.startswith("hugepages-") or is_extended(name)


def is_extended(name: str) -> bool:
    """Return whether a resource is an extended one, such as nvidia.com/gpu: a device that a plugin offers."""
    return "/" in name


def deletion_delayed(annotations: Mapping[str, str] | None) -> bool:
    """Return `NodeView.deletion_delayed` of a node's annotations."""
    return any(key.startswith(DELAY_DELETION_PREFIX) for key in annotations or ())


class PodView(NamedTuple):
    """A pod, as far as the actuator reads it. `namespace`, `name`, `uid` : its metadata's."""

    namespace: str
    name: str
    uid: str
    # The node that it is bound to; "" = none.
    node: str
    # `status.phase`, such as "Running", and `spec.priority`.
    phase: str
    priority: int
    # Controlling owner; "" = none.
    owner_kind: str
    owner_name: str
    owner_uid: str
    # The mirror of a static pod: goes with its kubelet.
    mirror: bool
    # `metadata.deletionTimestamp`, Unix milliseconds; 0 = not terminating. Includes the grace period.
    deletion_ms: int
    # `spec.terminationGracePeriodSeconds`, seconds.
    grace_s: int
    # Has the annotation to be treated like a DaemonSet pod.
    daemon: bool = False
    # Value of the annotation for the eviction of DaemonSet pods; None = the settings decide.
    daemon_eviction: bool | None = None

    @property
    def key(self) -> str:
        """Return "namespace/name"."""
        return f"{self.namespace}/{self.name}"


class CostWrite(NamedTuple):
    """A cost to write: the deletion cost, when it was decided (RFC 3339), and whether other costs of its group are
    still to be written. `made` : the time; `unfinished` : others are still to be written.
    """

    cost: int
    made: str
    unfinished: bool = False

    @property
    def rank(self) -> int:
        """Return the negated cost, which is an int32 too."""
        return min(-self.cost, (1 << 31) - 1)

    def annotations(self) -> dict[str, str]:
        """Return it as annotations."""
        texts = {
            POD_COST_ANNOTATION: str(self.cost),
            POD_RANK_ANNOTATION: str(self.rank),
            POD_COST_TIME_ANNOTATION: self.made,
        }
        return texts | ({POD_COST_UNFINISHED_ANNOTATION: "true"} if self.unfinished else {})


class PodCost(NamedTuple):
    """A pod with its deletion cost: the values of its annotations, None = it has none. `namespace`, `name`, `uid` : the
    pod's metadata; `rank`, `made` : as written with the cost, see `CostWrite`.
    """

    namespace: str
    name: str
    uid: str
    cost: str | None
    rank: str | None = None
    # Only of costs that we wrote.
    made: str | None = None
    # Controlling owner as "Kind/namespace/name"; "" = none.
    owner: str = ""
    # Whether the annotation for unwritten costs of its group is set.
    unfinished: bool = False

    @property
    def is_foreign(self) -> bool:
        """Return whether another client has set a cost."""
        return self.made is None and (self.cost is not None or self.rank is not None)

    @property
    def key(self) -> str:
        """Return "namespace/name"."""
        return f"{self.namespace}/{self.name}"


class GroupCost(NamedTuple):
    """The costs of a group as one PodGroupCost object. Its name is derived from the owner: `namespace`,
    `owner_kind`, `owner_name`.
    """

    namespace: str
    owner_kind: str
    owner_name: str
    # Pod to rank: a higher one is removed sooner.
    costs: Mapping[str, int]
    # Most pods removed at a time; 0 = the controller decides.
    max_removals: int
    # The group that is scaled down before this one, as "Kind/namespace/name"; "" = none.
    waits_for: str
    # When it was decided, RFC 3339.
    made: str

    @property
    def name(self) -> str:
        """Return the name of the object."""
        return f"{self.owner_kind.lower()}-{self.owner_name}"


class GroupCostStatus(NamedTuple):
    """The status of a PodGroupCost for one generation of its costs."""

    # Pods that exist, and those of them that have a cost.
    observed_pods: int
    ranked_pods: int
    complete: bool
    message: str
    made: str


class KnownGroupCost(NamedTuple):
    """A PodGroupCost that exists. status None = it has none for its current costs. `cost` : as it is in the cluster;
    `generation` : of the object, grows with each change of its spec.
    """

    cost: GroupCost
    generation: int
    status: GroupCostStatus | None


class KnownCapacityRequest(NamedTuple):
    """A ProvisioningRequest that exists. `namespace`, `name`, `uid`, `generation`, `resource_version` : its metadata's;
    `conditions` : as they are now, as JSON.
    """

    namespace: str
    name: str
    uid: str
    generation: int
    resource_version: str
    conditions: Sequence[Mapping[str, Any]]

    @property
    def key(self) -> str:
        """Return "namespace/name"."""
        return f"{self.namespace}/{self.name}"


class KnownBuffer(NamedTuple):
    """A CapacityBuffer that exists. `namespace`, `name` : its metadata's; `generation` : likewise, grows with each
    change of its spec.
    """

    namespace: str
    name: str
    generation: int
    # Its PodTemplate ("" = none named) and its strategy ("" = the default).
    template: str
    strategy: str
    # The status as it is now, as JSON.
    status: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Return "namespace/name"."""
        return f"{self.namespace}/{self.name}"


def conditions_in(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the conditions of a status that are objects."""
    conditions = status.get("conditions")
    return [one for one in conditions if isinstance(one, dict)] if isinstance(conditions, list) else []


def daemon_eviction(annotation: str | None) -> bool | None:
    """Return `PodView.daemon_eviction` of the annotation's value."""
    return {"true": True, "false": False}.get(annotation or "")


class ClusterError(Exception):
    """The call failed; a retry may succeed. Base class of what a `ClusterApi` raises about one object."""


class NoAnswerError(ClusterError):
    """There was no answer at all: it is not about the object of the call, others would get none either."""


class NotFoundError(ClusterError):
    """The object does not exist, or is another one of the same name."""


class NotServedError(ClusterError):
    """The server does not know the path, which proves nothing about an object: the kind is not installed, the server or
    a proxy before it is just starting.
    """


class ConflictError(ClusterError):
    """The object is not (or no longer) as the call assumed; it must be read again."""


class TooManyRequestsError(ClusterError):
    """A PodDisruptionBudget, or the server's load, forbids it for now.

    `retry_after_s` is the server's hint, None = it gave none.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class FieldConflictError(ConflictError):
    """Another client owns a field that an apply would change."""


class ForeignCostError(ConflictError):
    """Another client has set the cost of the pod."""


class RefusedError(ClusterError):
    """The cluster refuses permanently (no permission, no valid request)."""


class InvalidError(RefusedError):
    """The request is not valid for the present object (422)."""


class ForbiddenError(RefusedError):
    """A permission is missing; the text is the server's and names user, verb and resource."""


class NotLeaderError(Exception):
    """This process does not lead (any more); `leader` is the identity of the leader, as last read."""

    def __init__(self, leader: str = "") -> None:
        super().__init__(
            f"this actuator does not lead; {f'ask {leader}' if leader else 'there is no leader now; try again'}"
        )
        self.leader = leader


class ClusterApi(Protocol):
    """The Kubernetes API, reduced to what the actuator needs."""

    def get_node(self, name: str, from_cache: bool = False) -> NodeView:
        """Return one node. `from_cache` : as the server's cache has it, which costs less and may be older than the last
        write. Raises `NotFoundError`.
        """

    def list_nodes(self) -> Sequence[NodeView]:
        """Return all nodes, sorted by name."""

    def add_taint(self, node: str, taint: TaintView, uid: str = "") -> bool:
        """Add a taint by patch, with the node's resource version as precondition. False = its key was there.

        Raises `NotFoundError`, also where the node has another uid than the given one, and `ClusterError`.
        """

    def remove_taint(self, node: str, key: str, uncordon: bool = False, uid: str = "") -> bool:
        """Remove a taint, likewise. False = it was not there. Raises as `add_taint`.

        `uncordon` : also uncordon the node, whoever cordoned it, as the Cluster Autoscaler does with its own taint.
        """

    def list_pods(self, node: str, from_cache: bool = False) -> Sequence[PodView]:
        """Return the pods bound to a node, sorted by namespace and name; none when the node does not exist.

        `from_cache` as for `get_node`: the list may lack a new pod and contain one that has just gone.
        """

    def evict(self, pod: PodView, grace_s: int | None) -> None:
        """Request the eviction (policy/v1) of exactly this pod (by uid). `grace_s` None = the pod's own.

        Raises `NotFoundError` when it is gone, `TooManyRequestsError` when it is refused for now, `ClusterError`.
        """

    def delete_node(self, name: str, uid: str) -> None:
        """Delete exactly this Node object (by uid), whose instance is gone. No error if it does not exist."""

    def pod_costs(self, keys: Sequence[str]) -> Mapping[str, PodCost]:
        """Return those of the pods "namespace/name" that exist, by key. Raises `ClusterError`."""

    def own_pod_costs(self) -> Sequence[PodCost]:
        """Return all pods with a cost of ours, sorted by namespace and name. Raises `ClusterError`."""

    def write_pod_cost(self, pod: PodCost, cost: CostWrite | None) -> None:
        """Write the deletion cost of exactly this pod (by uid); None = remove ours.

        Raises `NotFoundError` when it is gone, `ForeignCostError` when another client has set one, `ClusterError`.
        """

    def group_costs(self) -> Sequence[KnownGroupCost]:
        """Return our PodGroupCost objects, sorted by namespace and name. Raises `NotServedError` where the cluster does
        not know the kind, `ClusterError`.
        """

    def write_group_cost(self, cost: GroupCost) -> int:
        """Write a PodGroupCost; returns its generation. Raises `ClusterError`."""

    def write_group_cost_status(self, cost: GroupCost, generation: int, status: GroupCostStatus) -> None:
        """Write the status of one generation of a PodGroupCost. Raises `ClusterError`."""

    def delete_group_cost(self, namespace: str, name: str) -> None:
        """Delete a PodGroupCost; no error if it does not exist. Raises `ClusterError`."""

    def buffers(self) -> Sequence[KnownBuffer]:
        """Return all CapacityBuffers, sorted by namespace and name. Raises `NotServedError` where the cluster does not
        know the kind, `ClusterError`.
        """

    def write_buffer_status(self, buffer: KnownBuffer, status: Mapping[str, Any]) -> None:
        """Write the status of a CapacityBuffer. Raises `NotFoundError` when it is gone, `ConflictError` when another
        client writes it, `ClusterError`.
        """

    def capacity_requests(self) -> Sequence[KnownCapacityRequest]:
        """Return all ProvisioningRequests, sorted by namespace and name. Raises `NotServedError` where the cluster does
        not know the kind, `ClusterError`.
        """

    def write_capacity_conditions(self, request: KnownCapacityRequest, conditions: Sequence[Mapping[str, Any]]) -> None:
        """Write all conditions of a ProvisioningRequest. Raises `NotFoundError` when it is gone, `ConflictError` when
        it was changed since it was read, `ClusterError`.
        """
