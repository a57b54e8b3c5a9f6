"""Which nodes are ready: those with the condition Ready and without a startup or status taint. Such a taint, built in
or named in the settings, makes a node unready: it offers no room, counts as upcoming only as long as a start may take,
and is scaled down like an unready node. The number of unready nodes decides whether a cluster is healthy enough for
scale-down. Decides nothing else. Source: Cluster Autoscaler, utils/kubernetes GetReadinessState,
clusterstate.IsClusterHealthy; for taints named in settings, its Zalando fork.
"""

from typing import Final

import numpy as np

from trimtab.planner.facts.transient_taints import marks_not_ready
from trimtab.planner.model.settings import SECOND_NS, TaintNames
from trimtab.planner.snapshot.columns import Bool, Snapshot

LONGEST_START_NS: Final = 15 * 60 * SECOND_NS
"""`--max-node-startup-time`."""


def is_ready(snapshot: Snapshot, names: TaintNames) -> Bool:
    """Return which nodes are ready. bool[N]. names : taints named in the settings."""
    sets = [any(marks_not_ready(taint.key, names) for taint in taints) for taints in snapshot.nodes.taint_sets]
    ready: Bool = snapshot.nodes.ready & ~np.array([*sets, False], bool)[snapshot.nodes.taint_set]
    return ready


def may_start(snapshot: Snapshot, now_ns: int) -> Bool:
    """Return which nodes are so young that they may still be starting. bool[N]. A node of unknown age has started."""
    created_ns = snapshot.nodes.created_ns
    young: Bool = (created_ns > 0) & (now_ns - created_ns < LONGEST_START_NS)
    return young


def unhealthy(unready: Bool, max_share: float, ok_count: int) -> str:
    """Return why a cluster is not healthy, "" = it is. unready : bool[N], nodes that should be ready and are not."""
    count, total = int(unready.sum()), len(unready)
    if count <= ok_count or count <= max_share * total:
        return ""
    return f"{count} of {total} nodes are unready; no node is removed while more than {max_share:.0%} are"
