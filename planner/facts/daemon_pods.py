"""DaemonSet pods and static pods, and the DaemonSet of each. Decides nothing about nodes. The spec of a DaemonSet is
that of its newest pod, so a DaemonSet without pods is not known. Cost: O(P), vectorised; loops run over DaemonSets.
"""

from typing import Final, NamedTuple

import numpy as np

from planner.snapshot.columns import FLAG_DAEMON, FLAG_MIRROR, UNKNOWN_OWNER, Bool, Int32, Int64, Snapshot

SYSTEM_NODE_CRITICAL: Final = 2_000_001_000
"""Priority of pods that preempt others on any node, unless their policy forbids it."""


class DaemonPods(NamedTuple):
    """Pods that stay with a node.

    daemon_set : int64[P] number of the DaemonSet of a running DaemonSet pod, NONE for other pods; static : bool[P]
    running mirror pods; example : int32[D] the newest pod of each DaemonSet.
    """

    daemon_set: Int64
    static: Bool
    example: Int32


NONE: Final = -1


def daemon_pods(snapshot: Snapshot) -> DaemonPods:
    """Return the DaemonSet pods and static pods that have not ended and are not terminating."""
    pods = snapshot.pods
    runs = ~pods.is_terminal() & (pods.deletion_s == 0)
    static = runs & ((pods.flags & FLAG_MIRROR) != 0)
    rows = np.flatnonzero(runs & ~static & ((pods.flags & FLAG_DAEMON) != 0) & (pods.owner != NONE))
    # Controllers that the snapshot does not list can still be distinguished by their uids.
    owner = pods.owner.astype(np.int64)
    dangling = snapshot.dangling.owner
    owner[dangling.row] = len(snapshot.owners) + dangling.name
    kept = rows[owner[rows] != UNKNOWN_OWNER]
    newest = kept[np.lexsort((kept, -pods.created_s[kept]))]
    known, first = np.unique(owner[newest], return_index=True)
    of = np.full(len(pods.spec), NONE, np.int64)
    of[kept] = np.searchsorted(known, owner[kept])
    return DaemonPods(of, static, newest[first].astype(np.int32))
