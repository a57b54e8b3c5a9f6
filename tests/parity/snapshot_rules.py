"""The rules of the certificates as verdicts: one pod, one node, over the contract's snapshot, without planner code.

Where these disagree with the real scheduler, the snapshot lacks something or the rules are wrong; where only the
planner disagrees, the planner is wrong.
"""

from __future__ import annotations

from tests.certificates.cluster import GATED, Cluster
from tests.certificates.scheduling import REASONS, Placement, lacking
from tests.parity.agreement import Verdict
from trimtab.v1 import snapshot_pb2 as pb


class RuledCluster:
    """A snapshot into which pods can be placed."""

    def __init__(self, snapshot: pb.ClusterSnapshot, compares_tolerations: bool = False) -> None:
        self.cluster = Cluster(snapshot)
        self.cluster.compares_tolerations = compares_tolerations
        self.node_of = {key: pod.node for key, pod in self.cluster.pods.items() if pod.node and not pod.ended}
        self._placement = Placement(self.cluster, set(self.cluster.nodes), self.node_of)

    def place(self, key: str, node: str) -> None:
        """Place a waiting pod."""
        self._placement.put(self.cluster.pods[key], node)

    def verdict(self, key: str, node: str) -> Verdict:
        """Return every reason why the pod does not fit the node, in the scheduler's order; its present place is
        ignored."""
        pod, on = self.cluster.pods[key], self._placement.on
        home = self.node_of.get(key)
        if home in on:
            on[home].remove(pod)
        on[node].append(pod)
        failing = [reason for reason, rule in REASONS.items() if rule(self._placement, pod, node)]
        without = lacking(self._placement, pod, node)
        on[node].pop()
        if home in on:
            on[home].append(pod)
        failing += ["SCHEDULING_GATED"] if pod.flags & GATED else []
        return Verdict(not failing, tuple(failing), tuple(sorted(without)))
