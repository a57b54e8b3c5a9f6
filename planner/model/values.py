"""Scheduling-relevant values with their strings resolved: the content of one row of a snapshot's dictionaries.

Hashable and comparable by content, independent of the indices in the message. Units: cpu in milli-cores, other
resources in base units, durations in seconds. Enumerations are those of `trimtab.v1`.
"""

from collections.abc import Hashable
from typing import Final, NamedTuple

from trimtab.common.kubernetes.signals import ours, well_known


class LabelRequirement(NamedTuple):
    """One requirement on the label `key` (or the field `metadata.name`); `operator` is a `LabelOperator.Code`; `values`
    are those that it compares with.
    """

    key: str
    operator: int
    values: tuple[str, ...]


Selector = tuple[LabelRequirement, ...]
"""All must hold; () matches everything. Where a selector is optional, None matches nothing."""


class NodeAffinityTerm(NamedTuple):
    """One alternative of required node affinity; without any requirement it matches no node. match_expressions : on
    labels; match_fields : on `metadata.name`.
    """

    match_expressions: Selector
    match_fields: Selector


class TaintSpec(NamedTuple):
    """A taint by key and value; `effect` is a `TaintEffect.Code`, never UNSPECIFIED."""

    key: str
    value: str
    effect: int


class TolerationSpec(NamedTuple):
    """A toleration by key ("" = every key) and value; `operator` is a `TolerationOperator.Code` (UNSPECIFIED = EQUAL),
    `effect` 0 stands for every effect.
    """

    key: str
    operator: int
    value: str
    effect: int


class HostPort(NamedTuple):
    """`protocol` is never empty; `host_ip` "0.0.0.0" stands for every address (empty is converted to it); `port` is
    1 to 65535.
    """

    protocol: str
    host_ip: str
    port: int


class AffinityTerm(NamedTuple):
    """Required term; no namespaces and no namespace selector stand for the pod's own namespace. selector : which pods;
    namespaces : by name; namespace_selector : namespaces by label, in addition; topology_key : the label of domains.
    """

    selector: Selector | None
    namespaces: tuple[str, ...]
    namespace_selector: Selector | None
    topology_key: str


class WeightedAffinityTerm(NamedTuple):
    """Preferred term of pod anti-affinity; `weight` is 1 to 100."""

    weight: int
    term: AffinityTerm


class SpreadConstraint(NamedTuple):
    """A DoNotSchedule constraint. max_skew : largest difference to the domain with the fewest pods; topology_key :
    label of the domains; selector : which pods count; min_domains : 1 is the default; honor_node_affinity,
    honor_node_taints : whether nodes that these exclude are ignored; match_label_keys : whose values on the pod are
    added to the selector.
    """

    max_skew: int
    topology_key: str
    selector: Selector | None
    min_domains: int
    honor_node_affinity: bool
    honor_node_taints: bool
    match_label_keys: tuple[str, ...]


class NodeTraits(NamedTuple):
    """What some predicate reads of a node besides labels, taints and amounts. `attach_limits` : (driver, volumes),
    sorted by driver, each driver once; declared_features : sorted; volume_drivers : of the drivers and in-tree plugins
    that volumes may require, those that the node has, sorted; None = not known; beside_expendable : in
    plans, what is free on a node with expendable pods beside all its pods; None = it has none, or no pod asks.

    A new field needs to be read (`trimtab.planner.snapshot.nodes`); virtual nodes take over the traits of a template.
    """

    attach_limits: tuple[tuple[str, int], ...] = ()
    declared_features: tuple[str, ...] = ()
    volume_drivers: tuple[str, ...] | None = None
    beside_expendable: tuple[tuple[str, int], ...] | None = None


NO_TRAITS = NodeTraits()


class MountedVolume(NamedTuple):
    """A mounted volume; `state` is a `VolumeState.Code`; `node_affinity` None means no requirement. id : identity;
    driver, handle : of the attached volume, "" = none, and `id` is the handle; zone_labels : (key, value);
    read_write_once_pod : at most one pod mounts it; detail : why it cannot be used; required_driver : that the node
    must have, "" = none.
    """

    id: str
    state: int
    driver: str
    handle: str
    node_affinity: tuple[NodeAffinityTerm, ...] | None
    zone_labels: tuple[tuple[str, str], ...]
    read_write_once_pod: bool
    detail: str
    required_driver: str = ""


CLASS_RESOURCE: Final = well_known.IMPLICIT_RESOURCE.key
"""The extended resource that a device class always provides begins with this, and ends with the name of the class."""
DEVICE_RESOURCE: Final = ours.DEVICE_RESOURCE.key
"""Other resources that stand for devices begin with this."""


def is_device_resource(name: str) -> bool:
    """Return whether a resource stands for devices of dynamic resource allocation."""
    return name.startswith((CLASS_RESOURCE, DEVICE_RESOURCE))


class PodClaim(NamedTuple):
    """A claim of devices by its `name` within the pod. shared : the claim that pods may share, by its name in the pod's
    namespace, "" = the pod has its own; spec : what it asks for, a `DeviceClaim` of `trimtab.planner.devices.model`,
    None = as the shared claim says; problem : why it cannot be used, "" = it can; nodes : those that reach the devices
    that it has already, None = it has none, or all reach them; together : of a shared claim whose pods have to be on
    one node, what the pod is to the others: LEADS, FOLLOWS, or 0 = they are not planned together; or ONE_KIND.
    """

    name: str
    shared: str
    spec: Hashable | None
    problem: str
    nodes: tuple[NodeAffinityTerm, ...] | None = None
    together: int = 0


LEADS: Final = 1
"""The pod requests what all pods of the shared claim need, its devices included."""
FOLLOWS: Final = 2
"""The pod requests nothing, and goes where the one that leads is."""
ONE_KIND: Final = 3
"""The pod goes where no pod has claims of another kind of `shared`; `name` is its kind."""


class ExtendedDeviceRequest(NamedTuple):
    """`devices` of them satisfy an extended resource. name : of the request in the claim that would be made."""

    name: str
    resource: str
    devices: int


class PodRequirements(NamedTuple):
    """One distinct pod spec: the fields of `trimtab.v1.PodSpec` with their names and units, strings resolved.
    requests : sorted by resource name, without zero amounts; node_affinity : None = no
    requirement; topology_spread_timeout_s, scale_up_delay_s (seconds), enable_ds_eviction (0 or 1) : -1 = not given;
    restart_policy, safe_to_evict : values of the enumerations.
    """

    requests: tuple[tuple[str, int], ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    node_affinity: tuple[NodeAffinityTerm, ...] | None = None
    tolerations: tuple[TolerationSpec, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    pod_affinity: tuple[AffinityTerm, ...] = ()
    pod_anti_affinity: tuple[AffinityTerm, ...] = ()
    topology_spread: tuple[SpreadConstraint, ...] = ()
    priority: int = 0
    scheduler_name: str = ""
    restart_policy: int = 0
    termination_grace_period_s: int = 30
    safe_to_evict: int = 0
    local_storage: bool = False
    unsupported: tuple[str, ...] = ()
    topology_spread_timeout_s: int = -1
    enable_ds_eviction: int = -1
    exclusive_disks: tuple[str, ...] = ()
    read_only_disks: tuple[str, ...] = ()
    scale_up_delay_s: int = -1
    preferred_pod_anti_affinity: tuple[WeightedAffinityTerm, ...] = ()
    ignored_by_slack: bool = False
    node_features: tuple[str, ...] = ()
    claims: tuple[PodClaim, ...] = ()
    extended_device_requests: tuple[ExtendedDeviceRequest, ...] = ()
    capacity_request: str = ""
    never_preempts: bool = False
    requests_by_vpa: bool = False


class TemplatePod(NamedTuple):
    """A pod of a DaemonSet as it runs on a new node, by namespace and spec; `labels` sorted by key."""

    namespace: str
    spec: PodRequirements
    labels: tuple[tuple[str, str], ...]


class NodeGroupInfo(NamedTuple):
    """A node group; `template` is an index into the snapshot's template rows or -1; `price_per_hour` NaN = unknown.

    min_size, max_size, target_size : nodes; health : `NodeGroupHealth.Code`; zero_or_max : all nodes or none;
    daemonset_pods : of the template. Times (`backoff_until_ns`, `last_scale_up_ns`, `last_deletion_ns`,
    `last_failure_ns`) are Unix nanoseconds, 0 = not known.
    """

    id: str
    min_size: int
    max_size: int
    target_size: int
    template: int
    price_per_hour: float
    health: int
    backoff_until_ns: int
    zero_or_max: bool
    last_scale_up_ns: int = 0
    last_deletion_ns: int = 0
    last_failure_ns: int = 0
    daemonset_pods: tuple[TemplatePod, ...] = ()


class Owner(NamedTuple):
    """A controller by uid, kind, name and namespace, with its api_version; desired_replicas, current_replicas -1 =
    unknown; selector None = unknown; controller "Kind/namespace/name" of its own controller or ""; revision of its
    Deployment, 0 = unknown; pod_template None = unknown, only of DaemonSets; pod_requests : of a pod
    of its template, sorted by resource name, without zero amounts, () = unknown.
    """

    uid: str
    kind: str
    name: str
    namespace: str
    desired_replicas: int
    current_replicas: int
    api_version: str
    selector: Selector | None = None
    controller: str = ""
    revision: int = 0
    pod_template: TemplatePod | None = None
    pod_requests: tuple[tuple[str, int], ...] = ()


class PodGroup(NamedTuple):
    """A group of pods by namespace and name that are scheduled together; object : "Kind/namespace/name", for people;
    with a `problem`, all else is empty.

    min_count : fewest pods that must run, 0 = no gang; topology_key : label of the domain of all its pods, "" =
    anywhere; moves_whole : all its pods are evicted or none; priority : None = that of its pods; created_ns : Unix
    nanoseconds, 0 = that of its pods; desired_count : pods that its workload makes, -1 = unknown; pod_template : such a
    pod, None = unknown; slack : for how many gangs like it room is kept, as written, "" = for none.
    """

    namespace: str
    name: str
    object: str
    problem: str = ""
    min_count: int = 0
    topology_key: str = ""
    moves_whole: bool = False
    priority: int | None = None
    created_ns: int = 0
    desired_count: int = -1
    pod_template: TemplatePod | None = None
    slack: str = ""

    @property
    def is_basic(self) -> bool:
        """Whether it is readable and has neither a minimum nor a domain."""
        return not (self.problem or self.min_count or self.topology_key)


class DisruptionBudget(NamedTuple):
    """A budget by namespace and name; `disruptions_allowed` -1 = no status yet, which allows none. selector : which
    pods, None = none; current_healthy, desired_healthy, expected_pods : numbers of pods in the status; observed : the
    status is current, and its controller could count the pods; disrupted_pods : names of pods already granted eviction;
    always_allow_unhealthy : evictions of unhealthy pods; min_available, max_unavailable : as written, "" = not given.
    """

    namespace: str
    name: str
    selector: Selector | None
    disruptions_allowed: int
    current_healthy: int
    desired_healthy: int
    expected_pods: int
    observed: bool
    disrupted_pods: tuple[str, ...]
    always_allow_unhealthy: bool
    min_available: str
    max_unavailable: str


class DeletionInProgress(NamedTuple):
    """A deletion of `node` that the actuator reports; node_group : its id; drain : pods go first; start_ns : Unix
    nanoseconds.
    """

    node: str
    node_group: str
    drain: bool
    start_ns: int


class RecentEviction(NamedTuple):
    """A recently evicted pod by namespace, name and uid; `spec` (-1 = unknown) and `label_set` index the dictionaries,
    `owner` "" = unknown; evict_ns : when, Unix nanoseconds.
    """

    namespace: str
    name: str
    uid: str
    spec: int
    label_set: int
    owner: str
    evict_ns: int


class SlackRequest(NamedTuple):
    """An object for which room should be kept, as in the snapshot; `object` is "Kind/namespace/name".

    spec : of its pods; amount : a count or a percentage, as written. With a `problem`, all other fields are empty.
    `scale`, `replicas`, `percentage` -1 = not given; `labels` sorted by key; `limits` sorted by resource; is_gang :
    room for all pods or none, on nodes with one value of the label topology_key, "" = on any.
    """

    object: str
    problem: str = ""
    namespace: str = ""
    spec: PodRequirements = PodRequirements()
    labels: tuple[tuple[str, str], ...] = ()
    scale: int = -1
    amount: str = ""
    replicas: int = -1
    percentage: int = -1
    limits: tuple[tuple[str, int], ...] = ()
    is_gang: bool = False
    topology_key: str = ""


class CapacityPodSet(NamedTuple):
    """`pod_count` equal pods of a ProvisioningRequest; `labels` sorted by key."""

    spec: PodRequirements
    labels: tuple[tuple[str, str], ...]
    pod_count: int


class CapacityRequest(NamedTuple):
    """A ProvisioningRequest, as in the snapshot. With a `problem`, it has no pod sets.

    created_s, provisioned_s : Unix seconds, 0 = not known, not provisioned; max_seek_s : seconds after its creation,
    0 = not given; failed, booking_expired, capacity_revoked : conditions that end it.
    """

    namespace: str
    name: str
    uid: str = ""
    created_s: int = 0
    class_name: str = ""
    problem: str = ""
    pod_sets: tuple[CapacityPodSet, ...] = ()
    max_seek_s: int = 0
    no_retry: bool = False
    processor_instance: str = ""
    provisioned_s: int = 0
    failed: bool = False
    booking_expired: bool = False
    capacity_revoked: bool = False

    @property
    def key(self) -> str:
        """Return "namespace/name"."""
        return f"{self.namespace}/{self.name}"

    @property
    def has_ended(self) -> bool:
        """Whether a condition says that nothing more is done for it."""
        return self.failed or self.booking_expired or self.capacity_revoked
