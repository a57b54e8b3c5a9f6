"""The Kubernetes objects that a snapshot is made of, as declared structs: only the fields needed, the rest ignored.

Every field may be absent or null, as in Go, where both mean the zero value; what is required is checked where it is
used, with the object and the field named. Field names are those of the API in snake case. Times are aware datetimes.
Nothing here computes.
"""

from trimtab.clients.kubernetes.kinds.controllers import (
    DaemonSet,
    Deployment,
    Job,
    PodTemplate,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from trimtab.clients.kubernetes.kinds.metadata import (
    LabelSelector,
    LabelSelectorRequirement,
    ObjectMeta,
    OwnerReference,
)
from trimtab.clients.kubernetes.kinds.nodes import CSINode, Namespace, Node, NodeGroup
from trimtab.clients.kubernetes.kinds.pods import Pod, PodSpec
from trimtab.clients.kubernetes.kinds.policies import CapacityBuffer, PodDisruptionBudget, PriorityClass
from trimtab.clients.kubernetes.kinds.storage import PersistentVolume, PersistentVolumeClaim, StorageClass

__all__ = [
    "CSINode",
    "CapacityBuffer",
    "DaemonSet",
    "Deployment",
    "Job",
    "LabelSelector",
    "LabelSelectorRequirement",
    "Namespace",
    "Node",
    "NodeGroup",
    "ObjectMeta",
    "OwnerReference",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodDisruptionBudget",
    "PodSpec",
    "PodTemplate",
    "PriorityClass",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
    "StorageClass",
]
