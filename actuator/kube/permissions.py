"""What the actuator must be allowed to do.

Decides the rules: `deploy/` grants exactly these. Never acts.
"""

from clients.kubernetes_api.permissions import Rule

# What every actuator needs.
ACTUATOR = (
    Rule("", "nodes", ("get", "list", "patch", "delete")),
    Rule("", "pods", ("get", "list", "patch")),
    Rule("", "pods/eviction", ("create",)),
)


def kwok_rules(namespace: str) -> tuple[Rule, ...]:
    """What the cloud `kwok` needs: it makes nodes, and keeps its books in a ConfigMap."""
    return (Rule("", "nodes", ("create",)), Rule("", "configmaps", ("get", "create", "update"), namespace))
