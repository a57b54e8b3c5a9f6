"""How the cloud `kwok` behaves. Durations in seconds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class KwokSettings:
    """Settings of the cloud."""

    # From the scale-up to the node.
    node_start_s: float = 3.0
    # From the request to the deletion of the node.
    instance_delete_s: float = 2.0
    # Share of calls that fail as if throttled, 0 to 1.
    call_failure_rate: float = 0.0
    # Share of new instances that never start, 0 to 1.
    start_failure_rate: float = 0.0
    # Seed of failures.
    seed: int = 0
    # Namespace of the ledger.
    namespace: str = "kube-system"
    # Pause between resyncs.
    poll_s: float = 0.2
