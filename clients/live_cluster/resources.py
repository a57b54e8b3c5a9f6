"""The kinds of objects that are watched: their API paths and their protobuf messages.

Decides names only. Sources: the Kubernetes API reference (groups, versions, plural names).
"""

from typing import NamedTuple

from google.protobuf.message import Message
from trimtab.k8s.v1 import core_pb2, policy_pb2, storage_pb2, workloads_pb2

from clients.kubernetes_api.permissions import Rule

WATCHING = ("list", "watch")


class Resource(NamedTuple):
    """A kind of objects. `group` is "" for the core group; paths have no trailing slash."""

    kind: str
    group: str
    plural: str
    message: type[Message]
    namespaced: bool = True
    version: str = "v1"

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
    Resource("Node", "", "nodes", core_pb2.Node, namespaced=False),
    Resource("Pod", "", "pods", core_pb2.Pod),
)
"""The kinds of which a snapshot is made; kinds that others refer to come first."""

BY_KIND = {resource.kind: resource for resource in RESOURCES}
