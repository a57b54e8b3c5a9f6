"""Settings of the client of a live cluster. Durations in seconds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class KubeSettings:
    """Settings of the client of a live cluster."""

    # Also mark a node unschedulable while it carries the hard taint. Upstream: --cordon-node-before-terminating.
    cordon: bool = False
    # Longest silence of a list of many objects.
    list_timeout_s: float = 30.0
