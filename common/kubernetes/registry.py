"""The registry of kinds: one row for each kind of Kubernetes objects that Trimtab reads or writes.

Files, lists and watches, `kubectl` command lines, permission checks and the roles of the chart follow the
rows. A new kind is its struct in `kinds`, a row here, and the code that uses it. Contacts no server.
Sources: the Kubernetes API reference (groups, versions, plural names); kubernetes/autoscaler, cluster-autoscaler/apis
(CapacityBuffer); Cluster API; kubernetes-sigs/karpenter, pkg/apis.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType, ModuleType
from typing import Any, Final, NamedTuple

from trimtab.common.kubernetes.encodings import JSON, PROTOBUF, Encoding
from trimtab.common.kubernetes.kinds import (
    controllers,
    devices,
    karpenter,
    nodes,
    pod_groups,
    pods,
    policies,
    storage,
)
from trimtab.common.kubernetes.names import object_path

OUR_GROUP: Final = "trimtab.dev"


class PermissionRule(NamedTuple):
    """Verbs on a resource ("pods" or "pods/eviction"). `namespace` "" = in all, or a resource that has none.

    `name` "" = every object; "create" cannot be limited to a name. `group` : API group, "" = the core; `verbs` : such
    as "list".
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    namespace: str = ""
    name: str = ""


class User(Enum):
    """Who has permissions for a kind in a live cluster."""

    SNAPSHOTS = "the commands that follow a cluster: `run`, `steer`, `record`"
    ACTUATOR = "the actuator with any cloud"
    POD_COSTS = "the actuator, for pod deletion costs; not required at the start"
    BUFFERS = "the actuator, for the status of CapacityBuffers; not required at the start"
    CAPACITY = "the actuator, for the conditions of ProvisioningRequests; not required at the start"
    KWOK = "the cloud `kwok`: it creates nodes, and keeps its ledger in a ConfigMap"
    CLUSTER_API = "the cloud `clusterapi`, in the management cluster"
    LEADER = "a process that leads by a Lease"
    STATE = "`run` and `steer`, which keep their state in a ConfigMap"
    STATUS = "`run`, which writes its status to a ConfigMap"
    EVENTS = "`run`, which writes Events"
    MARKS = "`steer`, which annotates nodes"
    TOKEN_REVIEWS = "services that accept tokens of ServiceAccounts"


class Permission(NamedTuple):
    """The permissions of a user for a kind: verbs, separated by spaces. `subresource` "" = the objects themselves;
    `is_own` : only for one object, which the user creates.
    """

    user: User
    verbs: str
    subresource: str = ""
    is_own: bool = False


class Resource(NamedTuple):
    """A kind of objects, and where an API server has them. Paths have no trailing slash.

    kind : as in objects; where another group has a kind of this name, the second one ends in its group, as in
    "PodGroup.scheduling.volcano.sh"
    api_versions : those that files may have, the one for requests first; of a kind that clusters may lack, requests
    try all in order
    struct : to decode the objects of files and snapshots; None = they have none
    command_name : in `kubectl get` for a whole cluster; "" = not there
    access : who may do what with the objects
    is_namespaced : its objects are in namespaces
    is_custom : clusters may lack it: it is defined by a CustomResourceDefinition, or not served by all versions and
    configurations of the API server
    is_controller : pods name it as their controller
    """

    kind: str
    api_versions: tuple[str, ...]
    struct: type[Any] | None = None
    command_name: str = ""
    access: tuple[Permission, ...] = ()
    is_namespaced: bool = True
    is_custom: bool = False
    is_controller: bool = False

    @property
    def plural(self) -> str:
        """Name of the collection. Source: apimachinery, api/meta, UnsafeGuessKindToResource."""
        name = self.object_kind.lower()
        return name + ("es" if name.endswith("s") else "s")

    @property
    def object_kind(self) -> str:
        """The kind that objects name."""
        return self.kind.partition(".")[0]

    @property
    def api_version(self) -> str:
        """Version of requests, such as "v1" or "apps/v1"."""
        return self.api_versions[0]

    @property
    def group(self) -> str:
        """API group of requests; "" for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def groups(self) -> frozenset[str]:
        """API groups of all versions."""
        return frozenset(version.rpartition("/")[0] for version in self.api_versions)

    @property
    def type_meta(self) -> dict[str, Any]:
        """The first fields of a written object."""
        return {"apiVersion": self.api_version, "kind": self.object_kind}

    @property
    def encoding(self) -> Encoding:
        """How lists and watches of this kind are encoded: pods, of which there are most, and which JSON takes two to
        three times as long to read, as protobuf; all others as JSON, which is read four times as fast as a message.
        """
        return PROTOBUF if self.kind == "Pod" else JSON

    @property
    def by_version(self) -> "tuple[Resource, ...]":
        """This kind in each version that a server may have, the preferred one first."""
        versions = self.api_versions if self.is_custom else self.api_versions[:1]
        return tuple(self._replace(api_versions=(version,)) for version in versions)

    @property
    def prefix(self) -> str:
        """Path of group and version."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"

    @property
    def path(self) -> str:
        """Path of the collection over all namespaces."""
        return f"{self.prefix}/{self.plural}"

    def path_in(self, namespace: str, *words: str) -> str:
        """Return the path of the collection in a namespace; with name and subresource as `words`, that of an object."""
        return object_path(f"{self.prefix}/namespaces", namespace, self.plural, *words)

    def path_of(self, name: str) -> str:
        """Return the path of an object without namespace."""
        return object_path(self.path, name)

    def rules(self, user: User, namespace: str = "", name: str = "") -> tuple[PermissionRule, ...]:
        """Return the permissions of a user for this kind; `name` : of the user's own object."""
        within, out = namespace if self.is_namespaced else "", []
        for access in self.access:
            if access.user is user:
                plural = f"{self.plural}/{access.subresource}" if access.subresource else self.plural
                if access.is_own:
                    out.append(PermissionRule(self.group, plural, ("create",), within))
                own_name = name if access.is_own else ""
                out.append(PermissionRule(self.group, plural, tuple(access.verbs.split()), within, own_name))
        return tuple(out)


_WATCHED = Permission(User.SNAPSHOTS, "list watch")
_APPS = ("apps/v1", "apps/v1beta1", "apps/v1beta2")
_STORAGE = ("storage.k8s.io/v1", "storage.k8s.io/v1beta1")
_SCHEDULING = ("scheduling.k8s.io/v1", "scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha1")
_BUFFERS = ("autoscaling.x-k8s.io/v1beta1", "autoscaling.x-k8s.io/v1", "autoscaling.x-k8s.io/v1alpha1")
_PROVISIONING = ("autoscaling.x-k8s.io/v1", "autoscaling.x-k8s.io/v1beta1")
_CLUSTER_API = ("cluster.x-k8s.io/v1beta1",)
_KARPENTER = ("karpenter.sh/v1", "karpenter.sh/v1beta1")
_EXTENSIONS = (*_APPS, "extensions/v1beta1")
_RESOURCE = ("resource.k8s.io/v1", "resource.k8s.io/v1beta2")
_DEVICE_TAINTS = (*_RESOURCE, "resource.k8s.io/v1alpha3")
_POD_GROUPS = ("scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3", "scheduling.k8s.io/v1alpha2")
VOLCANO_POD_GROUP: Final = "PodGroup.scheduling.volcano.sh"


def _as_json(kind: str, api_versions: tuple[str, ...], struct: type[Any], *, is_namespaced: bool = True) -> Resource:
    """Return the row of a kind that snapshots are made of, that clusters may lack, and that comes as JSON.

    Also built-in kinds with large objects: their JSON becomes structs several times faster than their protobuf.
    """
    return Resource(kind, api_versions, struct, access=(_WATCHED,), is_namespaced=is_namespaced, is_custom=True)


def _in_snapshots(
    kind: str,
    api_versions: tuple[str, ...],
    structs: ModuleType,
    command_name: str = "",
    access: tuple[Permission, ...] = (),
    **more: bool,
) -> Resource:
    """Return the row of a kind that snapshots are made of; its struct has its name in the module."""
    return Resource(kind, api_versions, getattr(structs, kind), command_name, (_WATCHED, *access), **more)


RESOURCES: Final = (
    # What snapshots are made of; kinds that others refer to come first.
    _in_snapshots("Namespace", ("v1",), nodes, "ns", is_namespaced=False),
    _in_snapshots("StorageClass", _STORAGE, storage, "sc", is_namespaced=False),
    _in_snapshots("PersistentVolume", ("v1",), storage, "pv", is_namespaced=False),
    _in_snapshots("PersistentVolumeClaim", ("v1",), storage, "pvc"),
    _in_snapshots("CSIDriver", _STORAGE, storage, "csidrivers", is_namespaced=False),
    _in_snapshots("CSINode", _STORAGE, nodes, "csinodes", is_namespaced=False),
    _in_snapshots("VolumeAttachment", _STORAGE, storage, "volumeattachments", is_namespaced=False),
    _in_snapshots("PriorityClass", _SCHEDULING, policies, "priorityclasses", is_namespaced=False),
    _in_snapshots("ReplicaSet", _EXTENSIONS, controllers, "rs", is_controller=True),
    _in_snapshots("StatefulSet", _APPS, controllers, "sts", is_controller=True),
    _in_snapshots("ReplicationController", ("v1",), controllers, is_controller=True),
    _in_snapshots("Deployment", _EXTENSIONS, controllers, "deploy", is_controller=True),
    _in_snapshots("Job", ("batch/v1",), controllers, "jobs", is_controller=True),
    _in_snapshots("DaemonSet", _EXTENSIONS, controllers, "ds", is_controller=True),
    _in_snapshots("PodDisruptionBudget", ("policy/v1", "policy/v1beta1"), policies, "pdb"),
    _in_snapshots("PodTemplate", ("v1",), controllers),
    _in_snapshots("CapacityBuffer", _BUFFERS, policies, is_custom=True,
                  access=(Permission(User.BUFFERS, "list"), Permission(User.BUFFERS, "patch", "status"))),
    _in_snapshots("ProvisioningRequest", _PROVISIONING, policies, is_custom=True,
                  access=(Permission(User.CAPACITY, "list"), Permission(User.CAPACITY, "patch", "status"))),
    _as_json("DeviceClass", _RESOURCE, devices.ResourceDeviceClass, is_namespaced=False),
    _as_json("ResourceSlice", _RESOURCE, devices.ResourceSlice, is_namespaced=False),
    _as_json("DeviceTaintRule", _DEVICE_TAINTS, devices.DeviceTaintRule, is_namespaced=False),
    _as_json("ResourceClaimTemplate", _RESOURCE, devices.ResourceClaimTemplate),
    _as_json("ResourceClaim", _RESOURCE, devices.ResourceClaim),
    _as_json("Workload", (*_POD_GROUPS, "scheduling.k8s.io/v1alpha1"), pod_groups.SchedulingWorkload),
    _as_json("PodGroup", _POD_GROUPS, pod_groups.SchedulingPodGroup),
    _as_json(VOLCANO_POD_GROUP, ("scheduling.volcano.sh/v1beta1",), pod_groups.VolcanoPodGroup),
    _in_snapshots("NodePool", _KARPENTER, karpenter, is_namespaced=False, is_custom=True),
    _in_snapshots("NodeClaim", _KARPENTER, karpenter, is_namespaced=False, is_custom=True),
    _in_snapshots("Node", ("v1",), nodes, "nodes", is_namespaced=False,
                  access=(Permission(User.ACTUATOR, "get list patch delete"), Permission(User.KWOK, "create"),
                          Permission(User.MARKS, "patch"))),
    _in_snapshots("Pod", ("v1",), pods, "pods",
                  access=(Permission(User.ACTUATOR, "list"), Permission(User.ACTUATOR, "create", "eviction"),
                          Permission(User.POD_COSTS, "get patch"))),
    # Only in files and requests.
    Resource("NodeGroup", (f"{OUR_GROUP}/v1",), nodes.NodeGroup, is_namespaced=False),
    Resource("MachineOffer", (f"{OUR_GROUP}/v1",), karpenter.OfferObject, is_namespaced=False),
    # What is written to a live cluster, or read there for one purpose.
    Resource("PodGroupCost", (f"{OUR_GROUP}/v1alpha1",), is_custom=True,
             access=(Permission(User.POD_COSTS, "list create patch delete"),
                     Permission(User.POD_COSTS, "patch", "status"))),
    Resource("MachineDeployment", _CLUSTER_API, is_custom=True, access=(Permission(User.CLUSTER_API, "list patch"),)),
    Resource("MachinePool", _CLUSTER_API, is_custom=True, access=(Permission(User.CLUSTER_API, "list patch"),)),
    Resource("Machine", _CLUSTER_API, is_custom=True, access=(Permission(User.CLUSTER_API, "list patch"),)),
    Resource("ConfigMap", ("v1",),
             access=(Permission(User.KWOK, "get update", is_own=True), Permission(User.STATE, "get patch", is_own=True),
                     Permission(User.STATUS, "patch", is_own=True))),
    Resource("Event", ("v1",), access=(Permission(User.EVENTS, "create"),)),
    Resource("Lease", ("coordination.k8s.io/v1",), access=(Permission(User.LEADER, "get update", is_own=True),)),
    Resource("Eviction", ("policy/v1",)),
    Resource("TokenReview", ("authentication.k8s.io/v1",), is_namespaced=False,
             access=(Permission(User.TOKEN_REVIEWS, "create"),)),
    Resource("SelfSubjectAccessReview", ("authorization.k8s.io/v1",), is_namespaced=False),
)  # fmt: skip

BY_KIND: Final[Mapping[str, Resource]] = MappingProxyType({row.kind: row for row in RESOURCES})
STRUCTS: Final[Mapping[str, type[Any]]] = MappingProxyType(
    {row.kind: row.struct for row in RESOURCES if row.struct is not None}
)
"""The structs of the kinds that files may have."""
WATCHED: Final[Mapping[str, Resource]] = MappingProxyType(
    {row.kind: row for row in RESOURCES if _WATCHED in row.access}
)
"""The kinds that snapshots, and so recordings, are made of, in the order in which they are listed."""
CONTROLLERS: Final[Mapping[str, Resource]] = MappingProxyType({row.kind: row for row in RESOURCES if row.is_controller})
EXPORTED_KINDS: Final = ",".join(
    sorted((row.command_name for row in RESOURCES if row.command_name), key=lambda name: name not in ("nodes", "pods"))
)
"""What `kubectl get` is asked for to have all that a snapshot is made of: nodes and pods first."""


def registered_kind(api_version: str, kind: str) -> str:
    """Return the kind of an object as `Resource.kind` has it."""
    in_group = f"{kind}.{api_version.rpartition('/')[0]}"
    return in_group if in_group in BY_KIND else kind


def rules_of(user: User, namespace: str = "", name: str = "") -> tuple[PermissionRule, ...]:
    """Return the permissions that a user needs; `namespace` "" = in all; `name` : of the user's own object."""
    return tuple(rule for row in RESOURCES for rule in row.rules(user, namespace, name))
