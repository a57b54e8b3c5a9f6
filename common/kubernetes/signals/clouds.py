"""Signals of cloud providers: labels of their nodes, and taints of what ends nodes there."""

from typing import Final

from trimtab.common.kubernetes.signals.signal import ANY, LEAVING, OF_MACHINES, PRESENT, Signal, exactly, label, taint

_SIMILAR: Final = "Cluster Autoscaler, nodegroupset"
_SIMILAR_EFFECT: Final = "not compared between groups"
_OF_POOLS: Final = "groups by label, where the input names none"
_SPOT: Final = "spot: prices and offerings; replacement: rules of spot"

# Taints of nodes that the cloud takes away
IMPENDING_TERMINATION: Final = taint(
    "cloud.google.com/impending-node-termination",
    "Node",
    PRESENT,
    LEAVING,
    "Google Kubernetes Engine, graceful termination",
)
SHUTDOWN: Final = taint(
    "node.cloudprovider.kubernetes.io/shutdown",
    "Node",
    PRESENT,
    LEAVING,
    "Kubernetes, cloud node lifecycle controller",
)
TERMINATION_HANDLER: Final = taint(
    "aws-node-termination-handler/", "Node", PRESENT, LEAVING, "AWS node termination handler"
)
AZURE_SCHEDULED_EVENT: Final = taint(
    "remediator.kubernetes.azure.com/unschedulable",
    "Node",
    PRESENT,
    LEAVING,
    "Azure Kubernetes Service, node auto-drain",
)

# Labels of nodes
EKS_CAPACITY_TYPE: Final = label(
    "eks.amazonaws.com/capacityType",
    "Node",
    exactly("SPOT", "ON_DEMAND", "CAPACITY_BLOCK"),
    _SPOT,
    "Amazon EKS, managed node groups",
)
EKS_PREFIX: Final = label("eks.amazonaws.com/", "NodePool", ANY, OF_MACHINES, "Amazon EKS")
EKS_NODE_GROUP: Final = label("eks.amazonaws.com/nodegroup", "Node", ANY, f"{_OF_POOLS}; {_SIMILAR_EFFECT}", _SIMILAR)
EKSCTL_INSTANCE: Final = label("alpha.eksctl.io/instance-id", "Node", ANY, _SIMILAR_EFFECT, _SIMILAR)
EKSCTL_GROUP: Final = label("alpha.eksctl.io/nodegroup-name", "Node", ANY, f"{_OF_POOLS}; {_SIMILAR_EFFECT}", _SIMILAR)
ENI_CONFIG: Final = label("k8s.amazonaws.com/eniConfig", "Node", ANY, _SIMILAR_EFFECT, _SIMILAR)
AWS_ACCELERATOR: Final = label(
    "k8s.amazonaws.com/accelerator", "Node", ANY, "new nodes with GPUs have it", "Cluster Autoscaler, cloudprovider/aws"
)
AWS_EBS_ZONE: Final = label(
    "topology.ebs.csi.aws.com/zone", "Node", ANY, "zone of volumes; " + _SIMILAR_EFFECT, "AWS EBS CSI driver"
)
AWS_TOPOLOGY: Final = label("topology.k8s.aws/", "NodePool", ANY, OF_MACHINES, "Karpenter, AWS provider")
AWS_ZONE_ID: Final = label("topology.k8s.aws/zone-id", "Node", ANY, _SIMILAR_EFFECT, _SIMILAR)
KOPS_GROUP: Final = label("kops.k8s.io/instancegroup", "Node", ANY, f"{_OF_POOLS}; {_SIMILAR_EFFECT}", _SIMILAR)
GKE_SPOT: Final = label(
    "cloud.google.com/gke-spot", "Node", exactly("true", "false"), _SPOT, "Google Kubernetes Engine"
)
GKE_PREEMPTIBLE: Final = label(
    "cloud.google.com/gke-preemptible",
    "Node",
    exactly("true", "false"),
    "spot: prices and offerings",
    "Google Kubernetes Engine",
)
GKE_ACCELERATOR: Final = label(
    "cloud.google.com/gke-accelerator", "Node", ANY, "the node has GPUs, and is counted so", "Google Kubernetes Engine"
)
GKE_POOL: Final = label("cloud.google.com/gke-nodepool", "Node", ANY, _OF_POOLS, "Google Kubernetes Engine")
GKE_ZONE: Final = label("topology.gke.io/zone", "Node", ANY, "zone of volumes; " + _SIMILAR_EFFECT, "GCE PD CSI driver")
AZURE_PRIORITY: Final = label(
    "kubernetes.azure.com/scalesetpriority", "Node", exactly("spot", "regular"), _SPOT, "Azure Kubernetes Service"
)
AZURE_POOL: Final = label(
    "kubernetes.azure.com/agentpool",
    "Node",
    ANY,
    f"{_OF_POOLS}; groups of one pool are similar; {_SIMILAR_EFFECT}",
    _SIMILAR,
)
AZURE_OLD_POOL: Final = label(
    "agentpool", "Node", ANY, f"{_OF_POOLS}; groups of one pool are similar; {_SIMILAR_EFFECT}", _SIMILAR
)
AZURE_PROPERTIES: Final = label(
    "kubernetes.azure.com/consolidated-additional-properties", "Node", ANY, _SIMILAR_EFFECT, _SIMILAR
)
AZURE_IMAGE: Final = label("kubernetes.azure.com/node-image-version", "Node", ANY, _SIMILAR_EFFECT, _SIMILAR)
AZURE_DISK_ZONE: Final = label("topology.disk.csi.azure.com/zone", "Node", ANY, _SIMILAR_EFFECT, _SIMILAR)
AZURE_ENGINE: Final = label("aksEngineVersion", "Node", ANY, _SIMILAR_EFFECT, _SIMILAR)
AZURE_SOURCE: Final = label("creationSource", "Node", ANY, _SIMILAR_EFFECT, _SIMILAR)
AZURE_POOL_NAME: Final = label("poolName", "Node", ANY, _SIMILAR_EFFECT, _SIMILAR)
AZURE_SUFFIX: Final = label("resourceNameSuffix", "Node", ANY, _SIMILAR_EFFECT, _SIMILAR)
LIFECYCLE: Final = label("lifecycle", "Node", ANY, _SIMILAR_EFFECT, _SIMILAR)
CINDER_ZONE: Final = label(
    "topology.cinder.csi.openstack.org/zone", "Node", ANY, "zone of volumes", "Cinder CSI driver"
)
NVIDIA_PRODUCT: Final = label(
    "nvidia.com/gpu.product",
    "Node",
    ANY,
    "kinds of GPUs in templates that the actuator learns",
    "NVIDIA GPU feature discovery",
)
GARDENER_POOL: Final = label("worker.gardener.cloud/pool", "Node", ANY, _OF_POOLS, "Gardener")
KWOK_NODE: Final = label("kwok.x-k8s.io/node", "Node", ANY, "written on nodes of the kwok provider", "kwok")

SIGNALS: Final = tuple(row for row in vars().copy().values() if isinstance(row, Signal))
