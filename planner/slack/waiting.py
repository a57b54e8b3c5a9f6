"""Real pods before placeholders: waiting pods are placed first.

Pods of nodes being deleted, recently evicted pods and pending pods are placed wherever there is room, including
upcoming nodes. They stay there for later decisions. Decides nothing about placeholders. Pending pods always win.
"""

from functools import partial

import numpy as np

from trimtab.planner.placement.waiting import close_leaving, place_waiting, places, pods_to_move
from trimtab.planner.round.round import Round
from trimtab.planner.snapshot.columns import FLAG_GATED, NO_NODE, Bool, Int32, Snapshot


def place_pods(this: Round, leaving: Bool) -> None:
    """Place all waiting real pods, as far as there is room. leaving : bool[N], nodes being deleted. O(P)."""
    snapshot, least = this.snapshot, this.settings.expendable_priority
    moving = np.zeros(0, np.int32)
    if leaving.any():
        moving = pods_to_move(snapshot, leaving, least)
        close_leaving(this.simulation, leaving, moving)
    first = this.simulation.pod_count
    evicted = np.arange(first, first + len(this.evictions), dtype=np.int32)
    pending = this.work.derive(f"pods that wait, of priority {least}", partial(_pending, snapshot, least))
    if not (len(moving) or len(evicted) or len(pending)):
        return
    where = places(this.simulation, leaving, this.settings.not_ready_taints, this.growth.upcoming)
    place_waiting(this.simulation, where, evicted, pending, np.zeros(0, np.int32), moving)


def _pending(snapshot: Snapshot, least_priority: int) -> Int32:
    """Return the pods that wait for a node and can be scheduled, whether the scheduler has tried them or not. int32."""
    pods = snapshot.pods
    priority = np.array([*(spec.priority for spec in snapshot.specs), 0], np.int64)
    waits = (pods.node == NO_NODE) & (pods.deletion_s == 0) & ~pods.is_terminal() & ((pods.flags & FLAG_GATED) == 0)
    return np.flatnonzero(waits & (priority >= least_priority)[pods.spec]).astype(np.int32)
