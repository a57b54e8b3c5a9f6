"""Upcoming nodes, requested but not able to take pods yet: not registered, or still starting.

A node starts while it is not ready (`readiness`) and is younger than the longest start. A node that is being deleted is
registered and not starting: as long as its group's target size counts it, no other node comes for it. Requested nodes
no longer count when the group is in back-off, or when its last growth is longer ago than a cloud may take.
Source: Cluster Autoscaler, clusterstate.GetUpcomingNodes and updateReadinessStats. Upstream counts a node that is being
drained as upcoming, so that pods wait for a node that never comes.
"""

from typing import Final

import numpy as np

from trimtab.planner.facts.nodes import is_ready, may_start
from trimtab.planner.model.settings import SECOND_NS, TaintNames
from trimtab.planner.snapshot.columns import Bool, Int64, Snapshot
from trimtab.v1.snapshot_pb2 import NodeGroupHealth

LONGEST_PROVISION_NS: Final = 15 * 60 * SECOND_NS
"""`--max-node-provision-time`."""


def upcoming(snapshot: Snapshot, leaving: Bool, now_ns: int, not_ready: TaintNames) -> Int64:
    """Return the number of upcoming nodes of each group. int64[G], at least 0.

    leaving : bool[N], nodes that are being deleted; not_ready : taints that make a node not ready.
    """
    nodes, groups = snapshot.nodes, snapshot.groups
    registered = np.bincount(nodes.group[nodes.group >= 0], minlength=len(groups))
    starts = starting(snapshot, now_ns, not_ready) & ~leaving & (nodes.group >= 0)
    target = np.array([group.target_size for group in groups], np.int64)
    missing = np.maximum(target - registered, 0)
    missing[[_is_given_up(group.health, group.last_scale_up_ns, now_ns) for group in groups]] = 0
    # The cloud removes nodes above the target size, including starting ones.
    coming: Int64 = np.minimum(missing + np.bincount(nodes.group[starts], minlength=len(groups)), target)
    return coming


def starting(snapshot: Snapshot, now_ns: int, not_ready: TaintNames) -> Bool:
    """Return which nodes have registered but not started yet. bool[N]. A node of unknown age has started."""
    starts: Bool = may_start(snapshot, now_ns) & ~is_ready(snapshot, not_ready)
    return starts


def _is_given_up(health: int, last_scale_up_ns: int, now_ns: int) -> bool:
    if health == NodeGroupHealth.BACKED_OFF:
        return True
    return last_scale_up_ns > 0 and now_ns - last_scale_up_ns > LONGEST_PROVISION_NS
