"""The kinds of objects that are watched: their API paths, encodings and protobuf messages.

Decides names only. Sources: the Kubernetes API reference (groups, versions, plural names); kubernetes/autoscaler,
cluster-autoscaler/apis (CapacityBuffer).
"""

from typing import NamedTuple

from google.protobuf.message import Message

from trimtab.clients.kubernetes.rules import Rule
from trimtab.clients.snapshots.live.encodings import JSON, PROTOBUF, Encoding
from trimtab.k8s.v1 import core_pb2, policy_pb2, storage_pb2, workloads_pb2

WATCHING = ("list", "watch")


class Resource(NamedTuple):
    """A kind of objects. `group` is "" for the core group; paths have no trailing slash.

    message : None = the kind is defined by a CustomResourceDefinition, which clusters may lack, and comes as JSON;
    other_versions : tried in this order if the server does not know `version`
    """

    kind: str
    group: str
    plural: str
    message: type[Message] | None
    namespaced: bool = True
    version: str = "v1"
    other_versions: tuple[str, ...] = ()
    # Defined by a CustomResourceDefinition, which most clusters do not have.
    is_custom: bool = False

    @property
    def encoding(self) -> Encoding:
        """How objects of this kind are encoded."""
        return JSON if self.message is None else PROTOBUF

    @property
    def by_version(self) -> "tuple[Resource, ...]":
        """This kind in each of its versions, the preferred one first."""
        return tuple(self._replace(version=one) for one in (self.version, *self.other_versions))

    @property
    def path(self) -> str:
        """Path of the collection over all namespaces."""
        return f"{self.prefix}/{self.plural}"

    @property
    def prefix(self) -> str:
        """Path of the group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def rule(self) -> Rule:
        """Return the permissions that watching needs."""
        return Rule(self.group, self.plural, WATCHING)


RESOURCES: tuple[Resource, ...] = (
    Resource("Namespace", "", "namespaces", core_pb2.Namespace, namespaced=False),
    Resource("StorageClass", "storage.k8s.io", "storageclasses", storage_pb2.StorageClass, namespaced=False),
    Resource("PersistentVolume", "", "persistentvolumes", core_pb2.PersistentVolume, namespaced=False),
    Resource("PersistentVolumeClaim", "", "persistentvolumeclaims", core_pb2.PersistentVolumeClaim),
    Resource("CSINode", "storage.k8s.io", "csinodes", storage_pb2.CSINode, namespaced=False),
    Resource("PriorityClass", "scheduling.k8s.io", "priorityclasses", policy_pb2.PriorityClass, namespaced=False),
    Resource("ReplicaSet", "apps", "replicasets", workloads_pb2.ReplicaSet),
    Resource("StatefulSet", "apps", "statefulsets", workloads_pb2.StatefulSet),
    Resource("Deployment", "apps", "deployments", workloads_pb2.Deployment),
    Resource("DaemonSet", "apps", "daemonsets", workloads_pb2.DaemonSet),
    Resource("ReplicationController", "", "replicationcontrollers", core_pb2.ReplicationController),
    Resource("Job", "batch", "jobs", workloads_pb2.Job),
    Resource("PodDisruptionBudget", "policy", "poddisruptionbudgets", policy_pb2.PodDisruptionBudget),
    Resource("PodTemplate", "", "podtemplates", core_pb2.PodTemplate),
    Resource(
        "CapacityBuffer",
        "autoscaling.x-k8s.io",
        "capacitybuffers",
        None,
        version="v1beta1",
        other_versions=("v1", "v1alpha1"),
        is_custom=True,
    ),
    Resource("Node", "", "nodes", core_pb2.Node, namespaced=False),
    Resource("Pod", "", "pods", core_pb2.Pod),
)
"""The kinds from which a snapshot is built; kinds that others refer to come first."""

BY_KIND = {resource.kind: resource for resource in RESOURCES}
