"""Since when a node is unneeded, and whether that is long enough.

A node that was unneeded in the last loop keeps its time; one that left the set and comes back starts again. A time in
the future (clocks differ) counts as now. Source: Cluster Autoscaler, core/scaledown/unneeded.
"""

import numpy as np

from trimtab.planner.model.settings import ScaleDownSettings
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, Snapshot, UInt8
from trimtab.v1 import reason_pb2

Reason = reason_pb2.UnremovableReason


def since(unneeded: Int32, known: Int32, known_since_ns: Int64, node_count: int, now_ns: int) -> Int64:
    """Return since when each of the nodes `unneeded` : int32[U] has been unneeded. int64[U].

    known : int32[K], known_since_ns : int64[K]  the unneeded nodes of the last loop.
    """
    start = np.full(node_count, now_ns, np.int64)
    start[known] = np.minimum(known_since_ns, now_ns)
    return start[unneeded]


def too_early(
    snapshot: Snapshot, settings: ScaleDownSettings, nodes: Int32, ready: Bool, since_ns: Int64, now_ns: int
) -> UInt8:
    """Return by node why it must wait, an `UnremovableReason.Code`; 0 = it has waited long enough. uint8[U].

    ready : bool[N], as the Cluster Autoscaler counts it.
    """
    of_groups = [settings.of_group(group.id) for group in snapshot.groups]
    rows = [(one.unneeded_time_ns, one.unready_time_ns) for one in [*of_groups, settings.general]]
    times = np.array(rows, np.int64)[snapshot.nodes.group[nodes]]
    needed = np.where(ready[nodes], times[:, 0], times[:, 1])
    reason = np.where(ready[nodes], Reason.NOT_UNNEEDED_LONG_ENOUGH, Reason.NOT_UNREADY_LONG_ENOUGH)
    waiting: UInt8 = np.where(now_ns - since_ns < needed, reason, 0).astype(np.uint8)
    return waiting
