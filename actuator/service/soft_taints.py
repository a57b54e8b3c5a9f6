"""ApplyTaints: the soft taints of the cluster agree with the unneeded set.

Decides which nodes to change this time: a bounded number, taints to take away first (they keep pods off), then by
name. Nodes in deletion keep what they have. Nothing is remembered: the next call looks again. Durations in seconds.
"""

import time
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import structlog

from actuator.kube.cluster import (
    PREFER_NO_SCHEDULE,
    SOFT_TAINT_KEY,
    Cluster,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    Taint,
)
from actuator.service.settings import SoftTaintSettings

log = structlog.get_logger("soft_taints")


class SoftTaintResult(NamedTuple):
    """Nodes that got the taint, lost it, and are left for next time."""

    tainted_count: int
    untainted_count: int
    left_count: int


def apply_soft_taints(
    cluster: Cluster,
    unneeded: AbstractSet[str],
    in_deletion: AbstractSet[str],
    settings: SoftTaintSettings,
    now_s: int,
) -> SoftTaintResult:
    """Change what differs, within the bound; a node that refuses is left. Raises `ClusterError`."""
    until = time.monotonic() + settings.max_s
    nodes = [node for node in cluster.list_nodes() if node.name not in in_deletion]
    to_untaint = [node.name for node in nodes if node.taint(SOFT_TAINT_KEY) and node.name not in unneeded]
    to_taint = [node.name for node in nodes if not node.taint(SOFT_TAINT_KEY) and node.name in unneeded]
    untainted = tainted = 0
    for name in (*to_untaint, *to_taint):
        if untainted + tainted >= settings.max_count or time.monotonic() > until:
            break
        try:
            if name in unneeded:
                tainted += cluster.add_taint(name, Taint(SOFT_TAINT_KEY, str(now_s), PREFER_NO_SCHEDULE))
            else:
                untainted += cluster.remove_taint(name, SOFT_TAINT_KEY)
        except NotFoundError:
            log.info("node is gone", node=name)
        except ForbiddenError:
            raise
        except (RefusedError, ConflictError) as error:
            # This node's affair alone: the others do not wait for it.
            log.warning("soft taint not changed", node=name, detail=str(error))
    return SoftTaintResult(tainted, untainted, len(to_untaint) + len(to_taint) - untainted - tainted)
