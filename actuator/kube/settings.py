"""How a real cluster is treated. Durations in seconds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class KubeSettings:
    """How the actuator treats a cluster."""

    # Also mark a node unschedulable while it carries the hard taint. Upstream: --cordon-node-before-terminating.
    cordon: bool = False
    # Longest silence of a list of many objects.
    list_timeout_s: float = 30.0
