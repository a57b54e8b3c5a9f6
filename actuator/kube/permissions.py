"""Permissions that the actuator needs, whatever the cloud; a cloud's own are in its entry.

Decides the rules: `deploy/` grants exactly these. Never acts.
"""

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
