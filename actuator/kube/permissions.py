"""Permissions that the actuator needs.

Decides the rules: `deploy/` grants exactly these. Never acts.
"""

from trimtab.clients.kubernetes.permissions import own_object
from trimtab.clients.kubernetes.rules import Rule

# Additional permissions for pod deletion costs; not required at the start.
POD_COSTS = (
    Rule("", "pods", ("get", "patch")),
    Rule("trimtab.dev", "podgroupcosts", ("list", "create", "patch", "delete")),
    Rule("trimtab.dev", "podgroupcosts/status", ("patch",)),
)

# Additional permissions for the status of CapacityBuffers; not required at the start.
BUFFERS = (
    Rule("autoscaling.x-k8s.io", "capacitybuffers", ("list",)),
    Rule("autoscaling.x-k8s.io", "capacitybuffers/status", ("patch",)),
)

# Permissions that every actuator needs.
ACTUATOR = (
    Rule("", "nodes", ("get", "list", "patch", "delete")),
    Rule("", "pods", ("list",)),
    Rule("", "pods/eviction", ("create",)),
)


def kwok_rules(namespace: str, ledger: str) -> tuple[Rule, ...]:
    """Return the permissions for the cloud `kwok`, which creates nodes and keeps its ledger in that ConfigMap."""
    return (Rule("", "nodes", ("create",)), *own_object("", "configmaps", ("get", "update"), namespace, ledger))


def clusterapi_rules(namespace: str) -> tuple[Rule, ...]:
    """Return the permissions for the cloud `clusterapi` in the management cluster; `namespace` "" = all."""
    kinds = ("machinedeployments", "machinepools", "machines")
    return tuple(Rule("cluster.x-k8s.io", kind, ("list", "patch"), namespace) for kind in kinds)
