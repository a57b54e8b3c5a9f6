"""DaemonSet pods and static pods, and the DaemonSet of each. The spec of a DaemonSet is its own pod template; where the
snapshot does not have it, that of its newest pod. A DaemonSet with neither is unknown. Cost: O(P + owners), vectorised
over pods; loops run over DaemonSets.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.model.values import TemplatePod
from trimtab.planner.snapshot.columns import FLAG_DAEMON, FLAG_MIRROR, NO_OWNER, UNKNOWN_OWNER, Bool, Int64, Snapshot
from trimtab.planner.snapshot.references import NONE

SYSTEM_NODE_CRITICAL: Final = 2_000_001_000
"""Priority of pods that preempt others on any node, unless their policy forbids it."""


class DaemonPods(NamedTuple):
    """Pods that stay with a node.

    daemon_set : int64[P] number of the DaemonSet of a running DaemonSet pod, NONE for other pods; static : bool[P]
    running mirror pods; templates : the pod template of each DaemonSet, None = the snapshot does not have it; newest :
    its newest pod, NONE = it has no pod.
    """

    daemon_set: Int64
    static: Bool
    templates: tuple[TemplatePod | None, ...]
    newest: tuple[int, ...]


def daemon_pods(snapshot: Snapshot) -> DaemonPods:
    """Return the DaemonSet pods and static pods that have not ended and are not terminating, and all DaemonSets with a
    template or such a pod, in the order of owners.
    """
    pods = snapshot.pods
    runs = ~pods.is_terminal() & (pods.deletion_s == 0)
    static = runs & ((pods.flags & FLAG_MIRROR) != 0)
    rows = np.flatnonzero(runs & ~static & ((pods.flags & FLAG_DAEMON) != 0) & (pods.owner != NO_OWNER))
    # Controllers that the snapshot does not list can still be distinguished by their uids.
    owner = pods.owner.astype(np.int64)
    dangling = snapshot.dangling.owner
    owner[dangling.row] = len(snapshot.owners) + dangling.name
    kept = rows[owner[rows] != UNKNOWN_OWNER]
    newest = kept[np.lexsort((kept, -pods.created_s[kept]))]
    having, first = np.unique(owner[newest], return_index=True)
    templates = {at: one.pod_template for at, one in enumerate(snapshot.owners) if one.pod_template is not None}
    known = np.union1d(having, np.array(list(templates), np.int64))
    of = np.full(len(pods.spec), NONE, np.int64)
    of[kept] = np.searchsorted(known, owner[kept])
    newest_of = np.full(len(known), NONE, np.int64)
    newest_of[np.searchsorted(known, having)] = newest[first]
    return DaemonPods(of, static, tuple(templates.get(at) for at in known.tolist()), tuple(newest_of.tolist()))
