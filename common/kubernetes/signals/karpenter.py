"""Signals of Karpenter and of its cloud providers."""

from typing import Final

from trimtab.common.kubernetes.signals.signal import (
    ANY,
    LEAVING,
    OF_MACHINES,
    PRESENT,
    Signal,
    SignalValues,
    annotation,
    condition,
    exactly,
    finalizer,
    label,
    matches,
    taint,
)

_LABELS: Final = "Karpenter, apis/v1/labels"
_TAINTS: Final = "Karpenter, apis/v1/taints"

DO_NOT_DISRUPT: Final = annotation(
    "karpenter.sh/do-not-disrupt",
    "Pod, Node",
    SignalValues(
        "`true`; on pods also a Go duration from the pod's start, such as `10m`; `false` as if absent",
        matches(r"true|false|([0-9.]+(ns|us|µs|ms|s|m|h))+"),
    ),
    "scale-down and replacement: a node with it stays, and one of Karpenter with such a pod; elsewhere a note",
    "Karpenter, disruption",
)
DISRUPTION_COST: Final = annotation(
    "karpenter.sh/disruption-cost",
    "Pod",
    SignalValues("a number"),
    "replacement: cost of evicting the pod, in place of its deletion cost",
    "Karpenter, disruption cost",
)
NODE_POOL: Final = label(
    "karpenter.sh/nodepool",
    "Node, NodeClaim",
    ANY,
    "the NodePool, whose disruption settings and budgets hold; groups by label, where the input names none",
    _LABELS,
)
CAPACITY_TYPE: Final = label(
    "karpenter.sh/capacity-type",
    "Node, NodeClaim",
    exactly("on-demand", "spot", "reserved"),
    "offerings and prices; replacement: rules of spot",
    _LABELS,
)
DISRUPTED: Final = taint("karpenter.sh/disrupted", "Node", PRESENT, LEAVING, _TAINTS)
OLD_DISRUPTION: Final = taint("karpenter.sh/disruption", "Node", PRESENT, LEAVING, _TAINTS)
UNREGISTERED: Final = taint(
    "karpenter.sh/unregistered",
    "Node",
    PRESENT,
    "the node is not ready: upcoming for 15 minutes, then it is leaving",
    _TAINTS,
)
TERMINATION: Final = finalizer(
    "karpenter.sh/termination",
    "Node",
    PRESENT,
    "keeps a deleted node until it is drained; the deletion's time is what counts",
    "Karpenter, termination",
)
PREFIX: Final = label("karpenter.sh/", "Node", ANY, "labels of Karpenter that right-sizing does not copy", _LABELS)

POOL_READY: Final = condition(
    "Ready",
    "NodePool",
    exactly("True", "False", "Unknown"),
    "`False`: the pool gets no new nodes",
    "Karpenter, provisioner",
)

AWS_PREFIX: Final = label("karpenter.k8s.aws/", "NodePool", ANY, OF_MACHINES, _LABELS)
AWS_INSTANCE: Final = label("karpenter.k8s.aws/instance-", "NodePool", ANY, OF_MACHINES, _LABELS)
AWS_CATEGORY: Final = label("karpenter.k8s.aws/instance-category", "NodePool", ANY, OF_MACHINES, _LABELS)
AWS_CPU: Final = label("karpenter.k8s.aws/instance-cpu", "NodePool", ANY, OF_MACHINES, _LABELS)
AWS_FAMILY: Final = label("karpenter.k8s.aws/instance-family", "NodePool", ANY, OF_MACHINES, _LABELS)
AWS_GENERATION: Final = label("karpenter.k8s.aws/instance-generation", "NodePool", ANY, OF_MACHINES, _LABELS)
AWS_MEMORY: Final = label("karpenter.k8s.aws/instance-memory", "NodePool", ANY, OF_MACHINES, _LABELS)
AWS_SIZE: Final = label("karpenter.k8s.aws/instance-size", "NodePool", ANY, OF_MACHINES, _LABELS)
AZURE_PREFIX: Final = label("karpenter.azure.com/", "NodePool", ANY, OF_MACHINES, _LABELS)
AZURE_SKU: Final = label("karpenter.azure.com/sku-", "NodePool", ANY, OF_MACHINES, _LABELS)
GCP_PREFIX: Final = label("karpenter.k8s.gcp/", "NodePool", ANY, OF_MACHINES, _LABELS)
GCP_INSTANCE: Final = label("karpenter.k8s.gcp/instance-", "NodePool", ANY, OF_MACHINES, _LABELS)

SIGNALS: Final = tuple(row for row in vars().copy().values() if isinstance(row, Signal))
