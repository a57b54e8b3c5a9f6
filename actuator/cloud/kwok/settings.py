"""How the cloud `kwok` behaves. Durations in seconds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class KwokSettings:
    """How the cloud behaves."""

    # From the growth to the node.
    node_start_s: float = 3.0
    # From the request to the node gone.
    instance_delete_s: float = 2.0
    # Share of calls that fail as if throttled, 0 to 1.
    call_failure_rate: float = 0.0
    # Share of new instances that never come, 0 to 1.
    start_failure_rate: float = 0.0
    # What failures are drawn from.
    seed: int = 0
    # Where the books are kept.
    namespace: str = "kube-system"
    # How often the cloud looks what is due.
    poll_s: float = 0.2
