"""The Kubernetes objects that a snapshot is made of, as declared structs: only the fields needed, the rest ignored.

Every field may be absent or null, as in Go, where both mean the zero value; what is required is checked where it is
used, with the object and the field named. Field names are those of the API in snake case. Times are aware datetimes.
Nothing here computes.
"""

from trimtab.clients.snapshots.objects.kinds.controllers import (
    DaemonSet,
    Deployment,
    Job,
    PodTemplate,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from trimtab.clients.snapshots.objects.kinds.metadata import (
    LabelSelector,
    LabelSelectorRequirement,
    ObjectMeta,
    OwnerReference,
)
from trimtab.clients.snapshots.objects.kinds.nodes import CSINode, Namespace, Node, NodeGroup
from trimtab.clients.snapshots.objects.kinds.pods import Pod, PodSpec
from trimtab.clients.snapshots.objects.kinds.policies import CapacityBuffer, PodDisruptionBudget, PriorityClass
from trimtab.clients.snapshots.objects.kinds.storage import PersistentVolume, PersistentVolumeClaim, StorageClass

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
