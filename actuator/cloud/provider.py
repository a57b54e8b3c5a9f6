"""The interface of cloud providers, and what is assumed of a cloud.

Decides the interface, its values and its errors. Only what every cloud provides is assumed:

- *Ids of machines.* An instance is its provider id (`spec.providerID` of its Node). Names are reused. So are the ids of
  machines that are not made for an instance, such as bare metal: one that was GONE and is listed again is a new one.
- *Asynchronous.* A call answers when the cloud has accepted it. Instances start and end later, slowly, or never; an
  instance is listed before its Node registers.
- *Eventually consistent.* A read may be older than an earlier write. A read never justifies doing something twice: a
  repeated call names what it expects (a size, a token, an id).
- *A failed call may have taken effect.* `CloudError` says nothing about what was done, except `CloudRefusedError`:
  nothing was. Each method may therefore run twice, and the second time changes nothing more.
- *Target sizes.* The deletion of an instance lowers the target size in the same step, otherwise the cloud would replace
  it. Sizes are in nodes and include instances that are starting, not those that are being deleted.
- *Others act too.* Sizes and instances change without us.

All methods are thread-safe. They raise `CloudError`, also where that is not repeated. Times are Unix milliseconds.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from trimtab.actuator.kube.cluster import TaintView
from trimtab.common.kubernetes.signals import clouds

# Label of the GPU's type, as NVIDIA's feature discovery writes it; for clouds that have none of their own.
GPU_LABEL = clouds.NVIDIA_PRODUCT.key


class CloudError(Exception):
    """The call failed, or its answer was lost; a repetition may succeed."""


class CloudFailedError(CloudError):
    """The cloud has answered a change with an error that is no refusal, and none of the change is seen. It was reached,
    so the call is not repeated.
    """


class CloudRefusedError(CloudError):
    """The cloud refuses permanently, and has changed nothing."""


class SizeChangedError(CloudRefusedError):
    """The group does not have the size that the request expects."""


class NodeGroupView(NamedTuple):
    """A node group. `id` : its name in the cloud; sizes in nodes: `min_size` and `max_size` : the bounds that the cloud
    sets; `target_size` : requested; `instance_count` : existing instances.
    """

    id: str
    min_size: int
    max_size: int
    target_size: int
    instance_count: int


class InstanceState(Enum):
    """State of an instance."""

    # Accepted by the cloud, not started yet.
    CREATING = "creating"
    RUNNING = "running"
    DELETING = "deleting"
    # The cloud had the instance, and its machine has ended.
    GONE = "gone"
    # The cloud does not know the instance, or no longer: its machine may run. No action may follow from this state.
    UNKNOWN = "unknown"


class InstanceError(NamedTuple):
    """Why an instance does not start. `code`, `message` : the cloud's; `out_of_resources` : it has no capacity or
    quota.
    """

    code: str
    message: str
    out_of_resources: bool = False


class Instance(NamedTuple):
    """An instance of a group; `id` : its provider id; `state` : as the cloud reports it; `error` : only while it is
    CREATING.
    """

    id: str
    state: InstanceState
    error: InstanceError | None = None


class Reservation(Enum):
    """The published rule by which a cloud's nodes reserve cpu and memory, used until nodes have shown it."""

    # The provider's amounts stand.
    NONE = "none"
    # Only the kubelet's default eviction threshold.
    KUBELET = "kubelet"
    EKS = "eks"


class MachineType(NamedTuple):
    """A machine as the cloud describes it: its node has somewhat less. `name` : its instance type, "" = not known;
    `cpu_milli`, `memory_bytes` : of the machine; `pods` : most pods of a node, 0 = not known; `reservation` : how much
    of that its node keeps for itself.
    """

    name: str
    cpu_milli: int
    memory_bytes: int
    pods: int = 0
    reservation: Reservation = Reservation.NONE


class CloudNodeTemplate(NamedTuple):
    """A new node of a group. `capacity`, `allocatable` : Kubernetes quantities by resource name, such as
    {"memory": "16Gi"}; `labels`, `taints`, `annotations` : those that it has once it is ready.

    machines : what the node may run on, where the amounts are those of the machines and not of nodes: what real nodes
    have is then taken in their place (`trimtab.actuator.node_types`), but for the resources that are `declared` for
    nodes.
    """

    labels: Mapping[str, str]
    taints: Sequence[TaintView]
    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]
    annotations: Mapping[str, str] = {}
    machines: Sequence[MachineType] = ()
    declared: frozenset[str] = frozenset()


class GroupOptions(NamedTuple):
    """Settings of one group, in place of those for all; None = not set. Source: CA, NodeGroupAutoscalingOptions."""

    # Utilization from which a node stays: requests divided by the allocatable amount, 0 to 1; of nodes with GPUs.
    scale_down_utilization_threshold: float | None = None
    scale_down_gpu_utilization_threshold: float | None = None
    # Seconds for which a node must have been unneeded before it goes; the same of a node that is not ready.
    scale_down_unneeded_s: float | None = None
    scale_down_unready_s: float | None = None
    # Seconds after which an instance without a node counts as failed.
    max_node_provision_s: float | None = None
    # Whether the group has either no node or its maximum.
    zero_or_max: bool | None = None
    # Whether pods of DaemonSets count in no utilization.
    ignore_daemon_sets_utilization: bool | None = None
    # Not upstream's: pods of Jobs keep their nodes; seconds for the whole drain of a node.
    job_pods_unmovable: bool | None = None
    drain_timeout_s: float | None = None


class Activity(NamedTuple):
    """Something that the cloud did, or failed to do, for a group. `id` is unique; `start_ms` : Unix milliseconds, 0 =
    not known; `detail` : the cloud's text.
    """

    id: str
    group: str
    failed: bool
    start_ms: int
    detail: str


class CloudProvider(Protocol):
    """A cloud, reduced to what the actuator needs. Instances are given by provider id."""

    @property
    def name(self) -> str:
        """Return name of the cloud, such as "memory"."""

    @property
    def gpu_label(self) -> str:
        """Return the label whose value is the type of a node's GPU."""

    def refresh(self) -> None:
        """Drop cached data; later reads call the cloud."""

    def node_groups(self) -> Sequence[NodeGroupView]:
        """Return all node groups, sorted by id."""

    def groups_of(self, instances: Sequence[str]) -> Mapping[str, str]:
        """Return the node group of each instance that has one."""

    def instances(self, groups: Sequence[str]) -> Mapping[str, Sequence[Instance]]:
        """Return the instances of each group, sorted by id, without those that are gone. A group that does not exist
        has none.
        """

    def instance_states(self, group: str, instances: Sequence[str]) -> Mapping[str, InstanceState]:
        """Return the state of each instance; unknown ones are UNKNOWN."""

    def remember(self, group: str, instances: Sequence[str]) -> None:
        """Note that the group had these instances when an earlier process acted on them. Makes no call.

        Where a cloud only lists what exists, an instance that was seen and is missing is GONE, any other UNKNOWN.
        """

    def forget(self, group: str, instances: Sequence[str]) -> None:
        """Note that the deletions of these instances have ended: a later one is a new one, also of a machine that has
        got the same id. Makes no call.
        """

    def delete_instances(self, group: str, instances: Sequence[str]) -> Mapping[str, CloudError]:
        """Start the deletion of instances and lower the target size by one for each; return the failed ones.

        An instance that is being deleted or gone is not an error and does not lower the target size again; an unknown
        one is refused, and so is one that would violate the minimum. Raises `CloudError` when nothing was done.
        """

    def set_size(self, group: str, expected: int, wanted: int, token: str) -> None:
        """Raise the target size from `expected` to `wanted`, once for each `token`: asked again, it does nothing.

        A cloud without tokens compares sizes: at `wanted` it was done. Raises `SizeChangedError` when the size is not
        `expected`, `CloudRefusedError` when the group is unknown or would exceed its maximum, `CloudError` when it may
        have been done or not: `was_set` answers that.
        """

    def was_set(self, group: str, wanted: int, token: str) -> bool:
        """Return whether `set_size` was carried out for a token; without tokens, whether `wanted` is reached."""

    def decrease_target(self, group: str, expected: int, wanted: int) -> None:
        """Lower the target size from `expected` to `wanted` by giving up instances that have not started.

        Never ends one that runs. At `wanted` already, it does nothing. Raises `SizeChangedError` when the size is
        another one, `CloudRefusedError` when more instances run than `wanted`, or the minimum is above it.
        """

    def template(self, group: str) -> CloudNodeTemplate | None:
        """Return a new node of a group, from the cloud's configuration and never from a node; None = not known."""

    def price_per_hour(self, group: str) -> float | None:
        """Return the price of one node for one hour, in any one currency; None = not known."""

    def options(self, group: str) -> GroupOptions:
        """Return the settings of a group."""

    def activities(self, group: str) -> Sequence[Activity]:
        """Return the latest activities of a group, newest first; none where the cloud reports none."""


def check_size(group: str, size: int, max_size: int, change: tuple[int, int]) -> None:
    """Raise `CloudRefusedError` unless a group of that size may be set from `change[0]` to `change[1]`."""
    expected, wanted = change
    if size != expected:
        raise SizeChangedError(f"node group {group} has size {size}, not {expected} as expected; plan again")
    if wanted > max_size:
        raise CloudRefusedError(f"node group {group}: size {wanted} exceeds the maximum {max_size}")


def check_decrease(group: NodeGroupView, running_count: int, change: tuple[int, int]) -> bool:
    """Return whether a target size has to be lowered from `change[0]` to `change[1]`; False = it is there already.

    Raises as `CloudProvider.decrease_target`.
    """
    expected, wanted = change
    if group.target_size == wanted:
        return False
    if group.target_size != expected:
        size = group.target_size
        raise SizeChangedError(f"node group {group.id} has size {size}, not {expected} as expected; plan again")
    if wanted > expected:
        raise CloudRefusedError(f"node group {group.id}: from {expected} to {wanted} is not a decrease")
    if wanted < group.min_size:
        raise CloudRefusedError(f"node group {group.id}: size {wanted} is below the minimum {group.min_size}")
    if running_count > wanted:
        raise CloudRefusedError(f"node group {group.id} has {running_count} instances, more than {wanted}; delete some")
    return True
