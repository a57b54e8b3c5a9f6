"""Whether a node has started: it is ready and carries no startup taint. Decides which taints are startup taints: those
of Kubernetes and the Cluster Autoscaler, and those that the settings name. Source: CA, utils/taints (`--startup-taint`,
`--status-taint`), utils/kubernetes (GetReadinessState).
"""

from collections.abc import Sequence
from typing import Final

from trimtab.actuator.kube.cluster import NodeView
from trimtab.common.kubernetes.signals import cluster_autoscaler, karpenter, well_known

_KEYS: Final = frozenset(
    row.key
    for row in (
        well_known.NOT_READY,
        well_known.NETWORK_UNAVAILABLE,
        well_known.UNINITIALIZED,
        cluster_autoscaler.CLUSTER_API_UNINITIALIZED,
        karpenter.UNREGISTERED,
    )
)
_PREFIXES: Final = (
    cluster_autoscaler.IGNORE_TAINT.key,
    cluster_autoscaler.STARTUP_TAINT.key,
    cluster_autoscaler.STATUS_TAINT.key,
)


def is_started(node: NodeView, names: Sequence[str] = ()) -> bool:
    """Return whether a node is ready. names : keys of further taints, or prefixes of keys followed by "*"."""
    return node.ready and not any(_marks_not_ready(taint.key, names) for taint in node.taints)


def _marks_not_ready(key: str, names: Sequence[str]) -> bool:
    if key in _KEYS or key.startswith(_PREFIXES):
        return True
    return any(key.startswith(name[:-1]) if name.endswith("*") else key == name for name in names)
