"""Settings for the upkeep of node groups. Durations in seconds."""

from dataclasses import dataclass
from enum import Enum


class BackoffPolicy(Enum):
    """How long a group is backed off after a growth that brought no node."""

    # Until the one node that it still requests joins. Source: the Zalando fork of CA, `--backoff-no-full-scale-down`.
    UNTIL_JOINED = "until-joined"
    # 5 min, doubled each time, at most 30 min. Source: CA, `--initial-node-group-backoff-duration`.
    EXPONENTIAL = "exponential"


@dataclass(frozen=True)
class GroupSettings:
    """Settings for the upkeep of node groups. Seconds. `backoff` : how long a group that got no nodes is not tried
    again.
    """

    backoff: BackoffPolicy = BackoffPolicy.UNTIL_JOINED
    # Time within which a node must join; a group's own option takes precedence. Upstream: --max-node-provision-time.
    max_node_provision_s: float = 900.0
    # Taints that make a node not ready, besides those of the Cluster Autoscaler: keys, or prefixes followed by "*".
    # Upstream: --startup-taint.
    not_ready_taints: tuple[str, ...] = ()
    # Another autoscaler sets the sizes (`--serve-externalgrpc`): target sizes are left to it, and so are instances that
    # never register. Only instances that the cloud itself reports as failed are ended, if the caller has not done so by
    # the time that a node may take to join: it counts on every other one that it has requested.
    sized_by_caller: bool = False
