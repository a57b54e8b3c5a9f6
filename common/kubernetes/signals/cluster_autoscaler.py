"""Signals of the Cluster Autoscaler, of its cloud provider for Cluster API, and of forks of it."""

from typing import Final

from trimtab.common.kubernetes.signals.signal import (
    ANY,
    PRESENT,
    TRUE,
    TRUE_OR_FALSE,
    Signal,
    SignalValues,
    annotation,
    exactly,
    label,
    taint,
)

_TAINTS: Final = "Cluster Autoscaler, utils/taints"
_RULES: Final = "Cluster Autoscaler, simulator/drainability"
_REQUESTS: Final = "Cluster Autoscaler, provisioningrequest"
_STARTUP: Final = "the node is not ready: no room, upcoming while it may still be starting; new nodes do not have it"
_CLUSTER_API: Final = "Cluster Autoscaler, cloudprovider/clusterapi"
_DURATION: Final = SignalValues("a Go duration, such as `10m`; others with a note")

# Taints of nodes
TO_BE_DELETED: Final = taint(
    "ToBeDeletedByClusterAutoscaler",
    "Node",
    SignalValues("a time, Unix seconds"),
    "the node is leaving, for five minutes from that time, always if it is none",
    _TAINTS,
)
DELETION_CANDIDATE: Final = taint(
    "DeletionCandidateOfClusterAutoscaler",
    "Node",
    PRESENT,
    "new nodes do not have it; set by the actuator; `trimtab run --act steer`: the autoscaler may remove the node",
    _TAINTS,
)
IGNORE_TAINT: Final = taint("ignore-taint.cluster-autoscaler.kubernetes.io/", "Node", PRESENT, _STARTUP, _TAINTS)
STARTUP_TAINT: Final = taint("startup-taint.cluster-autoscaler.kubernetes.io/", "Node", PRESENT, _STARTUP, _TAINTS)
STATUS_TAINT: Final = taint(
    "status-taint.cluster-autoscaler.kubernetes.io/",
    "Node",
    PRESENT,
    "the node is not ready; new nodes do not have it",
    _TAINTS,
)

# Annotations of nodes
SCALE_DOWN_DISABLED: Final = annotation(
    "cluster-autoscaler.kubernetes.io/scale-down-disabled",
    "Node",
    TRUE,
    "scale-down and replacement: the node stays",
    "Cluster Autoscaler, eligibility",
)
DELAY_DELETION: Final = annotation(
    "delay-deletion.cluster-autoscaler.kubernetes.io/",
    "Node",
    PRESENT,
    "the actuator waits with deleting the machine until it is gone",
    "Cluster Autoscaler, actuation",
)

# Annotations of pods
SAFE_TO_EVICT: Final = annotation(
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "Pod",
    exactly("true", "false", "on-completion"),
    "`true`: the pod may be evicted whatever other rules say; `false`: its node stays; `on-completion`: until it ends",
    _RULES,
)
SAFE_TO_EVICT_VOLUMES: Final = annotation(
    "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes",
    "Pod",
    SignalValues(
        "names of volumes, with commas and without blanks",
        lambda value: not any(part != part.strip() for part in value.split(",")),
    ),
    "local storage in these volumes keeps no node",
    _RULES,
)
DAEMONSET_POD: Final = annotation(
    "cluster-autoscaler.kubernetes.io/daemonset-pod",
    "Pod",
    TRUE,
    "`true`: the pod counts as one of a DaemonSet",
    "Cluster Autoscaler, utils/pod",
)
DS_EVICTION: Final = annotation(
    "cluster-autoscaler.kubernetes.io/enable-ds-eviction",
    "Pod",
    TRUE_OR_FALSE,
    "whether the actuator evicts a DaemonSet's pod in a drain",
    "Cluster Autoscaler, utils/daemonset",
)
POD_SCALE_UP_DELAY: Final = annotation(
    "cluster-autoscaler.kubernetes.io/pod-scale-up-delay",
    "Pod",
    _DURATION,
    "scale-up: no node is added for the pod before",
    "Cluster Autoscaler, filter out young pods",
)
CONSUME_REQUEST: Final = annotation(
    "autoscaling.x-k8s.io/consume-provisioning-request",
    "Pod",
    ANY,
    "the pod uses what a ProvisioningRequest has booked",
    _REQUESTS,
)
OLD_CONSUME_REQUEST: Final = annotation(
    "cluster-autoscaler.kubernetes.io/consume-provisioning-request", "Pod", ANY, "as above, older", _REQUESTS
)
SPREAD_TIMEOUT: Final = annotation(
    "zalando.org/topology-spread-timeout",
    "Pod",
    _DURATION,
    "scale-up: zone spread is dropped for a pod that has waited so long, where the settings say so",
    "Zalando's fork",
)
SCALING_PRIORITY: Final = label(
    "zalando.org/scaling-priority",
    "Node",
    SignalValues("a whole number"),
    "expander `priority` by label: higher goes first",
    "Zalando's fork",
)

# Requests for capacity
ACTIVE_CAPACITY: Final = label(
    "buffer.x-k8s.io/active-capacity",
    "CapacityBuffer",
    ANY,
    "the strategy whose buffers are read, and the one without a name",
    "Cluster Autoscaler, CapacityBuffer",
)

# Cluster API and tags of AWS
NODE_GROUP_MIN: Final = annotation(
    "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size",
    "MachineDeployment, MachinePool",
    SignalValues("a whole number"),
    "minimum of the node group",
    _CLUSTER_API,
)
NODE_GROUP_MAX: Final = annotation(
    "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size",
    "MachineDeployment, MachinePool",
    SignalValues("a whole number above 0"),
    "maximum of the node group; none: it is no group",
    _CLUSTER_API,
)
NODE_GROUP_PREFIX: Final = annotation(
    "cluster.x-k8s.io/cluster-api-autoscaler-node-group",
    "MachineDeployment",
    ANY,
    "written by exports of right-sizing",
    _CLUSTER_API,
)
GROUP_OPTIONS: Final = annotation(
    "cluster.x-k8s.io/autoscaling-options-",
    "MachineDeployment, MachinePool",
    ANY,
    "options of the group's scale-down",
    _CLUSTER_API,
)
CSI_DRIVERS: Final = annotation(
    "capacity.cluster-autoscaler.kubernetes.io/csi-driver",
    "NodeGroup, spec.template",
    SignalValues("`DRIVER=COUNT`, several with commas"),
    "how many volumes of each CSI driver a new node of the group attaches",
    _CLUSTER_API,
)
TEMPLATE_CAPACITY: Final = annotation(
    "capacity.cluster-autoscaler.kubernetes.io/",
    "MachineDeployment, MachinePool",
    SignalValues("an amount"),
    "what a new node of the group has",
    _CLUSTER_API,
)
CLUSTER_NAME: Final = label(
    "cluster.x-k8s.io/cluster-name", "Machine", ANY, "the cluster whose machines these are", _CLUSTER_API
)
CLUSTER_API_UNINITIALIZED: Final = taint(
    "node.cluster.x-k8s.io/uninitialized", "Node", PRESENT, _STARTUP, "Cluster API, MachineSet"
)
DELETE_MACHINE: Final = annotation(
    "cluster.x-k8s.io/delete-machine",
    "Machine",
    PRESENT,
    "the machine goes first when replicas are lowered; set by the actuator",
    _CLUSTER_API,
)
DEPLOYMENT_NAME: Final = label(
    "cluster.x-k8s.io/deployment-name", "Machine", ANY, "the MachineDeployment of a machine", _CLUSTER_API
)
POOL_NAME: Final = label("cluster.x-k8s.io/pool-name", "Machine", ANY, "the MachinePool of a machine", _CLUSTER_API)
AWS_TEMPLATE: Final = label(
    "k8s.io/cluster-autoscaler/node-template/",
    "tag of an Auto Scaling group",
    ANY,
    "labels, taints, amounts and options of new nodes",
    "Cluster Autoscaler, cloudprovider/aws",
)

SIGNALS: Final = tuple(row for row in vars().copy().values() if isinstance(row, Signal))
