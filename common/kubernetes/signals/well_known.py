"""Signals of Kubernetes itself: its well-known labels, annotations and taints, conditions, and fields with a meaning of
their own."""

from typing import Final

from trimtab.common.kubernetes.signals.signal import (
    ANY,
    LEAVING,
    NUMBER,
    OF_MACHINES,
    PRESENT,
    Signal,
    SignalValues,
    annotation,
    condition,
    exactly,
    field_of,
    label,
    taint,
)

_WELL_KNOWN: Final = "Kubernetes, Well-Known Labels, Annotations and Taints"
_NEW_NODES: Final = "a node without it gives its group no offering"
_NOT_READY: Final = "the node is not ready: no room, upcoming while it may still be starting; new nodes do not have it"
_NOT_ON_NEW: Final = "as any taint for pods; new nodes of the group do not have it"
_CONTROL_PLANE: Final = "the node is in no group that is guessed from labels or offerings"
_PLUGIN: Final = "Kubernetes, nodevolumelimits and volumebinding"

# Labels of nodes
HOSTNAME: Final = label(
    "kubernetes.io/hostname", "Node", ANY, "topology of single nodes; not compared between groups", _WELL_KNOWN
)
ZONE: Final = label(
    "topology.kubernetes.io/zone",
    "Node, PersistentVolume",
    ANY,
    "zone: offerings, prices, spread and volumes; not compared between groups",
    _WELL_KNOWN,
)
REGION: Final = label(
    "topology.kubernetes.io/region",
    "Node, PersistentVolume",
    ANY,
    "region: spread and volumes; not compared between groups",
    _WELL_KNOWN,
)
OLD_ZONE: Final = label(
    "failure-domain.beta.kubernetes.io/zone",
    "Node, PersistentVolume",
    ANY,
    "as the zone, of old nodes and volumes",
    _WELL_KNOWN,
)
OLD_REGION: Final = label(
    "failure-domain.beta.kubernetes.io/region",
    "Node, PersistentVolume",
    ANY,
    "as the region, of old nodes and volumes",
    _WELL_KNOWN,
)
INSTANCE_TYPE: Final = label(
    "node.kubernetes.io/instance-type",
    "Node, NodeClaim",
    ANY,
    "machine type: prices, offerings, groups guessed by label",
    _WELL_KNOWN,
)
OLD_INSTANCE_TYPE: Final = label(
    "beta.kubernetes.io/instance-type", "Node", ANY, "as the machine type, of old nodes", _WELL_KNOWN
)
ARCH: Final = label("kubernetes.io/arch", "Node", ANY, "architecture of offerings and templates", _WELL_KNOWN)
OLD_ARCH: Final = label("beta.kubernetes.io/arch", "Node", ANY, "as the architecture, of old nodes", _WELL_KNOWN)
OS: Final = label("kubernetes.io/os", "Node", ANY, "system of offerings and templates", _WELL_KNOWN)
OLD_OS: Final = label("beta.kubernetes.io/os", "Node", ANY, "as the system, of old nodes", _WELL_KNOWN)
CONTROL_PLANE: Final = label("node-role.kubernetes.io/control-plane", "Node", PRESENT, _CONTROL_PLANE, _WELL_KNOWN)
MASTER: Final = label("node-role.kubernetes.io/master", "Node", PRESENT, _CONTROL_PLANE, _WELL_KNOWN)
NAMESPACE_NAME: Final = label(
    "kubernetes.io/metadata.name",
    "Namespace",
    ANY,
    "selectors of namespaces; a namespace without it gets it",
    _WELL_KNOWN,
)
TOPOLOGY_PREFIX: Final = label("topology.kubernetes.io/", "NodePool", ANY, OF_MACHINES, _WELL_KNOWN)
OLD_TOPOLOGY_PREFIX: Final = label("failure-domain.beta.kubernetes.io/", "NodePool", ANY, OF_MACHINES, _WELL_KNOWN)
OWN_PREFIX: Final = label(
    "kubernetes.io/",
    "Node, NodePool",
    ANY,
    "resources and labels of Kubernetes' own: no devices, no labels of a pool",
    _WELL_KNOWN,
)
NODE_PREFIX: Final = label(
    "node.kubernetes.io/",
    "NodePool",
    ANY,
    "labels that the machine decides, not the pool; taints that new nodes do not have",
    _WELL_KNOWN,
)
FLUENTD_READY: Final = label(
    "beta.kubernetes.io/fluentd-ds-ready",
    "Node",
    ANY,
    "not compared between groups",
    "Cluster Autoscaler, nodegroupset",
)

# Taints of nodes
NOT_READY: Final = taint("node.kubernetes.io/not-ready", "Node", PRESENT, _NOT_READY, _WELL_KNOWN)
NETWORK_UNAVAILABLE: Final = taint("node.kubernetes.io/network-unavailable", "Node", PRESENT, _NOT_READY, _WELL_KNOWN)
UNINITIALIZED: Final = taint("node.cloudprovider.kubernetes.io/uninitialized", "Node", PRESENT, _NOT_READY, _WELL_KNOWN)
CLOUD_PREFIX: Final = taint("node.cloudprovider.kubernetes.io/", "Node", PRESENT, _NOT_ON_NEW, _WELL_KNOWN)
UNREACHABLE: Final = taint("node.kubernetes.io/unreachable", "Node", PRESENT, _NOT_ON_NEW, _WELL_KNOWN)
UNSCHEDULABLE: Final = taint("node.kubernetes.io/unschedulable", "Node", PRESENT, _NOT_ON_NEW, _WELL_KNOWN)
MEMORY_PRESSURE: Final = taint("node.kubernetes.io/memory-pressure", "Node", PRESENT, _NOT_ON_NEW, _WELL_KNOWN)
DISK_PRESSURE: Final = taint("node.kubernetes.io/disk-pressure", "Node", PRESENT, _NOT_ON_NEW, _WELL_KNOWN)
PID_PRESSURE: Final = taint("node.kubernetes.io/pid-pressure", "Node", PRESENT, _NOT_ON_NEW, _WELL_KNOWN)
OUT_OF_SERVICE: Final = taint("node.kubernetes.io/out-of-service", "Node", PRESENT, _NOT_ON_NEW, _WELL_KNOWN)
IMPAIRED_VOLUMES: Final = taint(
    "NodeWithImpairedVolumes", "Node", PRESENT, _NOT_ON_NEW, "Kubernetes, AWS cloud provider"
)

# Annotations of pods
MIRROR: Final = annotation(
    "kubernetes.io/config.mirror",
    "Pod",
    PRESENT,
    "a static pod: it goes with its node, is not counted as a reason to stay, and needs no place",
    _WELL_KNOWN,
)
POD_DELETION_COST: Final = annotation(
    "controller.kubernetes.io/pod-deletion-cost",
    "Pod",
    NUMBER,
    "pod costs: the order in which the ReplicaSet controller removes pods; replacement: cost of an eviction",
    _WELL_KNOWN,
)
POD_RANK: Final = annotation(
    "scheduling.alpha.kubernetes.io/cost",
    "Pod",
    NUMBER,
    "pod costs: written beside the deletion cost where the actuator is told so",
    "Kubernetes, enhancement proposal 1888",
)
DEPLOYMENT_REVISION: Final = annotation(
    "deployment.kubernetes.io/revision",
    "ReplicaSet",
    ANY,
    "which ReplicaSet of a Deployment is the newest",
    "Kubernetes, deployment controller",
)
POD_CLAIM_NAME: Final = annotation(
    "resource.kubernetes.io/pod-claim-name",
    "ResourceClaim",
    ANY,
    "which claim of a pod a generated ResourceClaim is",
    "Kubernetes, resource claim controller",
)
AUTOSCALING_DISRUPTION_COST: Final = annotation(
    "node-autoscaling.kubernetes.io/disruption-cost",
    "Pod",
    SignalValues("a number"),
    "replacement: cost of evicting the pod, in place of its deletion cost",
    "Karpenter, disruption cost",
)
MANAGED_BY: Final = label(
    "app.kubernetes.io/managed-by",
    "Pod",
    ANY,
    "written on objects that a load makes; the field manager of pod costs",
    _WELL_KNOWN,
)
APP_NAME: Final = label("app.kubernetes.io/name", "Pod", ANY, "written on pods of generated clusters", _WELL_KNOWN)
APP_PART_OF: Final = label(
    "app.kubernetes.io/part-of", "Pod", ANY, "written on pods of generated clusters", _WELL_KNOWN
)

# Volumes
MIGRATED_PLUGINS: Final = annotation(
    "storage.alpha.kubernetes.io/migrated-plugins",
    "CSINode",
    SignalValues("plugins, with commas"),
    "in-tree volumes count as those of the CSI driver that replaced the plugin",
    _PLUGIN,
)
BIND_COMPLETED: Final = annotation(
    "pv.kubernetes.io/bind-completed", "PersistentVolumeClaim", PRESENT, "the claim is bound", _PLUGIN
)
OLD_STORAGE_CLASS: Final = annotation(
    "volume.beta.kubernetes.io/storage-class",
    "PersistentVolume, PersistentVolumeClaim",
    ANY,
    "the storage class, before the field",
    _PLUGIN,
)
SELECTED_NODE: Final = annotation(
    "volume.kubernetes.io/selected-node",
    "PersistentVolumeClaim",
    ANY,
    "the node for which an unbound claim is being provisioned",
    _PLUGIN,
)

# Devices
IMPLICIT_RESOURCE: Final = label(
    "deviceclass.resource.kubernetes.io/",
    "Pod, Node",
    ANY,
    "an extended resource that stands for devices of a class",
    "Kubernetes, extended resources backed by DRA",
)

# Fields and conditions
NODE_READY: Final = condition(
    "Ready",
    "Node",
    exactly("True", "False", "Unknown"),
    "`True`: the node is ready; anything else: no room, unready time in scale-down",
    "Kubernetes, node controller",
)
NODE_DELETION: Final = field_of(
    "metadata.deletionTimestamp",
    "Node, NodeClaim",
    PRESENT,
    LEAVING,
    "Karpenter, termination; Kubernetes, finalizers",
)
POD_DELETION: Final = field_of(
    "metadata.deletionTimestamp",
    "Pod",
    PRESENT,
    "the pod is ending: it needs no place; it holds its room until it is gone",
    "Kubernetes, kubelet",
)
SPEC_UNSCHEDULABLE: Final = field_of(
    "spec.unschedulable",
    "Node",
    exactly("true", "false"),
    "no pod comes, but those that tolerate it",
    "Kubernetes, NodeUnschedulable",
)
SCHEDULING_GATES: Final = field_of(
    "spec.schedulingGates", "Pod", PRESENT, "the pod does not wait for room yet", "Kubernetes, SchedulingGates"
)
NOMINATED_NODE: Final = field_of(
    "status.nominatedNodeName",
    "Pod",
    SignalValues("the name of a node"),
    "the node holds room for the pod and stays, if the pod fits once pods of lower priority and terminating ones are "
    "gone; else it waits as any other",
    "Kubernetes, scheduler",
)
PREEMPTION_POLICY: Final = field_of(
    "spec.preemptionPolicy",
    "Pod",
    exactly("Never", "PreemptLowerPriority"),
    "`Never`: expendable pods do not give way to it",
    "Kubernetes, scheduler",
)
VPA_UPDATES: Final = annotation(
    "vpaUpdates",
    "Pod",
    PRESENT,
    "a VerticalPodAutoscaler sets the requests of the pod, and of the one in its place: those of the controller's "
    "template do not count",
    "Kubernetes, Vertical Pod Autoscaler",
)
POD_SCHEDULED: Final = condition(
    "PodScheduled",
    "Pod",
    SignalValues("`False` with reason `Unschedulable`, `SchedulingGated`"),
    "why a pod waits",
    "Kubernetes, scheduler",
)
POD_READY: Final = condition(
    "Ready",
    "Pod",
    exactly("True", "False", "Unknown"),
    "budgets count pods that are ready",
    "Kubernetes, disruption controller",
)

SIGNALS: Final = tuple(row for row in vars().copy().values() if isinstance(row, Signal))
