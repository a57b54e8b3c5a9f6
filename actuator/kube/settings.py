"""How a real cluster is treated, and how its leader is found. Durations in seconds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class KubeSettings:
    """How the actuator treats a cluster."""

    # Also mark a node unschedulable while it carries the hard taint. Upstream: --cordon-node-before-terminating.
    cordon: bool = False
    # Longest silence of a list of many objects.
    list_timeout_s: float = 30.0


@dataclass(frozen=True)
class LeaseSettings:
    """Which Lease, and how patient. The times are client-go's defaults."""

    # Namespace and name of the Lease.
    namespace: str = "kube-system"
    name: str = "trimtab-actuator"
    # Without renewal for so long, others may take over.
    duration_s: float = 15.0
    # Without renewal for so long, a leader counts itself out; less than `duration_s`.
    renew_deadline_s: float = 10.0
    # Between two attempts.
    retry_period_s: float = 2.0
