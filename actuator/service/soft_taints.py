"""ApplyTaints: make the soft taints of the cluster match the unneeded set. Decides which nodes one call changes: up to
a limit, removals first (these taints keep pods off), then by name. Nodes being deleted are not changed. Nothing is
stored: the next call reads the nodes again. Durations in seconds.
"""

import time
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import structlog

from trimtab.actuator.kube.cluster import (
    PREFER_NO_SCHEDULE,
    ClusterApi,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    TaintView,
)
from trimtab.actuator.service.settings import WriteLimits
from trimtab.common.kubernetes.names import HARD_TAINT_KEY, SOFT_TAINT_KEY

log = structlog.get_logger("soft_taints")


class SoftTaintResult(NamedTuple):
    """Numbers of nodes: `tainted_count`, `untainted_count`, and `left_count` for the next call. `hard_tainted` : names
    of nodes with the hard taint that are not being deleted.
    """

    tainted_count: int
    untainted_count: int
    left_count: int
    hard_tainted: frozenset[str] = frozenset()


def apply_soft_taints(
    cluster: ClusterApi,
    unneeded: AbstractSet[str],
    in_deletion: AbstractSet[str],
    settings: WriteLimits,
    now_s: int,
) -> SoftTaintResult:
    """Update the nodes that differ, within the limits; skip nodes that refuse. Raises `ClusterError`."""
    until = time.monotonic() + settings.max_s
    nodes = cluster.list_nodes()
    tainted_nodes = [node for node in nodes if node.taints and node.name not in in_deletion]
    soft_tainted = {node.name for node in tainted_nodes if node.taint(SOFT_TAINT_KEY)}
    to_untaint = [node.name for node in tainted_nodes if node.name in soft_tainted and node.name not in unneeded]
    wanted = unneeded - soft_tainted - in_deletion
    to_taint = [node.name for node in nodes if node.name in wanted] if wanted else []
    untainted = tainted = 0
    for name in (*to_untaint, *to_taint):
        if untainted + tainted >= settings.max_count or time.monotonic() > until:
            break
        try:
            if name in unneeded:
                tainted += cluster.add_taint(name, TaintView(SOFT_TAINT_KEY, str(now_s), PREFER_NO_SCHEDULE))
            else:
                untainted += cluster.remove_taint(name, SOFT_TAINT_KEY)
        except NotFoundError:
            log.info("node is gone", node=name)
        except ForbiddenError:
            raise
        except (RefusedError, ConflictError) as error:
            # Only this node is affected: the others do not wait for it.
            log.warning("soft taint not changed", node=name, detail=str(error))
    left = len(to_untaint) + len(to_taint) - untainted - tainted
    hard_tainted = frozenset(node.name for node in tainted_nodes if node.taint(HARD_TAINT_KEY))
    return SoftTaintResult(tainted, untainted, left, hard_tainted)
