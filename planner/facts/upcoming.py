"""Upcoming nodes, requested but not able to take pods yet: not registered, or still starting; and overdue groups.

A node starts while it is not ready (`readiness`) and is younger than the longest start. A node that is being deleted is
registered and not starting: as long as its group's target size counts it, no other node comes for it. Requested nodes
no longer count when the group is in back-off, or when its last growth is longer ago than a cloud may take.
Source: Cluster Autoscaler, clusterstate.GetUpcomingNodes and updateReadinessStats. Upstream counts a node that is being
drained as upcoming, so that pods wait for a node that never comes.
"""

import numpy as np

from trimtab.planner.facts.readiness import is_ready, may_start
from trimtab.planner.model.settings import Readiness
from trimtab.planner.snapshot.columns import Bool, Int64, Snapshot
from trimtab.v1.snapshot_pb2 import NodeGroupHealth


def upcoming(snapshot: Snapshot, leaving: Bool, now_ns: int, rules: Readiness) -> Int64:
    """Return the number of upcoming nodes of each group. int64[G], at least 0. leaving : bool[N], being deleted."""
    nodes, groups = snapshot.nodes, snapshot.groups
    starts = starting(snapshot, now_ns, rules) & ~leaving & (nodes.group >= 0)
    missing = unregistered(snapshot)
    missing[overdue(snapshot, now_ns, rules)] = 0
    missing[[group.health == NodeGroupHealth.BACKED_OFF for group in groups]] = 0
    # The cloud removes nodes above the target size, including starting ones.
    target = np.array([group.target_size for group in groups], np.int64)
    coming: Int64 = np.minimum(missing + np.bincount(nodes.group[starts], minlength=len(groups)), target)
    return coming


def overdue(snapshot: Snapshot, now_ns: int, rules: Readiness) -> Bool:
    """Return which groups lack nodes that were requested longer ago than a cloud may take. bool[G]."""
    asked_ns = np.array([group.last_scale_up_ns for group in snapshot.groups], np.int64)
    late: Bool = (unregistered(snapshot) > 0) & (asked_ns > 0) & (now_ns - asked_ns > rules.provision_ns)
    return late


def starting(snapshot: Snapshot, now_ns: int, rules: Readiness) -> Bool:
    """Return which nodes have registered but not started yet. bool[N]. A node of unknown age has started."""
    starts: Bool = may_start(snapshot, rules, now_ns) & ~is_ready(snapshot, rules, now_ns)
    return starts


def unregistered(snapshot: Snapshot) -> Int64:
    """Return how many nodes of each group's target size have not registered. int64[G]."""
    group = snapshot.nodes.group
    registered = np.bincount(group[group >= 0], minlength=len(snapshot.groups))
    target = np.array([one.target_size for one in snapshot.groups], np.int64)
    missing: Int64 = np.maximum(target - registered, 0)
    return missing
