"""Nodes that were asked of the cloud and cannot take pods yet: not registered, or registered and still starting.

A node starts while it is not ready, or has a start-up taint, and is younger than the longest start. A node that is
being deleted is registered and does not start: as long as its group's target size counts it, no other node comes for
it. What was asked is given up when the group is in back-off, or longer after its last growth than a cloud may take.
Source: Cluster Autoscaler, clusterstate.GetUpcomingNodes and updateReadinessStats. Upstream counts a node that is being
drained as one to come, so that pods wait for a node that never comes.
"""

from typing import Final

import numpy as np
from trimtab.v1.snapshot_pb2 import NodeGroupHealth

from planner.facts.transient_taints import is_startup_taint
from planner.model.settings import SECOND_NS, TaintNames
from planner.snapshot.columns import Bool, Int64, Snapshot

LONGEST_START_NS: Final = 15 * 60 * SECOND_NS
"""`--max-node-startup-time`."""
LONGEST_PROVISION_NS: Final = 15 * 60 * SECOND_NS
"""`--max-node-provision-time`."""


def upcoming(snapshot: Snapshot, leaving: Bool, now_ns: int, startup: TaintNames) -> Int64:
    """Return how many nodes of each group are to come. int64[G], at least 0.

    leaving : bool[N], nodes that are being deleted; startup : names of start-up taints.
    """
    nodes, groups = snapshot.nodes, snapshot.groups
    registered = np.bincount(nodes.group[nodes.group >= 0], minlength=len(groups))
    starts = starting(snapshot, now_ns, startup) & ~leaving & (nodes.group >= 0)
    target = np.array([group.target_size for group in groups], np.int64)
    missing = np.maximum(target - registered, 0)
    missing[[_is_given_up(group.health, group.last_scale_up_ns, now_ns) for group in groups]] = 0
    # Nodes above the target size are the cloud's to remove, starting ones too.
    coming: Int64 = np.minimum(missing + np.bincount(nodes.group[starts], minlength=len(groups)), target)
    return coming


def starting(snapshot: Snapshot, now_ns: int, startup: TaintNames) -> Bool:
    """Return which nodes have registered and are not started yet. bool[N]. A node of unknown age has started."""
    nodes = snapshot.nodes
    young = (nodes.created_ns > 0) & (now_ns - nodes.created_ns < LONGEST_START_NS)
    starts: Bool = young & (~nodes.ready | has_startup_taint(snapshot, startup))
    return starts


def has_startup_taint(snapshot: Snapshot, startup: TaintNames) -> Bool:
    """Return which nodes have a start-up taint. bool[N]."""
    sets = [any(is_startup_taint(taint.key, startup) for taint in taints) for taints in snapshot.nodes.taint_sets]
    return np.array([*sets, False], bool)[snapshot.nodes.taint_set]


def _is_given_up(health: int, last_scale_up_ns: int, now_ns: int) -> bool:
    if health == NodeGroupHealth.BACKED_OFF:
        return True
    return last_scale_up_ns > 0 and now_ns - last_scale_up_ns > LONGEST_PROVISION_NS
