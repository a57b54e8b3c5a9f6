"""How nodes were removed, from the recorded status of the actuator and the nodes' taints.

Decides that a removal is under way while the status lists it or the node is tainted for it. Its end is the time of the
first round after it. Form: as `trimtab.clients.simulation.drains`. Times are Unix seconds.
"""

from typing import Any

from trimtab.clients.cli.report.history.nodes import RecordedNodes
from trimtab.clients.cli.report.history.pods import Pods
from trimtab.clients.simulation.drains import MOST_DRAINS
from trimtab.v1 import snapshot_pb2 as pb


class RecordedRemovals:
    """The removals of a recording. evicted : number of evictions, None = no status was recorded."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.evicted: int | None = None
        self._of: dict[str, dict[str, Any]] = {}
        self._deletions: dict[str, float] = {}
        self._evictions: set[str] = set()

    def read_status(self, status: pb.ActuationStatus, pods: Pods) -> None:
        """Read a status. pods : as they were before it, to find the nodes of evicted ones."""
        self._deletions = {one.node: one.start_time.ToMilliseconds() / 1000 for one in status.deletions}
        for node, since_s in self._deletions.items():
            self._begin(node, since_s)
        for one in status.recent_evictions:
            if one.uid not in self._evictions:
                self.evicted = (self.evicted or 0) + 1
                drain = self._of.get(pods.node_of(one.namespace, one.name))
                if drain is not None:
                    drain["evicted"].append(max(drain["tainted"], one.evict_time.ToMilliseconds() / 1000))
                    drain["evicted"].sort()
        self._evictions = {one.uid for one in status.recent_evictions}
        self.evicted = self.evicted or 0

    def end_round(self, now_s: float, nodes: RecordedNodes) -> None:
        """Begin and end removals according to the nodes of a round."""
        going = nodes.going
        for node in sorted(going):
            self._begin(node, now_s)
        for node in [name for name in self._of if name not in going and name not in self._deletions]:
            self._of.pop(node)["kept" if node in nodes.members else "gone"] = now_s

    def _begin(self, node: str, at_s: float) -> None:
        if node not in self._of and len(self.entries) < MOST_DRAINS:
            self._of[node] = {"node": node, "tainted": at_s, "evicted": []}
            self.entries.append(self._of[node])
